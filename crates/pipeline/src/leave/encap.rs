//! Stage encap: puts the outer header before a frame for one remote. After `l2_lookup`.
//!
//! ```text
//! | Ethernet: 14, | IP: 20 or 40 | UDP: 8 | VXLAN: 8,    | inner Ethernet, | the rest of |
//! | no addresses  |              |        | Geneve: 8, 16| with a tag      | the frame   |
//! ```
//!
//! The header is the remote's template (`overlane_model`); written per packet are lengths, DSCP and ECN,
//! IPv4 checksum, UDP source port, VNI and the keys of OVN's option.

use std::net::IpAddr;

use overlane_model::{Dscp, Encapsulation, Place as FdbPlace, Remote, SwitchId, Verdict};
use overlane_wire::checksum::checksum;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Vni, ethernet, ipv4, ipv6, udp};

use crate::leave::segmenter::segment;
use crate::lib::bytes::{put, put16};
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::flow_hash::source_port;
use crate::lib::frame::Frame;
use crate::lib::outcome::Output;
use crate::lib::packet::Packet;
use crate::lib::path_mtu::{self, Largest};
use crate::lib::state;

const STAGE: &str = "encap";
const OUTER_MAX_LEN: usize = 65_535;
const ECN_BITS: u8 = 3;

/// What a tunnel header says.
#[derive(Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) vni: Vni,
    /// Of the logical port, or the router's interface, that the frame comes from; 0: not known.
    pub(crate) source: u16,
    /// Likewise, that it goes to.
    pub(crate) dest: u16,
}

pub(crate) fn encap(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    remote: IpAddr,
    ids: Ids,
    cuts_udp: bool,
) -> Stage<Verdict> {
    let remote = known_remote(cx, remote)?;
    check_super_packet(cx, frame)?;
    let largest = path_mtu::largest(cx, remote.addr, frame, headers_len(remote, frame));
    if let Some(refused) = too_big(largest, remote, frame, frame.segment_len) {
        cx.tell_too_big(refused.room);
        return refused.end(cx, STAGE);
    }
    let outer_len = ip_len(remote, frame, frame.len());
    if outer_len > OUTER_MAX_LEN {
        return segment(cx, || {
            format!(
                "the outer packet would have {outer_len} bytes, more than its length field can say"
            )
        });
    }
    if frame.is_udp_super_packet()
        && let Some(why) = why_not_whole(cx, frame, remote, ids, cuts_udp)
    {
        return segment(cx, || why);
    }
    cx.check_device(STAGE, &cx.host.tables().uplink)?;
    send(cx, frame, remote, ids);
    cx.step(STAGE, || {
        let tunnel = cx.host.tables().tunnel.encapsulation;
        let port = source_port(frame.flow_hash, &cx.host.tables().tunnel.source_ports);
        let without = match tunnel {
            Encapsulation::Geneve if !remote.names_ports => " without options",
            Encapsulation::Geneve | Encapsulation::Vxlan => "",
        };
        let (vni, name, addr) = (ids.vni, &remote.name, remote.addr);
        let text = format!(
            "sent to host {name} ({addr}) over {tunnel}{without}, VNI {vni}, source port {port}"
        );
        Found::by_host(text, name)
    });
    Stage::Continue(Verdict::Encap)
}

/// The far side has to take the tunnel's mark off a UDP super-packet before anybody segments it. It can, if it
/// said so. One that came out of a tunnel has the mark already.
fn why_not_whole(
    cx: &Context<'_>,
    frame: &Frame<'_>,
    remote: &Remote,
    ids: Ids,
    cuts_udp: bool,
) -> Option<String> {
    let name = &remote.name;
    if cx.weight.offset > 0 {
        return Some("a UDP super-packet travels whole through one tunnel only".to_owned());
    }
    if cuts_udp {
        return Some(format!(
            "the router on host {name} neither sends a UDP super-packet out of a tunnel on, nor asks with it"
        ));
    }
    let at = cx.host.fdb_entry(SwitchId::Vni(ids.vni), frame.destination);
    let is_router = at.is_some_and(|at| matches!(at.place, FdbPlace::Router(_)));
    let (needed, for_whom) = match is_router {
        true => (state::ROUTES_WHOLE_UDP, " for its routers"),
        false => (state::WHOLE_UDP, ""),
    };
    let abilities = cx.state.abilities.get(&remote.addr).copied();
    if abilities.unwrap_or_default() & needed == 0 {
        return Some(format!(
            "host {name} did not say that it takes UDP super-packets whole{for_whom}"
        ));
    }
    if ids.dest == 0 {
        return Some(
            "a UDP super-packet does not travel whole to a station of no known port".into(),
        );
    }
    if !frame.is_plain_udp() {
        return Some("a UDP super-packet with options does not travel whole".to_owned());
    }
    frame
        .tag
        .map(|_| "a UDP super-packet with a tag does not travel whole".to_owned())
}

/// Kinds that travel neither whole nor measured as they are.
fn check_super_packet(cx: &mut Context<'_>, frame: &Frame<'_>) -> Stage {
    if frame.gso.is_none() {
        return Stage::Continue(());
    }
    match frame.protocol() {
        Some(protocol::TCP | protocol::UDP) => Stage::Continue(()),
        Some(protocol::SCTP) => cx.end(
            STAGE,
            Verdict::GsoUnsupported,
            || "the kernel does not segment SCTP under a second header",
        ),
        // Of a tunnel of the guest's own only the first header is known: its segments are measured.
        _ => match segment(
            cx,
            || "a super-packet in a tunnel of the guest's own is segmented first",
        ) {
            Stage::Continue(verdict) | Stage::Break(verdict) => Stage::Break(verdict),
        },
    }
}

pub(crate) fn known_remote<'a>(cx: &mut Context<'a>, remote: IpAddr) -> Stage<&'a Remote> {
    match cx.host.remote(remote) {
        Some(known) => Stage::Continue(known),
        None => cx.end(STAGE, Verdict::UnknownRemote, || {
            format!("no host of the fabric has the tunnel end point {remote}")
        }),
    }
}

/// Nothing is ever fragmented. `None`: it takes an outer packet around `len` bytes of the frame.
pub(crate) fn too_big<'a>(
    largest: Largest,
    remote: &'a Remote,
    frame: &Frame<'_>,
    len: usize,
) -> Option<TooBig<'a>> {
    let outer_len = ip_len(remote, frame, len);
    let room = largest.mtu.saturating_sub(headers_len(remote, frame));
    (outer_len > largest.mtu).then_some(TooBig {
        remote,
        outer_len,
        largest,
        room,
    })
}

/// Before the IP header of the frame: the outer headers, and the inner Ethernet header.
pub(crate) fn headers_len(remote: &Remote, frame: &Frame<'_>) -> usize {
    remote.header.len() + frame.tag_len()
}

/// A packet that does not reach its remote.
pub(crate) struct TooBig<'a> {
    remote: &'a Remote,
    outer_len: usize,
    largest: Largest,
    /// For an IP packet of a guest.
    pub(crate) room: usize,
}

impl TooBig<'_> {
    pub(crate) fn end<T>(&self, cx: &mut Context<'_>, stage: &'static str) -> Stage<T> {
        cx.end(stage, Verdict::PktTooBig, || {
            let (outer_len, room, Largest { mtu, hop }) =
                (self.outer_len, self.room, &self.largest);
            let Some(hop) = hop else {
                return Found::by_tunnel(format!(
                    "the outer packet would have {outer_len} bytes, and the underlay's MTU is {mtu}: \
                     {room} is the largest MTU of a guest"
                ));
            };
            let name = &self.remote.name;
            let text = format!(
                "the outer packet would have {outer_len} bytes, and {hop} said that the path to host {name} \
                 takes less: {room} is the largest IP packet of a guest there"
            );
            Found::by_host(text, name)
        })
    }
}

/// Of the outer packet around `len` bytes of the frame.
fn ip_len(remote: &Remote, frame: &Frame<'_>, len: usize) -> usize {
    remote.header.len().saturating_sub(ethernet::LEN) + frame.tag_len() + len
}

/// The packet for one remote, also as the copy of a flooded frame.
pub(crate) fn send(cx: &mut Context<'_>, frame: &Frame<'_>, remote: &Remote, ids: Ids) {
    let mut bytes = remote.header.clone();
    fill(cx, frame, remote, ids, &mut bytes);
    let tagged = frame.tag.and_then(|tag| tag.insert(&frame.bytes));
    bytes.extend_from_slice(tagged.as_deref().unwrap_or(&frame.bytes));
    cx.send(Output::Underlay {
        remote: Some(remote.addr),
        packet: Packet {
            bytes,
            tag: None,
            gso: frame.gso,
        },
    });
}

/// What differs from packet to packet.
fn fill(cx: &Context<'_>, frame: &Frame<'_>, remote: &Remote, ids: Ids, outer: &mut [u8]) {
    let tables = cx.host.tables();
    let traffic_class = traffic_class(tables.tunnel.dscp, frame);
    let ip_at = ethernet::LEN;
    // At most OUTER_MAX_LEN: checked before.
    let ip_len = (outer.len() - ip_at + frame.tag_len() + frame.len()) as u16;
    let udp_at = match tables.vtep {
        IpAddr::V4(_) => {
            put16(outer, 12, EtherType::IPV4.get());
            put(outer, ip_at + 1, &[traffic_class]);
            put16(outer, ip_at + 2, ip_len);
            let header = outer.get(ip_at..ip_at + ipv4::LEN).unwrap_or_default();
            let checksum = checksum(header);
            put16(outer, ip_at + 10, checksum);
            ip_at + ipv4::LEN
        }
        IpAddr::V6(_) => {
            put16(outer, 12, EtherType::IPV6.get());
            put(
                outer,
                ip_at,
                &[0x60 | traffic_class >> 4, traffic_class << 4],
            );
            put16(outer, ip_at + 4, ip_len.saturating_sub(ipv6::LEN as u16));
            ip_at + ipv6::LEN
        }
    };
    let udp_len = ip_len.saturating_sub((udp_at - ip_at) as u16);
    put16(
        outer,
        udp_at,
        source_port(frame.flow_hash, &tables.tunnel.source_ports),
    );
    put16(outer, udp_at + 4, udp_len);
    let tunnel_at = udp_at + udp::LEN;
    put(outer, tunnel_at + 4, &ids.vni.bytes());
    if remote.names_ports {
        put16(outer, tunnel_at + 12, ids.source);
        put16(outer, tunnel_at + 14, ids.dest);
    }
}

/// ECN is the inner one: normal mode of RFC 6040 section 4.1. A frame that is not IP has neither.
fn traffic_class(dscp: Dscp, frame: &Frame<'_>) -> u8 {
    let inner = frame.ip.map_or(0, |ip| ip.traffic_class);
    let dscp = match dscp {
        Dscp::Fixed(dscp) => dscp << 2,
        Dscp::Copy => inner & !ECN_BITS,
    };
    dscp | inner & ECN_BITS
}
