//! The places of connections: a host has so many and no more, and a port or router may use a share of them, which lies
//! scattered over all. `connection_places` of `bpf/lib/abi_firewall.h`; `bpf/lib/places.h` has the picture.

use overlane_wire::hash::hash_words;

use crate::lib::flow_hash::remix;
use crate::lib::ip::mapped;
use crate::lib::key::{ConnectionKey, Zone};
use crate::lib::state::State;

/// Places that are looked at for one connection.
const PROBES: u32 = 72;
/// Of a router; a quarter of less is too little for a guest.
const LEAST_DIVIDED_SHARE: u32 = 1024;
/// `ZONE_ROUTER` of `bpf/lib/abi_firewall.h`.
const ZONE_ROUTER: u32 = 1 << 25;

/// Where a number of a zone's share is among so many places, a power of two; each number has another place.
fn place_of(number: u32, zone: u32, places: u32) -> u32 {
    let mask = places - 1;
    let mut place = number.wrapping_mul(0x9e37_79b1) & mask;
    place ^= place >> 10;
    place = place.wrapping_mul(zone | 1) & mask;
    place ^= place >> 10;
    place.wrapping_add(zone >> 12) & mask
}

/// A number in a share, from a hash. In a router's share every inside address has a quarter: of each four numbers in a
/// row one.
fn number_in_share(hash: u32, share: u32, inside: Option<u32>) -> u32 {
    let below = |most: u32| ((u64::from(hash) * u64::from(most)) >> 32) as u32;
    match inside {
        None => below(share),
        Some(inside) => {
            let four = below(share / 4);
            four * 4 + (remix(four ^ inside) & 3)
        }
    }
}

/// A place for a new connection of one that may have `share` of so many `places`, a power of two. What has expired
/// there is forgotten; where none is free, one that makes way for others is forgotten. `None`: full.
pub(crate) fn take_place(
    state: &mut State,
    key: &ConnectionKey,
    (share, places): (u32, u32),
    now_ns: u64,
) -> Option<u32> {
    let words = key.words();
    let hash = hash_words(&words, state.secret);
    let zone = remix(remix(state.secret ^ words[0]) ^ (words[1] & 0xffff));
    let share = share.min(places);
    let [_, _, inside @ .., _, _, _, _, _] = words;
    let inside = (matches!(key.zone, Zone::Router(_)) && share >= LEAST_DIVIDED_SHARE)
        .then(|| 1 | hash_words(&inside, state.secret));
    let mut victim = None;
    for attempt in 0..PROBES {
        let hash = remix(hash.wrapping_add(attempt.wrapping_mul(0x9e37_79b9)));
        let place = place_of(number_in_share(hash, share, inside), zone, places);
        let Some(holder) = state.places.last.get(&place).copied() else {
            return Some(place);
        };
        let connection = state.connections.get(&holder);
        let Some(connection) = connection.filter(|connection| connection.place == place) else {
            return Some(place);
        };
        if connection.is_expired(now_ns) {
            state.forget(&holder);
            return Some(place);
        }
        if connection.makes_way(&holder) {
            // Its own first, the oldest of these.
            let rank = (holder.zone != key.zone, connection.seen_ns);
            if victim.is_none_or(|(least, _, _)| rank < least) {
                victim = Some((rank, place, holder));
            }
        }
    }
    let (_, place, holder) = victim?;
    state.forget(&holder);
    Some(place)
}

impl ConnectionKey {
    /// As it lies in the memory of the data path: little-endian words.
    fn words(&self) -> [u32; 11] {
        let (zone, key) = match self.zone {
            Zone::Port(switch, key) => (switch.number(), key.get()),
            Zone::Router(router) => (ZONE_ROUTER | router.get(), 0),
        };
        let family = if self.local.is_ipv4() { 4 } else { 6 };
        let kind = u32::from(key) | u32::from(self.protocol) << 16 | family << 24;
        let ports =
            u32::from(self.local_port.swap_bytes()) | u32::from(self.peer_port.swap_bytes()) << 16;
        let [local, peer] = [self.local, self.peer].map(|addr| {
            let bytes = mapped(addr).octets();
            let (words, _) = bytes.as_chunks::<4>();
            [0, 1, 2, 3].map(|i: usize| u32::from_le_bytes(words[i]))
        });
        let [l0, l1, l2, l3] = local;
        let [p0, p1, p2, p3] = peer;
        [zone, kind, l0, l1, l2, l3, p0, p1, p2, p3, ports]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn share(places: u32, zone: u32, share: u32) -> BTreeSet<u32> {
        (0..share)
            .map(|number| place_of(number, zone, places))
            .collect()
    }

    #[test]
    fn a_share_has_its_size_and_takes_a_little_of_every_other() {
        let of_one = share(1 << 20, remix(1), 65_536);
        assert_eq!(of_one.len(), 65_536);
        for zone in 2..20 {
            let of_other = share(1 << 20, remix(zone), 65_536);
            let both = of_one.intersection(&of_other).count();
            assert!((3_500..4_700).contains(&both), "{zone}: {both}");
        }
    }

    #[test]
    fn a_share_of_all_is_all() {
        for zone in 0..100 {
            assert_eq!(share(16, remix(zone), 16).len(), 16);
        }
    }
}
