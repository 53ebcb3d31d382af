//! Packets as packet sockets and TAPs have them: a virtio header (virtio 1.3 section 5.1.6) says what makes a
//! super-packet and which checksum is still to be computed, and a tag that is sent stands in the bytes.
//!
//! ```text
//! packet socket | virtio: 10                              | frame
//! TAP           | virtio: 10 | buffers, hash: 10 | at: 4  | frame     at: of outer UDP and inner IP
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Encapsulation;
use overlane_pipeline::{Gso, GsoKind, Packet};
use overlane_wire::checksum::Sum;
use overlane_wire::ethernet::{self, Tag};
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, geneve, ipv4, ipv6, tcp, udp, vxlan};

/// Length of `struct virtio_net_hdr`.
pub(super) const SOCKET_HEADER_LEN: usize = 10;
/// Length of `struct virtio_net_hdr_v1_hash_tunnel` (Linux 6.17).
pub(super) const TAP_HEADER_LEN: usize = 24;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_TUNNEL4: u8 = 0x20;
const GSO_TUNNEL6: u8 = 0x40;
const GSO_ECN: u8 = 0x80;
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
const MAX_EXTENSION_HEADERS: usize = 6;

/// What stands before a frame. All zero: it is what it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Header {
    flags: u8,
    gso: u8,
    header_len: u16,
    gso_size: u16,
    checksum_from: u16,
    checksum_at: u16,
    outer_udp_at: u16,
    inner_ip_at: u16,
}

/// An IP header and what follows it. Places are from the start of the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip {
    pub(super) at: usize,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) l4_at: usize,
}

/// A packet ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct ToSend {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
}

impl Header {
    /// As a packet socket has it.
    pub(super) fn socket_bytes(&self) -> [u8; SOCKET_HEADER_LEN] {
        let mut bytes = [0; SOCKET_HEADER_LEN];
        bytes.copy_from_slice(&self.tap_bytes()[..SOCKET_HEADER_LEN]);
        bytes
    }

    /// As a TAP has it.
    pub(super) fn tap_bytes(&self) -> [u8; TAP_HEADER_LEN] {
        let mut bytes = [0; TAP_HEADER_LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso;
        let words = [
            (2, self.header_len),
            (4, self.gso_size),
            (6, self.checksum_from),
            (8, self.checksum_at),
        ];
        for (at, word) in words {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        // These two are little-endian whatever the machine.
        bytes[20..22].copy_from_slice(&self.outer_udp_at.to_le_bytes());
        bytes[22..24].copy_from_slice(&self.inner_ip_at.to_le_bytes());
        bytes
    }

    /// A super-packet in a tunnel.
    pub(super) const fn is_in_tunnel(&self) -> bool {
        self.gso & (GSO_TUNNEL4 | GSO_TUNNEL6) != 0
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            flags: *bytes.first()?,
            gso: *bytes.get(1)?,
            header_len: word(2)?,
            gso_size: word(4)?,
            checksum_from: word(6)?,
            checksum_at: word(8)?,
            outer_udp_at: 0,
            inner_ip_at: 0,
        })
    }
}

/// How a packet is sent; `None`: a super-packet that these headers cannot describe. `tunnel`: it comes from
/// the underlay.
pub(super) fn to_send(packet: &Packet, tunnel: Option<Encapsulation>) -> Option<ToSend> {
    let mut bytes = match packet.tag {
        Some(tag) => tag.insert(&packet.bytes)?,
        None => packet.bytes.clone(),
    };
    let header = match packet.gso {
        None => Header::default(),
        Some(gso) => super_packet(&mut bytes, gso, tunnel)?,
    };
    Some(ToSend { header, bytes })
}

/// A packet that was received behind a virtio header of `header_len` bytes.
pub(super) fn received(bytes: &[u8], header_len: usize, tag: Option<Tag>) -> Option<Packet> {
    let header = Header::parse(bytes)?;
    let mut bytes = bytes.get(header_len..)?.to_vec();
    let kind = match header.gso & !GSO_ECN {
        GSO_TCP4 | GSO_TCP6 => Some(GsoKind::Tcp),
        GSO_UDP => Some(GsoKind::Udp),
        _ => None,
    };
    if kind.is_none() && header.flags & NEEDS_CHECKSUM != 0 {
        complete_checksum(
            &mut bytes,
            header.checksum_from.into(),
            header.checksum_at.into(),
        );
    }
    let gso = kind.map(|kind| Gso {
        kind,
        size: header.gso_size,
        segments: bytes.len().div_ceil(header.gso_size.max(1).into()) as u32,
    });
    Some(Packet { bytes, tag, gso })
}

/// The packet with a tag in its bytes beside them, as the kernel hands it over.
pub(super) fn untagged(mut packet: Packet) -> Packet {
    packet.tag = packet.tag.or_else(|| Tag::take(&mut packet.bytes));
    packet
}

/// The IP header of the frame at `at`, behind at most one tag.
pub(super) fn ip(bytes: &[u8], at: usize) -> Option<Ip> {
    let (kind, at) = payload(bytes, at)?;
    match kind {
        EtherType::IPV4 => Some(Ip {
            at,
            source: Ipv4Addr::from(*bytes.get(at + 12..)?.first_chunk::<4>()?).into(),
            destination: Ipv4Addr::from(*bytes.get(at + 16..)?.first_chunk::<4>()?).into(),
            protocol: *bytes.get(at + 9)?,
            l4_at: at + (usize::from(bytes[at] & 0xf) * 4).max(ipv4::LEN),
        }),
        EtherType::IPV6 => {
            let (protocol, l4_at) = behind_extensions(bytes, *bytes.get(at + 6)?, at + ipv6::LEN)?;
            Some(Ip {
                at,
                source: Ipv6Addr::from(*bytes.get(at + 8..)?.first_chunk::<16>()?).into(),
                destination: Ipv6Addr::from(*bytes.get(at + 24..)?.first_chunk::<16>()?).into(),
                protocol,
                l4_at,
            })
        }
        _ => None,
    }
}

/// What the frame at `at` carries behind at most one tag, and where.
fn payload(bytes: &[u8], at: usize) -> Option<(EtherType, usize)> {
    let at = at + ethernet::LEN;
    let kind = EtherType(be16(bytes, at - 2)?);
    if !kind.is_vlan() {
        return Some((kind, at));
    }
    let at = at + ethernet::TAG_LEN;
    Some((EtherType(be16(bytes, at - 2)?), at))
}

/// Whether the kernel knows what a tunnel packet is: the frame inside says that it carries IP, or it is a greeting
/// (VNI 0), which goes back as it came.
pub(crate) fn carries_ip(bytes: &[u8], tunnel: Encapsulation) -> bool {
    let Some(outer) = ip(bytes, 0) else {
        return false;
    };
    let vni_at = outer.l4_at + udp::LEN + 4;
    let inner = || payload(bytes, inner_at(bytes, &outer, tunnel)?);
    bytes.get(vni_at..vni_at + 3) == Some(&[0; 3])
        || inner().is_some_and(|(kind, _)| [EtherType::IPV4, EtherType::IPV6].contains(&kind))
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Puts the sum of the pseudo header where a guest's super-packet has its checksum.
pub(super) fn leave_checksum(bytes: &mut [u8], gso: Gso) {
    super_packet(bytes, gso, None);
}

/// Describes a super-packet, and puts the sum of the pseudo header where its checksum is to be, as a guest's
/// kernel does.
fn super_packet(bytes: &mut [u8], gso: Gso, tunnel: Option<Encapsulation>) -> Option<Header> {
    let outer = ip(bytes, 0)?;
    let Some(tunnel) = tunnel else {
        return transport(bytes, &outer, gso);
    };
    if outer.protocol != protocol::UDP {
        return None;
    }
    let inner = ip(bytes, inner_at(bytes, &outer, tunnel)?)?;
    // Tunnel packets one after the other are datagrams of one size.
    if gso.kind == GsoKind::Udp && !fills(bytes, &inner) {
        return transport(bytes, &outer, gso);
    }
    let header = transport(bytes, &inner, gso)?;
    let mark = if outer.source.is_ipv4() {
        GSO_TUNNEL4
    } else {
        GSO_TUNNEL6
    };
    Some(Header {
        gso: header.gso | mark,
        outer_udp_at: outer.l4_at as u16,
        inner_ip_at: inner.at as u16,
        ..header
    })
}

fn inner_at(bytes: &[u8], outer: &Ip, tunnel: Encapsulation) -> Option<usize> {
    let tunnel_at = outer.l4_at + udp::LEN;
    match tunnel {
        Encapsulation::Vxlan => Some(tunnel_at + vxlan::LEN),
        Encapsulation::Geneve => {
            let options_len = usize::from(bytes.get(tunnel_at)? & 0x3f) * 4;
            Some(tunnel_at + geneve::BASE_LEN + options_len)
        }
    }
}

/// Whether the IP packet reaches to the end.
fn fills(bytes: &[u8], ip: &Ip) -> bool {
    let len = match ip.source {
        IpAddr::V4(_) => be16(bytes, ip.at + 2).map(usize::from),
        IpAddr::V6(_) => be16(bytes, ip.at + 4).map(|len| ipv6::LEN + usize::from(len)),
    };
    len == Some(bytes.len() - ip.at)
}

fn transport(bytes: &mut [u8], ip: &Ip, gso: Gso) -> Option<Header> {
    let (kind, header_len, checksum_at) = match (gso.kind, ip.protocol) {
        (GsoKind::Tcp, protocol::TCP) => {
            let kind = if ip.source.is_ipv4() {
                GSO_TCP4
            } else {
                GSO_TCP6
            };
            let len = usize::from(bytes.get(ip.l4_at + 12)? >> 4) * 4;
            (kind, len.max(tcp::LEN), TCP_CHECKSUM_AT)
        }
        (GsoKind::Udp, protocol::UDP) => (GSO_UDP, udp::LEN, UDP_CHECKSUM_AT),
        _ => return None,
    };
    let message_len = bytes.len().checked_sub(ip.l4_at)?;
    let pseudo = Sum::new().pseudo_header(ip.source, ip.destination, ip.protocol, message_len);
    let at = ip.l4_at + checksum_at;
    bytes
        .get_mut(at..at + 2)?
        .copy_from_slice(&pseudo.fold().to_be_bytes());
    Some(Header {
        flags: NEEDS_CHECKSUM,
        gso: kind,
        header_len: (ip.l4_at + header_len) as u16,
        gso_size: gso.size,
        checksum_from: ip.l4_at as u16,
        checksum_at: checksum_at as u16,
        ..Header::default()
    })
}

fn behind_extensions(bytes: &[u8], mut next: u8, mut at: usize) -> Option<(u8, usize)> {
    for _ in 0..MAX_EXTENSION_HEADERS {
        if !matches!(
            next,
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS
        ) {
            break;
        }
        next = *bytes.get(at)?;
        at += (usize::from(*bytes.get(at + 1)?) + 1) * 8;
    }
    Some((next, at))
}

/// As a network card would; the field holds the sum of the pseudo header.
fn complete_checksum(bytes: &mut [u8], from: usize, at: usize) {
    let Some(message) = bytes.get(from..) else {
        return;
    };
    let sum = Sum::new().bytes(message);
    let checksum = if at == UDP_CHECKSUM_AT {
        sum.finish_udp()
    } else {
        sum.finish()
    };
    if let Some(field) = bytes.get_mut(from + at..from + at + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP4: &[u8] = &[
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
        0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2, // IPv4
        0, 9, 0, 10, 0, 12, 0, 0, 1, 2, 3, 4, // UDP
    ];

    #[test]
    fn a_tag_goes_into_the_bytes_and_out_of_them() {
        let mut packet = Packet::new(UDP4);
        packet.tag = Tag::of(EtherType::SERVICE_VLAN, 0x2007);
        let sent = to_send(&packet, None).unwrap();
        assert_eq!(sent.bytes[10..18], [0, 1, 0x88, 0xa8, 0x20, 7, 8, 0]);
        assert_eq!(sent.header, Header::default());
        assert_eq!(untagged(Packet::new(sent.bytes)), packet);
    }

    #[test]
    fn an_unfinished_checksum_is_finished() {
        let mut packet = Packet::new(UDP4);
        let gso = Gso {
            kind: GsoKind::Udp,
            size: 2,
            segments: 2,
        };
        packet.gso = Some(gso);
        let sent = to_send(&packet, None).unwrap();
        let header = Header {
            gso: 0,
            ..sent.header
        };
        let bytes = [&header.socket_bytes()[..], &sent.bytes].concat();
        let found = received(&bytes, SOCKET_HEADER_LEN, None).unwrap();
        let sum = Sum::new().pseudo_header([198, 18, 0, 1].into(), [198, 18, 0, 2].into(), 17, 12);
        assert!(sum.bytes(&found.bytes[34..]).verifies(), "{found:?}");
        assert_eq!(found.gso, None);

        let bytes = [&sent.header.socket_bytes()[..], &sent.bytes].concat();
        let found = received(&bytes, SOCKET_HEADER_LEN, None).unwrap();
        assert_eq!(
            found.gso.map(|gso| (gso.kind, gso.size)),
            Some((GsoKind::Udp, 2))
        );
    }

    #[test]
    fn a_super_packet_of_another_protocol_cannot_be_sent() {
        let mut packet = Packet::new(UDP4);
        for kind in [GsoKind::Tcp, GsoKind::Sctp] {
            packet.gso = Some(Gso {
                kind,
                size: 2,
                segments: 2,
            });
            assert!(to_send(&packet, None).is_none(), "{kind:?}");
        }
    }
}
