//! Messages by which neighbours are found: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Neighbour, RouterTable, SwitchTable};
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use overlane_wire::{EtherType, Mac, arp, ethernet, ipv6};

use crate::lib::bytes::{array, be16, byte};
use crate::lib::context::Context;
use crate::lib::frame::Frame;

/// Of a solicitation without options.
const SOLICITATION_LEN: usize = 24;
const IP_AT: usize = ethernet::LEN;
const ND_AT: usize = IP_AT + ipv6::LEN;
const HOP_LIMIT: u8 = 255;
/// Of a message without options, and of one with a link-layer address.
const ND_LEN: u16 = 24;
const ND_LEN_WITH_MAC: u16 = 32;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Who says that it has an address.
pub(crate) struct Message {
    kind: Kind,
    pub(crate) addr: IpAddr,
    pub(crate) mac: Mac,
    /// Whom it is sent to: the target of ARP, the destination of neighbour discovery.
    to: IpAddr,
    pub(crate) replaces: bool,
    pub(crate) confirms: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// ARP request.
    Request,
    /// ARP reply.
    Reply,
    Solicitation,
    Advertisement,
}

impl Message {
    /// What a frame says. `None`: nothing.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        match EtherType(be16(frame, IP_AT - 2)?) {
            EtherType::ARP => Self::of_arp(frame),
            EtherType::IPV6 => Self::of_nd(frame),
            _ => None,
        }
    }

    fn of_arp(frame: &[u8]) -> Option<Self> {
        let view = arp::View::new_checked(frame.get(IP_AT..)?).ok()?;
        let packet = arp::Header::parse(&view);
        let kind = match packet.operation {
            arp::Operation::Request => Kind::Request,
            arp::Operation::Reply => Kind::Reply,
            arp::Operation::Other(_) => return None,
        };
        Some(Self {
            kind,
            addr: packet.sender.into(),
            mac: packet.sender_mac,
            to: packet.target.into(),
            replaces: true,
            confirms: kind == Kind::Reply,
        })
    }

    fn of_nd(frame: &[u8]) -> Option<Self> {
        let [l0, l1, next, hop_limit] = array(frame, IP_AT + 4)?;
        let len = u16::from_be_bytes([l0, l1]);
        let [kind, code, _, _, flags, ..] = array::<8>(frame, ND_AT)?;
        let target = array::<16>(frame, ND_AT + 8).map(Ipv6Addr::from)?;
        let is_nd = next == protocol::ICMPV6 && hop_limit == HOP_LIMIT && code == 0;
        let is_nobodys = target.is_multicast() || target.to_ipv4_mapped().is_some();
        if !is_nd || len < ND_LEN || is_nobodys {
            return None;
        }
        let option = array::<8>(frame, ND_AT + usize::from(ND_LEN));
        let option = option.filter(|_| len >= ND_LEN_WITH_MAC);
        let mac = |kind| match option {
            Some([found, 1, mac @ ..]) if found == kind => Some(Mac::new(mac)),
            _ => None,
        };
        let source = array::<16>(frame, IP_AT + 8).map(Ipv6Addr::from)?;
        let to = array::<16>(frame, IP_AT + 24).map(Ipv6Addr::from)?;
        let is_solicited = flags & SOLICITED != 0;
        match kind {
            NEIGHBOUR_SOLICITATION if !source.is_unspecified() => Some(Self {
                kind: Kind::Solicitation,
                addr: source.into(),
                mac: mac(SOURCE_MAC)?,
                to: to.into(),
                replaces: true,
                confirms: false,
            }),
            NEIGHBOUR_ADVERTISEMENT if !(is_solicited && to.is_multicast()) => Some(Self {
                kind: Kind::Advertisement,
                addr: target.into(),
                mac: mac(TARGET_MAC).or_else(|| array(frame, 6).map(Mac::new))?,
                to: to.into(),
                replaces: flags & OVERRIDE != 0,
                confirms: is_solicited,
            }),
            _ => None,
        }
    }

    /// An ARP reply, or an advertisement.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.kind, Kind::Reply | Kind::Advertisement)
    }

    /// To whom it is an answer.
    pub(crate) fn answers(&self) -> Option<IpAddr> {
        self.is_answer().then_some(self.to)
    }
}

/// Flooded, it is for every host that may route into the switch.
pub(crate) fn is_for_routers(frame: &Frame<'_>) -> bool {
    let is_group = frame.destination.is_group() && frame.gso.is_none();
    let message = is_group.then(|| Message::of(&frame.bytes)).flatten();
    message.is_some_and(|message| message.kind != Kind::Solicitation)
}

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
