//! Packets to a router itself.

use std::net::IpAddr;

use overlane_model::Verdict;
use overlane_wire::ip::protocol;

use crate::lib::bytes::byte;
use crate::lib::context::{Context, Stage};
use crate::lib::destination::Ingress;
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::ip::{Ip, is_of_one_host};
use crate::lib::l4::is_whole;
use crate::lib::tell::Answer;

const STAGE: &str = "route";
const ECHO_REQUEST_4: u8 = 8;
const ECHO_REQUEST_6: u8 = 128;
const ICMP_LEN: usize = 8;

/// Echo requests are answered; nothing else is offered here.
pub(super) fn own<T>(
    cx: &mut Context<'_>,
    at: Ingress<'_>,
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage<T> {
    let (name, addr) = (&at.router.name, ip.destination);
    if is_echo_request(frame, ip) {
        cx.answer = Some(Answer::Echo);
        return cx.end(STAGE, Verdict::Answer, || {
            Found::by_router(format!("{addr} is router {name}: echo answered"), name)
        });
    }
    cx.answer = match ip.protocol {
        protocol::TCP => Some(Answer::Reset),
        protocol::UDP if is_whole(frame, ip, protocol::UDP, 0) => Some(Answer::PORT_UNREACHABLE),
        _ => None,
    };
    cx.end(STAGE, Verdict::RouterAddress, || {
        let text = format!("{addr} is router {name} itself, which answers only echo requests");
        Found::by_router(text, name)
    })
}

/// Of somebody who may get an answer.
fn is_echo_request(frame: &Frame<'_>, ip: &Ip) -> bool {
    let (protocol, request) = match ip.destination {
        IpAddr::V4(_) => (protocol::ICMP, ECHO_REQUEST_4),
        IpAddr::V6(_) => (protocol::ICMPV6, ECHO_REQUEST_6),
    };
    is_whole(frame, ip, protocol, ICMP_LEN)
        && byte(&frame.bytes, ip.l4_at) == Some(request)
        && !frame.destination.is_group()
        && is_of_one_host(ip.source)
}
