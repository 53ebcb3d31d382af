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
        gateway: Some(Gateway {
            host: overlane_model::Name::new("h1").unwrap(),
            place: GatewayPlace::Here {
                leg: Some(DeviceName::new("phys0").unwrap()),
            },
            addresses: vec!["198.19.0.2/24".parse().unwrap()],
            nat: nat_rules(),
            drop_untranslated: true,
            connections: 7000,
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
            | abi_router::ROUTER_LEG_TAKES_NO_MARK
    );
    assert_eq!(
        [
            router.leg_ifindex,
            router.leg_mtu,
            router.nat_rules,
            router.connections
        ],
        [LEG, 1500, 3, 7000]
    );
    assert_eq!(IpAddr::from(router.leg_v4), IpAddr::from([198, 19, 0, 2]));
    assert_eq!(router.leg_v6, abi::Addr::default());
    assert_eq!(value::<u32>(&contents, Table::Legs, &LEG), ID);
    // Its own address, which is also an outside one, and the other outside one.
    assert_eq!(contents[&Table::LegAddresses].len(), 2);
    let rule = |number| -> abi_router::NatRule {
        let key = abi_router::NatRuleKey { router: ID, number };
        value(&contents, Table::NatRules, &key)
    };
    let forward = rule(1);
    assert_eq!(
        (forward.kind, forward.inside_port, forward.outside_port),
        (abi_router::NAT_FORWARD, 80, 8080)
    );
    let source = rule(2);
    assert_eq!((source.inside_bits, source.family), (96 + 24, 4));
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
    let flags = abi_router::ROUTER_GATEWAY_ELSEWHERE | abi_router::ROUTER_REVERSE_PATH;
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
    let expected = (
        abi_router::ROUTER_GATEWAY_HERE
            | abi_router::ROUTER_NAT
            | abi_router::ROUTER_NAT_ALL
            | abi_router::ROUTER_NAT_ODD
            | abi_router::ROUTER_REVERSE_PATH
            | abi_router::ROUTER_LEG_TAKES_NO_MARK,
        2,
    );
    let found = router(&second);
    assert_eq!((found.flags, found.nat_rules), expected);
    let keys = |contents: &Contents| -> Vec<Vec<u8>> {
        contents[&Table::NatRules].keys().cloned().collect()
    };
    assert!(keys(&second).iter().all(|key| !keys(&first).contains(key)));
    let third = encode_beside(&tables(), &devices(), &second).unwrap();
    assert_eq!(router(&third).flags & abi_router::ROUTER_NAT_ODD, 0);
}

#[test]
fn an_unresolved_leg_is_an_error() {
    let error = encode(&tables(), &super::devices()).unwrap_err();
    assert!(matches!(error, EbpfError::UnknownDevice(name) if name == "phys0"));
}
