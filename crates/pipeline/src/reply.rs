//! Answers to the sender of a packet that goes no further: ICMP errors (RFC 792, RFC 4443), TCP resets
//! (RFC 9293), and what somebody asked for. Stages say what the sender is told; [`leave`] sends it as any other packet.
//! An answer is no packet of its own: it counts nowhere. It is about the packet as it came, before `route` and `nat`.
//!
//! ```text
//! | Ethernet: the packet's | IP: TTL 64 | ICMP: 8 | the packet from its IP header on: |
//! | addresses, exchanged   |            |         | at most 548, IPv6 1232            |
//! ```

use std::net::IpAddr;

use overlane_wire::ip::protocol;

use crate::context::{Context, Sender};
use crate::destination::Departure;
use crate::limit::Limited;
use crate::parse::{self, Frame};
use crate::route::lessen_ttl;
use crate::state::LimitOf;
use crate::{leave, nat};

mod bytes;
mod destination;

pub(crate) use bytes::{is_echo_request, is_whole};

/// What the sender is told.
#[derive(PartialEq, Eq)]
pub(crate) enum Answer {
    /// TCP is reset.
    Reset,
    /// An ICMP error.
    Icmp {
        /// Type and code over IPv4.
        v4: (u8, u8),
        /// Type and code over IPv6.
        v6: (u8, u8),
        /// Bytes 4 to 8 of the message.
        rest: u32,
    },
    /// The reply to its echo request.
    Echo,
    /// This frame.
    Written(Vec<u8>),
}

impl Answer {
    /// No route to the destination.
    pub(crate) const NO_ROUTE: Self = Self::icmp((3, 0), (1, 0));
    /// The next hop does not answer.
    pub(crate) const NO_NEIGHBOUR: Self = Self::icmp((3, 1), (1, 3));
    /// Nobody listens at the port.
    pub(crate) const PORT_UNREACHABLE: Self = Self::icmp((3, 3), (1, 4));
    /// Administratively prohibited.
    pub(crate) const PROHIBITED: Self = Self::icmp((3, 13), (1, 1));
    /// The last router that the packet may pass.
    pub(crate) const TTL_EXCEEDED: Self = Self::icmp((11, 0), (3, 0));

    /// Larger than `mtu`, the largest IP packet that would pass (RFC 1191, RFC 8201).
    pub(crate) fn too_big(mtu: usize) -> Self {
        let rest = mtu.min(u16::MAX.into()) as u32;
        Self::Icmp {
            v4: (3, 4),
            v6: (2, 0),
            rest,
        }
    }

    /// What the firewall of a port rejects.
    pub(crate) fn of_firewall(rejected: &Frame<'_>) -> Self {
        match rejected.ip {
            Some(ip) if ip.protocol == protocol::TCP && !ip.is_fragment() => Self::Reset,
            _ => Self::PROHIBITED,
        }
    }

    const fn icmp(v4: (u8, u8), v6: (u8, u8)) -> Self {
        Self::Icmp { v4, v6, rest: 0 }
    }
}

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
    parse::read_flow(cx, &mut frame).continue_value()?;
    (frame.gso, frame.segment_len) = (None, frame.len());
    let (source_key, destination) = destination::of_reply(cx, &mut frame)?;
    let departure = Departure::new(&frame, source_key, destination);
    leave::leave(cx, &departure).continue_value().map(drop)
}

fn write(cx: &mut Context<'_>, about: &Frame<'_>, answer: Answer) -> Option<Vec<u8>> {
    match answer {
        Answer::Written(bytes) => Some(bytes),
        Answer::Echo => bytes::echo_reply(about, &about.ip?),
        error => refusal(cx, about, &error),
    }
}

/// Whose packet it is about.
pub(crate) fn who(cx: &Context<'_>) -> Option<LimitOf> {
    Some(match cx.sender? {
        Sender::Port(port) => LimitOf::Port(port.switch, port.key.get()),
        Sender::Underlay(_) if cx.claims_key => LimitOf::Remote(cx.remote?),
        Sender::Underlay(switch) => LimitOf::Port(switch.id, cx.source_key),
        Sender::Leg(router) => LimitOf::Leg(router.id),
    })
}

/// A router speaks for itself; one behind a gateway, about what that translated, as it is seen outside.
fn router_address(cx: &Context<'_>, is_v4: bool) -> Option<IpAddr> {
    let at = cx.router?;
    let addr = at.address(is_v4)?;
    match cx.sender? {
        Sender::Leg(gateway) if cx.is_readdressed && at.switch.is_some() => {
            nat::teller(gateway, addr)
        }
        _ => Some(addr),
    }
}

/// Nothing where about such a packet nobody is told, or too many were.
fn refusal(cx: &mut Context<'_>, about: &Frame<'_>, answer: &Answer) -> Option<Vec<u8>> {
    let ip = about.ip.filter(|ip| bytes::may_be_answered(about, ip))?;
    // A router speaks for itself; a firewall, a switch and a reset in the destination's name.
    let from = match *answer {
        Answer::Reset | Answer::PROHIBITED => ip.destination,
        _ if cx.router.is_none() => ip.destination,
        _ => router_address(cx, ip.source.is_ipv4())?,
    };
    if *answer == Answer::Reset {
        bytes::tcp(about, &ip)?;
    }
    if !cx.allows(who(cx)?, Limited::Answers, 1, Limited::ANSWERS) {
        cx.count_untold();
        cx.step(
            "answer",
            || "no answer: its sender has caused enough of them",
        );
        return None;
    }
    let written = bytes::write(about, &ip, from, answer)?;
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
