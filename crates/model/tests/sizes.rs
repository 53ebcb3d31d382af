//! What a host holds: what is counted from the fabric is what its tables have, and each table that would be too small is
//! named before any host is applied.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use overlane_model::{Fabric, Severity};

fn fabrics(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fabrics(&path, found);
        } else if path.extension().is_some_and(|it| it == "yaml") {
            found.push(path);
        }
    }
}

fn assert_counted(name: &str, fabric: &Fabric) {
    for (host, counted) in fabric.counts() {
        let tables = fabric.compile(host.as_str()).unwrap();
        assert_eq!(counted, tables.counts(), "{name}, host {host}");
    }
}

/// The examples, and what other tests of this crate accept.
#[test]
fn a_count_of_the_fabric_is_what_the_tables_have() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    fabrics(&root.join("tests/accepted"), &mut files);
    fabrics(&root.join("../../examples"), &mut files);
    let mut counted = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        if let Ok(fabric) = Fabric::parse("f", &text) {
            assert_counted(&path.display().to_string(), &fabric);
            counted += 1;
        }
    }
    assert!(counted >= 10, "{counted}");
}

/// Peers, VLANs, routers that join switches, gateways, addresses that float: all that flood lists depend on.
#[test]
fn flood_lists_are_counted_for_each_kind_of_host() {
    let text = "version: 1
hosts:
  a: { underlay: 198.18.0.1, uplink: eth1 }
  b: { underlay: 198.18.0.2, uplink: eth1 }
  c: { underlay: 198.18.0.3, uplink: eth1, options: none }
  d: { underlay: 198.18.0.4, uplink: eth1 }
  e: { underlay: 198.18.0.5, uplink: eth1, options: none }
  idle: { underlay: 198.18.0.6, uplink: eth1 }
switches:
  blue: { vni: 5001 }
  green: { vni: 5002, neighbours: declared }
  red: { vni: 5003 }
  office: { uplink_vlan: 100 }
  alone: { vni: 5004 }
  empty: { vni: 5005 }
ports:
  a1: { switch: blue, host: a, device: a1, mac: '02:00:00:00:00:01', addresses: [198.18.1.1, '2001:2::1'] }
  a2: { switch: blue, host: a, device: a2, mac: '02:00:00:00:00:02', allowed_addresses: [198.18.1.99, 198.18.3.0/24] }
  b1: { switch: green, host: b, device: b1, mac: '02:00:00:00:00:03', allowed_macs: ['02:00:00:00:01:00'] }
  b2: { switch: red, host: b, device: b2, mac: '02:00:00:00:00:04' }
  c1: { switch: blue, host: c, device: c1, mac: '02:00:00:00:00:05', allowed_addresses: [198.18.1.99] }
  d1: { switch: office, host: d, device: d1, mac: '02:00:00:00:00:06' }
  e1: { switch: red, host: e, device: e1, mac: '02:00:00:00:00:07' }
  e2: { switch: alone, host: e, device: e2, mac: '02:00:00:00:00:08' }
routers:
  core:
    interfaces: { blue: [198.18.1.254/24, '2001:2::fe/64'], green: [198.18.2.254/24], office: [198.18.4.254/24] }
    routes: [{ to: 198.18.8.0/24, via: [198.18.1.1, 198.18.2.9] }]
    gateway: { host: d, device: phys0, addresses: [198.19.0.2/24], nat: [{ source: 198.18.1.0/24, outside: 198.19.0.9 }] }
  second: { interfaces: { office: [198.18.4.253/24], red: ['2001:2:0:3::1/64'] } }
  lonely: { interfaces: { empty: [198.18.9.1/24] } }
";
    for (from, to) in [
        ("", ""),
        (
            "version: 1",
            "version: 1\ntunnel: { encapsulation: geneve, options: none }",
        ),
        (", options: none", ""),
    ] {
        let text = if from.is_empty() {
            text.to_owned()
        } else {
            text.replace(from, to)
        };
        let fabric = Fabric::parse("f", &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_counted(to, &fabric);
    }
}

/// A fabric of many things. Ports are spread over hosts in turn; every switch has a thousand of them, and a router joins
/// all switches.
#[derive(Clone, Copy)]
struct Wide<'a> {
    hosts: usize,
    switches: usize,
    ports: usize,
    /// Of each switch.
    switch: &'a str,
    /// Of each port.
    port: &'a dyn Fn(usize) -> String,
    /// Of the router.
    router: &'a str,
    /// Other routers.
    routers: usize,
}

const WIDE: Wide<'_> = Wide {
    hosts: 2,
    switches: 1,
    ports: 2,
    switch: "",
    port: &|_| String::new(),
    router: "",
    routers: 0,
};

impl Wide<'_> {
    fn text(self) -> String {
        let mut text = "version: 1\nhosts:\n".to_owned();
        for n in 1..=self.hosts {
            let (a, b) = (n >> 8, n & 255);
            writeln!(text, "  h{n}: {{ underlay: 198.18.{a}.{b}, uplink: eth1 }}").unwrap();
        }
        text.push_str("switches:\n");
        for n in 1..=self.switches {
            writeln!(text, "  s{n}: {{ vni: {n}{} }}", self.switch).unwrap();
        }
        text.push_str("ports:\n");
        for n in 0..self.ports {
            let (switch, host) = (n / 1000 % self.switches + 1, n % self.hosts + 1);
            let (mac, more) = (mac(n), (self.port)(n));
            writeln!(
                text,
                "  p{n}: {{ switch: s{switch}, host: h{host}, device: p{n}, mac: {mac}{more} }}"
            )
            .unwrap();
        }
        text.push_str("routers:\n  core:\n    interfaces:\n");
        for n in 1..=self.switches {
            let (a, b) = (n >> 8, n & 255);
            writeln!(text, "      s{n}: ['2001:2:ff{a:02x}:{b:x}::1/64']").unwrap();
        }
        text.push_str(self.router);
        for n in 0..self.routers {
            writeln!(
                text,
                "  r{n}: {{ interfaces: {{ s1: ['2001:2:ff00:1::2:{n:x}/64'] }} }}"
            )
            .unwrap();
        }
        text
    }

    /// What is said of it, each with its line.
    fn said(self) -> Vec<String> {
        said(&self.text())
    }
}

fn said(text: &str) -> Vec<String> {
    let Err(errors) = Fabric::parse("f", text) else {
        return Vec::new();
    };
    let all = errors.diagnostics().iter();
    let all = all.filter(|it| it.severity == Severity::Error);
    let all = all.map(|it| {
        assert!(it.help.is_some());
        format!("{}: {}", it.line, it.message)
    });
    all.collect()
}

fn too_small(host: usize, needs: &str, has: usize, more: &str) -> String {
    let line = 2 + host;
    format!(
        "{line}: host `h{host}` is too small: it needs room for {needs} and has room for {has}{more}"
    )
}

fn mac(number: usize) -> String {
    let [.., a, b, c] = number.to_be_bytes();
    format!("'02:00:00:{a:02x}:{b:02x}:{c:02x}'")
}

fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    let all: Vec<String> = (0..count).map(one).collect();
    all.join(",\n        ")
}

const NOTHING: [String; 0] = [];

#[test]
fn other_hosts() {
    let wide = |hosts| Wide { hosts, ..WIDE };
    assert_eq!(wide(1025).said(), NOTHING);
    let more = "; 1025 more hosts are too small";
    let refused = too_small(1, "1025 other hosts", 1024, more);
    assert_eq!(wide(1026).said(), [refused]);
}

#[test]
fn receivers_of_one_switch_and_of_all() {
    let text = |ports: usize| {
        let own = Wide {
            ports,
            hosts: 1,
            switches: 2,
            ..WIDE
        }
        .text();
        let own = own.replace("switch: s2", "switch: s1");
        own.replace("  h1:", "  h1: { underlay: 198.18.8.1, uplink: x }\n  h2:")
            .replace("host: h1", "host: h2")
    };
    assert_eq!(said(&text(1023)), NOTHING);
    let refused = "6: switch `s1` is too large at host `h2`: 1025 receivers of flooded frames there, its ports and other hosts, \
                   and room for 1024";
    assert_eq!(said(&text(1025)), [refused]);
    // Each host is told what is said to the router on each switch.
    let wide = Wide {
        hosts: 1025,
        ports: 1025,
        switches: 257,
        ..WIDE
    };
    assert!(wide.said()[0].contains("receivers of flooded frames and has room for 262144"));
    let silent = Wide {
        switch: ", neighbours: declared",
        ..wide
    };
    assert_eq!(silent.said(), NOTHING);
    let wide = Wide {
        switches: 1025,
        ..silent
    };
    let more = "; 1024 more hosts are too small";
    let refused = too_small(
        1,
        "1049600 pairs of a switch and another host",
        1 << 20,
        more,
    );
    assert_eq!(wide.said(), [refused]);
}

#[test]
fn ports_and_what_they_may_use() {
    let wide = |ports| Wide {
        hosts: 1,
        switches: 17,
        ports,
        ..WIDE
    };
    assert_eq!(wide(16_384).said(), NOTHING);
    assert_eq!(
        wide(16_385).said(),
        [too_small(1, "16385 ports", 16_384, "")]
    );
    // A host with half of them has room.
    assert_eq!(
        Wide {
            hosts: 2,
            ..wide(16_385)
        }
        .said(),
        NOTHING
    );
    let networks = many(700, |n| format!("'2001:2:{n:x}::/48'"));
    let networks = format!(", allowed_addresses: [{networks}]");
    let wide = |port| Wide {
        hosts: 1,
        ports: 94,
        port,
        ..WIDE
    };
    let refused = too_small(1, "65800 `allowed_addresses` of its ports", 65_536, "");
    let networks = |_| networks.clone();
    assert_eq!(wide(&networks).said(), [refused]);
    let macs = many(700, |n| mac(n + (1 << 20)));
    let macs = format!(", allowed_macs: [{macs}]");
    let refused = too_small(1, "65800 `allowed_macs` of its ports", 65_536, "");
    let macs = |_| macs.clone();
    assert_eq!(wide(&macs).said(), [refused]);
}

#[test]
fn macs_and_addresses_of_the_switches_that_a_host_knows() {
    let wide = |ports| Wide {
        hosts: 5,
        switches: 66,
        ports,
        ..WIDE
    };
    // The router has an interface on each.
    assert_eq!(wide(65_536 - 66).said(), NOTHING);
    let refused = too_small(
        1,
        "65537 MACs of its switches",
        65_536,
        "; 4 more hosts are too small",
    );
    assert_eq!(wide(65_537 - 66).said(), [refused]);
    // A host does not know switches without a port of it, where nothing joins them.
    let all = wide(65_537 - 66).text();
    let (text, _) = all.split_once("routers:").unwrap();
    let apart = text
        .lines()
        .enumerate()
        .map(|(n, line)| match line.split_once("host: h") {
            Some((before, after)) => {
                format!("{before}host: h{}{}\n", n / 2000 % 5 + 1, &after[1..])
            }
            None => format!("{line}\n"),
        });
    assert_eq!(said(&apart.collect::<String>()), NOTHING);
    let addresses = |n: usize| {
        let address = |it| format!("'2001:2:{it:x}::{n:x}'");
        format!(", addresses: [{}]", many(132, address))
    };
    let wide = Wide {
        ports: 1000,
        port: &addresses,
        ..WIDE
    };
    // Two of the router, one of them made from its MAC.
    let refused = too_small(
        1,
        "132002 addresses of its switches",
        131_072,
        "; 1 more host is too small",
    );
    assert_eq!(wide.said(), [refused]);
}

#[test]
fn routers_their_interfaces_routes_and_next_hops() {
    let wide = |routers| Wide {
        hosts: 1,
        routers,
        ..WIDE
    };
    assert_eq!(wide(4095).said(), NOTHING);
    assert_eq!(wide(4096).said(), [too_small(1, "4097 routers", 4096, "")]);
    let wide = Wide {
        hosts: 1,
        switches: 16_385,
        ..WIDE
    };
    let refused = [
        too_small(1, "16385 switches", 16_384, ""),
        too_small(1, "16385 interfaces of routers", 16_384, ""),
    ];
    assert_eq!(wide.said(), refused);
    let route = |via: &'static str| {
        move |n: usize| {
            format!(
                "{{ to: '2001:2:7:{:x}::{:x}/128', via: [{via}] }}",
                n >> 16,
                n & 0xffff
            )
        }
    };
    let routes = |count, via| format!("    routes: [{}]\n", many(count, route(via)));
    let with = |router: &str| {
        Wide {
            hosts: 1,
            router,
            ..WIDE
        }
        .said()
    };
    // Its own address, and its network.
    assert_eq!(with(&routes(65_534, "'2001:2:ff00:1::9'")), NOTHING);
    let refused = [
        too_small(1, "65539 routes", 65_536, ""),
        too_small(1, "65537 next hops of routes", 65_536, ""),
    ];
    assert_eq!(with(&routes(65_537, "'2001:2:ff00:1::9'")), refused);
    let two = "'2001:2:ff00:1::8', '2001:2:ff00:1::9'";
    let refused = too_small(1, "65538 next hops of routes", 65_536, "");
    assert_eq!(with(&routes(32_769, two)), [refused]);
}

#[test]
fn translations_and_addresses_of_legs() {
    let with = |host, nat, addresses: usize| {
        let own = many(addresses, |n| format!("'2001:2:1::1:{n:x}/64'"));
        let nat = many(nat, |n| {
            format!("{{ one_to_one: '2001:2:ff00:1::3:{n:x}', outside: '2001:2:1::2:{n:x}' }}")
        });
        let router = format!(
            "    gateway: {{ host: h{host}, device: phys0, addresses: [{own}], nat: [{nat}] }}\n"
        );
        Wide {
            router: &router,
            ..WIDE
        }
        .said()
    };
    assert_eq!(with(1, 4096, 1), NOTHING);
    assert_eq!(
        with(2, 4097, 1),
        [too_small(2, "4097 `nat` entries", 4096, "")]
    );
    let refused = too_small(1, "16385 addresses on its legs", 16_384, "");
    assert_eq!(with(1, 1, 16_384), [refused]);
}

#[test]
fn peers_services_and_sets_of_rules() {
    let with = |rules: &str| {
        said(&format!(
            "{}rules:\n{rules}",
            Wide { hosts: 2, ..WIDE }.text()
        ))
    };
    let networks = |count| {
        let all = many(count, |n| {
            format!("'2001:2:5:{:x}::{:x}'", n >> 16, n & 0xffff)
        });
        format!("  r: {{ ports: [p1], direction: to_port, action: allow, peers: [{all}] }}\n")
    };
    // So many addresses of one rule are one set.
    assert_eq!(with(&networks(70_000)), NOTHING);
    let refused = too_small(2, "262145 networks of peers", 262_144, "");
    assert_eq!(with(&networks(262_145)), [refused]);
    // One rule for each bit of a port number: each of 65535 ports has a set of its own.
    let bits = (0..16).fold(String::new(), |mut text, bit| {
        let ranges = many(1 << (15 - bit), |n| {
            let first = (2 * n + 1) << bit;
            format!("tcp/{first}-{}", first + (1 << bit) - 1)
        });
        writeln!(
            text,
            "  r{bit}: {{ ports: [p0], direction: to_port, action: allow, services: [{ranges}] }}"
        )
        .unwrap();
        text
    });
    assert_eq!(with(&bits), NOTHING);
    let one_more = "  u: { ports: [p0], direction: to_port, action: allow, services: [udp] }\n";
    let refused = too_small(1, "65537 sets of rules", 65_536, "");
    assert_eq!(with(&(bits + one_more)), [refused]);
}
