//! `show neighbours`: whom routers found by ARP and neighbour discovery, and who does not answer them, by the rules by
//! which the data path uses both (`bpf/lib/found.h`). What no longer counts is not shown.

use overlane_ebpf::abi::{self, firewall::ZONE_ROUTER};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::neighbours as maps;
use overlane_wire::Mac;
use serde::Serialize;

use super::look::{router_name, switch_name};
use crate::HostError;
use crate::lib::clock::Clock;
use crate::state::State;

const SECOND_NS: u64 = 1_000_000_000;
/// `REACHABLE_TIME`.
const REACHABLE_S: u64 = 30;
/// `MOST_TRIES`.
const MOST_TRIES: u32 = 3;
/// `SECOND + SILENT_TIME`: what was asked for before that is asked for anew.
const SILENT_S: u64 = 4;

/// `show neighbours`.
#[derive(Debug, Clone, Serialize)]
pub struct Neighbours {
    /// The host.
    pub host: String,
    /// How many addresses the fabric declares on the switches of this host, of ports and routers.
    pub declared: usize,
    /// Who was found, and who was asked for lately, by side and address.
    pub neighbours: Vec<NeighbourRow>,
}

/// A neighbour that the fabric does not declare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NeighbourRow {
    /// The logical switch; none: on a leg.
    pub switch: Option<String>,
    /// The router whose leg it is behind; none: on a switch.
    pub leg_of: Option<String>,
    /// Its address.
    pub address: String,
    /// Its MAC; none: nobody has answered.
    pub mac: Option<String>,
    /// The port of this host that it was last heard at.
    pub port: Option<String>,
    /// What the data path does with packets to it.
    pub state: NeighbourState,
    /// Seconds since it last confirmed its address, or was last asked for it.
    pub age_s: u64,
}

/// RFC 4861 section 7.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NeighbourState {
    /// It has answered in the last 30 seconds.
    Reachable,
    /// It has not; packets go there all the same.
    Stale,
    /// It is being asked.
    Asking,
    /// It has not answered three questions.
    Silent,
}

impl NeighbourState {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Asking => "asking",
            Self::Silent => "silent",
        }
    }
}

/// Reads whom the routers of `host` found from the kernel.
pub fn neighbours(host: &str) -> Result<Neighbours, HostError> {
    let state = State::applied(host)?;
    neighbours_in(&state, &super::look::maps(&state)?)
}

/// Of a host whose maps are open already.
pub(crate) fn neighbours_in(state: &State, set: &MapSet) -> Result<Neighbours, HostError> {
    let now = Clock::now()?.monotonic_ns;
    let found = maps::found(set)?;
    let found = found.iter().map(|(key, it)| (*key, Entry::Found(*it)));
    let asked = maps::asked(set)?;
    let asked = asked.iter().map(|(key, it)| (*key, Entry::Asked(*it)));
    let mut rows: Vec<_> = found
        .chain(asked)
        .filter_map(|(key, entry)| row(state, &key, &entry, now))
        .collect();
    rows.sort_by_key(order);
    Ok(Neighbours {
        host: state.host.clone(),
        declared: maps::declared(set)?,
        neighbours: rows,
    })
}

/// By place, then by address as a number.
fn order(row: &NeighbourRow) -> impl Ord + use<> {
    let address: Option<std::net::IpAddr> = row.address.parse().ok();
    (row.leg_of.clone(), row.switch.clone(), address)
}

enum Entry {
    Found(abi::FoundNeighbour),
    Asked(abi::Asked),
}

/// None for what no longer counts.
fn row(state: &State, key: &abi::NeighbourKey, entry: &Entry, now: u64) -> Option<NeighbourRow> {
    let age = |then: u64| now.saturating_sub(then) / SECOND_NS;
    let is_leg = key.switch_id & ZONE_ROUTER != 0;
    let leg_of = is_leg.then(|| router_name(state, key.switch_id & !ZONE_ROUTER));
    let switch = (!is_leg).then(|| switch_name(state, key.switch_id));
    let (mac, port_key, verdict, age_s) = match entry {
        Entry::Found(found) => {
            let age_s = age(found.confirmed);
            let verdict = match age_s < REACHABLE_S {
                true => NeighbourState::Reachable,
                false => NeighbourState::Stale,
            };
            (Some(Mac::from(found.mac)), found.key, verdict, age_s)
        }
        Entry::Asked(asked) => {
            let age_s = age(asked.at);
            let verdict = match asked.tries < MOST_TRIES || age_s < 1 {
                true => NeighbourState::Asking,
                false => NeighbourState::Silent,
            };
            if age_s >= SILENT_S {
                return None;
            }
            (None, 0, verdict, age_s)
        }
    };
    let port = state.port(key.switch_id, port_key.into());
    Some(NeighbourRow {
        switch: switch.map(|name| name.unwrap_or_else(|| "-".to_owned())),
        leg_of: leg_of.map(|name| name.unwrap_or_else(|| "-".to_owned())),
        address: std::net::IpAddr::from(key.addr).to_string(),
        mac: mac.map(|mac| mac.to_string()),
        port: port.map(|port| port.name.to_string()),
        state: verdict,
        age_s,
    })
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    const SECOND: u64 = SECOND_NS;

    fn state() -> State {
        let text = "version: 1\nhosts: { h1: { underlay: 198.18.0.1, uplink: u } }\n";
        let fabric = Fabric::parse("f", text).unwrap();
        State::of(&fabric.compile("h1").unwrap())
    }

    fn key(switch_id: u32) -> abi::NeighbourKey {
        abi::NeighbourKey {
            switch_id,
            addr: std::net::IpAddr::from([198, 18, 50, 5]).into(),
        }
    }

    fn found(confirmed: u64) -> Entry {
        Entry::Found(abi::FoundNeighbour {
            mac: abi::MacBytes {
                bytes: [2, 0, 0, 0, 0, 1],
            },
            key: 0,
            confirmed,
            asked: 0,
            tries: 0,
            unasked: 0,
        })
    }

    fn asked(at: u64, tries: u32) -> Entry {
        Entry::Asked(abi::Asked { at, tries, pad: 0 })
    }

    #[test]
    fn a_state_is_what_the_data_path_makes_of_it() {
        let (state, now) = (state(), 100 * SECOND);
        let of = |entry: &Entry| row(&state, &key(5001), entry, now).map(|row| row.state);
        for (entry, expected) in [
            (found(now), Some(NeighbourState::Reachable)),
            (found(70 * SECOND + 1), Some(NeighbourState::Reachable)),
            (found(70 * SECOND), Some(NeighbourState::Stale)),
            (asked(now, 1), Some(NeighbourState::Asking)),
            (asked(now, 3), Some(NeighbourState::Asking)),
            (asked(99 * SECOND, 2), Some(NeighbourState::Asking)),
            (asked(99 * SECOND, 3), Some(NeighbourState::Silent)),
            (asked(96 * SECOND, 3), None),
        ] {
            assert_eq!(of(&entry), expected);
        }
    }

    #[test]
    fn a_leg_is_no_switch() {
        let row = row(&state(), &key(ZONE_ROUTER | 7), &found(0), SECOND).unwrap();
        assert_eq!((row.switch, row.leg_of.as_deref()), (None, Some("-")));
        assert_eq!(row.mac.as_deref(), Some("02:00:00:00:00:01"));
    }
}
