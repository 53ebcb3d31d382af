//! The networks and routes of each router by itself.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{family, nat, quoted};
use crate::decode::{Draft, RouteDraft, RouterDraft};
use crate::diagnostic::{Sink, Span};
use crate::prefixes::Prefixes;
use crate::render::printable;
use crate::scalar::Spanned;
use crate::special;

pub(super) fn routers(draft: &Draft<'_>, sink: &mut Sink) {
    for router in &draft.routers {
        let sides = sides(router);
        overlaps(router, &sides, sink);
        let mut taken = taken(&sides, sink);
        nat::nat(router, &sides, &mut taken, sink);
        routes(router, &sides, &mut taken, sink);
    }
}

/// An address of a router with its network, and what that network is: of a switch, or behind the leg.
#[derive(Clone, Copy)]
pub(super) struct Side<'d> {
    pub(super) address: IpNet,
    pub(super) at: Span,
    /// `None`: the leg.
    pub(super) switch: Option<&'d str>,
}

impl Side<'_> {
    pub(super) fn described(&self) -> String {
        match self.switch {
            Some(switch) => format!("switch `{}`", printable(switch)),
            None => "the leg".into(),
        }
    }
}

pub(super) fn sides<'d>(router: &'d RouterDraft<'_>) -> Vec<Side<'d>> {
    let side = |switch| {
        move |at: &Spanned<IpNet>| Side {
            address: at.value,
            at: at.at,
            switch,
        }
    };
    let mut sides = Vec::new();
    for interface in &router.interfaces {
        sides.extend(
            interface
                .addresses
                .iter()
                .map(side(Some(interface.switch.text))),
        );
    }
    if let Some(gateway) = &router.gateway {
        sides.extend(gateway.addresses.iter().map(side(None)));
    }
    sides
}

/// Two sides of a router share no address: it could not tell where to send.
fn overlaps(router: &RouterDraft<'_>, sides: &[Side<'_>], sink: &mut Sink) {
    let mut sorted: Vec<&Side<'_>> = sides.iter().collect();
    // A network comes before those inside it.
    sorted.sort_by_key(|side| (side.address.trunc(), side.at));
    let mut around: Vec<&Side<'_>> = Vec::new();
    for side in sorted {
        let network = side.address.trunc();
        while around
            .last()
            .is_some_and(|outer| !outer.address.contains(&network))
        {
            around.pop();
        }
        if let Some(outer) = around.last().filter(|outer| outer.switch != side.switch) {
            let (mine, other) = (network, outer.address.trunc());
            let owner = quoted("router", &router.name);
            let message = if mine == other {
                format!(
                    "{owner} has the network {mine} twice: on {} and on {}",
                    outer.described(),
                    side.described()
                )
            } else {
                format!(
                    "the networks {other} on {} and {mine} on {} of {owner} overlap",
                    outer.described(),
                    side.described()
                )
            };
            let help = "give each switch of a router, and its leg, a network of its own";
            let said = [format!("{other} is here"), format!("{mine} is here")];
            sink.disagreement([(outer.at, &said[0]), (side.at, &said[1])], message, help);
        }
        around.push(side);
    }
}

/// The prefixes that a router has by itself, with where from and what they are.
pub(super) type Taken = HashMap<IpNet, (Span, What)>;

/// Why a router has a prefix.
pub(super) enum What {
    /// By itself, in words.
    Own(String),
    Route,
}

fn taken(sides: &[Side<'_>], sink: &mut Sink) -> Taken {
    let mut taken = Taken::new();
    for side in sides {
        let addr = side.address.addr();
        let what = format!("the router's own address on {}", side.described());
        let own = (side.at, What::Own(what));
        match taken.get(&IpNet::from(addr)) {
            // In a switch that has been reported.
            Some((first, _)) if side.switch.is_none() => {
                let message = format!("the leg has {addr} twice");
                sink.conflict(
                    side.at,
                    message,
                    "remove one of the two",
                    (*first, "first here".into()),
                );
            }
            Some(_) => {}
            None => {
                taken.insert(addr.into(), own);
            }
        }
    }
    for side in sides {
        let network = side.address.trunc();
        let what = format!("the network of {}", side.described());
        taken.entry(network).or_insert((side.at, What::Own(what)));
    }
    taken
}

fn routes(router: &RouterDraft<'_>, sides: &[Side<'_>], taken: &mut Taken, sink: &mut Sink) {
    let mut connected = Prefixes::new();
    for side in sides {
        connected.insert(side.address, ());
    }
    let own: HashSet<IpAddr> = sides.iter().map(|side| side.address.addr()).collect();
    for route in &router.routes {
        destination(route, taken, sink);
        let mut hops: HashMap<IpAddr, Span> = HashMap::new();
        for &hop in &route.via {
            if let Some(&first) = hops.get(&hop.value) {
                let message = format!("{} appears twice in `via`", hop.value);
                let said = format!("{} is first here", hop.value);
                sink.conflict(hop.at, message, "remove one of the two", (first, said));
                continue;
            }
            hops.insert(hop.value, hop.at);
            next_hop(route, hop, &connected, &own, sink);
        }
    }
}

fn destination(route: &RouteDraft, taken: &mut Taken, sink: &mut Sink) {
    let Some(to) = route.to else { return };
    let network = to.value;
    if special::is_never_forwarded(network) {
        let message = format!("no router forwards to {network}");
        sink.error(to.at, message, "remove the route");
        return;
    }
    match taken.get(&network) {
        Some((place, What::Route)) => {
            let message = format!("there is already a route to {network}");
            let help = "write one route with all of its next hops: `via: [198.18.1.8, 198.18.1.9]`";
            sink.conflict(to.at, message, help, (*place, "first routed here".into()));
        }
        Some((place, What::Own(what))) => {
            let message = format!("{network} is already {what}");
            let help = "remove the route, or write another network";
            let said = format!("{what} is here");
            let places = [(*place, said.as_str()), (to.at, "the route is here")];
            sink.disagreement(places, message, help);
        }
        None => {
            taken.insert(network, (to.at, What::Route));
        }
    }
}

fn next_hop(
    route: &RouteDraft,
    hop: Spanned<IpAddr>,
    connected: &Prefixes<()>,
    own: &HashSet<IpAddr>,
    sink: &mut Sink,
) {
    let addr = hop.value;
    let to = route.to.map(|to| to.value);
    let (message, help) = if let Some(to) = to.filter(|to| to.addr().is_ipv4() != addr.is_ipv4()) {
        (
            format!(
                "{addr} is {}, but the route to {to} is {}",
                family(addr),
                family(to.addr())
            ),
            "write a next hop of the same family".to_owned(),
        )
    } else if own.contains(&addr) {
        (
            format!("{addr} is the router's own address"),
            "write the address of the next router".to_owned(),
        )
    } else if connected.find(addr).is_none() {
        (
            format!("{addr} is in no network of the router"),
            "the next hop has to be in the network of one of its interfaces, or of its leg"
                .to_owned(),
        )
    } else {
        return;
    };
    sink.report(hop.at, message, Some(help));
}
