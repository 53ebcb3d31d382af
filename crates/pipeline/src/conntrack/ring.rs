//! The places of connections: a host has so many and no more. A hand goes round; where it finds a place
//! free, or its connection expired, the next connection goes. `connection_ring` and `ring_hand` of
//! `bpf/lib/abi.h`.

use std::collections::BTreeMap;

use super::key::ConnectionKey;
use crate::State;

/// Places that are looked at for one connection.
const PROBES: usize = 16;

/// Who had which place last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ring {
    places: u32,
    hand: u32,
    /// A place of a connection that is forgotten is free, though its key still stands here.
    last: BTreeMap<u32, ConnectionKey>,
}

impl Ring {
    pub(crate) fn new(places: u32) -> Self {
        Self {
            places: places.max(1),
            hand: 0,
            last: BTreeMap::new(),
        }
    }

    fn next(&mut self) -> u32 {
        let place = self.hand;
        self.hand = (place + 1) % self.places;
        place
    }

    pub(super) fn put(&mut self, place: u32, key: ConnectionKey) {
        self.last.insert(place, key);
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self::new(State::MAX_CONNECTIONS)
    }
}

/// A place for a new connection; the expired one that had it is forgotten. `None`: full.
pub(super) fn take_place(state: &mut State, now_ns: u64) -> Option<u32> {
    for _ in 0..PROBES {
        let place = state.ring.next();
        let Some(key) = state.ring.last.get(&place).copied() else {
            return Some(place);
        };
        let holder = state.connections.get(&key);
        match holder.filter(|connection| connection.place == place) {
            Some(connection) if !connection.is_expired(&key, now_ns) => {}
            Some(_) => {
                state.forget(&key);
                return Some(place);
            }
            None => return Some(place),
        }
    }
    None
}
