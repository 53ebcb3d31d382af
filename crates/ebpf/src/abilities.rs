//! What remotes said that they can take: the map `abilities`, which the programs write when a remote greets.

use std::collections::BTreeSet;
use std::net::IpAddr;

use zerocopy::{FromBytes, IntoBytes};

use crate::EbpfError;
use crate::abi;
use crate::maps::MapSet;

pub(crate) const ABILITIES: &str = "abilities";

/// The remotes that take UDP super-packets whole.
pub fn take_whole_udp(maps: &MapSet) -> Result<Vec<IpAddr>, EbpfError> {
    let able = said(maps)?
        .into_iter()
        .filter(|(_, value)| value & abi::ABILITY_WHOLE_UDP != 0);
    let mut remotes: Vec<IpAddr> = able.map(|(key, _)| key.into()).collect();
    remotes.sort_unstable();
    Ok(remotes)
}

/// The remotes that said anything: hosts of ours.
pub fn who_said(maps: &MapSet) -> Result<BTreeSet<IpAddr>, EbpfError> {
    let said = said(maps)?.into_iter();
    Ok(said.map(|(key, _)| key.into()).collect())
}

/// Marks what they said as old: an answer replaces it, mark and all. Forgets what others than `remotes` said.
/// True: something is marked.
pub fn doubt(maps: &MapSet, remotes: impl Fn(IpAddr) -> bool) -> Result<bool, EbpfError> {
    let mut doubted = false;
    for (key, value) in said(maps)? {
        if remotes(key.into()) {
            put(maps, &key, value | abi::ABILITY_DOUBTED)?;
            doubted = true;
        } else {
            forget_one(maps, &key)?;
        }
    }
    Ok(doubted)
}

/// Forgets all.
pub fn forget(maps: &MapSet) -> Result<(), EbpfError> {
    maps.clear(ABILITIES)
}

/// Whether one has not said it again.
pub fn are_doubted(maps: &MapSet) -> Result<bool, EbpfError> {
    let said = said(maps)?;
    Ok(said.iter().any(|(_, value)| is_doubted(*value)))
}

/// Forgets what nobody said again. Until they say it, nothing is sent that needs an ability.
pub fn forget_doubted(maps: &MapSet) -> Result<(), EbpfError> {
    let doubted = said(maps)?
        .into_iter()
        .filter(|(_, value)| is_doubted(*value));
    doubted
        .map(|(key, _)| key)
        .try_for_each(|key| forget_one(maps, &key))
}

const fn is_doubted(value: u32) -> bool {
    value & abi::ABILITY_DOUBTED != 0
}

fn said(maps: &MapSet) -> Result<Vec<(abi::Addr, u32)>, EbpfError> {
    let mut said = Vec::new();
    maps.walk(ABILITIES, |key, value| {
        let key = abi::Addr::read_from_bytes(key);
        let value = u32::read_from_bytes(value);
        if let (Ok(key), Ok(value)) = (key, value) {
            said.push((key, value));
        }
    })?;
    Ok(said)
}

fn put(maps: &MapSet, key: &abi::Addr, value: u32) -> Result<(), EbpfError> {
    let map = maps.map(ABILITIES)?;
    map.put(key.as_bytes(), value.as_bytes())
        .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", ABILITIES))
}

fn forget_one(maps: &MapSet, key: &abi::Addr) -> Result<(), EbpfError> {
    let map = maps.map(ABILITIES)?;
    map.delete(key.as_bytes())
        .map_err(EbpfError::call("BPF_MAP_DELETE_ELEM", ABILITIES))
}
