//! What the programs count, for whom: learned addresses and found neighbours (`bpf/lib/counted.h`). Here both are only
//! made to forget what the tables no longer bear.

use std::collections::{BTreeMap, BTreeSet};

use zerocopy::{Immutable, IntoBytes};

use crate::EbpfError;
use crate::abi;
use crate::maps::MapSet;

/// An entry, and who counts it.
pub(crate) type Owned<K> = (K, abi::PortKey);

/// Deletes `stale` entries of the map `name`, and counts anew whoever had one; counts that `is_borne` refuses go too.
pub(crate) fn forget<K: IntoBytes + Immutable>(
    maps: &MapSet,
    [name, counts]: [&'static str; 2],
    kept: &[Owned<K>],
    stale: &[Owned<K>],
    is_borne: impl Fn(abi::PortKey) -> bool,
) -> Result<(), EbpfError> {
    for (key, _) in stale {
        delete(maps, name, key)?;
    }
    let touched: BTreeSet<_> = stale.iter().map(|(_, owner)| *owner).collect();
    let mut left: BTreeMap<_, u32> = BTreeMap::new();
    for (_, owner) in kept {
        *left.entry(*owner).or_default() += 1;
    }
    for (key, count) in maps.all::<abi::PortKey, abi::Learning>(counts)? {
        if !is_borne(key) {
            delete(maps, counts, &key)?;
        } else if touched.contains(&key) {
            // What a program counts at this moment may be missing: its next sweep counts anew.
            let macs = left.get(&key).copied().unwrap_or_default();
            let map = maps.map(counts)?;
            map.put(key.as_bytes(), abi::Learning { macs, ..count }.as_bytes())
                .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", counts))?;
        }
    }
    Ok(())
}

/// Counts the entries of each of these owners, once for each that it has.
pub(crate) fn count(
    maps: &MapSet,
    counts: &'static str,
    owners: impl Iterator<Item = abi::PortKey>,
) -> Result<(), EbpfError> {
    let mut numbers: BTreeMap<_, u32> = BTreeMap::new();
    for owner in owners {
        *numbers.entry(owner).or_default() += 1;
    }
    let map = maps.map(counts)?;
    let there: BTreeMap<_, _> = maps
        .all::<abi::PortKey, abi::Learning>(counts)?
        .into_iter()
        .collect();
    for (owner, macs) in numbers {
        let before = there.get(&owner).copied().unwrap_or_default();
        // What a program counts at this moment may be missing: its next sweep counts anew.
        map.put(
            owner.as_bytes(),
            abi::Learning { macs, ..before }.as_bytes(),
        )
        .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", counts))?;
    }
    Ok(())
}

fn delete<K: IntoBytes + Immutable>(
    maps: &MapSet,
    name: &'static str,
    key: &K,
) -> Result<(), EbpfError> {
    let map = maps.map(name)?;
    map.delete(key.as_bytes())
        .map_err(EbpfError::call("BPF_MAP_DELETE_ELEM", name))
}
