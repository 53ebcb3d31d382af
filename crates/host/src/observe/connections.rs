//! `show connections`: what the firewall of a port, or the nat of a router, follows. An expired connection
//! stays in its map until its place is needed; it is shown as expired.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use overlane_ebpf::abi::firewall::{self as abi, Connection, ConnectionKey};
use overlane_ebpf::abi::{Addr, Settings};
use overlane_ebpf::connections::{self as maps, ConnectionEntry};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::Table;
use serde::Serialize;
use zerocopy::{FromBytes, FromZeros as _};

use super::look::router_name;
use crate::HostError;
use crate::lib::clock::Clock;
use crate::state::State;

const SECOND_NS: u64 = 1_000_000_000;

/// `show connections`.
#[derive(Debug, Clone, Serialize)]
pub struct Connections {
    /// The host.
    pub host: String,
    /// The most that it holds at a time, of all ports and routers.
    pub most: u32,
    /// How many of all ports and routers it holds that live. May be more, where the host held more before.
    pub held: usize,
    /// How many of the connections here live.
    pub live: usize,
    /// How many of them are expired.
    pub expired: usize,
    /// Those that live and those that are only not yet forgotten, by port and ends.
    pub connections: Vec<ConnectionRow>,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionRow {
    /// Whose it is.
    #[serde(flatten)]
    pub whose: Whose,
    /// IP protocol.
    pub protocol: u8,
    /// Its end at the port; of a translation the inside.
    pub local: End,
    /// The other end.
    pub peer: End,
    /// `icmp` message of the request, where there are no ports.
    pub icmp_type: Option<u8>,
    /// Which end began it.
    pub begun_by_peer: bool,
    /// It is older than the firewall: its windows are not known.
    pub adopted: bool,
    /// Where it stands.
    pub state: ConnectionState,
    /// Seconds since its first packet.
    pub age_s: u64,
    /// Seconds since the last packet; written once a second.
    pub idle_s: u64,
    /// Seconds without a packet after which it is forgotten.
    pub time_out_s: u32,
    /// It was not seen for so long, and waits for somebody who needs its place.
    pub expired: bool,
    /// The rule that admitted it; none: the default policy, or a rule of before the last `apply` that no
    /// packet has replaced since.
    pub rule: Option<String>,
    /// What the nat of a router makes of the local end.
    pub translation: Option<Translation>,
}

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The firewall's of the port with this name.
    Port(String),
    /// The nat's of the router with this name.
    Router(String),
}

/// One end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// Its address.
    pub address: IpAddr,
    /// Its port; of ICMP the identifier at the local end. None where the protocol has none, and of fragments.
    pub port: Option<u16>,
}

/// What a router's nat puts in the place of the local end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Translation {
    /// The outside end.
    pub outside: End,
    /// What the peer is outside: inside it may have another port.
    pub peer: End,
    /// The rule that it was begun by has gone: no packet of it passes.
    pub revoked: bool,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// Begun, and not answered yet.
    Opening,
    /// Both ends were seen.
    Established,
    /// An end said that it is done (TCP).
    Closing,
    /// An end broke it off (TCP).
    Closed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl ConnectionState {
    /// `opening`, `established`, `closing` or `closed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Established => "established",
            Self::Closing => "closing",
            Self::Closed => "closed",
        }
    }

    const fn of(number: u8) -> Option<Self> {
        Some(match number {
            abi::CONNECTION_OPENING => Self::Opening,
            abi::CONNECTION_ESTABLISHED => Self::Established,
            abi::CONNECTION_CLOSING => Self::Closing,
            abi::CONNECTION_CLOSED => Self::Closed,
            _ => return None,
        })
    }
}

/// Reads the connections of `host`, or only those of the port, or router, with the name `of`.
pub fn connections(host: &str, of: Option<&str>) -> Result<Connections, HostError> {
    let state = State::applied(host)?;
    if let Some(name) = of {
        known_owner(&state, name)?;
    }
    let set = super::look::maps(&state)?;
    let settings = settings(&set)?;
    let entries = maps::entries(&set)?;
    let now = Clock::now()?.monotonic_ns;
    let rows = entries.iter();
    let rows = rows.filter_map(|entry| row(&state, entry, settings.rules_version, now));
    let most = settings.connection_places;
    Ok(Connections::listed(host, most, rows.collect(), of))
}

impl Connections {
    /// Those of `of`, in order. What is listed is what is counted.
    fn listed(host: &str, most: u32, mut rows: Vec<ConnectionRow>, of: Option<&str>) -> Self {
        let held = rows.iter().filter(|row| !row.expired).count();
        rows.retain(|row| of.is_none_or(|name| row.whose.name() == name));
        rows.sort_by(|a, b| {
            let order =
                |row: &ConnectionRow| (row.whose.clone(), row.protocol, row.local, row.peer);
            order(a).cmp(&order(b))
        });
        let expired = rows.iter().filter(|row| row.expired).count();
        Self {
            host: host.to_owned(),
            most,
            held,
            live: rows.len() - expired,
            expired,
            connections: rows,
        }
    }
}

/// The host has a port or a router of this name.
pub(crate) fn known_owner(state: &State, name: &str) -> Result<(), HostError> {
    let ports = state.tables.ports.iter().map(|port| &port.name);
    let routers = state.tables.routers.iter().map(|router| &router.name);
    let known: Vec<String> = ports.chain(routers).map(ToString::to_string).collect();
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(HostError::NoPortOrRouter {
        host: state.host.clone(),
        name: name.to_owned(),
        known,
    })
}

impl Whose {
    /// The name of the port or router.
    pub fn name(&self) -> &str {
        match self {
            Self::Port(name) | Self::Router(name) => name,
        }
    }

    /// None for a port or router that is gone; its connections are nobody's.
    pub(crate) fn of(state: &State, key: &ConnectionKey) -> Option<Self> {
        if let Some(router) = key.router() {
            return router_name(state, router.get()).map(Self::Router);
        }
        let port = state.port(key.switch_id, key.key.into())?;
        Some(Self::Port(port.name.to_string()))
    }
}

/// Both ends and, of ICMP, the type of the request.
pub(crate) fn ends(key: &ConnectionKey) -> (End, End, Option<u8>) {
    let (local, peer) = (u16::from_be(key.local_port), u16::from_be(key.peer_port));
    let end = |address: Addr, port| End {
        address: address.of_family(key.family),
        port,
    };
    // ICMP asks by a type, and a request of the peer has a bit above it.
    if matches!((key.family, key.protocol), (4, 1) | (6, 58)) && peer != 0 {
        let (local, peer_end) = (end(key.local, Some(local)), end(key.peer, None));
        return (local, peer_end, Some((peer & 0xff) as u8));
    }
    let port = |port| (local != 0 || peer != 0).then_some(port);
    (end(key.local, port(local)), end(key.peer, port(peer)), None)
}

fn row(state: &State, entry: &ConnectionEntry, version: u32, now: u64) -> Option<ConnectionRow> {
    let ConnectionEntry { key, value } = entry;
    let (local, peer, icmp_type) = ends(key);
    let seconds = |since: u64| now.saturating_sub(since) / SECOND_NS;
    // Numbers of rules are those of a version: another one may have given this number to another rule.
    let mut rules = state.rules().filter(|_| value.version == version);
    let rule = rules.find(|(number, _)| *number == value.rule);
    Some(ConnectionRow {
        whose: Whose::of(state, key)?,
        protocol: key.protocol,
        local,
        peer,
        icmp_type,
        begun_by_peer: value.flags & abi::CONNECTION_FROM_PEER != 0,
        adopted: value.flags & abi::CONNECTION_ADOPTED != 0,
        state: ConnectionState::of(value.state)?,
        age_s: seconds(value.begun),
        idle_s: seconds(value.seen),
        time_out_s: value.life,
        expired: entry.is_expired(now),
        rule: rule.map(|(_, rule)| rule.name.to_string()),
        translation: translation(key, value, (local, peer)),
    })
}

/// What is in force.
fn settings(set: &MapSet) -> Result<Settings, HostError> {
    let settings = set.entries(Table::Settings)?;
    let settings = settings.values().next();
    let settings = settings.and_then(|bytes| Settings::read_from_bytes(bytes).ok());
    Ok(settings.unwrap_or_else(Settings::new_zeroed))
}

/// Of a connection with these ends.
fn translation(
    key: &ConnectionKey,
    value: &Connection,
    (local, peer): (End, End),
) -> Option<Translation> {
    key.router()?;
    let outside = End {
        address: value.outside.of_family(key.family),
        port: local.port.map(|_| u16::from_be(value.outside_port)),
    };
    let peer_port = u16::from_be(value.peer_outside_port());
    Some(Translation {
        outside,
        peer: End {
            port: peer.port.map(|_| peer_port),
            ..peer
        },
        revoked: value.flags & abi::CONNECTION_REVOKED != 0,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use overlane_model::Fabric;

    use super::*;

    const VERSION: u32 = 77;
    const FABRIC: &str = r#"
version: 1
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
switches: { blue: { vni: 5001 } }
ports: { web: { switch: blue, host: h1, device: web0, mac: "02:00:00:00:00:01", key: 7 } }
rules: { web-http: { ports: [web], direction: to_port, action: allow } }
routers: { r1: { interfaces: { blue: [198.18.1.254/24] } } }
"#;

    fn state() -> State {
        let fabric = Fabric::parse("f", FABRIC).unwrap();
        let mut state = State::of(&fabric.compile("h1").unwrap());
        state.rule_numbers = vec![10241];
        state
    }

    /// The connections of router `r1` have this zone.
    fn zone() -> u32 {
        abi::ZONE_ROUTER | state().tables.routers[0].id.get()
    }

    /// A connection of port `web` over IPv4.
    pub(crate) fn key(protocol: u8, local_port: u16, peer_port: u16) -> ConnectionKey {
        ConnectionKey {
            switch_id: 5001,
            key: 7,
            protocol,
            family: 4,
            local: IpAddr::from([198, 18, 1, 1]).into(),
            peer: IpAddr::from([198, 18, 2, 2]).into(),
            local_port: local_port.to_be(),
            peer_port: peer_port.to_be(),
        }
    }

    fn value() -> Connection {
        Connection {
            begun: 10 * SECOND_NS,
            seen: 40 * SECOND_NS,
            rule: 10241,
            version: VERSION,
            state: abi::CONNECTION_ESTABLISHED,
            life: 180,
            flags: abi::CONNECTION_FROM_PEER | abi::CONNECTION_ANSWERED,
            ..Connection::default()
        }
    }

    fn at(key: ConnectionKey, value: Connection, now_s: u64) -> Option<ConnectionRow> {
        row(
            &state(),
            &ConnectionEntry { key, value },
            VERSION,
            now_s * SECOND_NS,
        )
    }

    #[test]
    fn a_ports_connection_has_names() {
        let row = at(key(17, 53, 4000), value(), 100).unwrap();
        assert_eq!(row.whose, Whose::Port("web".into()));
        assert_eq!(row.local.to_string(), "198.18.1.1:53");
        assert_eq!(row.peer.to_string(), "198.18.2.2:4000");
        assert_eq!((row.age_s, row.idle_s, row.time_out_s), (90, 60, 180));
        assert_eq!(row.rule.as_deref(), Some("web-http"));
        assert!(row.begun_by_peer && !row.expired && row.translation.is_none());
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["port"], "web");
        assert_eq!(json["local"]["port"], 53);
    }

    #[test]
    fn a_number_of_former_rules_is_no_rules_name() {
        let old = Connection {
            version: VERSION - 1,
            ..value()
        };
        assert_eq!(at(key(17, 53, 4000), old, 100).unwrap().rule, None);
    }

    #[test]
    fn what_is_over_its_time_is_marked() {
        assert!(!at(key(17, 53, 4000), value(), 220).unwrap().expired);
        assert!(at(key(17, 53, 4000), value(), 221).unwrap().expired);
    }

    #[test]
    fn icmp_has_an_identifier_and_a_type() {
        // The peer asks: a bit above the type.
        let row = at(key(1, 77, 8 + 256), value(), 50).unwrap();
        assert_eq!((row.local.port, row.peer.port), (Some(77), None));
        assert_eq!(row.icmp_type, Some(8));
        let fragment = at(key(1, 0, 0), value(), 50).unwrap();
        assert_eq!((fragment.local.port, fragment.icmp_type), (None, None));
        assert_eq!(fragment.local.to_string(), "198.18.1.1");
    }

    #[test]
    fn a_routers_connection_is_a_translation() {
        let zone = ConnectionKey {
            switch_id: zone(),
            key: 0,
            ..key(6, 1234, 80)
        };
        let value = Connection {
            rule: abi::RULE_DEFAULT,
            outside: IpAddr::from([198, 19, 0, 2]).into(),
            outside_port: 5678u16.to_be(),
            owner: u32::from_ne_bytes([0x13, 0xc4, 0, 0]),
            ..value()
        };
        let row = at(zone, value, 50).unwrap();
        assert_eq!(row.whose, Whose::Router("r1".into()));
        let Translation { outside, peer, .. } = row.translation.unwrap();
        assert_eq!(outside.to_string(), "198.19.0.2:5678");
        assert_eq!((peer.address, peer.port), (row.peer.address, Some(5060)));
        assert_eq!(row.rule, None);
    }

    #[test]
    fn addresses_are_of_the_packets_family() {
        let translated = Connection {
            outside: IpAddr::from([198, 19, 0, 2]).into(),
            ..value()
        };
        for (family, local, peer, outside) in [
            (4, "198.18.1.1:1", "198.18.2.2:2", "198.19.0.2:0"),
            (
                6,
                "[::ffff:198.18.1.1]:1",
                "[::ffff:198.18.2.2]:2",
                "[::ffff:198.19.0.2]:0",
            ),
        ] {
            let key = ConnectionKey {
                switch_id: zone(),
                key: 0,
                family,
                ..key(6, 1, 2)
            };
            let row = at(key, translated, 50).unwrap();
            let outside_end = row.translation.unwrap().outside;
            let shown = [row.local, row.peer, outside_end].map(|end| end.to_string());
            assert_eq!(shown, [local, peer, outside]);
        }
    }

    #[test]
    fn what_is_listed_is_what_is_counted() {
        let zone = ConnectionKey {
            switch_id: zone(),
            key: 0,
            ..key(6, 1, 2)
        };
        let rows = || {
            let rows = [(key(17, 53, 1), 100), (key(17, 53, 2), 300), (zone, 300)];
            rows.map(|(key, now)| at(key, value(), now).unwrap()).into()
        };
        for (of, listed, live, expired) in [
            (None, 3, 1, 2),
            (Some("web"), 2, 1, 1),
            (Some("r1"), 1, 0, 1),
            (Some("other"), 0, 0, 0),
        ] {
            let shown = Connections::listed("h1", 64, rows(), of);
            let counts = (shown.connections.len(), shown.live, shown.expired);
            assert_eq!(counts, (listed, live, expired), "{of:?}");
            assert_eq!((shown.held, shown.most), (1, 64));
        }
    }

    #[test]
    fn what_belongs_to_nobody_is_not_shown() {
        let gone = ConnectionKey {
            key: 8,
            ..key(6, 1, 2)
        };
        assert_eq!(at(gone, value(), 50), None);
    }
}
