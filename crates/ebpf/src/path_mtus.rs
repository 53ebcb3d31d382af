//! What is known of the way to each remote: the map `path_mtus`. The programs write what routers of the underlay
//! say, and `overlane mtu --watch` writes what probes find.

use std::collections::BTreeMap;
use std::net::IpAddr;

use zerocopy::{FromBytes, IntoBytes};

use crate::EbpfError;
use crate::abi::{Addr, PathMtu};
use crate::btf::conversion::Known;
use crate::counters::Counted;
use crate::maps::MapSet;
use crate::sys::RawMap;
use crate::tables::{self, Contents, Table};

const NAME: &str = Counted::PathMtus.map();
/// Two reads that agree are one entry; a program that writes in between makes a third one necessary, not more.
const READS: usize = 8;

/// What is known of the ways to remotes, by VTEP, also where it no longer counts ([`is_live`]). Remotes of which nothing
/// is known are not there.
pub fn all(maps: &MapSet) -> Result<BTreeMap<IpAddr, PathMtu>, EbpfError> {
    let map = maps.map(NAME)?;
    let mut known = BTreeMap::new();
    for (addr, number) in numbers(maps)? {
        let entry = read(map, number)?;
        if entry.mtu != 0 {
            known.insert(addr, entry);
        }
    }
    Ok(known)
}

/// Writes what probes found of the way to a remote. False: these maps know no such remote.
pub fn set(maps: &MapSet, remote: IpAddr, mtu: u32, until_s: u32) -> Result<bool, EbpfError> {
    let Some(number) = number_of(maps, remote)? else {
        return Ok(false);
    };
    let map = maps.map(NAME)?;
    let until = read(map, number)?.until;
    let hop = Addr::default();
    // Programs read while this is written, and may see a part of it. The time comes last: an entry that is over
    // stays so until all of the new one is there, and one that lasts has the new size until its own time.
    write(map, number, PathMtu { mtu, until, hop })?;
    let until = until_s;
    write(map, number, PathMtu { mtu, until, hop })?;
    Ok(true)
}

/// Forgets what is known of the way to a remote.
pub fn forget(maps: &MapSet, remote: IpAddr) -> Result<(), EbpfError> {
    match number_of(maps, remote)? {
        Some(number) => write(maps.map(NAME)?, number, PathMtu::default()),
        None => Ok(()),
    }
}

/// Takes what another set knows longer than this one, by the numbers that remotes have there and here.
pub(crate) fn carry(
    old: &MapSet,
    new: &MapSet,
    moves: &[(Option<u32>, u32)],
    known: &mut Known,
) -> Result<(), EbpfError> {
    let (Ok(from), to) = (old.map(NAME), new.map(NAME)?) else {
        return Ok(());
    };
    let Some(conversions) = known.between(from, to)? else {
        return Ok(());
    };
    for (number, new_number) in moves {
        let Some(number) = number else {
            continue;
        };
        let value = from.get(&number.to_ne_bytes());
        let value = value.map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", NAME))?;
        let value = value.and_then(|value| conversions.value.convert(&value));
        let entry = value.and_then(|value| PathMtu::read_from_bytes(&value).ok());
        let entry = entry.unwrap_or_default();
        if entry.mtu != 0 && entry.until > read(to, *new_number)?.until {
            write(to, *new_number, entry)?;
        }
    }
    Ok(())
}

/// Whether the programs still hold it for known. `now_s` is their clock (`bpf_ktime_get_ns`) in seconds.
pub const fn is_live(entry: &PathMtu, now_s: u32) -> bool {
    entry.mtu != 0 && now_s < entry.until
}

fn numbers(maps: &MapSet) -> Result<Vec<(IpAddr, u32)>, EbpfError> {
    let remotes = Contents::from([(Table::Remotes, maps.entries(Table::Remotes)?)]);
    let numbers = tables::remote_numbers(&remotes).filter(|(_, number)| *number != 0);
    Ok(numbers
        .map(|(addr, number)| (addr.into(), number))
        .collect())
}

fn number_of(maps: &MapSet, remote: IpAddr) -> Result<Option<u32>, EbpfError> {
    let numbers = numbers(maps)?;
    let number = numbers.iter().find(|(addr, _)| *addr == remote);
    Ok(number.map(|(_, number)| *number))
}

/// The kernel copies an entry without a lock, while a program may write it.
fn read(map: &RawMap, number: u32) -> Result<PathMtu, EbpfError> {
    let mut last = read_once(map, number)?;
    for _ in 0..READS {
        let again = read_once(map, number)?;
        if again == last {
            break;
        }
        last = again;
    }
    Ok(last)
}

fn read_once(map: &RawMap, number: u32) -> Result<PathMtu, EbpfError> {
    let value = map
        .get(&number.to_ne_bytes())
        .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", NAME))?;
    let value = value.unwrap_or_default();
    let entry = PathMtu::read_from_prefix(&value).map(|(entry, _)| entry);
    Ok(entry.unwrap_or_default())
}

fn write(map: &RawMap, number: u32, entry: PathMtu) -> Result<(), EbpfError> {
    map.put(&number.to_ne_bytes(), entry.as_bytes())
        .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_until_its_time() {
        let entry = |mtu, until| PathMtu {
            mtu,
            until,
            hop: Addr::default(),
        };
        assert!(is_live(&entry(1400, 100), 99));
        assert!(!is_live(&entry(1400, 100), 100));
        assert!(!is_live(&entry(0, 100), 99));
    }
}
