//! What was added between two readings of the data path's counters, in the words of the reference executor,
//! and what several packets have counted together.

use std::collections::BTreeMap;

use overlane_ebpf::abi;
use overlane_ebpf::counters::Counters as MapCounters;
use overlane_model::{Name, Tables};
use overlane_pipeline::{Counter, Counters};

/// `after` less `before`. A port that is not in the tables is none of ours.
pub fn added(tables: &Tables, before: &MapCounters, after: &MapCounters) -> Counters {
    let mut added = Counters::default();
    let pairs = before.verdicts.iter().zip(&after.verdicts);
    for ((_, _, old), (hook, verdict, new)) in pairs {
        put(&mut added.verdicts, (*hook, *verdict), *old, *new);
    }
    for port in &tables.ports {
        let key = (port.switch.number(), port.key.get().into());
        let count = |counters: &MapCounters| {
            let read = counters.ports.get(&key);
            read.map_or_else(Default::default, |read| read.value)
        };
        let (old, new) = (count(before), count(after));
        put(
            &mut added.from_port,
            port.name.clone(),
            old.from_port,
            new.from_port,
        );
        put(
            &mut added.to_port,
            port.name.clone(),
            old.to_port,
            new.to_port,
        );
        put(
            &mut added.port_dropped,
            port.name.clone(),
            old.dropped,
            new.dropped,
        );
        put(
            &mut added.port_untold,
            port.name.clone(),
            old.untold,
            new.untold,
        );
    }
    for (&remote, new) in &after.remotes {
        let old = before.remotes.get(&remote);
        let old = old.map_or_else(Default::default, |old| old.value);
        let new = new.value;
        put(&mut added.to_remote, remote, old.to_remote, new.to_remote);
        put(
            &mut added.from_remote,
            remote,
            old.from_remote,
            new.from_remote,
        );
        put(&mut added.remote_dropped, remote, old.dropped, new.dropped);
    }
    added
}

/// Counters of rules by number.
pub type RuleCounters = BTreeMap<u32, abi::Counter>;

/// The same for the rules of the tables.
pub fn added_rules(
    tables: &Tables,
    before: &RuleCounters,
    after: &RuleCounters,
) -> BTreeMap<Name, Counter> {
    let mut added = BTreeMap::new();
    for (number, rule) in (0..).zip(&tables.firewall.rules) {
        let count = |counters: &RuleCounters| counters.get(&number).copied().unwrap_or_default();
        put(&mut added, rule.name.clone(), count(before), count(after));
    }
    added
}

/// Counts what another packet has counted, too.
pub fn add(into: &mut Counters, more: &Counters) {
    each(&mut into.verdicts, &more.verdicts);
    each(&mut into.from_port, &more.from_port);
    each(&mut into.to_port, &more.to_port);
    each(&mut into.port_dropped, &more.port_dropped);
    each(&mut into.port_untold, &more.port_untold);
    each(&mut into.to_remote, &more.to_remote);
    each(&mut into.from_remote, &more.from_remote);
    each(&mut into.remote_dropped, &more.remote_dropped);
    each(&mut into.rules, &more.rules);
}

fn each<K: Ord + Clone>(into: &mut BTreeMap<K, Counter>, more: &BTreeMap<K, Counter>) {
    for (key, counter) in more {
        plus(into.entry(key.clone()).or_default(), *counter);
    }
}

/// The same of one counter.
pub const fn plus(into: &mut Counter, more: Counter) {
    into.packets += more.packets;
    into.segments += more.segments;
    into.bytes += more.bytes;
}

fn put<K: Ord>(into: &mut BTreeMap<K, Counter>, key: K, old: abi::Counter, new: abi::Counter) {
    let added = Counter {
        packets: new.packets.wrapping_sub(old.packets),
        segments: new.segments.wrapping_sub(old.segments),
        bytes: new.bytes.wrapping_sub(old.bytes),
    };
    if added != Counter::default() {
        into.insert(key, added);
    }
}
