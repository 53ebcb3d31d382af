//! Stage arp_nd: answers an ARP request (RFC 826) or a neighbour solicitation (RFC 4861 section 7.2) sent
//! to a group, on the spot where the fabric knows the address, so that it never crosses the underlay.
//! Never for an address that the asking port owns (duplicate address detection, RFC 5227 and RFC 4862);
//! unicast probes go to the real owner, which may be gone. Between `learn` and `l2_lookup`.

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Neighbour, Verdict};
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use overlane_wire::{Emit, EtherType, Mac, arp, ethernet, ipv6};

use crate::bytes::{array, byte, put, put16};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::Frame;
use crate::port::Source;
use crate::{Output, Packet};

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

/// Ends with the verdict `answer`, or lets the frame go on unchanged.
pub(crate) fn arp_nd(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage {
    if !frame.destination.is_group() {
        return Stage::Continue(());
    }
    let answer = match (frame.ethertype, frame.protocol()) {
        (EtherType::ARP, _) => answer_arp(cx, source, frame),
        (_, Some(protocol::ICMPV6)) => answer_nd(cx, source, frame),
        _ => None,
    };
    let Some((neighbour, bytes)) = answer else {
        return Stage::Continue(());
    };
    cx.send(Output::Port {
        port: source.port.name.clone(),
        packet: Packet {
            bytes,
            tag: cx.entered.tag,
            gso: cx.entered.gso,
        },
    });
    cx.end(STAGE, Verdict::Answer, || {
        let Neighbour {
            addr, mac, port, ..
        } = neighbour;
        Found::by_port(
            format!("{addr} is port {port}: answered here with {mac}"),
            port,
        )
    })
}

/// Whose the address is, if it is not the asking port's.
fn known<'a>(cx: &Context<'a>, source: &Source<'_>, addr: IpAddr) -> Option<&'a Neighbour> {
    let neighbour = cx.host.neighbour(source.port.switch, addr)?;
    (neighbour.key != source.port.key).then_some(neighbour)
}

/// The reply is written over the request; padding stays.
fn answer_arp<'a>(
    cx: &Context<'a>,
    source: &Source<'_>,
    frame: &Frame<'_>,
) -> Option<(&'a Neighbour, Vec<u8>)> {
    let view = arp::View::new_checked(frame.bytes.get(ethernet::LEN..)?).ok()?;
    let request = arp::Header::parse(&view);
    if request.operation != arp::Operation::Request {
        return None;
    }
    let neighbour = known(cx, source, request.target.into())?;
    let mut bytes = frame.bytes.to_vec();
    put_addresses(&mut bytes, request.sender_mac, neighbour.mac);
    let mut reply = Vec::with_capacity(arp::LEN);
    request.reply(neighbour.mac).emit_to(&mut reply);
    put(&mut bytes, ethernet::LEN, &reply);
    Some((neighbour, bytes))
}

/// What the request's IP header says about itself stays; hop limit and next header are right already.
fn answer_nd<'a>(
    cx: &Context<'a>,
    source: &Source<'_>,
    frame: &Frame<'_>,
) -> Option<(&'a Neighbour, Vec<u8>)> {
    let target = solicited(&frame.bytes)?;
    let neighbour = known(cx, source, target.into())?;
    let asker = array::<16>(&frame.bytes, IP_AT + 8).map(Ipv6Addr::from)?;
    // To all nodes and not solicited: RFC 4861 section 7.2.4.
    let is_detection = asker.is_unspecified();
    let (to, to_mac, flags) = match is_detection {
        true => (ALL_NODES, ALL_NODES_MAC, OVERRIDE),
        false => (asker, frame.source, OVERRIDE | SOLICITED),
    };
    let mut bytes = frame.bytes.to_vec();
    bytes.resize(ND_AT + ADVERTISEMENT_LEN, 0);
    put_addresses(&mut bytes, to_mac, neighbour.mac);
    put16(&mut bytes, IP_AT + 4, ADVERTISEMENT_LEN as u16);
    put(&mut bytes, IP_AT + 8, &target.octets());
    put(&mut bytes, IP_AT + 24, &to.octets());
    put(
        &mut bytes,
        ND_AT,
        &[
            NEIGHBOUR_ADVERTISEMENT,
            0,
            0,
            0,
            flags | if neighbour.is_router { ROUTER } else { 0 },
            0,
            0,
            0,
        ],
    );
    put(&mut bytes, ND_AT + SOLICITATION_LEN, &[TARGET_MAC, 1]);
    put(
        &mut bytes,
        ND_AT + SOLICITATION_LEN + 2,
        neighbour.mac.bytes(),
    );
    let sum = Sum::new().pseudo_header(
        target.into(),
        to.into(),
        protocol::ICMPV6,
        ADVERTISEMENT_LEN,
    );
    let checksum = sum.bytes(bytes.get(ND_AT..)?).finish();
    put16(&mut bytes, ND_AT + 2, checksum);
    Some((neighbour, bytes))
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
