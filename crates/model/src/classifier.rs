//! The classifier of acl: rules become rule sets, prefixes of peers and prefixes of services
//! (`bpf/lib/abi_firewall.h`, struct rule_set). The crate `ebpf` turns the result into map entries; `check` asks whether
//! it fits.
//!
//! A longest-prefix match finds one entry only, so the entry of each prefix has the rules of all wider ones
//! as well. An entry that would say the same as the next wider one is left out, and equal sets are one.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::rc::Rc;

use ipnet::IpNet;
use overlane_wire::PortKey;

use crate::sizes::{Size, TooMany};
use crate::tables::{Direction, FirewallTable, RuleTable, Service, SwitchId};

/// Bits of a word of a set.
const BITS: usize = 64;

/// Number of a set in [`Classifier::sets`]; set 0 is empty and has no entry.
pub type SetIndex = usize;

/// The rules of one host, ready for lookups.
#[derive(Debug, Default)]
pub struct Classifier {
    /// Distinct sets as the bits of their rules, without words that are zero at the end; the first is the empty one.
    pub sets: Vec<Vec<u64>>,
    /// The rules that name a port, by its switch, key and direction; ports without any are not here.
    pub ports: BTreeMap<(SwitchId, PortKey, Direction), SetIndex>,
    /// The rules that a peer matches.
    pub peers: Vec<(PeerPrefix, SetIndex)>,
    /// The rules that a service matches.
    pub services: Vec<(ServicePrefix, SetIndex)>,
}

/// A network of peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerPrefix {
    /// 4 or 6.
    pub family: u8,
    /// As `::ffff:a.b.c.d` of IPv4.
    pub addr: u128,
    /// Of `addr`; 0: the whole family.
    pub bits: u32,
}

/// Some services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServicePrefix {
    /// All.
    Any,
    /// All of a protocol, those without ports too.
    Protocol(u8),
    /// Ports of a protocol that begin with these bits, at least one.
    Ports {
        /// The protocol.
        protocol: u8,
        /// With zeros behind the prefix.
        port: u16,
        /// Of `port`, 1 to 16.
        bits: u32,
    },
}

impl Classifier {
    /// Builds the classifier. Fails when there are too many rules, prefixes or sets for the maps.
    pub fn new(firewall: &FirewallTable) -> Result<Self, TooMany> {
        let rules = &firewall.rules;
        Size::Rules.check(rules.len())?;
        let mut sets = Sets::new();
        let mut classifier = Self {
            sets: Vec::new(),
            ports: ports(rules, &mut sets)?,
            peers: peers(rules, &mut sets)?,
            services: services(rules, &mut sets)?,
        };
        Size::RulePeers.check(classifier.peers.len())?;
        Size::RuleServices.check(classifier.services.len())?;
        classifier.sets = sets.all.iter().map(|set| set.0.clone()).collect();
        Ok(classifier)
    }

    /// The set of a port.
    pub fn port(&self, switch: SwitchId, key: PortKey, direction: Direction) -> SetIndex {
        let found = self.ports.get(&(switch, key, direction));
        found.copied().unwrap_or_default()
    }
}

/// Rules by number, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, rule: usize) {
        if self.0.len() <= rule / BITS {
            self.0.resize(rule / BITS + 1, 0);
        }
        self.0[rule / BITS] |= 1 << (rule % BITS);
    }

    fn with(&self, other: &Self) -> Self {
        let (long, short) = if self.0.len() < other.0.len() {
            (other, self)
        } else {
            (self, other)
        };
        let mut words = long.0.clone();
        for (word, more) in words.iter_mut().zip(&short.0) {
            *word |= more;
        }
        Self(words)
    }
}

/// Each distinct set once.
struct Sets {
    all: Vec<Rc<Set>>,
    numbers: HashMap<Rc<Set>, SetIndex>,
}

impl Sets {
    fn new() -> Self {
        let mut sets = Self {
            all: Vec::new(),
            numbers: HashMap::new(),
        };
        sets.push(Rc::new(Set::default()));
        sets
    }

    fn push(&mut self, set: Rc<Set>) -> SetIndex {
        let number = self.all.len();
        self.all.push(Rc::clone(&set));
        self.numbers.insert(set, number);
        number
    }

    fn number(&mut self, set: &Rc<Set>) -> Result<SetIndex, TooMany> {
        if let Some(&number) = self.numbers.get(set) {
            return Ok(number);
        }
        Size::RuleSets.check(self.all.len())?;
        Ok(self.push(Rc::clone(set)))
    }
}

fn ports(
    rules: &[RuleTable],
    sets: &mut Sets,
) -> Result<BTreeMap<(SwitchId, PortKey, Direction), SetIndex>, TooMany> {
    let mut named: BTreeMap<_, Set> = BTreeMap::new();
    for (number, rule) in rules.iter().enumerate() {
        for &(switch, key) in &rule.ports {
            let place = (switch, key, rule.direction);
            named.entry(place).or_default().insert(number);
        }
    }
    let numbered = named
        .into_iter()
        .map(|(place, set)| Ok((place, sets.number(&Rc::new(set))?)));
    numbered.collect()
}

/// The first bits of something, and how many.
pub type Prefix = (u128, u32);

/// Prefixes of one trie with the rules that name exactly them. In this order a prefix comes behind all that
/// contain it.
type Trie = BTreeMap<Prefix, Set>;

/// The entries of one trie below a prefix with the set `root`, which is not among them.
fn nest(trie: Trie, root: &Rc<Set>, sets: &mut Sets) -> Result<Vec<(Prefix, SetIndex)>, TooMany> {
    let mut entries = Vec::new();
    // The prefixes that contain the one at hand, each with all its rules.
    let mut around: Vec<(Prefix, Rc<Set>)> = Vec::new();
    for (prefix, own) in trie {
        while around
            .last()
            .is_some_and(|(wider, _)| !contains(*wider, prefix))
        {
            around.pop();
        }
        let wider = around.last().map_or(root, |(_, set)| set);
        let set = Rc::new(wider.with(&own));
        if set != *wider {
            entries.push((prefix, sets.number(&set)?));
            around.push((prefix, set));
        }
    }
    Ok(entries)
}

/// Whether the first prefix has all of the second one.
pub fn contains((wide, bits): Prefix, (narrow, more): Prefix) -> bool {
    bits <= more && (wide ^ narrow).leading_zeros() >= bits
}

fn peers(rules: &[RuleTable], sets: &mut Sets) -> Result<Vec<(PeerPrefix, SetIndex)>, TooMany> {
    let mut any = Set::default();
    let (mut v4, mut v6) = (Trie::new(), Trie::new());
    for (number, rule) in rules.iter().enumerate() {
        let Some(networks) = &rule.peers else {
            any.insert(number);
            continue;
        };
        for network in networks {
            let (trie, prefix) = match network {
                IpNet::V4(_) => (&mut v4, peer_prefix(*network)),
                IpNet::V6(_) => (&mut v6, peer_prefix(*network)),
            };
            let place = (prefix.addr, prefix.bits);
            trie.entry(place).or_default().insert(number);
        }
    }
    let any = Rc::new(any);
    let mut entries = Vec::new();
    for (family, trie) in [(4, v4), (6, v6)] {
        let prefix = |addr, bits| PeerPrefix { family, addr, bits };
        entries.extend(root(prefix(0, 0), &any, sets)?);
        let nested = nest(trie, &any, sets)?.into_iter();
        entries.extend(nested.map(|((addr, bits), set)| (prefix(addr, bits), set)));
    }
    Ok(entries)
}

/// The entry of the widest prefix, unless it has nothing to say.
fn root<P>(prefix: P, set: &Rc<Set>, sets: &mut Sets) -> Result<Option<(P, SetIndex)>, TooMany> {
    let number = sets.number(set)?;
    Ok((number != 0).then_some((prefix, number)))
}

/// A network as the maps have it.
pub fn peer_prefix(network: IpNet) -> PeerPrefix {
    let network = network.trunc();
    let of_addr = u32::from(network.prefix_len());
    let (family, addr, bits) = match network {
        IpNet::V4(network) => (4, network.addr().to_ipv6_mapped(), 96 + of_addr),
        IpNet::V6(network) => (6, network.addr(), of_addr),
    };
    PeerPrefix {
        family,
        addr: addr.to_bits(),
        bits,
    }
}

fn services(
    rules: &[RuleTable],
    sets: &mut Sets,
) -> Result<Vec<(ServicePrefix, SetIndex)>, TooMany> {
    let mut any = Set::default();
    // By protocol: those that ask for no port, and prefixes of ports.
    let mut protocols: BTreeMap<u8, (Set, Trie)> = BTreeMap::new();
    for (number, rule) in rules.iter().enumerate() {
        let Some(services) = &rule.services else {
            any.insert(number);
            continue;
        };
        for (protocol, range) in services.iter().map(Service::range) {
            let (whole, trie) = protocols.entry(protocol).or_default();
            match range {
                None => whole.insert(number),
                Some(range) => {
                    for (port, bits) in port_prefixes(&range) {
                        let place = (u128::from(port) << 112, bits);
                        trie.entry(place).or_default().insert(number);
                    }
                }
            }
        }
    }
    let any = Rc::new(any);
    let mut entries = Vec::from_iter(root(ServicePrefix::Any, &any, sets)?);
    for (protocol, (whole, trie)) in protocols {
        let whole = Rc::new(any.with(&whole));
        if whole != any {
            entries.push((ServicePrefix::Protocol(protocol), sets.number(&whole)?));
        }
        let ports = |((port, bits), set): (Prefix, SetIndex)| {
            let port = (port >> 112) as u16;
            let prefix = ServicePrefix::Ports {
                protocol,
                port,
                bits,
            };
            (prefix, set)
        };
        entries.extend(nest(trie, &whole, sets)?.into_iter().map(ports));
    }
    Ok(entries)
}

/// The prefixes that together are a range of ports: each as wide as it can be, but never all ports, since
/// what has no port asks for that and has none of them.
pub(crate) fn port_prefixes(range: &RangeInclusive<u16>) -> Vec<(u16, u32)> {
    let mut prefixes = Vec::new();
    let (mut next, end) = (u32::from(*range.start()), u32::from(*range.end()) + 1);
    while next < end {
        let aligned = next.trailing_zeros().min(15);
        let fits = (end - next).ilog2();
        let free = aligned.min(fits);
        prefixes.push((next as u16, 16 - free));
        next += 1 << free;
    }
    prefixes
}

#[cfg(test)]
mod tests;
