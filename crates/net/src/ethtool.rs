//! Device features (offloads), pause frames and driver, through the ethtool ioctl.
//!
//! Everything acts in the namespace of the calling thread. Features have the kernel's names
//! (`tx-tcp-segmentation`); the short names of ethtool(8) (`tso`, `gso`, `gro`, `tx`, `rx`, `sg`, `lro`)
//! stand for their groups when setting.

use std::collections::BTreeMap;

use netlink_sys::{Socket, protocols::NETLINK_GENERIC};

use crate::error::{NetError, Place, RejectedFeature, Rejection, errno_of};
use crate::netns;
use crate::sys::{
    self, GDRVINFO, GFEATURES, GPAUSEPARAM, GSSET_INFO, GSTRINGS, SFEATURES, STRING_WORDS,
};

/// `ETH_SS_FEATURES`: the set of strings that names the features.
const SS_FEATURES: u32 = 4;

/// What the short names of ethtool(8) stand for; `*` is any rest of a name.
const GROUPS: [(&str, &[&str]); 7] = [
    ("rx", &["rx-checksum"]),
    ("tx", &["tx-checksum-*"]),
    ("sg", &["tx-scatter-gather", "tx-scatter-gather-fraglist"]),
    ("tso", &["tx-tcp-*", "tx-tcp6-*"]),
    ("gso", &["tx-generic-segmentation"]),
    ("gro", &["rx-gro"]),
    ("lro", &["rx-lro"]),
];

/// Pause frames (IEEE 802.3x).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Negotiated with the other end.
    pub autoneg: bool,
    /// Heeded when received.
    pub rx: bool,
    /// Sent when overrun.
    pub tx: bool,
}

/// Who drives a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// Driver's name.
    pub name: String,
    /// Driver's version.
    pub version: String,
    /// Firmware's version, empty for virtual devices.
    pub firmware: String,
    /// Place on the bus, empty for virtual devices.
    pub bus: String,
}

/// All features of a device: name → active.
pub fn features(device: &str) -> Result<BTreeMap<String, bool>, NetError> {
    let ethtool = Ethtool::open(device, "read the features")?;
    let features = ethtool.features()?;
    Ok(features
        .into_iter()
        .map(|feature| (feature.name, feature.active))
        .collect())
}

/// Sets features and reads them back; the error names those that did not take.
///
/// Of a group, the members that the device cannot change are left out, unless that is all of them.
pub fn set_features(device: &str, wanted: &[(&str, bool)]) -> Result<(), NetError> {
    let ethtool = Ethtool::open(device, "set the features")?;
    let before = ethtool.features()?;
    let mut rejected = Vec::new();
    let mut asked: BTreeMap<usize, bool> = BTreeMap::new();
    for &(name, value) in wanted {
        match select(&before, name, value) {
            Ok(indices) => asked.extend(indices.into_iter().map(|index| (index, value))),
            Err(reason) => {
                rejected.push(RejectedFeature {
                    name: name.to_owned(),
                    wanted: value,
                    reason,
                });
            }
        }
    }
    ethtool.change(before.len(), &asked)?;
    let after = ethtool.features()?;
    rejected.extend(asked.iter().filter_map(|(&index, &value)| {
        let feature = after.get(index).filter(|feature| feature.active != value)?;
        let (name, reason) = (feature.name.clone(), Rejection::Overridden);
        Some(RejectedFeature {
            name,
            wanted: value,
            reason,
        })
    }));
    if rejected.is_empty() {
        return Ok(());
    }
    Err(NetError::Features {
        place: ethtool.place(),
        rejected,
    })
}

/// The pause frames of a device; virtual devices mostly have none and answer "not supported".
pub fn pause(device: &str) -> Result<Pause, NetError> {
    let mut buffer = [GPAUSEPARAM, 0, 0, 0];
    Ethtool::open(device, "read the pause parameters")?.call(&mut buffer)?;
    let [_, autoneg, rx, tx] = buffer.map(|word| word != 0);
    Ok(Pause { autoneg, rx, tx })
}

/// The driver of a device.
pub fn driver(device: &str) -> Result<Driver, NetError> {
    // struct ethtool_drvinfo: the command, five strings of 32 bytes, 12 reserved bytes, five words.
    let mut buffer = [0; 1 + 5 * 8 + 3 + 5];
    buffer[0] = GDRVINFO;
    Ethtool::open(device, "read the driver")?.call(&mut buffer)?;
    let mut texts = buffer[1..].chunks_exact(8).map(text);
    let mut next = || texts.next().unwrap_or_default();
    Ok(Driver {
        name: next(),
        version: next(),
        firmware: next(),
        bus: next(),
    })
}

/// One feature; its place in the list is its bit.
struct Feature {
    name: String,
    changeable: bool,
    active: bool,
}

/// A device, and what is being done with it.
struct Ethtool<'a> {
    socket: Socket,
    device: &'a str,
    operation: &'static str,
}

impl<'a> Ethtool<'a> {
    fn open(device: &'a str, operation: &'static str) -> Result<Self, NetError> {
        // Any socket will do: it only says which namespace the device is in.
        let socket = Socket::new(NETLINK_GENERIC).map_err(|error| {
            let place = Place::new(Some(device), netns::current_name());
            NetError::refused(operation, place, errno_of(&error))
        })?;
        Ok(Self {
            socket,
            device,
            operation,
        })
    }

    fn call(&self, buffer: &mut [u32]) -> Result<(), NetError> {
        sys::ethtool(&self.socket, self.device, buffer)
            .map_err(|errno| NetError::refused(self.operation, self.place(), errno))
    }

    fn place(&self) -> Place {
        Place::new(Some(self.device), netns::current_name())
    }

    fn features(&self) -> Result<Vec<Feature>, NetError> {
        // struct ethtool_sset_info: command, reserved, mask of sets (64 bit), one count per set.
        let mut info = [GSSET_INFO, 0, 0, 0, 0];
        set_low_half(&mut info[2..4], 1 << SS_FEATURES);
        self.call(&mut info)?;
        let count = info[4] as usize;

        // struct ethtool_gstrings: command, set, count, strings.
        let mut strings = vec![0; 3 + count * STRING_WORDS];
        strings[..3].copy_from_slice(&[GSTRINGS, SS_FEATURES, info[4]]);
        self.call(&mut strings)?;

        // struct ethtool_gfeatures: command, number of blocks, per block of 32 features the bits available,
        // requested, active, never changed.
        let blocks = count.div_ceil(32);
        let mut bits = vec![0; 2 + blocks * 4];
        bits[..2].copy_from_slice(&[GFEATURES, blocks as u32]);
        self.call(&mut bits)?;

        let names = strings[3..].chunks_exact(STRING_WORDS).map(text);
        let features = names.enumerate().map(|(index, name)| {
            let block = &bits[2 + index / 32 * 4..][..4];
            let has = |word: u32| word >> (index % 32) & 1 == 1;
            Feature {
                name,
                changeable: has(block[0]) && !has(block[3]),
                active: has(block[2]),
            }
        });
        Ok(features.collect())
    }

    fn change(&self, count: usize, wanted: &BTreeMap<usize, bool>) -> Result<(), NetError> {
        if wanted.is_empty() {
            return Ok(());
        }
        // struct ethtool_sfeatures: command, number of blocks, per block the bits valid, requested.
        let blocks = count.div_ceil(32);
        let mut bits = vec![0; 2 + blocks * 2];
        bits[..2].copy_from_slice(&[SFEATURES, blocks as u32]);
        for (&index, &value) in wanted {
            let block = &mut bits[2 + index / 32 * 2..][..2];
            block[0] |= 1 << (index % 32);
            block[1] |= u32::from(value) << (index % 32);
        }
        self.call(&mut bits)
    }
}

/// The features that `name`, one feature's or a group's, is to change.
fn select(features: &[Feature], name: &str, value: bool) -> Result<Vec<usize>, Rejection> {
    let group = GROUPS.iter().find(|(short, _)| *short == name);
    let patterns = group.map_or(std::slice::from_ref(&name), |(_, patterns)| patterns);
    let mut named = features
        .iter()
        .enumerate()
        .filter(|(_, feature)| {
            patterns
                .iter()
                .any(|pattern| matches(pattern, &feature.name))
        })
        .peekable();
    if named.peek().is_none() {
        return Err(Rejection::Unknown);
    }
    // What is fixed at the wanted value is as wanted.
    let (mut changeable, mut as_wanted) = (Vec::new(), false);
    for (index, feature) in named {
        if feature.changeable {
            changeable.push(index);
        } else {
            as_wanted |= feature.active == value;
        }
    }
    if changeable.is_empty() && !as_wanted {
        Err(Rejection::Fixed)
    } else {
        Ok(changeable)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Puts a number below 2^32 into a 64-bit field of the kernel's byte order.
fn set_low_half(field: &mut [u32], value: u32) {
    field[if cfg!(target_endian = "little") { 0 } else { 1 }] = value;
}

/// A C string in a field of words.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature(name: &str, changeable: bool, active: bool) -> Feature {
        Feature {
            name: name.to_owned(),
            changeable,
            active,
        }
    }

    #[test]
    fn groups_select_their_changeable_members() {
        let features = [
            feature("tx-tcp-segmentation", true, true),
            feature("tx-tcp-ecn-segmentation", false, false),
            feature("tx-tcp6-segmentation", true, true),
            feature("rx-gro", true, true),
            feature("rx-gro-hw", true, true),
            feature("rx-lro", false, false),
        ];
        assert_eq!(select(&features, "tso", false), Ok(vec![0, 2]));
        assert_eq!(select(&features, "gro", false), Ok(vec![3]));
        assert_eq!(
            select(&features, "tx-tcp6-segmentation", false),
            Ok(vec![2])
        );
        assert_eq!(select(&features, "lro", false), Ok(vec![]));
        assert_eq!(select(&features, "lro", true), Err(Rejection::Fixed));
        assert_eq!(
            select(&features, "warp-drive", true),
            Err(Rejection::Unknown)
        );
    }

    #[test]
    fn text_ends_at_the_first_zero() {
        assert_eq!(text(&[u32::from_ne_bytes(*b"veth"), 0]), "veth");
        assert_eq!(text(&[u32::from_ne_bytes(*b"tap\0"), u32::MAX]), "tap");
    }
}
