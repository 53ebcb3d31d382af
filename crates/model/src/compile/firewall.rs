//! The firewall of one host: the rules that name one of its ports, with the ports and addresses that they
//! name, and which of its ports have one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use overlane_wire::PortKey;

use crate::fabric::{Fabric, Host, NonIp, Peer, Policy, Port, PortSet, Rule};
use crate::keys::Fnv1a;
use crate::names::Name;
use crate::tables::{
    Asks, Direction, FirewallTable, PortFirewall, PortTable, RuleTable, Service, SwitchId,
};

/// Ports that rules name together, seen from the host.
#[derive(Default)]
struct Set {
    /// Those of this host.
    here: Vec<(SwitchId, PortKey)>,
    /// The addresses of all of them, allowed ones among them.
    addresses: Vec<IpNet>,
    /// The link-local addresses made from the MACs of each, with the switch in which it has them.
    link_locals: Vec<(SwitchId, IpNet)>,
}

impl Set {
    fn new<'f>(fabric: &Fabric, host: &Host, ports: impl Iterator<Item = &'f Port>) -> Self {
        let mut set = Self::default();
        for port in ports {
            if let Some(switch) = fabric.switches.get(&port.switch) {
                if port.host == host.name {
                    set.here.push((switch.id, port.key));
                }
                let macs = [port.mac]
                    .into_iter()
                    .chain(port.allowed_macs.iter().copied());
                let link_locals = macs.map(|mac| IpAddr::from(mac.link_local()).into());
                set.link_locals
                    .extend(link_locals.map(|addr| (switch.id, addr)));
            }
            set.addresses
                .extend(port.addresses.iter().map(|&addr| IpNet::from(addr)));
            set.addresses.extend(&port.allowed_addresses);
        }
        set
    }
}

/// The firewall as one host sees it.
pub(super) struct View<'f> {
    fabric: &'f Fabric,
    host: &'f Host,
    groups: BTreeMap<&'f Name, Set>,
    switches: BTreeMap<&'f Name, Set>,
}

impl<'f> View<'f> {
    /// With all ports of the fabric, by switch.
    pub(super) fn new(
        fabric: &'f Fabric,
        host: &'f Host,
        by_switch: &BTreeMap<&'f Name, Vec<&'f Port>>,
    ) -> Self {
        let groups = fabric.groups.values().map(|group| {
            let ports = group.ports.iter();
            let ports = ports.filter_map(|name| fabric.ports.get(name));
            (&group.name, Set::new(fabric, host, ports))
        });
        let switches = by_switch.iter().map(|(&name, ports)| {
            let ports = ports.iter().copied();
            (name, Set::new(fabric, host, ports))
        });
        Self {
            fabric,
            host,
            groups: groups.collect(),
            switches: switches.collect(),
        }
    }

    /// Adds what `add` takes of a set of ports.
    fn with_set<T>(&self, set: &PortSet, into: &mut T, add: impl Fn(&mut T, &Set)) {
        match set {
            PortSet::Port(name) => {
                let port = self.fabric.ports.get(name).into_iter();
                add(into, &Set::new(self.fabric, self.host, port));
            }
            PortSet::Group(name) => self
                .groups
                .get(name)
                .into_iter()
                .for_each(|set| add(into, set)),
            // A switch without ports is none of these.
            PortSet::Switch(name) => {
                self.switches
                    .get(name)
                    .into_iter()
                    .for_each(|set| add(into, set));
            }
        }
    }

    /// The rules of this host; `ports` then learn whether they have a firewall.
    pub(super) fn table(&self, ports: &mut [PortTable]) -> FirewallTable {
        let rules: Vec<RuleTable> = (self.fabric.rules.iter())
            .filter_map(|rule| self.rule(rule))
            .collect();
        let asked = asked(&rules);
        for port in ports.iter_mut() {
            let policies = self.policies(&port.name);
            let drops =
                policies.is_some_and(|it| it.drop_from_port || it.drop_to_port || it.drop_non_ip);
            let is_named = asked.contains_key(&(port.switch, port.key));
            port.firewall = policies.filter(|_| drops || is_named);
            if let (Some(firewall), Some([from, to])) =
                (&mut port.firewall, asked.get(&(port.switch, port.key)))
            {
                (firewall.asks_from_port, firewall.asks_to_port) = (*from, *to);
            }
        }
        let version = version(&rules, ports);
        FirewallTable { rules, version }
    }

    /// The default policies of a port.
    fn policies(&self, port: &Name) -> Option<PortFirewall> {
        let switch = &self.fabric.ports.get(port)?.switch;
        let firewall = &self.fabric.switches.get(switch)?.firewall;
        Some(PortFirewall {
            drop_from_port: firewall.from_port == Policy::Drop,
            drop_to_port: firewall.to_port == Policy::Drop,
            allow_when_full: firewall.when_full == Policy::Allow,
            drop_non_ip: matches!(firewall.non_ip, NonIp::Drop(_)),
            asks_from_port: Asks::default(),
            asks_to_port: Asks::default(),
        })
    }

    /// The rule, if it names a port of this host.
    fn rule(&self, rule: &Rule) -> Option<RuleTable> {
        let mut ports = BTreeSet::new();
        for set in &rule.ports {
            self.with_set(set, &mut ports, |ports, set| ports.extend(&set.here));
        }
        if ports.is_empty() {
            return None;
        }
        let peers = rule.peers.as_ref();
        let peers = peers.map(|peers| {
            let switches = ports.iter().map(|&(switch, _)| switch).collect();
            self.peers(peers, &switches)
        });
        Some(RuleTable {
            name: rule.name.clone(),
            line: rule.line,
            priority: rule.priority,
            direction: rule.direction,
            ports: ports.into_iter().collect(),
            peers,
            services: rule.services.clone(),
            action: rule.action,
            log: rule.log,
        })
    }

    /// As ports in these switches meet them; in order, each once. There may be none, so that a rule matches nobody.
    fn peers(&self, peers: &[Peer], switches: &BTreeSet<SwitchId>) -> Vec<IpNet> {
        let mut networks = BTreeSet::new();
        for peer in peers {
            match peer {
                Peer::Addresses(network) => networks.extend([*network]),
                Peer::Network(name) => {
                    let network = self.fabric.networks.get(name).into_iter();
                    networks.extend(network.flat_map(|network| &network.networks));
                }
                Peer::Ports(set) => self.with_set(set, &mut networks, |networks, set| {
                    let link_locals = set.link_locals.iter();
                    let met = link_locals.filter(|(switch, _)| switches.contains(switch));
                    networks.extend(&set.addresses);
                    networks.extend(met.map(|(_, addr)| addr));
                }),
            }
        }
        networks.into_iter().collect()
    }
}

/// What the rules of each port that they name ask for: of what it sends, and of what it gets.
fn asked(rules: &[RuleTable]) -> BTreeMap<(SwitchId, PortKey), [Asks; 2]> {
    let mut asked: BTreeMap<(SwitchId, PortKey), [Asks; 2]> = BTreeMap::new();
    for rule in rules {
        let services = rule.services.as_deref();
        let asks_ports = services.is_some_and(|it| it.iter().any(|it| it.range().1.is_some()));
        for &port in &rule.ports {
            let [from, to] = asked.entry(port).or_default();
            let asks = match rule.direction {
                Direction::FromPort => from,
                Direction::ToPort => to,
            };
            asks.protocol |= services.is_some();
            asks.ports |= asks_ports;
        }
    }
    asked
}

/// A hash over all that decides whether a connection may begin; not over names, lines and logs. A list is
/// written with its length before it, so that no two tables are written alike.
fn version(rules: &[RuleTable], ports: &[PortTable]) -> u32 {
    let mut hash = Fnv1a::new();
    hash.length(rules.len());
    for rule in rules {
        hash.add(&[rule.direction as u8, rule.action as u8]);
        hash.length(rule.ports.len());
        for &port in &rule.ports {
            hash.port(port);
        }
        hash.add(&[u8::from(rule.peers.is_some())]);
        let peers = rule.peers.as_deref().unwrap_or_default();
        hash.length(peers.len());
        peers.iter().for_each(|&network| hash.network(network));
        hash.add(&[u8::from(rule.services.is_some())]);
        let services = rule.services.as_deref().unwrap_or_default();
        hash.length(services.len());
        services.iter().for_each(|service| hash.service(service));
    }
    for port in ports {
        let Some(firewall) = port.firewall else {
            continue;
        };
        hash.port((port.switch, port.key));
        hash.add(&[
            u8::from(firewall.drop_from_port),
            u8::from(firewall.drop_to_port),
        ]);
    }
    some_version(hash.get())
}

/// One number is no rules'.
fn some_version(hash: u32) -> u32 {
    match hash {
        FirewallTable::NO_VERSION => 1,
        version => version,
    }
}

impl Fnv1a {
    fn length(&mut self, length: usize) {
        self.add(&(length as u64).to_be_bytes());
    }

    fn port(&mut self, (switch, key): (SwitchId, PortKey)) {
        self.add(&switch.number().to_be_bytes());
        self.add(&key.get().to_be_bytes());
    }

    fn network(&mut self, network: IpNet) {
        self.add(&[network.prefix_len()]);
        match network {
            IpNet::V4(network) => self.add(&network.addr().octets()),
            IpNet::V6(network) => self.add(&network.addr().octets()),
        }
    }

    fn service(&mut self, service: &Service) {
        let (protocol, range) = service.range();
        self.add(&[protocol, u8::from(range.is_some())]);
        if let Some(range) = range {
            self.add(&range.start().to_be_bytes());
            self.add(&range.end().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rules_have_the_version_of_none() {
        assert_eq!(
            [some_version(0), some_version(1), some_version(2)],
            [1, 1, 2]
        );
        assert_ne!(version(&[], &[]), FirewallTable::NO_VERSION);
    }
}
