//! Fabrics of any size, as text. The port under test is `p0` of switch `s0` on host `h1`; `p1` is another
//! port of that switch there, `r0` one on host `h2`.

use std::fmt::Write as _;

/// What grows.
#[derive(Clone, Copy)]
pub(crate) enum Axis {
    /// Ports on this host, a hundred to a switch.
    Ports,
    /// Ports of one switch on the other host: FDB entries here.
    Fdb,
    /// Logical switches, each with one port here.
    Switches,
}

impl Axis {
    pub(crate) const ALL: [(Self, &'static str); 3] = [
        (Self::Ports, "ports"),
        (Self::Fdb, "FDB entries"),
        (Self::Switches, "switches"),
    ];
}

/// How hosts speak to each other.
pub(crate) struct Underlay {
    pub(crate) encapsulation: &'static str,
    pub(crate) v6: bool,
}

pub(crate) fn mac(number: usize) -> String {
    format!(
        "02:00:00:{:02x}:{:02x}:{:02x}",
        number >> 16 & 255,
        number >> 8 & 255,
        number & 255
    )
}

pub(crate) fn address(number: usize) -> String {
    format!("198.19.{}.{}", number >> 8 & 255, number & 255)
}

/// Most ports of a switch on one host.
const PORTS_OF_A_HOST: usize = 1000;

/// `hosts`: so many beside h1.
fn header(underlay: &Underlay, hosts: usize) -> String {
    let (first, second) = if underlay.v6 {
        ("\"2001:2::1\"", "\"2001:2::2\"")
    } else {
        ("198.18.0.1", "198.18.0.2")
    };
    let mut text = format!(
        "version: 1\ntunnel: {{ encapsulation: {}, udp6_zero_checksum: true }}\nhosts:\n  h1: {{ underlay: {first}, uplink: up0 }}\n  \
         h2: {{ underlay: {second}, uplink: up0 }}\n",
        underlay.encapsulation
    );
    for number in 3..hosts + 2 {
        let addr = match underlay.v6 {
            true => format!("\"2001:2::{number:x}\""),
            false => format!("198.18.0.{number}"),
        };
        writeln!(text, "  h{number}: {{ underlay: {addr}, uplink: up0 }}").unwrap();
    }
    text
}

fn port(text: &mut String, name: &str, switch: usize, host: &str, number: usize, more: &str) {
    writeln!(
        text,
        "  {name}: {{ switch: s{switch}, host: {host}, device: d{number}, mac: \"{}\", \
         addresses: [{}]{more} }}",
        mac(number),
        address(number % 65_536),
    )
    .unwrap();
}

/// The three ports of the test, and on one axis as many things as wanted. `switch` is how `s0` is bound
/// to the underlay, `more` what else its ports say.
pub(crate) fn text(
    underlay: &Underlay,
    switch: &str,
    more: &str,
    grow: Option<(Axis, usize)>,
) -> String {
    let (axis, count) = grow.unwrap_or((Axis::Fdb, 1));
    let hosts = match axis {
        Axis::Fdb => count.div_ceil(PORTS_OF_A_HOST),
        Axis::Ports | Axis::Switches => 1,
    };
    let mut text = header(underlay, hosts);
    let switches = match axis {
        Axis::Ports => count.div_ceil(100),
        Axis::Fdb => 1,
        Axis::Switches => count,
    };
    text.push_str("switches:\n");
    writeln!(text, "  s0: {{ {switch} }}").unwrap();
    for number in 1..switches {
        writeln!(text, "  s{number}: {{ vni: {} }}", 10_000 + number).unwrap();
    }
    text.push_str("ports:\n");
    port(&mut text, "p0", 0, "h1", 1, more);
    port(&mut text, "p1", 0, "h1", 2, more);
    port(&mut text, "r0", 0, "h2", 3, more);
    for number in 1..count {
        let (switch, host) = match axis {
            Axis::Ports => (number / 100, "h1".to_owned()),
            Axis::Fdb => (0, format!("h{}", 2 + number / PORTS_OF_A_HOST)),
            Axis::Switches => (number, "h1".to_owned()),
        };
        port(
            &mut text,
            &format!("n{number}"),
            switch,
            &host,
            number + 3,
            "",
        );
    }
    text
}
