//! Routers as map entries, and what of them changes beside what packets use.

use overlane_model::{
    Gateway, GatewayPlace, NatKind, NatRule, Neighbour, NextHop, Place, Route, RouterId,
    RouterInterface, RouterTable, Side, SwitchId, Way,
};
use overlane_wire::{Mac, PortKey, Vni};

use super::*;
use crate::abi::router as abi_router;

const LEG: u32 = 12;
const ID: u32 = 0x12_3456;

fn blue() -> SwitchId {
    SwitchId::Vni(Vni::new(5001).unwrap())
}

fn via(addrs: &[&str]) -> Way {
    let hop = |addr: &&str| NextHop {
        addr: addr.parse().unwrap(),
        side: Side::Switch(blue()),
    };
    Way::Via(addrs.iter().map(hop).collect())
}

fn route(to: &str, way: Way) -> Route {
    Route {
        to: to.parse().unwrap(),
        way,
        names_special: false,
        line: 1,
    }
}

fn nat_rules() -> Vec<NatRule> {
    let kinds = [
        NatKind::OneToOne {
            inside: "198.18.100.1".parse().unwrap(),
            outside: "198.19.0.10".parse().unwrap(),
        },
        NatKind::Forward {
            protocol: 6,
            outside: ("198.19.0.2".parse().unwrap(), 8080),
            inside: ("198.18.100.1".parse().unwrap(), 80),
        },
        NatKind::Source {
            inside: "198.18.100.0/24".parse().unwrap(),
            outside: "198.19.0.2".parse().unwrap(),
            ports: NatKind::PORTS,
        },
    ];
    kinds.map(|kind| NatRule { kind, line: 1 }).into()
}

pub(super) fn devices() -> Devices {
    let leg = LegDevice {
        ifindex: LEG,
        mac: Mac::new([2, 0, 0, 0, 0, 0xfd]),
        mtu: 1500,
        takes_no_mark: true,
    };
    Devices {
        legs: [(DeviceName::new("phys0").unwrap(), leg)].into(),
        ..super::devices()
    }
}

pub(super) fn tables() -> Tables {
    let id = RouterId::new(ID).unwrap();
    let mac = Mac::new([2, 0, 0, 0, 0, 0xfe]);
    let mut tables = super::tables();
    let address = tables.neighbours[0].clone();
    tables.neighbours.push(Neighbour {
        switch: blue(),
        addr: "198.18.100.254".parse().unwrap(),
        mac,
        key: PortKey::new(99).unwrap(),
        router: Some(id),
        ..address
    });
    let place = tables.fdb[0].clone();
    tables.fdb.push(overlane_model::FdbEntry {
        switch: blue(),
        mac,
        key: PortKey::new(99).unwrap(),
        place: Place::Router(id),
        ..place
    });
    tables.routers = vec![RouterTable {
        name: overlane_model::Name::new("r1").unwrap(),
        id,
        mac,
        interfaces: vec![RouterInterface {
            switch: blue(),
            key: PortKey::new(99).unwrap(),
            addresses: ["fe80::1/64", "198.18.100.254/24", "2001:2::fe/64"]
                .map(|net| net.parse().unwrap())
                .into(),
            link_local: None,
        }],
        routes: vec![
            route("198.18.100.254/32", Way::Own),
            route("198.18.100.0/24", Way::Connected(Side::Switch(blue()))),
            route("198.19.0.0/24", Way::Connected(Side::Leg)),
            route("0.0.0.0/0", via(&["198.18.100.9", "198.18.100.8"])),
            route("2001:2:1::/48", via(&["2001:2::9"])),
        ],
        reverse_path: true,
        mss_clamp: true,
        gateway: Some(Gateway {
            host: overlane_model::Name::new("h1").unwrap(),
            place: GatewayPlace::Here {
                leg: Some(DeviceName::new("phys0").unwrap()),
            },
            addresses: vec!["198.19.0.2/24".parse().unwrap()],
            nat: nat_rules(),
            drop_untranslated: true,
            connections: 7000,
            timeouts: overlane_model::Timeouts {
                udp: 77,
                ..Default::default()
            },
        }),
    }];
    tables
}

fn router(contents: &Contents) -> abi_router::Router {
    value(contents, Table::Routers, &ID)
}

fn default_route(contents: &Contents) -> abi_router::Route {
    let key = abi_router::RouteKey {
        prefixlen: 64 + 96,
        router: ID.to_be(),
        family: 4u32.to_be(),
        addr: IpAddr::from([0, 0, 0, 0]).into(),
    };
    value(contents, Table::Routes, &key)
}

fn next_hop(contents: &Contents, group: u32, number: u32) -> abi_router::NextHop {
    value(
        contents,
        Table::NextHops,
        &abi_router::NextHopKey { group, number },
    )
}

#[test]
fn routes_become_numbers() {
    let contents = encode(&tables(), &devices()).unwrap();
    assert_eq!(contents[&Table::Routes].len(), 5);
    let default = default_route(&contents);
    assert_eq!((default.kind, default.hops), (abi_router::ROUTE_VIA, 2));
    let hop = next_hop(&contents, default.group, 1);
    assert_eq!(IpAddr::from(hop.addr), IpAddr::from([198, 18, 100, 8]));
    assert_eq!(hop.switch_id, 5001);
    let leg = abi_router::RouteKey {
        prefixlen: 64 + 96 + 24,
        router: ID.to_be(),
        family: 4u32.to_be(),
        addr: IpAddr::from([198, 19, 0, 0]).into(),
    };
    let leg: abi_router::Route = value(&contents, Table::Routes, &leg);
    let expected = (abi_router::ROUTE_CONNECTED, abi_router::SWITCH_ID_LEG);
    assert_eq!((leg.kind, leg.switch_id), expected);
    let key = abi_router::RouterInterfaceKey {
        router: ID,
        switch_id: 5001,
    };
    let interface: abi_router::RouterInterface = value(&contents, Table::RouterInterfaces, &key);
    assert_eq!(interface.key, 99);
    assert_eq!(
        IpAddr::from(interface.v4),
        IpAddr::from([198, 18, 100, 254])
    );
    // Not the link-local one.
    assert_eq!(IpAddr::from(interface.v6).to_string(), "2001:2::fe");
}

#[test]
fn a_gateway_here_has_its_leg_and_nat() {
    let contents = encode(&tables(), &devices()).unwrap();
    let router = router(&contents);
    assert_eq!(
        router.flags,
        abi_router::ROUTER_GATEWAY_HERE
            | abi_router::ROUTER_NAT
            | abi_router::ROUTER_NAT_ALL
            | abi_router::ROUTER_REVERSE_PATH
            | abi_router::ROUTER_MSS_CLAMP
            | abi_router::ROUTER_LEG_TAKES_NO_MARK
    );
    assert_eq!(
        (router.leg_ifindex, router.leg_mtu, router.connections),
        (LEG, 1500, 7000)
    );
    assert_eq!((router.timeouts.udp, router.timeouts.icmp), (77, 60));
    assert_eq!(IpAddr::from(router.leg_v4), IpAddr::from([198, 19, 0, 2]));
    assert_eq!(router.leg_v6, abi::Addr::default());
    assert_eq!(value::<u32>(&contents, Table::Legs, &LEG), ID);
    // Its own address, which is also an outside one, and the other outside one.
    assert_eq!(contents[&Table::LegAddresses].len(), 2);
    let rule = |number| -> abi_router::NatRule {
        let key = abi_router::NatRuleKey { list: ID, number };
        value(&contents, Table::NatRules, &key)
    };
    let forward = rule(1);
    assert_eq!(
        (forward.kind, forward.inside_port, forward.outside_port),
        (abi_router::NAT_FORWARD, 80, 8080)
    );
    let source = rule(2);
    assert_eq!((source.port_min, source.port_max), (1024, 65535));
    let fdb = abi::FdbKey {
        switch_id: 5001,
        mac: router.mac,
        pad: 0,
    };
    assert_eq!(
        value::<abi::FdbEntry>(&contents, Table::Fdb, &fdb).router,
        ID
    );
    let interface = abi::NeighbourKey {
        switch_id: 5001,
        addr: IpAddr::from([198, 18, 100, 254]).into(),
    };
    let interface: abi::Neighbour = value(&contents, Table::Neighbours, &interface);
    let all = abi::NEIGHBOUR_ROUTER | abi::NEIGHBOUR_INTERFACE | abi::NEIGHBOUR_GATEWAY;
    assert_eq!(interface.flags, all);
}

#[test]
fn a_gateway_elsewhere_is_its_vtep() {
    let mut tables = tables();
    let vtep: IpAddr = "198.18.0.2".parse().unwrap();
    let gateway = tables.routers[0].gateway.as_mut().unwrap();
    gateway.place = GatewayPlace::Remote(vtep);
    gateway.nat.clear();
    let contents = encode(&tables, &devices()).unwrap();
    let router = router(&contents);
    let flags = abi_router::ROUTER_GATEWAY_ELSEWHERE
        | abi_router::ROUTER_REVERSE_PATH
        | abi_router::ROUTER_MSS_CLAMP;
    assert_eq!(router.flags, flags);
    assert_eq!(IpAddr::from(router.gateway), vtep);
    assert_eq!(router.leg_ifindex, 0);
    assert!(contents[&Table::Legs].is_empty() && contents[&Table::LegAddresses].is_empty());
}

#[test]
fn next_hops_of_other_routes_keep_their_group() {
    let first = encode(&tables(), &devices()).unwrap();
    let mut changed = tables();
    let routes = &mut changed.routers[0].routes;
    routes.insert(0, route("198.18.7.0/24", via(&["198.18.100.7"])));
    let second = encode_beside(&changed, &devices(), &first).unwrap();
    assert_eq!(default_route(&second), default_route(&first));
    // Other next hops are another group, and the old one stays as it is until it is taken away.
    changed.routers[0].routes[4].way = via(&["198.18.100.8"]);
    let third = encode_beside(&changed, &devices(), &second).unwrap();
    let group = default_route(&third).group;
    assert_ne!(group, default_route(&second).group);
    for (key, hop) in &third[&Table::NextHops] {
        let old = second[&Table::NextHops].get(key);
        assert!(old.is_none_or(|old| old == hop));
    }
}

#[test]
fn other_nat_rules_are_written_beside_those_in_use() {
    let first = encode(&tables(), &devices()).unwrap();
    let same = encode_beside(&tables(), &devices(), &first).unwrap();
    assert_eq!(same, first);
    let mut changed = tables();
    changed.routers[0].gateway.as_mut().unwrap().nat.remove(0);
    let second = encode_beside(&changed, &devices(), &first).unwrap();
    let expected = abi_router::ROUTER_GATEWAY_HERE
        | abi_router::ROUTER_NAT
        | abi_router::ROUTER_NAT_ALL
        | abi_router::ROUTER_NAT_ODD
        | abi_router::ROUTER_REVERSE_PATH
        | abi_router::ROUTER_MSS_CLAMP
        | abi_router::ROUTER_LEG_TAKES_NO_MARK;
    assert_eq!(router(&second).flags, expected);
    assert_eq!(second[&Table::NatRules].len(), 2);
    for table in [Table::NatRules, Table::NatInsides, Table::NatEnds] {
        let (old, new) = (&first[&table], &second[&table]);
        assert!(!new.is_empty() && new.keys().all(|key| !old.contains_key(key)));
        // What stands in the list that is about to be used, and not in the tables, goes first.
        let is_found = |key: &Vec<u8>| is_in_the_way(&first, table, key);
        assert_eq!(old.keys().all(is_found), table != Table::NatRules);
        assert!(!new.keys().any(is_found));
    }
    let third = encode_beside(&tables(), &devices(), &second).unwrap();
    assert_eq!(router(&third).flags & abi_router::ROUTER_NAT_ODD, 0);
}

/// Only the network of a rule differs: the rules' own entries say the same.
#[test]
fn another_inside_network_is_another_list() {
    let first = encode(&tables(), &devices()).unwrap();
    let mut changed = tables();
    let nat = &mut changed.routers[0].gateway.as_mut().unwrap().nat;
    if let NatKind::Source { inside, .. } = &mut nat[2].kind {
        *inside = "198.18.100.0/25".parse().unwrap();
    }
    let second = encode_beside(&changed, &devices(), &first).unwrap();
    assert_ne!(router(&second).flags & abi_router::ROUTER_NAT_ODD, 0);
}

/// The kernel has an entry more in the list in use, as an interrupted run can leave it.
#[test]
fn a_list_with_a_leftover_is_not_used() {
    let first = encode(&tables(), &devices()).unwrap();
    let mut longer = tables();
    let nat = &mut longer.routers[0].gateway.as_mut().unwrap().nat;
    let kind = NatKind::Forward {
        protocol: 17,
        outside: ("198.19.0.2".parse().unwrap(), 53),
        inside: ("198.18.100.1".parse().unwrap(), 53),
    };
    nat.push(NatRule { kind, line: 1 });
    let mut current = encode(&longer, &devices()).unwrap();
    current.insert(Table::Routers, first[&Table::Routers].clone());
    let second = encode_beside(&tables(), &devices(), &current).unwrap();
    assert_ne!(router(&second).flags & abi_router::ROUTER_NAT_ODD, 0);
}

fn one_to_one(inside: &str, outside: &str) -> NatKind {
    NatKind::OneToOne {
        inside: inside.parse().unwrap(),
        outside: outside.parse().unwrap(),
    }
}

fn source(inside: &str) -> NatKind {
    NatKind::Source {
        inside: inside.parse().unwrap(),
        outside: "198.19.0.2".parse().unwrap(),
        ports: NatKind::PORTS,
    }
}

fn forward(protocol: u8, outside: u16, inside: u16) -> NatKind {
    NatKind::Forward {
        protocol,
        outside: ("198.19.0.2".parse().unwrap(), outside),
        inside: ("198.18.100.1".parse().unwrap(), inside),
    }
}

fn with_nat(kinds: impl IntoIterator<Item = NatKind>) -> Contents {
    let mut tables = tables();
    let rules = kinds.into_iter().map(|kind| NatRule { kind, line: 1 });
    tables.routers[0].gateway.as_mut().unwrap().nat = rules.collect();
    encode(&tables, &devices()).unwrap()
}

#[test]
fn an_inside_prefix_has_the_first_rule_of_those_around_it() {
    let contents = with_nat([
        source("198.18.100.0/26"),
        one_to_one("198.18.100.1", "198.19.0.11"),
        one_to_one("198.18.100.200", "198.19.0.12"),
        source("198.18.100.0/24"),
        source("198.18.100.192/26"),
        source("198.18.100.0/26"),
        source("2001:2::/64"),
    ]);
    let prefix = |net: &str| {
        let net: ipnet::IpNet = net.parse().unwrap();
        let (family, wider) = if net.addr().is_ipv4() {
            (4, 96)
        } else {
            (6, 0)
        };
        let key = abi_router::NatInsideKey {
            prefixlen: 64 + wider + u32::from(net.prefix_len()),
            list: ID.to_be(),
            family: u32::to_be(family),
            addr: net.addr().into(),
        };
        key.as_bytes().to_vec()
    };
    let expected = [
        ("198.18.100.0/26", 0),
        ("198.18.100.200/32", 2),
        ("198.18.100.0/24", 3),
        ("2001:2::/64", 6),
    ];
    let expected =
        expected.map(|(net, number): (_, u32)| (prefix(net), number.as_bytes().to_vec()));
    assert_eq!(contents[&Table::NatInsides], Entries::from(expected));
}

#[test]
fn an_end_has_the_first_rule_with_it() {
    let contents = with_nat([
        forward(6, 8080, 80),
        forward(17, 8080, 80),
        forward(6, 8081, 80),
        one_to_one("198.18.100.7", "198.19.0.11"),
    ]);
    let end = |side, protocol, addr: [u8; 4], port| {
        let key = abi_router::NatEndKey {
            list: ID,
            side,
            addr: IpAddr::from(addr).into(),
            port,
            protocol,
            family: 4,
        };
        key.as_bytes().to_vec()
    };
    let (inside, outside) = ([198, 18, 100, 1], [198, 19, 0, 2]);
    let expected = [
        (end(abi_router::NAT_INSIDE, 6, inside, 80), 0),
        (end(abi_router::NAT_INSIDE, 17, inside, 80), 1),
        (end(abi_router::NAT_OUTSIDE, 6, outside, 8080), 0),
        (end(abi_router::NAT_OUTSIDE, 17, outside, 8080), 1),
        (end(abi_router::NAT_OUTSIDE, 6, outside, 8081), 2),
        (end(abi_router::NAT_OUTSIDE, 0, [198, 19, 0, 11], 0), 3),
    ];
    let expected = expected.map(|(end, number): (_, u32)| (end, number.as_bytes().to_vec()));
    assert_eq!(contents[&Table::NatEnds], Entries::from(expected));
}

#[test]
fn a_gateway_without_the_device_of_its_leg_has_no_leg() {
    let whole = encode(&tables(), &devices()).unwrap();
    let contents = encode(&tables(), &super::devices()).unwrap();
    for table in [Table::Legs, Table::LegAddresses] {
        assert!(!whole[&table].is_empty() && contents[&table].is_empty());
    }
    let router: abi_router::Router = value(&contents, Table::Routers, &ID);
    assert_eq!(router.leg_ifindex, 0);
    assert_ne!(router.flags & abi_router::ROUTER_GATEWAY_HERE, 0);
    assert_eq!(contents[&Table::Routes], whole[&Table::Routes]);
}
