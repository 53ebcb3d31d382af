//! What the programs remember, taken from a set of maps with another layout: connections with their translations, first
//! fragments, learned and found addresses, questions, what remotes said, path MTUs. The other build's entries are read by
//! the names of their members ([`btf`](crate::btf)).
//!
//! ```text
//!   old programs at the hooks      pass, pass        the old set is used, the new one is not
//!   new programs at the hooks      pass, pass        the old set changes no more, the new one does
//! ```
//!
//! A pass takes what the old set has by then. Of two entries with one key the one stays that was used later, and what was
//! carried and has gone from the old set since goes from the new one too, unless a packet has used it there.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::path::Path;

use overlane_model::FirewallTable;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::firewall::{self, Connection, ConnectionKey};
use crate::abi::{self, router};
use crate::btf::conversion::{Conversion, Conversions, Known};
use crate::connections::{self, CONNECTIONS, ConnectionEntry, FRAGMENTS, How, Taken};
use crate::counters::{self, Counted};
use crate::links::HeldProgram;
use crate::maps::MapSet;
use crate::tables::{Entries, Table};
use crate::{EbpfError, Layout, Loaded, Program, abilities, learned, neighbours, path_mtus};

/// `FRAGMENT_LIFE` of `bpf/lib/fragments.h`.
const FRAGMENT_LIFE_NS: u64 = 30_000_000_000;

/// A map whose entries are carried as they are, and the members that say when one was used.
struct Plain {
    map: &'static str,
    times: &'static [&'static str],
    used: fn(&[u8]) -> Option<u64>,
    life_ns: u64,
}

const PLAIN: [Plain; 5] = [
    Plain {
        map: learned::LEARNED,
        times: &["seen"],
        used: |value| Some(abi::Learned::read_from_bytes(value).ok()?.seen),
        life_ns: u64::MAX,
    },
    Plain {
        map: neighbours::FOUND,
        times: &["confirmed"],
        used: |value| {
            let found = abi::FoundNeighbour::read_from_bytes(value).ok()?;
            Some(found.confirmed.max(found.asked))
        },
        life_ns: u64::MAX,
    },
    Plain {
        map: neighbours::ASKED,
        times: &["at"],
        used: |value| Some(abi::Asked::read_from_bytes(value).ok()?.at),
        life_ns: u64::MAX,
    },
    Plain {
        map: FRAGMENTS,
        times: &["seen"],
        used: |value| Some(firewall::FirstFragment::read_from_bytes(value).ok()?.seen),
        life_ns: FRAGMENT_LIFE_NS,
    },
    // Nobody knows when. Those that say it again are heard again.
    Plain {
        map: abilities::ABILITIES,
        times: &[],
        used: |_| Some(0),
        life_ns: u64::MAX,
    },
];

/// Without these nobody knows what a connection is.
const CONNECTION_MEMBERS: [&str; 4] = ["seen", "state", "flags", "outside.bytes"];

/// What became of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Entries that were taken, anew or in place of an older one.
    pub taken: usize,
    /// Those that found no place, or do not fit into what this build has for them.
    pub left_out: usize,
    /// Those that had gone from the old set, and went from the new one.
    pub forgotten: usize,
}

/// Carries from one set of maps to another, in several passes.
#[derive(Debug)]
pub struct Carrier<'a> {
    old: MapSet,
    new: &'a MapSet,
    take: &'a HeldProgram,
    forget: &'a HeldProgram,
    conversions: BTreeMap<&'static str, Conversions>,
    known: Known,
    /// Whose connections go on; of a port, what they have in the old set for its owner.
    owners: HashMap<(u32, u16), Owner>,
    /// What each connection was when it was taken. Numbers in place of keys: a million of them are 32 MB.
    carried: HashMap<u64, u64>,
    hash: RandomState,
    /// When the last pass began; 0: there was none.
    last: u64,
    /// Both sets have the same secret, so places mean the same in both.
    in_place: bool,
}

/// The secret of the maps that are pinned in a folder, of any build: with it whoever has a share has the same places in the
/// next set. None: they do not tell.
pub fn secret_in(folder: &Path) -> Result<Option<u32>, EbpfError> {
    let layouts = BTreeMap::from([(Table::Settings.name().to_owned(), Layout::default())]);
    match MapSet::open_any(folder, &layouts)? {
        Some(maps) => secret_of(&maps, &mut Known::default()),
        None => Ok(None),
    }
}

fn secret_of(maps: &MapSet, known: &mut Known) -> Result<Option<u32>, EbpfError> {
    let Ok(map) = maps.map(Table::Settings.name()) else {
        return Ok(None);
    };
    let form = known.form((map, map.types.value))?;
    let settings = maps.entries(Table::Settings)?;
    let secret = settings
        .values()
        .next()
        .zip(form)
        .and_then(|(value, form)| form.read(value, "secret"));
    Ok(secret.and_then(|secret| u32::try_from(secret).ok()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Port { before: u32, now: u32 },
    Router,
}

impl<'a> Carrier<'a> {
    /// From `old`, into maps whose tables are filled. `loaded` has the programs at no hook, for these maps.
    pub fn new(old: MapSet, new: &'a MapSet, loaded: &'a Loaded) -> Result<Self, EbpfError> {
        let mut known = Known::default();
        let mut conversions = BTreeMap::new();
        let plain = PLAIN.iter().map(|it| (it.map, it.times));
        for (name, members) in plain.chain([(CONNECTIONS, &CONNECTION_MEMBERS[..])]) {
            let Ok(from) = old.map(name) else {
                continue;
            };
            let between = known.between(from, new.map(name)?)?;
            let between = between.filter(|it| it.value.has_all(members));
            conversions.extend(between.map(|it| (name, it)));
        }
        let secret = secret_of(new, &mut known)?;
        let in_place = secret.is_some() && secret_of(&old, &mut known)? == secret;
        let mut carrier = Self {
            in_place,
            take: loaded.program(Program::TakeConnection)?,
            forget: loaded.program(Program::ForgetTranslated)?,
            conversions,
            known,
            owners: HashMap::new(),
            carried: HashMap::new(),
            hash: RandomState::new(),
            last: 0,
            old,
            new,
        };
        carrier.find_owners()?;
        Ok(carrier)
    }

    /// The maps of which nothing can be carried.
    pub fn begins_anew(&self) -> Vec<&'static str> {
        let names = PLAIN.iter().map(|it| it.map).chain([CONNECTIONS]);
        names
            .filter(|name| !self.conversions.contains_key(name))
            .collect()
    }

    /// Takes what has come or changed since the last pass. `now`: by the programs' clock.
    pub fn pass(&mut self, now: u64) -> Result<Passed, EbpfError> {
        let mut passed = Passed::default();
        self.connections(now, &mut passed)?;
        for plain in &PLAIN {
            self.plain(plain, now, &mut passed)?;
        }
        learned::recount(self.new)?;
        learned::prune(self.new)?;
        neighbours::recount(self.new)?;
        neighbours::prune(self.new)?;
        let moves =
            counters::moves_between(Counted::PathMtus, (&self.old, self.new), &mut self.known)?;
        path_mtus::carry(&self.old, self.new, &moves, &mut self.known)?;
        self.last = now;
        Ok(passed)
    }

    /// A port is the same that has the same device and MAC, by number or by name.
    fn find_owners(&mut self) -> Result<(), EbpfError> {
        let before = converted(&self.old, self.new, Table::Ports, &mut self.known)?;
        let before: HashMap<_, _> = ports(&before)
            .map(|(id, port)| (zone(&port), (id, port)))
            .collect();
        let now = self.new.entries(Table::Ports)?;
        for (id, port) in ports(&now) {
            let same = before.get(&zone(&port)).filter(|(was_at, was)| {
                was.owner == port.owner || (*was_at == id && was.mac == port.mac)
            });
            if let Some((_, was)) = same {
                let owner = Owner::Port {
                    before: was.owner,
                    now: port.owner,
                };
                self.owners.insert(zone(&port), owner);
            }
        }
        for (id, value) in self.new.entries(Table::Routers)? {
            let id = u32::read_from_bytes(&id).unwrap_or_default();
            let router = router::Router::read_from_bytes(&value);
            if router.is_ok_and(|router| router.flags & router::ROUTER_NAT != 0) {
                let zone = (firewall::ZONE_ROUTER | id, 0);
                self.owners.insert(zone, Owner::Router);
            }
        }
        Ok(())
    }

    fn connections(&mut self, now: u64, passed: &mut Passed) -> Result<(), EbpfError> {
        let Some(conversions) = self.conversions.get(CONNECTIONS) else {
            return Ok(());
        };
        let (owners, hash, take) = (&self.owners, &self.hash, self.take);
        let how = How::Newer {
            in_place: self.in_place,
        };
        let carried = &mut self.carried;
        let before = carried.len();
        let marking = conversions.value.only(&["seen", "state", "flags"]);
        let numbers = |entry: &ConnectionEntry| {
            let number = hash.hash_one(entry.key.as_bytes());
            (number, mark(hash, &entry.value))
        };
        let mut still_there = HashSet::with_capacity(before);
        let mut outcome = Ok(());
        self.old.walk(CONNECTIONS, |key, value| {
            if outcome.is_err() {
                return;
            }
            // Most entries are as they were at the last pass.
            if let Some(mut entry) = as_here(&conversions.key, &marking, key, value) {
                pick_up(&mut entry);
                let (number, mark) = numbers(&entry);
                if carried.get(&number) == Some(&mark) {
                    still_there.insert(number);
                    return;
                }
            }
            let entry = as_here(&conversions.key, &conversions.value, key, value);
            let Some(entry) = entry else {
                passed.left_out += 1;
                return;
            };
            let Some(entry) = coming(entry, owners, now) else {
                return;
            };
            let (number, mark) = numbers(&entry);
            still_there.insert(number);
            match connections::take(take, &entry, how) {
                Ok(Taken::Full) => passed.left_out += 1,
                Ok(taken) => {
                    passed.taken += usize::from(taken == Taken::Kept);
                    carried.insert(number, mark);
                }
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome?;
        if before != 0 {
            let gone = |number: &u64| !still_there.contains(number);
            let gone: HashSet<u64> = carried.keys().copied().filter(gone).collect();
            passed.forgotten += self.forget_gone(&gone)?;
        }
        Ok(())
    }

    /// Forgets what the old set has forgotten, and no packet has used since.
    fn forget_gone(&mut self, gone: &HashSet<u64>) -> Result<usize, EbpfError> {
        if gone.is_empty() {
            return Ok(0);
        }
        let mut unused = Vec::new();
        self.new.walk(CONNECTIONS, |key, value| {
            let key = ConnectionKey::read_from_bytes(key);
            let value = Connection::read_from_bytes(value);
            if let (Ok(key), Ok(value)) = (key, value) {
                let number = self.hash.hash_one(key.as_bytes());
                let mark = mark(&self.hash, &value);
                if gone.contains(&number) && self.carried.get(&number) == Some(&mark) {
                    unused.push(key);
                }
            }
        })?;
        self.carried.retain(|number, _| !gone.contains(number));
        let is_of_router = |key: &&ConnectionKey| key.router().is_some();
        let (of_routers, of_ports): (Vec<&ConnectionKey>, Vec<_>) =
            unused.iter().partition(is_of_router);
        let of_ports: Vec<_> = of_ports.iter().map(|key| key.as_bytes().to_vec()).collect();
        self.new.delete_all(CONNECTIONS, &of_ports)?;
        connections::forget_translated(self.forget, of_routers, &[])?;
        Ok(unused.len())
    }

    fn plain(&self, plain: &Plain, now: u64, passed: &mut Passed) -> Result<(), EbpfError> {
        let Some(conversions) = self.conversions.get(plain.map) else {
            return Ok(());
        };
        let new = self.new.map(plain.map)?;
        let mut outcome = Ok(());
        self.old.walk(plain.map, |key, value| {
            let both = (conversions.key.convert(key)).zip(conversions.value.convert(value));
            let used = both.as_ref().and_then(|(_, value)| (plain.used)(value));
            let (Some((key, value)), Some(used)) = (both, used) else {
                passed.left_out += 1;
                return;
            };
            // Until the last pass it was another pass's, and it may have been forgotten since.
            let is_old =
                now.saturating_sub(used) > plain.life_ns || (self.last != 0 && used < self.last);
            if outcome.is_err() || is_old {
                return;
            }
            let there = new.get(&key);
            let there = there.map(|there| there.and_then(|there| (plain.used)(&there)));
            let written = match there {
                Ok(Some(there)) if there >= used => return,
                Ok(_) => new.put(&key, &value),
                Err(error) => Err(error),
            };
            match written {
                Ok(()) => passed.taken += 1,
                // The map is full.
                Err(error) if error.raw_os_error() == Some(libc::E2BIG) => passed.left_out += 1,
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome.map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", plain.map))
    }
}

fn zone(port: &abi::Port) -> (u32, u16) {
    (port.switch_id, port.key)
}

fn ports(entries: &Entries) -> impl Iterator<Item = (abi::PortId, abi::Port)> {
    entries.iter().filter_map(|(id, port)| {
        let id = abi::PortId::read_from_bytes(id).ok()?;
        Some((id, abi::Port::read_from_bytes(port).ok()?))
    })
}

/// The entries of a table of another build, as this build has them; empty where they cannot be.
pub(crate) fn converted(
    old: &MapSet,
    new: &MapSet,
    table: Table,
    known: &mut Known,
) -> Result<Entries, EbpfError> {
    let Ok(from) = old.map(table.name()) else {
        return Ok(Entries::new());
    };
    let Some(conversions) = known.between(from, new.map(table.name())?)? else {
        return Ok(Entries::new());
    };
    let entries = old.entries(table)?.into_iter();
    let entries = entries.filter_map(|(key, value)| {
        let key = conversions.key.convert(&key)?;
        Some((key, conversions.value.convert(&value)?))
    });
    Ok(entries.collect())
}

fn as_here(
    of_key: &Conversion,
    of_value: &Conversion,
    key: &[u8],
    value: &[u8],
) -> Option<ConnectionEntry> {
    let (key, value) = (of_key.convert(key)?, of_value.convert(value)?);
    Some(ConnectionEntry {
        key: ConnectionKey::read_from_bytes(&key).ok()?,
        value: Connection::read_from_bytes(&value).ok()?,
    })
}

/// The connection as it comes: the rules of now have not judged it, and packets of TCP pass unseen meanwhile. None: it is
/// over, or nobody's.
fn coming(
    mut entry: ConnectionEntry,
    owners: &HashMap<(u32, u16), Owner>,
    now: u64,
) -> Option<ConnectionEntry> {
    // A build that keeps no time-out in a connection says nothing of its end.
    if entry.value.life != 0 && entry.is_expired(now) {
        return None;
    }
    let ConnectionEntry { key, value } = &mut entry;
    match owners.get(&(key.switch_id, key.key))? {
        Owner::Port { before, .. } if *before != value.owner => return None,
        Owner::Port { now, .. } => value.owner = *now,
        Owner::Router => {}
    }
    value.rule = firewall::RULE_DEFAULT;
    value.version = FirewallTable::NO_VERSION;
    pick_up(&mut entry);
    Some(entry)
}

/// Its packets pass unseen while it is carried.
const fn pick_up(entry: &mut ConnectionEntry) {
    const TCP: u8 = 6;
    let key = &entry.key;
    if key.protocol == TCP && (key.local_port != 0 || key.peer_port != 0) {
        entry.value.flags |= firewall::CONNECTION_PICKED_UP;
    }
}

/// Differs where packets have changed a connection, but for its windows.
fn mark(hash: &RandomState, value: &Connection) -> u64 {
    hash.hash_one((value.seen, value.state, value.flags))
}
