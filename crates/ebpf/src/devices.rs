//! Map `devices`: the devices that packets come from and go to, held by the kernel (`bpf/lib/devices.h`). It takes an
//! entry away when its device goes or leaves the namespace.

use std::collections::BTreeSet;
use std::io;

use zerocopy::{FromBytes, IntoBytes};

use crate::maps::MapSet;
use crate::tables::{self, Contents, Table};
use crate::{EbpfError, abi};

const NAME: &str = "devices";

/// The indices of those that are still there.
pub fn held(maps: &MapSet) -> Result<BTreeSet<u32>, EbpfError> {
    let keys = (maps.map(NAME)?.keys()).map_err(EbpfError::call("BPF_MAP_GET_NEXT_KEY", NAME))?;
    let indices = keys.iter().filter_map(|key| u32::read_from_bytes(key).ok());
    Ok(indices.collect())
}

/// Holds the device that has this index now, in the namespace of this thread.
pub fn hold(maps: &MapSet, ifindex: u32) -> Result<(), EbpfError> {
    let held = put(maps, ifindex, ifindex)?;
    let failed = EbpfError::call("BPF_MAP_UPDATE_ELEM", format!("device {ifindex}"));
    held.map_err(|error| match error.raw_os_error() {
        // What the kernel says of a device that is not there.
        Some(libc::EINVAL) => failed(io::Error::from_raw_os_error(libc::ENODEV)),
        _ => failed(error),
    })
}

/// The device with this index is held: since then it was here, and nobody else had the index.
pub fn check(maps: &MapSet, device: &str, ifindex: u32) -> Result<(), EbpfError> {
    match maps.map(NAME)?.get(&ifindex.to_ne_bytes()) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(gone(device)),
        Err(error) => Err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", NAME)(error)),
    }
}

/// The device went since somebody looked at it, or is another one.
pub fn gone(device: &str) -> EbpfError {
    let error = io::Error::from_raw_os_error(libc::ENODEV);
    EbpfError::call("BPF_MAP_LOOKUP_ELEM", format!("device {device}"))(error)
}

/// Lets go of a device, if it is held.
pub fn release(maps: &MapSet, ifindex: u32) -> Result<(), EbpfError> {
    let deleted = maps.map(NAME)?.delete(&ifindex.to_ne_bytes());
    deleted.map_err(EbpfError::call("BPF_MAP_DELETE_ELEM", NAME))
}

/// The indices that entries of the tables name: devices that packets come from, or are sent to.
pub fn named(contents: &Contents) -> BTreeSet<u32> {
    let ports = tables::read::<abi::PortId, abi::Port>(contents, Table::Ports);
    let legs = tables::read::<u32, u32>(contents, Table::Legs);
    let settings = tables::read::<u32, abi::Settings>(contents, Table::Settings);
    let of_host = settings.flat_map(|(_, settings)| {
        [
            settings.uplink_ifindex,
            settings.segmenter_ifindex,
            settings.segmenter_out_ifindex,
            settings.unmarker_ifindex,
            settings.coalescer_ifindex,
        ]
    });
    let ports = ports.map(|(id, _)| id.ifindex);
    let legs = legs.map(|(ifindex, _)| ifindex);
    let all = ports.chain(legs).chain(of_host);
    all.filter(|ifindex| *ifindex != 0).collect()
}

/// Makes a device stand for another index, for programs that are only measured.
pub(crate) fn pretend(maps: &MapSet, ifindex: u32, device: u32) -> Result<(), EbpfError> {
    put(maps, ifindex, device)?.map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", NAME))
}

fn put(maps: &MapSet, key: u32, ifindex: u32) -> Result<io::Result<()>, EbpfError> {
    let device = abi::Device {
        ifindex,
        program: 0,
    };
    Ok(maps.map(NAME)?.put(&key.to_ne_bytes(), device.as_bytes()))
}
