//! Random routers: interfaces on some switches, routes of every kind, gateways and what they translate.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use overlane_wire::Mac;

use super::fabric::{FabricSpec, timeouts};
use crate::random::Random;

/// A logical router.
#[derive(Clone, Debug)]
pub struct RouterSpec {
    /// Number in its name.
    pub name: usize,
    /// Switches that it joins, each with which families it has addresses of.
    pub interfaces: Vec<(usize, bool, bool)>,
    /// Static routes: to a network, by these next hops.
    pub routes: Vec<(&'static str, Vec<IpAddr>)>,
    /// It forwards from anywhere but its own addresses.
    pub is_loose: bool,
    /// Lowers the MSS of TCP.
    pub clamps: bool,
    /// Where it meets the physical network.
    pub gateway: Option<GatewaySpec>,
}

/// A router's gateway.
#[derive(Clone, Debug)]
pub struct GatewaySpec {
    /// Its host.
    pub host: usize,
    /// It has a leg.
    pub has_leg: bool,
    /// What it translates, as the file writes it.
    pub nat: Vec<String>,
    /// Drops what it does not translate.
    pub drops_untranslated: bool,
    /// Most translations.
    pub connections: Option<u32>,
    /// Their time-outs, as the file writes them.
    pub timeouts: Option<String>,
}

/// Networks that nobody is connected to.
const FAR_V4: [&str; 7] = [
    "198.19.128.0/24",
    "198.19.128.128/25",
    "198.19.129.0/24",
    "0.0.0.0/0",
    "198.18.100.0/26",
    "169.254.169.254/32",
    "192.0.0.0/16",
];
const FAR_V6: [&str; 4] = [
    "2001:2:9::/48",
    "2001:2:9:0:8000::/65",
    "::/0",
    "2001:db8:1::/48",
];

pub(super) fn routers(random: &mut Random, spec: &FabricSpec) -> Vec<RouterSpec> {
    let count = random.of([0, 1, 1, 1, 1, 2]);
    (0..count).map(|name| router(random, spec, name)).collect()
}

fn router(random: &mut Random, spec: &FabricSpec, name: usize) -> RouterSpec {
    let mut router = RouterSpec {
        name,
        interfaces: Vec::new(),
        routes: Vec::new(),
        is_loose: random.percent(25),
        clamps: random.percent(30),
        gateway: None,
    };
    for switch in 0..spec.switches.len() {
        if random.percent(85) {
            let families = random.of([(true, true), (true, true), (true, false), (false, true)]);
            router.interfaces.push((switch, families.0, families.1));
        }
    }
    if router.interfaces.is_empty() {
        router.interfaces.push((0, true, true));
    }
    router.gateway = random.some(75, |random| GatewaySpec {
        host: if random.percent(70) {
            0
        } else {
            random.below(spec.hosts)
        },
        has_leg: random.percent(90),
        nat: Vec::new(),
        drops_untranslated: random.percent(20),
        connections: random.some(15, |random| random.of([1, 2, 4])),
        timeouts: random.some(30, timeouts),
    });
    for (pool, is_v6) in [(&FAR_V4[..], false), (&FAR_V6[..], true)] {
        for to in pool {
            let hops = next_hops(random, spec, &router, is_v6);
            if random.percent(60) && !hops.is_empty() {
                router.routes.push((*to, hops));
            }
        }
    }
    let nat = nat(random, &router);
    if let Some(gateway) = router.gateway.as_mut().filter(|gateway| gateway.has_leg) {
        gateway.nat = nat;
    }
    router
}

/// One or several, each in a network that the router is connected to.
fn next_hops(
    random: &mut Random,
    spec: &FabricSpec,
    router: &RouterSpec,
    is_v6: bool,
) -> Vec<IpAddr> {
    let mut hops = Vec::new();
    for _ in 0..random.of([1, 1, 1, 2, 3]) {
        let hop = match random.below(10) {
            0..7 if router.has_leg() => Some(router.leg_address(random.of([8, 9]), is_v6)),
            7 => router.nobody(random, is_v6),
            8 if router.name > 0 => router.first_router(is_v6),
            _ => {
                let ports: Vec<_> = spec
                    .ports
                    .iter()
                    .filter(|port| port.address != 0)
                    .filter(|port| router.has(port.switch, is_v6))
                    .collect();
                random.pick(&ports).map(|port| port.ip(is_v6))
            }
        };
        if let Some(hop) = hop
            && !hops.contains(&hop)
        {
            hops.push(hop);
        }
    }
    hops
}

/// Rules of every kind, in any order, for few addresses and ports: networks within networks, addresses of their own
/// in them, and ends that several rules have.
fn nat(random: &mut Random, router: &RouterSpec) -> Vec<String> {
    let mut rules = Vec::new();
    if random.percent(15) {
        return rules;
    }
    for &(switch, v4, v6) in &router.interfaces {
        let families = [(v4, false), (v6, true)];
        for (_, is_v6) in families.into_iter().filter(|(has, _)| *has) {
            for _ in 0..random.of([0, 1, 2, 4]) {
                rules.push(source(random, router, switch, is_v6));
            }
        }
    }
    one_to_one(random, router, &mut rules);
    forwards(random, router, &mut rules);
    shuffled(random, rules)
}

/// A network, or a part of one.
fn source(random: &mut Random, router: &RouterSpec, switch: usize, is_v6: bool) -> String {
    let bits = match is_v6 {
        false => random.of([24, 24, 24, 25, 29, 30, 31, 32, 16, 0]),
        true => random.of([64, 64, 64, 65, 125, 126, 127, 128, 48, 0]),
    };
    let host = inside(switch, 1 + random.below(7), is_v6);
    let network = ipnet::IpNet::new_assert(host, bits).trunc();
    let outside = router.leg_address(random.of([2, 2, 2, 3]), is_v6);
    let ports = random.of([
        "",
        ", ports: 1000-1000",
        ", ports: 1000-1000",
        ", ports: 2000-2001",
    ]);
    format!("source: \"{network}\", outside: \"{outside}\"{ports}")
}

/// Nobody else has their inside or outside address.
fn one_to_one(random: &mut Random, router: &RouterSpec, rules: &mut Vec<String>) {
    let mut insides = BTreeSet::new();
    for last in [10, 11, 12] {
        let is_v6 = random.percent(40);
        let Some(switch) = router.switch(random, is_v6) else {
            continue;
        };
        let host = inside(switch, 1 + random.below(6), is_v6);
        if random.percent(30) && insides.insert(host) {
            let outside = router.leg_address(last, is_v6);
            rules.push(format!("one_to_one: \"{host}\", outside: \"{outside}\""));
        }
    }
}

/// Several may have the same inside end; nobody else has their outside end.
fn forwards(random: &mut Random, router: &RouterSpec, rules: &mut Vec<String>) {
    let mut outsides = BTreeSet::new();
    for _ in 0..random.of([0, 1, 2, 4, 6]) {
        let is_v6 = random.percent(30);
        let Some(switch) = router.switch(random, is_v6) else {
            continue;
        };
        let protocol = random.of(["tcp", "tcp", "udp", "udp", "sctp"]);
        let address = router.leg_address(random.of([2, 2, 2, 3]), is_v6);
        let outside = SocketAddr::new(address, random.of([80, 2000, 8053, 8080]));
        let host = inside(switch, 1 + random.below(3), is_v6);
        let inside = SocketAddr::new(host, random.of([53, 80, 1000, 2000]));
        if outsides.insert((protocol, outside)) {
            rules.push(format!(
                "forward: \"{inside}\", protocol: {protocol}, outside: \"{outside}\""
            ));
        }
    }
}

/// An address on a switch, as a port or nobody has it.
fn inside(switch: usize, last: usize, is_v6: bool) -> IpAddr {
    if is_v6 {
        Ipv6Addr::new(0x2001, 2, 1, switch as u16, 0, 0, 0, last as u16).into()
    } else {
        Ipv4Addr::from([198, 18, 100 + switch as u8, last as u8]).into()
    }
}

fn shuffled<T>(random: &mut Random, mut things: Vec<T>) -> Vec<T> {
    for end in (1..things.len()).rev() {
        things.swap(end, random.below(end + 1));
    }
    things
}

impl RouterSpec {
    /// Its MAC.
    pub fn mac(&self) -> Mac {
        Mac::new([2, 0, 0, 0, 0xfe, self.name as u8])
    }

    /// The device of its leg.
    pub fn leg(&self) -> String {
        format!("leg{}", self.name)
    }

    /// It reaches the physical network.
    pub fn has_leg(&self) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| gateway.has_leg)
    }

    /// It has an interface on this switch with addresses of this family.
    pub fn has(&self, switch: usize, is_v6: bool) -> bool {
        let mut interfaces = self.interfaces.iter();
        interfaces.any(|&(on, v4, v6)| on == switch && if is_v6 { v6 } else { v4 })
    }

    /// Its address on a switch.
    pub fn address(&self, switch: usize, is_v6: bool) -> IpAddr {
        let last = 254 - self.name as u16;
        if is_v6 {
            Ipv6Addr::new(0x2001, 2, 1, switch as u16, 0, 0, 0, last).into()
        } else {
            Ipv4Addr::from([198, 18, 100 + switch as u8, last as u8]).into()
        }
    }

    /// An address in the network of its leg; 2 is its own.
    pub fn leg_address(&self, last: u8, is_v6: bool) -> IpAddr {
        if is_v6 {
            Ipv6Addr::new(0x2001, 2, 0xf, self.name as u16, 0, 0, 0, last.into()).into()
        } else {
            Ipv4Addr::from([198, 19, self.name as u8, last]).into()
        }
    }

    /// One where it has a network of the family.
    fn switch(&self, random: &mut Random, is_v6: bool) -> Option<usize> {
        let interfaces = self.interfaces.iter();
        let switches = interfaces.filter(|(_, v4, v6)| if is_v6 { *v6 } else { *v4 });
        let switches: Vec<_> = switches.map(|interface| interface.0).collect();
        random.pick(&switches).copied()
    }

    /// An address in a network of its, that nobody has.
    fn nobody(&self, random: &mut Random, is_v6: bool) -> Option<IpAddr> {
        let &(switch, ..) = random.pick(&self.interfaces)?;
        self.has(switch, is_v6).then(|| {
            if is_v6 {
                Ipv6Addr::new(0x2001, 2, 1, switch as u16, 0, 0, 0, 0x99).into()
            } else {
                Ipv4Addr::from([198, 18, 100 + switch as u8, 99]).into()
            }
        })
    }

    /// Address of the first router, where it may be on the same switch.
    fn first_router(&self, is_v6: bool) -> Option<IpAddr> {
        let mut interfaces = self.interfaces.iter();
        let &(switch, ..) = interfaces.find(|&&(on, ..)| self.has(on, is_v6))?;
        let first = Self {
            name: 0,
            ..self.clone()
        };
        Some(first.address(switch, is_v6))
    }

    pub(super) fn yaml(&self) -> String {
        let mut out = format!("  g{}:\n    mac: \"{}\"\n", self.name, self.mac());
        out += "    interfaces:\n";
        for &(switch, v4, v6) in &self.interfaces {
            let mut addresses = Vec::new();
            if v4 {
                addresses.push(format!("{}/24", self.address(switch, false)));
            }
            if v6 {
                addresses.push(format!("\"{}/64\"", self.address(switch, true)));
            }
            let _ = writeln!(out, "      s{switch}: [{}]", addresses.join(", "));
        }
        if !self.routes.is_empty() {
            out += "    routes:\n";
        }
        for (to, via) in &self.routes {
            let via: Vec<_> = via.iter().map(|hop| format!("\"{hop}\"")).collect();
            let _ = writeln!(out, "      - {{ to: \"{to}\", via: [{}] }}", via.join(", "));
        }
        if self.is_loose {
            out += "    reverse_path: \"off\"\n";
        }
        if self.clamps {
            out += "    mss_clamp: true\n";
        }
        if let Some(gateway) = &self.gateway {
            let _ = writeln!(out, "    gateway:\n      host: h{}", gateway.host + 1);
            if gateway.has_leg {
                let (v4, v6) = (self.leg_address(2, false), self.leg_address(2, true));
                let _ = writeln!(out, "      device: {}", self.leg());
                let _ = writeln!(out, "      addresses: [{v4}/24, \"{v6}/64\"]");
                if let Some(connections) = gateway.connections {
                    let _ = writeln!(out, "      connections: {connections}");
                }
                if let Some(timeouts) = &gateway.timeouts {
                    let _ = writeln!(out, "      {timeouts}");
                }
                if gateway.drops_untranslated {
                    out += "      untranslated: drop\n";
                }
            }
            if !gateway.nat.is_empty() {
                out += "      nat:\n";
            }
            for rule in &gateway.nat {
                let _ = writeln!(out, "        - {{ {rule} }}");
            }
        }
        out
    }
}
