//! What the programs have learned: the maps `learned` and `learning`, which they write and nobody else. They
//! change while they are read.

use std::collections::BTreeMap;

use zerocopy::FromBytes;

use crate::EbpfError;
use crate::abi;
use crate::maps::MapSet;

const LEARNED: &str = "learned";
const LEARNING: &str = "learning";

/// One learned address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedEntry {
    /// Switch and MAC.
    pub key: abi::FdbKey,
    /// Where it was seen, and when.
    pub value: abi::Learned,
}

/// All learned addresses, old ones among them, in no order. One that comes or goes meanwhile may be missed.
pub fn entries(maps: &MapSet) -> Result<Vec<LearnedEntry>, EbpfError> {
    let read = |(key, value): (Vec<u8>, Vec<u8>)| {
        let key = abi::FdbKey::read_from_bytes(&key).ok()?;
        let value = abi::Learned::read_from_bytes(&value).ok()?;
        Some(LearnedEntry { key, value })
    };
    let entries = maps.changing_entries(LEARNED)?;
    Ok(entries.into_iter().filter_map(read).collect())
}

/// How much each learning port has learned.
pub fn counts(maps: &MapSet) -> Result<BTreeMap<abi::PortKey, abi::Learning>, EbpfError> {
    let read = |(key, value): (Vec<u8>, Vec<u8>)| {
        let key = abi::PortKey::read_from_bytes(&key).ok()?;
        Some((key, abi::Learning::read_from_bytes(&value).ok()?))
    };
    let entries = maps.changing_entries(LEARNING)?;
    Ok(entries.into_iter().filter_map(read).collect())
}
