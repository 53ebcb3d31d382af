//! Stage arp_nd: answers an ARP request (RFC 826) or a neighbour solicitation (RFC 4861 section 7.2) sent
//! to a group, on the spot where the fabric knows the address, so that it never crosses the underlay.
//! Never for an address that the asking port owns (duplicate address detection, RFC 5227 and RFC 4862);
//! unicast probes go to the real owner, which may be gone, but those for a router. Between `learn` and
//! `l2_lookup`; from the underlay for routers' addresses only.

use std::net::Ipv6Addr;

use overlane_model::{Name, SwitchTable, Verdict};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::nd::NEIGHBOUR_ADVERTISEMENT;
use overlane_wire::{Emit, Mac, arp, ethernet, ipv6};

use crate::lib::bytes::{array, put, put16};
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::neighbour::{Question, asked};
use crate::lib::source::Taken;
use crate::lib::tell::Answer;

const STAGE: &str = "arp_nd";
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

/// Who has an address that is asked for.
struct Owner<'a> {
    name: &'a Name,
    mac: Mac,
    /// A router's interface.
    is_interface: bool,
    /// So its advertisement says.
    is_router: bool,
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

/// What `leg_in` took: who asks for the router's MAC on its leg.
pub(crate) fn from_leg(cx: &mut Context<'_>, taken: &Taken<'_>, frame: &Frame<'_>) -> Stage {
    let Some(question) = &taken.question else {
        return Stage::Continue(());
    };
    let owner = Owner {
        name: &taken.router.name,
        mac: taken.leg.mac,
        is_interface: true,
        is_router: true,
    };
    answer(cx, question, frame, &owner)
}

fn answer(
    cx: &mut Context<'_>,
    question: &Question,
    frame: &Frame<'_>,
    owner: &Owner<'_>,
) -> Stage {
    let reply = match question {
        Question::Arp(request) => Some(reply_arp(frame, request, owner.mac)),
        Question::Nd(target) => reply_nd(frame, *target, owner),
    };
    let Some(reply) = reply else {
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
fn reply_nd(frame: &Frame<'_>, target: Ipv6Addr, owner: &Owner<'_>) -> Option<Vec<u8>> {
    let asker = array::<16>(&frame.bytes, IP_AT + 8).map(Ipv6Addr::from)?;
    // To all nodes and not solicited: RFC 4861 section 7.2.4.
    let is_detection = asker.is_unspecified();
    let (to, to_mac, flags) = match is_detection {
        true => (ALL_NODES, ALL_NODES_MAC, OVERRIDE),
        false => (asker, frame.source, OVERRIDE | SOLICITED),
    };
    let flags = flags | if owner.is_router { ROUTER } else { 0 };
    let mut bytes = frame.bytes.to_vec();
    bytes.resize(ND_AT + ADVERTISEMENT_LEN, 0);
    put_addresses(&mut bytes, to_mac, owner.mac);
    put16(&mut bytes, IP_AT + 4, ADVERTISEMENT_LEN as u16);
    put(&mut bytes, IP_AT + 8, &target.octets());
    put(&mut bytes, IP_AT + 24, &to.octets());
    let fixed = [NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    put(&mut bytes, ND_AT, &fixed);
    let option_at = ND_AT + SOLICITATION_LEN;
    put(&mut bytes, option_at, &[TARGET_MAC, 1]);
    put(&mut bytes, option_at + 2, owner.mac.bytes());
    let (source, destination) = (target.into(), to.into());
    let sum = Sum::new().pseudo_header(source, destination, protocol::ICMPV6, ADVERTISEMENT_LEN);
    let checksum = sum.bytes(bytes.get(ND_AT..)?).finish();
    put16(&mut bytes, ND_AT + 2, checksum);
    Some(bytes)
}

fn put_addresses(bytes: &mut [u8], destination: Mac, source: Mac) {
    put(bytes, 0, destination.bytes());
    put(bytes, 6, source.bytes());
}
