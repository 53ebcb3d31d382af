//! The layers of a packet as a case writes them, outermost first. What is left out is computed when
//! the packet is [composed](crate::compose): lengths, checksums, types, next headers. What is given
//! stands in the packet, right or wrong.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::values::{Hex, MacText};

/// One layer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The tag beside the bytes. Only the first layer can be it.
    Tag(Tag),
    /// An Ethernet header.
    Eth(Eth),
    /// A VLAN tag in the bytes.
    Vlan(Tag),
    /// IPv4.
    Ip4(Ip4),
    /// IPv6.
    Ip6(Ip6),
    /// An IPv6 extension header.
    Ext6(Ext6),
    /// ARP.
    Arp(Arp),
    /// UDP.
    Udp(Udp),
    /// TCP.
    Tcp(Tcp),
    /// ICMP.
    Icmp4(Icmp),
    /// ICMPv6.
    Icmp6(Icmp),
    /// A neighbour solicitation.
    Ns(Ns),
    /// A neighbour advertisement.
    Na(Na),
    /// A router solicitation.
    Rs(Rs),
    /// A router advertisement.
    Ra(Ra),
    /// A redirect.
    Redirect(Redirect),
    /// VXLAN.
    Vxlan(Vxlan),
    /// Geneve.
    Geneve(Geneve),
    /// Payload: zero or more bytes that nothing reads.
    Payload(Payload),
    /// Bytes that stand for a header or anything else.
    Raw(Raw),
    /// Behind all others: the packet is padded with zeros to so many bytes.
    Pad(usize),
    /// Behind all others: the packet ends after so many bytes.
    Cut(usize),
    /// Behind all others: it is a super-packet.
    Gso(GsoSpec),
}

/// A struct of optional fields.
macro_rules! layer {
    ($($(#[$doc:meta])* struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }
    )+};
}

layer! {
    /// A VLAN tag.
    struct Tag {
        /// VLAN, default 0: priority only.
        id: u16,
        /// Priority, default 0.
        pcp: u8,
        /// Drop eligible, default false.
        dei: bool,
        /// What announces it, default 0x8100.
        tpid: u16,
        /// In the bytes: type of what follows.
        #[serde(rename = "type")]
        kind: u16,
    }

    /// An Ethernet header; default addresses are zero.
    struct Eth {
        /// Source.
        src: MacText,
        /// Destination.
        dst: MacText,
        /// Type; 0x88b5 (local experiments) before a payload.
        #[serde(rename = "type")]
        kind: u16,
    }

    /// An IPv4 header.
    struct Ip4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
        /// Default 64.
        ttl: u8,
        /// Default 0.
        dscp: u8,
        /// Default 0: Not-ECT.
        ecn: u8,
        /// Don't fragment.
        df: bool,
        /// More fragments.
        mf: bool,
        /// The reserved flag.
        reserved: bool,
        /// Fragment offset, in units of 8 bytes.
        offset: u16,
        /// Identification.
        id: u16,
        /// Default 253 (experiments) before a payload.
        protocol: u8,
        /// Length of the packet.
        total_len: u16,
        /// Header length, in units of 4 bytes.
        ihl: u8,
        /// Version.
        version: u8,
        /// Header checksum.
        checksum: u16,
        /// Options, a multiple of 4 bytes.
        options: Hex,
    }

    /// An IPv6 header.
    struct Ip6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
        /// Default 64; 255 before neighbour discovery.
        hop_limit: u8,
        /// Default 0.
        dscp: u8,
        /// Default 0: Not-ECT.
        ecn: u8,
        /// Default 0.
        flow_label: u32,
        /// Next header; 253 (experiments) before a payload.
        next: u8,
        /// Length of what follows.
        payload_len: u16,
        /// Version.
        version: u8,
    }

    /// An IPv6 extension header; `kind` must be given.
    struct Ext6 {
        /// Which.
        kind: Ext6Kind,
        /// Next header.
        next: u8,
        /// Length field, in units of 8 bytes without the first 8.
        len: u8,
        /// What follows the first two bytes; zeros (Pad1) fill it up to 8 bytes.
        data: Hex,
        /// Fragment: offset, in units of 8 bytes.
        offset: u16,
        /// Fragment: more follow.
        more: bool,
        /// Fragment: identification.
        id: u32,
    }

    /// An ARP packet.
    struct Arp {
        /// Operation, default a request.
        op: ArpOp,
        /// Sender's MAC; default the frame's source.
        sha: MacText,
        /// Sender's address.
        spa: Ipv4Addr,
        /// Target's MAC, default zero.
        tha: MacText,
        /// Target's address.
        tpa: Ipv4Addr,
        /// Type of hardware address, default 1.
        htype: u16,
        /// Type of protocol address, default 0x0800.
        ptype: u16,
        /// Length of a hardware address, default 6.
        hlen: u8,
        /// Length of a protocol address, default 4.
        plen: u8,
    }

    /// A UDP header.
    struct Udp {
        /// Source port.
        src: u16,
        /// Destination port; default that of the tunnel that follows.
        dst: u16,
        /// Checksum; default computed, but 0 before a tunnel header.
        checksum: u16,
        /// Length of header and payload.
        length: u16,
    }

    /// A TCP header.
    struct Tcp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Flags by their letters: C E U A P R S F. Default A.
        flags: String,
        /// Sequence number.
        seq: u32,
        /// Acknowledgment number.
        ack: u32,
        /// Default 65535.
        window: u16,
        /// Checksum.
        checksum: u16,
        /// Urgent pointer.
        urgent: u16,
        /// Header length, in units of 4 bytes.
        data_offset: u8,
        /// Options, a multiple of 4 bytes.
        options: Hex,
    }

    /// ICMP or ICMPv6, of any type.
    struct Icmp {
        /// Type; default an echo request.
        #[serde(rename = "type")]
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes behind the checksum.
        rest: u32,
        /// Checksum.
        checksum: u16,
    }

    /// A neighbour solicitation (RFC 4861 section 4.3).
    struct Ns {
        /// The address asked for.
        target: Ipv6Addr,
        /// Source link-layer address option.
        slla: MacText,
        /// Further options.
        options: Hex,
        /// Reserved bits.
        reserved: u32,
        /// Code.
        code: u8,
        /// Checksum.
        checksum: u16,
    }

    /// A neighbour advertisement (RFC 4861 section 4.4).
    struct Na {
        /// The address spoken about.
        target: Ipv6Addr,
        /// Target link-layer address option.
        tlla: MacText,
        /// Flags by their letters: R S O. Default none.
        flags: String,
        /// Further options.
        options: Hex,
        /// Reserved bits.
        reserved: u32,
        /// Code.
        code: u8,
        /// Checksum.
        checksum: u16,
    }

    /// A router solicitation (RFC 4861 section 4.1).
    struct Rs {
        /// Source link-layer address option.
        slla: MacText,
        /// Further options.
        options: Hex,
        /// Reserved bits.
        reserved: u32,
        /// Code.
        code: u8,
        /// Checksum.
        checksum: u16,
    }

    /// A router advertisement (RFC 4861 section 4.2).
    struct Ra {
        /// Hop limit for hosts, default 64.
        hop_limit: u8,
        /// Managed, other and further flags.
        flags: u8,
        /// Seconds this router may be the default one, default 1800.
        lifetime: u16,
        /// Milliseconds a neighbour counts as reachable.
        reachable: u32,
        /// Milliseconds between solicitations.
        retrans: u32,
        /// Source link-layer address option.
        slla: MacText,
        /// Further options.
        options: Hex,
        /// Code.
        code: u8,
        /// Checksum.
        checksum: u16,
    }

    /// A redirect (RFC 4861 section 4.5).
    struct Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// What it is better for.
        destination: Ipv6Addr,
        /// Target link-layer address option.
        tlla: MacText,
        /// Further options.
        options: Hex,
        /// Reserved bits.
        reserved: u32,
        /// Code.
        code: u8,
        /// Checksum.
        checksum: u16,
    }

    /// A VXLAN header.
    struct Vxlan {
        /// 24 bits.
        vni: u32,
        /// Default 0x08: the VNI is valid.
        flags: u8,
        /// The 24 bits behind the flags.
        reserved: u32,
        /// The 8 bits behind the VNI.
        reserved2: u8,
    }

    /// A Geneve header.
    struct Geneve {
        /// 24 bits.
        vni: u32,
        /// Options.
        options: Vec<GeneveOption>,
        /// C bit; default whether there is a critical option.
        critical: bool,
        /// O bit: a control packet.
        oam: bool,
        /// Version.
        version: u8,
        /// Length of the options, in units of 4 bytes.
        opt_len: u8,
        /// Type of what follows, default 0x6558.
        protocol: u16,
        /// The 6 bits behind the flags.
        reserved: u8,
        /// The 8 bits behind the VNI.
        reserved2: u8,
    }

    /// A Geneve option: OVN's, or class, type and data.
    struct GeneveOption {
        /// OVN's.
        ovn: Ovn,
        /// Class.
        class: u16,
        /// Type, with the critical bit 0x80.
        #[serde(rename = "type")]
        kind: u8,
        /// Length field, in units of 4 bytes.
        len: u8,
        /// Data.
        data: Hex,
        /// The three bits before the length.
        reserved: u8,
    }

    /// Data of OVN's option: class 0x0102, type 0x80.
    struct Ovn {
        /// Key of the port it comes from (the highest bit is reserved).
        from: u16,
        /// Key of the port it is for; from 0x8000 on, a group.
        to: u16,
    }

    /// Payload: of a size, a text, or bytes.
    struct Payload {
        /// So many bytes that count up from 0.
        size: usize,
        /// A text.
        text: String,
        /// Bytes.
        hex: Hex,
    }

    /// Bytes.
    struct Raw {
        /// The bytes.
        hex: Hex,
    }

    /// How a super-packet is cut; `kind` and `size` must be given.
    struct GsoSpec {
        /// What is cut.
        kind: GsoName,
        /// Payload of a segment.
        size: u16,
        /// Segments; default what the payload of the innermost transport is worth.
        segments: u32,
    }
}

/// An IPv6 extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ext6Kind {
    /// Hop-by-hop options, 0.
    Hop,
    /// Routing, 43.
    Routing,
    /// Fragment, 44.
    Fragment,
    /// Destination options, 60.
    Dest,
}

/// An ARP operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArpOp {
    /// 1.
    Request,
    /// 2.
    Reply,
    /// Any other number.
    Number(u16),
}

/// What a super-packet is cut of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GsoName {
    /// A TCP stream.
    Tcp,
    /// `UDP_SEGMENT`.
    Udp,
    /// SCTP chunks.
    Sctp,
}

impl Ext6Kind {
    /// Its protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Hop => 0,
            Self::Routing => 43,
            Self::Fragment => 44,
            Self::Dest => 60,
        }
    }

    /// The kind with this protocol number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Hop),
            43 => Some(Self::Routing),
            44 => Some(Self::Fragment),
            60 => Some(Self::Dest),
            _ => None,
        }
    }
}
