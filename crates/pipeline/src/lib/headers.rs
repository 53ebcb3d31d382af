//! Reads the IP header of a frame, and what makes its flow: for stage parse, and for the frames that are written here.

use std::net::Ipv6Addr;

use overlane_model::Verdict;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, ethernet, ipv4, ipv6};

use crate::lib::bytes::{array, byte};
use crate::lib::context::{Context, Stage};
use crate::lib::extensions::Chain;
use crate::lib::flow_hash::Flow;
use crate::lib::frame::Frame;
use crate::lib::ip::{Fragment, Ip};
use crate::lib::segments::{JUMBO_LEN, MAX_LEN_WITH_JUMBO};

const STAGE: &str = "parse";

/// The IP header, and what makes the frame's flow.
pub(crate) fn read_flow(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage {
    let flow = match frame.ethertype {
        EtherType::IPV4 => ipv4(cx, frame)?,
        EtherType::IPV6 => ipv6(cx, frame)?,
        _ => Flow::of_ethernet(array(&frame.bytes, 0).unwrap_or_default()),
    };
    frame.flow_hash = flow.hash(cx.host.tables().tunnel.hash_seed);
    Stage::Continue(())
}

fn ipv4(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage<Flow> {
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

fn ipv6(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage<Flow> {
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
        .filter(|_| frame.has_ports_inside(ip))
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
