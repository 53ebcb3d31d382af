//! Connections that the firewall and nat follow: the maps `connections` and `translations`, their
//! places, the first fragments of datagrams, and the limits of what is sent or written. Written by the programs, also
//! where a connection comes from another host ([`Taker`]); `apply` leaves them alone, but for those of ports that come
//! to the host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use overlane_model::RouterId;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::Timeouts;
use crate::abi::firewall::{
    self as abi, Connection, ConnectionKey, FragmentPlace, LimitKey, LimitState, TranslationEntry,
};
use crate::links::HeldProgram;
use crate::maps::MapSet;
use crate::{DataPath, EbpfError, Loaded, Program, sys};

pub(crate) const CONNECTIONS: &str = "connections";
pub(crate) const TRANSLATIONS: &str = "translations";
pub(crate) const FRAGMENTS: &str = "fragments";
const LIMITS: &str = "limits";

/// Before what a program at no hook reads.
const ETHERNET_HEADER: [u8; 14] = [0; 14];

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionEntry {
    /// Whose it is, and its ends.
    pub key: ConnectionKey,
    /// Where it stands.
    pub value: Connection,
}

impl ConnectionEntry {
    /// Not seen for its time-out.
    pub const fn is_expired(&self, now_ns: u64) -> bool {
        const SECOND_NS: u64 = 1_000_000_000;
        now_ns.saturating_sub(self.value.seen) > self.value.life as u64 * SECOND_NS
    }
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

/// What local ends of translations are outside, each with the connection that it leads to.
pub(crate) fn translations(
    maps: &MapSet,
) -> Result<BTreeMap<ConnectionKey, ConnectionKey>, EbpfError> {
    let mut found = BTreeMap::new();
    maps.walk(TRANSLATIONS, |key, value| {
        let key = ConnectionKey::read_from_bytes(key);
        let value = TranslationEntry::read_from_bytes(value);
        if let (Ok(outside), Ok(entry)) = (key, value) {
            found.insert(outside, entry.inside);
        }
    })?;
    Ok(found)
}

/// What each sender caused in its last span, of what is limited.
pub fn limits(maps: &MapSet) -> Result<Vec<(LimitKey, LimitState)>, EbpfError> {
    maps.all(LIMITS)
}

/// Forgets all connections, fragments and limits, for tests. Keys that are left in places are no connection's, and
/// these count as free.
pub fn forget(maps: &MapSet) -> Result<(), EbpfError> {
    maps.clear(CONNECTIONS)?;
    maps.clear(TRANSLATIONS)?;
    maps.clear(FRAGMENTS)?;
    maps.clear(LIMITS)
}

/// Forgets the connections of ports, by switch and key, and of routers, and the fragments that passed them. `load` is
/// asked where there are translations to forget.
pub fn forget_of<E: From<EbpfError>>(
    maps: &MapSet,
    ports: &BTreeSet<(u32, u16)>,
    load: impl FnOnce() -> Result<Forgetter, E>,
) -> Result<(), E> {
    forget_where(maps, |key| ports.contains(&(key.switch_id, key.key)), load)?;
    let is_theirs = |place: FragmentPlace| ports.contains(&(place.switch_id, place.key));
    let mut fragments = Vec::new();
    maps.walk(FRAGMENTS, |key, _| {
        if FragmentPlace::read_from_bytes(key).is_ok_and(is_theirs) {
            fragments.push(key.to_vec());
        }
    })?;
    Ok(maps.delete_all(FRAGMENTS, &fragments)?)
}

/// The firewalls of these ports, by switch and key, look at packets again that passed without them: no end of a
/// connection counts as seen. No packet writes there meanwhile.
pub fn pick_up(maps: &MapSet, ports: &BTreeSet<(u32, u16)>) -> Result<(), EbpfError> {
    let map = maps.map(CONNECTIONS)?;
    for ConnectionEntry { key, mut value } in entries(maps)? {
        if !ports.contains(&(key.switch_id, key.key)) {
            continue;
        }
        value.flags |= abi::CONNECTION_PICKED_UP;
        value.local.pick_up();
        value.peer.pick_up();
        map.replace(key.as_bytes(), value.as_bytes())
            .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", CONNECTIONS))?;
    }
    Ok(())
}

/// Forgets the connections with such keys, each with its translation: so many of them were still there. Fragments of
/// datagrams stay known. `load` is asked where there are translations to forget.
pub fn forget_where<E: From<EbpfError>>(
    maps: &MapSet,
    is_meant: impl Fn(&ConnectionKey) -> bool,
    load: impl FnOnce() -> Result<Forgetter, E>,
) -> Result<usize, E> {
    let entries = entries(maps)?;
    let keys = entries.iter().map(|entry| &entry.key);
    let keys = keys.filter(|key| is_meant(key));
    let is_of_router = |key: &&ConnectionKey| key.router().is_some();
    let (of_routers, of_ports): (Vec<&ConnectionKey>, Vec<_>) = keys.partition(is_of_router);
    let connections = maps.map(CONNECTIONS)?;
    let mut forgotten = 0;
    for key in of_ports {
        let there = connections.get(key.as_bytes());
        let there = there.map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", CONNECTIONS))?;
        (connections.delete(key.as_bytes()))
            .map_err(EbpfError::call("BPF_MAP_DELETE_ELEM", CONNECTIONS))?;
        forgotten += usize::from(there.is_some());
    }
    let lonely = lonely(maps, &entries)?;
    if of_routers.is_empty() && lonely.is_empty() {
        return Ok(forgotten);
    }
    let forgetter = load()?;
    let program = forgetter.loaded.program(Program::ForgetTranslated)?;
    Ok(forgotten + forget_translated(program, of_routers, &lonely)?)
}

/// Outside keys whose connections are not among the entries. Of one that somebody is at work with nobody knows.
pub(crate) fn lonely(
    maps: &MapSet,
    entries: &[ConnectionEntry],
) -> Result<Vec<ConnectionKey>, EbpfError> {
    let mut found = Vec::new();
    maps.walk(TRANSLATIONS, |key, value| {
        let key = ConnectionKey::read_from_bytes(key);
        let value = TranslationEntry::read_from_bytes(value);
        if let (Ok(outside), Ok(entry)) = (key, value)
            && entry.claim & 1 == 0
        {
            found.push((outside, entry.inside));
        }
    })?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let of_routers = entries.iter().filter(|entry| entry.key.router().is_some());
    let keys = of_routers.map(|entry| (entry.key, entry.value.outside_key(&entry.key)));
    let keys: BTreeMap<_, _> = keys.collect();
    let is_lonely =
        |(outside, inside): &(ConnectionKey, ConnectionKey)| keys.get(inside) != Some(outside);
    let lonely = found.into_iter().filter(is_lonely);
    Ok(lonely.map(|(outside, _)| outside).collect())
}

/// Forgets the translations of routers by the program of the data path, which packets that are at work with the same
/// ones know of; and what is `lonely`, if it still is. So many of the first were there. The bytes are those that
/// `forget_as_asked` of `bpf/lib/connection.h` reads.
pub(crate) fn forget_translated<'k>(
    program: &HeldProgram,
    keys: impl IntoIterator<Item = &'k ConnectionKey>,
    lonely: &[ConnectionKey],
) -> Result<usize, EbpfError> {
    let none = ConnectionKey::default();
    let run = |key: &ConnectionKey, outside: &ConnectionKey| {
        let bytes = [&ETHERNET_HEADER, key.as_bytes(), outside.as_bytes()].concat();
        let ran = sys::test_run(program.fd(), &bytes, bytes.len());
        let name = Program::ForgetTranslated.name();
        let ran = ran.map_err(EbpfError::call("BPF_PROG_TEST_RUN", name));
        ran.map(|(was_there, _)| was_there == 1)
    };
    let mut forgotten = 0;
    for key in keys {
        forgotten += usize::from(run(key, &none)?);
    }
    for outside in lonely {
        run(&none, outside)?;
    }
    Ok(forgotten)
}

/// Forgets translations while packets are at work with others.
#[derive(Debug)]
pub struct Forgetter {
    loaded: Loaded,
}

impl Forgetter {
    /// Loads the program, for the maps that are pinned in `pins`.
    pub fn load(data_path: &DataPath<'_>, pins: &Path) -> Result<Self, EbpfError> {
        let programs = BTreeSet::from([Program::ForgetTranslated]);
        let loaded = data_path.load(&programs, Some(pins))?;
        Ok(Self { loaded })
    }
}

/// Gives connections that come from another host their places, by the program that the data path has for it: it
/// takes a place as packets do, while they do.
#[derive(Debug)]
pub struct Taker {
    loaded: Loaded,
}

/// What became of a connection that came from another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It has a place.
    Kept,
    /// There is a live one with the same key, which stays.
    There,
    /// There is no place.
    Full,
}

impl Taker {
    /// Loads the program, for the maps that are pinned in `pins`.
    pub fn load(data_path: &DataPath<'_>, pins: &Path) -> Result<Self, EbpfError> {
        let programs = BTreeSet::from([Program::TakeConnection]);
        let loaded = data_path.load(&programs, Some(pins))?;
        Ok(Self { loaded })
    }

    /// Takes one connection; its place is chosen here.
    pub fn take(&self, entry: &ConnectionEntry) -> Result<Taken, EbpfError> {
        take(
            self.loaded.program(Program::TakeConnection)?,
            entry,
            How::Absent,
        )
    }
}

/// Which of two connections with one key stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The one that is there.
    Absent,
    /// The one that had its last packet later. A new one stays in the place that it had, if that is free here.
    Newer {
        /// Places mean the same here.
        in_place: bool,
    },
}

/// The bytes are those that `take_over_connection` of `bpf/lib/take.h` reads.
pub(crate) fn take(
    program: &HeldProgram,
    entry: &ConnectionEntry,
    how: How,
) -> Result<Taken, EbpfError> {
    const TAKE_NEWER: u32 = 1 << 0;
    const TAKE_IN_PLACE: u32 = 1 << 1;
    let (key, value) = (entry.key.as_bytes(), entry.value.as_bytes());
    let how = match how {
        How::Absent => 0,
        How::Newer { in_place: false } => TAKE_NEWER,
        How::Newer { in_place: true } => TAKE_NEWER | TAKE_IN_PLACE,
    };
    let bytes = [&ETHERNET_HEADER, key, value, how.as_bytes()].concat();
    let failed = EbpfError::call("BPF_PROG_TEST_RUN", Program::TakeConnection.name());
    match sys::test_run(program.fd(), &bytes, bytes.len()) {
        Ok((0, _)) => Ok(Taken::Kept),
        Ok((1, _)) => Ok(Taken::There),
        Ok((2, _)) => Ok(Taken::Full),
        Ok((other, _)) => Err(failed(std::io::Error::other(format!(
            "the program returned {other}"
        )))),
        Err(error) => Err(failed(error)),
    }
}

impl abi::TcpEnd {
    /// `pick_up_end` of `bpf/lib/tracking.h`.
    const fn pick_up(&mut self) {
        const MAX_SCALE: u8 = 14; // RFC 7323 section 2.3
        self.flags &= !abi::TCP_END_SEEN;
        if self.max_window == 0 {
            self.scale = MAX_SCALE;
            self.flags |= abi::TCP_END_SCALE;
        }
    }
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
    /// Of a translation: what stands for the peer's port outside, in network order. It has the place of `owner`.
    pub const fn peer_outside_port(&self) -> u16 {
        let [first, second, ..] = self.owner.to_ne_bytes();
        u16::from_ne_bytes([first, second])
    }

    /// Of a translation with this key: what map `translations` finds it by.
    fn outside_key(&self, inside: &ConnectionKey) -> ConnectionKey {
        ConnectionKey {
            local: self.outside,
            local_port: self.outside_port,
            peer_port: self.peer_outside_port(),
            ..*inside
        }
    }
}

impl Timeouts {
    /// Seconds that a connection in this state lives without a packet: `life_of` of `bpf/lib/connection.h`.
    pub const fn life_s(&self, key: &ConnectionKey, state: u8) -> u32 {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        // Fragments have no ports, and no windows either.
        let has_ports = key.local_port != 0 || key.peer_port != 0;
        let is_opening = state == abi::CONNECTION_OPENING;
        match (key.family, key.protocol) {
            (_, TCP) if has_ports => match state {
                abi::CONNECTION_OPENING => self.tcp_opening,
                abi::CONNECTION_ESTABLISHED => self.tcp_established,
                abi::CONNECTION_CLOSING => self.tcp_closing,
                _ => self.tcp_closed,
            },
            (4, 1) | (6, 58) => self.icmp,
            (_, UDP) if is_opening => self.udp_unanswered,
            (_, UDP) => self.udp,
            _ if is_opening => self.other_unanswered,
            _ => self.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_follow_state_and_protocol() {
        let timeouts = Timeouts {
            tcp_opening: 1,
            tcp_established: 2,
            tcp_closing: 3,
            tcp_closed: 4,
            udp_unanswered: 5,
            udp: 6,
            icmp: 7,
            other_unanswered: 8,
            other: 9,
        };
        let of = |state, protocol, port| {
            let key = ConnectionKey {
                protocol,
                family: if protocol == 58 { 6 } else { 4 },
                local_port: port,
                ..ConnectionKey::default()
            };
            timeouts.life_s(&key, state)
        };
        assert_eq!(of(abi::CONNECTION_OPENING, 6, 80), 1);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 6, 80), 2);
        assert_eq!(of(abi::CONNECTION_CLOSING, 6, 80), 3);
        assert_eq!(of(abi::CONNECTION_CLOSED, 6, 80), 4);
        assert_eq!(of(abi::CONNECTION_OPENING, 17, 53), 5);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 17, 53), 6);
        assert_eq!(of(abi::CONNECTION_OPENING, 1, 7), 7);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 58, 7), 7);
        assert_eq!(of(abi::CONNECTION_OPENING, 132, 7), 8);
        assert_eq!(of(abi::CONNECTION_OPENING, 6, 0), 8);
        assert_eq!(of(abi::CONNECTION_ESTABLISHED, 6, 0), 9);
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
