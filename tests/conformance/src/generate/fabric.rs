//! Random fabrics: a few hosts, switches of every kind, ports with every setting; routers and rules of their own
//! modules.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Timeouts;
use overlane_wire::Mac;

use super::firewall::{self, RuleSpec};
use super::routing::{self, RouterSpec};
use super::switch::{self, SwitchSpec};
use crate::case::{LegDevice, Machine};
use crate::differential::SECRET;
use crate::random::Random;

/// So many connections a host holds: few, so that now and then there is no place for one.
const PLACES: u32 = 8;

/// A fabric; the packets enter its first host.
#[derive(Clone, Debug)]
pub struct FabricSpec {
    /// Geneve instead of VXLAN.
    pub is_geneve: bool,
    /// Geneve options of the tunnel and of each host, where the file says.
    pub options: (Option<&'static str>, Vec<Option<&'static str>>),
    /// IPv6 underlay.
    pub is_v6: bool,
    /// Reserved bits must be zero.
    pub strict: bool,
    /// As the file writes it.
    pub dscp: String,
    /// UDP source ports, where the file says.
    pub source_ports: Option<(u16, u16)>,
    /// Hosts.
    pub hosts: usize,
    /// Largest outer IP packet of the first host's uplink.
    pub underlay_mtu: u32,
    /// The same of its gateways' legs.
    pub leg_mtu: u32,
    /// Of the devices of its ports.
    pub port_mtu: u32,
    /// Another device of the first host has the tunnel's port.
    pub port_shared: bool,
    /// The first host can take the tunnel's mark off a UDP super-packet.
    pub whole_udp: bool,
    /// Logical switches.
    pub switches: Vec<SwitchSpec>,
    /// Logical ports.
    pub ports: Vec<PortSpec>,
    /// Logical routers.
    pub routers: Vec<RouterSpec>,
    /// Rules of the firewall.
    pub rules: Vec<RuleSpec>,
    /// What [turns](FabricSpec::turned) beside the rules.
    pub turn: Turn,
}

/// What becomes of a fabric while packets flow, beside its rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Nothing.
    Nothing,
    /// The ports of the first host, but one, are on another host.
    PortsMove,
    /// Ports have other addresses.
    OtherAddresses,
    /// What had port security has none, and the other way round.
    Security,
    /// Two ports have each other's MAC.
    SwappedMacs,
    /// Routers have no static routes, and nothing is translated.
    NoRoutes,
    /// Other fields of the tunnel's headers.
    Headers,
}

/// A logical port.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// Number in its name.
    pub name: usize,
    /// Its switch.
    pub switch: usize,
    /// Its host.
    pub host: usize,
    /// Its device.
    pub device: String,
    /// Its tag on the device.
    pub vlan: Option<u16>,
    /// Its MAC.
    pub mac: Mac,
    /// Last number of its addresses; 0: it has none.
    pub address: u8,
    /// Key in the switch.
    pub key: u16,
    /// What it may use beside its own addresses and MAC.
    pub allowed: Allowed,
    /// As the file writes it.
    pub security: &'static str,
    /// As the file writes it.
    pub allow: Vec<&'static str>,
    /// Limit and age.
    pub learning: Option<(u32, u32)>,
    /// Its own.
    pub limits: (Option<u32>, Option<u32>),
}

/// What a port may use beside its own.
#[derive(Clone, Default, Debug)]
pub struct Allowed {
    /// As the file writes them.
    pub addresses: Vec<String>,
    /// Of the two that float in its switch.
    pub macs: Vec<Mac>,
}

/// One of the two MACs that float in a switch.
pub(super) fn floating_mac(random: &mut Random, switch: usize) -> Mac {
    Mac::new([0, 0, 0x5e, 0, random.of([1, 2]), switch as u8])
}

impl Allowed {
    fn random(random: &mut Random, switch: usize) -> Self {
        let net = 100 + switch;
        let addresses = [
            format!("198.18.{net}.200"),
            format!("198.18.{net}.0/24"),
            format!("198.18.{net}.128/25"),
            "0.0.0.0/0".to_owned(),
            format!("2001:2:1:{switch}::c8"),
            format!("2001:2:1:{switch}::/64"),
            "fe80::/10".to_owned(),
            "::/0".to_owned(),
        ];
        let addresses = addresses.into_iter().filter(|_| random.percent(25));
        let mut allowed = Self {
            addresses: addresses.collect(),
            macs: Vec::new(),
        };
        if random.percent(50) {
            allowed.macs.push(floating_mac(random, switch));
        }
        allowed
    }
}

impl FabricSpec {
    /// Any.
    pub fn random(random: &mut Random) -> Self {
        let hosts = random.of([1, 2, 2, 2, 2, 3, 3, 3, 4, 4]);
        let switches: Vec<_> = (0..random.of([1, 1, 2, 3]))
            .map(|index| switch::switch(random, index))
            .collect();
        let is_geneve = random.percent(50);
        let options = |random: &mut Random| {
            let percent = if is_geneve { 30 } else { 0 };
            random.some(percent, |random| random.of(["none", "none", "ovn"]))
        };
        let mut spec = Self {
            is_geneve,
            options: (
                options(random),
                (0..hosts).map(|_| options(random)).collect(),
            ),
            is_v6: random.percent(40),
            strict: random.percent(25),
            dscp: random.of(["0", "0", "46", "63", "copy", "copy"]).to_owned(),
            source_ports: random.some(20, |random| {
                random.of([(1024, 1024), (50_000, 50_003), (1, 65_535)])
            }),
            hosts,
            port_shared: random.percent(25),
            whole_udp: random.percent(80),
            underlay_mtu: random.of([1500, 1500, 1500, 1400, 600, 2000]),
            leg_mtu: random.of([1500, 1500, 1500, 1300]),
            port_mtu: random.of([u32::MAX, u32::MAX, 9000, 1500, 1300]),
            switches,
            ports: Vec::new(),
            routers: Vec::new(),
            rules: Vec::new(),
            turn: random.of([
                Turn::Nothing,
                Turn::PortsMove,
                Turn::OtherAddresses,
                Turn::Security,
                Turn::SwappedMacs,
                Turn::NoRoutes,
                Turn::Headers,
            ]),
        };
        for name in 0..3 + random.below(7) {
            // The first port is on the host that the packets enter.
            let host = if name == 0 || random.percent(45) {
                0
            } else {
                random.below(hosts)
            };
            let port = port(random, &spec, name, host);
            spec.ports.push(port);
        }
        spec.routers = routing::routers(random, &spec);
        spec.rules = firewall::rules(random, &spec);
        spec
    }

    /// The file.
    pub fn yaml(&self) -> String {
        let mut out = String::from("version: 1\n");
        let encapsulation = if self.is_geneve { "geneve" } else { "vxlan" };
        let mut tunnel = format!(
            "encapsulation: {encapsulation}, strict: {}, dscp: {}",
            self.strict, self.dscp
        );
        if let Some((first, last)) = self.source_ports {
            let _ = write!(tunnel, ", source_ports: {first}-{last}");
        }
        let options = |options: Option<&str>| {
            options.map_or_else(String::new, |options| format!(", options: {options}"))
        };
        tunnel += &options(self.options.0);
        if self.is_v6 {
            tunnel += ", udp6_zero_checksum: true";
        }
        let _ = writeln!(out, "tunnel: {{ {tunnel} }}\nhosts:");
        for host in 0..self.hosts {
            let _ = writeln!(
                out,
                "  h{}: {{ underlay: \"{}\", uplink: eth1, connections: {PLACES}{} }}",
                host + 1,
                self.vtep(host),
                options(self.options.1[host])
            );
        }
        out += "switches:\n";
        for (index, switch) in self.switches.iter().enumerate() {
            let _ = writeln!(out, "  s{index}: {{ {} }}", switch.yaml());
        }
        if !self.ports.is_empty() {
            out += "ports:\n";
        }

        for port in &self.ports {
            let _ = writeln!(out, "  p{}: {{ {} }}", port.name, port.yaml());
        }
        if !self.rules.is_empty() {
            out += "rules:\n";
        }
        for rule in &self.rules {
            let _ = writeln!(out, "  r{}: {{ {} }}", rule.name, rule.yaml());
        }
        if !self.routers.is_empty() {
            out += "routers:\n";
        }
        for router in &self.routers {
            out += &router.yaml();
        }
        out
    }

    /// The same, where every second rule says the opposite, and something else has changed too.
    pub fn turned(&self) -> Self {
        let mut spec = self.clone();
        for rule in spec.rules.iter_mut().filter(|rule| rule.name % 2 == 0) {
            rule.action = match rule.action {
                "allow" | "allow_stateless" => "drop",
                _ => "allow",
            };
        }
        spec.turn_rest();
        spec
    }

    fn turn_rest(&mut self) {
        match self.turn {
            Turn::Nothing => {}
            Turn::PortsMove => {
                let here = self.ports.iter_mut().filter(|port| port.host == 0);
                for port in here.skip(1) {
                    port.host = 1 % self.hosts;
                }
            }
            Turn::OtherAddresses => {
                for port in self.ports.iter_mut().filter(|port| port.address != 0) {
                    port.address += 60;
                }
            }
            Turn::Security => {
                for port in &mut self.ports {
                    port.security = match port.security {
                        "off" => "addresses",
                        _ => "off",
                    };
                }
            }
            Turn::SwappedMacs => {
                let (first, second) = self.ports.split_at_mut(1);
                if let (Some(first), Some(second)) = (first.first_mut(), second.first_mut()) {
                    std::mem::swap(&mut first.mac, &mut second.mac);
                }
            }
            Turn::NoRoutes => {
                for router in &mut self.routers {
                    router.routes.clear();
                    if let Some(gateway) = &mut router.gateway {
                        gateway.nat.clear();
                    }
                }
            }
            Turn::Headers => {
                "46".clone_into(&mut self.dscp);
                self.source_ports = Some((40_000, 40_999));
            }
        }
    }

    /// What the first host is like.
    pub fn machine(&self) -> Machine {
        Machine {
            underlay_mtu: self.underlay_mtu,
            port_shared: self.port_shared,
            whole_udp: self.whole_udp,
            secret: SECRET,
            leg: LegDevice {
                mtu: self.leg_mtu,
                ..LegDevice::default()
            },
            port_mtu: self.port_mtu,
        }
    }

    /// Address of a host's VTEP; of one past the last, nobody's.
    pub fn vtep(&self, host: usize) -> String {
        if self.is_v6 {
            format!("2001:2::{}", host + 1)
        } else {
            format!("198.18.0.{}", host + 1)
        }
    }
}

fn port(random: &mut Random, spec: &FabricSpec, name: usize, host: usize) -> PortSpec {
    let switch = random.below(spec.switches.len());
    let trunk = !spec.switches[switch].is_transparent && random.percent(25);
    // A trunk shares a device: with the other trunk ports of its host, and one without a tag.
    let device = if trunk {
        "trunk".to_owned()
    } else {
        format!("v{name}")
    };
    let vlan = trunk.then(|| 10 + name as u16);
    let base = trunk
        && !spec
            .ports
            .iter()
            .any(|port| port.host == host && port.device == "trunk" && port.vlan.is_none());
    let mut allow = Vec::new();
    if random.percent(15) {
        allow.push("dhcp_server");
    }
    if random.percent(15) {
        allow.push("router_advertisement");
    }
    PortSpec {
        name,
        switch,
        host,
        device,
        vlan: if base && random.percent(30) {
            None
        } else {
            vlan
        },
        mac: Mac::new([2, 0, 0, 0, switch as u8, name as u8 + 1]),
        address: if random.percent(75) {
            name as u8 + 1
        } else {
            0
        },
        key: if random.percent(10) {
            0x7fff - name as u16
        } else {
            name as u16 + 1
        },
        allowed: match random.percent(35) {
            true => Allowed::random(random, switch),
            false => Allowed::default(),
        },
        security: random.of(["strict", "strict", "mac", "off"]),
        allow,
        learning: random.some(35, |random| {
            (random.of([1, 2, 3, 64]), random.of([1, 2, 300]))
        }),
        limits: limits(random),
    }
}

/// Some of the time-outs, as short as the pauses between packets.
pub(super) fn timeouts(random: &mut Random) -> String {
    let said = Timeouts::NAMES.into_iter().filter_map(|name| {
        random.some(60, |random| {
            format!("{name}: {}", random.of([1, 2, 10, 30, 60, 432_000]))
        })
    });
    let said: Vec<_> = said.collect();
    format!("timeouts: {{ {} }}", said.join(", "))
}

pub(super) fn limits(random: &mut Random) -> (Option<u32>, Option<u32>) {
    let connections = random.some(15, |random| random.of([1, 2, 3, 5, PLACES]));
    (
        connections,
        random.some(15, |random| random.of([10, 40, 200])),
    )
}

pub(super) fn limits_yaml((connections, flood): (Option<u32>, Option<u32>)) -> String {
    let given = [("connections", connections), ("flood", flood)].into_iter();
    let given = given.filter_map(|(key, most)| Some(format!("{key}: {}", most?)));
    let given: Vec<_> = given.collect();
    match given.is_empty() {
        true => String::new(),
        false => format!(", limits: {{ {} }}", given.join(", ")),
    }
}

impl PortSpec {
    /// Its IPv4 address, or one nobody has.
    pub fn v4(&self) -> [u8; 4] {
        [198, 18, 100 + self.switch as u8, self.address]
    }

    /// Its IPv6 address, or one nobody has.
    pub fn v6(&self) -> [u8; 16] {
        let mut addr = [0x20, 1, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        addr[7] = self.switch as u8;
        addr[15] = self.address;
        addr
    }

    /// That of a family.
    pub(super) fn ip(&self, is_v6: bool) -> IpAddr {
        match is_v6 {
            true => self.v6().into(),
            false => self.v4().into(),
        }
    }

    fn yaml(&self) -> String {
        let mut out = format!(
            "switch: s{}, host: h{}, device: {}, mac: \"{}\", key: {}, security: \"{}\"",
            self.switch,
            self.host + 1,
            self.device,
            self.mac,
            self.key,
            self.security
        );
        // It changes nothing for packets. Ports on one device agree.
        if self.key.is_multiple_of(4) {
            let _ = write!(out, ", netns: of-{}", self.device);
        }
        if self.address != 0 {
            let _ = write!(
                out,
                ", addresses: [{}, \"{}\"]",
                Ipv4Addr::from(self.v4()),
                Ipv6Addr::from(self.v6())
            );
        }
        let addresses: Vec<_> = self.allowed.addresses.iter().collect();
        if !addresses.is_empty() {
            let _ = write!(out, ", allowed_addresses: {addresses:?}");
        }
        let macs: Vec<_> = self.allowed.macs.iter().map(Mac::to_string).collect();
        if !macs.is_empty() {
            let _ = write!(out, ", allowed_macs: {macs:?}");
        }
        if let Some(vlan) = self.vlan {
            let _ = write!(out, ", vlan: {vlan}");
        }
        if !self.allow.is_empty() {
            let _ = write!(out, ", allow: [{}]", self.allow.join(", "));
        }
        out += &limits_yaml(self.limits);
        if let Some((limit, age)) = self.learning {
            let _ = write!(out, ", learning: {{ limit: {limit}, age: {age} }}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::FabricSpec;
    use crate::differential::tables;
    use crate::random::Random;

    #[test]
    fn random_fabrics_make_sense() {
        let mut refused = BTreeMap::new();
        for seed in 0..500 {
            let spec = FabricSpec::random(&mut Random::new(seed));
            if let Err(error) = tables(&spec) {
                let kind = error.lines().next().unwrap_or_default().to_owned();
                refused.insert(kind, error + &spec.yaml());
            }
        }
        let refused: Vec<_> = refused.into_values().collect();
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }
}
