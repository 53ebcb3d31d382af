//! What a super-packet becomes on a wire: software segmentation as the kernel does it
//! (net/ipv4/tcp_offload.c, net/ipv4/udp_offload.c, net/ipv4/af_inet.c `inet_gso_segment`), plain or under
//! one tunnel header. Tests compare executors by segments, because where a super-packet is cut is the
//! kernel's choice.
//!
//! ```text
//! | outer Ethernet, IP, UDP, VXLAN or Geneve | inner Ethernet, IP, TCP or UDP | payload            |
//!   IPv4 identification + n, lengths           identification + n, lengths,    size · size · rest
//!                                              sequence + n × size, checksums
//! ```
//!
//! A super-packet's own transport checksum is whatever came in (with the kernel, the pseudo header's:
//! `CHECKSUM_PARTIAL`); that of a segment is computed. A stream whose identifications all are equal
//! (`SKB_GSO_TCP_FIXEDID`, only from receive offload) counts up here like any other.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Encapsulation;
use overlane_wire::checksum::{Sum, checksum};
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, ethernet, geneve, ipv4, ipv6, tcp, udp, vxlan};

use crate::lib::bytes::{array, be16, be32, byte, put, put16};
use crate::lib::extensions::Chain;
use crate::lib::packet::{GsoKind, Packet};

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
/// Hop-by-hop header with nothing but a jumbo payload (RFC 2675): how the kernel writes BIG TCP.
pub(crate) const JUMBO_LEN: usize = 8;
const JUMBO: u8 = 0xc2;
/// The longest IP packet whose segments keep the jumbo payload (`GRO_LEGACY_MAX_SIZE`).
pub(crate) const MAX_LEN_WITH_JUMBO: usize = 65_536;

impl Packet {
    /// The packets that a wire without super-packets carries instead of this one. What is no super-packet,
    /// and SCTP, stays as it is.
    pub fn segments(&self) -> Vec<Self> {
        cut(self, None).unwrap_or_else(|| vec![self.clone()])
    }

    /// The same for a super-packet in a tunnel.
    pub fn segments_in(&self, tunnel: Encapsulation) -> Vec<Self> {
        cut(self, Some(tunnel)).unwrap_or_else(|| vec![self.clone()])
    }
}

/// An IP header and what follows it. Places are from the start of the packet.
struct Ip {
    at: usize,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    l4_at: usize,
}

/// The headers that each segment repeats.
struct Headers {
    /// Of the tunnel: IP, and UDP behind it.
    outer: Option<Ip>,
    inner: Ip,
    kind: GsoKind,
    len: usize,
}

fn cut(packet: &Packet, tunnel: Option<Encapsulation>) -> Option<Vec<Packet>> {
    let gso = packet.gso.filter(|gso| gso.size > 0)?;
    let outer = match tunnel {
        Some(_) => Some(read_ip(&packet.bytes, 0).filter(|ip| ip.protocol == protocol::UDP)?),
        None => None,
    };
    let inner_at = match (&outer, tunnel) {
        (Some(ip), Some(tunnel)) => behind_tunnel(&packet.bytes, ip.l4_at + udp::LEN, tunnel)?,
        _ => 0,
    };
    let bytes = without_jumbo(&packet.bytes, inner_at);
    let inner = read_ip(&bytes, inner_at)?;
    let header_len = match (gso.kind, inner.protocol) {
        (GsoKind::Tcp, protocol::TCP) => usize::from(byte(&bytes, inner.l4_at + 12)? >> 4) * 4,
        (GsoKind::Udp, protocol::UDP) => udp::LEN,
        _ => return None,
    };
    let headers = Headers {
        len: inner.l4_at + header_len,
        kind: gso.kind,
        outer,
        inner,
    };
    if gso.kind == GsoKind::Tcp && header_len < tcp::LEN {
        return None;
    }
    let (head, payload) = bytes.split_at_checked(headers.len)?;
    let last = payload.len().div_ceil(gso.size.into()).checked_sub(1)?;
    let chunks = payload.chunks(gso.size.into()).enumerate();
    let segment = |(n, chunk): (usize, &[u8])| Packet {
        bytes: headers.finish([head, chunk].concat(), n, n == last, gso.size),
        tag: packet.tag,
        gso: None,
    };
    Some(chunks.map(segment).collect())
}

impl Headers {
    /// Segment `n`: everything that differs from the super-packet's headers.
    fn finish(&self, mut bytes: Vec<u8>, n: usize, is_last: bool, size: u16) -> Vec<u8> {
        if let Some(outer) = &self.outer {
            outer.finish(&mut bytes, n);
            let udp_len = bytes.len() - outer.l4_at;
            put16(&mut bytes, outer.l4_at + 4, udp_len as u16);
        }
        self.inner.finish(&mut bytes, n);
        let at = self.inner.l4_at;
        let checksum_at = match self.kind {
            GsoKind::Tcp => {
                finish_tcp(&mut bytes, at, n, is_last, size);
                at + 16
            }
            GsoKind::Udp | GsoKind::Sctp => {
                let udp_len = bytes.len() - at;
                put16(&mut bytes, at + 4, udp_len as u16);
                at + 6
            }
        };
        put16(&mut bytes, checksum_at, 0);
        let Ip {
            source,
            destination,
            protocol,
            ..
        } = self.inner;
        let message = bytes.get(at..).unwrap_or_default();
        let sum = Sum::new().pseudo_header(source, destination, protocol, message.len());
        let sum = sum.bytes(message);
        let checksum = match self.kind {
            GsoKind::Udp => sum.finish_udp(),
            GsoKind::Tcp | GsoKind::Sctp => sum.finish(),
        };
        put16(&mut bytes, checksum_at, checksum);
        bytes
    }
}

/// FIN and PSH belong to the last segment, CWR to the first (RFC 3168 section 6.1.2).
fn finish_tcp(bytes: &mut [u8], at: usize, n: usize, is_last: bool, size: u16) {
    let (Some(sequence), Some(flags)) = (be32(bytes, at + 4), byte(bytes, at + 13)) else {
        return;
    };
    let sequence = sequence.wrapping_add(n as u32 * u32::from(size));
    put(bytes, at + 4, &sequence.to_be_bytes());
    let not_last = if is_last { 0 } else { FIN_PSH };
    let not_first = if n == 0 { 0 } else { CWR };
    put(bytes, at + 13, &[flags & !not_last & !not_first]);
}

impl Ip {
    /// Lengths, and the identification, which counts up whether DF is set or not.
    fn finish(&self, bytes: &mut [u8], n: usize) {
        let len = bytes.len() - self.at;
        if self.source.is_ipv6() {
            return put16(bytes, self.at + 4, len.saturating_sub(ipv6::LEN) as u16);
        }
        let header_len = byte(bytes, self.at).map_or(0, |first| usize::from(first & 0xf) * 4);
        let identification = be16(bytes, self.at + 4).unwrap_or(0).wrapping_add(n as u16);
        put16(bytes, self.at + 2, len as u16);
        put16(bytes, self.at + 4, identification);
        put16(bytes, self.at + 10, 0);
        let sum = checksum(bytes.get(self.at..self.at + header_len).unwrap_or_default());
        put16(bytes, self.at + 10, sum);
    }
}

/// The IP header of the frame at `at`, behind at most one VLAN tag.
fn read_ip(bytes: &[u8], at: usize) -> Option<Ip> {
    let (ethertype, at) = network_header(bytes, at)?;
    match ethertype {
        EtherType::IPV4 => {
            let header_len = usize::from(byte(bytes, at)? & 0xf) * 4;
            Some(Ip {
                at,
                source: Ipv4Addr::from(array::<4>(bytes, at + 12)?).into(),
                destination: Ipv4Addr::from(array::<4>(bytes, at + 16)?).into(),
                protocol: byte(bytes, at + 9)?,
                l4_at: at + header_len.max(ipv4::LEN),
            })
        }
        EtherType::IPV6 => {
            let chain = Chain::walk(bytes, byte(bytes, at + 6)?, at + ipv6::LEN);
            // The kernel segments nothing behind a fragment header.
            let has_fragment_header = chain.is_atomic || chain.fragment.is_some();
            Some(Ip {
                at,
                source: Ipv6Addr::from(array::<16>(bytes, at + 8)?).into(),
                destination: Ipv6Addr::from(array::<16>(bytes, at + 24)?).into(),
                protocol: match has_fragment_header {
                    true => protocol::FRAGMENT,
                    false => chain.next,
                },
                l4_at: chain.at,
            })
        }
        _ => None,
    }
}

fn network_header(bytes: &[u8], at: usize) -> Option<(EtherType, usize)> {
    let at = at + ethernet::LEN;
    match EtherType(be16(bytes, at - 2)?) {
        tag if tag.is_vlan() => {
            let at = at + ethernet::TAG_LEN;
            Some((EtherType(be16(bytes, at - 2)?), at))
        }
        ethertype => Some((ethertype, at)),
    }
}

fn behind_tunnel(bytes: &[u8], at: usize, tunnel: Encapsulation) -> Option<usize> {
    match tunnel {
        Encapsulation::Vxlan => Some(at + vxlan::LEN),
        Encapsulation::Geneve => {
            let options_len = usize::from(byte(bytes, at)? & 0x3f) * 4;
            Some(at + geneve::BASE_LEN + options_len)
        }
    }
}

/// BIG TCP over IPv6 says its length in a hop-by-hop header, which segments do not need. A packet that
/// is not so long keeps it (include/net/ipv6.h, `ipv6_has_hopopt_jumbo`).
fn without_jumbo(bytes: &[u8], frame_at: usize) -> Cow<'_, [u8]> {
    let jumbo = || {
        let (ethertype, at) = network_header(bytes, frame_at)?;
        let [l0, l1, next] = array::<3>(bytes, at + 4)?;
        let option_at = at + ipv6::LEN;
        let [behind, len, kind, _] = array::<4>(bytes, option_at)?;
        let is_jumbo = ethertype == EtherType::IPV6
            && [l0, l1, next, len, kind] == [0, 0, protocol::HOP_BY_HOP, 0, JUMBO];
        let end = option_at + JUMBO_LEN;
        (is_jumbo && bytes.len() - at > MAX_LEN_WITH_JUMBO).then_some((at, option_at..end, behind))
    };
    let Some((ip_at, option, behind)) = jumbo() else {
        return Cow::Borrowed(bytes);
    };
    let mut bytes = bytes.to_vec();
    put(&mut bytes, ip_at + 6, &[behind]);
    bytes.drain(option);
    Cow::Owned(bytes)
}
