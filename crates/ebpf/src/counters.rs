//! Reads counters: each CPU counts for itself, the sum is what users see.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use overlane_model::{Hook, Verdict};
use zerocopy::{FromBytes, IntoBytes};

use crate::EbpfError;
use crate::abi::{self, Counter};
use crate::btf::conversion::Known;
use crate::carry::converted;
use crate::maps::MapSet;
use crate::sys::RawMap;
use crate::tables::{self, Contents, Table};

/// Map of the verdict counters.
pub(crate) const VERDICT_COUNTERS: &str = "verdict_counters";

/// What has counters with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Logical ports.
    Ports,
    /// Remotes.
    Remotes,
    /// Path MTUs of remotes: no counters, but they go where those go.
    PathMtus,
    /// Rules.
    Rules,
}

/// Which number counters have: the old one, if they had one, and the new one.
pub type Moves = Vec<(Option<u32>, u32)>;

impl Counted {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Ports, Self::Remotes, Self::PathMtus, Self::Rules];

    /// The map's name.
    pub(crate) const fn map(self) -> &'static str {
        match self {
            Self::Ports => "port_counters",
            Self::Remotes => "remote_counters",
            Self::PathMtus => "path_mtus",
            Self::Rules => "rule_counters",
        }
    }

    /// Bytes of a value of one CPU.
    pub(crate) const fn value_size(self) -> usize {
        match self {
            Self::Ports => size_of::<abi::PortCounters>(),
            Self::Remotes => size_of::<abi::RemoteCounters>(),
            Self::PathMtus => size_of::<abi::PathMtu>(),
            Self::Rules => size_of::<Counter>(),
        }
    }

    /// What has a number in these entries, by key, and the number. Rules have names, which are not here. 0 is no
    /// number: a build that gave none has it there.
    fn numbers(self, contents: &Contents) -> BTreeMap<Vec<u8>, u32> {
        let mut numbers: BTreeMap<Vec<u8>, u32> = match self {
            Self::Ports => tables::port_numbers(contents)
                .map(|(key, number)| (key.as_bytes().to_vec(), number))
                .collect(),
            Self::Remotes | Self::PathMtus => tables::remote_numbers(contents)
                .map(|(addr, number)| (addr.as_bytes().to_vec(), number))
                .collect(),
            Self::Rules => BTreeMap::new(),
        };
        numbers.retain(|_, number| *number != 0);
        numbers
    }

    /// The numbers of all ports or remotes in `new`, with those that they have in `old`.
    pub fn moves(self, old: &Contents, new: &Contents) -> Moves {
        let old = self.numbers(old);
        let new = self.numbers(new).into_iter();
        new.map(|(key, number)| (old.get(&key).copied(), number))
            .collect()
    }
}

/// All counters of one data path.
#[derive(Debug, Clone)]
pub struct Counters {
    /// When those of the verdicts were read, all at once.
    pub at: Instant,
    /// Every hook and verdict.
    pub verdicts: Vec<(Hook, Verdict, Counter)>,
    /// By VNI and logical port key.
    pub ports: BTreeMap<(u32, u32), Timed<abi::PortCounters>>,
    /// By VTEP.
    pub remotes: BTreeMap<IpAddr, Timed<abi::RemoteCounters>>,
}

/// What was read, and when: a rate is of these two.
#[derive(Debug, Clone, Copy)]
pub struct Timed<T> {
    /// When.
    pub at: Instant,
    /// What.
    pub value: T,
}

/// Reads all counters of a map set.
pub fn read(maps: &MapSet) -> Result<Counters, EbpfError> {
    // What takes long stands before the counters: their times shall be near to each other.
    let known = numbered(maps)?;
    let map = maps.map(VERDICT_COUNTERS)?;
    let mut counters = Counters {
        at: Instant::now(),
        verdicts: Vec::new(),
        ports: BTreeMap::new(),
        remotes: BTreeMap::new(),
    };
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
    for (key, number) in tables::port_numbers(&known) {
        let at = Instant::now();
        let value = get(maps, Counted::Ports, number)?;
        let zero = abi::PortCounters::default();
        let value = sum(&value, zero, abi::PortCounters::plus);
        let key = (key.switch_id, key.key);
        counters.ports.insert(key, Timed { at, value });
    }
    for (addr, number) in tables::remote_numbers(&known) {
        let at = Instant::now();
        let value = get(maps, Counted::Remotes, number)?;
        let zero = abi::RemoteCounters::default();
        let value = sum(&value, zero, abi::RemoteCounters::plus);
        counters.remotes.insert(addr.into(), Timed { at, value });
    }
    Ok(counters)
}

/// Counters of rules, by number, of those that were asked for.
pub fn rules(
    maps: &MapSet,
    numbers: impl IntoIterator<Item = u32>,
) -> Result<BTreeMap<u32, Counter>, EbpfError> {
    let count = |number: u32| {
        let value = get(maps, Counted::Rules, number)?;
        Ok((number, sum(&value, Counter::default(), Counter::plus)))
    };
    numbers.into_iter().map(count).collect()
}

/// Gives ports, remotes or rules the counters that they had under other numbers, maybe in another set; those
/// without one begin at zero, and so does everything where the other set counts in another form. What is
/// counted under an old number meanwhile is lost to the counters.
pub fn move_to(
    what: Counted,
    old: &MapSet,
    new: &MapSet,
    moves: &[(Option<u32>, u32)],
) -> Result<(), EbpfError> {
    let map = new.map(what.map())?;
    let read = reader(what, old, map)?;
    let mut values = Vec::new();
    for (from, to) in moves {
        let value = match from {
            Some(from) => read(*from)?,
            None => None,
        };
        values.push((to, value.unwrap_or_else(|| vec![0; map.stride])));
    }
    // All were read before any is written: numbers may change places.
    for (to, value) in values {
        map.put(&to.to_ne_bytes(), &value)
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", what.map()))?;
    }
    Ok(())
}

/// How the value of a number in `old` is read as one for `map`. None: it cannot be.
fn reader<'a>(
    what: Counted,
    old: &'a MapSet,
    map: &'a RawMap,
) -> Result<impl Fn(u32) -> Result<Option<Vec<u8>>, EbpfError> + 'a, EbpfError> {
    let form = |map: &RawMap| (map.layout.kind, map.layout.key_size, map.stride);
    // A build from before the map has none.
    let from = old.map(what.map()).ok();
    let from = from.filter(|from| from.layout.kind == map.layout.kind);
    let is_same =
        from.is_some_and(|from| form(from) == form(map) && from.types.btf == map.types.btf);
    let conversions = match from.filter(|_| !is_same) {
        Some(from) => Known::default().between(from, map)?,
        None => None,
    };
    // Without types the same size is the same form.
    let has_types = from.is_some_and(|from| from.types.btf != 0 && map.types.btf != 0);
    let is_same = is_same || (!has_types && from.is_some_and(|from| form(from) == form(map)));
    Ok(move |number| {
        if from.is_none() {
            return Ok(None);
        }
        let value = get(old, what, number)?;
        let conversions = conversions.as_ref().map(|it| &it.value);
        Ok(match (conversions, what) {
            (Some(value_form), Counted::PathMtus) => value_form.convert(&value),
            (Some(value_form), _) => value_form.convert_each(&value),
            (None, _) => is_same.then_some(value),
        })
    })
}

/// Forgets what was said of the paths to remotes, for tests.
pub(crate) fn forget_path_mtus(maps: &MapSet) -> Result<(), EbpfError> {
    let name = Counted::PathMtus.map();
    let mut known = Vec::new();
    maps.walk(name, |key, value| {
        if value.iter().any(|byte| *byte != 0) {
            known.push(key.to_vec());
        }
    })?;
    let map = maps.map(name)?;
    for key in known {
        map.put(&key, &vec![0; map.stride])
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", name))?;
    }
    Ok(())
}

/// Takes the counters of `old` over into `new`, which is empty but for the entries of the tables: of verdicts,
/// and of ports and remotes that are in both. What the old programs count between this and their replacement is
/// lost to the counters, not to the network.
pub fn carry_over(old: &MapSet, new: &MapSet) -> Result<(), EbpfError> {
    let mut known = Known::default();
    for what in [Counted::Ports, Counted::Remotes, Counted::PathMtus] {
        let moves = moves_between(what, (old, new), &mut known)?;
        move_to(what, old, new, &moves)?;
    }
    let (Ok(old), new) = (old.map(VERDICT_COUNTERS), new.map(VERDICT_COUNTERS)?) else {
        return Ok(());
    };
    if (old.layout.kind, old.stride) != (new.layout.kind, new.stride) {
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

/// The numbers of all ports or remotes of `new`, with those that they have in another set.
pub(crate) fn moves_between(
    what: Counted,
    (old, new): (&MapSet, &MapSet),
    known: &mut Known,
) -> Result<Moves, EbpfError> {
    let tables = [Table::PortKeys, Table::Remotes].into_iter();
    let before = tables.map(|table| Ok((table, converted(old, new, table, known)?)));
    let before: Contents = before.collect::<Result<_, EbpfError>>()?;
    Ok(what.moves(&before, &numbered(new)?))
}

/// The tables that say which number belongs to what.
fn numbered(maps: &MapSet) -> Result<Contents, EbpfError> {
    [Table::PortKeys, Table::Remotes]
        .into_iter()
        .map(|table| Ok((table, maps.entries(table)?)))
        .collect()
}

/// The counters under a number, of all CPUs.
fn get(maps: &MapSet, what: Counted, number: u32) -> Result<Vec<u8>, EbpfError> {
    let map = maps.map(what.map())?;
    let value = map
        .get(&number.to_ne_bytes())
        .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", what.map()))?;
    Ok(value.unwrap_or_else(|| vec![0; map.stride]))
}

/// Adds up the values of all CPUs, which lie one after the other on 8-byte borders.
fn sum<T: FromBytes>(value: &[u8], zero: T, plus: fn(T, T) -> T) -> T {
    value
        .chunks_exact(size_of::<T>().next_multiple_of(8))
        .filter_map(|cpu| T::read_from_prefix(cpu).ok())
        .fold(zero, |sum, (of_cpu, _)| plus(sum, of_cpu))
}
