//! Stage arp_nd: answers an ARP request (RFC 826) or a neighbour solicitation (RFC 4861 section 7.2) sent
//! to a group, on the spot where the fabric knows the address, so that it never crosses the underlay.
//! Never for an address that the asking port owns (duplicate address detection, RFC 5227 and RFC 4862);
//! unicast probes go to the real owner, which may be gone, but those for a router. Between `learn` and
//! `l2_lookup`; from the underlay for routers' addresses only.

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Neighbour, RouterTable, SwitchTable, Verdict};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use overlane_wire::{Emit, EtherType, Mac, arp, ethernet, ipv6};

use crate::answer::{self, Back, Reply};
use crate::bytes::{array, be16, byte, put, put16};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::flow_hash::Flow;
use crate::parse::{Frame, Ip};
use crate::port::Source;

const STAGE: &str = "arp_nd";
const HOP_LIMIT: u8 = 255;
/// Of a solicitation without options.
const SOLICITATION_LEN: usize = 24;
/// Of an advertisement with its one option.
const ADVERTISEMENT_LEN: usize = 32;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ROUTER: u8 = 0x80;
const TARGET_MAC: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = Mac::new([0x33, 0x33, 0, 0, 0, 1]);
/// Places in an IPv6 packet without extension headers and the message behind it.
const IP_AT: usize = ethernet::LEN;
const ND_AT: usize = IP_AT + ipv6::LEN;

/// What is asked for.
pub(crate) enum Question {
    /// An ARP request.
    Arp(arp::Header),
    /// A solicitation.
    Nd(Ipv6Addr),
}

impl Question {
    /// What a frame asks. `None`: nothing.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        match EtherType(be16(frame, IP_AT - 2)?) {
            EtherType::ARP => {
                let view = arp::View::new_checked(frame.get(IP_AT..)?).ok()?;
                let request = arp::Header::parse(&view);
                let is_request = request.operation == arp::Operation::Request;
                is_request.then_some(Self::Arp(request))
            }
            EtherType::IPV6 => solicited(frame).map(Self::Nd),
            _ => None,
        }
    }

    /// The address whose MAC is asked for.
    pub(crate) fn target(&self) -> IpAddr {
        match self {
            Self::Arp(request) => request.target.into(),
            Self::Nd(target) => (*target).into(),
        }
    }

    /// Its answer: `mac` has the address, and is a router or is none.
    pub(crate) fn reply(&self, frame: &Frame<'_>, mac: Mac, is_router: bool) -> Option<Reply> {
        match self {
            Self::Arp(request) => reply_arp(frame, request, mac),
            Self::Nd(target) => reply_nd(frame, *target, mac, is_router),
        }
    }
}

/// Ends with the verdict `answer`, or lets the frame go on unchanged.
pub(crate) fn from_port<'a>(
    cx: &mut Context<'a>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    back: &Back<'_>,
) -> Stage {
    let Some(question) = Question::of(&frame.bytes) else {
        return Stage::Continue(());
    };
    let port = source.port;
    let neighbour = cx.host.neighbour(port.switch, question.target());
    // A router is asked directly too: nobody else could answer. Who owns an address hears nothing about it.
    let is_asked = |neighbour: &&Neighbour| {
        let is_router = neighbour.router.is_some() && frame.destination == neighbour.mac;
        neighbour.key != port.key && (frame.destination.is_group() || is_router)
    };
    match neighbour.filter(is_asked) {
        Some(neighbour) => answer(cx, neighbour, &question, frame, back),
        None => Stage::Continue(()),
    }
}

/// The same from the underlay, for who does not route by itself: only of a router whose gateway is here.
pub(crate) fn from_underlay(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
    back: &Back<'_>,
) -> Stage {
    let Some(question) = Question::of(&frame.bytes) else {
        return Stage::Continue(());
    };
    let neighbour = cx.host.neighbour(switch.id, question.target());
    let is_asked = |neighbour: &&Neighbour| {
        let router = neighbour.router.and_then(|id| cx.host.router(id));
        let is_here = router.is_some_and(RouterTable::is_gateway_here);
        is_here && (frame.destination.is_group() || frame.destination == neighbour.mac)
    };
    match neighbour.filter(is_asked) {
        Some(neighbour) => answer(cx, neighbour, &question, frame, back),
        None => Stage::Continue(()),
    }
}

fn answer(
    cx: &mut Context<'_>,
    neighbour: &Neighbour,
    question: &Question,
    frame: &Frame<'_>,
    back: &Back<'_>,
) -> Stage {
    let is_interface = neighbour.router.is_some();
    let is_router = neighbour.is_router || is_interface;
    let Some(reply) = question.reply(frame, neighbour.mac, is_router) else {
        return Stage::Continue(());
    };
    answer::give(cx, back, reply);
    cx.end(STAGE, Verdict::Answer, || {
        let Neighbour {
            addr, mac, port, ..
        } = neighbour;
        match is_interface {
            true => Found::by_router(
                format!("{addr} is router {port}: answered here with {mac}"),
                port,
            ),
            false => Found::by_port(
                format!("{addr} is port {port}: answered here with {mac}"),
                port,
            ),
        }
    })
}

/// The reply is written over the request; padding stays.
fn reply_arp(frame: &Frame<'_>, request: &arp::Header, mac: Mac) -> Option<Reply> {
    let mut bytes = frame.bytes.to_vec();
    put_addresses(&mut bytes, request.sender_mac, mac);
    let mut reply = Vec::with_capacity(arp::LEN);
    request.reply(mac).emit_to(&mut reply);
    put(&mut bytes, ethernet::LEN, &reply);
    Some(Reply {
        flow: Flow::of_ethernet(array(&bytes, 0)?),
        bytes,
        ip: None,
    })
}

/// What the request's IP header says about itself stays; hop limit and next header are right already.
fn reply_nd(frame: &Frame<'_>, target: Ipv6Addr, mac: Mac, is_router: bool) -> Option<Reply> {
    let asker = array::<16>(&frame.bytes, IP_AT + 8).map(Ipv6Addr::from)?;
    // To all nodes and not solicited: RFC 4861 section 7.2.4.
    let is_detection = asker.is_unspecified();
    let (to, to_mac, flags) = match is_detection {
        true => (ALL_NODES, ALL_NODES_MAC, OVERRIDE),
        false => (asker, frame.source, OVERRIDE | SOLICITED),
    };
    let flags = flags | if is_router { ROUTER } else { 0 };
    let mut bytes = frame.bytes.to_vec();
    bytes.resize(ND_AT + ADVERTISEMENT_LEN, 0);
    put_addresses(&mut bytes, to_mac, mac);
    put16(&mut bytes, IP_AT + 4, ADVERTISEMENT_LEN as u16);
    put(&mut bytes, IP_AT + 8, &target.octets());
    put(&mut bytes, IP_AT + 24, &to.octets());
    let fixed = [NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    put(&mut bytes, ND_AT, &fixed);
    let option_at = ND_AT + SOLICITATION_LEN;
    put(&mut bytes, option_at, &[TARGET_MAC, 1]);
    put(&mut bytes, option_at + 2, mac.bytes());
    let (source, destination) = (target.into(), to.into());
    let sum = Sum::new().pseudo_header(source, destination, protocol::ICMPV6, ADVERTISEMENT_LEN);
    let checksum = sum.bytes(bytes.get(ND_AT..)?).finish();
    put16(&mut bytes, ND_AT + 2, checksum);
    let ip = frame.ip?;
    Some(Reply {
        bytes,
        ip: Some(Ip {
            source,
            destination,
            ..ip
        }),
        flow: Flow::of_ip(source, destination, [0; 4], protocol::ICMPV6),
    })
}

/// Target of a solicitation that RFC 4861 section 7.1.1 does not tell to ignore.
fn solicited(bytes: &[u8]) -> Option<Ipv6Addr> {
    let [_, _, _, _, l0, l1, next, hop_limit] = array::<8>(bytes, IP_AT)?;
    let is_whole = usize::from(u16::from_be_bytes([l0, l1])) >= SOLICITATION_LEN;
    let is_nd = next == protocol::ICMPV6 && hop_limit == HOP_LIMIT && is_whole;
    let (kind, code) = (byte(bytes, ND_AT)?, byte(bytes, ND_AT + 1)?);
    let target = array::<16>(bytes, ND_AT + 8).map(Ipv6Addr::from)?;
    let is_solicitation = kind == NEIGHBOUR_SOLICITATION && code == 0 && !target.is_multicast();
    (is_nd && is_solicitation).then_some(target)
}

fn put_addresses(bytes: &mut [u8], destination: Mac, source: Mac) {
    put(bytes, 0, destination.bytes());
    put(bytes, 6, source.bytes());
}
