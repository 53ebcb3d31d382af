//! The number of every logical port in its logical switch, which the OVN Geneve option carries.
//!
//! All hosts must agree on it without talking to each other, so it follows from the fabric file
//! alone: declared, or derived from the port's name. Derived keys begin at a hash of the name, so
//! that a port added or removed rarely moves the key of another.

use std::collections::HashSet;

use overlane_wire::PortKey;

/// How many keys a logical switch has, and so how many ports.
pub(crate) const KEYS: usize = PortKey::MAX as usize;

/// Keys for `names` (sorted) that avoid each other and those in `taken`. Fewer than asked for if the
/// switch is full.
pub(crate) fn derive<'a>(
    names: impl Iterator<Item = &'a str>,
    mut taken: HashSet<PortKey>,
) -> Vec<PortKey> {
    let mut keys = Vec::new();
    for name in names {
        if taken.len() >= KEYS {
            break;
        }
        let start = fnv1a(name.as_bytes()) % u32::from(PortKey::MAX);
        // Linear probing; ends, because a key is free.
        let free = (0..u32::from(PortKey::MAX))
            .filter_map(|step| PortKey::try_from((start + step) % u32::from(PortKey::MAX) + 1).ok())
            .find(|key| !taken.contains(key));
        if let Some(key) = free {
            taken.insert(key);
            keys.push(key);
        }
    }
    keys
}

/// FNV-1a, 32 bits: short, and the same in every implementation.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
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
