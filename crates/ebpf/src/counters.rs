//! Reads counters: each CPU counts for itself, the sum is what users see.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::{Hook, Verdict};
use zerocopy::FromBytes;

use crate::EbpfError;
use crate::abi::{self, Counter};
use crate::maps::MapSet;
use crate::tables::{Entries, Table};

/// Map of the verdict counters: written by the programs only, so no [`Table`].
pub(crate) const VERDICT_COUNTERS: &str = "verdict_counters";

/// Map of the rules' counters, likewise.
const RULE_COUNTERS: &str = "rule_counters";

/// All counters of one data path.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Every hook and verdict.
    pub verdicts: Vec<(Hook, Verdict, Counter)>,
    /// By VNI and logical port key.
    pub ports: BTreeMap<(u32, u32), abi::PortCounters>,
    /// By VTEP.
    pub remotes: BTreeMap<IpAddr, abi::RemoteCounters>,
}

/// Reads all counters of a map set.
pub fn read(maps: &MapSet) -> Result<Counters, EbpfError> {
    let mut counters = Counters::default();
    let map = maps.map(VERDICT_COUNTERS)?;
    let slots = map
        .array()
        .map_err(EbpfError::call("BPF_MAP_LOOKUP_BATCH", VERDICT_COUNTERS))?;
    for hook in Hook::ALL {
        for &verdict in Verdict::ALL {
            let slot = hook.number() as usize * abi::VERDICT_SLOTS + verdict.number() as usize;
            let value = slots.get(slot * map.stride..).unwrap_or_default();
            let value = value.get(..map.stride).unwrap_or_default();
            let sum = sum(value, Counter::default(), Counter::plus);
            counters.verdicts.push((hook, verdict, sum));
        }
    }
    for (key, value) in values(maps, Table::PortCounters)? {
        let Ok(key) = abi::PortKey::read_from_bytes(&key) else {
            continue;
        };
        counters.ports.insert(
            (key.switch_id, key.key),
            sum(
                &value,
                abi::PortCounters::default(),
                abi::PortCounters::plus,
            ),
        );
    }
    for (key, value) in values(maps, Table::RemoteCounters)? {
        let Ok(key) = abi::Addr::read_from_bytes(&key) else {
            continue;
        };
        counters.remotes.insert(
            key.into(),
            sum(
                &value,
                abi::RemoteCounters::default(),
                abi::RemoteCounters::plus,
            ),
        );
    }
    Ok(counters)
}

/// Counters of rules, by number, of those that were asked for.
pub fn rules(
    maps: &MapSet,
    numbers: impl IntoIterator<Item = u32>,
) -> Result<BTreeMap<u32, Counter>, EbpfError> {
    let map = maps.map(RULE_COUNTERS)?;
    let count = |number: u32| {
        let value = map
            .get(&number.to_ne_bytes())
            .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", RULE_COUNTERS))?;
        let value = value.unwrap_or_default();
        Ok((number, sum(&value, Counter::default(), Counter::plus)))
    };
    numbers.into_iter().map(count).collect()
}

/// Gives rules the counters that they had under other numbers, maybe in another set; those without one begin
/// at zero. What is counted under an old number meanwhile is lost to the counters.
pub fn move_rules(
    old: &MapSet,
    new: &MapSet,
    moves: impl IntoIterator<Item = (Option<u32>, u32)>,
) -> Result<(), EbpfError> {
    let (old, new) = (old.map(RULE_COUNTERS)?, new.map(RULE_COUNTERS)?);
    let same_size = old.stride == new.stride;
    let mut values = Vec::new();
    for (from, to) in moves {
        let value = match from.filter(|_| same_size) {
            Some(from) => old
                .get(&from.to_ne_bytes())
                .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", RULE_COUNTERS))?,
            None => None,
        };
        values.push((to, value.unwrap_or_else(|| vec![0; new.stride])));
    }
    // All were read before any is written: numbers may change places.
    for (to, value) in values {
        new.put(&to.to_ne_bytes(), &value)
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", RULE_COUNTERS))?;
    }
    Ok(())
}

/// Takes the counters of `old` over into `new`, where `new` has the same entry of the same size. What the
/// old programs count between this and their replacement is lost to the counters, not to the network.
pub fn carry_over(old: &MapSet, new: &MapSet) -> Result<(), EbpfError> {
    for table in [Table::PortCounters, Table::RemoteCounters] {
        if old.map(table.name())?.layout.value_size != new.map(table.name())?.layout.value_size {
            continue;
        }
        for (key, value) in values(old, table)? {
            if new.get(table, &key)?.is_some() {
                new.put(table, &key, &value)?;
            }
        }
    }
    let (old, new) = (old.map(VERDICT_COUNTERS)?, new.map(VERDICT_COUNTERS)?);
    if old.layout.value_size != new.layout.value_size {
        return Ok(());
    }
    for slot in 0..old.layout.max_entries.min(new.layout.max_entries) {
        let key = slot.to_ne_bytes();
        let value = old
            .get(&key)
            .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", VERDICT_COUNTERS))?;
        if let Some(value) = value {
            new.put(&key, &value)
                .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", VERDICT_COUNTERS))?;
        }
    }
    Ok(())
}

fn values(maps: &MapSet, table: Table) -> Result<Entries, EbpfError> {
    let mut found = Entries::new();
    for key in maps.entries(table)?.into_keys() {
        if let Some(value) = maps.get(table, &key)? {
            found.insert(key, value);
        }
    }
    Ok(found)
}

/// Adds up the values of all CPUs, which lie one after the other on 8-byte borders.
fn sum<T: FromBytes>(value: &[u8], zero: T, plus: fn(T, T) -> T) -> T {
    value
        .chunks_exact(size_of::<T>().next_multiple_of(8))
        .filter_map(|cpu| T::read_from_prefix(cpu).ok())
        .fold(zero, |sum, (of_cpu, _)| plus(sum, of_cpu))
}
