//! The shape of what the fabric file says of logical routers.

use std::net::IpAddr;

use ipnet::IpNet;
use overlane_wire::Mac;

use crate::decode::timeouts::{TimeoutsDraft, timeouts};
use crate::decode::{SwitchIds, nat, reference, share};
use crate::diagnostic::{Sink, Span};
use crate::fabric::{Policy, ReversePath, derived_mac};
use crate::names::DeviceName;
use crate::networks::{filled, interface_address, list, network};
use crate::record::{Key, NameDraft, named, optional, record, required};
use crate::render::printable;
use crate::scalar::{Spanned, boolean, choice};
use crate::values::{address, device, station};
use crate::yaml::{Node, Value};

#[derive(Debug)]
pub(crate) struct RouterDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) mac: Option<Spanned<Mac>>,
    pub(crate) interfaces: Vec<InterfaceDraft<'n>>,
    pub(crate) routes: Vec<RouteDraft>,
    pub(crate) reverse_path: ReversePath,
    pub(crate) mss_clamp: bool,
    pub(crate) gateway: Option<GatewayDraft<'n>>,
}

impl RouterDraft<'_> {
    /// Its MAC where it declares none. None: no interface has a switch and an address that it could be made from.
    pub(crate) fn derived_mac(&self, ids: &SwitchIds<'_>) -> Option<Mac> {
        let interfaces = self.interfaces.iter().filter_map(|interface| {
            let id = *ids.get(interface.switch.text)?;
            Some((id, interface.addresses.first()?.value.addr()))
        });
        let (switch, address) = interfaces.min_by_key(|(id, _)| *id)?;
        Some(derived_mac(switch, address))
    }
}

#[derive(Debug)]
pub(crate) struct InterfaceDraft<'n> {
    /// The switch, which names it.
    pub(crate) switch: NameDraft<'n>,
    pub(crate) addresses: Vec<Spanned<IpNet>>,
}

#[derive(Debug)]
pub(crate) struct RouteDraft {
    pub(crate) to: Option<Spanned<IpNet>>,
    pub(crate) via: Vec<Spanned<IpAddr>>,
    pub(crate) at: Span,
}

#[derive(Debug)]
pub(crate) struct GatewayDraft<'n> {
    pub(crate) host: Option<Spanned<&'n str>>,
    pub(crate) device: Option<Spanned<DeviceName>>,
    pub(crate) addresses: Vec<Spanned<IpNet>>,
    pub(crate) nat: Vec<nat::NatDraft>,
    pub(crate) untranslated: Policy,
    pub(crate) connections: Option<u32>,
    pub(crate) timeouts: TimeoutsDraft,
    pub(crate) at: Span,
}

pub(super) const ROUTER: [Key; 6] = [
    optional("mac"),
    required("interfaces", "interfaces: { blue: [198.18.1.254/24] }"),
    optional("routes"),
    optional("reverse_path"),
    optional("mss_clamp"),
    optional("gateway"),
];
pub(super) const ROUTE: [Key; 2] = [
    required("to", "to: 0.0.0.0/0"),
    required("via", "via: 198.18.1.9"),
];
pub(super) const GATEWAY: [Key; 7] = [
    required("host", "host: h1"),
    optional("device"),
    optional("addresses"),
    optional("nat"),
    optional("untranslated"),
    optional("connections"),
    optional("timeouts"),
];

pub(super) fn router<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> RouterDraft<'n> {
    let what = format!("router `{}`", printable(name.text));
    let [
        mac,
        interfaces,
        routes,
        reverse_path,
        mss_clamp,
        gateway_node,
    ] = record(node, name.at, &what, &ROUTER, sink);
    if let Some(node) =
        interfaces.filter(|node| matches!(&node.value, Value::Mapping(list) if list.is_empty()))
    {
        let help = "add one, for example `blue: [198.18.1.254/24]`";
        sink.error(node.at, format!("{what} has no interface"), help);
    }
    RouterDraft {
        mac: mac.and_then(|node| station(node, "`mac`", sink)),
        interfaces: interfaces.map_or_else(Vec::new, |node| {
            named(node, &format!("interfaces of {what}"), interface, sink)
        }),
        routes: routes.map_or_else(Vec::new, |node| {
            let help = "write it in brackets: [{ to: 0.0.0.0/0, via: 198.18.1.9 }]";
            let nodes = list(node, "`routes`", help, sink).iter();
            nodes.map(|node| route(node, sink)).collect()
        }),
        reverse_path: reverse_path
            .and_then(|node| choice(node, "`reverse_path`", &ReversePath::ALL, sink))
            .map_or_else(ReversePath::default, |found| found.value),
        mss_clamp: mss_clamp
            .and_then(|node| boolean(node, "`mss_clamp`", sink))
            .is_some_and(|found| found.value),
        gateway: gateway_node.map(|node| gateway(node, &what, sink)),
        name,
    }
}

fn interface<'n>(switch: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> InterfaceDraft<'n> {
    let what = format!("interface `{}`", printable(switch.text));
    InterfaceDraft {
        switch,
        addresses: interface_addresses(node, &what, sink),
    }
}

fn interface_addresses(node: &Node, what: &str, sink: &mut Sink) -> Vec<Spanned<IpNet>> {
    let help = "write addresses with their prefix lengths in brackets: [198.18.1.254/24]";
    let nodes = filled(node, what, help, sink).iter();
    nodes
        .filter_map(|node| interface_address(node, sink))
        .collect()
}

fn route(node: &Node, sink: &mut Sink) -> RouteDraft {
    let [to, via] = record(node, node.at, "a route", &ROUTE, sink);
    RouteDraft {
        to: to.and_then(|node| network(node, "`to`", sink)),
        via: via.map_or_else(Vec::new, |node| next_hops(node, sink)),
        at: node.at,
    }
}

/// One address, or a list of them.
fn next_hops(node: &Node, sink: &mut Sink) -> Vec<Spanned<IpAddr>> {
    let help =
        "write the address of the next router, or several in brackets: [198.18.1.8, 198.18.1.9]";
    match node.value {
        Value::List(_) => {
            let nodes = filled(node, "`via`", help, sink).iter();
            let hops = nodes.filter_map(|node| address(node, "a next hop", sink));
            hops.collect()
        }
        _ => address(node, "`via`", sink).into_iter().collect(),
    }
}

fn gateway<'n>(node: &'n Node, router: &str, sink: &mut Sink) -> GatewayDraft<'n> {
    let what = format!("the gateway of {router}");
    let [
        host,
        device_node,
        addresses,
        nat,
        untranslated,
        connections,
        times,
    ] = record(node, node.at, &what, &GATEWAY, sink);
    if matches!(node.value, Value::Mapping(_)) {
        let of_a_leg = [
            (addresses, "addresses"),
            (nat, "nat"),
            (untranslated, "untranslated"),
            (connections, "connections"),
            (times, "timeouts"),
        ];
        leg(device_node, of_a_leg, &what, sink);
    }
    GatewayDraft {
        host: host.and_then(|node| reference(node, "host", sink)),
        device: device_node.and_then(|node| device(node, "`device`", sink)),
        addresses: addresses.map_or_else(Vec::new, |node| {
            interface_addresses(node, "`addresses`", sink)
        }),
        nat: nat.map_or_else(Vec::new, |node| {
            let help = "write it in brackets: [{ source: 198.18.1.0/24, outside: 198.19.0.2 }]";
            let nodes = list(node, "`nat`", help, sink).iter();
            nodes.map(|node| nat::rule(node, sink)).collect()
        }),
        untranslated: untranslated
            .and_then(|node| choice(node, "`untranslated`", &Policy::ALL, sink))
            .map_or(Policy::Allow, |found| found.value),
        connections: connections.and_then(|node| share(node, sink)),
        timeouts: times.map_or_else(TimeoutsDraft::default, |node| timeouts(node, &what, sink)),
        at: node.at,
    }
}

/// A leg has a device and addresses, and only a leg is something to translate at.
fn leg(
    device: Option<&Node>,
    of_a_leg: [(Option<&Node>, &str); 5],
    gateway: &str,
    sink: &mut Sink,
) {
    let [(addresses, _), ..] = of_a_leg;
    match (device, addresses) {
        (Some(device), None) => {
            let message = format!("{gateway} has a `device`, but no `addresses` on it");
            let help = "add the router's addresses in the physical network, for example `addresses: [198.19.0.2/24]`";
            sink.error(device.at, message, help);
        }
        (None, _) => {
            for (node, key) in of_a_leg {
                let Some(node) = node else { continue };
                let message = format!("{gateway} has `{key}`, but no `device`");
                let help = "add the device that leads into the physical network, for example `device: eth2`";
                sink.error(node.at, message, help);
            }
        }
        (Some(_), Some(_)) => {}
    }
}
