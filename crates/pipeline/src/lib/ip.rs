//! The IP header of a frame, as far as it decides.

use std::net::{IpAddr, Ipv6Addr};

use overlane_wire::ip::protocol;

use crate::lib::bytes::array;

/// What later stages ask about an IP packet. Offsets are from the start of the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// DSCP and ECN.
    pub(crate) traffic_class: u8,
    /// What follows the header, and the IPv6 extension headers that are skipped; of a later fragment what its header
    /// names.
    pub(crate) protocol: u8,
    /// Of what follows.
    pub(crate) l4_at: usize,
    /// Of the packet's end, as its header says: padding may follow.
    pub(crate) end: usize,
    /// `None`: the packet is whole.
    pub(crate) fragment: Option<Fragment>,
    /// Whole, behind an IPv6 fragment header (RFC 6946).
    pub(crate) is_atomic: bool,
    /// An extension header may name another end, which checksums cover.
    pub(crate) may_have_other_ends: bool,
}

/// What its header says of a fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    /// The same of all fragments of a datagram.
    pub(crate) identification: u32,
    /// Its place in the datagram, in bytes.
    pub(crate) offset: usize,
    /// The protocol, over IPv6 the next header, that stands beside the identification.
    pub(crate) next: u8,
    /// Where its part of the datagram begins.
    pub(crate) begin: usize,
}

impl Fragment {
    /// Of the bytes 4 to 7 of an IPv4 header. `None`: the packet is whole.
    pub(crate) fn of_ipv4([i0, i1, f0, f1]: [u8; 4], protocol: u8, l4_at: usize) -> Option<Self> {
        let field = u16::from_be_bytes([f0, f1]);
        let fragment = Self {
            identification: u16::from_be_bytes([i0, i1]).into(),
            offset: usize::from(field & 0x1fff) * 8,
            next: protocol,
            begin: l4_at,
        };
        (field & 0x3fff != 0).then_some(fragment)
    }

    pub(crate) fn is_first(&self) -> bool {
        self.offset == 0
    }
}

impl Ip {
    /// The first fragment or a later one.
    pub(crate) fn is_fragment(&self) -> bool {
        self.fragment.is_some()
    }

    /// One without a transport header.
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.is_first())
    }

    /// Its extension headers do not end where they can be read: nobody knows what it carries.
    pub(crate) fn is_hidden(&self) -> bool {
        let is_open = is_extension(self.protocol) && !self.is_later_fragment();
        self.source.is_ipv6() && (is_open || self.l4_at > self.end)
    }

    /// A first fragment, which shows what later ones are known by.
    pub(crate) fn first_seen(&self) -> Option<Fragment> {
        let first = self.fragment.filter(Fragment::is_first);
        first.filter(|_| !self.is_hidden())
    }

    /// As the flow hash has it: of every IPv6 fragment the same.
    pub(crate) fn flow_protocol(&self) -> u8 {
        match self.source {
            IpAddr::V6(_) if self.is_fragment() => protocol::FRAGMENT,
            _ => self.protocol,
        }
    }

    /// Source and destination port, of protocols that begin with them.
    pub(crate) fn ports(&self, bytes: &[u8]) -> Option<[u8; 4]> {
        match self.protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP => array(bytes, self.l4_at),
            _ => None,
        }
    }

    /// For an explanation.
    pub(crate) fn describe(&self, bytes: &[u8]) -> String {
        let (source, destination) = (self.source, self.destination);
        let name = match self.protocol {
            protocol::TCP => "TCP".to_owned(),
            protocol::UDP => "UDP".to_owned(),
            protocol::ICMP => "ICMP".to_owned(),
            protocol::ICMPV6 => "ICMPv6".to_owned(),
            protocol::SCTP => "SCTP".to_owned(),
            number => format!("protocol {number}"),
        };
        let ports = self.ports(bytes).filter(|_| !self.is_later_fragment());
        let ports = ports.map_or_else(String::new, |[s0, s1, d0, d1]| {
            let (source, destination) =
                (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
            format!(" port {source} → {destination}")
        });
        let part = match self.fragment {
            None => "",
            Some(fragment) if fragment.is_first() => ", a first fragment",
            Some(_) => ", a later fragment",
        };
        format!("{source} → {destination} {name}{ports}{part}")
    }
}

/// Headers that are skipped.
pub(crate) fn is_extension(next: u8) -> bool {
    matches!(
        next,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
    )
}

/// IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn mapped(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

/// An address that one host has.
pub(crate) fn is_of_one_host(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => !matches!(v4.octets(), [0 | 127 | 224.., ..]),
        IpAddr::V6(v6) => {
            let is_nobody = v6.is_unspecified() || v6.is_loopback() || v6.is_multicast();
            !is_nobody && v6.to_ipv4_mapped().is_none()
        }
    }
}
