//! What only one port or router of a switch can have: MAC, address, key. And how many there can be.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;

use overlane_wire::{Mac, PortKey};

use super::{Claims, quoted};
use crate::decode::{Draft, InterfaceDraft, RouterDraft, SwitchIds};
use crate::diagnostic::{Sink, Span};
use crate::fabric::single;
use crate::keys;
use crate::render::printable;

/// What guests can do that mean to share it.
const SHARED_MAC: &str = "it must be unique within the switch; when it moves between guests (VRRP), give each port a `mac` \
    of its own, and write this one into `allowed_macs` of each";
const SHARED_ADDRESS: &str = "it must be unique within the switch; when guests share it (VRRP, anycast), move it from \
    `addresses` to `allowed_addresses` at each of their ports";

/// Something that a port or router has in a switch.
struct Has<'d> {
    switch: &'d str,
    what: What,
    at: Span,
    owner: String,
    is_port: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Mac(Mac),
    /// A router's, made from its first interface.
    DerivedMac(Mac),
    Address(IpAddr),
    Key(PortKey),
}

impl What {
    /// What others must not have.
    fn unique(self) -> Self {
        match self {
            Self::DerivedMac(mac) => Self::Mac(mac),
            other => other,
        }
    }

    fn described(self) -> String {
        match self {
            Self::Mac(mac) => format!("MAC {mac}"),
            Self::DerivedMac(mac) => format!("MAC {mac}, which its first interface gives it,"),
            Self::Address(addr) => addr.to_string(),
            Self::Key(key) => format!("key {key}"),
        }
    }
}

pub(super) fn members(draft: &Draft<'_>, sink: &mut Sink) {
    let mut all = of_ports(draft);
    let ids = draft.switch_ids();
    for router in &draft.routers {
        let mac = mac(router, &ids);
        for interface in &router.interfaces {
            all.extend(of_interface(router, interface, mac));
        }
    }
    all.sort_by_key(|has| has.at);
    let mut claims = Claims::new();
    for has in &all {
        let owner = has.owner.clone();
        let first = claims.claim((has.switch, has.what.unique()), has.at, owner);
        // In the order of their places.
        let first = first.and_then(|(place, _)| all.binary_search_by_key(&place, |it| it.at).ok());
        if let Some(first) = first.and_then(|index| all.get(index)) {
            taken(first, has, sink);
        }
    }
    floating(draft, &ids, &claims, sink);
    for router in &draft.routers {
        let mac = mac(router, &ids);
        for interface in router.interfaces.iter() {
            link_local_taken(router, interface, mac, &claims, sink);
        }
    }
}

fn of_ports<'d>(draft: &'d Draft<'_>) -> Vec<Has<'d>> {
    let mut all = Vec::new();
    for port in &draft.ports {
        let Some(switch) = port.switch else { continue };
        let mut has = |what, at| {
            all.push(Has {
                switch: switch.value,
                what,
                at,
                owner: quoted("port", &port.name),
                is_port: true,
            });
        };
        if let Some(mac) = port.mac {
            has(What::Mac(mac.value), mac.at);
        }
        for address in &port.addresses {
            has(What::Address(address.value), address.at);
        }
        if let Some(key) = port.key {
            has(What::Key(key.value), key.at);
        }
    }
    all
}

/// The MAC of a router, and where it is written.
fn mac(router: &RouterDraft<'_>, ids: &SwitchIds<'_>) -> Option<(What, Span)> {
    Some(match router.mac {
        Some(mac) => (What::Mac(mac.value), mac.at),
        None => (What::DerivedMac(router.derived_mac(ids)?), router.name.at),
    })
}

fn of_interface<'d>(
    router: &'d RouterDraft<'_>,
    interface: &'d InterfaceDraft<'_>,
    mac: Option<(What, Span)>,
) -> impl Iterator<Item = Has<'d>> {
    let addresses = interface.addresses.iter();
    let addresses = addresses.map(|at| (What::Address(at.value.addr()), at.at));
    addresses.chain(mac).map(|(what, at)| Has {
        switch: interface.switch.text,
        what,
        at,
        owner: quoted("router", &router.name),
        is_port: false,
    })
}

fn taken(first: &Has<'_>, has: &Has<'_>, sink: &mut Sink) {
    let other = &first.owner;
    let (what, switch) = (has.what.described(), printable(has.switch));
    let message = format!("{what} is already taken by {other} in switch `{switch}`");
    let are_two_ports = first.is_port && has.is_port && first.owner != has.owner;
    let help = match has.what {
        What::DerivedMac(_) => "give the router a `mac` that is unique within its switches",
        What::Mac(_) if are_two_ports => SHARED_MAC,
        What::Address(_) if are_two_ports => SHARED_ADDRESS,
        _ => "it must be unique within the switch",
    };
    let place = (first.at, format!("{other} has it here"));
    sink.conflict(has.at, message, help, place);
}

/// What ports of a switch share, none of its ports or routers has for itself.
fn floating(
    draft: &Draft<'_>,
    ids: &SwitchIds<'_>,
    claims: &Claims<(&str, What)>,
    sink: &mut Sink,
) {
    let link_locals = router_link_locals(draft, ids);
    for port in &draft.ports {
        let Some(switch) = port.switch else { continue };
        let switch = switch.value;
        for network in &port.allowed_addresses {
            let Some(addr) = single(network.value) else {
                continue;
            };
            let has_it = claims.get(&(switch, What::Address(addr)));
            let has_it = has_it.or_else(|| link_locals.get(&(switch, addr)).cloned());
            let help = "write it into `allowed_addresses` only, at each port that may have it, or remove it here";
            shared_with_owner(addr, network.at, switch, has_it, help, sink);
        }
        for mac in &port.allowed_macs {
            let has_it = claims.get(&(switch, What::Mac(mac.value)));
            let help = "write another MAC, which no port and no router has as its own `mac`";
            shared_with_owner(mac.value, mac.at, switch, has_it, help, sink);
        }
    }
}

/// The link-local addresses of routers, by switch.
fn router_link_locals<'d>(
    draft: &'d Draft<'_>,
    ids: &SwitchIds<'_>,
) -> HashMap<(&'d str, IpAddr), (Span, String)> {
    let mut all = HashMap::new();
    for router in &draft.routers {
        let Some((What::Mac(mac) | What::DerivedMac(mac), at)) = mac(router, ids) else {
            continue;
        };
        for interface in router.interfaces.iter().filter(|it| has_ipv6(it)) {
            let key = (interface.switch.text, mac.link_local().into());
            all.insert(key, (at, quoted("router", &router.name)));
        }
    }
    all
}

fn has_ipv6(interface: &InterfaceDraft<'_>) -> bool {
    let mut addresses = interface.addresses.iter();
    addresses.any(|address| address.value.addr().is_ipv6())
}

fn shared_with_owner(
    what: impl Display,
    at: Span,
    switch: &str,
    has_it: Option<(Span, String)>,
    help: &str,
    sink: &mut Sink,
) {
    let Some((place, owner)) = has_it else { return };
    let switch = printable(switch);
    let message = format!("{what} cannot float: {owner} has it as its own in switch `{switch}`");
    sink.conflict(at, message, help, (place, format!("{owner} has it here")));
}

/// A router has the link-local address made from its MAC, which a port may have been given.
fn link_local_taken(
    router: &RouterDraft<'_>,
    interface: &InterfaceDraft<'_>,
    mac: Option<(What, Span)>,
    claims: &Claims<(&str, What)>,
    sink: &mut Sink,
) {
    if !has_ipv6(interface) {
        return;
    }
    let Some((What::Mac(mac) | What::DerivedMac(mac), at)) = mac else {
        return;
    };
    let addr = mac.link_local();
    let switch = interface.switch.text;
    let Some((place, other)) = claims.get(&(switch, What::Address(addr.into()))) else {
        return;
    };
    let owner = quoted("router", &router.name);
    let switch = printable(switch);
    let message =
        format!("{addr} is the link-local address of {owner} and of {other} in switch `{switch}`");
    let help = "remove the address from the port, or give the router another `mac`";
    let said = [
        format!("{other} has it here"),
        format!("{owner} has its MAC here"),
    ];
    sink.disagreement([(place, &said[0]), (at, &said[1])], message, help);
}

/// Of ports and interfaces together, since they share the keys.
pub(super) fn switch_sizes(draft: &Draft<'_>, sink: &mut Sink) {
    let ports = draft
        .ports
        .iter()
        .filter_map(|port| Some(port.switch?.value));
    let interfaces = draft.routers.iter().flat_map(|router| &router.interfaces);
    let interfaces = interfaces.map(|interface| interface.switch.text);
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for switch in ports.chain(interfaces) {
        *sizes.entry(switch).or_default() += 1;
    }
    for switch in &draft.switches {
        let size = sizes.get(switch.name.text).copied().unwrap_or_default();
        if size > keys::KEYS {
            let message = format!("{} has {size} ports", quoted("switch", &switch.name));
            let help = format!(
                "a switch can have {} ports, interfaces of routers included: split it",
                keys::KEYS
            );
            sink.report(switch.name.at, message, Some(help));
        }
    }
}
