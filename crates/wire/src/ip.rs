//! What IPv4 and IPv6 have in common: version, protocol numbers, and explicit congestion
//! notification (RFC 3168 §5), the low two bits of the traffic class.

/// Protocol numbers (IANA) of what follows an IP header.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing follows.
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// OSPF.
    pub const OSPF: u8 = 89;
    /// PIM.
    pub const PIM: u8 = 103;
    /// VRRP.
    pub const VRRP: u8 = 112;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// Mobility header.
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// Host identity protocol.
    pub const HOST_IDENTITY: u8 = 139;
    /// Shim6.
    pub const SHIM6: u8 = 140;
}

/// Which IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The four ECN code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ecn {
    /// 00: not capable.
    #[default]
    NotEct,
    /// 01.
    Ect1,
    /// 10.
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

impl Ecn {
    /// From the low two bits; the others are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_all_code_points() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits | 0xfc).bits(), bits);
        }
        assert_eq!(Ecn::from_bits(1), Ecn::Ect1);
    }
}
