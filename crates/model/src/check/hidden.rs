//! Rules that another one hides: it is tried first, and matches all that they match.
//!
//! Each rule is compared with those before it, most of them by a few bits ([`Sketch`]). What a comparison beyond that
//! costs is counted, and when [`Cost::MOST`] is spent, no more is looked for: it is a courtesy.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::quoted;
use crate::decode::{Draft, PeerDraft, RuleDraft};
use crate::diagnostic::Sink;
use crate::fabric::Rule;
use crate::keys::fnv1a;
use crate::meaning::{Meaning, Meanings};
use crate::tables::{Direction, Service};

pub(super) fn rules(draft: &Draft<'_>, sink: &mut Sink) {
    let names = Names::new(draft);
    let meanings = Meanings::new(draft);
    for direction in Direction::ALL {
        let rules = draft.rules.iter();
        let rules = rules.filter(|rule| rule.direction.is_some_and(|at| at.value == direction));
        let mut rules: Vec<Reach<'_>> = rules
            .filter_map(|rule| Reach::new(rule, &names, &meanings))
            .collect();
        // Stable: of equals, the first in the file is the first to be tried.
        rules.sort_by_key(|reach| Reverse(reach.rule.priority.unwrap_or(Rule::PRIORITY)));
        let mut cost = Cost(0);
        for (number, hidden) in rules.iter().enumerate() {
            let mut earlier = rules.iter().take(number);
            let Some(first) = earlier.find(|first| first.covers(hidden, &names, &mut cost)) else {
                continue;
            };
            let (owner, other) = (&hidden.rule.name, &first.rule.name);
            let message = format!(
                "{} decides nothing: {} (line {}) is tried first and matches all that it matches",
                quoted("rule", owner),
                quoted("rule", other),
                other.at.line
            );
            let help = "remove the rule, or give it a higher `priority`";
            let said = format!("{} is here", quoted("rule", other));
            sink.warn(owner.at, message, help, Some((other.at, said)));
        }
    }
}

/// What comparisons have cost.
struct Cost(u64);

impl Cost {
    const MOST: u64 = 5_000_000;

    /// Whether so much more may be spent.
    fn spend(&mut self, steps: usize) -> bool {
        self.0 = self.0.saturating_add(steps as u64);
        self.0 <= Self::MOST
    }
}

/// What the names in rules stand for.
struct Names<'d> {
    /// The ports of a group or switch; a port is itself.
    ports: HashMap<Meaning<'d>, Vec<&'d str>>,
    /// The sets that a port belongs to, itself among them.
    sets: HashMap<&'d str, Vec<Meaning<'d>>>,
    /// The declared addresses of what a peer may be called. Of link-local ones made from a MAC (ACL-12) nothing is
    /// asked: whoever hides all declared addresses of a peer was hardly meant to leave those.
    addresses: HashMap<&'d str, Vec<IpNet>>,
    port_bits: HashMap<Meaning<'d>, Bits>,
    surroundings: HashMap<&'d str, Surroundings>,
}

impl<'d> Names<'d> {
    fn new(draft: &'d Draft<'_>) -> Self {
        let mut ports: HashMap<Meaning<'d>, Vec<&'d str>> = HashMap::new();
        let mut declared: HashMap<&'d str, Vec<IpNet>> = HashMap::new();
        for port in &draft.ports {
            let name = port.name.text;
            ports.insert(Meaning::Port(name), vec![name]);
            if let Some(switch) = port.switch {
                ports
                    .entry(Meaning::Switch(switch.value))
                    .or_default()
                    .push(name);
            }
            let addresses = port.addresses.iter().map(|at| IpNet::from(at.value));
            let allowed = port.allowed_addresses.iter().map(|at| at.value);
            declared.insert(name, addresses.chain(allowed).collect());
        }
        for group in &draft.groups {
            let members = group.ports.iter().map(|port| port.value);
            ports.insert(Meaning::Group(group.name.text), members.collect());
        }
        let mut sets: HashMap<&'d str, Vec<Meaning<'d>>> = HashMap::new();
        for (&meaning, members) in &ports {
            for &port in members {
                sets.entry(port).or_default().push(meaning);
            }
        }
        let mut addresses: HashMap<&'d str, Vec<IpNet>> = HashMap::new();
        for (&meaning, members) in &ports {
            let (Meaning::Port(name) | Meaning::Group(name) | Meaning::Switch(name)) = meaning;
            let of_members = members.iter().filter_map(|port| declared.get(port));
            addresses.insert(name, of_members.flatten().copied().collect());
        }
        for network in &draft.networks {
            let networks: Vec<_> = network.networks.iter().map(|at| at.value).collect();
            addresses.insert(network.name.text, IpNet::aggregate(&networks));
        }
        let port_bits = ports.iter().map(|(&meaning, members)| {
            let members = members.iter().map(|port| Bits::of(port.as_bytes()));
            (meaning, Bits::sum(members))
        });
        let surroundings = addresses.iter();
        let surroundings = surroundings.map(|(&name, list)| {
            let list = list.iter().map(|&network| Surroundings::of(network));
            (name, Surroundings::sum(list))
        });
        Self {
            port_bits: port_bits.collect(),
            surroundings: surroundings.collect(),
            ports,
            sets,
            addresses,
        }
    }
}

/// What a rule matches.
struct Reach<'d> {
    rule: &'d RuleDraft<'d>,
    ports: HashSet<Meaning<'d>>,
    /// `None`: anywhere.
    peers: Option<Peers<'d>>,
    /// `None`: anything.
    services: Option<Services>,
    sketch: Sketch,
}

/// By protocol its ports, without overlaps and in order.
type Services = HashMap<u8, Vec<RangeInclusive<u32>>>;

struct Peers<'d> {
    networks: Vec<IpNet>,
    names: HashSet<&'d str>,
}

/// A few bits of what a rule matches, so that most pairs of rules need no closer look: a rule that covers another
/// one has all of the bits that the other one needs.
#[derive(Clone, Copy)]
struct Sketch {
    ports: Bits,
    services: Bits,
    peers: Surroundings,
}

#[derive(Clone, Copy)]
struct Bits {
    needs: u64,
    has: u64,
}

impl Bits {
    const NONE: Self = Self { needs: 0, has: 0 };
    /// Of what is too much to be sketched.
    const ALL: Self = Self {
        needs: 0,
        has: u64::MAX,
    };

    fn of(text: &[u8]) -> Self {
        let bit = 1 << (fnv1a(text) % 64);
        Self {
            needs: bit,
            has: bit,
        }
    }

    fn with(self, more: Self) -> Self {
        Self {
            needs: self.needs | more.needs,
            has: self.has | more.has,
        }
    }

    fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::NONE, Self::with)
    }

    fn cover(self, other: Self) -> bool {
        other.needs & !self.has == 0
    }

    /// A range has the bits of all of its ports, and needs that of its first.
    fn of_service(service: &Service) -> Self {
        const MOST: u16 = 64;
        let (protocol, range) = service.range();
        let Some(range) = range.filter(|range| range.end() - range.start() < MOST) else {
            return Self::ALL;
        };
        let bits = |port: u16| Self::of(&[&[protocol][..], &port.to_be_bytes()].concat());
        Self {
            needs: bits(*range.start()).needs,
            has: Self::sum(range.map(bits)).has,
        }
    }

    /// Of the network of this length around another one.
    fn around(network: IpNet, length: u8) -> Self {
        if network.prefix_len() < length {
            return Self::ALL;
        }
        match IpNet::new(network.addr(), length) {
            Ok(IpNet::V4(around)) => Self::of(&around.network().octets()),
            Ok(IpNet::V6(around)) => Self::of(&around.network().octets()),
            Err(_) => Self::ALL,
        }
    }
}

/// Networks by what is around them: of IPv4 networks of 16 and 24 bits, of IPv6 of 48 and 64.
#[derive(Clone, Copy)]
struct Surroundings {
    wide: Bits,
    narrow: Bits,
}

impl Surroundings {
    const NONE: Self = Self {
        wide: Bits::NONE,
        narrow: Bits::NONE,
    };
    const ALL: Self = Self {
        wide: Bits::ALL,
        narrow: Bits::ALL,
    };

    fn of(network: IpNet) -> Self {
        let (wide, narrow) = match network {
            IpNet::V4(_) => (16, 24),
            IpNet::V6(_) => (48, 64),
        };
        Self {
            wide: Bits::around(network, wide),
            narrow: Bits::around(network, narrow),
        }
    }

    fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::NONE, |sum, more| Self {
            wide: sum.wide.with(more.wide),
            narrow: sum.narrow.with(more.narrow),
        })
    }
}

impl Sketch {
    fn covers(&self, other: &Self) -> bool {
        self.ports.cover(other.ports)
            && self.services.cover(other.services)
            && self.peers.wide.cover(other.peers.wide)
            && self.peers.narrow.cover(other.peers.narrow)
    }
}

impl<'d> Reach<'d> {
    /// `None`: it matches nothing.
    fn new(rule: &'d RuleDraft<'d>, names: &Names<'d>, meanings: &Meanings<'d>) -> Option<Self> {
        let ports = rule.ports.iter();
        let ports: HashSet<_> = ports
            .filter_map(|name| meanings.ports(name.value))
            .collect();
        let of_ports = ports
            .iter()
            .filter_map(|meaning| names.port_bits.get(meaning));
        let port_bits = Bits::sum(of_ports.copied());
        if port_bits.needs == 0 {
            return None;
        }
        let services = rule.services.as_deref();
        let service_bits = services.map_or(Bits::ALL, |list| {
            Bits::sum(list.iter().map(Bits::of_service))
        });
        let peers = rule.peers.as_ref().map(|list| Peers::new(list));
        let peer_bits = peers.as_ref().map_or(Surroundings::ALL, |peers| {
            let named = peers.names.iter();
            let named = named.filter_map(|name| names.surroundings.get(name).copied());
            let own = peers
                .networks
                .iter()
                .map(|&network| Surroundings::of(network));
            Surroundings::sum(own.chain(named))
        });
        Some(Self {
            rule,
            ports,
            peers,
            services: services.map(by_protocol),
            sketch: Sketch {
                ports: port_bits,
                services: service_bits,
                peers: peer_bits,
            },
        })
    }

    fn covers(&self, other: &Self, names: &Names<'d>, cost: &mut Cost) -> bool {
        self.sketch.covers(&other.sketch)
            && self.covers_services(other, cost)
            && self.covers_ports(other, names, cost)
            && self.covers_peers(other, names, cost)
    }

    fn covers_services(&self, other: &Self, cost: &mut Cost) -> bool {
        let Some(mine) = &self.services else {
            return true;
        };
        let Some(others) = &other.services else {
            return false;
        };
        others.iter().all(|(protocol, ranges)| {
            let mine = mine.get(protocol).map(Vec::as_slice).unwrap_or_default();
            cost.spend(mine.len() * ranges.len())
                && ranges.iter().all(|range| {
                    let mut mine = mine.iter();
                    mine.any(|it| it.start() <= range.start() && range.end() <= it.end())
                })
        })
    }

    fn covers_ports(&self, other: &Self, names: &Names<'d>, cost: &mut Cost) -> bool {
        let has = |port: &str| {
            let mut sets = names.sets.get(port).into_iter().flatten();
            sets.any(|set| self.ports.contains(set))
        };
        other.ports.iter().all(|meaning| {
            if self.ports.contains(meaning) {
                return true;
            }
            let ports = names
                .ports
                .get(meaning)
                .map(Vec::as_slice)
                .unwrap_or_default();
            cost.spend(ports.len()) && ports.iter().all(|port| has(port))
        })
    }

    fn covers_peers(&self, other: &Self, names: &Names<'d>, cost: &mut Cost) -> bool {
        let Some(mine) = &self.peers else {
            return true;
        };
        let Some(others) = &other.peers else {
            let all = [IpNet::from(Ipv4Net::default()), Ipv6Net::default().into()];
            return all
                .iter()
                .all(|network| mine.contain(*network, names, cost));
        };
        let mut covered = |network: &IpNet| mine.contain(*network, names, cost);
        others.networks.iter().all(&mut covered)
            && others.names.iter().all(|&name| {
                if mine.names.contains(name) {
                    return true;
                }
                let networks = names
                    .addresses
                    .get(name)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                !networks.is_empty() && networks.iter().all(&mut covered)
            })
    }
}

impl<'d> Peers<'d> {
    fn new(list: &'d [PeerDraft<'d>]) -> Self {
        let mut peers = Self {
            networks: Vec::new(),
            names: HashSet::new(),
        };
        for peer in list {
            match peer {
                PeerDraft::Addresses(network) => peers.networks.push(*network),
                PeerDraft::Name(name) => {
                    peers.names.insert(name.value);
                }
            }
        }
        peers.networks = IpNet::aggregate(&peers.networks);
        peers
    }

    fn contain(&self, network: IpNet, names: &Names<'d>, cost: &mut Cost) -> bool {
        let lists = self
            .names
            .iter()
            .filter_map(|name| names.addresses.get(name));
        let mut lists = lists.map(Vec::as_slice).chain([self.networks.as_slice()]);
        lists.any(|list| cost.spend(list.len()) && list.iter().any(|mine| mine.contains(&network)))
    }
}

/// Stands behind all ports for the packets without any, which only a rule for the whole protocol matches (ACL-4).
const WITHOUT_PORTS: u32 = 0x2_0000;

/// Ranges that meet become one.
fn by_protocol(services: &[Service]) -> Services {
    let mut all = Services::new();
    for service in services {
        let (protocol, range) = service.range();
        let range = range.map_or(0..=WITHOUT_PORTS, |range| {
            u32::from(*range.start())..=u32::from(*range.end())
        });
        all.entry(protocol).or_default().push(range);
    }
    for ranges in all.values_mut() {
        ranges.sort_by_key(|range| *range.start());
        let mut joined: Vec<RangeInclusive<u32>> = Vec::new();
        for range in ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if *range.start() <= last.end() + 1 => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => joined.push(range),
            }
        }
        *ranges = joined;
    }
    all
}
