//! The tables of a fabric of three hosts and two logical switches, and what must hold for any fabric:
//! the order of the file does not matter, and hosts agree with each other.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use overlane_model::{CompileError, Encapsulation, Fabric, FloodMember, Place, Tables, Tunnel};
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
        .map(|p| format!("{} {} {} {} {}", p.name, p.device, p.vni, p.key, p.mac))
        .collect()
}

fn fdb(tables: &Tables) -> Vec<String> {
    let entries = tables.fdb.iter();
    entries
        .map(|entry| {
            let place = match &entry.place {
                Place::Local(device) => device.to_string(),
                Place::Remote(addr) => addr.to_string(),
            };
            format!("{} {} {} {place}", entry.vni, entry.mac, entry.key)
        })
        .collect()
}

fn flood(tables: &Tables) -> Vec<String> {
    let mut lines = Vec::new();
    for switch in &tables.switches {
        let mut line = format!("{} {} {}", switch.name, switch.vni, switch.flood_unknown);
        for member in &switch.flood {
            let _ = match member {
                FloodMember::Local(device) => write!(line, " {device}"),
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
        .map(|n| format!("{} {} {} {}", n.vni, n.addr, n.mac, n.key))
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
    };
    assert_eq!(tables.tunnel, tunnel);
    assert_eq!(
        ports(&tables),
        [
            "blue-a1 a1 5001 1 02:00:00:00:00:11",
            "blue-a2 a2 5001 2 02:00:00:00:00:12"
        ]
    );
    // Nothing of green; b once, although it has two ports; not c, which has none.
    assert_eq!(flood(&tables), ["blue 5001 false a1 a2 198.18.0.2"]);
    assert_eq!(
        fdb(&tables),
        [
            "5001 02:00:00:00:00:11 1 a1",
            "5001 02:00:00:00:00:12 2 a2",
            "5001 02:00:00:00:00:21 3 198.18.0.2",
            "5001 02:00:00:00:00:22 4 198.18.0.2",
        ]
    );
    assert_eq!(
        neighbours(&tables),
        [
            "5001 198.18.100.1 02:00:00:00:00:11 1",
            "5001 198.18.100.3 02:00:00:00:00:21 3",
            "5001 2001:2::1 02:00:00:00:00:11 1",
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
            "blue 5001 false b1 b2 198.18.0.1",
            "green 4001 true b3 198.18.0.3"
        ]
    );
    // By VNI, not by name; the same address may live in two switches.
    assert_eq!(
        fdb(&tables)[..2],
        [
            "4001 02:00:00:00:00:23 1 b3",
            "4001 02:00:00:00:00:31 2 198.18.0.3"
        ]
    );
    assert_eq!(
        neighbours(&tables)[0],
        "4001 198.18.100.1 02:00:00:00:00:23 1"
    );
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
    let switches = (0..3).map(|i| format!("  s{i}: {{ vni: {} }}", 9000 - i));
    let ports = ports.iter().enumerate().map(|(i, port)| {
        let mut line = format!(
            "  p{i}: {{ switch: s{}, host: h{}, device: d{i}, mac: '02:00:00:00:00:{i:02x}'",
            port.switch, port.host
        );
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
        let mut seen: BTreeMap<_, (PortKey, IpAddr)> = BTreeMap::new();
        for host in fabric.hosts().keys() {
            let tables = fabric.compile(host.as_str()).unwrap();
            for entry in &tables.fdb {
                let vtep = match entry.place {
                    Place::Local(_) => tables.vtep,
                    Place::Remote(addr) => addr,
                };
                let found = (entry.key, vtep);
                prop_assert_eq!(*seen.entry((entry.vni, entry.mac)).or_insert(found), found);
            }
            // Keys are unique within the switch.
            let mut keys: Vec<_> = tables.fdb.iter().map(|entry| (entry.vni, entry.key)).collect();
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
