//! Stage neighbour: notes what messages of ARP (RFC 826) and neighbour discovery (RFC 4861) say about addresses that the
//! fabric does not declare; answers to a router end here. `route` asks ([`found`](crate::found)). Behind `learn`; on a
//! leg behind `leg_in`.

use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{Hook, Place, RouterTable, Side, SwitchId, SwitchTable, Verdict};
use overlane_wire::ip::protocol;
use overlane_wire::nd::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use overlane_wire::{EtherType, Mac, arp, ethernet, ipv6};

use crate::bytes::{array, be16};
use crate::context::{Context, Stage};
use crate::destination::Destination;
use crate::explain::Found;
use crate::found::{Note, RouterSide, own_beside};
use crate::leg_in::Taken;
use crate::parse::Frame;
use crate::port::Source;
use crate::{Host, arp_nd};

const STAGE: &str = "neighbour";
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
    addr: IpAddr,
    mac: Mac,
    /// Whom it is sent to: the target of ARP, the destination of neighbour discovery.
    to: IpAddr,
    replaces: bool,
    confirms: bool,
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
    fn is_answer(&self) -> bool {
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

/// Where an answer to a router still goes, so that other hosts hear it too.
pub(crate) fn from_port<'a>(
    cx: &mut Context<'a>,
    source: &Source<'a>,
    frame: &Frame<'_>,
) -> Stage<Option<Destination<'a>>> {
    let (switch, key) = (source.switch, source.port.key.get());
    let Some(router) = on_switch(cx, switch, frame, key)? else {
        return Stage::Continue(None);
    };
    let destination = match switch.id {
        _ if cx.hook != Hook::FromPort => return ends(cx, router),
        SwitchId::Vni(_) => Destination::Hosts(switch),
        SwitchId::Vlan(_) if router.is_gateway_here() => return ends(cx, router),
        SwitchId::Vlan(vlan) => Destination::Vlan(vlan),
    };
    cx.step(STAGE, || {
        let name = &router.name;
        let text = format!("an answer to router {name}: its other hosts hear it too");
        Found::by_router(text, name)
    });
    Stage::Continue(Some(destination))
}

pub(crate) fn from_underlay(
    cx: &mut Context<'_>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Stage {
    match on_switch(cx, switch, frame, 0)? {
        Some(router) => ends(cx, router),
        None => Stage::Continue(()),
    }
}

/// The router that a message answers, and that noted it.
fn on_switch<'a>(
    cx: &mut Context<'a>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
    key: u16,
) -> Stage<Option<&'a RouterTable>> {
    let message = Message::of(&frame.bytes).filter(|_| switch.asks && frame.gso.is_none());
    let Some(message) = message else {
        return Stage::Continue(None);
    };
    let router = match message.is_answer() {
        true => router_with(cx.host, switch.id, frame.destination),
        false => {
            let asked = arp_nd::asked(cx, switch, frame);
            asked.and_then(|(_, owner)| cx.host.router(owner.router?))
        }
    };
    // Of the hosts on a VLAN only the router's acting host hears the answers to it.
    let is_on_vlan = matches!(switch.id, SwitchId::Vlan(_)) && cx.source_port().is_none();
    if message.is_answer() && is_on_vlan && router.is_some_and(|router| !router.is_gateway_here()) {
        return Stage::Continue(None);
    }
    let side = RouterSide::Switch(switch.id);
    let is_believed = is_believed_on_switch(cx.host, switch.id, frame.source, message.mac);
    let is_noted = is_believed && note(cx, side, router, &message, key)?;
    match router.filter(|_| message.is_answer()) {
        Some(router) if !is_noted => ends(cx, router),
        router => Stage::Continue(router),
    }
}

/// What `leg_in` took for the router.
pub(crate) fn from_leg(cx: &mut Context<'_>, taken: &Taken<'_>, frame: &Frame<'_>) -> Stage {
    let Some(message) = Message::of(&frame.bytes).filter(|_| frame.gso.is_none()) else {
        return Stage::Continue(());
    };
    let router = taken.router;
    if is_station(message.mac) {
        note(cx, RouterSide::Leg(router.id), Some(router), &message, 0)?;
    }
    match message.is_answer() {
        true => ends(cx, router),
        false => Stage::Continue(()),
    }
}

/// What stays with the host tells of neighbours that the router knows.
pub(crate) fn overheard_on_leg(cx: &mut Context<'_>, router: &RouterTable) {
    let is_single = cx.entered.gso.is_none_or(|gso| gso.size == 0);
    let is_plain = is_single && cx.entered.tag.is_none();
    let message = Message::of(&cx.entered.bytes).filter(|_| is_plain);
    if let Some(message) = message.filter(|message| is_station(message.mac)) {
        let _ = note(cx, RouterSide::Leg(router.id), None, &message, 0);
    }
}

/// A port speaks for its own MAC, as far as the FDB knows; nobody does for a router.
fn is_believed_on_switch(host: &Host, switch: SwitchId, source: Mac, mac: Mac) -> bool {
    let owner = host.fdb_entry(switch, mac);
    let is_its_own = owner.is_none_or(|owner| {
        let is_router = matches!(owner.place, Place::Router(_));
        mac == source && !is_router
    });
    is_station(mac) && is_its_own
}

fn is_station(mac: Mac) -> bool {
    !mac.is_group() && !mac.is_zero()
}

fn router_with(host: &Host, switch: SwitchId, mac: Mac) -> Option<&RouterTable> {
    match host.fdb_entry(switch, mac)?.place {
        Place::Router(id) => host.router(id),
        _ => None,
    }
}

/// Whether the address is known, or can be found where the message is to a router; then it is noted.
fn note(
    cx: &mut Context<'_>,
    side: RouterSide,
    router: Option<&RouterTable>,
    message: &Message,
    key: u16,
) -> Stage<bool> {
    let (id, addr, mac) = ((side, message.addr), message.addr, message.mac);
    let is_known = cx.state.found.contains_key(&id);
    if !is_known && !router.is_some_and(|router| can_be_found(cx.host, router, side, addr)) {
        return Stage::Continue(false);
    }
    let said = Note {
        mac,
        key,
        replaces: message.replaces,
        confirms: message.confirms && router.is_some(),
    };
    if cx.state.note(id, &said, cx.now_ns) {
        cx.step(STAGE, || format!("{addr} says that it has MAC {mac}"));
        return Stage::Continue(true);
    }
    match router.filter(|_| message.is_answer()) {
        Some(router) => cx.end(STAGE, Verdict::NeighbourLimit, || {
            let name = &router.name;
            let text =
                format!("router {name}: {addr} is one neighbour more than may be found there");
            Found::by_router(text, name)
        }),
        None => Stage::Continue(false),
    }
}

/// NEIGH-2.
fn can_be_found(host: &Host, router: &RouterTable, side: RouterSide, addr: IpAddr) -> bool {
    match side {
        RouterSide::Leg(_) => own_beside(router, Side::Leg, addr).is_some(),
        RouterSide::Switch(id) => {
            let is_declared = host.neighbour(id, addr).is_some();
            !is_declared && own_beside(router, Side::Switch(id), addr).is_some()
        }
    }
}

fn ends<T>(cx: &mut Context<'_>, router: &RouterTable) -> Stage<T> {
    cx.end(STAGE, Verdict::ToRouter, || {
        let name = &router.name;
        Found::by_router(format!("an answer to router {name}, which ends here"), name)
    })
}
