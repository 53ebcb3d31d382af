//! Whether the rules of a host fit, as its classifier has them. Only where they might not they are compiled: the sets of a
//! classifier are never more than the different ports, peers and ranges that its rules name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::classifier::{Classifier, port_prefixes};
use crate::fabric::{Fabric, Host, Peer, Port, PortSet, Rule};
use crate::names::Name;
use crate::sizes::{MAX_RULE_SETS, TooMany};
use crate::tables::Service;

/// Sets that no name makes: of no rule, of each protocol, and of each family.
const BESIDE: usize = 300;

/// What all rules name.
pub(super) struct RuleSizes<'f> {
    fabric: &'f Fabric,
    /// By host: how many different ports, peers and ranges its rules name at most. Empty where all rules together name few.
    named: BTreeMap<&'f Name, usize>,
}

impl<'f> RuleSizes<'f> {
    pub(super) fn new(fabric: &'f Fabric) -> Self {
        let members = Members::new(fabric);
        let all = members.named(fabric.rules.iter());
        let named = match BESIDE + 2 * fabric.ports.len() + all > MAX_RULE_SETS {
            true => by_host(fabric, &members),
            false => BTreeMap::new(),
        };
        Self { fabric, named }
    }

    /// Why the rules of a host do not fit.
    pub(super) fn refused(&self, host: &Host) -> Option<TooMany> {
        let named = self.named.get(&host.name).copied().unwrap_or_default();
        if BESIDE + named <= MAX_RULE_SETS {
            return None;
        }
        Classifier::new(&self.fabric.firewall(host)).err()
    }
}

fn by_host<'f>(fabric: &'f Fabric, members: &Members<'f>) -> BTreeMap<&'f Name, usize> {
    let mut rules: BTreeMap<&Name, Vec<&Rule>> = BTreeMap::new();
    let mut ports: BTreeMap<&Name, usize> = BTreeMap::new();
    for port in fabric.ports.values() {
        *ports.entry(&port.host).or_default() += 1;
    }
    for rule in &fabric.rules {
        let sets = rule.ports.iter();
        let hosts: BTreeSet<&Name> = sets.flat_map(|set| members.hosts(set)).collect();
        for host in hosts {
            rules.entry(host).or_default().push(rule);
        }
    }
    let named = rules.into_iter().map(|(host, rules)| {
        // A set in each direction.
        let ports = 2 * ports.get(host).copied().unwrap_or_default();
        (host, ports + members.named(rules.into_iter()))
    });
    named.collect()
}

/// The ports that rules may name together.
struct Members<'f> {
    fabric: &'f Fabric,
    groups: HashMap<&'f Name, Set<'f>>,
    switches: HashMap<&'f Name, Set<'f>>,
}

#[derive(Default)]
struct Set<'f> {
    hosts: BTreeSet<&'f Name>,
    addresses: usize,
}

impl<'f> Set<'f> {
    fn add(&mut self, port: &'f Port) {
        self.hosts.insert(&port.host);
        self.addresses += addresses(port);
    }
}

/// Those that it may have, and the link-local ones made from its MACs.
fn addresses(port: &Port) -> usize {
    port.addresses.len() + port.allowed_addresses.len() + 1 + port.allowed_macs.len()
}

impl<'f> Members<'f> {
    fn new(fabric: &'f Fabric) -> Self {
        let mut switches: HashMap<&Name, Set<'_>> = HashMap::new();
        for port in fabric.ports.values() {
            switches.entry(&port.switch).or_default().add(port);
        }
        let groups = fabric.groups.values().map(|group| {
            let mut set = Set::default();
            let ports = group.ports.iter();
            ports
                .filter_map(|port| fabric.ports.get(port))
                .for_each(|port| set.add(port));
            (&group.name, set)
        });
        Self {
            fabric,
            groups: groups.collect(),
            switches,
        }
    }

    fn hosts<'s>(&'s self, set: &PortSet) -> Box<dyn Iterator<Item = &'f Name> + 's> {
        let of =
            |set: Option<&'s Set<'f>>| set.into_iter().flat_map(|set| set.hosts.iter().copied());
        match set {
            PortSet::Port(name) => {
                let port = self.fabric.ports.get(name);
                Box::new(port.map(|port| &port.host).into_iter())
            }
            PortSet::Group(name) => Box::new(of(self.groups.get(name))),
            PortSet::Switch(name) => Box::new(of(self.switches.get(name))),
        }
    }

    fn peers(&self, peer: &Peer) -> usize {
        let of = |set: Option<&Set<'_>>| set.map_or(0, |set| set.addresses);
        match peer {
            Peer::Addresses(_) => 1,
            Peer::Network(name) => {
                let network = self.fabric.networks.get(name);
                network.map_or(0, |network| network.networks.len())
            }
            Peer::Ports(PortSet::Port(name)) => self.fabric.ports.get(name).map_or(0, addresses),
            Peer::Ports(PortSet::Group(name)) => of(self.groups.get(name)),
            Peer::Ports(PortSet::Switch(name)) => of(self.switches.get(name)),
        }
    }

    /// How many peers and ranges rules name at most, each once.
    fn named<'r>(&self, rules: impl Iterator<Item = &'r Rule>) -> usize {
        let (mut peers, mut services) = (HashSet::new(), HashSet::new());
        for rule in rules {
            peers.extend(rule.peers.iter().flatten());
            services.extend(rule.services.iter().flatten());
        }
        let peers = peers.into_iter().map(|peer| self.peers(peer));
        let services = services.into_iter().map(ranges);
        peers.sum::<usize>() + services.sum::<usize>()
    }
}

fn ranges(service: &Service) -> usize {
    let (_, range) = service.range();
    range.map_or(1, |range| port_prefixes(&range).len())
}
