//! The shape of the fabric file: a YAML tree becomes a [`Draft`], in which every value is right by
//! itself and has its place. Comes after [`yaml`](crate::yaml); [`check`](crate::check) then looks at
//! the values together. The JSON Schema says the same, and tests compare the two.
//!
//! Nothing stops at a mistake: a value that is wrong or missing is `None` in the draft.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use overlane_wire::{Mac, PortKey, Vni};

use crate::diagnostic::{Sink, Span};
use crate::fabric::{
    Allow, GuestVlan, Limits, Neighbours, Security, SwitchFirewall, UnknownUnicast,
};
use crate::names::DeviceName;
use crate::netns::Netns;
use crate::networks::allowed_addresses;
use crate::record::{Key, NameDraft, named, optional, record, required};
use crate::render::printable;
use crate::scalar::{Spanned, boolean, choice, integer, text, wrong_type};
use crate::tables::{Dscp, Encapsulation, GeneveOptions, Learning, PortLimits, SwitchId, VlanId};
use crate::values::{
    address, addresses, allowed_macs, device, dscp, netns, permissions, port_range, station, vlan,
};
use crate::yaml::{Kind, Node, Value, resolve};

mod firewall;
mod nat;
mod router;
mod timeouts;

pub(crate) use firewall::{GroupDraft, NetworkDraft, PeerDraft, RuleDraft};
pub(crate) use nat::NatDraft;
pub(crate) use router::{GatewayDraft, InterfaceDraft, RouteDraft, RouterDraft};
pub(crate) use timeouts::TimeoutsDraft;

/// The file as written.
#[derive(Debug, Default)]
pub(crate) struct Draft<'n> {
    pub(crate) tunnel: TunnelDraft,
    pub(crate) hosts: Vec<HostDraft<'n>>,
    pub(crate) switches: Vec<SwitchDraft<'n>>,
    pub(crate) ports: Vec<PortDraft<'n>>,
    pub(crate) groups: Vec<GroupDraft<'n>>,
    pub(crate) networks: Vec<NetworkDraft<'n>>,
    pub(crate) rules: Vec<RuleDraft<'n>>,
    pub(crate) routers: Vec<RouterDraft<'n>>,
}

#[derive(Debug, Default)]
pub(crate) struct TunnelDraft {
    pub(crate) encapsulation: Option<Spanned<Encapsulation>>,
    pub(crate) port: Option<Spanned<u16>>,
    pub(crate) source_ports: Option<Spanned<RangeInclusive<u16>>>,
    pub(crate) strict: Option<Spanned<bool>>,
    pub(crate) udp6_zero_checksum: Option<Spanned<bool>>,
    pub(crate) dscp: Option<Spanned<Dscp>>,
    pub(crate) options: Option<Spanned<GeneveOptions>>,
}

#[derive(Debug)]
pub(crate) struct HostDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) underlay: Option<Spanned<IpAddr>>,
    pub(crate) uplink: Option<Spanned<DeviceName>>,
    pub(crate) options: Option<Spanned<GeneveOptions>>,
    pub(crate) connections: Option<Spanned<u32>>,
}

#[derive(Debug)]
pub(crate) struct SwitchDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) vni: Option<Spanned<Vni>>,
    pub(crate) uplink_vlan: Option<Spanned<VlanId>>,
    pub(crate) unknown_unicast: Option<Spanned<UnknownUnicast>>,
    pub(crate) guest_vlan: Option<Spanned<GuestVlan>>,
    pub(crate) neighbours: Option<Spanned<Neighbours>>,
    pub(crate) path_mtu_discovery: Option<Spanned<bool>>,
    pub(crate) mss_clamp: Option<Spanned<bool>>,
    pub(crate) firewall: SwitchFirewall,
    pub(crate) limits: Limits,
    pub(crate) timeouts: TimeoutsDraft,
}

#[derive(Debug)]
pub(crate) struct PortDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) switch: Option<Spanned<&'n str>>,
    pub(crate) host: Option<Spanned<&'n str>>,
    pub(crate) device: Option<Spanned<DeviceName>>,
    pub(crate) netns: Option<Spanned<Netns>>,
    pub(crate) mac: Option<Spanned<Mac>>,
    pub(crate) addresses: Vec<Spanned<IpAddr>>,
    pub(crate) allowed_addresses: Vec<Spanned<IpNet>>,
    pub(crate) allowed_macs: Vec<Spanned<Mac>>,
    pub(crate) key: Option<Spanned<PortKey>>,
    pub(crate) tag: TagDraft,
    pub(crate) security: Option<Spanned<Security>>,
    pub(crate) allow: Vec<Spanned<Allow>>,
    pub(crate) learning: Option<Learning>,
    pub(crate) limits: Limits,
}

/// The switches by name, those that say what they are.
pub(crate) type SwitchIds<'d> = HashMap<&'d str, SwitchId>;

impl Draft<'_> {
    pub(crate) fn switch_ids(&self) -> SwitchIds<'_> {
        let switches = self.switches.iter();
        let ids = switches.filter_map(|switch| Some((switch.name.text, switch.id()?)));
        ids.collect()
    }
}

impl SwitchDraft<'_> {
    pub(crate) fn id(&self) -> Option<SwitchId> {
        match self.uplink_vlan {
            Some(vlan) => Some(SwitchId::Vlan(vlan.value)),
            None => Some(SwitchId::Vni(self.vni?.value)),
        }
    }
}

impl PortDraft<'_> {
    /// The fabric knows addresses of it, its own or allowed ones.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.addresses.is_empty() || !self.allowed_addresses.is_empty()
    }
}

/// The tag of a port on its device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TagDraft {
    None,
    Vlan(Spanned<VlanId>),
    /// Not a VLAN, which has been reported.
    Wrong,
}

const FILE: [Key; 9] = [
    required("version", "version: 1"),
    optional("tunnel"),
    required(
        "hosts",
        "hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }",
    ),
    optional("switches"),
    optional("ports"),
    optional("groups"),
    optional("networks"),
    optional("rules"),
    optional("routers"),
];
const TUNNEL: [Key; 7] = [
    optional("encapsulation"),
    optional("port"),
    optional("source_ports"),
    optional("strict"),
    optional("udp6_zero_checksum"),
    optional("dscp"),
    optional("options"),
];
const HOST: [Key; 4] = [
    required("underlay", "underlay: 198.18.0.1"),
    required("uplink", "uplink: eth1"),
    optional("options"),
    optional("connections"),
];
/// Of the first two a switch has one.
const SWITCH: [Key; 10] = [
    optional("vni"),
    optional("uplink_vlan"),
    optional("unknown_unicast"),
    optional("vlan"),
    optional("neighbours"),
    optional("path_mtu_discovery"),
    optional("mss_clamp"),
    optional("firewall"),
    optional("limits"),
    optional("timeouts"),
];
const PORT: [Key; 14] = [
    required("switch", "switch: blue"),
    required("host", "host: h1"),
    required("device", "device: veth0"),
    required("mac", "mac: \"02:00:00:00:00:01\""),
    optional("netns"),
    optional("addresses"),
    optional("allowed_addresses"),
    optional("allowed_macs"),
    optional("key"),
    optional("vlan"),
    optional("security"),
    optional("allow"),
    optional("learning"),
    optional("limits"),
];
const LEARNING: [Key; 2] = [optional("limit"), optional("age")];
const LIMITS: [Key; 2] = [optional("connections"), optional("flood")];

/// Decodes the whole file.
pub(crate) fn decode<'n>(root: &'n Node, sink: &mut Sink) -> Draft<'n> {
    let [
        version,
        tunnel,
        hosts,
        switches,
        ports,
        groups,
        networks,
        rules,
        routers,
    ] = record(root, Span::START, "the fabric file", &FILE, sink);
    if let Some(node) = version {
        integer(node, "`version`", 1..=1, sink);
    }
    if let Some(node) =
        hosts.filter(|node| matches!(&node.value, Value::Mapping(list) if list.is_empty()))
    {
        let help = "add one, for example `h1: { underlay: 198.18.0.1, uplink: eth1 }`";
        sink.error(node.at, "the fabric has no host".into(), help);
    }
    Draft {
        tunnel: tunnel.map_or_else(TunnelDraft::default, |node| decode_tunnel(node, sink)),
        hosts: section(hosts, "hosts", decode_host, sink),
        switches: section(switches, "switches", decode_switch, sink),
        ports: section(ports, "ports", decode_port, sink),
        groups: section(groups, "groups", firewall::group, sink),
        networks: section(networks, "networks", firewall::networks, sink),
        rules: section(rules, "rules", firewall::rule, sink),
        routers: section(routers, "routers", router::router, sink),
    }
}

/// A part of the file that may be left out.
fn section<'n, T>(
    node: Option<&'n Node>,
    what: &str,
    decode: fn(NameDraft<'n>, &'n Node, &mut Sink) -> T,
    sink: &mut Sink,
) -> Vec<T> {
    node.map_or_else(Vec::new, |node| named(node, what, decode, sink))
}

fn decode_tunnel(node: &Node, sink: &mut Sink) -> TunnelDraft {
    let [
        encapsulation,
        port,
        source_ports,
        strict,
        udp6_zero_checksum,
        dscp_node,
        options_node,
    ] = record(node, node.at, "tunnel", &TUNNEL, sink);
    TunnelDraft {
        encapsulation: encapsulation
            .and_then(|node| choice(node, "`encapsulation`", &Encapsulation::ALL, sink)),
        port: port.and_then(|node| {
            let port = integer(node, "`port`", 1..=65535, sink)?;
            Some(Spanned::new(u16::try_from(port.value).ok()?, port.at))
        }),
        source_ports: source_ports.and_then(|node| {
            let help = "write the first and the last port, like 49152-65535";
            port_range(node, "`source_ports`", help, sink)
        }),
        strict: strict.and_then(|node| boolean(node, "`strict`", sink)),
        udp6_zero_checksum: udp6_zero_checksum
            .and_then(|node| boolean(node, "`udp6_zero_checksum`", sink)),
        dscp: dscp_node.and_then(|node| dscp(node, sink)),
        options: options_node.and_then(|node| options(node, sink)),
    }
}

fn decode_host<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> HostDraft<'n> {
    let what = format!("host `{}`", printable(name.text));
    let [underlay, uplink, options_node, connections] = record(node, name.at, &what, &HOST, sink);
    HostDraft {
        name,
        underlay: underlay.and_then(|node| address(node, "`underlay`", sink)),
        uplink: uplink.and_then(|node| device(node, "`uplink`", sink)),
        options: options_node.and_then(|node| options(node, sink)),
        connections: connections.and_then(|node| table_size(node, sink)),
    }
}

fn options(node: &Node, sink: &mut Sink) -> Option<Spanned<GeneveOptions>> {
    choice(node, "`options`", &GeneveOptions::ALL, sink)
}

fn decode_switch<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> SwitchDraft<'n> {
    let what = format!("switch `{}`", printable(name.text));
    let [
        vni,
        uplink_vlan,
        unknown_unicast,
        guest_vlan,
        neighbours,
        path_mtu_discovery,
        mss_clamp,
        policies,
        limits,
        times,
    ] = record(node, name.at, &what, &SWITCH, sink);
    match (vni, uplink_vlan) {
        (None, None) if matches!(node.value, Value::Mapping(_)) => {
            let message = format!("{what} has no `vni`");
            let help = "add it, for example `vni: 5001`, or put the switch on a VLAN of the uplink \
                        instead, for example `uplink_vlan: 100`";
            sink.error(name.at, message, help);
        }
        (Some(vni), Some(vlan)) => {
            let message = format!("{what} has both `vni` and `uplink_vlan`");
            let help = "keep `vni` for a switch in tunnels, or `uplink_vlan` for one on a VLAN";
            let places = [
                (vni.at, "`vni` is here"),
                (vlan.at, "`uplink_vlan` is here"),
            ];
            sink.disagreement(places, message, help);
        }
        _ => {}
    }
    SwitchDraft {
        name,
        vni: vni.and_then(|node| {
            let vni = integer(node, "`vni`", 1..=Vni::MAX, sink)?;
            Some(Spanned::new(Vni::new(vni.value).ok()?, vni.at))
        }),
        uplink_vlan: uplink_vlan.and_then(|node| vlan(node, "`uplink_vlan`", sink)),
        unknown_unicast: unknown_unicast
            .and_then(|node| choice(node, "`unknown_unicast`", &UnknownUnicast::ALL, sink)),
        guest_vlan: guest_vlan.and_then(|node| choice(node, "`vlan`", &GuestVlan::ALL, sink)),
        neighbours: neighbours
            .and_then(|node| choice(node, "`neighbours`", &Neighbours::ALL, sink)),
        path_mtu_discovery: path_mtu_discovery
            .and_then(|node| boolean(node, "`path_mtu_discovery`", sink)),
        mss_clamp: mss_clamp.and_then(|node| boolean(node, "`mss_clamp`", sink)),
        firewall: policies.map_or_else(SwitchFirewall::default, |node| {
            firewall::switch(node, &what, sink)
        }),
        limits: limits.map_or_else(Limits::default, |node| decode_limits(node, &what, sink)),
        timeouts: times.map_or_else(TimeoutsDraft::default, |node| {
            timeouts::timeouts(node, &what, sink)
        }),
    }
}

fn decode_port<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> PortDraft<'n> {
    let what = format!("port `{}`", printable(name.text));
    let [
        switch,
        host,
        device_node,
        mac,
        netns_node,
        list,
        allowed,
        macs,
        key,
        tag,
        security,
        allow,
        learning,
        limits,
    ] = record(node, name.at, &what, &PORT, sink);
    PortDraft {
        name,
        switch: switch.and_then(|node| reference(node, "switch", sink)),
        host: host.and_then(|node| reference(node, "host", sink)),
        device: device_node.and_then(|node| device(node, "`device`", sink)),
        netns: netns_node.and_then(|node| netns(node, sink)),
        mac: mac.and_then(|node| station(node, "`mac`", sink)),
        addresses: list.map_or_else(Vec::new, |node| addresses(node, sink)),
        allowed_addresses: allowed.map_or_else(Vec::new, |node| allowed_addresses(node, sink)),
        allowed_macs: macs.map_or_else(Vec::new, |node| allowed_macs(node, sink)),
        key: key.and_then(|node| {
            let key = integer(node, "`key`", 1..=u32::from(PortKey::MAX), sink)?;
            Some(Spanned::new(PortKey::try_from(key.value).ok()?, key.at))
        }),
        tag: tag.map_or(TagDraft::None, |node| {
            vlan(node, "`vlan`", sink).map_or(TagDraft::Wrong, TagDraft::Vlan)
        }),
        security: security.and_then(|node| choice(node, "`security`", &Security::ALL, sink)),
        allow: allow.map_or_else(Vec::new, |node| permissions(node, sink)),
        learning: learning.and_then(|node| decode_learning(node, &what, sink)),
        limits: limits.map_or_else(Limits::default, |node| decode_limits(node, &what, sink)),
    }
}

/// The name of something that is declared elsewhere in the file.
fn reference<'n>(node: &'n Node, to: &str, sink: &mut Sink) -> Option<Spanned<&'n str>> {
    let help = format!("write a {to}'s name, in quotes if it looks like a number");
    text(node, &format!("`{to}`"), &help, sink)
}

/// Names of what is declared elsewhere in the file.
fn names_of<'n>(nodes: &'n [Node], what: &str, sink: &mut Sink) -> Vec<Spanned<&'n str>> {
    let help = format!("write the name of {what}, in quotes if it looks like a number");
    let names = nodes.iter();
    names
        .filter_map(|node| text(node, what, &help, sink))
        .collect()
}

/// `true`, or a mapping that says how much. A mistake in it has been reported and leaves the default.
fn decode_learning(node: &Node, port: &str, sink: &mut Sink) -> Option<Learning> {
    let default = Learning::default();
    if !matches!(node.value, Value::Mapping(_)) {
        if let Value::Plain(written) = &node.value
            && let Kind::Boolean(on) = resolve(written)
        {
            return on.then_some(default);
        }
        let help = "write `true`, or how much: { limit: 64, age: 300 }";
        wrong_type(node, "`learning`", "true, false or a mapping", help, sink);
        return None;
    }
    let what = format!("`learning` of {port}");
    let [limit, age] = record(node, node.at, &what, &LEARNING, sink);
    let mut number = |node: Option<&Node>, what, most, default| {
        let number = node.and_then(|node| integer(node, what, 1..=most, sink));
        number.map_or(default, |number| number.value)
    };
    Some(Learning {
        limit: number(limit, "`limit`", Learning::LIMIT_MAX, default.limit),
        age_s: number(age, "`age`", Learning::AGE_S_MAX, default.age_s),
    })
}

/// How much of what all share a port may have. A mistake in it has been reported and leaves the default.
fn decode_limits(node: &Node, whose: &str, sink: &mut Sink) -> Limits {
    let what = format!("`limits` of {whose}");
    let [connections, flood] = record(node, node.at, &what, &LIMITS, sink);
    let flood = flood.and_then(|node| integer(node, "`flood`", PortLimits::FLOOD, sink));
    Limits {
        connections: connections.and_then(|node| share(node, sink)),
        flood: flood.map(|flood| flood.value),
    }
}

/// The most connections that a port or a router has at a time.
fn share(node: &Node, sink: &mut Sink) -> Option<u32> {
    let share = integer(node, "`connections`", PortLimits::CONNECTIONS, sink)?;
    Some(share.value)
}

/// The most connections that a host has at a time. What is no power of two has the nearest ones in the help.
fn table_size(node: &Node, sink: &mut Sink) -> Option<Spanned<u32>> {
    let size = integer(node, "`connections`", PortLimits::CONNECTIONS, sink)?;
    if !size.value.is_power_of_two() {
        let more = size.value.next_power_of_two();
        let message = format!(
            "`connections` of a host must be a power of two: {} is none",
            size.value
        );
        sink.error(node.at, message, &format!("write {} or {more}", more / 2));
        return None;
    }
    Some(size)
}

/// The keys of one kind of mapping, for the comparison with the schema: name, required.
#[cfg(test)]
pub(crate) fn keys(of: &str) -> Vec<(&'static str, bool)> {
    let keys: &[Key] = match of {
        "FabricFile" => &FILE,
        "TunnelSettings" => &TUNNEL,
        "Host" => &HOST,
        "LogicalSwitch" => &SWITCH,
        "LogicalPort" => &PORT,
        "LearningSettings" => &LEARNING,
        "Limits" => &LIMITS,
        "Timeouts" => &timeouts::TIMEOUTS,
        "Firewall" => &firewall::FIREWALL,
        "Rule" => &firewall::RULE,
        "Router" => &router::ROUTER,
        "Route" => &router::ROUTE,
        "Gateway" => &router::GATEWAY,
        "NatRule" => &nat::NAT,
        other => panic!("no such mapping: {other}"),
    };
    keys.iter()
        .map(|key| (key.name, key.required.is_some()))
        .collect()
}
