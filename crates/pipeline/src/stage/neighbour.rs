//! Stage neighbour: notes what messages of ARP (RFC 826) and neighbour discovery (RFC 4861) say about addresses that the
//! fabric does not declare; answers to a router end here. `route` asks (`lib/found.rs`). Behind `learn`; on a leg behind
//! `leg_in`.

use std::net::IpAddr;

use overlane_model::{Hook, Place, RouterTable, Side, SwitchId, SwitchTable, Verdict};
use overlane_wire::Mac;
use overlane_wire::ethernet::Tag;

use crate::lib::context::{Context, Stage};
use crate::lib::destination::Destination;
use crate::lib::explain::Found;
use crate::lib::found::{Note, own_beside};
use crate::lib::frame::Frame;
use crate::lib::host::Host;
use crate::lib::neighbour::{self, Message};
use crate::lib::source::{Source, Taken};
use crate::lib::state::RouterSide;

const STAGE: &str = "neighbour";

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
    let is_heard = switch.asks && frame.gso.is_none() && !frame.has_vlan();
    let message = Message::of(&frame.bytes).filter(|_| is_heard);
    let Some(message) = message else {
        return Stage::Continue(None);
    };
    let router = match message.is_answer() {
        true => router_with(cx.host, switch.id, frame.destination),
        false => {
            let asked = neighbour::asked(cx, switch, frame);
            asked.and_then(|(_, owner)| cx.host.router(owner.router?))
        }
    };
    // Of the hosts on a VLAN only the router's acting host hears the answers to it.
    let is_on_vlan = matches!(switch.id, SwitchId::Vlan(_)) && cx.source_port().is_none();
    if message.is_answer() && is_on_vlan && router.is_some_and(|router| !router.is_gateway_here()) {
        return Stage::Continue(None);
    }
    let side = RouterSide::Switch(switch.id);
    let mac = said_mac(cx, side, &message);
    let mac = mac.filter(|mac| is_believed_on_switch(cx, switch.id, frame.source, *mac));
    let is_noted = match mac {
        Some(mac) => note(cx, side, router, &message, mac, key)?,
        None => false,
    };
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
    let side = RouterSide::Leg(router.id);
    if let Some(mac) = said_mac(cx, side, &message) {
        note(cx, side, Some(router), &message, mac, 0)?;
    }
    match message.is_answer() {
        true => ends(cx, router),
        false => Stage::Continue(()),
    }
}

/// What stays with the host tells of neighbours that the router knows.
pub(crate) fn overheard_on_leg(cx: &mut Context<'_>, router: &RouterTable) {
    let is_single = cx.entered.gso.is_none_or(|gso| gso.size == 0);
    let is_plain = is_single && cx.entered.tag.is_none_or(Tag::is_priority);
    let message = Message::of(&cx.entered.bytes).filter(|_| is_plain);
    let side = RouterSide::Leg(router.id);
    if let Some(message) = message
        && let Some(mac) = said_mac(cx, side, &message)
    {
        let _ = note(cx, side, None, &message, mac, 0);
    }
}

/// The MAC that a message is about: an advertisement that says none is of the one that is known.
fn said_mac(cx: &Context<'_>, side: RouterSide, message: &Message) -> Option<Mac> {
    let known = || cx.state.found.get(&(side, message.addr)).map(|it| it.mac);
    let mac = message.mac.or_else(known)?;
    (!mac.is_group() && !mac.is_zero()).then_some(mac)
}

/// A port speaks for its own MACs, as far as the FDB knows; nobody does for a router.
fn is_believed_on_switch(cx: &Context<'_>, switch: SwitchId, source: Mac, mac: Mac) -> bool {
    let Some(owner) = cx.host.fdb_entry(switch, mac) else {
        return true;
    };
    if let Some(port) = cx.source_port() {
        let is_its_own = mac == source || owner.key == port.key;
        return is_its_own && !matches!(owner.place, Place::Router(_));
    }
    match owner.place {
        Place::Router(_) => false,
        Place::Local(_) => mac == source,
        Place::Remote(addr) => mac == source || cx.remote == Some(addr) || owner.roams,
        Place::Vlan => true,
    }
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
    mac: Mac,
    key: u16,
) -> Stage<bool> {
    let (id, addr) = ((side, message.addr), message.addr);
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
