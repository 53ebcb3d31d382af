//! Logical ports, switches and their flood lists as map entries.

use overlane_model::{Direction, FloodMember, PortTable, Tables};

use super::numbering::Numbering;
use super::rules::PortRules;
use super::{Contents, Devices, PortDevice, Table, flags, put, read};
use crate::abi;

/// Ports, with the rule sets that `rules` found for them. One whose device is not there keeps its key and its
/// counters, so that what goes to it is `no_port` and nothing else.
pub(super) fn ports(
    tables: &Tables,
    devices: &Devices,
    rules: &PortRules,
    current: &Contents,
    contents: &mut Contents,
) {
    let mut numbering = Numbering::keep(port_numbers(current));
    for port in &tables.ports {
        let id = devices.id(&port.attachment);
        let key = abi::PortKey {
            switch_id: port.switch.number(),
            key: port.key.get().into(),
        };
        let counters = numbering.number(key);
        put(
            contents,
            Table::PortKeys,
            &key,
            &abi::PortPlace { id, counters },
        );
        let Some(&device) = devices.ports.get(&port.attachment.device) else {
            continue;
        };
        let value = abi::Port {
            switch_id: port.switch.number(),
            key: port.key.get(),
            mac: port.mac.into(),
            flags: port_flags(port, device) | rules.flags(port),
            learn_limit: port.learning.map_or(0, |learning| learning.limit),
            learn_age: port.learn_age_s().unwrap_or_default(),
            rules_from: rules.set(port, Direction::FromPort),
            rules_to: rules.set(port, Direction::ToPort),
            counters,
            connections: port.limits.connections,
            flood: port.limits.flood_in_span(),
            owner: port.owner(),
            mtu: device.mtu,
        };
        put(contents, Table::Ports, &id, &value);
        put(contents, Table::PortNumbers, &counters, &id);
    }
}

/// The number of each port's counters.
pub(crate) fn port_numbers(contents: &Contents) -> impl Iterator<Item = (abi::PortKey, u32)> {
    let places = read::<abi::PortKey, abi::PortPlace>(contents, Table::PortKeys);
    places.map(|(key, place)| (key, place.counters))
}

fn port_flags(port: &PortTable, device: PortDevice) -> u32 {
    let security = &port.security;
    flags([
        (device.peer, abi::PORT_PEER),
        (device.takes_no_mark, abi::PORT_TAKES_NO_MARK),
        (security.check_mac, abi::PORT_CHECK_MAC),
        (security.check_addresses, abi::PORT_CHECK_ADDRESSES),
        (security.allow_dhcp_server, abi::PORT_DHCP_SERVER),
        (security.allow_router_advertisement, abi::PORT_ROUTER),
        (port.learning.is_some(), abi::PORT_LEARNING),
        (
            !port.allowed_addresses.is_empty(),
            abi::PORT_ALLOWED_ADDRESSES,
        ),
        (!port.allowed_macs.is_empty(), abi::PORT_ALLOWED_MACS),
    ])
}

/// Switches and who gets their flooded frames.
pub(super) fn switches(tables: &Tables, devices: &Devices, contents: &mut Contents) {
    for switch in &tables.switches {
        let switch_id = switch.id.number();
        let is_there = |member: &&FloodMember| match member {
            FloodMember::Local(at) => devices.ports.contains_key(&at.device),
            FloodMember::Remote(_) => true,
        };
        let flood = switch.flood.iter().filter(is_there).cloned();
        let mut flood: Vec<_> = flood.collect();
        let flood_members = flood.len() as u32;
        let routers = tables.routing_remotes(switch);
        flood.extend(routers.into_iter().map(FloodMember::Remote));
        let value = abi::Switch {
            flood_members,
            flood_routers: flood.len() as u32 - flood_members,
            flags: flags([
                (switch.flood_unknown, abi::SWITCH_FLOOD_UNKNOWN),
                (switch.vlan_transparent, abi::SWITCH_TRANSPARENT),
                (switch.learn_age_s.is_some(), abi::SWITCH_LEARNING),
                (switch.asks, abi::SWITCH_ASKS),
                (switch.path_mtu_discovery, abi::SWITCH_TELLS_TOO_BIG),
                (switch.mss_clamp, abi::SWITCH_MSS_CLAMP),
            ]),
            learn_age: switch.learn_age_s.unwrap_or_default(),
            router: tables.router_on(switch.id).map_or(0, |it| it.id.get()),
            non_ip: std::array::from_fn(|at| switch.non_ip.get(at).map_or(0, |it| it.to_be())),
            timeouts: switch.timeouts.into(),
        };
        put(contents, Table::Switches, &switch_id, &value);
        for (index, member) in flood.into_iter().enumerate() {
            let (port, remote) = match member {
                FloodMember::Local(at) => (devices.id(&at), abi::Addr::default()),
                FloodMember::Remote(addr) => (abi::PortId::default(), addr.into()),
            };
            let key = abi::FloodKey {
                switch_id,
                index: index as u32,
            };
            put(
                contents,
                Table::Flood,
                &key,
                &abi::FloodMember { port, remote },
            );
        }
    }
}
