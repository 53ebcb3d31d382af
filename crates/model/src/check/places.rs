//! Addresses that are where no packet for them comes: of ports, and of next hops.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::quoted;
use super::routers::Side;
use super::ways::{Way, Ways};
use crate::decode::{Draft, PortDraft};
use crate::diagnostic::Sink;
use crate::fabric::Neighbours;
use crate::render::printable;
use crate::scalar::Spanned;
use crate::special;

/// The networks of routers on a switch, each with its router.
type OnSwitch<'d> = HashMap<&'d str, Vec<(&'d Ways<'d>, Side<'d>)>>;

pub(super) fn places(
    draft: &Draft<'_>,
    ways: &[Ways<'_>],
    stations: &Stations<'_>,
    sink: &mut Sink,
) {
    let mut on_switch: OnSwitch<'_> = HashMap::new();
    for router in ways {
        for &side in &router.sides {
            if let Some(switch) = side.switch {
                on_switch.entry(switch).or_default().push((router, side));
            }
        }
    }
    for port in &draft.ports {
        let networks = port.switch.and_then(|switch| on_switch.get(switch.value));
        let Some(networks) = networks else { continue };
        for &address in &port.addresses {
            port_address(port, address, networks, sink);
        }
    }
    for router in ways {
        next_hops(router, stations, sink);
    }
}

/// An address of a port on a switch that has networks.
fn port_address(
    port: &PortDraft<'_>,
    address: Spanned<IpAddr>,
    networks: &[(&Ways<'_>, Side<'_>)],
    sink: &mut Sink,
) {
    let Spanned { value: addr, at } = address;
    if is_link_local(addr) {
        return;
    }
    let mut own = networks.iter().map(|(_, side)| side);
    if let Some(side) = own.find(|side| side.address.contains(&addr)) {
        end_of_network(address, side, sink);
        return;
    }
    let of_family =
        |(_, side): &&(&Ways<'_>, Side<'_>)| side.address.addr().is_ipv4() == addr.is_ipv4();
    let Some(&(router, side)) = networks.iter().find(of_family) else {
        // The switch has no network of this family.
        return;
    };
    // A further address of a station, which a router knows the way to.
    if networks.iter().any(|(router, side)| {
        matches!(router.find(addr), Some(Way::Route(route)) if leads_to(route.via.iter(), router, side.switch))
    }) {
        return;
    }
    let owner = quoted("port", &port.name);
    let network = side.address.trunc();
    let (there, described) = (quoted("router", &router.router.name), side.described());
    let first = (side.at, format!("{there} has {network} on {described}"));
    match router.find(addr) {
        Some(Way::Connected(other)) => {
            let message = format!(
                "{addr} of {owner} is in the network {} that {there} has on {}",
                other.address.trunc(),
                other.described()
            );
            let help = format!("write an address in {network}, the network of {described}");
            let said = format!("{there} has that network here");
            sink.conflict(at, message, &help, (other.at, said));
        }
        Some(Way::Route(_)) | None => {
            let message =
                format!("{addr} of {owner} is in no network that a router has on {described}");
            let help = format!(
                "write an address in {network}, or give the router an address in the network of {addr}, or a route \
                 to it: no router sends anything to it"
            );
            sink.warn(at, message, &help, Some(first));
        }
    }
}

/// Those speak on their switch only.
const fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

fn leads_to<'h>(
    mut hops: impl Iterator<Item = &'h Spanned<IpAddr>>,
    router: &Ways<'_>,
    switch: Option<&str>,
) -> bool {
    hops.any(|hop| {
        router
            .side(hop.value)
            .is_some_and(|side| side.switch == switch)
    })
}

/// Reports the first or last address of a network, which belongs to nobody.
pub(super) fn end_of_network(address: Spanned<IpAddr>, side: &Side<'_>, sink: &mut Sink) -> bool {
    let addr = address.value;
    let is_end = special::is_end_of(side.address, addr);
    if is_end {
        let network = side.address.trunc();
        let what = if addr == network.addr() {
            "the address of the network"
        } else {
            "the broadcast address of"
        };
        let message = format!("{addr} is {what} {network}");
        let said = format!("the network of {} is here", side.described());
        let help = "write the address of one station in this network";
        sink.conflict(address.at, message, help, (side.at, said));
    }
    is_end
}

/// Whom routers know on switches.
pub(super) struct Stations<'d> {
    /// The addresses that somebody has there.
    declared: HashSet<(&'d str, IpAddr)>,
    /// Switches on which routers ask for any other.
    asked: HashSet<&'d str>,
}

impl Stations<'_> {
    /// Whether somebody may have an address.
    pub(super) fn may_be(&self, switch: &str, addr: IpAddr) -> bool {
        self.asked.contains(switch) || self.declared.contains(&(switch, addr))
    }
}

pub(super) fn stations<'d>(draft: &'d Draft<'_>) -> Stations<'d> {
    let ports = draft
        .ports
        .iter()
        .filter_map(|port| Some((port.switch?.value, &port.addresses)));
    let ports = ports.flat_map(|(switch, list)| list.iter().map(move |at| (switch, at.value)));
    let interfaces = draft.routers.iter().flat_map(|router| &router.interfaces);
    let interfaces = interfaces.flat_map(|interface| {
        let own = interface.addresses.iter();
        own.map(|at| (interface.switch.text, at.value.addr()))
    });
    let is_asked = |at: &Spanned<Neighbours>| at.value == Neighbours::Asked;
    let switches = draft.switches.iter();
    let asked = switches.filter(|switch| switch.neighbours.as_ref().is_none_or(is_asked));
    Stations {
        declared: ports.chain(interfaces).collect(),
        asked: asked.map(|switch| switch.name.text).collect(),
    }
}

/// Where a switch says so, a router asks nobody: it knows whom the fabric declares. Each next hop once.
fn next_hops(router: &Ways<'_>, stations: &Stations<'_>, sink: &mut Sink) {
    let mut seen = HashSet::new();
    let hops = router.router.routes.iter().flat_map(|route| &route.via);
    for hop in hops.filter(|hop| seen.insert(hop.value)) {
        let Some(side) = router.side(hop.value) else {
            continue;
        };
        if end_of_network(*hop, &side, sink) || router.is_own(hop.value) {
            continue;
        }
        let Some(switch) = side.switch else { continue };
        if stations.may_be(switch, hop.value) {
            continue;
        }
        let message = format!(
            "no port and no router on switch `{}` has the next hop {}",
            printable(switch),
            hop.value
        );
        let help = "add the address to the port of the next router, or write another: with `neighbours: declared`, a \
                    router sends only to addresses that the fabric declares (`no_neighbour`)";
        sink.warn(hop.at, message, help, None);
    }
}
