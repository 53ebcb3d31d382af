//! The flow hash: the UDP source port of a tunnel packet follows from it, so that the underlay keeps a
//! flow together and spreads flows (RFC 7348 section 5). Bob Jenkins' lookup3 (`hashword`) over ten
//! little-endian words, with the configured seed; the same in `bpf/lib/csum.h`.
//!
//! ```text
//! | source address: 4 | destination address: 4 | ports: 1 | protocol: 1 |
//! ```

use std::net::IpAddr;

use overlane_wire::hash::hash_words;

use crate::lib::ip::mapped;

const WORDS: usize = 10;

/// What makes a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow([u8; 4 * WORDS]);

impl Flow {
    /// Of a frame that is not IP: its Ethernet header.
    pub(crate) fn of_ethernet(header: [u8; 14]) -> Self {
        let mut bytes = [0; 4 * WORDS];
        for (place, byte) in bytes.iter_mut().zip(header) {
            *place = byte;
        }
        Self(bytes)
    }

    /// Of an IP packet: `ports` as they stand on the wire, or zeros.
    pub(crate) fn of_ip(source: IpAddr, destination: IpAddr, ports: [u8; 4], protocol: u8) -> Self {
        let parts = mapped(source).octets().into_iter();
        let parts = parts.chain(mapped(destination).octets()).chain(ports);
        let mut bytes = [0; 4 * WORDS];
        for (place, byte) in bytes.iter_mut().zip(parts.chain([protocol])) {
            *place = byte;
        }
        Self(bytes)
    }

    /// The hash.
    pub(crate) fn hash(&self, seed: u32) -> u32 {
        let mut words = [0; WORDS];
        let (chunks, _) = self.0.as_chunks::<4>();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u32::from_le_bytes(*chunk);
        }
        hash_words(&words, seed)
    }
}

/// The source port within the configured range.
pub(crate) fn source_port(hash: u32, ports: &std::ops::RangeInclusive<u16>) -> u16 {
    let count = u64::from(ports.end().saturating_sub(*ports.start())) + 1;
    // Less than `count`, so the sum stays in the range.
    ports.start() + ((u64::from(hash) * count) >> 32) as u16
}

/// Another hash of a hash: what was chosen by one says nothing of what is chosen by the other (MurmurHash3's end).
pub(crate) fn remix(hash: u32) -> u32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `flow_hash()` of `bpf/lib/csum.h`.
    #[test]
    fn the_data_path_says_the_same() {
        let [a, b] = ["198.18.100.1", "198.18.100.2"].map(|text| text.parse().unwrap());
        let [six_a, six_b] = ["2001:2::1", "2001:2::2"].map(|text| text.parse().unwrap());
        let ports = [0x9c, 0x40, 0, 80];
        let ethernet = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0x11, 8, 6];
        let seed = overlane_model::Tunnel::HASH_SEED;
        let both = |flow: Flow| [flow.hash(0), flow.hash(seed)];
        assert_eq!(
            both(Flow::of_ip(a, b, ports, 6)),
            [0x62fe_de59, 0x9c28_910e]
        );
        assert_eq!(
            both(Flow::of_ip(six_a, six_b, [0; 4], 58)),
            [0x2d37_c581, 0x28db_b3bf]
        );
        assert_eq!(
            both(Flow::of_ethernet(ethernet)),
            [0x9e67_d9d5, 0x4e98_d033]
        );
    }

    #[test]
    fn source_ports_stay_in_their_range() {
        let all = 0..=u16::MAX;
        assert_eq!(source_port(0, &all), 0);
        assert_eq!(source_port(u32::MAX, &all), u16::MAX);
        let some = 50_000..=50_002;
        assert_eq!(source_port(0x5555_5555, &some), 50_000);
        assert_eq!(source_port(0x5555_5556, &some), 50_001);
        assert_eq!(source_port(u32::MAX, &some), 50_002);
        assert_eq!(source_port(u32::MAX, &(7..=7)), 7);
    }
}
