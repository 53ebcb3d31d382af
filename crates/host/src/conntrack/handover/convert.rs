//! A connection as the maps have it, and as it moves.

use overlane_ebpf::abi::firewall::{self as abi, Connection, ConnectionKey, TcpEnd};
use overlane_ebpf::connections::ConnectionEntry;
use overlane_model::{FirewallTable, MovedConnection, MovedEnd, MovedEnds, MovedMarks, MovedState};

const MS: u64 = 1_000_000;
/// In the peer port of an ICMP connection, beside the type: the peer asks.
const PEER_ASKS: u16 = 256;

/// None: a state that this version does not know.
pub(super) fn leaving(entry: &ConnectionEntry, now: u64) -> Option<MovedConnection> {
    let ConnectionEntry { key, value } = entry;
    let (local, peer) = (u16::from_be(key.local_port), u16::from_be(key.peer_port));
    let is_icmp = matches!((key.family, key.protocol), (4, 1) | (6, 58));
    let marks = match (local, peer) {
        (0, 0) => MovedMarks::None,
        _ if is_icmp => MovedMarks::Query(peer.to_le_bytes()[0], local),
        _ => MovedMarks::Ports(local, peer),
    };
    let is = |flag| value.flags & flag != 0;
    let ms = |since: u64| now.saturating_sub(since) / MS;
    let idle_ms = ms(value.seen);
    Some(MovedConnection {
        protocol: key.protocol,
        local: key.local.of_family(key.family),
        peer: key.peer.of_family(key.family),
        marks,
        begun_by_peer: is(abi::CONNECTION_FROM_PEER),
        adopted: is(abi::CONNECTION_ADOPTED),
        answered: is(abi::CONNECTION_ANSWERED),
        state: match value.state {
            abi::CONNECTION_OPENING => MovedState::Opening,
            abi::CONNECTION_ESTABLISHED => MovedState::Established,
            abi::CONNECTION_CLOSING => MovedState::Closing,
            abi::CONNECTION_CLOSED => MovedState::Closed,
            _ => return None,
        },
        // One CPU may have written what another one's clock had not reached.
        age_ms: ms(value.begun).max(idle_ms),
        idle_ms,
        tcp: (key.protocol == 6 && marks != MovedMarks::None).then(|| MovedEnds {
            local: end_leaving(&value.local),
            peer: end_leaving(&value.peer),
        }),
    })
}

/// A connection that came, as the maps have it: of the port with this switch and key. The rules of this host have
/// not judged it.
pub fn entry(moved: &MovedConnection, (switch_id, key): (u32, u16), now: u64) -> ConnectionEntry {
    let (local_port, peer_port) = match moved.marks {
        MovedMarks::None => (0, 0),
        MovedMarks::Ports(local, peer) => (local, peer),
        MovedMarks::Query(kind, identifier) => {
            let asks = if moved.begun_by_peer { PEER_ASKS } else { 0 };
            (identifier, u16::from(kind) + asks)
        }
    };
    let key = ConnectionKey {
        switch_id,
        key,
        protocol: moved.protocol,
        family: if moved.local.is_ipv4() { 4 } else { 6 },
        local: moved.local.into(),
        peer: moved.peer.into(),
        local_port: local_port.to_be(),
        peer_port: peer_port.to_be(),
    };
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let at = |ms: u64| now.saturating_sub(ms.saturating_mul(MS));
    let ends = moved.tcp.unwrap_or_default();
    let value = Connection {
        begun: at(moved.age_ms),
        seen: at(moved.idle_ms),
        rule: abi::RULE_DEFAULT,
        version: FirewallTable::NO_VERSION,
        state: match moved.state {
            MovedState::Opening => abi::CONNECTION_OPENING,
            MovedState::Established => abi::CONNECTION_ESTABLISHED,
            MovedState::Closing => abi::CONNECTION_CLOSING,
            MovedState::Closed => abi::CONNECTION_CLOSED,
        },
        flags: flag(
            moved.begun_by_peer,
            abi::CONNECTION_FROM_PEER | abi::CONNECTION_MADE_BY_PEER,
        ) | flag(moved.adopted, abi::CONNECTION_ADOPTED)
            | flag(moved.tcp.is_some(), abi::CONNECTION_PICKED_UP)
            | flag(
                moved.answered,
                abi::CONNECTION_ANSWERED | abi::CONNECTION_ASSURED,
            ),
        local: end_coming(&ends.local),
        peer: end_coming(&ends.peer),
        ..Connection::default()
    };
    ConnectionEntry { key, value }
}

fn end_leaving(end: &TcpEnd) -> MovedEnd {
    MovedEnd {
        max_window: end.max_window,
        scale: (end.flags & abi::TCP_END_SCALE != 0).then_some(end.scale),
    }
}

fn end_coming(end: &MovedEnd) -> TcpEnd {
    TcpEnd {
        max_window: end.max_window,
        scale: end.scale.unwrap_or_default(),
        flags: end.scale.map_or(0, |_| abi::TCP_END_SCALE),
        ..TcpEnd::default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use overlane_ebpf::abi::Addr;

    use super::*;

    const NOW: u64 = 500_000 * MS;

    fn there(protocol: u8, family: u8, ports: (u16, u16), flags: u8) -> ConnectionEntry {
        let address = |last: u8| match family {
            4 => IpAddr::from([198, 18, 100, last]).into(),
            // An IPv6 address that looks like an IPv4 one inside the maps.
            _ => Addr::from(IpAddr::from([198, 18, 100, last])),
        };
        let end = |end, flags| TcpEnd {
            end,
            max_end: end + 7,
            max_window: 65_535,
            scale: if flags & abi::TCP_END_SCALE != 0 {
                9
            } else {
                0
            },
            flags,
            ..TcpEnd::default()
        };
        let is_tcp = protocol == 6 && ports != (0, 0);
        let ends = match is_tcp {
            true => (
                end(1, abi::TCP_END_SEEN | abi::TCP_END_SCALE),
                end(2, abi::TCP_END_SEEN | abi::TCP_END_FIN),
            ),
            false => (TcpEnd::default(), TcpEnd::default()),
        };
        ConnectionEntry {
            key: ConnectionKey {
                switch_id: 5001,
                key: 7,
                protocol,
                family,
                local: address(1),
                peer: address(2),
                local_port: ports.0.to_be(),
                peer_port: ports.1.to_be(),
            },
            value: Connection {
                begun: 100_000 * MS,
                seen: 400_000 * MS,
                rule: 3,
                version: 77,
                place: 5,
                state: if is_tcp {
                    abi::CONNECTION_CLOSING
                } else {
                    abi::CONNECTION_OPENING
                },
                flags,
                local: ends.0,
                peer: ends.1,
                ..Connection::default()
            },
        }
    }

    #[test]
    fn a_connection_is_the_same_there_but_for_rule_version_place_and_windows() {
        let from_peer = abi::CONNECTION_FROM_PEER | abi::CONNECTION_MADE_BY_PEER;
        let answered = abi::CONNECTION_ANSWERED | abi::CONNECTION_ASSURED;
        for (protocol, family, ports, flags) in [
            (6, 4, (4000, 80), answered),
            (6, 6, (0, 80), from_peer | abi::CONNECTION_ADOPTED),
            (6, 4, (0, 0), 0),
            (17, 6, (53, 4000), from_peer),
            (1, 4, (77, 8), answered),
            (1, 4, (0, 13), 0),
            (58, 6, (77, 128 + 256), from_peer),
            (58, 4, (0, 0), 0),
        ] {
            let there = there(protocol, family, ports, flags);
            let moved = leaving(&there, NOW).unwrap();
            assert_eq!((moved.age_ms, moved.idle_ms), (400_000, 100_000));
            // The clock of the other host began at another time.
            let here = entry(&moved, (5001, 9), 2 * NOW);
            let end = |end: TcpEnd| TcpEnd {
                max_window: end.max_window,
                scale: end.scale,
                flags: end.flags & abi::TCP_END_SCALE,
                ..TcpEnd::default()
            };
            let is_tcp = protocol == 6 && ports != (0, 0);
            let picked_up = if is_tcp { abi::CONNECTION_PICKED_UP } else { 0 };
            let expected = ConnectionEntry {
                key: ConnectionKey {
                    key: 9,
                    ..there.key
                },
                value: Connection {
                    begun: NOW + 100_000 * MS,
                    seen: NOW + 400_000 * MS,
                    rule: abi::RULE_DEFAULT,
                    version: FirewallTable::NO_VERSION,
                    place: 0,
                    flags: flags | picked_up,
                    local: end(there.value.local),
                    peer: end(there.value.peer),
                    ..there.value
                },
            };
            assert_eq!(here, expected);
        }
    }

    #[test]
    fn a_host_that_was_just_booted_knows_no_earlier_time() {
        let moved = leaving(&there(6, 4, (4000, 80), 0), NOW).unwrap();
        let here = entry(&moved, (5001, 7), 3_000 * MS).value;
        assert_eq!((here.begun, here.seen), (0, 0));
    }

    #[test]
    fn a_clock_that_was_read_too_early_makes_no_negative_age() {
        let moved = leaving(&there(6, 4, (4000, 80), 0), 50_000 * MS).unwrap();
        assert_eq!((moved.age_ms, moved.idle_ms), (0, 0));
    }

    #[test]
    fn what_no_version_wrote_stays() {
        let mut odd = there(17, 4, (1, 2), 0);
        odd.value.state = 9;
        assert_eq!(leaving(&odd, NOW), None);
    }
}
