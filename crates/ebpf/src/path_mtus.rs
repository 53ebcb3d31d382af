//! Path MTUs of remotes: the map `path_mtus`, which the programs write when a router of the underlay says that a
//! tunnel packet was too large, and who looks for the path MTU by trying.

use std::collections::BTreeMap;
use std::net::IpAddr;

use zerocopy::{FromBytes, IntoBytes};

use crate::EbpfError;
use crate::abi;
use crate::maps::MapSet;
use crate::tables::{self, Contents, Table};

const PATH_MTUS: &str = "path_mtus";

/// What is known of the paths to remotes, by VTEP, also where it no longer counts. Remotes of which nothing is known
/// are not there.
pub fn all(maps: &MapSet) -> Result<BTreeMap<IpAddr, abi::PathMtu>, EbpfError> {
    let map = maps.map(PATH_MTUS)?;
    let mut known = BTreeMap::new();
    for (remote, number) in numbers(maps)? {
        let value = map
            .get(&number.to_ne_bytes())
            .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", PATH_MTUS))?;
        let value = value.and_then(|value| abi::PathMtu::read_from_bytes(&value).ok());
        if let Some(value) = value.filter(|value| value.mtu != 0) {
            known.insert(remote, value);
        }
    }
    Ok(known)
}

/// Says what is known of the path to a remote. False: there is no such remote.
pub fn set(maps: &MapSet, remote: IpAddr, value: &abi::PathMtu) -> Result<bool, EbpfError> {
    let Some(number) = numbers(maps)?.get(&remote).copied() else {
        return Ok(false);
    };
    maps.map(PATH_MTUS)?
        .put(&number.to_ne_bytes(), value.as_bytes())
        .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", PATH_MTUS))?;
    Ok(true)
}

/// Forgets what is known of the path to a remote. False: there is no such remote.
pub fn forget(maps: &MapSet, remote: IpAddr) -> Result<bool, EbpfError> {
    set(maps, remote, &abi::PathMtu::default())
}

/// The number of each remote, by VTEP. 0 is none.
fn numbers(maps: &MapSet) -> Result<BTreeMap<IpAddr, u32>, EbpfError> {
    let contents = Contents::from([(Table::Remotes, maps.entries(Table::Remotes)?)]);
    let numbers = tables::remote_numbers(&contents).filter(|(_, number)| *number != 0);
    Ok(numbers
        .map(|(remote, number)| (remote.into(), number))
        .collect())
}
