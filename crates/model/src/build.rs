//! A draft in which nothing is missing or wrong becomes the [`Fabric`]: defaults are filled in, and
//! every port and every router's interface gets its key. Comes after [`check`](crate::check).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use overlane_wire::{Mac, PortKey};

use crate::decode::{Draft, HostDraft, PortDraft, SwitchDraft, TagDraft, TunnelDraft};
use crate::fabric::{Allow, Fabric, Host, Port, Switch};
use crate::keys;
use crate::names::Name;
use crate::tables::{Attachment, Encapsulation, GeneveOptions, PortLimits, Tunnel};

mod firewall;
mod routers;

/// The fabric of a draft in which nothing is missing.
pub(crate) fn fabric(draft: &Draft<'_>) -> Option<Fabric> {
    let options = draft.tunnel.options.map(|at| at.value).unwrap_or_default();
    let hosts = draft.hosts.iter().enumerate();
    let hosts = hosts.map(|(order, draft)| host(draft, order, options));
    let hosts = hosts.collect::<Option<Vec<_>>>()?;
    let switches = draft
        .switches
        .iter()
        .map(switch)
        .collect::<Option<Vec<_>>>()?;
    let keys = all_keys(draft);
    let ports = draft
        .ports
        .iter()
        .map(|draft| port(draft, *keys.get(draft.name.text)?))
        .collect::<Option<Vec<_>>>()?;
    let groups = draft.groups.iter().map(firewall::group);
    let networks = draft.networks.iter().map(firewall::network);
    let routers = routers::routers(&draft.routers, &draft.switch_ids(), |name| {
        keys.get(name).copied()
    })?;
    Some(Fabric {
        tunnel: tunnel(&draft.tunnel),
        hosts: by_name(hosts, |item| &item.name),
        switches: by_name(switches, |item| &item.name),
        ports: by_name(ports, |item| &item.name),
        groups: by_name(groups.collect::<Option<_>>()?, |item| &item.name),
        networks: by_name(networks.collect::<Option<_>>()?, |item| &item.name),
        rules: firewall::rules(draft)?,
        routers: by_name(routers, |item| &item.name),
        warnings: None,
    })
}

fn by_name<T>(items: Vec<T>, name: fn(&T) -> &Name) -> BTreeMap<Name, T> {
    let items = items.into_iter();
    items.map(|item| (name(&item).clone(), item)).collect()
}

fn tunnel(draft: &TunnelDraft) -> Tunnel {
    let encapsulation = draft
        .encapsulation
        .map_or(Encapsulation::Geneve, |at| at.value);
    let source_ports = draft.source_ports.as_ref();
    Tunnel {
        encapsulation,
        port: draft
            .port
            .map_or(encapsulation.default_port(), |at| at.value),
        source_ports: source_ports.map_or(Tunnel::SOURCE_PORTS, |at| at.value.clone()),
        strict: draft.strict.is_some_and(|at| at.value),
        hash_seed: Tunnel::HASH_SEED,
        dscp: draft.dscp.map(|at| at.value).unwrap_or_default(),
    }
}

/// `options`: of a host that says nothing else.
fn host(draft: &HostDraft<'_>, order: usize, options: GeneveOptions) -> Option<Host> {
    Some(Host {
        name: draft.name.name.clone()?,
        underlay: draft.underlay?.value,
        uplink: draft.uplink.as_ref()?.value.clone(),
        options: draft.options.map_or(options, |at| at.value),
        connections: draft
            .connections
            .map_or(*PortLimits::CONNECTIONS.end(), |at| at.value),
        order,
        line: draft.name.at.line,
    })
}

fn switch(draft: &SwitchDraft<'_>) -> Option<Switch> {
    Some(Switch {
        name: draft.name.name.clone()?,
        id: draft.id()?,
        unknown_unicast: draft.unknown_unicast.map(|at| at.value).unwrap_or_default(),
        guest_vlan: draft.guest_vlan.map(|at| at.value).unwrap_or_default(),
        neighbours: draft.neighbours.map(|at| at.value).unwrap_or_default(),
        path_mtu_discovery: draft.path_mtu_discovery.is_none_or(|at| at.value),
        mss_clamp: draft.mss_clamp.is_some_and(|at| at.value),
        firewall: draft.firewall.clone(),
        limits: draft.limits,
        timeouts: draft.timeouts.whole(),
        line: draft.name.at.line,
    })
}

fn port(draft: &PortDraft<'_>, key: PortKey) -> Option<Port> {
    let mut addresses: Vec<IpAddr> = draft.addresses.iter().map(|at| at.value).collect();
    addresses.sort();
    let mut allowed_addresses: Vec<IpNet> =
        draft.allowed_addresses.iter().map(|at| at.value).collect();
    allowed_addresses.sort();
    let mut allowed_macs: Vec<Mac> = draft.allowed_macs.iter().map(|at| at.value).collect();
    allowed_macs.sort();
    let mut allow: Vec<Allow> = draft.allow.iter().map(|at| at.value).collect();
    allow.sort();
    Some(Port {
        name: draft.name.name.clone()?,
        switch: Name::new(draft.switch?.value).ok()?,
        host: Name::new(draft.host?.value).ok()?,
        attachment: Attachment {
            device: draft.device.as_ref()?.value.clone(),
            vlan: match draft.tag {
                TagDraft::None => None,
                TagDraft::Vlan(vlan) => Some(vlan.value),
                TagDraft::Wrong => return None,
            },
        },
        netns: draft.netns.as_ref().map(|at| at.value.clone()),
        mac: draft.mac?.value,
        addresses,
        allowed_addresses,
        allowed_macs,
        key,
        security: draft.security.map(|at| at.value).unwrap_or_default(),
        allow,
        learning: draft.learning,
        limits: draft.limits,
        line: draft.name.at.line,
    })
}

/// One who needs a key: its name, and the key that it declares.
type Member<'d> = (Cow<'d, str>, Option<PortKey>);

/// The key of every port and interface, by name. Declared ones go first, so that they are never moved.
fn all_keys<'d>(draft: &'d Draft<'_>) -> HashMap<Cow<'d, str>, PortKey> {
    let mut switches: BTreeMap<&str, Vec<Member<'d>>> = BTreeMap::new();
    for port in &draft.ports {
        if let Some(switch) = port.switch {
            let member = (port.name.text.into(), port.key.map(|key| key.value));
            switches.entry(switch.value).or_default().push(member);
        }
    }
    for router in &draft.routers {
        for interface in &router.interfaces {
            let switch = interface.switch.text;
            let name = keys::interface(router.name.text, switch);
            let member = (name.into(), None);
            switches.entry(switch).or_default().push(member);
        }
    }
    let mut all = HashMap::new();
    for members in switches.into_values() {
        let (declared, mut others): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|(_, key)| key.is_some());
        others.sort_unstable();
        let taken = declared.iter().filter_map(|&(_, key)| key).collect();
        let derived = keys::derive(others.iter().map(|(name, _)| name.as_ref()), taken);
        all.extend(
            declared
                .into_iter()
                .filter_map(|(name, key)| Some((name, key?))),
        );
        all.extend(others.into_iter().map(|(name, _)| name).zip(derived));
    }
    all
}
