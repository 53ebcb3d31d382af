//! The firewall's rules as map entries. `bpf/lib/abi_firewall.h`, struct rule_set, says how packets and `apply` keep out
//! of each other's way: two generations, and sets that never change while something refers to them.

use std::collections::{BTreeMap, BTreeSet};

use overlane_model::classifier::{Classifier, PeerPrefix, ServicePrefix, SetIndex};
use overlane_model::{Action, Direction, PortTable, Tables};
use zerocopy::IntoBytes;

use super::numbering::Numbering;
use super::{Contents, Table, flags, put, read};
use crate::abi;
use crate::abi::firewall as fw;

/// Number of a rule in the maps, by its place in the order in which rules are tried.
pub const fn rule_number(generation: u8, place: usize) -> u32 {
    generation as u32 * fw::MAX_RULES as u32 + place as u32
}

/// What ports have to know of the rules.
#[derive(Debug)]
pub(super) struct PortRules<'a> {
    classifier: &'a Classifier,
    numbers: Vec<u32>,
    generation: u8,
}

impl PortRules<'_> {
    /// Number of the rule set of a port and direction.
    pub(super) fn set(&self, port: &PortTable, direction: Direction) -> u32 {
        let set = self.classifier.port(port.switch, port.key, direction);
        self.numbers.get(set).copied().unwrap_or_default()
    }

    /// The flags of a port that has a firewall.
    pub(super) fn flags(&self, port: &PortTable) -> u32 {
        let Some(firewall) = &port.firewall else {
            return 0;
        };
        let (from, to) = (firewall.asks_from_port, firewall.asks_to_port);
        flags([
            (true, abi::PORT_FIREWALL),
            (firewall.drop_from_port, abi::PORT_DROP_FROM),
            (firewall.drop_to_port, abi::PORT_DROP_TO),
            (firewall.allow_when_full, abi::PORT_ALLOW_WHEN_FULL),
            (self.generation == 1, abi::PORT_RULES_ODD),
            (firewall.drop_non_ip, abi::PORT_DROP_NON_IP),
            (from.protocol, abi::PORT_ASKS_PROTOCOL_FROM),
            (to.protocol, abi::PORT_ASKS_PROTOCOL_TO),
            (from.ports, abi::PORT_ASKS_PORTS_FROM),
            (to.ports, abi::PORT_ASKS_PORTS_TO),
        ])
    }
}

/// Writes sets, peers, services and rules. The generation is the one that the ports use now if it says the
/// same, else the other one.
pub(super) fn rules<'a>(
    tables: &Tables,
    classifier: &'a Classifier,
    current: &Contents,
    contents: &mut Contents,
) -> PortRules<'a> {
    let known = current.get(&Table::RuleSets).into_iter().flatten();
    let mut numbering = Numbering::keep(known.filter_map(|(key, set)| {
        let number = <[u8; 4]>::try_from(key.as_slice()).ok()?;
        Some((set.clone(), u32::from_ne_bytes(number)))
    }));
    let mut numbers = vec![0];
    for set in classifier.sets.iter().skip(1) {
        let set = set_entry(set);
        let number = numbering.number(set.as_bytes().to_vec());
        put(contents, Table::RuleSets, &number, &set);
        numbers.push(number);
    }
    let entries = |generation| entries(tables, classifier, &numbers, generation);
    let in_use: BTreeSet<u8> = read::<abi::PortId, abi::Port>(current, Table::Ports)
        .filter(|(_, port)| port.flags & abi::PORT_FIREWALL != 0)
        .map(|(_, port)| u8::from(port.flags & abi::PORT_RULES_ODD != 0))
        .collect();
    let same = in_use.iter().copied().find(|&generation| {
        let wanted = entries(generation);
        is_there(current, &wanted, generation)
    });
    let generation = match (same, in_use.first(), in_use.len()) {
        (Some(generation), ..) => generation,
        (None, Some(generation), 1) => 1 - generation,
        // Nobody uses any; or an apply was killed in the middle of the change.
        _ => 0,
    };
    contents.extend(entries(generation));
    PortRules {
        classifier,
        numbers,
        generation,
    }
}

/// A set with the summary of its words.
pub(super) fn set_entry(words: &[u64]) -> fw::RuleSet {
    let mut set = fw::RuleSet {
        summary: [0; fw::RULE_SUMMARY_WORDS],
        words: [0; fw::RULE_WORDS],
    };
    let places = set.words.iter_mut().enumerate();
    for ((index, place), word) in places.zip(words).filter(|(_, word)| **word != 0) {
        *place = *word;
        set.summary[index / 64] |= 1 << (index % 64);
    }
    set
}

/// All that belongs to one generation.
fn entries(
    tables: &Tables,
    classifier: &Classifier,
    numbers: &[u32],
    generation: u8,
) -> BTreeMap<Table, super::Entries> {
    let mut contents = Contents::new();
    let number = |set: SetIndex| numbers.get(set).copied().unwrap_or_default();
    for (prefix, set) in &classifier.peers {
        let key = peer_key(prefix, generation);
        put(&mut contents, Table::RulePeers, &key, &number(*set));
    }
    for (prefix, set) in &classifier.services {
        let key = service_key(prefix, generation);
        put(&mut contents, Table::RuleServices, &key, &number(*set));
    }
    for (place, rule) in tables.firewall.rules.iter().enumerate() {
        let entry = fw::Rule {
            action: match rule.action {
                Action::Allow => fw::RULE_ALLOW,
                Action::AllowStateless => fw::RULE_ALLOW_STATELESS,
                Action::Drop => fw::RULE_DROP,
                Action::Reject => fw::RULE_REJECT,
            },
            flags: flags([(rule.log, fw::RULE_LOG)]),
        };
        let key = rule_number(generation, place);
        put(&mut contents, Table::Rules, &key, &entry);
    }
    contents
}

/// Whether the kernel has exactly these peers and services in this generation, and these rules.
fn is_there(current: &Contents, wanted: &Contents, generation: u8) -> bool {
    let nothing = super::Entries::new();
    let of = |contents: &Contents, table| contents.get(&table).unwrap_or(&nothing).clone();
    let same = |table| {
        let mut there = of(current, table);
        there.retain(|key, _| is_of_generation(key, generation));
        there == of(wanted, table)
    };
    let rules = current.get(&Table::Rules).unwrap_or(&nothing);
    same(Table::RulePeers)
        && same(Table::RuleServices)
        && of(wanted, Table::Rules)
            .iter()
            .all(|(key, rule)| super::has(rules, Table::Rules, key, rule))
}

/// Whether a key of the maps of peers and services belongs to a generation.
pub(super) fn is_of_generation(key: &[u8], generation: u8) -> bool {
    key_generation(key) == Some(generation)
}

/// The generation in such a key stands right behind the length of the prefix.
pub(super) fn key_generation(key: &[u8]) -> Option<u8> {
    key.get(size_of::<u32>()).copied()
}

fn peer_key(prefix: &PeerPrefix, generation: u8) -> fw::RulePeerKey {
    fw::RulePeerKey {
        prefixlen: 32 + prefix.bits,
        generation,
        family: prefix.family,
        pad: 0,
        addr: abi::Addr::from_bits(prefix.addr),
    }
}

fn service_key(prefix: &ServicePrefix, generation: u8) -> fw::RuleServiceKey {
    let (bits, protocol, port) = match *prefix {
        ServicePrefix::Any => (0, 0, 0),
        ServicePrefix::Protocol(protocol) => (8, protocol, 0),
        ServicePrefix::Ports {
            protocol,
            port,
            bits,
        } => (8 + bits, protocol, port),
    };
    fw::RuleServiceKey {
        prefixlen: 8 + bits,
        generation,
        protocol,
        port: port.to_be_bytes(),
    }
}

/// The generation of the rules in encoded contents; 0 when there are none.
pub fn rules_generation(contents: &Contents) -> u8 {
    let first = contents.get(&Table::Rules).and_then(|rules| {
        let number = <[u8; 4]>::try_from(rules.keys().next()?.as_slice()).ok()?;
        Some(u32::from_ne_bytes(number))
    });
    u8::from(first.is_some_and(|number| number as usize >= fw::MAX_RULES))
}
