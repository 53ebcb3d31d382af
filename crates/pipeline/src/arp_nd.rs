//! Stage arp_nd: answers an ARP request (RFC 826) or a neighbour solicitation (RFC 4861 section 7.2) sent
//! to a group, on the spot where the fabric knows the address, so that it never crosses the underlay.
//! Never for an address that the asking port owns (duplicate address detection, RFC 5227 and RFC 4862);
//! unicast probes go to the real owner, which may be gone, but those for a router. Between `learn` and
//! `l2_lookup`; from the underlay for routers' addresses only.

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Name, Neighbour, RouterTable, SwitchTable, Verdict};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use overlane_wire::{Emit, EtherType, Mac, arp, ethernet, ipv6};

use crate::bytes::{array, be16, byte, put, put16};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::Frame;
use crate::reply::Answer;

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
    fn reply(&self, frame: &Frame<'_>, mac: Mac, is_router: bool) -> Option<Vec<u8>> {
        match self {
            Self::Arp(request) => Some(reply_arp(frame, request, mac)),
            Self::Nd(target) => reply_nd(frame, *target, mac, is_router),
        }
    }
}

/// Who has an address that is asked for.
pub(crate) struct Owner<'a> {
    pub(crate) name: &'a Name,
    pub(crate) mac: Mac,
    /// A router's interface.
    pub(crate) is_interface: bool,
    /// So its advertisement says.
    pub(crate) is_router: bool,
}

/// Ends with the verdict `answer`, or lets the frame go on unchanged.
pub(crate) fn arp_nd(cx: &mut Context<'_>, switch: &SwitchTable, frame: &Frame<'_>) -> Stage {
    let Some((question, neighbour)) = asked(cx, switch, frame) else {
        return Stage::Continue(());
    };
    let is_interface = neighbour.router.is_some();
    let owner = Owner {
        name: &neighbour.port,
        mac: neighbour.mac,
        is_interface,
        is_router: neighbour.is_router || is_interface,
    };
    answer(cx, &question, frame, &owner)
}

/// A question that is answered here, and about whom.
pub(crate) fn asked<'a>(
    cx: &Context<'a>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Option<(Question, &'a Neighbour)> {
    let question = Question::of(&frame.bytes)?;
    let neighbour = cx.host.neighbour(switch.id, question.target())?;
    // A router is asked directly too: nobody else could answer.
    let is_interface = neighbour.router.is_some();
    let is_to_it = is_interface && frame.destination == neighbour.mac;
    let is_answered = match cx.source_port() {
        // Who owns an address hears nothing about it.
        Some(port) => neighbour.key != port.key,
        // Who does not route by itself asks a router at its acting host.
        None => {
            let router = neighbour.router.and_then(|id| cx.host.router(id));
            router.is_some_and(RouterTable::is_gateway_here)
        }
    };
    let is_asked = is_answered && (frame.destination.is_group() || is_to_it);
    is_asked.then_some((question, neighbour))
}

pub(crate) fn answer(
    cx: &mut Context<'_>,
    question: &Question,
    frame: &Frame<'_>,
    owner: &Owner<'_>,
) -> Stage {
    let Some(reply) = question.reply(frame, owner.mac, owner.is_router) else {
        return Stage::Continue(());
    };
    cx.answer = Some(Answer::Written(reply));
    cx.end(STAGE, Verdict::Answer, || {
        let (addr, name, mac) = (question.target(), owner.name, owner.mac);
        let text = |what| format!("{addr} is {what} {name}: answered here with {mac}");
        match owner.is_interface {
            true => Found::by_router(text("router"), name),
            false => Found::by_port(text("port"), name),
        }
    })
}

/// The reply is written over the request; padding stays.
fn reply_arp(frame: &Frame<'_>, request: &arp::Header, mac: Mac) -> Vec<u8> {
    let mut bytes = frame.bytes.to_vec();
    put_addresses(&mut bytes, request.sender_mac, mac);
    let mut reply = Vec::with_capacity(arp::LEN);
    request.reply(mac).emit_to(&mut reply);
    put(&mut bytes, ethernet::LEN, &reply);
    bytes
}

/// What the request's IP header says about itself stays; hop limit and next header are right already.
fn reply_nd(frame: &Frame<'_>, target: Ipv6Addr, mac: Mac, is_router: bool) -> Option<Vec<u8>> {
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
    Some(bytes)
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
