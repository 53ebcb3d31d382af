//! Connections that the firewall and nat follow: the maps `connections` and `translations`, the ring of their
//! places, and the limits of what is sent or written. Written by the programs; `apply` leaves them alone.

use overlane_model::RouterId;
use zerocopy::FromBytes;

use crate::EbpfError;
use crate::abi::firewall::{self as abi, Connection, ConnectionKey, LimitState};
use crate::maps::MapSet;

pub(crate) const CONNECTIONS: &str = "connections";
pub(crate) const TRANSLATIONS: &str = "translations";
const RING_HAND: &str = "ring_hand";
const LIMITS: &str = "limits";

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionEntry {
    /// Whose it is, and its ends.
    pub key: ConnectionKey,
    /// Where it stands.
    pub value: Connection,
}

/// All connections, expired ones among them, in no order. One that comes or goes meanwhile may be missed.
pub fn entries(maps: &MapSet) -> Result<Vec<ConnectionEntry>, EbpfError> {
    let mut entries = Vec::new();
    maps.walk(CONNECTIONS, |key, value| {
        let key = ConnectionKey::read_from_bytes(key);
        let value = Connection::read_from_bytes(value);
        if let (Ok(key), Ok(value)) = (key, value) {
            entries.push(ConnectionEntry { key, value });
        }
    })?;
    Ok(entries)
}

/// Forgets all connections and starts the ring anew, for tests. Keys that are left in the ring are no
/// connection's, and their places count as free.
pub fn forget(maps: &MapSet) -> Result<(), EbpfError> {
    maps.clear(CONNECTIONS)?;
    maps.clear(TRANSLATIONS)?;
    let limits = (0..abi::LIMIT_COUNT as u32).map(|limit| (LIMITS, limit, size_of::<LimitState>()));
    for (name, entry, len) in limits.chain([(RING_HAND, 0, size_of::<u32>())]) {
        maps.map(name)?
            .put(&entry.to_ne_bytes(), &vec![0; len])
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", name))?;
    }
    Ok(())
}

impl ConnectionKey {
    /// The router whose translation it is; none: it is a port's connection.
    pub const fn router(&self) -> Option<RouterId> {
        if self.switch_id & abi::ZONE_ROUTER == 0 {
            return None;
        }
        RouterId::new(self.switch_id & !abi::ZONE_ROUTER)
    }
}

impl Connection {
    /// Seconds without a packet after which it is forgotten.
    pub const fn time_out_s(&self, key: &ConnectionKey) -> u64 {
        const TCP: u8 = 6;
        // Fragments have no ports, and no windows either.
        let is_tcp = key.protocol == TCP && (key.local_port != 0 || key.peer_port != 0);
        let is_icmp = matches!((key.family, key.protocol), (4, 1) | (6, 58));
        match (self.state, is_tcp) {
            (abi::CONNECTION_OPENING, _) => 30,
            (abi::CONNECTION_CLOSING, _) => 120,
            (abi::CONNECTION_CLOSED, _) => 10,
            (_, true) => 432_000,
            _ if is_icmp => 60,
            _ => 180,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_follow_state_and_protocol() {
        let key = |protocol, port| ConnectionKey {
            protocol,
            family: if protocol == 58 { 6 } else { 4 },
            local_port: port,
            ..ConnectionKey::default()
        };
        let of = |state, protocol, port| {
            let connection = Connection {
                state,
                ..Connection::default()
            };
            connection.time_out_s(&key(protocol, port))
        };
        assert_eq!(of(abi::CONNECTION_OPENING, 6, 80), 30);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 6, 80), 432_000);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 6, 0), 180);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 17, 53), 180);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 1, 7), 60);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 58, 7), 60);
        assert_eq!(of(abi::CONNECTION_CLOSING, 6, 80), 120);
        assert_eq!(of(abi::CONNECTION_CLOSED, 6, 80), 10);
    }

    #[test]
    fn a_connection_is_a_ports_or_a_routers() {
        let key = |switch_id| ConnectionKey {
            switch_id,
            ..ConnectionKey::default()
        };
        assert_eq!(key(5001).router(), None);
        assert_eq!(key(abi::ZONE_ROUTER | 7).router(), RouterId::new(7));
    }
}
