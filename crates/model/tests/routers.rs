//! Routers in the tables: which hosts know which switches, what each router answers for, where its routes lead;
//! and that all hosts agree, whatever the order of the file.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use overlane_model::{
    Fabric, FloodMember, GatewayPlace, NatKind, Place, RouterId, RouterTable, Side, Tables, Way,
};
use overlane_wire::{Mac, PortKey};
use proptest::prelude::*;

/// h1 has switch a, h2 has b, h3 is the gateway host of r1 and has nothing, h4 has d beyond r2. Switch e is
/// joined with nothing.
const FABRIC: &str = "
version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
  h3: { underlay: 198.18.0.3, uplink: eth1 }
  h4: { underlay: 198.18.0.4, uplink: eth1 }
  h5: { underlay: 198.18.0.5, uplink: eth1 }
switches:
  a: { vni: 1 }
  b: { vni: 2 }
  c: { uplink_vlan: 3 }
  d: { vni: 4 }
  e: { vni: 5 }
ports:
  a1: { switch: a, host: h1, device: a1, mac: '02:00:00:00:00:11', addresses: [198.18.1.1, '2001:2:0:1::1'], key: 1 }
  b1: { switch: b, host: h2, device: b1, mac: '02:00:00:00:00:21', addresses: [198.18.2.1], key: 1 }
  d1: { switch: d, host: h4, device: d1, mac: '02:00:00:00:00:41', addresses: [198.18.4.1], key: 1 }
  e1: { switch: e, host: h5, device: e1, mac: '02:00:00:00:00:51', key: 1 }
routers:
  r1:
    mac: '02:00:00:00:00:fe'
    interfaces:
      a: [198.18.1.254/24, '2001:2:0:1::fe/64']
      b: [198.18.2.254/24, 198.18.2.253/24]
      c: [198.18.3.254/32]
    routes:
      - { to: 198.18.4.0/24, via: [198.18.2.9, 198.18.2.8] }
      - { to: 0.0.0.0/0, via: 198.19.0.1 }
    gateway:
      host: h3
      device: phys0
      addresses: [198.19.0.2/24]
      nat:
        - { one_to_one: 198.18.1.1, outside: 198.19.0.10 }
        - { forward: '198.18.2.1:80', protocol: tcp, outside: '198.19.0.2:8080' }
        - { source: 198.18.1.0/24, outside: 198.19.0.2, ports: 2000-3000 }
        - { source: 198.18.2.0/24, outside: 198.19.0.2 }
        - { source: 198.18.3.0/24, outside: 198.19.0.2, ports: 4000-4000 }
  r2:
    interfaces:
      c: [198.18.3.253/24]
      d: [198.18.4.254/24]
";

fn fabric(text: &str) -> Fabric {
    Fabric::parse("test.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn tables(host: &str) -> Tables {
    fabric(FABRIC).compile(host).unwrap()
}

fn switches(tables: &Tables) -> Vec<&str> {
    tables.switches.iter().map(|s| s.name.as_str()).collect()
}

fn router<'t>(tables: &'t Tables, name: &str) -> &'t RouterTable {
    let found = tables.routers.iter().find(|r| r.name.as_str() == name);
    found.unwrap()
}

fn side(side: Side) -> String {
    match side {
        Side::Switch(id) => id.to_string(),
        Side::Leg => "leg".into(),
    }
}

fn routes(router: &RouterTable) -> Vec<String> {
    let routes = router.routes.iter();
    routes
        .map(|route| match &route.way {
            Way::Own => format!("{} own", route.to),
            Way::Connected(at) => format!("{} {}", route.to, side(*at)),
            Way::Via(hops) => {
                let mut line = format!("{} via", route.to);
                for hop in hops {
                    let _ = write!(line, " {} ({})", hop.addr, side(hop.side));
                }
                line
            }
        })
        .collect()
}

#[test]
fn a_host_knows_what_routers_join_with_its_switches() {
    // Through r1 and, by c, r2; whether it has a port there or is a gateway.
    for host in ["h1", "h2", "h3", "h4"] {
        let tables = tables(host);
        assert_eq!(switches(&tables), ["a", "b", "c", "d"], "{host}");
        let names: Vec<_> = tables.routers.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["r1", "r2"], "{host}");
        // And nothing of e.
        assert!(tables.fdb.iter().all(|e| e.port.as_str() != "e1"), "{host}");
    }
    let tables = tables("h5");
    assert_eq!(switches(&tables), ["e"]);
    assert!(tables.routers.is_empty() && tables.neighbours.is_empty());
}

#[test]
fn remotes_send_into_what_they_have_ports_of_or_route_into() {
    let tables = tables("h1");
    let origins = tables.origins.iter();
    let origins: Vec<_> = origins
        .map(|origin| {
            let has = if origin.has_ports { "port" } else { "route" };
            format!("{} {} {has}", origin.switch, origin.remote)
        })
        .collect();
    // h2 and h4 have a port, and h3 the gateway; h5 is in no area of theirs. c is on a VLAN.
    assert_eq!(
        origins,
        [
            "VNI 1 198.18.0.2 route",
            "VNI 1 198.18.0.3 route",
            "VNI 1 198.18.0.4 route",
            "VNI 2 198.18.0.2 port",
            "VNI 2 198.18.0.3 route",
            "VNI 2 198.18.0.4 route",
            "VNI 4 198.18.0.2 route",
            "VNI 4 198.18.0.3 route",
            "VNI 4 198.18.0.4 port",
        ]
    );
    assert!(self::tables("h5").origins.is_empty());
}

#[test]
fn a_switch_without_local_port_floods_to_remotes_only() {
    let tables = tables("h1");
    let flood: Vec<_> = tables.switches.iter().map(|s| s.flood.clone()).collect();
    let remote = |text: &str| vec![FloodMember::Remote(text.parse().unwrap())];
    assert!(matches!(flood[0][..], [FloodMember::Local(_)]));
    // c is on a VLAN: its frames go out of the uplink.
    assert_eq!(
        flood[1..],
        [remote("198.18.0.2"), vec![], remote("198.18.0.4")]
    );
}

#[test]
fn interfaces_are_in_the_fdb_with_their_keys() {
    let tables = tables("h1");
    let fdb = tables.fdb.iter();
    let of_routers: Vec<_> = fdb
        .filter_map(|entry| match entry.place {
            Place::Router(id) => Some((entry.switch, entry.mac, entry.key, &entry.port, id)),
            _ => None,
        })
        .collect();
    let mut expected = Vec::new();
    for router in &tables.routers {
        for interface in &router.interfaces {
            let key = interface.key;
            expected.push((interface.switch, router.mac, key, &router.name, router.id));
        }
    }
    expected.sort();
    assert_eq!(of_routers, expected);
    assert_eq!(of_routers.len(), 5);
    assert!(
        tables
            .fdb
            .is_sorted_by_key(|entry| (entry.switch, entry.mac))
    );
}

#[test]
fn addresses_of_interfaces_are_neighbours() {
    let tables = tables("h4");
    let r1 = router(&tables, "r1").id;
    let found: Vec<_> = (tables.neighbours.iter())
        .filter(|n| n.router == Some(r1))
        .map(|n| {
            assert!(n.is_router && n.port.as_str() == "r1");
            format!("{} {} {}", n.switch, n.addr, n.mac)
        })
        .collect();
    // The one made from the MAC only where there is IPv6.
    let expected = [
        "VNI 1 198.18.1.254 02:00:00:00:00:fe",
        "VNI 1 2001:2:0:1::fe 02:00:00:00:00:fe",
        "VNI 1 fe80::ff:fe00:fe 02:00:00:00:00:fe",
        "VNI 2 198.18.2.253 02:00:00:00:00:fe",
        "VNI 2 198.18.2.254 02:00:00:00:00:fe",
        "VLAN 3 198.18.3.254 02:00:00:00:00:fe",
    ];
    assert_eq!(found, expected);
    let of_ports = tables.neighbours.iter().filter(|n| n.router.is_none());
    assert_eq!(of_ports.count(), 4);
    let addresses = |n: usize| &router(&tables, "r1").interfaces[n].addresses;
    // The order of the file: the first is the source of errors.
    assert_eq!(addresses(1)[0].to_string(), "198.18.2.254/24");
    let link_locals: Vec<_> = (router(&tables, "r1").interfaces.iter())
        .map(|interface| interface.link_local.is_some())
        .collect();
    assert_eq!(link_locals, [true, false, false]);
}

#[test]
fn routes_are_sorted_and_each_prefix_is_one() {
    let tables = tables("h2");
    assert_eq!(
        routes(router(&tables, "r1")),
        [
            "0.0.0.0/0 via 198.19.0.1 (leg)",
            "198.18.1.0/24 VNI 1",
            "198.18.1.254/32 own",
            "198.18.2.0/24 VNI 2",
            "198.18.2.253/32 own",
            "198.18.2.254/32 own",
            // The network of one address is that address.
            "198.18.3.254/32 own",
            "198.18.4.0/24 via 198.18.2.8 (VNI 2) 198.18.2.9 (VNI 2)",
            "198.19.0.0/24 leg",
            "198.19.0.2/32 own",
            "198.19.0.10/32 own",
            "2001:2:0:1::/64 VNI 1",
            "2001:2:0:1::fe/128 own",
        ]
    );
    // The line of what declares it: interface, gateway, translation, route.
    let lines: Vec<_> = router(&tables, "r1")
        .routes
        .iter()
        .map(|r| r.line)
        .collect();
    assert_eq!(lines, [29, 24, 24, 25, 25, 25, 26, 28, 31, 31, 35, 24, 24]);
}

#[test]
fn the_gateway_is_somewhere() {
    let here = tables("h3");
    let gateway = router(&here, "r1").gateway.as_ref().unwrap();
    let GatewayPlace::Here { leg: Some(leg) } = &gateway.place else {
        panic!("{gateway:?}")
    };
    assert_eq!(leg.as_str(), "phys0");
    let kinds: Vec<_> = gateway.nat.iter().map(|rule| rule.kind.clone()).collect();
    let ip = |text: &str| text.parse().unwrap();
    let source = |inside: &str, ports| NatKind::Source {
        inside: inside.parse().unwrap(),
        outside: ip("198.19.0.2"),
        ports,
    };
    assert_eq!(
        kinds,
        [
            NatKind::OneToOne {
                inside: ip("198.18.1.1"),
                outside: ip("198.19.0.10"),
            },
            NatKind::Forward {
                protocol: 6,
                outside: (ip("198.19.0.2"), 8080),
                inside: (ip("198.18.2.1"), 80),
            },
            source("198.18.1.0/24", 2000..=3000),
            source("198.18.2.0/24", 1024..=65535),
            source("198.18.3.0/24", 4000..=4000),
        ]
    );
    let elsewhere = tables("h1");
    let gateway = router(&elsewhere, "r1").gateway.as_ref().unwrap();
    assert_eq!(gateway.place, GatewayPlace::Remote(ip("198.18.0.3")));
    assert_eq!(gateway.addresses.len(), 1);
    assert!(gateway.nat.is_empty());
}

/// Of a router without `gateway`: the first host of the file, where the router is on a VLAN.
#[test]
fn a_router_on_a_vlan_has_an_acting_host() {
    let acting = |text: &str, name: &str| {
        let fabric = fabric(text);
        let router = &fabric.routers()[name];
        let acting = fabric.acting_host(router)?;
        for host in fabric.hosts().values() {
            let tables = fabric.compile(host.name.as_str()).unwrap();
            let Some(table) = tables.routers.iter().find(|table| table.id == router.id) else {
                continue;
            };
            let gateway = table.gateway.as_ref().unwrap();
            assert_eq!(gateway.host, acting.name);
            let elsewhere = (host.name != acting.name).then_some(acting.underlay);
            assert_eq!(table.acting_elsewhere(), elsewhere);
            assert_eq!(table.is_gateway_here(), host.name == acting.name);
        }
        Some(acting.name.to_string())
    };
    let named = |host: &str| Some(host.to_owned());
    assert_eq!(acting(FABRIC, "r1"), named("h3"));
    assert_eq!(acting(FABRIC, "r2"), named("h4"));
    // In the order of the file, also where one line has them all, and whatever their names.
    let both = "
version: 1
hosts: { h9: { underlay: 198.18.0.9, uplink: eth1 }, h2: { underlay: 198.18.0.2, uplink: eth1 }, \
         h1: { underlay: 198.18.0.1, uplink: eth1 } }
switches: { lan: { uplink_vlan: 3 }, office: { uplink_vlan: 4 }, blue: { vni: 5 }, red: { vni: 6 } }
ports:
  l1: { switch: lan, host: h1, device: l1, mac: '02:00:00:00:00:11' }
  l2: { switch: lan, host: h2, device: l2, mac: '02:00:00:00:00:12' }
  b9: { switch: blue, host: h9, device: b9, mac: '02:00:00:00:00:13' }
routers:
  r1: { interfaces: { lan: [198.18.1.254/24], red: [198.18.2.254/24] } }
  r2: { interfaces: { red: [198.18.2.253/24], office: [198.18.3.254/24] } }
  r3: { interfaces: { blue: [198.18.4.254/24] } }
";
    assert_eq!(acting(both, "r1"), named("h2"));
    // No port of its own: who knows it by the other router.
    assert_eq!(acting(both, "r2"), named("h2"));
    assert_eq!(acting(both, "r3"), None);
    let tables = fabric(both).compile("h9").unwrap();
    assert!(router(&tables, "r3").gateway.is_none());
}

/// It is what a translation is asked again by: each value of each rule counts, and nothing else.
#[test]
fn the_version_of_nat_is_of_all_that_is_translated() {
    let nat = |rules: &str, rest: &str| {
        let text = format!(
            r#"
version: 1
hosts: {{ h1: {{ underlay: 198.18.0.1, uplink: eth1 }} }}
switches: {{ a: {{ uplink_vlan: 1 }} }}
routers:
  r1:
    mac: "02:00:00:00:00:fe"
    interfaces: {{ a: [198.18.1.254/24] }}
    gateway: {{ host: h1, device: phys0, addresses: [198.19.0.2/24], nat: [{rules}]{rest} }}
"#
        );
        let tables = fabric(&text).compile("h1").unwrap();
        router(&tables, "r1")
            .gateway
            .as_ref()
            .unwrap()
            .nat_version()
    };
    let (source, one) = (
        "{ source: 198.18.1.0/24, outside: 198.19.0.2 }",
        "{ one_to_one: 198.18.1.1, outside: 198.19.0.3 }",
    );
    let forward = r#"{ forward: "198.18.1.1:80", protocol: tcp, outside: "198.19.0.2:80" }"#;
    let all = [forward, one, source].join(", ");
    assert_eq!(nat(&all, ""), nat(&all, ", connections: 7"));
    let versions = [
        nat(&all, ", untranslated: drop"),
        nat(&[one, forward, source].join(", "), ""),
        nat(&[forward, one].join(", "), ""),
        nat(&all.replace("198.18.1.0/24", "198.18.1.0/25"), ""),
        nat(&all.replace("0.2 }", "0.2, ports: 1024-65534 }"), ""),
        nat(&all.replace("0.2 }", "0.4 }"), ""),
        nat(&all.replace("0.3", "0.4"), ""),
        nat(
            &all.replace("one_to_one: 198.18.1.1", "one_to_one: 198.18.1.2"),
            "",
        ),
        nat(&all.replace("tcp", "udp"), ""),
        nat(&all.replace("1.1:80", "1.1:81"), ""),
        nat(&all.replace("0.2:80", "0.2:81"), ""),
        nat(&all, ""),
    ];
    let different: BTreeSet<_> = versions.iter().collect();
    assert_eq!(different.len(), versions.len());
}

#[test]
fn a_gateway_without_leg() {
    let text = FABRIC.split("      device: phys0").next().unwrap();
    let text = text.replace("      - { to: 0.0.0.0/0, via: 198.19.0.1 }\n", "");
    let tables = fabric(&text).compile("h3").unwrap();
    let gateway = router(&tables, "r1").gateway.clone().unwrap();
    assert_eq!(gateway.place, GatewayPlace::Here { leg: None });
    assert!(gateway.addresses.is_empty() && gateway.nat.is_empty());
}

/// FNV-1a, written out here.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[test]
fn a_derived_mac_hangs_on_the_first_interface_and_on_no_name() {
    let mac = |text: &str, name: &str| {
        let tables = fabric(text).compile("h4").unwrap();
        router(&tables, name).mac
    };
    let derived = |place: &[u8]| {
        let [a, b, c, d] = fnv1a(place).to_be_bytes();
        Mac::new([0x0e, 0x6f, a, b, c, d])
    };
    // VNI 4 comes before VLAN 3.
    let of_d = derived(&[0, 0, 0, 0, 4, 4, 198, 18, 4, 254]);
    assert_eq!(mac(FABRIC, "r2"), of_d);
    let renamed = FABRIC.replace("  r2:", "  another:");
    assert_eq!(mac(&renamed, "another"), of_d);
    // Nor on the names of switches, nor on what else the router has.
    let renamed = FABRIC
        .replace("  c: ", "  zz: ")
        .replace("      c: ", "      zz: ");
    assert_eq!(mac(&renamed, "r2"), of_d);
    let more = FABRIC.replace(
        "d: [198.18.4.254/24]",
        "d: [198.18.4.254/24, 198.18.5.1/24]\n      e: [198.18.6.1/24]",
    );
    assert_eq!(mac(&more, "r2"), of_d);
    let other = FABRIC.replace(
        "d: [198.18.4.254/24]",
        "d: ['2001:2:0:4::fe/64', 198.18.4.254/24]",
    );
    let address = "2001:2:0:4::fe".parse::<std::net::Ipv6Addr>().unwrap();
    let place = [&[0, 0, 0, 0, 4, 6][..], &address.octets()].concat();
    assert_eq!(mac(&other, "r2"), derived(&place));
    let other = FABRIC.replace("d: { vni: 4 }", "d: { uplink_vlan: 4 }");
    let of_c = derived(&[1, 0, 0, 0, 3, 4, 198, 18, 3, 253]);
    assert_eq!(mac(&other, "r2"), of_c);
}

#[test]
fn what_a_name_gives_never_changes() {
    let tables = tables("h1");
    let r2 = router(&tables, "r2");
    assert_eq!(r2.id.get(), fnv1a(b"r2") % RouterId::MAX + 1);
    let hash = fnv1a(b"r2/d");
    let key = u16::try_from(hash % u32::from(PortKey::MAX) + 1).unwrap();
    assert_eq!(r2.interfaces[1].key.get(), key);
    // A port that declares this very key moves the interface.
    let text = FABRIC.replace(
        "addresses: [198.18.4.1], key: 1",
        &format!("addresses: [198.18.4.1], key: {key}"),
    );
    let moved = fabric(&text).compile("h1").unwrap();
    assert_eq!(router(&moved, "r2").interfaces[1].key.get(), key + 1);
}

/// Which of four switches each router is on (a bit each), and which host and switch each port is on.
type Drawn = (Vec<u8>, Vec<(usize, usize)>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let routers = proptest::collection::vec(1..64_u8, 0..5);
    let ports = proptest::collection::vec((0..4_usize, 0..6_usize), 0..10);
    (routers, ports)
}

fn text((routers, ports): &Drawn, reverse: bool) -> String {
    let mut hosts: Vec<_> = (0..4)
        .map(|i| format!("  h{i}: {{ underlay: 198.19.0.{}, uplink: eth1 }}\n", i + 1))
        .collect();
    let mut switches: Vec<_> = (0..6)
        .map(|i| format!("  s{i}: {{ vni: {} }}\n", 90 - i))
        .collect();
    let mut port_lines = Vec::new();
    for (i, (host, switch)) in ports.iter().enumerate() {
        port_lines.push(format!(
            "  p{i}: {{ switch: s{switch}, host: h{host}, device: d{i}, mac: '02:00:00:00:00:{i:02x}' }}\n"
        ));
    }
    let mut router_lines = Vec::new();
    for (i, bits) in routers.iter().enumerate() {
        let mut on: Vec<_> = (0..6)
            .filter(|s| bits & 1 << s != 0)
            .map(|s| format!("s{s}: [198.18.{s}.{}/24, '2001:2:0:{s}::{i:x}a/64']", i + 1))
            .collect();
        if reverse {
            on.reverse();
        }
        router_lines.push(format!(
            "  r{i}: {{ interfaces: {{ {} }} }}\n",
            on.join(", ")
        ));
    }
    let mut out = String::from("version: 1\n");
    for (name, lines) in [
        ("routers", &mut router_lines),
        ("hosts", &mut hosts),
        ("switches", &mut switches),
        ("ports", &mut port_lines),
    ] {
        if reverse {
            lines.reverse();
        }
        if !lines.is_empty() {
            let _ = write!(out, "{name}:\n{}", lines.concat());
        }
    }
    out
}

/// Without the lines of the file.
fn without_lines(mut tables: Tables) -> Tables {
    for router in &mut tables.routers {
        router.routes.iter_mut().for_each(|route| route.line = 0);
    }
    tables
}

proptest! {
    #[test]
    fn order_of_the_file_does_not_matter(drawn in drawn()) {
        let straight = fabric(&text(&drawn, false));
        let other = fabric(&text(&drawn, true));
        for host in straight.hosts().keys() {
            let tables = |fabric: &Fabric| without_lines(fabric.compile(host.as_str()).unwrap());
            prop_assert_eq!(tables(&straight), tables(&other));
        }
    }

    #[test]
    fn hosts_agree_and_know_what_they_can_reach(drawn in drawn()) {
        let fabric = fabric(&text(&drawn, false));
        let mut keys: BTreeMap<_, PortKey> = BTreeMap::new();
        let mut routers: BTreeMap<_, RouterTable> = BTreeMap::new();
        for host in fabric.hosts().keys() {
            let tables = fabric.compile(host.as_str()).unwrap();
            prop_assert_eq!(tables.counts(), fabric.counts()[host]);
            let known: BTreeSet<_> = tables.switches.iter().map(|s| s.id).collect();
            for port in &tables.ports {
                prop_assert!(known.contains(&port.switch));
            }
            for router in &tables.routers {
                for interface in &router.interfaces {
                    prop_assert!(known.contains(&interface.switch));
                }
                let first = routers.entry(router.id).or_insert_with(|| router.clone());
                prop_assert_eq!(&*first, router);
            }
            // No router of a known switch is missing, and no switch is there without a reason.
            for router in fabric.routers().values() {
                let ids = router.interfaces.iter().map(|i| fabric.switches()[&i.switch].id);
                let here = ids.filter(|id| known.contains(id)).count();
                let table = tables.routers.iter().any(|table| table.id == router.id);
                prop_assert_eq!(table, here > 0);
                prop_assert!(here == 0 || here == router.interfaces.len());
            }
            prop_assert_eq!(known.is_empty(), tables.ports.is_empty());
            for entry in &tables.fdb {
                let whose = (entry.switch, entry.mac);
                prop_assert_eq!(*keys.entry(whose).or_insert(entry.key), entry.key);
            }
            // Keys are unique within the switch, of ports and interfaces together.
            let mut keys: Vec<_> = tables.fdb.iter().map(|e| (e.switch, e.key)).collect();
            keys.sort();
            prop_assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
        }
        // Router ids are different.
        let ids: BTreeSet<_> = fabric.routers().values().map(|r| r.id).collect();
        prop_assert_eq!(ids.len(), fabric.routers().len());
    }
}

const SPECIAL: &str = "
version: 1
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
switches: { a: { vni: 1 } }
ports: { a1: { switch: a, host: h1, device: d1, mac: '02:00:00:00:00:01', addresses: [198.18.1.1] } }
routers:
  r1:
    interfaces: { a: [198.18.1.254/24, 192.0.2.254/24, '2001:2:0:1::fe/64'] }
    routes:
      - { to: 0.0.0.0/0, via: 198.18.1.1 }
      - { to: '::/0', via: '2001:2:0:1::1' }
      - { to: 169.254.169.254/32, via: 198.18.1.2 }
      - { to: 192.0.0.0/16, via: 198.18.1.3 }
";

#[test]
fn a_route_inside_a_block_of_special_addresses_names_them() {
    let tables = fabric(SPECIAL).compile("h1").unwrap();
    let routes = router(&tables, "r1").routes.iter();
    let named = routes.filter(|route| route.names_special);
    let named: Vec<_> = named.map(|route| route.to.to_string()).collect();
    assert_eq!(
        named,
        ["169.254.169.254/32", "192.0.2.0/24", "192.0.2.254/32"]
    );
}

#[test]
fn no_route_names_what_is_never_forwarded() {
    for to in ["224.0.0.0/4", "127.0.0.0/8", "0.0.0.0/8", "240.0.0.0/5"] {
        let text = SPECIAL.replace("169.254.169.254/32", to);
        let said = Fabric::parse("test.yaml", &text).unwrap_err().to_string();
        assert!(
            said.contains(&format!("no router forwards to {to}")),
            "{said}"
        );
    }
}

#[test]
fn a_router_is_strict_unless_the_file_says_off() {
    let is_strict = |more: &str| {
        let text = SPECIAL.replace("  r1:\n", &format!("  r1:\n{more}"));
        let tables = fabric(&text).compile("h1").unwrap();
        router(&tables, "r1").reverse_path
    };
    assert!(is_strict("") && is_strict("    reverse_path: strict\n"));
    assert!(!is_strict("    reverse_path: off\n"));
}
