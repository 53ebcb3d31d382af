//! Routers as map entries: interfaces, routes and next hops, legs, and their gateways.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use overlane_model::classifier::peer_prefix;
use overlane_model::{Gateway, GatewayPlace, NextHop, Route, RouterTable, Side, Tables, Way};
use zerocopy::IntoBytes;

use super::numbering::Numbering;
use super::{Contents, Devices, Table, flags, nat, put, read};
use crate::abi::router as abi;
use crate::abi::{Addr, MacBytes};

/// Next hops of one group, in order, as bytes of their entries.
type Group = Vec<Vec<u8>>;

/// All routers.
pub(super) fn routers(
    tables: &Tables,
    devices: &Devices,
    current: &Contents,
    contents: &mut Contents,
) {
    let mut groups = known_groups(current);
    let nat_lists = nat::lists(current);
    for router in &tables.routers {
        interfaces(router, contents);
        for route in &router.routes {
            route_entry(router, route, &mut groups, contents);
        }
        let mut entry = abi::Router {
            mac: router.mac.into(),
            ..abi::Router::default()
        };
        if let Some(gateway) = &router.gateway {
            gateway_entries(router, gateway, devices, &mut entry, contents);
            nat::nat(router, gateway, current, &nat_lists, &mut entry, contents);
        }
        entry.flags |= flags([
            (router.reverse_path, abi::ROUTER_REVERSE_PATH),
            (router.mss_clamp, abi::ROUTER_MSS_CLAMP),
        ]);
        put(contents, Table::Routers, &router.id.get(), &entry);
    }
}

fn interfaces(router: &RouterTable, contents: &mut Contents) {
    for interface in &router.interfaces {
        let key = abi::RouterInterfaceKey {
            router: router.id.get(),
            switch_id: interface.switch.number(),
        };
        let entry = abi::RouterInterface {
            key: interface.key.get().into(),
            v4: first(&interface.addresses, IpAddr::is_ipv4),
            v6: first(&interface.addresses, is_global_v6),
        };
        put(contents, Table::RouterInterfaces, &key, &entry);
    }
}

/// The first address that will do as the source of an answer; zero: none.
fn first(addresses: &[IpNet], will_do: fn(&IpAddr) -> bool) -> Addr {
    let mut addresses = addresses.iter().map(IpNet::addr);
    let found = addresses.find(will_do);
    found.map(Addr::from).unwrap_or_default()
}

fn is_global_v6(addr: &IpAddr) -> bool {
    matches!(addr, IpAddr::V6(v6) if !v6.is_unicast_link_local())
}

const fn side(side: Side) -> u32 {
    match side {
        Side::Switch(switch) => switch.number(),
        Side::Leg => abi::SWITCH_ID_LEG,
    }
}

fn route_entry(
    router: &RouterTable,
    route: &Route,
    groups: &mut Numbering<Group>,
    contents: &mut Contents,
) {
    let prefix = peer_prefix(route.to);
    let key = abi::RouteKey {
        prefixlen: 64 + prefix.bits,
        router: router.id.get().to_be(),
        family: u32::from(prefix.family).to_be(),
        addr: Addr::from_bits(prefix.addr),
    };
    let mut entry = abi::Route {
        names_special: route.names_special.into(),
        ..abi::Route::default()
    };
    match &route.way {
        Way::Own => {
            entry.kind = abi::ROUTE_OWN;
            entry.is_outside = is_outside(router, route.to.addr()).into();
        }
        Way::Connected(there) => {
            entry.kind = abi::ROUTE_CONNECTED;
            entry.switch_id = side(*there);
            entry.host_mask = host_mask(route.to);
            let own = router.address_in(*there, route.to);
            entry.own = own.map_or_else(Addr::default, Into::into);
        }
        Way::Via(hops) => {
            entry.kind = abi::ROUTE_VIA;
            entry.switch_id = common_side(hops);
            entry.group = group(hops, groups, contents);
            entry.hops = hops.len() as u32;
        }
    }
    put(contents, Table::Routes, &key, &entry);
}

/// A rule of nat has the address as its outside one.
fn is_outside(router: &RouterTable, addr: IpAddr) -> bool {
    let mut rules = router.gateway.iter().flat_map(|gateway| &gateway.nat);
    rules.any(|rule| rule.kind.outside() == addr)
}

/// The bits of an address behind the prefix, as on the wire; 0 of a network that has no address to spare.
fn host_mask(network: IpNet) -> u32 {
    match network {
        IpNet::V4(network) if network.prefix_len() < 31 => {
            u32::from_ne_bytes(network.hostmask().octets())
        }
        _ => 0,
    }
}

/// Where all next hops are.
fn common_side(hops: &[NextHop]) -> u32 {
    let mut sides = hops.iter().map(|hop| side(hop.side));
    let first = sides.next().unwrap_or(abi::ROUTE_SIDES);
    match sides.all(|side| side == first) {
        true => first,
        false => abi::ROUTE_SIDES,
    }
}

fn group(hops: &[NextHop], groups: &mut Numbering<Group>, contents: &mut Contents) -> u32 {
    let entry = |hop: &NextHop| abi::NextHop {
        addr: hop.addr.into(),
        switch_id: side(hop.side),
    };
    let entries: Vec<_> = hops.iter().map(entry).collect();
    let bytes = entries.iter().map(|entry| entry.as_bytes().to_vec());
    let group = groups.number(bytes.collect());
    for (number, entry) in (0..).zip(&entries) {
        put(
            contents,
            Table::NextHops,
            &abi::NextHopKey { group, number },
            entry,
        );
    }
    group
}

/// The groups that the kernel has; a group with gaps is nobody's, but its number is taken.
fn known_groups(current: &Contents) -> Numbering<Group> {
    let mut groups: BTreeMap<u32, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
    for (key, entry) in read::<abi::NextHopKey, abi::NextHop>(current, Table::NextHops) {
        let group = groups.entry(key.group).or_default();
        group.insert(key.number, entry.as_bytes().to_vec());
    }
    let taken: Vec<u32> = groups.keys().copied().collect();
    let whole = groups.into_iter().filter_map(|(number, hops)| {
        let is_whole = hops.keys().copied().eq(0..hops.len() as u32);
        is_whole.then(|| (hops.into_values().collect(), number))
    });
    Numbering::beside(whole, taken)
}

fn gateway_entries(
    router: &RouterTable,
    gateway: &Gateway,
    devices: &Devices,
    entry: &mut abi::Router,
    contents: &mut Contents,
) {
    let device = match &gateway.place {
        GatewayPlace::Remote(vtep) => {
            entry.flags |= abi::ROUTER_GATEWAY_ELSEWHERE;
            entry.gateway = (*vtep).into();
            return;
        }
        GatewayPlace::Here { leg } => leg,
    };
    entry.flags |= abi::ROUTER_GATEWAY_HERE;
    // Without its device it is as without a leg.
    let Some(leg) = device.as_ref().and_then(|device| devices.legs.get(device)) else {
        return;
    };
    entry.leg_mac = MacBytes::from(leg.mac);
    entry.leg_ifindex = leg.ifindex;
    entry.leg_mtu = leg.mtu;
    if leg.takes_no_mark {
        entry.flags |= abi::ROUTER_LEG_TAKES_NO_MARK;
    }
    entry.leg_v4 = first(&gateway.addresses, IpAddr::is_ipv4);
    entry.leg_v6 = first(&gateway.addresses, is_global_v6);
    let id = router.id.get();
    put(contents, Table::Legs, &leg.ifindex, &id);
    let own = gateway.addresses.iter().map(IpNet::addr);
    for addr in own.chain(gateway.nat.iter().map(|rule| rule.kind.outside())) {
        let key = abi::LegAddressKey {
            ifindex: leg.ifindex,
            addr: addr.into(),
        };
        put(contents, Table::LegAddresses, &key, &id);
    }
}
