//! The flow hash: the UDP source port of a tunnel packet follows from it, so that the underlay keeps a
//! flow together and spreads flows (RFC 7348 section 5). Bob Jenkins' lookup3 (`hashword`) over ten
//! little-endian words, with the configured seed; the same in `bpf/lib/csum.h`.
//!
//! ```text
//! | source address: 4 | destination address: 4 | ports: 1 | protocol: 1 |
//! ```

use std::net::IpAddr;

use crate::parse::mapped;

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

/// `hashword` of lookup3.c. The last one to three words are mixed in before `last`.
pub(crate) fn hash_words(words: &[u32], seed: u32) -> u32 {
    let start = 0xdead_beef_u32
        .wrapping_add((words.len() as u32) << 2)
        .wrapping_add(seed);
    let mut state = [start; 3];
    let mut rest = words;
    while let [a, b, c, more @ ..] = rest {
        if more.is_empty() {
            break;
        }
        state = mix(add(state, [*a, *b, *c]));
        rest = more;
    }
    match rest {
        [a, b, c] => last(add(state, [*a, *b, *c])),
        [a, b] => last(add(state, [*a, *b, 0])),
        [a] => last(add(state, [*a, 0, 0])),
        _ => start,
    }
}

/// Another hash of a hash: what was chosen by one says nothing of what is chosen by the other (MurmurHash3's end).
pub(crate) fn remix(hash: u32) -> u32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

fn add([a, b, c]: [u32; 3], [x, y, z]: [u32; 3]) -> [u32; 3] {
    [a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z)]
}

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

fn last([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers in lookup3.c (`driver5`) for `hashlittle`, which begins with the number of bytes where
    /// `hashword` takes that of words: over zero-filled words the two agree once the seed makes it up.
    #[test]
    fn known_answers_of_lookup3() {
        let text = b"Four score and seven years ago\0\0";
        let (chunks, rest) = text.as_chunks::<4>();
        let words: Vec<_> = chunks
            .iter()
            .map(|chunk| u32::from_le_bytes(*chunk))
            .collect();
        assert!(rest.is_empty());
        assert_eq!(hash_words(&words, 0_u32.wrapping_sub(2)), 0x1777_0551);
        assert_eq!(hash_words(&words, 1_u32.wrapping_sub(2)), 0xcd62_8161);
        assert_eq!(hash_words(&[], 0), 0xdead_beef);
    }

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
