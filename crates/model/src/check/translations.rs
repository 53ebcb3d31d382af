//! Translations that no packet can come through: their addresses lie on the wrong side of the gateway, nobody has them,
//! or another translation is tried first.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::places::{Stations, end_of_network};
use super::quoted;
use super::routers::Side;
use super::ways::{Way, Ways};
use crate::decode::NatDraft;
use crate::diagnostic::{Sink, Span};
use crate::render::printable;
use crate::scalar::Spanned;
use crate::tables::NatKind;

pub(super) fn translations(ways: &[Ways<'_>], stations: &Stations<'_>, sink: &mut Sink) {
    for router in ways {
        let Some(gateway) = &router.router.gateway else {
            continue;
        };
        let routes = router.router.routes.iter();
        let hops: HashMap<IpAddr, Span> = routes
            .flat_map(|route| &route.via)
            .map(|hop| (hop.value, hop.at))
            .collect();
        // Several entries may share an outside address.
        let mut seen = HashSet::new();
        hidden(&gateway.nat, sink);
        for draft in &gateway.nat {
            let Some(kind) = &draft.kind else { continue };
            inside(router, draft, kind, stations, sink);
            if seen.insert(kind.outside()) {
                outside(router, draft, kind, &hops, sink);
            }
        }
    }
    shared(ways, sink);
}

/// What leaves goes by the first entry that hides its source.
fn hidden(entries: &[NatDraft], sink: &mut Sink) {
    let mut sources: HashMap<IpNet, Span> = HashMap::new();
    let mut alone: HashMap<IpNet, Span> = HashMap::new();
    for entry in entries {
        let Some(kind) = &entry.kind else { continue };
        let (network, at) = (kind.inside().trunc(), entry.inside_at);
        let is_source = match kind {
            NatKind::Source { .. } => true,
            NatKind::OneToOne { .. } => false,
            NatKind::Forward { .. } => continue,
        };
        let mut around = std::iter::successors(Some(network), IpNet::supernet);
        let found = around.find_map(|around| sources.get(&around).copied());
        let found = found.or_else(|| alone.get(&network).copied().filter(|_| is_source));
        if let Some(first) = found {
            let message = match is_source {
                true => format!(
                    "this `source` translates nothing: all of {network} leaves by the entry in line {}",
                    first.line
                ),
                false => format!(
                    "{} leaves by the `source` in line {}, and not by this `one_to_one`",
                    network.addr(),
                    first.line
                ),
            };
            let help = "put the entry for fewer addresses first, or remove one of the two: the first that fits decides";
            let said = "this one is tried first".to_owned();
            sink.warn(at, message, help, Some((first, said)));
        }
        let seen = if is_source { &mut sources } else { &mut alone };
        seen.entry(network).or_insert(at);
    }
}

fn inside(
    router: &Ways<'_>,
    draft: &NatDraft,
    kind: &NatKind,
    stations: &Stations<'_>,
    sink: &mut Sink,
) {
    let (network, at) = (kind.inside(), draft.inside_at);
    let owner = || quoted("router", &router.router.name);
    if let NatKind::Source { .. } = kind {
        if !router.touches_inside(network) {
            let message = format!("no address of {network} is inside {}", owner());
            let help = "write a network of one of its switches, or one that a route leads to over a switch";
            sink.error(at, message, help);
        }
        return;
    }
    let addr = network.addr();
    if router.is_own(addr) {
        let message = format!("{addr} is the router's own address");
        sink.error(at, message, "translate to the address of a station inside");
    } else if !router.is_inside(addr) {
        let message = format!("{addr} is not inside {}", owner());
        let help = "write an address in the network of one of its switches, or one that a route leads to over a switch";
        sink.error(at, message, help);
    } else {
        let side = router.side(addr);
        let is_end = side.is_some_and(|side| end_of_network(Spanned::new(addr, at), &side, sink));
        if let (false, Some(Way::Connected(side))) = (is_end, router.find(addr)) {
            station(addr, at, &side, stations, sink);
        }
    }
}

/// Where a switch says so, a router asks nobody: it knows whom the fabric declares.
fn station(addr: IpAddr, at: Span, side: &Side<'_>, stations: &Stations<'_>, sink: &mut Sink) {
    let Some(switch) = side.switch else { return };
    if stations.may_be(switch, addr) {
        return;
    }
    let message = format!(
        "no port on switch `{}` has the address {addr}",
        printable(switch)
    );
    let help = "add the address to the port of the station, or write another: with `neighbours: declared`, a router \
                sends only to addresses that the fabric declares (`no_neighbour`)";
    sink.warn(at, message, help, None);
}

fn outside(
    router: &Ways<'_>,
    draft: &NatDraft,
    kind: &NatKind,
    hops: &HashMap<IpAddr, Span>,
    sink: &mut Sink,
) {
    let (addr, at) = (kind.outside(), draft.outside_at);
    if let Some(&hop) = hops.get(&addr) {
        let message =
            format!("{addr} is the `outside` of a translation, and a next hop of the router");
        let help = "translate to an address that no other station has";
        sink.conflict(at, message, help, (hop, "it is a next hop here".into()));
    }
    let Some(side) = router.side(addr) else {
        return;
    };
    if side.switch.is_none() {
        end_of_network(Spanned::new(addr, at), &side, sink);
    } else if side.address.addr() != addr {
        let network = side.address.trunc();
        let message = format!(
            "{addr} is in {network}, the network of {}",
            side.described()
        );
        let help = "translate to an address of the physical network";
        sink.conflict(at, message, help, (side.at, "the network is here".into()));
    }
}

/// An address of a router in the physical network.
struct Outer<'w, 'd> {
    addr: IpAddr,
    at: Span,
    router: &'w Ways<'d>,
}

/// Two legs may be in different networks with the same addresses, so this may be meant.
fn shared(ways: &[Ways<'_>], sink: &mut Sink) {
    let mut first: HashMap<IpAddr, Outer<'_, '_>> = HashMap::new();
    for router in ways {
        let mut own = HashSet::new();
        for outer in outers(router).filter(|outer| own.insert(outer.addr)) {
            let addr = outer.addr;
            let Some(other) = first.get(&addr) else {
                first.insert(addr, outer);
                continue;
            };
            if std::ptr::eq(other.router, router) || !legs_meet(other.router, router) {
                continue;
            }
            let there = quoted("router", &other.router.router.name);
            let message = format!(
                "{addr} belongs to {} and to {there}, whose legs have the same network",
                quoted("router", &router.router.name)
            );
            let help = "give each router its own addresses, unless the legs lead to different physical networks";
            let said = format!("{there} has it here");
            sink.warn(outer.at, message, help, Some((other.at, said)));
        }
    }
}

fn outers<'w, 'd>(router: &'w Ways<'d>) -> impl Iterator<Item = Outer<'w, 'd>> {
    let legs = router.sides.iter().filter(|side| side.switch.is_none());
    let legs = legs.map(|side| (side.address.addr(), side.at));
    let nat = router
        .router
        .gateway
        .iter()
        .flat_map(|gateway| &gateway.nat);
    let nat = nat.filter_map(|draft| Some((draft.kind.as_ref()?.outside(), draft.outside_at)));
    legs.chain(nat)
        .map(move |(addr, at)| Outer { addr, at, router })
}

fn legs_meet(one: &Ways<'_>, other: &Ways<'_>) -> bool {
    let legs = |ways: &'_ Ways<'_>| -> Vec<_> {
        let legs = ways.sides.iter().filter(|side| side.switch.is_none());
        legs.map(|side| side.address.trunc()).collect()
    };
    let (ones, others) = (legs(one), legs(other));
    ones.iter().any(|one| {
        let mut others = others.iter();
        others.any(|other| one.contains(other) || other.contains(one))
    })
}
