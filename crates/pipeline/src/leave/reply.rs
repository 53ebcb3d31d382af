//! Answers to the sender of a packet that goes no further: ICMP errors (RFC 792, RFC 4443), TCP resets
//! (RFC 9293), and what somebody asked for. Stages say what the sender is told; `leave` sends it as any other packet.
//! An answer is no packet of its own: it counts nowhere. It is about the packet as it came, before `route` and `nat`.
//!
//! ```text
//! | Ethernet: the packet's | IP: TTL 64 | ICMP: 8 | the packet from its IP header on: |
//! | addresses, exchanged   |            |         | at most 548, IPv6 1232            |
//! ```

use std::net::IpAddr;

use crate::leave::{leave, reply_bytes, reply_destination};
use crate::lib::context::{Context, Sender};
use crate::lib::destination::Departure;
use crate::lib::frame::{Frame, lessen_ttl};
use crate::lib::limit::Limited;
use crate::lib::next_hop::{is_end, longest};
use crate::lib::tell::Answer;
use crate::lib::{headers, hiding};

/// Tells the sender. What does not fit on its way, or has none, is not sent.
pub(crate) fn reply(cx: &mut Context<'_>, came: &Frame<'_>, answer: Answer) {
    let mut about = came.clone();
    for _ in 0..cx.routed {
        lessen_ttl(&mut about);
    }
    let Some(bytes) = write(cx, &about, answer) else {
        return;
    };
    cx.in_silence(|cx| {
        let _ = send(cx, &about, bytes);
    });
}

fn send(cx: &mut Context<'_>, about: &Frame<'_>, bytes: Vec<u8>) -> Option<()> {
    let mut frame = Frame::new(bytes.into(), about.tag, about.gso)?;
    headers::read_flow(cx, &mut frame).continue_value()?;
    (frame.gso, frame.segment_len) = (None, frame.len());
    frame.priority = about.priority;
    let (source_key, destination) = reply_destination::of_reply(cx, &mut frame)?;
    let departure = Departure::new(&frame, source_key, destination);
    leave::leave(cx, &departure).continue_value().map(drop)
}

fn write(cx: &mut Context<'_>, about: &Frame<'_>, answer: Answer) -> Option<Vec<u8>> {
    match answer {
        Answer::Written(bytes) => Some(bytes),
        Answer::Echo => reply_bytes::echo_reply(about, &about.ip?),
        error => refusal(cx, about, &error),
    }
}

/// A router speaks for itself; one behind a gateway, about what that translated, as it is seen outside.
fn router_address(cx: &Context<'_>, to: IpAddr) -> Option<IpAddr> {
    let at = cx.router?;
    let addr = at.address_for(to)?;
    match cx.sender? {
        Sender::Leg(gateway) if cx.is_readdressed && at.switch.is_some() => {
            hiding::teller(gateway, addr)
        }
        _ => Some(addr),
    }
}

/// The first or the last address of a network, by the router of the switch that the packet came from.
fn is_for_network(cx: &Context<'_>, addr: IpAddr) -> bool {
    let switch = match cx.sender {
        Some(Sender::Port(port)) => port.switch,
        Some(Sender::Underlay(switch)) => switch.id,
        Some(Sender::Leg(_)) | None => return false,
    };
    let router = cx.host.tables().router_on(switch);
    router.is_some_and(|router| is_end(addr, longest(router, addr)))
}

/// Nothing where about such a packet nobody is told, or too many were.
fn refusal(cx: &mut Context<'_>, about: &Frame<'_>, answer: &Answer) -> Option<Vec<u8>> {
    let ip = about
        .ip
        .filter(|ip| reply_bytes::may_be_answered(about, ip))?;
    if [ip.source, ip.destination]
        .iter()
        .any(|addr| is_for_network(cx, *addr))
    {
        return None;
    }
    // A router speaks for itself; a firewall, a switch, and who was asked himself in the destination's name.
    let from = match *answer {
        Answer::Reset | Answer::PROHIBITED | Answer::PORT_UNREACHABLE => ip.destination,
        _ if cx.router.is_none() => ip.destination,
        _ => router_address(cx, ip.source)?,
    };
    if *answer == Answer::Reset {
        reply_bytes::tcp(about, &ip)?;
    }
    if !cx.allows(cx.limit_of_sender()?, Limited::Answers, 1, Limited::ANSWERS) {
        cx.count_untold();
        cx.step(
            "answer",
            || "no answer: its sender has caused enough of them",
        );
        return None;
    }
    let written = reply_bytes::write(about, &ip, from, answer)?;
    cx.step("answer", || {
        let to = ip.source;
        let (name, (kind, code)) = match (answer, to) {
            (Answer::Icmp { v4, .. }, IpAddr::V4(_)) => ("ICMP", v4),
            (Answer::Icmp { v6, .. }, IpAddr::V6(_)) => ("ICMPv6", v6),
            _ => return format!("{to} is told: TCP reset"),
        };
        format!("{to} is told by {from}: {name} {kind}/{code}")
    });
    Some(written)
}
