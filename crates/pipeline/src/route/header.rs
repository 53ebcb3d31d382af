//! What routing reads and writes of a packet's headers.

use std::net::IpAddr;

use overlane_model::Verdict;
use overlane_wire::checksum::update;
use overlane_wire::{Mac, ethernet};

use super::STAGE;
use crate::bytes::{be16, byte, put, put16};
use crate::context::{Context, Stage};
use crate::destination::Ingress;
use crate::explain::Found;
use crate::next_hop::{is_refused, longest, why_refused};
use crate::parse::{Frame, Ip};

const IP_AT: usize = ethernet::LEN;

/// What a router may forward or answer at all.
pub(super) fn routable(cx: &mut Context<'_>, at: Ingress<'_>, frame: &Frame<'_>) -> Stage<Ip> {
    let name = &at.router.name;
    let Some(ip) = frame.ip else {
        return cx.end(STAGE, Verdict::NotRoutable, || {
            Found::by_router(format!("router {name} forwards only IP"), name)
        });
    };
    let destination = ip.destination;
    let route = longest(at.router, destination);
    if is_refused(destination, route) && !at.has_link_local(destination) {
        return cx.end(STAGE, Verdict::NotRoutable, || {
            let why = why_refused(destination, route);
            let text = format!("router {name}: nothing to {destination} is forwarded: {why}");
            Found::by_router(text, name)
        });
    }
    let is_plain = byte(&frame.bytes, IP_AT) == Some(0x45);
    if is_plain && !frame.ip_checksum_is_right() {
        return cx.end(STAGE, Verdict::InnerIpHeader, || {
            let text = format!("router {name}: the checksum of the IPv4 header is wrong");
            Found::by_router(text, name)
        });
    }
    Stage::Continue(ip)
}

/// TTL or hop limit.
pub(super) fn ttl(frame: &Frame<'_>) -> u8 {
    let at = match frame.ip {
        Some(ip) if ip.source.is_ipv4() => IP_AT + 8,
        _ => IP_AT + 7,
    };
    byte(&frame.bytes, at).unwrap_or(0)
}

/// As the next hop gets it.
pub(super) fn forward(frame: &mut Frame<'_>, source: Mac, destination: Mac) {
    lessen_ttl(frame);
    readdress(frame, source, destination);
}

/// Into another network: a guest's tag stays on this side.
pub(crate) fn readdress(frame: &mut Frame<'_>, source: Mac, destination: Mac) {
    let bytes = frame.bytes.to_mut();
    put(bytes, 0, destination.bytes());
    put(bytes, 6, source.bytes());
    (frame.source, frame.destination) = (source, destination);
    frame.tag = None;
}

/// One hop further.
pub(crate) fn lessen_ttl(frame: &mut Frame<'_>) {
    let less = ttl(frame).wrapping_sub(1);
    let bytes = frame.bytes.to_mut();
    match frame.ip.map(|ip| ip.source) {
        Some(IpAddr::V4(_)) => {
            let (at, checksum_at) = (IP_AT + 8, IP_AT + 10);
            if let (Some(old), Some(sum)) = (be16(bytes, at), be16(bytes, checksum_at)) {
                let new = old.wrapping_sub(0x0100);
                put16(bytes, at, new);
                put16(bytes, checksum_at, update(sum, old, new));
            }
        }
        Some(IpAddr::V6(_)) => put(bytes, IP_AT + 7, &[less]),
        None => {}
    }
}
