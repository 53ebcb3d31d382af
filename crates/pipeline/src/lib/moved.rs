//! A connection of a port that came from another host: `take_over_connection` of `bpf/lib/begin.h`.

use overlane_model::{
    FirewallTable, MovedConnection, MovedEnd, MovedMarks, MovedState, PortTable, Tables,
};

use crate::lib::connection::{Connection, ConnectionState};
use crate::lib::key::{ConnectionKey, PEER_ASKS, Zone};
use crate::lib::places;
use crate::lib::state::State;
use crate::lib::tcp_state::TcpEnd;
use crate::lib::tracking::timeouts_of;

/// What became of a connection that came from another host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It has a place.
    Kept,
    /// There is a live one with the same key, which stays.
    There,
    /// There is no place.
    Full,
}

impl State {
    /// A connection goes on here, at this port of the host with these tables. The rules of this host judge it with
    /// its next packet.
    pub fn take_over(
        &mut self,
        tables: &Tables,
        port: &PortTable,
        moved: &MovedConnection,
        now_ns: u64,
    ) -> Taken {
        let key = key_of(Zone::Port(port.switch, port.key), moved);
        let live = self.connections.get(&key);
        if live.is_some_and(|connection| !connection.is_expired(now_ns)) {
            return Taken::There;
        }
        self.forget(&key);
        let share = (port.limits.connections, tables.connections);
        let Some(place) = places::take_place(self, &key, share, now_ns) else {
            return Taken::Full;
        };
        let mut connection = connection_of(moved, port.owner(), place, now_ns);
        connection.life_s = connection
            .state
            .life_s(&key, &timeouts_of(tables, key.zone));
        self.remember(key, connection);
        Taken::Kept
    }
}

fn key_of(zone: Zone, moved: &MovedConnection) -> ConnectionKey {
    let (local_port, peer_port) = match moved.marks {
        MovedMarks::None => (0, 0),
        MovedMarks::Ports(local, peer) => (local, peer),
        MovedMarks::Query(kind, identifier) => {
            let asks = if moved.begun_by_peer { PEER_ASKS } else { 0 };
            (identifier, u16::from(kind) + asks)
        }
    };
    ConnectionKey {
        zone,
        protocol: moved.protocol,
        local: moved.local,
        peer: moved.peer,
        local_port,
        peer_port,
    }
}

fn connection_of(moved: &MovedConnection, owner: u32, place: u32, now_ns: u64) -> Connection {
    let at = |ms: u64| now_ns.saturating_sub(ms.saturating_mul(1_000_000));
    let ends = moved.tcp.unwrap_or_default();
    let mut connection = Connection {
        begun_ns: at(moved.age_ms),
        seen_ns: at(moved.idle_ms),
        rule: None,
        version: FirewallTable::NO_VERSION,
        owner,
        place,
        state: match moved.state {
            MovedState::Opening => ConnectionState::Opening,
            MovedState::Established => ConnectionState::Established,
            MovedState::Closing => ConnectionState::Closing,
            MovedState::Closed => ConnectionState::Closed,
        },
        life_s: 0,
        from_peer: moved.begun_by_peer,
        made_by_peer: moved.begun_by_peer,
        adopted: moved.adopted,
        picked_up: false,
        again: None,
        answered: moved.answered,
        assured: moved.answered,
        outside: None,
        local: ends.local.into(),
        peer: ends.peer.into(),
    };
    if moved.tcp.is_some() {
        connection.pick_up();
    }
    connection
}

impl From<MovedEnd> for TcpEnd {
    fn from(end: MovedEnd) -> Self {
        Self {
            max_window: end.max_window,
            scale: end.scale,
            ..Self::default()
        }
    }
}
