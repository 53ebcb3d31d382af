//! Random rules of the firewall: few of everything, so that they overlap.

use std::fmt::Write as _;

use super::fabric::FabricSpec;
use crate::random::Random;

/// A rule.
#[derive(Clone, Debug)]
pub struct RuleSpec {
    /// Number in its name.
    pub name: usize,
    /// Ports, by number.
    pub ports: Vec<usize>,
    /// A switch: all its ports.
    pub switch: Option<usize>,
    /// From the port.
    pub from_port: bool,
    /// As the file writes it.
    pub action: &'static str,
    /// Higher first.
    pub priority: u16,
    /// As the file writes them; none: any.
    pub peers: Vec<String>,
    /// As the file writes them; none: any.
    pub services: Vec<&'static str>,
    /// Writes records.
    pub log: bool,
}

const SERVICES: [&str; 16] = [
    "tcp",
    "tcp/80",
    "tcp/79-81",
    "tcp/1000-8080",
    "udp",
    "udp/53",
    "udp/1000-2000",
    "udp/0-65535",
    "icmp",
    "icmp/8",
    "icmp/3/4",
    "icmp6/128",
    "icmp6/1/4",
    "sctp/80",
    "protocol/47",
    "protocol/58",
];

pub(super) fn rules(random: &mut Random, spec: &FabricSpec) -> Vec<RuleSpec> {
    let count = random.of([0, 0, 1, 3, 6, 12]);
    (0..count).map(|name| rule(random, spec, name)).collect()
}

fn rule(random: &mut Random, spec: &FabricSpec, name: usize) -> RuleSpec {
    let numbers: Vec<_> = spec.ports.iter().map(|port| port.name).collect();
    let mut ports = Vec::new();
    for _ in 0..=random.below(3) {
        ports.extend(random.pick(&numbers).filter(|port| !ports.contains(*port)));
    }
    let services = random.some(65, |random| {
        let mut services = Vec::new();
        for _ in 0..=random.below(3) {
            let service = random.of(SERVICES);
            if !services.contains(&service) {
                services.push(service);
            }
        }
        services
    });
    RuleSpec {
        name,
        ports,
        switch: random.some(15, |random| random.below(spec.switches.len())),
        from_port: random.percent(40),
        action: random.of([
            "allow",
            "allow",
            "allow",
            "allow_stateless",
            "drop",
            "reject",
        ]),
        priority: random.of([0, 500, 1000, 1000, 65535]),
        peers: random
            .some(40, |random| peers(random, spec))
            .unwrap_or_default(),
        services: services.unwrap_or_default(),
        log: random.percent(20),
    }
}

fn peers(random: &mut Random, spec: &FabricSpec) -> Vec<String> {
    let mut peers: Vec<String> = Vec::new();
    for _ in 0..=random.below(2) {
        let port = random.pick(&spec.ports);
        let peer = match (random.below(8), port) {
            (0, Some(port)) if port.address != 0 => format!("p{}", port.name),
            (1, Some(port)) if port.address != 0 => format!("s{}", port.switch),
            (2, Some(port)) => std::net::Ipv4Addr::from(port.v4()).to_string(),
            (3, _) => "198.18.100.0/29".into(),
            (4, _) => "\"2001:2:1::/48\"".into(),
            (5, _) => "198.19.128.0/24".into(),
            (6, _) => "0.0.0.0/0".into(),
            _ => "\"2001:2:9::/48\"".into(),
        };
        if !peers.contains(&peer) {
            peers.push(peer);
        }
    }
    peers
}

impl RuleSpec {
    pub(super) fn yaml(&self) -> String {
        let ports = self.ports.iter().map(|port| format!("p{port}"));
        let switch = self.switch.map(|switch| format!("s{switch}"));
        let ports: Vec<_> = ports.chain(switch).collect();
        let direction = if self.from_port {
            "from_port"
        } else {
            "to_port"
        };
        let mut out = format!(
            "ports: [{}], direction: {direction}, action: {}, priority: {}",
            ports.join(", "),
            self.action,
            self.priority
        );
        if !self.peers.is_empty() {
            let _ = write!(out, ", peers: [{}]", self.peers.join(", "));
        }
        if !self.services.is_empty() {
            let _ = write!(out, ", services: [{}]", self.services.join(", "));
        }
        if self.log {
            out += ", log: true";
        }
        out
    }
}
