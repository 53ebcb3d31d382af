//! A draft in which nothing is missing or wrong becomes the [`Fabric`]: defaults are filled in, and
//! every port gets its key. Comes after [`check`](crate::check).

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use overlane_wire::PortKey;

use crate::decode::{Draft, HostDraft, PortDraft, SwitchDraft, TagDraft, TunnelDraft};
use crate::fabric::{Allow, Fabric, Host, Port, Switch};
use crate::keys;
use crate::names::Name;
use crate::tables::{Attachment, Encapsulation, SwitchId, Tunnel};

/// The fabric of a draft in which nothing is missing.
pub(crate) fn fabric(draft: &Draft<'_>) -> Option<Fabric> {
    let hosts = draft.hosts.iter().map(host).collect::<Option<Vec<_>>>()?;
    let switches = draft
        .switches
        .iter()
        .map(switch)
        .collect::<Option<Vec<_>>>()?;
    let keys = port_keys(&draft.ports);
    let ports = draft
        .ports
        .iter()
        .map(|draft| port(draft, *keys.get(draft.name.text)?))
        .collect::<Option<Vec<_>>>()?;
    Some(Fabric {
        tunnel: tunnel(&draft.tunnel),
        hosts: hosts
            .into_iter()
            .map(|item| (item.name.clone(), item))
            .collect(),
        switches: switches
            .into_iter()
            .map(|item| (item.name.clone(), item))
            .collect(),
        ports: ports
            .into_iter()
            .map(|item| (item.name.clone(), item))
            .collect(),
    })
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

fn host(draft: &HostDraft<'_>) -> Option<Host> {
    Some(Host {
        name: draft.name.name.clone()?,
        underlay: draft.underlay?.value,
        uplink: draft.uplink.as_ref()?.value.clone(),
        line: draft.name.at.line,
    })
}

fn switch(draft: &SwitchDraft<'_>) -> Option<Switch> {
    Some(Switch {
        name: draft.name.name.clone()?,
        id: match draft.uplink_vlan {
            Some(vlan) => SwitchId::Vlan(vlan.value),
            None => SwitchId::Vni(draft.vni?.value),
        },
        unknown_unicast: draft.unknown_unicast.map(|at| at.value).unwrap_or_default(),
        guest_vlan: draft.guest_vlan.map(|at| at.value).unwrap_or_default(),
        line: draft.name.at.line,
    })
}

fn port(draft: &PortDraft<'_>, key: PortKey) -> Option<Port> {
    let mut addresses: Vec<IpAddr> = draft.addresses.iter().map(|at| at.value).collect();
    addresses.sort();
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
        mac: draft.mac?.value,
        addresses,
        key,
        security: draft.security.map(|at| at.value).unwrap_or_default(),
        allow,
        learning: draft.learning,
        line: draft.name.at.line,
    })
}

/// Every port's key, by the port's name. Declared ones go first, so that they are never moved.
fn port_keys<'d>(ports: &'d [PortDraft<'_>]) -> HashMap<&'d str, PortKey> {
    let mut switches: BTreeMap<&str, Vec<&PortDraft<'_>>> = BTreeMap::new();
    for port in ports {
        if let Some(switch) = port.switch {
            switches.entry(switch.value).or_default().push(port);
        }
    }
    let mut all = HashMap::new();
    for members in switches.values() {
        let declared: Vec<_> = members
            .iter()
            .filter_map(|p| Some((p.name.text, p.key?.value)))
            .collect();
        let mut names: Vec<&str> = members
            .iter()
            .filter(|p| p.key.is_none())
            .map(|p| p.name.text)
            .collect();
        names.sort_unstable();
        let taken = declared.iter().map(|&(_, key)| key).collect();
        let derived = keys::derive(names.iter().copied(), taken);
        all.extend(declared);
        all.extend(names.into_iter().zip(derived));
    }
    all
}
