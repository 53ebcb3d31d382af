//! The connections that both executors hold after a sequence: the same ones, in the same state, to the last
//! number of a window.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_ebpf::EbpfError;
use overlane_ebpf::abi::firewall as abi;
use overlane_ebpf::connections::ConnectionEntry;
use overlane_model::{Name, Tables};
use overlane_pipeline::{Connection, State, TcpEnd};

use crate::logged::{Key, our_key, their_key};
use crate::test_runner::TestRunner;

/// All that is remembered of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    begun_ns: u64,
    seen_ns: u64,
    rule: Option<Name>,
    version: u32,
    place: u32,
    life_s: u32,
    state: u8,
    /// From the peer, adopted, answered, assured, picked up.
    flags: [bool; 5],
    again: Option<Syn>,
    /// Address, port, the peer's port there.
    outside: Option<(IpAddr, u16, u16)>,
    local: End,
    peer: End,
}

/// End, its most, window, acknowledged, scale; seen, FIN.
type End = (u32, u32, u32, u32, Option<u8>, bool, bool);

/// The lowest that acknowledges it, end, window, scale; from the peer.
type Syn = (u32, u32, u16, Option<u8>, bool);

/// In words; none: none. The tables of each version of the rules.
pub(super) fn differences(
    tables: &[&Tables],
    state: &State,
    kernel: &TestRunner,
) -> Result<Vec<String>, EbpfError> {
    let ours: BTreeMap<Key, Known> = state
        .connections()
        .iter()
        .map(|(key, connection)| (our_key(key), ours(connection)))
        .collect();
    let theirs: BTreeMap<Key, Known> = kernel
        .connections()?
        .iter()
        .map(|entry| (their_key(&entry.key), theirs(tables, entry)))
        .collect();
    let keys = ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(key)));
    let different = keys.filter(|key| ours.get(key) != theirs.get(key));
    Ok(different
        .map(|key| {
            let (reference, ebpf) = (ours.get(key), theirs.get(key));
            format!("connection:\n  {key:?}\n  reference {reference:?}\n  eBPF      {ebpf:?}")
        })
        .collect())
}

fn ours(connection: &Connection) -> Known {
    Known {
        begun_ns: connection.begun_ns,
        seen_ns: connection.seen_ns,
        rule: connection.rule.clone(),
        version: connection.version,
        place: connection.place,
        life_s: connection.life_s,
        state: connection.state as u8,
        flags: [
            connection.from_peer,
            connection.adopted,
            connection.answered,
            connection.assured,
            connection.picked_up,
        ],
        again: connection
            .again
            .map(|syn| (syn.acked, syn.end, syn.window, syn.scale, syn.from_peer)),
        outside: (connection.outside).map(|key| (key.local, key.local_port, key.peer_port)),
        local: our_end(&connection.local),
        peer: our_end(&connection.peer),
    }
}

fn our_end(end: &TcpEnd) -> End {
    (
        end.end,
        end.max_end,
        end.max_window,
        end.acked,
        end.scale,
        end.seen,
        end.fin,
    )
}

fn theirs(tables: &[&Tables], entry: &ConnectionEntry) -> Known {
    let connection = &entry.value;
    let of_version = tables
        .iter()
        .find(|it| it.firewall.version == connection.version);
    let rules = of_version.map_or_else(Default::default, |it| &*it.firewall.rules);
    let is = |flag: u8| connection.flags & flag != 0;
    // An IPv6 address may look like a mapped one.
    let outside = match entry.key.family {
        4 => connection.outside.into(),
        _ => IpAddr::from(connection.outside.bytes),
    };
    let is_translation = entry.key.router().is_some();
    Known {
        begun_ns: connection.begun,
        seen_ns: connection.seen,
        rule: rules
            .get(connection.rule as usize)
            .map(|rule| rule.name.clone()),
        version: connection.version,
        place: connection.place,
        life_s: connection.life,
        state: connection.state,
        flags: [
            is(abi::CONNECTION_FROM_PEER),
            is(abi::CONNECTION_ADOPTED),
            is(abi::CONNECTION_ANSWERED),
            is(abi::CONNECTION_ASSURED),
            is(abi::CONNECTION_PICKED_UP),
        ],
        again: their_syn(&connection.again),
        outside: is_translation.then(|| {
            let peer_port = connection.peer_outside_port();
            (
                outside,
                u16::from_be(connection.outside_port),
                u16::from_be(peer_port),
            )
        }),
        local: their_end(&connection.local),
        peer: their_end(&connection.peer),
    }
}

fn their_syn(syn: &abi::SynSeen) -> Option<Syn> {
    let is = |flag: u8| syn.flags & flag != 0;
    let scale = is(abi::SYN_SCALE).then_some(syn.scale);
    is(abi::SYN_SEEN).then_some((
        syn.acked,
        syn.end,
        syn.window,
        scale,
        is(abi::SYN_FROM_PEER),
    ))
}

fn their_end(end: &abi::TcpEnd) -> End {
    let is = |flag: u8| end.flags & flag != 0;
    (
        end.end,
        end.max_end,
        end.max_window,
        end.acked,
        is(abi::TCP_END_SCALE).then_some(end.scale),
        is(abi::TCP_END_SEEN),
        is(abi::TCP_END_FIN),
    )
}
