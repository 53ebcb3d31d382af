//! What the programs have learned: the maps `learned` and `learning`. They change while they are read, for
//! the programs write them; here they are only made to forget what the tables no longer bear ([`prune`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::EbpfError;
use crate::abi;
use crate::counted;
use crate::maps::MapSet;
use crate::tables::{Contents, Table, read};

pub(crate) const LEARNED: &str = "learned";
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
    let entries = maps.all(LEARNED)?.into_iter();
    Ok(entries
        .map(|(key, value)| LearnedEntry { key, value })
        .collect())
}

/// How much each learning port has learned.
pub fn counts(maps: &MapSet) -> Result<BTreeMap<abi::PortKey, abi::Learning>, EbpfError> {
    Ok(maps.all(LEARNING)?.into_iter().collect())
}

/// Forgets all of it, for tests.
pub fn forget(maps: &MapSet) -> Result<(), EbpfError> {
    maps.clear(LEARNED)?;
    maps.clear(LEARNING)
}

/// Forgets what the tables no longer bear: addresses whose switch no longer learns, whose port is gone or
/// no longer learns, that float no longer or at another port, or whose remote is gone; and counts nobody is behind any more. Comes after the tables
/// are written, so that nothing of it is learned anew.
pub fn prune(maps: &MapSet) -> Result<(), EbpfError> {
    let entries = entries(maps)?;
    // The tables of a large host are long, and most hosts learn nothing.
    if entries.is_empty() && counts(maps)?.is_empty() {
        return Ok(());
    }
    let borne = Borne::of(&tables_that_bear(maps)?);
    let (kept, stale): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| borne.bears(entry));
    let owned = |entries: Vec<&LearnedEntry>| -> Vec<_> {
        let entries = entries.into_iter();
        entries.map(|entry| (entry.key, owner(entry))).collect()
    };
    counted::forget(
        maps,
        [LEARNED, LEARNING],
        &owned(kept),
        &owned(stale),
        |id| borne.counts(id),
    )
}

/// Counts all anew, where entries came from elsewhere.
pub(crate) fn recount(maps: &MapSet) -> Result<(), EbpfError> {
    let entries = entries(maps)?;
    counted::count(maps, LEARNING, entries.iter().map(owner))
}

/// Who counts an entry: its learning port, key 0: what the switch learned from the underlay, or what floats there.
fn owner(entry: &LearnedEntry) -> abi::PortKey {
    let is_local = entry.value.port.ifindex != 0;
    abi::PortKey {
        switch_id: entry.key.switch_id,
        key: match is_local {
            _ if floats(entry) => abi::LEARNING_FLOATING,
            true => entry.value.key,
            false => 0,
        },
    }
}

fn floats(entry: &LearnedEntry) -> bool {
    entry.value.flags & abi::FDB_FLOATS != 0
}

fn tables_that_bear(maps: &MapSet) -> Result<Contents, EbpfError> {
    let tables = [
        Table::Ports,
        Table::Switches,
        Table::Remotes,
        Table::Fdb,
        Table::AllowedMacs,
    ];
    let entries = tables.map(|table| Ok((table, maps.entries(table)?)));
    entries.into_iter().collect()
}

/// Where something can be learned, as the tables say.
struct Borne {
    switches: BTreeSet<u32>,
    /// All ports.
    ports: BTreeMap<abi::PortId, abi::PortKey>,
    /// Those that learn.
    keys: BTreeSet<abi::PortKey>,
    /// What floats in a switch, and what a port may use of it.
    floating: BTreeSet<(u32, abi::MacBytes)>,
    allowed: BTreeSet<(abi::PortKey, abi::MacBytes)>,
    remotes: BTreeSet<abi::Addr>,
}

impl Borne {
    fn of(contents: &Contents) -> Self {
        let ports = || read::<abi::PortId, abi::Port>(contents, Table::Ports);
        let port_key = |port: &abi::Port| abi::PortKey {
            switch_id: port.switch_id,
            key: port.key.into(),
        };
        let allowed = read::<abi::AllowedMacKey, u32>(contents, Table::AllowedMacs);
        let allowed = allowed.map(|(allowed, _)| {
            let (switch_id, key) = (allowed.switch_id, allowed.key.into());
            (abi::PortKey { switch_id, key }, allowed.mac)
        });
        Self {
            keys: ports()
                .filter(|(_, port)| port.flags & abi::PORT_LEARNING != 0)
                .map(|(_, port)| port_key(&port))
                .collect(),
            ports: ports().map(|(id, port)| (id, port_key(&port))).collect(),
            floating: read::<abi::FdbKey, abi::FdbEntry>(contents, Table::Fdb)
                .filter(|(_, entry)| entry.flags & abi::FDB_FLOATS != 0)
                .map(|(key, _)| (key.switch_id, key.mac))
                .collect(),
            allowed: allowed.collect(),
            switches: read::<u32, abi::Switch>(contents, Table::Switches)
                .filter(|(_, switch)| switch.flags & abi::SWITCH_LEARNING != 0)
                .map(|(id, _)| id)
                .collect(),
            remotes: read::<abi::Addr, abi::Remote>(contents, Table::Remotes)
                .map(|(address, _)| address)
                .collect(),
        }
    }

    fn bears(&self, entry: &LearnedEntry) -> bool {
        let (switch_id, mac, value) = (entry.key.switch_id, entry.key.mac, &entry.value);
        let key = value.key;
        let port = abi::PortKey { switch_id, key };
        self.switches.contains(&switch_id)
            && floats(entry) == self.floating.contains(&(switch_id, mac))
            && if value.port.ifindex != 0 {
                let is_learned_there = match floats(entry) {
                    true => self.allowed.contains(&(port, mac)),
                    false => self.keys.contains(&port),
                };
                self.ports.get(&value.port) == Some(&port) && is_learned_there
            } else {
                switch_id & abi::SWITCH_ID_VLAN != 0 || self.remotes.contains(&value.remote)
            }
    }

    fn counts(&self, id: abi::PortKey) -> bool {
        match (id.switch_id, id.key) {
            // The clock of the whole host.
            (0, 0) => true,
            (switch_id, 0 | abi::LEARNING_FLOATING) => self.switches.contains(&switch_id),
            _ => self.keys.contains(&id),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromBytes as _, IntoBytes as _};

    use super::*;

    const HERE: abi::PortId = abi::PortId {
        ifindex: 3,
        vlan: 10,
    };
    const VLAN: u32 = abi::SWITCH_ID_VLAN | 100;

    fn remote(last: u8) -> abi::Addr {
        std::net::IpAddr::from([198, 18, 0, last]).into()
    }

    fn contents() -> Contents {
        let switch = |flags| abi::Switch {
            flood_members: 0,
            flood_routers: 0,
            flags,
            learn_age: 60,
            router: 0,
            non_ip: [0; abi::MAX_NON_IP],
            timeouts: abi::Timeouts::default(),
        };
        let port = |key, flags| abi::Port {
            switch_id: 5001,
            key,
            mac: abi::MacBytes::default(),
            flags,
            learn_limit: 2,
            learn_age: 60,
            rules_from: 0,
            rules_to: 0,
            counters: 0,
            connections: 0,
            flood: 0,
            owner: 0,
            mtu: 1500,
        };
        let plain = abi::PortId { vlan: 11, ..HERE };
        let header = abi::Remote::read_from_bytes(&[0; size_of::<abi::Remote>()]).unwrap();
        let bytes = |value: &[u8]| value.to_vec();
        let switches = [(5001, 4), (5002, 0), (VLAN, 4)];
        Contents::from([
            (
                Table::Switches,
                switches
                    .map(|(id, flags): (u32, u32)| {
                        (bytes(id.as_bytes()), bytes(switch(flags).as_bytes()))
                    })
                    .into(),
            ),
            (
                Table::Ports,
                [(HERE, port(7, abi::PORT_LEARNING)), (plain, port(8, 0))]
                    .map(|(id, port)| (bytes(id.as_bytes()), bytes(port.as_bytes())))
                    .into(),
            ),
            (
                Table::Remotes,
                [(bytes(remote(2).as_bytes()), bytes(header.as_bytes()))].into(),
            ),
        ])
    }

    fn entry(switch_id: u32, port: abi::PortId, key: u32, remote: abi::Addr) -> LearnedEntry {
        let mac = abi::MacBytes::default();
        LearnedEntry {
            key: abi::FdbKey {
                switch_id,
                mac,
                pad: 0,
            },
            value: abi::Learned {
                port,
                key,
                remote,
                router: 0,
                flags: 0,
                age: 60,
                seen: 0,
            },
        }
    }

    #[test]
    fn only_what_the_tables_bear_is_kept() {
        let borne = Borne::of(&contents());
        let (none, nowhere) = (abi::PortId::default(), abi::Addr::default());
        for kept in [
            entry(5001, HERE, 7, nowhere),
            entry(5001, none, 9, remote(2)),
            entry(VLAN, none, 0, nowhere),
        ] {
            assert!(borne.bears(&kept), "{kept:?}");
        }
        let plain = abi::PortId { vlan: 11, ..HERE };
        let gone = abi::PortId { vlan: 12, ..HERE };
        for stale in [
            entry(5001, HERE, 8, nowhere),
            entry(VLAN, HERE, 7, nowhere),
            entry(5001, plain, 8, nowhere),
            entry(5001, gone, 7, nowhere),
            entry(5001, none, 9, remote(3)),
            entry(5001, none, 0, nowhere),
            entry(5002, none, 9, remote(2)),
            entry(5003, none, 9, remote(2)),
        ] {
            assert!(!borne.bears(&stale), "{stale:?}");
        }
    }

    #[test]
    fn what_floats_is_kept_at_ports_that_may_use_it() {
        let mut contents = contents();
        let mac = abi::MacBytes::default();
        let (switch_id, key) = (5001, 8);
        let allowed = abi::AllowedMacKey {
            switch_id,
            mac,
            key,
        };
        let fdb_key = abi::FdbKey {
            switch_id,
            mac,
            pad: 0,
        };
        let mut fdb = abi::FdbEntry::read_from_bytes(&[0; size_of::<abi::FdbEntry>()]).unwrap();
        fdb.flags = abi::FDB_FLOATS;
        let one = |key: &[u8], value: &[u8]| [(key.to_vec(), value.to_vec())].into();
        let allowed = one(allowed.as_bytes(), 1u32.as_bytes());
        contents.insert(Table::AllowedMacs, allowed);
        contents.insert(Table::Fdb, one(fdb_key.as_bytes(), fdb.as_bytes()));
        let borne = Borne::of(&contents);
        let (none, nowhere) = (abi::PortId::default(), abi::Addr::default());
        let plain = abi::PortId { vlan: 11, ..HERE };
        let floating = |port, key, remote| {
            let mut entry = entry(5001, port, key, remote);
            entry.value.flags = abi::FDB_FLOATS;
            entry
        };
        assert!(borne.bears(&floating(plain, 8, nowhere)));
        assert!(borne.bears(&floating(none, 0, remote(2))));
        // Another port, which learns but may not use it; a remote that is gone; and what was learned before it floated.
        assert!(!borne.bears(&floating(HERE, 7, nowhere)));
        assert!(!borne.bears(&floating(none, 0, remote(3))));
        assert!(!borne.bears(&entry(5001, HERE, 7, nowhere)));
        let count = abi::PortKey {
            switch_id: 5001,
            key: abi::LEARNING_FLOATING,
        };
        assert_eq!(owner(&floating(plain, 8, nowhere)), count);
        assert!(borne.counts(count));
        assert!(!Borne::of(&Contents::new()).bears(&floating(plain, 8, nowhere)));
    }

    #[test]
    fn counts_go_with_their_owners() {
        let borne = Borne::of(&contents());
        for (switch_id, key, kept) in [
            (0, 0, true),
            (5001, 0, true),
            (5001, 7, true),
            (5001, 8, false),
            (5001, 9, false),
            (5002, 0, false),
            (5003, 0, false),
            (VLAN, 0, true),
            (VLAN, 7, false),
        ] {
            let id = abi::PortKey { switch_id, key };
            assert_eq!(borne.counts(id), kept, "{id:?}");
        }
    }
}
