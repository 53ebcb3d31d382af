//! `show learned`: the MACs that the data path has learned behind learning ports and remotes, by the same
//! rules by which it uses them (`bpf/lib/fdb.h`, `find_learned`). What no longer counts is not shown, though
//! it may still lie in the map.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_ebpf::abi;
use overlane_ebpf::learned::{self as maps, LearnedEntry};
use overlane_ebpf::tables::{Entries, Table};
use overlane_wire::Mac;
use serde::Serialize;
use zerocopy::FromBytes;

use super::fdb::FdbPlace;
use super::fdb::local_place;
use super::look::{OnUnderlay, remote_name, switch_name};
use crate::HostError;
use crate::lib::clock::Clock;
use crate::state::State;

const SECOND_NS: u64 = 1_000_000_000;

/// `show learned`.
#[derive(Debug, Clone, Serialize)]
pub struct Learned {
    /// The host.
    pub host: String,
    /// Its learning ports, by name.
    pub ports: Vec<LearningPort>,
    /// The learned MACs, by switch and MAC.
    pub entries: Vec<LearnedRow>,
}

/// A learning port of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LearningPort {
    /// Its name.
    pub port: String,
    /// Its logical switch.
    pub switch: String,
    /// How many of the MACs behind it count against its limit.
    pub macs: u32,
    /// The most it may have.
    pub limit: u32,
    /// Seconds without a frame after which a MAC is forgotten.
    pub age_s: u32,
}

/// One learned MAC.
#[derive(Debug, Clone, Serialize)]
pub struct LearnedRow {
    /// The logical switch, when its name is known.
    pub switch: Option<String>,
    /// What tells it apart on the underlay.
    #[serde(flatten)]
    pub on_underlay: OnUnderlay,
    /// The address.
    pub mac: String,
    /// Ports share it: it is in the `allowed_macs` of each.
    pub floating: bool,
    /// The port, when it is on this host.
    pub port: Option<String>,
    /// Key of the logical port behind it; none when its host did not say.
    pub key: Option<u32>,
    /// Where the address lives.
    #[serde(flatten)]
    pub place: FdbPlace,
    /// Seconds since it was last seen; its time is written once a second.
    pub seen_s: u64,
    /// Seconds without a frame after which it is forgotten.
    pub age_s: u32,
}

/// Reads what `host` has learned from the kernel.
pub fn learned(host: &str) -> Result<Learned, HostError> {
    let state = State::applied(host)?;
    let set = super::look::maps(&state)?;
    let ports = ports_of(&set.entries(Table::Ports)?);
    let entries = maps::entries(&set)?;
    let entries = rows(&state, &ports, &entries, Clock::now()?.monotonic_ns);
    Ok(Learned {
        host: host.to_owned(),
        ports: ports
            .values()
            .filter(|port| port.flags & abi::PORT_LEARNING != 0)
            .filter_map(|port| learning_port(&state, port, &entries))
            .collect(),
        entries,
    })
}

/// Ports as the kernel has them, by place.
fn ports_of(entries: &Entries) -> BTreeMap<abi::PortId, abi::Port> {
    let read = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let key = abi::PortId::read_from_bytes(key).ok()?;
        Some((key, abi::Port::read_from_bytes(value).ok()?))
    };
    entries.iter().filter_map(read).collect()
}

fn learning_port(state: &State, port: &abi::Port, learned: &[LearnedRow]) -> Option<LearningPort> {
    let named = state.port(port.switch_id, port.key.into())?;
    let behind = |row: &&LearnedRow| row.port.as_deref() == Some(named.name.as_str());
    let macs = learned.iter().filter(behind).filter(|row| !row.floating);
    Some(LearningPort {
        port: named.name.to_string(),
        switch: switch_name(state, port.switch_id).unwrap_or_default(),
        macs: u32::try_from(macs.count()).unwrap_or(u32::MAX),
        limit: port.learn_limit,
        age_s: port.learn_age,
    })
}

fn rows(
    state: &State,
    ports: &BTreeMap<abi::PortId, abi::Port>,
    entries: &[LearnedEntry],
    now: u64,
) -> Vec<LearnedRow> {
    let mut rows: Vec<_> = entries
        .iter()
        .filter_map(|entry| Some((entry.key, row(state, ports, entry, now)?)))
        .collect();
    rows.sort_by_key(|(key, _)| (key.switch_id, key.mac));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// None for what no longer counts.
fn row(
    state: &State,
    ports: &BTreeMap<abi::PortId, abi::Port>,
    LearnedEntry { key, value }: &LearnedEntry,
    now: u64,
) -> Option<LearnedRow> {
    let seen_ns = now.saturating_sub(value.seen);
    if seen_ns > u64::from(value.age) * SECOND_NS {
        return None;
    }
    let switch_id = key.switch_id;
    let floating = value.flags & abi::FDB_FLOATS != 0;
    let mut row = LearnedRow {
        switch: switch_name(state, switch_id),
        on_underlay: OnUnderlay::of(switch_id),
        mac: Mac::from(key.mac).to_string(),
        floating,
        port: None,
        key: Some(value.key).filter(|&key| key != 0),
        place: remote_place(state, value.remote),
        seen_s: seen_ns / SECOND_NS,
        age_s: value.age,
    };
    if value.port.ifindex != 0 {
        let at = ports.get(&value.port)?;
        let learns = match floating {
            true => abi::PORT_ALLOWED_MACS,
            false => abi::PORT_LEARNING,
        };
        if (at.switch_id, u32::from(at.key)) != (switch_id, value.key) || at.flags & learns == 0 {
            return None;
        }
        let named = state.port(switch_id, value.key);
        row.port = named.map(|port| port.name.to_string());
        row.place = local_place(named, value.port);
    } else if switch_id & abi::SWITCH_ID_VLAN != 0 {
        row.place = FdbPlace::Uplink {
            device: state.tables.uplink.to_string(),
        };
    } else if remote_name(state, IpAddr::from(value.remote)).is_none() {
        return None;
    }
    Some(row)
}

fn remote_place(state: &State, remote: abi::Addr) -> FdbPlace {
    let address = IpAddr::from(remote);
    FdbPlace::Remote {
        remote: remote_name(state, address),
        address,
    }
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    const FABRIC: &str = r#"
version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  blue: { vni: 5001 }
ports:
  lab: { switch: blue, host: h1, device: lab0, vlan: 10, mac: "02:00:00:00:00:01", key: 7, learning: { limit: 2, age: 60 } }
  far: { switch: blue, host: h2, device: far0, mac: "02:00:00:00:00:02", key: 8 }
"#;
    const PORT: abi::PortId = abi::PortId {
        ifindex: 3,
        vlan: 10,
    };

    fn state() -> State {
        let fabric = Fabric::parse("f", FABRIC).unwrap();
        State::of(&fabric.compile("h1").unwrap())
    }

    fn port() -> abi::Port {
        abi::Port {
            switch_id: 5001,
            key: 7,
            mac: abi::MacBytes::default(),
            flags: abi::PORT_LEARNING,
            learn_limit: 2,
            learn_age: 60,
            rules_from: 0,
            rules_to: 0,
            counters: 0,
            connections: 0,
            flood: 0,
            owner: 0,
            mtu: 1500,
        }
    }

    fn entry(last: u8, port: abi::PortId, key: u32, remote: &str, seen_s: u64) -> LearnedEntry {
        let mac = abi::MacBytes {
            bytes: [6, 0, 0, 0, 0, last],
        };
        LearnedEntry {
            key: abi::FdbKey {
                switch_id: 5001,
                mac,
                pad: 0,
            },
            value: abi::Learned {
                port,
                key,
                remote: remote.parse::<IpAddr>().unwrap().into(),
                router: 0,
                flags: 0,
                age: 60,
                seen: seen_s * SECOND_NS,
            },
        }
    }

    #[test]
    fn what_counts_is_shown_with_its_place() {
        let none = abi::PortId::default();
        let entries = [
            entry(2, none, 8, "198.18.0.2", 940),
            entry(1, PORT, 7, "::", 990),
            entry(3, none, 0, "198.18.0.2", 1000),
        ];
        let rows = rows(
            &state(),
            &[(PORT, port())].into(),
            &entries,
            1000 * SECOND_NS,
        );
        let shown: Vec<_> = rows
            .iter()
            .map(|row| serde_json::to_value(row).unwrap())
            .collect();
        assert_eq!(
            shown[0],
            serde_json::json!({
                "switch": "blue", "vni": 5001, "uplink_vlan": null, "mac": "06:00:00:00:00:01", "floating": false, "port": "lab",
                "key": 7, "place": "local", "device": "lab0", "vlan": 10, "seen_s": 10, "age_s": 60,
            })
        );
        // Exactly its age old: still remembered.
        assert_eq!(
            shown[1],
            serde_json::json!({
                "switch": "blue", "vni": 5001, "uplink_vlan": null, "mac": "06:00:00:00:00:02", "floating": false, "port": null,
                "key": 8, "place": "remote", "remote": "h2", "address": "198.18.0.2", "seen_s": 60, "age_s": 60,
            })
        );
        assert_eq!((rows[2].key, rows.len()), (None, 3));
    }

    #[test]
    fn a_floating_mac_is_shown_at_a_port_that_has_some() {
        let mut floating = entry(1, PORT, 7, "::", 990);
        floating.value.flags = abi::FDB_FLOATS;
        let shown = |flags| {
            let port = abi::Port { flags, ..port() };
            rows(
                &state(),
                &[(PORT, port)].into(),
                &[floating],
                1000 * SECOND_NS,
            )
        };
        let found = shown(abi::PORT_ALLOWED_MACS);
        assert!(found[0].floating && found[0].port.as_deref() == Some("lab"));
        assert!(shown(abi::PORT_LEARNING).is_empty());
    }

    #[test]
    fn what_no_longer_counts_is_not_shown() {
        let none = abi::PortId::default();
        let elsewhere = abi::PortId { ifindex: 4, ..PORT };
        let entries = [
            entry(1, PORT, 7, "::", 939),          // too old
            entry(2, elsewhere, 7, "::", 1000),    // the device has another index now
            entry(3, PORT, 9, "::", 1000),         // another port is there now
            entry(4, none, 8, "198.18.0.3", 1000), // a remote that left the fabric
        ];
        let rows = rows(
            &state(),
            &[(PORT, port())].into(),
            &entries,
            1000 * SECOND_NS,
        );
        assert!(rows.is_empty(), "{rows:?}");
    }

    #[test]
    fn a_learning_port_counts_what_is_listed() {
        let none = abi::PortId::default();
        let entries = [
            entry(1, PORT, 7, "::", 990),
            entry(2, PORT, 7, "::", 991),
            entry(3, PORT, 7, "::", 939), // too old
            entry(4, none, 8, "198.18.0.2", 990),
        ];
        let count = |entries: &[LearnedEntry]| {
            let ports = [(PORT, port())].into();
            let mut rows = rows(&state(), &ports, entries, 1000 * SECOND_NS);
            if let Some(row) = rows.iter_mut().find(|row| row.mac.ends_with("02")) {
                // Ports share it, and it counts against no limit.
                row.floating = true;
            }
            learning_port(&state(), &port(), &rows).unwrap()
        };
        let expected = LearningPort {
            port: "lab".into(),
            switch: "blue".into(),
            macs: 1,
            limit: 2,
            age_s: 60,
        };
        assert_eq!(count(&entries), expected);
        assert_eq!(count(&[]).macs, 0);
    }
}
