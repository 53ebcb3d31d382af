//! Why bytes are not the header they were taken for. The list is closed; a packet's drop reason
//! (`bpf/lib/verdicts.h`) follows from the variant and from where the header stands, outer or inner.

use std::fmt;
use std::net::Ipv6Addr;

use thiserror::Error;

/// The header an error speaks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Ethernet with its VLAN tags.
    Ethernet,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4 with options.
    Ipv4,
    /// IPv6 fixed header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// UDP.
    Udp,
    /// TCP with options.
    Tcp,
    /// ICMP or ICMPv6.
    Icmp,
    /// Neighbour discovery in ICMPv6.
    Nd,
    /// VXLAN.
    Vxlan,
    /// Geneve base header.
    Geneve,
    /// A Geneve option.
    GeneveOption,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Extension => "IPv6 extension",
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Icmp => "ICMP",
            Self::Nd => "neighbour discovery",
            Self::Vxlan => "VXLAN",
            Self::Geneve => "Geneve",
            Self::GeneveOption => "Geneve option",
        })
    }
}

/// Why bytes are not a valid header, or a header does not fit its buffer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end before the header does.
    #[error("{layer} header needs {needed} bytes, {have} are there")]
    Truncated {
        /// Which header.
        layer: Layer,
        /// Bytes the header needs.
        needed: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The IP version nibble is another.
    #[error("{layer} header with version {found}")]
    Version {
        /// The header that was expected.
        layer: Layer,
        /// The version found.
        found: u8,
    },
    /// A header length (IPv4 IHL, TCP data offset) below the fixed part.
    #[error("{layer} header length of {found} bytes is below the minimum")]
    HeaderLength {
        /// Which header.
        layer: Layer,
        /// Header length, in bytes.
        found: usize,
    },
    /// A total or payload length that disagrees with its own header or with the bytes there are.
    #[error("{layer} length field claims {claimed} bytes, {have} are there")]
    Length {
        /// Which header.
        layer: Layer,
        /// The length field's value.
        claimed: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A checksum that does not verify.
    #[error("{layer} checksum is wrong")]
    Checksum {
        /// Which header.
        layer: Layer,
    },
    /// Options area longer than the header can express, or not in whole words.
    #[error("{layer} options of {found} bytes do not fit the header")]
    OptionsLength {
        /// Which header.
        layer: Layer,
        /// Bytes of options.
        found: usize,
    },
    /// An IPv4, TCP or neighbour discovery option whose length cannot be.
    #[error("{layer} option {kind} with length {length}")]
    OptionLength {
        /// Which header.
        layer: Layer,
        /// Option kind.
        kind: u8,
        /// The option's length field, in its own unit.
        length: usize,
    },
    /// A fragment where a whole packet is required.
    #[error("{layer} fragment at offset {offset}")]
    Fragment {
        /// IPv4, or the IPv6 fragment header.
        layer: Layer,
        /// Offset in bytes.
        offset: usize,
    },
    /// ARP of something else than IPv4 over Ethernet.
    #[error(
        "ARP for hardware {hardware} (length {hardware_len}), protocol 0x{protocol:04x} (length {protocol_len})"
    )]
    ArpKind {
        /// Hardware type; Ethernet is 1.
        hardware: u16,
        /// Hardware address length; Ethernet's is 6.
        hardware_len: u8,
        /// Protocol type; IPv4 is 0x0800.
        protocol: u16,
        /// Protocol address length; IPv4's is 4.
        protocol_len: u8,
    },
    /// An ICMPv6 type that is not router or neighbour solicitation or advertisement.
    #[error("ICMPv6 type {0} is not neighbour discovery")]
    NdType(u8),
    /// Neighbour discovery with a code other than 0 (RFC 4861 §7.1).
    #[error("neighbour discovery with code {0}")]
    NdCode(u8),
    /// A multicast target (RFC 4861 §7.1).
    #[error("neighbour discovery for multicast target {0}")]
    NdTarget(Ipv6Addr),
    /// More VLAN tags than the two that are understood.
    #[error("{0} VLAN tags, at most 2 are supported")]
    VlanTags(usize),
    /// The I flag is not set (RFC 7348 §5).
    #[error("VXLAN flags 0x{0:02x} without the I flag")]
    VxlanFlags(u8),
    /// Reserved bits are set, and the tunnel is strict.
    #[error("{layer} reserved bits are set")]
    ReservedBits {
        /// Which header.
        layer: Layer,
    },
    /// Unknown Geneve version (RFC 8926 §3.4).
    #[error("Geneve version {0}")]
    GeneveVersion(u8),
    /// A control packet: its payload is never forwarded (RFC 8926 §3.4, O bit).
    #[error("Geneve control packet")]
    GeneveControl,
    /// The payload is not an Ethernet frame.
    #[error("Geneve protocol 0x{0:04x} is not Ethernet (0x6558)")]
    GeneveProtocol(u16),
    /// Option lengths do not add up to the header's option length (RFC 8926 §3.5).
    #[error("Geneve option of {option} bytes where {left} bytes of options are left")]
    GeneveOptions {
        /// Length of the option, its header included.
        option: usize,
        /// Bytes of options left.
        left: usize,
    },
    /// An unknown option that says it must be understood (RFC 8926 §3.5.1).
    #[error("unknown critical Geneve option class 0x{class:04x} type 0x{kind:02x}")]
    GeneveCritical {
        /// Option class.
        class: u16,
        /// Option type, with its critical bit.
        kind: u8,
    },
    /// A known option of another length (RFC 8926 §3.5.1).
    #[error("Geneve option class 0x{class:04x} type 0x{kind:02x} with {length} bytes of data")]
    GeneveOptionLength {
        /// Option class.
        class: u16,
        /// Option type, with its critical bit.
        kind: u8,
        /// Bytes of data.
        length: usize,
    },
    /// VNI 0, which the fabric never uses.
    #[error("{layer} with VNI 0")]
    VniZero {
        /// VXLAN or Geneve.
        layer: Layer,
    },
    /// Less than an Ethernet header inside the tunnel.
    #[error("inner frame of {0} bytes is shorter than an Ethernet header")]
    InnerTooSmall(usize),
    /// The buffer is too short to emit into.
    #[error("buffer of {room} bytes, {needed} needed")]
    Buffer {
        /// Bytes to emit.
        needed: usize,
        /// Bytes of room.
        room: usize,
    },
}
