//! The IP header of a frame, as far as it decides: lengths, what follows, and the flow.

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::Verdict;
use overlane_wire::ethernet;
use overlane_wire::ip::protocol;
use overlane_wire::{ipv4, ipv6};

use super::{Frame, STAGE};
use crate::bytes::{array, byte};
use crate::context::{Context, Stage};
use crate::flow_hash::Flow;
use crate::segments::{JUMBO_LEN, MAX_LEN_WITH_JUMBO};

/// IPv6 extension headers that are skipped.
const MAX_EXTENSIONS: usize = 6;
const FRAGMENT_LEN: usize = 8;

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
    pub(super) fn of_ipv4([i0, i1, f0, f1]: [u8; 4], protocol: u8, l4_at: usize) -> Option<Self> {
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
    fn ports(&self, bytes: &[u8]) -> Option<[u8; 4]> {
        match self.protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP => array(bytes, self.l4_at),
            _ => None,
        }
    }

    /// What stands behind the IP packet is padding; a super-packet has its headers.
    pub(crate) fn has_ports_inside(&self, frame: &Frame<'_>) -> bool {
        frame.gso.is_some() || self.l4_at + 4 <= self.end
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

pub(super) fn ipv4(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage<Flow> {
    let Some(header) = array::<{ ipv4::LEN }>(&frame.bytes, ethernet::LEN) else {
        return bad_header(cx, || "the frame ends in the IPv4 header".to_owned());
    };
    let [
        version_ihl,
        traffic_class,
        l0,
        l1,
        i0,
        i1,
        f0,
        f1,
        _,
        protocol,
        _,
        _,
        addresses @ ..,
    ] = header;
    let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    let room = frame.len() - ethernet::LEN;
    let header_len = usize::from(version_ihl & 0xf) * 4;
    let total_len = match usize::from(u16::from_be_bytes([l0, l1])) {
        0 if frame.gso.is_some() => room, // BIG TCP: the length is the packet's
        len => len,
    };
    let is_whole = (header_len..=room).contains(&total_len);
    if version_ihl >> 4 != 4 || header_len < ipv4::LEN || !is_whole {
        return bad_header(cx, || {
            let version = version_ihl >> 4;
            format!(
                "IPv4 header of version {version}, {header_len} bytes, total length {total_len}, \
                 in {room} bytes"
            )
        });
    }
    coalesced(cx, frame, total_len + ethernet::LEN)?;
    let l4_at = ethernet::LEN + header_len;
    let ip = Ip {
        source: [s0, s1, s2, s3].into(),
        destination: [d0, d1, d2, d3].into(),
        traffic_class,
        protocol,
        l4_at,
        end: ethernet::LEN + total_len,
        fragment: Fragment::of_ipv4([i0, i1, f0, f1], protocol, l4_at),
        is_atomic: false,
        may_have_other_ends: false,
    };
    frame.ip = Some(ip);
    Stage::Continue(flow(frame, &ip))
}

pub(super) fn ipv6(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage<Flow> {
    let Some(header) = array::<{ ipv6::LEN }>(&frame.bytes, ethernet::LEN) else {
        return bad_header(cx, || "the frame ends in the IPv6 header".to_owned());
    };
    let payload_at = ethernet::LEN + ipv6::LEN;
    let room = frame.len() - payload_at;
    let [v0, v1, _, _, l0, l1, next, _, ..] = header;
    let payload_len = usize::from(u16::from_be_bytes([l0, l1]));
    if v0 >> 4 != 6 || payload_len > room {
        return bad_header(cx, || {
            let version = v0 >> 4;
            format!(
                "IPv6 header of version {version}, payload length {payload_len}, in {room} bytes"
            )
        });
    }
    if payload_len > 0 {
        coalesced(cx, frame, payload_at + payload_len)?;
    }
    let is_jumbo = payload_len == 0 && frame.gso.is_some() && next == protocol::HOP_BY_HOP;
    let chain = Chain::walk(&frame.bytes, next, payload_at);
    let address = |at| Ipv6Addr::from(array::<16>(&header, at).unwrap_or_default());
    let ip = Ip {
        source: address(8).into(),
        destination: address(24).into(),
        traffic_class: v0 << 4 | v1 >> 4,
        protocol: chain.next,
        l4_at: chain.at,
        end: match is_jumbo {
            true => frame.len(),
            false => payload_at + payload_len,
        },
        fragment: chain.fragment,
        is_atomic: chain.is_atomic,
        may_have_other_ends: chain.may_have_other_ends,
    };
    frame.ip = Some(ip);
    let flow = flow(frame, &ip);
    if is_jumbo && room + ipv6::LEN > MAX_LEN_WITH_JUMBO {
        frame.segment_len -= JUMBO_LEN;
    }
    Stage::Continue(flow)
}

/// What stands behind IPv6 extension headers, and where. A chain that does not end names the header where it was
/// left.
pub(crate) struct Chain {
    pub(crate) next: u8,
    pub(crate) at: usize,
    pub(crate) fragment: Option<Fragment>,
    pub(crate) is_atomic: bool,
    may_have_other_ends: bool,
}

impl Chain {
    pub(crate) fn walk(bytes: &[u8], first: u8, begin: usize) -> Self {
        let mut chain = Self {
            next: first,
            at: begin,
            fragment: None,
            is_atomic: false,
            may_have_other_ends: false,
        };
        for _ in 0..MAX_EXTENSIONS {
            let skipped = match chain.next {
                protocol::FRAGMENT => chain.skip_fragment_header(bytes),
                next if is_extension(next) => chain.skip(bytes),
                _ => None,
            };
            // Behind the header of a later fragment there is none.
            if skipped.is_none() || chain.fragment.is_some_and(|it| !it.is_first()) {
                break;
            }
        }
        chain
    }

    fn skip(&mut self, bytes: &[u8]) -> Option<()> {
        let [next, len] = array(bytes, self.at)?;
        self.may_have_other_ends |= self.may_name_an_end(bytes, len);
        self.next = next;
        self.at += (usize::from(len) + 1) * 8;
        Some(())
    }

    /// A routing header with segments left: its last address is the destination that checksums cover (RFC 8200 section
    /// 8.1). Or destination options with room for a home address, which stands for the source (RFC 6275 section 6.3).
    fn may_name_an_end(&self, bytes: &[u8], len: u8) -> bool {
        match self.next {
            protocol::ROUTING => byte(bytes, self.at + 3).is_some_and(|left| left > 0),
            protocol::DESTINATION_OPTIONS => len >= 2,
            _ => false,
        }
    }

    /// One makes a fragment, none follows that.
    fn skip_fragment_header(&mut self, bytes: &[u8]) -> Option<()> {
        if self.fragment.is_some() {
            return None;
        }
        let [next, _, o0, o1, i0, i1, i2, i3] = array::<FRAGMENT_LEN>(bytes, self.at)?;
        self.next = next;
        self.at += FRAGMENT_LEN;
        let field = u16::from_be_bytes([o0, o1]);
        if field & 0xfff9 == 0 {
            self.is_atomic = true;
            return Some(());
        }
        self.fragment = Some(Fragment {
            identification: u32::from_be_bytes([i0, i1, i2, i3]),
            offset: (field & 0xfff8).into(),
            next,
            begin: self.at,
        });
        Some(())
    }
}

/// Fragments of one datagram are one flow: without ports.
fn flow(frame: &mut Frame<'_>, ip: &Ip) -> Flow {
    let ports = match ip.is_fragment() {
        false => transport(frame, ip),
        true => [0; 4],
    };
    Flow::of_ip(ip.source, ip.destination, ports, ip.flow_protocol())
}

/// The ports of the flow and, for a super-packet, the length of its longest segment: each repeats the
/// headers.
fn transport(frame: &mut Frame<'_>, ip: &Ip) -> [u8; 4] {
    let header_len = match ip.protocol {
        protocol::TCP => {
            byte(&frame.bytes, ip.l4_at + 12).map_or(0, |len| usize::from(len >> 4) * 4)
        }
        protocol::UDP | protocol::SCTP => 8,
        _ => return [0; 4],
    };
    if frame.gso.is_some() {
        frame.segment_len = ip.l4_at + header_len + frame.gso_size();
    }
    let ports = ip.ports(&frame.bytes);
    ports
        .filter(|_| ip.has_ports_inside(frame))
        .unwrap_or_default()
}

/// Several tunnel packets that were coalesced outside (`rx-udp-gro-forwarding`): a frame of ours with
/// others behind it, where a super-packet fills all there is.
fn coalesced(cx: &mut Context<'_>, frame: &Frame<'_>, packet_len: usize) -> Stage {
    let is_in_tunnel = cx.weight.offset > 0;
    if !is_in_tunnel || frame.gso.is_none() || packet_len == frame.len() {
        return Stage::Continue(());
    }
    cx.end(STAGE, Verdict::GsoUnsupported, || {
        "several packets that the uplink made one: switch rx-udp-gro-forwarding and \
         rx-gro-list off there"
    })
}

fn bad_header<T>(cx: &mut Context<'_>, why: impl FnOnce() -> String) -> Stage<T> {
    cx.end(STAGE, Verdict::InnerIpHeader, why)
}
