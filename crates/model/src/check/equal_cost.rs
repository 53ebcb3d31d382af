//! Equal-cost next hops of which one keeps connections: a gateway with `nat`, or a port with a firewall. The two
//! directions of a connection may pass different next hops, and each of them knows only what passed it.

use std::collections::HashSet;
use std::net::IpAddr;

use super::quoted;
use super::ways::Ways;
use crate::decode::{Draft, PortDraft, RouterDraft};
use crate::diagnostic::{Sink, Span};
use crate::fabric::Policy;
use crate::meaning::{Meaning, Meanings};
use crate::tables::NatKind;

/// Who has a next hop.
#[derive(Clone, Copy)]
enum Owner<'d> {
    Router(&'d RouterDraft<'d>),
    Port(&'d PortDraft<'d>),
    /// Somebody whom the file does not declare.
    Address(IpAddr),
}

impl Owner<'_> {
    fn described(self) -> String {
        match self {
            Self::Router(router) => quoted("router", &router.name),
            Self::Port(port) => quoted("port", &port.name),
            Self::Address(addr) => addr.to_string(),
        }
    }

    /// Whether it judges a packet by the connections that passed it. A router keeps them where it has `nat` (NAT-25).
    fn keeps(self, firewalls: &Firewalls<'_>) -> bool {
        match self {
            Self::Router(router) => (router.gateway.as_ref()).is_some_and(|it| !it.nat.is_empty()),
            Self::Port(port) => firewalls.of(port),
            Self::Address(_) => false,
        }
    }

    /// Where its connections are kept: there is something to change.
    fn place(self) -> Option<Span> {
        match self {
            Self::Router(router) => router.gateway.as_ref().map(|gateway| gateway.at),
            Self::Port(port) => Some(port.name.at),
            Self::Address(_) => None,
        }
    }

    /// Whether connections can begin behind it. NAT-23: without `nat` for what comes in, `untranslated: drop` lets
    /// nothing in.
    fn lets_in(self) -> bool {
        let gateway = match self {
            Self::Router(router) => router.gateway.as_ref(),
            Self::Port(_) | Self::Address(_) => None,
        };
        gateway.is_none_or(|gateway| {
            let mut kinds = gateway.nat.iter().filter_map(|nat| nat.kind.as_ref());
            gateway.nat.is_empty()
                || gateway.untranslated != Policy::Drop
                || kinds.any(|kind| !matches!(kind, NatKind::Source { .. }))
        })
    }
}

/// Warns once for each route.
pub(super) fn equal_cost(draft: &Draft<'_>, ways: &[Ways<'_>], sink: &mut Sink) {
    let firewalls = Firewalls::new(draft);
    for way in ways {
        for route in &way.router.routes {
            let mut hops: Vec<Hop<'_>> = Vec::new();
            for hop in &route.via {
                let owner = owner(draft, way, hop.value);
                let name = owner.described();
                if hops.iter().all(|known| known.name != name) {
                    hops.push(Hop {
                        at: hop.at,
                        keeps: owner.keeps(&firewalls),
                        owner,
                        name,
                    });
                }
            }
            let Some(first) = hops.iter().position(|hop| hop.keeps) else {
                continue;
            };
            let first = hops.remove(first);
            let second = hops.iter().find(|hop| hop.keeps).or(hops.first());
            let Some(second) = second else { continue };
            if first.owner.lets_in() || hops.iter().any(|hop| hop.owner.lets_in()) {
                warn(way, &first, second, sink);
            }
        }
    }
}

/// The next hops of a route that one owner has.
struct Hop<'d> {
    at: Span,
    owner: Owner<'d>,
    name: String,
    /// Whether the owner keeps connections.
    keeps: bool,
}

fn warn(way: &Ways<'_>, first: &Hop<'_>, second: &Hop<'_>, sink: &mut Sink) {
    let (one, other) = (&first.name, &second.name);
    let who = match second.keeps {
        true => "each keeps its own connections".to_owned(),
        false => format!("{one} alone keeps connections"),
    };
    let message = format!(
        "{one} and {other} are equal-cost next hops of {}, and {who}",
        quoted("router", &way.router.name)
    );
    let remedy = match first.owner {
        Owner::Port(_) => {
            "keep one next hop in this route, or have no firewall at these ports (no rule that names them, no default \
             policy `drop`)"
        }
        Owner::Router(_) | Owner::Address(_) => {
            "keep one next hop in this route, or give the guests of each gateway a router of their own"
        }
    };
    let help = format!(
        "{remedy}: the reply to what came in by one may leave by the other, which does not know the connection \
         (`connection_invalid`, or another source address)"
    );
    let related = first.owner.place();
    let related = related.map(|place| (place, format!("{one} keeps its connections here")));
    sink.warn(second.at, message, &help, related);
}

fn owner<'d>(draft: &'d Draft<'_>, way: &Ways<'_>, hop: IpAddr) -> Owner<'d> {
    let Some(switch) = way.side(hop).and_then(|side| side.switch) else {
        return Owner::Address(hop);
    };
    let router = draft.routers.iter().find(|router| {
        let mut interfaces = router.interfaces.iter();
        interfaces.any(|interface| {
            let mut own = interface.addresses.iter();
            interface.switch.text == switch && own.any(|own| own.value.addr() == hop)
        })
    });
    let mut ports = draft.ports.iter();
    let port = ports.find(|port| {
        let mut own = port.addresses.iter();
        port.switch.is_some_and(|at| at.value == switch) && own.any(|own| own.value == hop)
    });
    match (router, port) {
        (Some(router), _) => Owner::Router(router),
        (None, Some(port)) => Owner::Port(port),
        (None, None) => Owner::Address(hop),
    }
}

/// Which ports have a firewall (FW-1).
struct Firewalls<'d> {
    /// By a name that a rule uses.
    named: HashSet<&'d str>,
    /// By the default policy of the switch.
    switches: HashSet<&'d str>,
}

impl<'d> Firewalls<'d> {
    fn new(draft: &'d Draft<'_>) -> Self {
        let meanings = Meanings::new(draft);
        let mut named = HashSet::new();
        let mut switches = HashSet::new();
        for name in draft.rules.iter().flat_map(|rule| &rule.ports) {
            match meanings.ports(name.value) {
                Some(Meaning::Port(port)) => _ = named.insert(port),
                Some(Meaning::Switch(switch)) => _ = switches.insert(switch),
                Some(Meaning::Group(group)) => {
                    let groups = draft.groups.iter().filter(|it| it.name.text == group);
                    named.extend(groups.flat_map(|it| &it.ports).map(|port| port.value));
                }
                None => {}
            }
        }
        let drops = draft.switches.iter().filter(|switch| {
            let firewall = &switch.firewall;
            firewall.from_port == Policy::Drop || firewall.to_port == Policy::Drop
        });
        switches.extend(drops.map(|switch| switch.name.text));
        Self { named, switches }
    }

    fn of(&self, port: &PortDraft<'_>) -> bool {
        let switch = port.switch.map(|switch| switch.value);
        self.named.contains(port.name.text) || switch.is_some_and(|it| self.switches.contains(it))
    }
}
