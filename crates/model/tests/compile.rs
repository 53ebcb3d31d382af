//! The tables of a fabric of three hosts and two logical switches, and what must hold for any fabric:
//! the order of the file does not matter, and hosts agree with each other.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use overlane_model::{
    CompileError, Dscp, Encapsulation, Fabric, FloodMember, Learning, Name, Place, PortSecurity,
    PortTable, Tables, Tunnel,
};
use overlane_wire::PortKey;
use proptest::prelude::*;

const THREE: &str = "
version: 1
tunnel: { encapsulation: vxlan, source_ports: 50000-50099, strict: true }
hosts:
  a: { underlay: 198.18.0.1, uplink: eth1 }
  b: { underlay: 198.18.0.2, uplink: eth2 }
  c: { underlay: 198.18.0.3, uplink: eth3 }
switches:
  blue: { vni: 5001 }
  green: { vni: 4001, unknown_unicast: flood }
ports:
  blue-a2: { switch: blue, host: a, device: a2, mac: '02:00:00:00:00:12', key: 2 }
  blue-a1: { switch: blue, host: a, device: a1, mac: '02:00:00:00:00:11', key: 1, addresses: [198.18.100.1, '2001:2::1'] }
  blue-b1: { switch: blue, host: b, device: b1, mac: '02:00:00:00:00:21', key: 3, addresses: [198.18.100.3] }
  blue-b2: { switch: blue, host: b, device: b2, mac: '02:00:00:00:00:22', key: 4 }
  green-b: { switch: green, host: b, device: b3, mac: '02:00:00:00:00:23', key: 1, addresses: [198.18.100.1] }
  green-c: { switch: green, host: c, device: c1, mac: '02:00:00:00:00:31', key: 2 }
";

fn fabric(text: &str) -> Fabric {
    Fabric::parse("test.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ports(tables: &Tables) -> Vec<String> {
    let ports = tables.ports.iter();
    ports
        .map(|p| {
            format!(
                "{} {} {} {} {}",
                p.name, p.attachment, p.switch, p.key, p.mac
            )
        })
        .collect()
}

fn fdb(tables: &Tables) -> Vec<String> {
    let entries = tables.fdb.iter();
    entries
        .map(|entry| {
            let place = match &entry.place {
                Place::Local(at) => at.to_string(),
                Place::Remote(addr) => addr.to_string(),
                Place::Vlan => "uplink".into(),
                Place::Router(id) => format!("router {id}"),
            };
            format!("{} {} {} {place}", entry.switch, entry.mac, entry.key)
        })
        .collect()
}

fn flood(tables: &Tables) -> Vec<String> {
    let mut lines = Vec::new();
    for switch in &tables.switches {
        let mut line = format!("{} {} {}", switch.name, switch.id, switch.flood_unknown);
        for member in &switch.flood {
            let _ = match member {
                FloodMember::Local(at) => write!(line, " {at}"),
                FloodMember::Remote(addr) => write!(line, " {addr}"),
            };
        }
        lines.push(line);
    }
    lines
}

fn neighbours(tables: &Tables) -> Vec<String> {
    let neighbours = tables.neighbours.iter();
    neighbours
        .map(|n| format!("{} {} {} {}", n.switch, n.addr, n.mac, n.key))
        .collect()
}

#[test]
fn a_host_with_one_switch() {
    let tables = fabric(THREE).compile("a").unwrap();
    assert_eq!(
        (tables.host.as_str(), tables.uplink.as_str()),
        ("a", "eth1")
    );
    assert_eq!(tables.vtep, ip("198.18.0.1"));
    let tunnel = Tunnel {
        encapsulation: Encapsulation::Vxlan,
        port: 4789,
        source_ports: 50000..=50099,
        strict: true,
        hash_seed: Tunnel::HASH_SEED,
        dscp: Dscp::Fixed(0),
    };
    assert_eq!(tables.tunnel, tunnel);
    assert_eq!(
        ports(&tables),
        [
            "blue-a1 a1 VNI 5001 1 02:00:00:00:00:11",
            "blue-a2 a2 VNI 5001 2 02:00:00:00:00:12"
        ]
    );
    // Nothing of green; b once, although it has two ports; not c, which has none.
    assert_eq!(flood(&tables), ["blue VNI 5001 false a1 a2 198.18.0.2"]);
    assert_eq!(
        fdb(&tables),
        [
            "VNI 5001 02:00:00:00:00:11 1 a1",
            "VNI 5001 02:00:00:00:00:12 2 a2",
            "VNI 5001 02:00:00:00:00:21 3 198.18.0.2",
            "VNI 5001 02:00:00:00:00:22 4 198.18.0.2",
        ]
    );
    assert_eq!(
        neighbours(&tables),
        [
            "VNI 5001 198.18.100.1 02:00:00:00:00:11 1",
            "VNI 5001 198.18.100.3 02:00:00:00:00:21 3",
            "VNI 5001 2001:2::1 02:00:00:00:00:11 1",
        ]
    );
    // Every other host, with or without common switches.
    let remotes: Vec<_> = tables
        .remotes
        .iter()
        .map(|r| (r.name.as_str(), r.addr))
        .collect();
    assert_eq!(remotes, [("b", ip("198.18.0.2")), ("c", ip("198.18.0.3"))]);
    assert!(
        tables
            .remotes
            .iter()
            .all(|remote| remote.header.len() == 50)
    );
}

#[test]
fn a_host_with_both_switches() {
    let tables = fabric(THREE).compile("b").unwrap();
    assert_eq!(
        flood(&tables),
        [
            "blue VNI 5001 false b1 b2 198.18.0.1",
            "green VNI 4001 true b3 198.18.0.3"
        ]
    );
    // By VNI, not by name; the same address may live in two switches.
    assert_eq!(
        fdb(&tables)[..2],
        [
            "VNI 4001 02:00:00:00:00:23 1 b3",
            "VNI 4001 02:00:00:00:00:31 2 198.18.0.3"
        ]
    );
    assert_eq!(
        neighbours(&tables)[0],
        "VNI 4001 198.18.100.1 02:00:00:00:00:23 1"
    );
}

/// Two hosts with a switch on a VLAN, a trunk, and every setting of a port.
const SEGMENTS: &str = "
version: 1
tunnel: { dscp: copy }
hosts:
  a: { underlay: 198.18.0.1, uplink: eth1 }
  b: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  base: { uplink_vlan: 100 }
  blue: { vni: 100, vlan: transparent }
  red: { vni: 101, unknown_unicast: flood }
ports:
  a1: { switch: base, host: a, device: v0, mac: '02:00:00:00:00:11', key: 1, addresses: [198.18.100.1] }
  a2: { switch: red, host: a, device: v0, vlan: 20, mac: '02:00:00:00:00:12', key: 2, security: mac, learning: { limit: 3, age: 60 } }
  a3: { switch: red, host: a, device: v0, vlan: 10, mac: '02:00:00:00:00:13', key: 3, security: off, allow: [router_advertisement, dhcp_server], learning: true }
  a4: { switch: blue, host: a, device: v1, mac: '02:00:00:00:00:14', key: 4, allow: [dhcp_server] }
  b1: { switch: base, host: b, device: w0, mac: '02:00:00:00:00:21', key: 21, addresses: [198.18.100.2] }
  b2: { switch: red, host: b, device: w1, mac: '02:00:00:00:00:22', key: 22, learning: { age: 3600 } }
  b3: { switch: blue, host: b, device: w2, mac: '02:00:00:00:00:23', key: 23 }
";

#[test]
fn a_switch_on_a_vlan_has_no_remotes() {
    let tables = fabric(SEGMENTS).compile("a").unwrap();
    assert_eq!(
        flood(&tables),
        [
            "base VLAN 100 false v0",
            "blue VNI 100 false v1 198.18.0.2",
            "red VNI 101 true v0 tag 20 v0 tag 10 198.18.0.2",
        ]
    );
    // VNI 100 and VLAN 100 are two switches; what is elsewhere on a VLAN is behind the uplink.
    assert_eq!(
        fdb(&tables),
        [
            "VNI 100 02:00:00:00:00:14 4 v1",
            "VNI 100 02:00:00:00:00:23 23 198.18.0.2",
            "VNI 101 02:00:00:00:00:12 2 v0 tag 20",
            "VNI 101 02:00:00:00:00:13 3 v0 tag 10",
            "VNI 101 02:00:00:00:00:22 22 198.18.0.2",
            "VLAN 100 02:00:00:00:00:11 1 v0",
            "VLAN 100 02:00:00:00:00:21 21 uplink",
        ]
    );
    // ARP for a port elsewhere on the VLAN is answered here all the same.
    assert_eq!(
        neighbours(&tables),
        [
            "VLAN 100 198.18.100.1 02:00:00:00:00:11 1",
            "VLAN 100 198.18.100.2 02:00:00:00:00:21 21",
        ]
    );
    let transparent: Vec<_> = tables.switches.iter().map(|s| s.vlan_transparent).collect();
    assert_eq!(transparent, [false, true, false]);
    assert_eq!(tables.tunnel.dscp, Dscp::Copy);
}

#[test]
fn what_ports_may_send() {
    let tables = fabric(SEGMENTS).compile("a").unwrap();
    let nothing = PortSecurity::default();
    let mac = PortSecurity {
        check_mac: true,
        ..nothing
    };
    let security: Vec<_> = tables.ports.iter().map(|port| port.security).collect();
    assert_eq!(
        security,
        [
            PortSecurity {
                check_addresses: true,
                ..mac
            },
            mac,
            PortSecurity {
                allow_dhcp_server: true,
                allow_router_advertisement: true,
                ..nothing
            },
            // Strict, but without addresses there is nothing to compare with.
            PortSecurity {
                allow_dhcp_server: true,
                ..mac
            },
        ]
    );
}

#[test]
fn what_ports_learn_and_how_long_their_switch_remembers() {
    let fabric = fabric(SEGMENTS);
    let tables = fabric.compile("a").unwrap();
    let learning: Vec<_> = tables.ports.iter().map(|port| port.learning).collect();
    let of = |limit, age_s| Some(Learning { limit, age_s });
    assert_eq!(learning, [None, of(3, 60), of(64, 300), None]);
    let ages = |host| -> Vec<_> {
        let tables = fabric.compile(host).unwrap();
        tables.switches.iter().map(|s| s.learn_age_s).collect()
    };
    // The longest age of the switch's learning ports, wherever they are.
    assert_eq!(ages("a"), [None, None, Some(3600)]);
    assert_eq!(ages("b"), [None, None, Some(3600)]);
}

#[test]
fn a_port_has_its_own_limits_then_those_of_its_switch_then_the_defaults() {
    const FABRIC: &str = "
version: 1
hosts: { h: { underlay: 198.18.0.1, uplink: e } }
switches:
  plain: { vni: 1 }
  small: { vni: 2, limits: { connections: 500, flood: 70 } }
ports:
  p1: { switch: plain, host: h, device: d1, mac: '02:00:00:00:00:01' }
  p2: { switch: plain, host: h, device: d2, mac: '02:00:00:00:00:02', limits: { flood: 10 } }
  s1: { switch: small, host: h, device: d3, mac: '02:00:00:00:00:03' }
  s2: { switch: small, host: h, device: d4, mac: '02:00:00:00:00:04', limits: { connections: 1048576 } }
";
    let tables = fabric(FABRIC).compile("h").unwrap();
    let limits = tables.ports.iter().map(|port| port.limits);
    let limits: Vec<_> = limits.map(|it| (it.connections, it.flood)).collect();
    assert_eq!(
        limits,
        [(65_536, 100_000), (65_536, 10), (500, 70), (1_048_576, 70)]
    );
}

#[test]
fn ports_of_a_trunk_are_named_by_device_and_tag() {
    let tables = fabric(SEGMENTS).compile("a").unwrap();
    assert_eq!(
        ports(&tables),
        [
            "a1 v0 VLAN 100 1 02:00:00:00:00:11",
            "a2 v0 tag 20 VNI 101 2 02:00:00:00:00:12",
            "a3 v0 tag 10 VNI 101 3 02:00:00:00:00:13",
            "a4 v1 VNI 100 4 02:00:00:00:00:14",
        ]
    );
    let tags = |port: &PortTable| port.attachment.vlan.map(|vlan| vlan.get());
    let tags: Vec<_> = tables.ports.iter().map(tags).collect();
    assert_eq!(tags, [None, Some(20), Some(10), None]);
}

#[test]
fn a_host_without_ports() {
    let text = THREE.replace(
        "hosts:\n",
        "hosts:\n  d: { underlay: 198.18.0.4, uplink: eth4 }\n",
    );
    let tables = fabric(&text).compile("d").unwrap();
    assert!(tables.ports.is_empty() && tables.switches.is_empty() && tables.fdb.is_empty());
    assert_eq!(tables.remotes.len(), 3);
}

#[test]
fn an_unknown_host_names_the_known_ones() {
    let text = THREE
        .replace("a:", "rack1:")
        .replace("host: a", "host: rack1");
    let error = fabric(&text).compile("rack2").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the fabric has no host `rack2` (its hosts: b, c, rack1)"
    );
    assert_eq!(error.help().unwrap(), "did you mean `rack1`?");
    let CompileError::UnknownHost { known, .. } = error else {
        panic!()
    };
    assert_eq!(known.len(), 3);
}

#[test]
fn objects_know_their_line() {
    let fabric = fabric(THREE);
    assert_eq!(fabric.hosts()["b"].line, 6);
    assert_eq!(fabric.switches()["green"].line, 10);
    assert_eq!(fabric.ports()["blue-a2"].line, 12);
}

#[test]
fn defaults() {
    let text = "version: 1\nhosts: { a: { underlay: 198.18.0.1, uplink: eth1 } }";
    let tunnel = fabric(text).tunnel().clone();
    assert_eq!(
        (tunnel.encapsulation, tunnel.port),
        (Encapsulation::Geneve, 6081)
    );
    assert_eq!((tunnel.source_ports, tunnel.strict), (49152..=65535, false));
}

#[test]
fn options_are_those_of_the_host_that_is_sent_to() {
    let text = "version: 1
tunnel: { options: none }
hosts:
  a: { underlay: 198.18.0.1, uplink: eth1 }
  b: { underlay: 198.18.0.2, uplink: eth1, options: ovn }
  c: { underlay: 198.18.0.3, uplink: eth1 }
switches: { s: { vni: 1 } }
ports:
  pa: { switch: s, host: a, device: d, mac: \"02:00:00:00:00:01\" }
  pb: { switch: s, host: b, device: d, mac: \"02:00:00:00:00:02\" }
  pc: { switch: s, host: c, device: d, mac: \"02:00:00:00:00:03\" }
";
    let tables = fabric(text).compile("a").unwrap();
    let remotes = tables.remotes.iter();
    let remotes = remotes.map(|to| (to.name.as_str(), to.names_ports, to.header.len()));
    let (with, without) = (14 + 20 + 8 + 16, 14 + 20 + 8 + 8);
    let expected = [("b", true, with), ("c", false, without)];
    assert_eq!(remotes.collect::<Vec<_>>(), expected);
    // The shorter header first.
    assert_eq!(flood(&tables), ["s VNI 1 false d 198.18.0.3 198.18.0.2"]);
    let tables = fabric(text).compile("b").unwrap();
    assert!(tables.remotes.iter().all(|remote| !remote.names_ports));
}

/// A port of a generated fabric; which switch, host and whether it has a key are drawn.
#[derive(Clone, Debug)]
struct Drawn {
    switch: usize,
    host: usize,
    key: bool,
    addresses: bool,
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let port = (0..3_usize, 0..3_usize, any::<bool>(), any::<bool>());
    let port = port.prop_map(|(switch, host, key, addresses)| Drawn {
        switch,
        host,
        key,
        addresses,
    });
    proptest::collection::vec(port, 0..24)
}

/// The lines of each section, to be put in any order.
fn sections(ports: &[Drawn]) -> [Vec<String>; 3] {
    let hosts = (0..3).map(|i| format!("  h{i}: {{ underlay: 198.18.0.{}, uplink: eth1 }}", i + 1));
    let switches = (0..3).map(|i| {
        let kind = if i == 2 { "uplink_vlan" } else { "vni" };
        format!("  s{i}: {{ {kind}: {} }}", 900 - i)
    });
    let ports = ports.iter().enumerate().map(|(i, port)| {
        // The odd ones are tags on the device of the one before.
        let mut line = format!(
            "  p{i}: {{ switch: s{}, host: h{}, device: d{}, mac: '02:00:00:00:00:{i:02x}'",
            port.switch,
            port.host,
            i & !1
        );
        if i % 2 == 1 {
            let _ = write!(line, ", vlan: {i}");
        }
        if port.key {
            let _ = write!(line, ", key: {}", i * 7 + 1);
        }
        if port.addresses {
            let _ = write!(line, ", addresses: ['2001:2::{i:x}', 198.18.1.{i}]");
        }
        line + " }"
    });
    [hosts.collect(), switches.collect(), ports.collect()]
}

fn text(sections: &[Vec<String>; 3], order: [usize; 3]) -> String {
    let mut out = String::from("version: 1\n");
    for index in order {
        if !sections[index].is_empty() {
            let _ = writeln!(
                out,
                "{}:\n{}",
                ["hosts", "switches", "ports"][index],
                sections[index].join("\n")
            );
        }
    }
    out
}

proptest! {
    #[test]
    fn order_of_the_file_does_not_matter(
        ports in drawn(),
        shuffled in Just((0..24_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let sections = sections(&ports);
        let straight = fabric(&text(&sections, [0, 1, 2]));
        let [mut hosts, mut switches, lines] = sections;
        hosts.reverse();
        switches.reverse();
        let lines = shuffled.iter().filter_map(|&i| lines.get(i).cloned()).collect();
        let other = fabric(&text(&[hosts, switches, lines], [2, 1, 0]));
        for host in ["h0", "h1", "h2"] {
            prop_assert_eq!(straight.compile(host).unwrap(), other.compile(host).unwrap());
        }
    }

    #[test]
    fn hosts_agree(ports in drawn()) {
        let fabric = fabric(&text(&sections(&ports), [0, 1, 2]));
        let mut keys: BTreeMap<_, PortKey> = BTreeMap::new();
        let mut places: BTreeMap<_, IpAddr> = BTreeMap::new();
        for host in fabric.hosts().keys() {
            let tables = fabric.compile(host.as_str()).unwrap();
            for entry in &tables.fdb {
                let whose = (entry.switch, entry.mac);
                prop_assert_eq!(*keys.entry(whose).or_insert(entry.key), entry.key);
                let vtep = match entry.place {
                    Place::Local(_) => tables.vtep,
                    Place::Remote(addr) => addr,
                    // Somewhere on the VLAN is all that can be said, of a switch that is on one.
                    Place::Vlan => {
                        prop_assert!(entry.switch.vlan().is_some());
                        continue;
                    }
                    Place::Router(_) => continue,
                };
                prop_assert_eq!(*places.entry(whose).or_insert(vtep), vtep);
            }
            for switch in tables.switches.iter().filter(|switch| switch.id.vlan().is_some()) {
                let remote = |member: &FloodMember| matches!(member, FloodMember::Remote(_));
                prop_assert!(!switch.flood.iter().any(remote));
            }
            // Keys are unique within the switch.
            let mut keys: Vec<_> = tables.fdb.iter().map(|entry| (entry.switch, entry.key)).collect();
            keys.sort();
            let all = keys.len();
            keys.dedup();
            prop_assert_eq!(keys.len(), all);
        }
    }

    #[test]
    fn a_new_port_leaves_the_keys_of_others(ports in drawn()) {
        let before = fabric(&text(&sections(&ports), [0, 1, 2]));
        let mut more = sections(&ports);
        more[2].push("  zz: { switch: s0, host: h0, device: zz, mac: '02:00:00:00:01:00' }".into());
        let after = fabric(&text(&more, [0, 1, 2]));
        for (name, port) in before.ports() {
            // It sorts last, so it moves nobody even on a collision.
            prop_assert_eq!(port.key, after.ports()[name].key);
        }
    }
}

#[test]
fn what_ports_share_floats_in_their_switch() {
    const FABRIC: &str = "
version: 1
hosts: { a: { underlay: 198.18.0.1, uplink: e }, b: { underlay: 198.18.0.2, uplink: e } }
switches: { blue: { vni: 1 }, red: { vni: 2 } }
ports:
  p2: { switch: blue, host: b, device: d, mac: '02:00:00:00:00:02', allowed_addresses: [198.18.1.9], allowed_macs: ['00:00:5e:00:01:01'] }
  p1: { switch: blue, host: a, device: d, mac: '02:00:00:00:00:01', allowed_addresses: ['2001:2::/64', 198.18.1.9/32], allowed_macs: ['00:00:5e:00:01:01'] }
  p3: { switch: red, host: b, device: f, mac: '02:00:00:00:00:03', allowed_addresses: [198.18.2.9] }
";
    let tables = fabric(FABRIC).compile("a").unwrap();
    let [port] = tables.ports.as_slice() else {
        panic!("{:?}", tables.ports);
    };
    let allowed: Vec<_> = port
        .allowed_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(allowed, ["198.18.1.9/32", "2001:2::/64"]);
    assert!(port.security.check_addresses);
    // Of its own switches only; a network is nobody's.
    let [floating] = tables.floating_addresses.as_slice() else {
        panic!("{:?}", tables.floating_addresses);
    };
    assert_eq!(floating.addr.to_string(), "198.18.1.9");
    let names: Vec<_> = floating.ports.iter().map(Name::as_str).collect();
    assert_eq!(names, ["p1", "p2"]);
    let [floating] = tables.floating_macs.as_slice() else {
        panic!("{:?}", tables.floating_macs);
    };
    assert_eq!(floating.mac.to_string(), "00:00:5e:00:01:01");
    assert_eq!(floating.ports.len(), 2);
    assert!(tables.neighbours.is_empty());
    assert!(tables.fdb.iter().all(|entry| entry.mac != floating.mac));
    // Where it is, is learned: for the default age.
    assert_eq!(
        tables.switches[0].learn_age_s,
        Some(Learning::default().age_s)
    );
    let elsewhere = fabric(FABRIC).compile("b").unwrap();
    let ages: Vec<_> = elsewhere.switches.iter().map(|s| s.learn_age_s).collect();
    assert_eq!(ages, [Some(300), None]);
}
