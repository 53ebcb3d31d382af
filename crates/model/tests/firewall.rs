//! The firewall in the tables: which rules a host has and in which order, whom they name, which ports have a
//! firewall, and when its version changes.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;

use overlane_model::{
    Action, Asks, Direction, Fabric, FirewallTable, PortFirewall, RuleTable, Service, Severity,
    Tables,
};
use proptest::prelude::*;

const FABRIC: &str = "
version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  a: { vni: 1 }
  b: { vni: 2, firewall: { to_port: drop, when_full: allow } }
  c: { vni: 3 }
ports:
  web1: { switch: a, host: h1, device: d1, mac: '02:00:00:00:00:01', key: 1, addresses: [198.18.1.1, '2001:2::1'] }
  web2: { switch: a, host: h2, device: d1, mac: '02:00:00:00:00:02', key: 2, addresses: [198.18.1.2] }
  web3: { switch: a, host: h1, device: d2, mac: '02:00:00:00:00:03', key: 3 }
  db: { switch: b, host: h1, device: d3, mac: '02:00:00:00:00:04', key: 1, addresses: [198.18.2.1] }
  far: { switch: c, host: h2, device: d4, mac: '02:00:00:00:00:05', key: 1, addresses: [198.18.3.1] }
groups:
  web: [web2, web1, web1]
  silent: [web3]
networks:
  office: [198.18.50.0/24, '2001:2:0:50::/64']
rules:
  last: { ports: [web], direction: to_port, action: drop, priority: 0 }
  web-http:
    ports: [web, web3]
    direction: to_port
    action: allow
    peers: [office, 198.18.9.7, db, c, 198.18.9.0/24]
    services: [udp, tcp/8000-8100, tcp/80, icmp/3/4, protocol/47, tcp/80]
    log: true
  first: { ports: [a], direction: from_port, action: reject, priority: 2000, peers: [silent] }
  far-only: { ports: [c], direction: from_port, action: drop }
  tie: { ports: [web1], direction: from_port, action: allow_stateless }
";

fn fabric(text: &str) -> Fabric {
    Fabric::parse("test.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn compiled(text: &str, host: &str) -> FirewallTable {
    fabric(text).compile(host).unwrap().firewall
}

fn names(table: &FirewallTable) -> Vec<&str> {
    table.rules.iter().map(|rule| rule.name.as_str()).collect()
}

fn ports(rule: &RuleTable) -> Vec<String> {
    let ports = rule.ports.iter();
    ports.map(|(id, key)| format!("{id}: {key}")).collect()
}

#[test]
fn only_rules_that_name_a_port_here_in_the_order_of_trying() {
    let here = compiled(FABRIC, "h1");
    assert_eq!(names(&here), ["first", "web-http", "tie", "last"]);
    let priorities: Vec<_> = here.rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(priorities, [2000, 1000, 1000, 0]);
    assert!(here.rules[1].line < here.rules[2].line);
    let there = compiled(FABRIC, "h2");
    assert_eq!(names(&there), ["first", "web-http", "far-only", "last"]);
}

#[test]
fn of_equals_the_first_in_the_file_even_on_one_line() {
    let rule = |name: &str| {
        format!(r#""{name}": {{ "ports": ["p"], "direction": "to_port", "action": "drop" }}"#)
    };
    let text = format!(
        r#"{{ "version": 1, "hosts": {{ "h": {{ "underlay": "198.18.0.1", "uplink": "eth1" }} }}, "switches": {{ "s": {{ "vni": 1 }} }}, "rules": {{ {}, {} }}, "ports": {{ "p": {{ "switch": "s", "host": "h", "device": "d", "mac": "02:00:00:00:00:01" }} }} }}"#,
        rule("z"),
        rule("a")
    );
    assert_eq!(names(&compiled(&text, "h")), ["z", "a"]);
}

#[test]
fn names_become_ports_and_addresses() {
    let table = compiled(FABRIC, "h1");
    let [first, http, tie, last] = &table.rules[..] else {
        panic!()
    };
    // Only those of this host, each once, by switch and key.
    assert_eq!(ports(first), ["VNI 1: 1", "VNI 1: 3"]);
    assert_eq!(ports(http), ["VNI 1: 1", "VNI 1: 3"]);
    assert_eq!(ports(last), ["VNI 1: 1"]);
    let peers: Vec<_> = http
        .peers
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    // Addresses of ports of other hosts and of switches that this host does not know, too.
    let expected = [
        "198.18.2.1/32",
        "198.18.3.1/32",
        "198.18.9.0/24",
        "198.18.9.7/32",
        "198.18.50.0/24",
        "2001:2:0:50::/64",
    ];
    assert_eq!(peers, expected);
    assert_eq!((&last.peers, &last.services), (&None, &None));
    // Without an address, but known in its own switch by the one made from its MAC.
    assert_eq!(
        first.peers,
        Some(vec!["fe80::ff:fe00:3/128".parse().unwrap()])
    );
    let services = http.services.clone().unwrap();
    let tcp = |first, last| Service::Ports {
        protocol: 6,
        first,
        last,
    };
    let icmp = Service::Icmp {
        protocol: 1,
        kind: 3,
        code: Some(4),
    };
    let all = [
        Service::Protocol(17),
        Service::Protocol(47),
        tcp(80, 80),
        tcp(8000, 8100),
        icmp,
    ];
    assert_eq!(services, all);
    assert_eq!(
        (http.action, http.direction, http.log),
        (Action::Allow, Direction::ToPort, true)
    );
    let actions = [first.action, tie.action, last.action];
    assert_eq!(
        actions,
        [Action::Reject, Action::AllowStateless, Action::Drop]
    );
    assert!(!last.log);
}

fn firewalls(tables: &Tables) -> Vec<(&str, Option<PortFirewall>)> {
    let ports = tables.ports.iter();
    ports
        .map(|port| (port.name.as_str(), port.firewall))
        .collect()
}

#[test]
fn a_port_has_a_firewall_where_something_speaks_of_it() {
    let allow = PortFirewall {
        drop_from_port: false,
        drop_to_port: false,
        allow_when_full: false,
        drop_non_ip: false,
        asks_from_port: Asks::default(),
        asks_to_port: Asks {
            protocol: true,
            ports: true,
        },
    };
    let closed = PortFirewall {
        drop_to_port: true,
        allow_when_full: true,
        drop_non_ip: true,
        asks_to_port: Asks::default(),
        ..allow
    };
    let tables = fabric(FABRIC).compile("h1").unwrap();
    let expected = [
        ("db", Some(closed)),
        ("web1", Some(allow)),
        ("web3", Some(allow)),
    ];
    assert_eq!(firewalls(&tables), expected);
    // No rule names it, and what `when_full` says alone is no firewall.
    let (start, _) = FABRIC.split_once("rules:").unwrap();
    let text = start.replace("to_port: drop, when_full", "when_full");
    let tables = fabric(&text).compile("h1").unwrap();
    assert!(
        firewalls(&tables)
            .iter()
            .all(|(_, firewall)| firewall.is_none())
    );
    let text = start.replace("to_port: drop", "from_port: drop");
    let tables = fabric(&text).compile("h1").unwrap();
    let opened = PortFirewall {
        drop_from_port: true,
        drop_to_port: false,
        ..closed
    };
    assert_eq!(firewalls(&tables)[0], ("db", Some(opened)));
}

#[test]
fn the_version_is_of_what_decides() {
    let before = compiled(FABRIC, "h1").version;
    let after = |from: &str, to: &str| {
        let text = FABRIC.replace(from, to);
        assert_ne!(text, FABRIC, "{from}");
        compiled(&text, "h1").version
    };
    // Other names, lines, logs, or a priority that changes no order.
    assert_eq!(after("web-http", "web-https"), before);
    assert_eq!(after("rules:\n", "rules:\n\n\n"), before);
    assert_eq!(after("    log: true\n", ""), before);
    assert_eq!(after("priority: 2000", "priority: 1999"), before);
    assert_eq!(after("when_full: allow", "when_full: drop"), before);
    // Of other hosts only.
    assert_eq!(
        after("far-only: { ports: [c]", "far-only: { ports: [web2]"),
        before
    );
    // Everything else.
    let mut all = vec![before];
    for (from, to) in [
        ("priority: 2000", "priority: 1"),
        ("action: reject", "action: drop"),
        ("direction: to_port", "direction: from_port"),
        ("ports: [web, web3]", "ports: [web]"),
        ("198.18.9.7", "198.18.9.8"),
        ("198.18.9.0/24", "198.18.9.0/25"),
        ("peers: [silent] ", ""),
        ("tcp/80,", "tcp/81,"),
        ("icmp/3/4", "icmp/3"),
        ("protocol/47", "protocol/48"),
        ("addresses: [198.18.3.1]", "addresses: [198.18.3.2]"),
        ("to_port: drop", "from_port: drop"),
        (
            "  tie: {",
            "  more: { ports: [db], direction: to_port, action: drop }\n  tie: {",
        ),
        ("host: h1, device: d2", "host: h2, device: d2"),
    ] {
        let version = after(from, to);
        assert!(!all.contains(&version), "{from} → {to}");
        all.push(version);
    }
}

#[test]
fn a_host_without_rules() {
    let (start, _) = FABRIC.split_once("rules:").unwrap();
    let table = compiled(start, "h2");
    assert!(table.rules.is_empty());
    // The same on every such host: FNV-1a of eight zero bytes, the number of its rules.
    let hash = [0_u8; 8].iter().fold(0x811c_9dc5_u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    assert_eq!(table.version, hash);
}

#[test]
fn a_host_has_room_for_so_many_rules() {
    let text = |here: usize| {
        let (start, _) = FABRIC.split_once("rules:").unwrap();
        let mut text = start.to_owned() + "rules:\n";
        for i in 0..here {
            // Twice the same host is one rule of it.
            let ports = ["web1", "a", "web3, web1"][i % 3];
            let _ = writeln!(
                text,
                "  r{i}: {{ ports: [{ports}], direction: to_port, action: drop }}"
            );
        }
        // Those of another host count there.
        for i in 0..100 {
            let _ = writeln!(
                text,
                "  far{i}: {{ ports: [far], direction: to_port, action: drop }}"
            );
        }
        text
    };
    let most = overlane_model::sizes::MAX_RULES;
    assert_eq!(compiled(&text(most), "h1").rules.len(), most);
    let errors = Fabric::parse("f", &text(most + 1)).unwrap_err();
    // That they hide each other is warned of besides.
    let all = errors.diagnostics().iter();
    let all: Vec<_> = all
        .filter(|found| found.severity == Severity::Error)
        .collect();
    let [error] = all[..] else { panic!("{errors}") };
    assert_eq!(
        error.message,
        "more than 10240 rules name ports of host `h1`"
    );
    assert_eq!(error.line, text(most).lines().count() as u32 - 100 + 1);
}

/// Rules of ports of four hosts: priority, and a bit for each port.
fn drawn() -> impl Strategy<Value = Vec<(u16, u8)>> {
    proptest::collection::vec((0..4_u16, 1..=255_u8), 0..12)
}

fn text(rules: &[(u16, u8)]) -> String {
    let mut out = String::from("version: 1\nhosts:\n");
    for host in 0..4 {
        let _ = writeln!(
            out,
            "  h{host}: {{ underlay: 198.18.0.{}, uplink: eth1 }}",
            host + 1
        );
    }
    out += "switches: { s: { vni: 1 } }\nports:\n";
    for port in 0..8 {
        let _ = writeln!(
            out,
            "  p{port}: {{ switch: s, host: h{}, device: d{port}, mac: '02:00:00:00:00:{port:02x}', key: {} }}",
            port / 2,
            port + 1
        );
    }
    if !rules.is_empty() {
        out += "rules:\n";
    }
    for (i, (priority, bits)) in rules.iter().enumerate() {
        let ports: Vec<_> = (0..8)
            .filter(|p| bits & 1 << p != 0)
            .map(|p| format!("p{p}"))
            .collect();
        let _ = writeln!(
            out,
            "  r{i}: {{ ports: [{}], direction: to_port, action: drop, priority: {priority} }}",
            ports.join(", ")
        );
    }
    out
}

proptest! {
    #[test]
    fn hosts_divide_the_rules_among_themselves(rules in drawn()) {
        let fabric = fabric(&text(&rules));
        let mut found = vec![0_u8; rules.len()];
        for host in 0..4 {
            let tables = fabric.compile(&format!("h{host}")).unwrap();
            let order = |rule: &RuleTable| (std::cmp::Reverse(rule.priority), rule.line);
            prop_assert!(tables.firewall.rules.is_sorted_by_key(order));
            for rule in &tables.firewall.rules {
                let number: usize = rule.name.as_str()[1..].parse().unwrap();
                prop_assert_eq!(rule.priority, rules[number].0);
                prop_assert!(rule.ports.is_sorted() && !rule.ports.is_empty());
                for &(switch, key) in &rule.ports {
                    let port = tables.ports.iter().find(|p| (p.switch, p.key) == (switch, key));
                    prop_assert!(port.is_some_and(|port| port.firewall.is_some()));
                    found[number] |= 1 << (key.get() - 1);
                }
            }
            for port in &tables.ports {
                let named = |rule: &RuleTable| rule.ports.contains(&(port.switch, port.key));
                prop_assert_eq!(port.firewall.is_some(), tables.firewall.rules.iter().any(named));
            }
        }
        let expected: Vec<u8> = rules.iter().map(|&(_, bits)| bits).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn frames_that_are_not_ip_follow_the_default_policies_unless_the_file_says_more() {
    let of = |non_ip: &str| {
        let text = FABRIC.replace("when_full: allow", &format!("when_full: allow{non_ip}"));
        let tables = fabric(&text).compile("h1").unwrap();
        let db = tables.ports.iter().find(|port| port.name.as_str() == "db");
        let b = tables.switches.iter().find(|it| it.name.as_str() == "b");
        let drops = db.unwrap().firewall.unwrap().drop_non_ip;
        (drops, b.unwrap().non_ip.clone())
    };
    assert_eq!(of(""), (true, vec![]));
    assert_eq!(of(", non_ip: drop"), (true, vec![]));
    assert_eq!(of(", non_ip: allow"), (false, vec![]));
    let list = ", non_ip: [0x88f7, 35020]";
    assert_eq!(of(list), (true, vec![0x88cc, 0x88f7]));
    let refused = |non_ip: &str| {
        let text = FABRIC.replace("when_full: allow", &format!("non_ip: {non_ip}"));
        Fabric::parse("test.yaml", &text).unwrap_err().to_string()
    };
    for (list, message) in [
        ("[0x0800]", "0x0800 is IP"),
        ("[0x0806]", "0x0806 is ARP"),
        ("[0x8100]", "0x8100 is a VLAN tag"),
        ("[0x05ff]", "out of range"),
        ("[lldp]", "must be a whole number"),
        (
            "[1536, 1537, 1538, 1539, 1540, 1541, 1542, 1543, 1544]",
            "9 EtherTypes",
        ),
        ("refuse", "must be `allow`, `drop` or a list"),
        ("0x88cc", "must be `allow`, `drop` or a list"),
        ("[0x88cc, 35020]", "0x88cc appears twice"),
    ] {
        let said = refused(list);
        assert!(said.contains(message), "{list}: {said}");
    }
}
