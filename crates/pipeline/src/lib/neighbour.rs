//! Messages by which neighbours are found: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Neighbour, RouterTable, SwitchTable};
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, solicited_node};
use overlane_wire::{EtherType, Mac, arp, ethernet, ipv6};

use crate::lib::bytes::{array, be16};
use crate::lib::context::Context;
use crate::lib::frame::Frame;
use crate::lib::nd_options::{SOURCE_MAC, TARGET_MAC, mac_option};
use crate::lib::sound::is_icmpv6_sum_right;

/// Of a solicitation without options.
const SOLICITATION_LEN: usize = 24;
const IP_AT: usize = ethernet::LEN;
const ND_AT: usize = IP_AT + ipv6::LEN;
const HOP_LIMIT: u8 = 255;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Who says that it has an address.
pub(crate) struct Message {
    kind: Kind,
    pub(crate) addr: IpAddr,
    /// `None`: the MAC that is known stays.
    pub(crate) mac: Option<Mac>,
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
            mac: Some(packet.sender_mac),
            to: packet.target.into(),
            replaces: true,
            confirms: kind == Kind::Reply,
        })
    }

    fn of_nd(frame: &[u8]) -> Option<Self> {
        let nd = Nd::of(frame)?;
        let is_advertisement = nd.kind == NEIGHBOUR_ADVERTISEMENT;
        if !is_advertisement && (nd.source.is_unspecified() || nd.mac.is_none()) {
            return None;
        }
        let (kind, addr) = match is_advertisement {
            true => (Kind::Advertisement, nd.target),
            false => (Kind::Solicitation, nd.source),
        };
        Some(Self {
            kind,
            addr: addr.into(),
            mac: nd.mac,
            to: nd.to.into(),
            replaces: !is_advertisement || nd.flags & OVERRIDE != 0,
            confirms: is_advertisement && nd.flags & SOLICITED != 0,
        })
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
    let is_group = frame.destination.is_group() && frame.gso.is_none() && !frame.has_vlan();
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
    let question = Question::of(&frame.bytes).filter(|_| !frame.has_vlan())?;
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

/// A neighbour solicitation or advertisement that RFC 4861 section 7.1 does not tell to discard.
struct Nd {
    kind: u8,
    flags: u8,
    source: Ipv6Addr,
    to: Ipv6Addr,
    target: Ipv6Addr,
    /// In a link-layer address option.
    mac: Option<Mac>,
}

impl Nd {
    fn of(frame: &[u8]) -> Option<Self> {
        let [l0, l1, next, hop_limit] = array(frame, IP_AT + 4)?;
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let message = frame.get(ND_AT..ND_AT + len)?;
        let [kind, code, _, _, flags, ..] = array::<8>(message, 0)?;
        let own = match kind {
            NEIGHBOUR_SOLICITATION => SOURCE_MAC,
            NEIGHBOUR_ADVERTISEMENT => TARGET_MAC,
            _ => return None,
        };
        let nd = Self {
            kind,
            flags,
            source: array::<16>(frame, IP_AT + 8)?.into(),
            to: array::<16>(frame, IP_AT + 24)?.into(),
            target: array::<16>(message, 8)?.into(),
            mac: mac_option(message.get(SOLICITATION_LEN..)?, Some(own)).ok()?,
        };
        let is_nd = next == protocol::ICMPV6 && hop_limit == HOP_LIMIT && code == 0;
        let is_nobodys = nd.target.is_multicast() || nd.target.to_ipv4_mapped().is_some();
        let is_right = is_icmpv6_sum_right(nd.source, nd.to, message);
        (is_nd && !is_nobodys && is_right && nd.is_for_its_receiver()).then_some(nd)
    }

    /// Who has no address asks everybody who may have one, and says no MAC. An answer to a group answers no question.
    fn is_for_its_receiver(&self) -> bool {
        match self.kind {
            NEIGHBOUR_ADVERTISEMENT => self.flags & SOLICITED == 0 || !self.to.is_multicast(),
            _ if self.source.is_unspecified() => {
                self.mac.is_none() && self.to == solicited_node(self.target)
            }
            _ => true,
        }
    }
}

/// Target of a solicitation.
fn solicited(frame: &[u8]) -> Option<Ipv6Addr> {
    let nd = Nd::of(frame)?;
    (nd.kind == NEIGHBOUR_SOLICITATION).then_some(nd.target)
}
