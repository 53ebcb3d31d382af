//! The Internet checksum (RFC 1071) with the pseudo headers of IPv4 (RFC 9293 §3.1) and IPv6
//! (RFC 8200 §8.1), and its incremental update (RFC 1624).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A running one's complement sum. Every part but the last must be of even length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// Nothing summed yet.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes; an odd last byte counts as if a zero followed.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (pairs, last) = bytes.as_chunks::<2>();
        // 2^48 pairs fit before the accumulator could overflow.
        let pairs: u64 = pairs
            .iter()
            .map(|pair| u64::from(u16::from_be_bytes(*pair)))
            .sum();
        let last: u64 = last.iter().map(|byte| u64::from(*byte) << 8).sum();
        Self(u64::from(self.fold()) + pairs + last)
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(u64::from(self.fold()) + u64::from(word))
    }

    /// Adds the pseudo header of an upper-layer packet of `length` bytes. Source and destination
    /// must be of one family.
    #[must_use]
    pub fn pseudo_header(
        self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        length: usize,
    ) -> Self {
        let addresses = |sum: Self, address| match address {
            IpAddr::V4(address) => sum.bytes(&Ipv4Addr::octets(&address)),
            IpAddr::V6(address) => sum.bytes(&Ipv6Addr::octets(&address)),
        };
        let sum = addresses(addresses(self, source), destination);
        // 16 bits of length in IPv4's pseudo header and 32 in IPv6's: the same sum.
        Self(u64::from(sum.fold()) + (length as u64 & 0xffff_ffff) + u64::from(protocol))
    }

    /// The sum folded to 16 bits, not inverted.
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum field: the folded sum, inverted.
    pub fn finish(self) -> u16 {
        !self.fold()
    }

    /// The checksum field of UDP, where 0 means "none" and a computed 0 is sent as 0xffff
    /// (RFC 768, RFC 8200 §8.1).
    pub fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// The sum includes a checksum field, and it is right.
    pub fn verifies(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).finish()
}

/// The new checksum after one 16-bit word changed from `old` to `new` (RFC 1624 equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::new().word(!checksum).word(!old).word(new).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1071_example() {
        // Section 3: the sum of these bytes is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).fold(), 0xddf2);
        assert_eq!(checksum(&bytes), 0x220d);
    }

    #[test]
    fn rfc_1624_example() {
        // Section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 gives 0x0000.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn odd_length() {
        assert_eq!(checksum(&[0x12]), !0x1200);
        assert_eq!(checksum(&[0x00, 0x01, 0xff]), !0xff01);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn pseudo_headers_of_both_families() {
        let v4 = Sum::new().pseudo_header([198, 18, 0, 1].into(), [198, 18, 0, 2].into(), 17, 8);
        assert_eq!(
            v4.fold(),
            Sum::new()
                .bytes(&[198, 18, 0, 1, 198, 18, 0, 2, 0, 17, 0, 8])
                .fold()
        );
        let (a, b): (Ipv6Addr, Ipv6Addr) =
            ("2001:2::1".parse().unwrap(), "2001:2::2".parse().unwrap());
        let v6 = Sum::new().pseudo_header(a.into(), b.into(), 58, 0x1_0008);
        let bytes = [&a.octets()[..], &b.octets(), &[0, 1, 0, 8, 0, 0, 0, 58]].concat();
        assert_eq!(v6.fold(), Sum::new().bytes(&bytes).fold());
    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        let sum = Sum::new().word(0xffff);
        assert_eq!(sum.finish(), 0);
        assert_eq!(sum.finish_udp(), 0xffff);
        assert!(sum.verifies());
    }
}
