//! The number of every logical port, and of every router's interface, in its logical switch, which the OVN
//! Geneve option carries; and the number of every router in the maps of the data path.
//!
//! All hosts must agree on them without talking to each other, so they follow from the fabric
//! file alone: declared, or derived from a name. Derived ones begin at a hash of the name, so
//! that a port added or removed rarely moves the key of another.

use std::collections::HashSet;
use std::net::IpAddr;

use overlane_wire::PortKey;

use crate::tables::RouterId;

/// How many keys a logical switch has, and so how many ports and routers' interfaces.
pub(crate) const KEYS: usize = PortKey::MAX as usize;

/// Keys for `names` (sorted) that avoid each other and those in `taken`. Fewer than asked for if the
/// switch is full.
pub(crate) fn derive<'a>(
    names: impl Iterator<Item = &'a str>,
    taken: HashSet<PortKey>,
) -> Vec<PortKey> {
    let taken = taken.into_iter().map(|key| u32::from(key.get())).collect();
    let numbers = numbers(names, taken, u32::from(PortKey::MAX));
    let keys = numbers.into_iter();
    keys.filter_map(|key| PortKey::try_from(key).ok()).collect()
}

/// What a router's interface is called among the names of the ports of its switch; no port has such a name.
pub(crate) fn interface(router: &str, switch: &str) -> String {
    format!("{router}/{switch}")
}

/// Numbers for routers, by their `names` (sorted). Fewer than asked for if there are none left.
pub(crate) fn routers<'a>(names: impl Iterator<Item = &'a str>) -> Vec<RouterId> {
    let numbers = numbers(names, HashSet::new(), RouterId::MAX);
    numbers.into_iter().filter_map(RouterId::new).collect()
}

/// Numbers from 1 to `most`, each beginning at the hash of its name.
fn numbers<'a>(
    names: impl Iterator<Item = &'a str>,
    mut taken: HashSet<u32>,
    most: u32,
) -> Vec<u32> {
    let mut numbers = Vec::new();
    for name in names {
        let start = fnv1a(name.as_bytes()) % most;
        // Linear probing.
        let mut all = (0..most).map(|step| (start + step) % most + 1);
        let Some(free) = all.find(|number| !taken.contains(number)) else {
            break;
        };
        taken.insert(free);
        numbers.push(free);
    }
    numbers
}

/// FNV-1a, 32 bits: short, and the same in every implementation.
pub(crate) fn fnv1a(bytes: &[u8]) -> u32 {
    let mut hash = Fnv1a::new();
    hash.add(bytes);
    hash.get()
}

/// FNV-1a of bytes that come in pieces.
pub(crate) struct Fnv1a(u32);

impl Fnv1a {
    pub(crate) fn new() -> Self {
        Self(0x811c_9dc5)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }

    pub(crate) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add(&[&[4][..], &address.octets()].concat()),
            IpAddr::V6(address) => self.add(&[&[6][..], &address.octets()].concat()),
        }
    }

    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(names: &[&str], taken: &[u16]) -> Vec<u16> {
        let taken = taken
            .iter()
            .map(|&key| PortKey::new(key).unwrap())
            .collect();
        derive(names.iter().copied(), taken)
            .iter()
            .map(|key| key.get())
            .collect()
    }

    #[test]
    fn published_hash_values() {
        // Test vectors of the FNV reference code.
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn keys_never_change_between_versions() {
        let web1 = (fnv1a(b"web1") % 32767 + 1) as u16;
        assert_eq!(numbers(&["web1"], &[]), [web1]);
        assert_eq!(
            numbers(&["a", "web1"], &[]),
            [(0xe40c_292c_u32 % 32767 + 1) as u16, web1]
        );
    }

    #[test]
    fn a_hash_near_the_greatest_number_is_one_like_others() {
        assert_eq!(fnv1a(b"web416612"), 0xffff_cb45);
        assert_eq!(numbers(&["web416612"], &[]), [19273]);
    }

    #[test]
    fn a_taken_key_is_stepped_over() {
        let start = numbers(&["a"], &[])[0];
        assert_eq!(numbers(&["a"], &[start]), [start + 1]);
        assert_eq!(numbers(&["a"], &[start, start + 1]), [start + 2]);
    }

    #[test]
    fn the_last_free_key_is_found_and_then_none() {
        let all: Vec<u16> = (2..=32767).collect();
        assert_eq!(numbers(&["a", "b"], &all), [1]);
        let all: Vec<u16> = (1..=32767).collect();
        assert_eq!(numbers(&["a"], &all), [0_u16; 0]);
    }
}
