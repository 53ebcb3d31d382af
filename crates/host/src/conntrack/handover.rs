//! Connections of a port that moves to another host: taken from the one, given to the other. The file between
//! them is `overlane_model::MovedConnections`; docs/semantics.md, "A port that moves", says what it means.

mod convert;

pub use convert::entry;
use std::net::IpAddr;

use overlane_ebpf::DataPath;
use overlane_ebpf::abi;
use overlane_ebpf::connections::{self, ConnectionEntry, Taken, Taker};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::Table;
use overlane_model::{MovedConnections, PortTable};
use serde::Serialize;
use zerocopy::{FromBytes, IntoBytes};

use crate::lib::clock::Clock;
use crate::lib::lock::Lock;
use crate::lib::paths;
use crate::observe::maps;
use crate::state::State;
use crate::{Holder, HostError};

/// What was taken from the host that a port leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its live connections.
    pub moved: MovedConnections,
    /// Nothing follows its connections here: there are none.
    pub has_firewall: bool,
}

/// What became of connections that came to a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The host.
    pub host: String,
    /// The port.
    pub port: String,
    /// Those that go on here.
    pub taken: usize,
    /// Those that the host had itself, which stayed.
    pub there: usize,
    /// Those that had not been seen for their time-out.
    pub expired: usize,
}

/// Where a port of this host is, and what the tables say of it.
struct Here<'a> {
    port: &'a PortTable,
    /// Its addresses.
    own: Vec<IpAddr>,
    maps: MapSet,
    has_firewall: bool,
    /// How long its connections live.
    timeouts: abi::Timeouts,
}

/// The live connections of a port of this host.
pub fn export(host: &str, port: &str) -> Result<Export, HostError> {
    let state = State::applied(host)?;
    let here = Here::find(&state, port)?;
    let entries = match here.has_firewall {
        true => connections::entries(&here.maps)?,
        false => Vec::new(),
    };
    let now = Clock::now()?.monotonic_ns;
    let is_of_port = |entry: &&ConnectionEntry| {
        let key = &entry.key;
        (key.switch_id, key.key) == here.zone()
    };
    let mut connections: Vec<_> = entries
        .iter()
        .filter(is_of_port)
        .filter(|entry| !entry.is_expired(now))
        .filter_map(|entry| convert::leaving(entry, now))
        // A guest can say what it likes, and shall not keep the others of its connections back.
        .filter(|moved| moved.check_ends(&here.own).is_ok())
        .collect();
    connections.sort_by_key(|it| (it.protocol, it.local, it.peer, it.marks, it.begun_by_peer));
    Ok(Export {
        moved: MovedConnections {
            port: here.port.name.clone(),
            switch: here.port.switch,
            mac: here.port.mac,
            connections,
        },
        has_firewall: here.has_firewall,
    })
}

/// Gives connections to a port of this host; all is checked before the first. Connections that the host has
/// stay. What finds no place is an error, and what found one is kept.
pub fn import(
    host: &str,
    port: &str,
    moved: &MovedConnections,
    on_wait: &dyn Fn(&Holder),
) -> Result<Import, HostError> {
    State::applied(host)?;
    // No `apply` may change the rules, or take the port away, meanwhile.
    let _lock = Lock::acquire(host, on_wait)?;
    let state = State::applied(host)?;
    let here = Here::find(&state, port)?;
    here.check(moved)?;
    let mut done = Import {
        host: host.to_owned(),
        port: port.to_owned(),
        ..Import::default()
    };
    if moved.connections.is_empty() {
        return Ok(done);
    }
    if !here.has_firewall {
        return Err(HostError::NoFirewall {
            host: host.to_owned(),
            port: port.to_owned(),
            connections: moved.connections.len(),
        });
    }
    moved.check_ends(&here.own)?;
    let data_path = DataPath::embedded()?;
    let taker = Taker::load(&data_path, &paths::map_set(host, &state.map_signature))?;
    let port = here.zone();
    let now = Clock::now()?.monotonic_ns;
    let take = |entry: &ConnectionEntry| Ok(taker.take(entry)?);
    take_all(moved, port, (now, &here.timeouts), &mut done, take)?;
    Ok(done)
}

/// Gives each to the port with this switch and key, now and with these time-outs, and counts what becomes of it.
fn take_all(
    moved: &MovedConnections,
    port: (u32, u16),
    (now, timeouts): (u64, &abi::Timeouts),
    done: &mut Import,
    mut take: impl FnMut(&ConnectionEntry) -> Result<Taken, HostError>,
) -> Result<(), HostError> {
    let mut left_out = 0;
    for connection in &moved.connections {
        let entry = entry(connection, port, now);
        // By the time that it was silent: this machine's clock may be younger than that.
        let life_s = timeouts.life_s(&entry.key, entry.value.state);
        if connection.idle_ms > u64::from(life_s) * 1000 {
            done.expired += 1;
            continue;
        }
        match take(&entry)? {
            Taken::Kept => done.taken += 1,
            Taken::There => done.there += 1,
            Taken::Full => left_out += 1,
        }
    }
    match left_out {
        0 => Ok(()),
        _ => Err(HostError::ConnectionsFull {
            host: done.host.clone(),
            left_out,
            all: moved.connections.len(),
        }),
    }
}

impl<'a> Here<'a> {
    fn find(state: &'a State, name: &str) -> Result<Self, HostError> {
        let ports = &state.tables.ports;
        let port = ports.iter().find(|port| port.name.as_str() == name);
        let port = port.ok_or_else(|| HostError::NoPort {
            host: state.host.clone(),
            name: name.to_owned(),
            known: ports.iter().map(|port| port.name.to_string()).collect(),
        })?;
        let maps = maps(state)?;
        let entries = maps.entries(Table::Ports)?;
        let mut ports = entries
            .values()
            .filter_map(|value| abi::Port::read_from_bytes(value).ok());
        let its = |it: &abi::Port| (it.switch_id, it.key) == (port.switch.number(), port.key.get());
        let has_firewall = ports.any(|it| its(&it) && it.flags & abi::PORT_FIREWALL != 0);
        let switches = maps.entries(Table::Switches)?;
        let switch = switches.get(port.switch.number().as_bytes());
        let switch = switch.and_then(|value| abi::Switch::read_from_bytes(value).ok());
        let neighbours = state.tables.neighbours.iter();
        let own = neighbours
            .filter(|it| (it.switch, &it.port, it.router) == (port.switch, &port.name, None));
        Ok(Self {
            port,
            own: own.map(|it| it.addr).collect(),
            maps,
            has_firewall,
            timeouts: switch.map(|switch| switch.timeouts).unwrap_or_default(),
        })
    }

    /// Its switch and key, as connections name it.
    fn zone(&self) -> (u32, u16) {
        (self.port.switch.number(), self.port.key.get())
    }

    /// Another port's connections are refused, however much it has in common with this one.
    fn check(&self, moved: &MovedConnections) -> Result<(), HostError> {
        let differs = |what, file: String, here: String| HostError::OtherPort { what, file, here };
        let port = self.port;
        if moved.port != port.name {
            let (file, here) = (moved.port.to_string(), port.name.to_string());
            return Err(differs("port", file, here));
        }
        if moved.switch != port.switch {
            let (file, here) = (moved.switch.to_string(), port.switch.to_string());
            return Err(differs("switch", file, here));
        }
        if moved.mac != port.mac {
            let (file, here) = (moved.mac.to_string(), port.mac.to_string());
            return Err(differs("MAC", file, here));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use overlane_model::{MovedConnection, MovedMarks, MovedState, SwitchId};

    use super::*;

    /// Datagrams from local ports on, each as many seconds silent as its port says.
    fn silent_for(seconds: &[u16]) -> MovedConnections {
        let connection = |&seconds: &u16| MovedConnection {
            protocol: 17,
            local: IpAddr::from([198, 18, 100, 1]),
            peer: IpAddr::from([198, 18, 100, 2]),
            marks: MovedMarks::Ports(seconds, 53),
            begun_by_peer: false,
            adopted: false,
            answered: true,
            state: MovedState::Established,
            age_ms: u64::from(seconds) * 1000,
            idle_ms: u64::from(seconds) * 1000,
            tcp: None,
        };
        MovedConnections {
            port: "web1".parse().unwrap(),
            switch: SwitchId::from_number(5001).unwrap(),
            mac: "02:00:00:00:00:01".parse().unwrap(),
            connections: seconds.iter().map(connection).collect(),
        }
    }

    fn timeouts() -> abi::Timeouts {
        overlane_model::Timeouts::default().into()
    }

    #[test]
    fn what_became_of_each_is_counted() {
        let mut done = Import::default();
        let now = 10_000_000_000_000;
        let moved = silent_for(&[1, 2, 3, 300, 301]);
        let taken = take_all(&moved, (5001, 7), (now, &timeouts()), &mut done, |entry| {
            assert_eq!((entry.key.switch_id, entry.key.key), (5001, 7));
            Ok(match u16::from_be(entry.key.local_port) {
                2 => Taken::There,
                _ => Taken::Kept,
            })
        });
        taken.unwrap();
        assert_eq!((done.taken, done.there, done.expired), (3, 1, 1));
    }

    #[test]
    fn what_finds_no_place_is_counted_and_the_rest_is_kept() {
        let mut done = Import {
            host: "h2".into(),
            ..Import::default()
        };
        let mut places = 2;
        let moved = silent_for(&[1, 2, 3, 4, 5]);
        let now = (10_000_000_000_000, &timeouts());
        let taken = take_all(&moved, (5001, 7), now, &mut done, |_| {
            places -= 1;
            Ok(match places {
                0.. => Taken::Kept,
                _ => Taken::Full,
            })
        });
        let error = taken.unwrap_err();
        assert_eq!(
            error.to_string(),
            "3 of 5 connections have no place on host h2: its table is full; the others go on"
        );
        assert!(error.help().unwrap().contains("import again"));
        assert_eq!(done.taken, 2);
    }
}
