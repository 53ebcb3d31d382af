//! What a logical network costs beyond switching: routing, rules, connections, translation; and whether it
//! costs more with many routes, rules or connections. The port under test is the same as in
//! [`fabrics`](crate::fabrics): `p0`, here with a router for its neighbour.

use std::cell::Cell as Counter;
use std::fmt::Write as _;

use overlane_ebpf::Program;

use crate::cells::{Cell, Loaded, VXLAN4, ebpf, frame_to};
use crate::fabrics;

const COUNTS: [usize; 3] = [1, 100, 10_000];
const NAT_RULES: [usize; 3] = [1, 100, 4096];
const CONNECTIONS: [usize; 3] = [1, 100, 1_000_000];
const PLAIN: &str = "vni: 5001";
/// A switch more, for what a router leads to.
const SWITCHES: &str = "switches:\n  far: { vni: 9999 }\n";
const ROUTER_MAC: &str = "02:00:00:ff:00:01";
/// Where the packets of every cell go: a port of the other host, in the same switch or in another.
const NEAR: [u8; 4] = [198, 19, 0, 3];
const FAR: [u8; 4] = [198, 18, 200, 2];
/// Of the gateway, and of a machine in the physical network.
pub(crate) const LEG: [u8; 4] = [198, 18, 250, 1];
pub(crate) const OUTSIDE: [u8; 4] = [198, 18, 250, 9];
/// Of the packets of every cell.
const PORT: u16 = 5001;

/// Routers, rules, translations.
pub(crate) fn load_all() -> Vec<Loaded> {
    let mut sets = vec![
        ebpf("routing", &with(&router(0)), |_| {
            vec![to_router("route + encap", FAR)]
        }),
        ebpf("gateway", &with(&gateway("")), |_| {
            vec![to_router("route + leg_out", OUTSIDE)]
        }),
        ebpf("NAT", &with(&gateway(NAT)), |_| {
            vec![to_router("route + nat + leg_out", OUTSIDE)]
        }),
    ];
    for count in NAT_RULES {
        sets.push(ebpf(
            &format!("{count} NAT rules for others"),
            &with(&gateway(&forwards(count))),
            |_| vec![to_router("route + leg_out", OUTSIDE)],
        ));
    }
    for count in COUNTS {
        sets.push(ebpf(
            &format!("{count} routes"),
            &with(&router(count)),
            |_| vec![to_router("route + encap", route(count - 1))],
        ));
    }
    for (action, what) in [("allow_stateless", "stateless"), ("allow", "stateful")] {
        for count in [1, 10, 100, 1000, 10_000] {
            let name = format!("{what}, {count} rules");
            sets.push(ebpf(
                &name,
                &with(&rules(count, action)),
                |_| match action {
                    "allow" => vec![
                        new_connections("first packet"),
                        to_neighbour("packet of a connection"),
                    ],
                    _ => vec![to_neighbour("encap")],
                },
            ));
        }
    }
    sets.extend(CONNECTIONS.map(connections));
    sets
}

/// A table with so many connections besides the one that is measured.
fn connections(count: usize) -> Loaded {
    let name = format!("stateful, {count} connections");
    let set = ebpf(&name, &with(&rules(10, "allow")), |_| {
        vec![to_neighbour("packet of a connection")]
    });
    set.run(&new_connections("fill"), count);
    set
}

fn with(more: &str) -> String {
    fabrics::text(&VXLAN4, PLAIN, "", None).replace("switches:\n", SWITCHES) + more
}

fn to_neighbour(name: &str) -> Cell {
    Cell::new(name, Program::FromPort, frame_to(&fabrics::mac(3), NEAR))
}

fn to_router(name: &str, to: [u8; 4]) -> Cell {
    Cell::new(name, Program::FromPort, frame_to(ROUTER_MAC, to))
}

/// Each packet begins a connection of its own.
fn new_connections(name: &str) -> Cell {
    let mut cell = to_neighbour(name);
    cell.flows = Some(Counter::new(0));
    cell
}

/// A router between `s0` and a switch behind the other host, with so many static routes.
fn router(routes: usize) -> String {
    let mut text = format!(
        "  q0: {{ switch: far, host: h2, device: d9, mac: \"{}\", addresses: [198.18.200.2] }}\n\
         routers:\n  router:\n    mac: \"{ROUTER_MAC}\"\n    interfaces:\n      s0: [198.19.255.254/16]\n      \
         far: [198.18.200.254/24]\n",
        fabrics::mac(9)
    );
    if routes > 0 {
        text.push_str("    routes:\n");
    }
    for number in 0..routes {
        let [a, b, c, d] = route(number);
        writeln!(
            text,
            "      - {{ to: {a}.{b}.{c}.{d}/32, via: 198.18.200.2 }}"
        )
        .unwrap();
    }
    text
}

/// The network that the route of this number leads to.
fn route(number: usize) -> [u8; 4] {
    [198, 18, (number >> 8) as u8, number as u8]
}

const NAT: &str = "      nat:\n        - { source: 198.19.0.0/16, outside: 198.18.250.1 }\n";

/// So many ports of the gateway that lead to others: no rule is for the packets of the cells.
fn forwards(count: usize) -> String {
    let mut text = String::from("      nat:\n");
    for port in 1..=count {
        writeln!(
            text,
            "        - {{ forward: \"198.19.0.9:{port}\", protocol: tcp, outside: \"198.18.250.1:{port}\" }}"
        )
        .unwrap();
    }
    text
}

fn gateway(nat: &str) -> String {
    format!(
        "routers:\n  router:\n    mac: \"{ROUTER_MAC}\"\n    interfaces:\n      s0: [198.19.255.254/16]\n    \
         gateway:\n      host: h1\n      device: leg0\n      addresses: [198.18.250.1/24]\n{nat}"
    )
}

/// So many rules; the last one allows the packets of every cell, the others differ in network and port.
fn rules(count: usize, action: &str) -> String {
    let mut text = String::from("rules:\n");
    for number in 1..count {
        let (c, d) = (number >> 8 & 255, number & 255);
        writeln!(
            text,
            "  r{number}: {{ ports: [p0], direction: from_port, action: {action}, priority: 2000, \
             peers: [198.18.{c}.{d}], services: [udp/{}] }}",
            10_000 + number
        )
        .unwrap();
    }
    writeln!(
        text,
        "  last: {{ ports: [p0], direction: from_port, action: {action}, priority: 1, \
         peers: [198.19.0.0/16], services: [udp/{PORT}] }}"
    )
    .unwrap();
    text
}
