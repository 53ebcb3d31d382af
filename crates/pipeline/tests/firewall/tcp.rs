//! The states of a TCP connection.

use overlane_model::Direction::{FromPort, ToPort as To};
use overlane_model::{Action, Verdict::*};
use overlane_pipeline::Connection;
use overlane_pipeline::ConnectionState::{self, *};

use crate::wall::*;

fn state(wall: &Wall) -> ConnectionState {
    wall.connection().1.state
}

#[test]
fn a_handshake_from_inside() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
    let (key, begun) = wall.connection();
    assert_eq!((key.local_port, key.peer_port, key.protocol), (1000, 80, 6));
    assert_eq!(
        (begun.state, begun.from_peer, begun.rule),
        (Opening, false, None)
    );
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, 100)), ToPort);
    assert_eq!(state(&wall), Opening);
    assert!(wall.connection().1.answered);
    assert_eq!(wall.tcp(Local, segment(ACK, 100, 500)), ToPort);
    assert_eq!(state(&wall), Established);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100).len(700)), ToPort);
    let (_, connection) = wall.connection();
    assert_eq!((connection.local.end, connection.peer.end), (100, 1200));
    assert_eq!(
        (connection.local.max_end, connection.peer.max_end),
        (1100, 1500)
    );
}

#[test]
fn nobody_begins_from_outside() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Peer, segment(SYN, 1, 0)), FirewallDrop);
    assert_eq!(wall.tcp(Peer, segment(ACK, 1, 5)), FirewallDrop);
    assert_eq!(wall.connections(), 0);
    // The rules decide first; what they allow must be able to begin a connection.
    assert_eq!(wall.tcp(Local, segment(SYN | ACK, 1, 5)), ConnectionInvalid);
    assert_eq!(wall.tcp(Local, segment(RST | ACK, 1, 5)), ConnectionInvalid);
    assert_eq!(wall.tcp(Local, segment(RST, 1, 0)), ConnectionInvalid);
}

#[test]
fn broken_headers_are_invalid() {
    let mut wall = Wall::new(OPEN, vec![]);
    for flags in [0, FIN, FIN | 8 | 32, SYN | FIN, SYN | RST, SYN | FIN | ACK] {
        let verdict = wall.tcp(Local, segment(flags, 1, 1));
        assert_eq!(verdict, ConnectionInvalid, "{flags:#x}");
    }
    let whole = segment(SYN, 1, 0).scale(7).bytes(Local);
    // The IP packet ends in the header, though the frame does not.
    for short in 0..24 {
        let mut bytes = whole.clone();
        bytes[16..18].copy_from_slice(&(20 + short as u16).to_be_bytes());
        assert_eq!(wall.run(Local, bytes).verdict, ConnectionInvalid, "{short}");
    }
    let mut bytes = whole.clone();
    bytes[46] = 0x40;
    assert_eq!(wall.run(Local, bytes).verdict, ConnectionInvalid);
    assert_eq!(wall.run(Local, whole).verdict, ToPort);
}

#[test]
fn both_open_at_once() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(SYN, 499, 0)), ToPort);
    assert_eq!(state(&wall), Opening);
    assert_eq!(wall.tcp(Local, segment(SYN | ACK, 99, 500)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, 100)), ToPort);
    assert_eq!(state(&wall), Opening);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100).len(10)), ToPort);
    assert_eq!(state(&wall), Established);
}

#[test]
fn an_answer_without_syn_opens_nothing() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
    let before = wall.connection();
    // The local end answers with a reset.
    for (answer, verdict) in [
        (segment(ACK, 500, 100), ToPort),
        (segment(FIN | ACK, 500, 100), ToPort),
        (segment(SYN | ACK, 499, 99), OutOfWindow),
        (segment(SYN | ACK, 499, 101), OutOfWindow),
    ] {
        assert_eq!(wall.tcp(Peer, answer), verdict);
        assert_eq!(wall.connection(), before, "{answer:?}");
    }
}

#[test]
fn a_syn_is_sent_again_until_answered() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    for _ in 0..3 {
        assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
        wall.wait(20);
    }
    // Answered, and the answer was lost: the same connection.
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, 100)), ToPort);
    assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
    let (_, connection) = wall.connection();
    assert_eq!((connection.local.end, connection.again), (100, None));
    assert!(connection.answered);
}

/// Another SYN at the same ports: the peer says with its answer which one it took.
#[test]
fn the_answer_says_which_syn_counts() {
    for (ack, answered) in [(100, false), (10_000, true)] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
        let before = wall.connection().1;
        assert_eq!(wall.tcp(Local, segment(SYN, 9999, 0).window(7)), ToPort);
        let remembered = wall.connection().1;
        assert_eq!(remembered.again.unwrap().end, 10_000);
        assert_eq!(
            (remembered.local, remembered.peer),
            (before.local, before.peer)
        );
        assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, ack)), ToPort);
        let (_, connection) = wall.connection();
        assert_eq!((connection.state, connection.local.end), (Opening, ack));
        assert_eq!(connection.local.max_window, if answered { 7 } else { 1000 });
        assert_eq!(connection.again.is_none(), answered);
        assert_eq!(wall.tcp(Local, segment(ACK, ack, 500)), ToPort);
        assert_eq!(state(&wall), Established);
    }
}

/// TCP fast open (RFC 7413): the peer takes all data of the SYN, some, or none. Who refuses it acknowledges all.
#[test]
fn the_answer_to_a_syn_with_data_acknowledges_any_of_it() {
    let syn = segment(SYN, 9999, 0).len(100);
    for (ack, begins) in [
        (9_999, false),
        (10_000, true),
        (10_050, true),
        (10_100, true),
        (10_101, false),
    ] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        wall.handshake();
        assert_eq!(wall.tcp(Local, syn), ToPort);
        let verdict = if begins { ToPort } else { OutOfWindow };
        assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 7_000, ack)), verdict);
        if begins {
            // What was not taken is sent again.
            let rest = segment(ACK, ack, 7_001).len((10_100 - ack) as usize);
            assert_eq!(wall.tcp(Local, rest), ToPort);
            let (_, connection) = wall.connection();
            assert_eq!(connection.local.end, 10_100);
            assert_eq!(connection.peer.end, 7_001);
        }
        assert_eq!(state(&wall), Established);
    }
    for (ack, verdict) in [(10_000, OutOfWindow), (10_100, ToPort)] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        wall.handshake();
        assert_eq!(wall.tcp(Local, syn), ToPort);
        assert_eq!(wall.tcp(Peer, segment(RST | ACK, 0, ack)), verdict);
        assert_eq!(wall.connection().1.again.is_none(), verdict == ToPort);
    }
}

/// The peer has forgotten the connection, and answers with a SYN cookie: what begins anew is what would have begun,
/// with nothing of the former one, be that scales or windows.
#[test]
fn a_syn_cookie_begins_the_same_as_a_new_connection() {
    let begin = |wall: &mut Wall| {
        let syn = segment(SYN, 3_000_000, 0).window(7000).scale(7);
        assert_eq!(wall.tcp(Local, syn), ToPort);
        // A cookie has room for no scale. It is sent again with another number where the ACK comes late.
        let cookie = |number| segment(SYN | ACK, number, 3_000_001).window(500);
        assert_eq!(wall.tcp(Peer, cookie(9_000_000)), ToPort);
        let first = wall.connection().1;
        assert_eq!(wall.tcp(Local, syn), ToPort);
        assert_eq!(wall.tcp(Peer, cookie(5_000)), ToPort);
        assert_eq!(wall.tcp(Local, segment(ACK, 3_000_001, 5_001)), ToPort);
        assert_eq!(
            wall.tcp(Peer, segment(ACK, 5_001, 3_000_001).len(9)),
            ToPort
        );
        assert_eq!(wall.tcp(Local, segment(ACK, 3_000_001, 5_010)), ToPort);
        let last = wall.connection().1;
        assert_eq!(last.state, Established);
        [first, last]
    };
    let mut fresh = Wall::new(OUTBOUND, vec![]);
    let expected = begin(&mut fresh);
    let mut wall = Wall::new(OUTBOUND, vec![]);
    for (from, tcp) in [
        (Local, segment(SYN, 99, 0).window(60_000).scale(14)),
        (Peer, segment(SYN | ACK, 499, 100).window(60_000).scale(14)),
        (Local, segment(ACK, 100, 500).window(60_000)),
        (Peer, segment(FIN | ACK, 500, 100).window(60_000)),
    ] {
        assert_eq!(wall.tcp(from, tcp), ToPort);
    }
    for (anew, expected) in begin(&mut wall).into_iter().zip(expected) {
        let version = expected.version;
        assert_eq!(Connection { version, ..anew }, expected);
    }
}

/// The peer, or somebody in its name, refuses the last SYN: the connection that is there goes on.
#[test]
fn a_reset_of_the_remembered_syn_takes_only_that() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    wall.handshake();
    assert_eq!(wall.tcp(Local, segment(SYN, 9999, 0)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(RST | ACK, 0, 9999)), OutOfWindow);
    assert_eq!(state(&wall), Established);
    assert_eq!(wall.tcp(Peer, segment(RST | ACK, 0, 10_000)), ToPort);
    assert_eq!(state(&wall), Established);
    assert_eq!(wall.connection().1.again, None);
}

#[test]
fn a_refused_connection_is_closed() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Local, segment(SYN, 99, 0)), ToPort);
    // A reset that does not know the SYN, and one without ACK, could be anybody's.
    assert_eq!(wall.tcp(Peer, segment(RST | ACK, 0, 101)), OutOfWindow);
    assert_eq!(wall.tcp(Peer, segment(RST, 0, 0)), OutOfWindow);
    assert!(!wall.connection().1.answered);
    assert_eq!(wall.tcp(Peer, segment(RST | ACK, 0, 100)), ToPort);
    assert_eq!(state(&wall), Closed);
    // The next one begins where the peer takes it.
    assert_eq!(wall.tcp(Local, segment(SYN, 4000, 0)), ToPort);
    assert_eq!(state(&wall), Closed);
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, 4001)), ToPort);
    assert_eq!(state(&wall), Opening);
}

#[test]
fn a_reset_closes_at_the_number_that_is_waited_for() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    wall.handshake();
    // The window is 1000: 500 to 1500. What is only in it, the local end questions.
    assert_eq!(wall.tcp(Peer, segment(RST, 1501, 0)), OutOfWindow);
    let before = wall.connection();
    assert_eq!(wall.tcp(Peer, segment(RST, 501, 0)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(RST, 1500, 0)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(RST, 499, 0)), ToPort);
    assert_eq!(wall.connection(), before);
    // Data that was lost behind the firewall: the local end still waits for 500.
    for sequence in [500, 600] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        wall.handshake();
        assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100).len(100)), ToPort);
        assert_eq!(wall.tcp(Peer, segment(RST, 550, 0)), ToPort);
        assert_eq!(state(&wall), Established);
        assert_eq!(wall.tcp(Peer, segment(RST, sequence, 0)), ToPort);
        assert_eq!(state(&wall), Closed);
        // What was on its way still arrives, and opens nothing.
        assert_eq!(wall.tcp(Local, segment(ACK, 100, 600).len(9)), ToPort);
        assert_eq!(wall.tcp(Local, segment(FIN | ACK, 109, 600)), ToPort);
        assert_eq!(state(&wall), Closed);
        wall.wait(240);
        assert_eq!(wall.tcp(Local, segment(ACK, 109, 600)), ToPort);
        wall.wait(241);
        assert_eq!(wall.tcp(Peer, segment(ACK, 600, 109)), FirewallDrop);
    }
}

#[test]
fn fin_both_ways() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    wall.handshake();
    assert_eq!(wall.tcp(Local, segment(FIN | ACK, 100, 500)), ToPort);
    // Nobody knows yet whether the peer believes it.
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100)), ToPort);
    assert_eq!(state(&wall), Established);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 101)), ToPort);
    assert_eq!(state(&wall), Closing);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 101).len(300)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(FIN | ACK, 800, 101)), ToPort);
    let (_, connection) = wall.connection();
    assert!(connection.local.fin && connection.peer.fin);
    assert_eq!(connection.state, Closing);
    assert_eq!(wall.tcp(Local, segment(ACK, 101, 801)), ToPort);
    // Time-wait is the guests' own affair.
    wall.wait(241);
    assert_eq!(wall.tcp(Peer, segment(ACK, 801, 101)), FirewallDrop);
    assert_eq!(wall.connections(), 0);
}

#[test]
fn ports_are_used_again() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    wall.handshake();
    assert_eq!(wall.tcp(Local, segment(FIN | ACK, 100, 500)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(FIN | ACK, 500, 101)), ToPort);
    assert_eq!(wall.tcp(Local, segment(SYN, 77_777, 0)), ToPort);
    assert_eq!(state(&wall), Closing);
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 88_888, 77_778)), ToPort);
    let (_, connection) = wall.connection();
    assert_eq!((connection.state, connection.answered), (Opening, true));
    assert_eq!(
        (connection.local.end, connection.peer.end),
        (77_778, 88_889)
    );
    // From outside nothing begins, and the former connection stays.
    assert_eq!(wall.tcp(Local, segment(ACK, 77_778, 88_889)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(FIN | ACK, 88_889, 77_778)), ToPort);
    assert_eq!(wall.tcp(Local, segment(FIN | ACK, 77_778, 88_890)), ToPort);
    let before = wall.connection();
    assert_eq!(wall.tcp(Peer, segment(SYN, 77_777, 0)), FirewallDrop);
    assert_eq!(wall.connection(), before);
}

#[test]
fn a_syn_takes_nothing_away_of_what_one_end_has_closed() {
    for closer in [Local, Peer] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        wall.handshake();
        let (sequence, ack) = match closer {
            Local => (100, 500),
            Peer => (500, 100),
        };
        assert_eq!(wall.tcp(closer, segment(FIN | ACK, sequence, ack)), ToPort);
        let before = wall.connection().1;
        assert_eq!(wall.tcp(Local, segment(SYN, 3_000_000, 0)), ToPort);
        assert_eq!(wall.tcp(Peer, segment(SYN, 3_000_000, 0)), FirewallDrop);
        let after = wall.connection().1;
        assert_eq!(
            Connection {
                again: None,
                ..after
            },
            before
        );
    }
}

/// RFC 9293 section 3.5.1, figure 9: the guest has crashed and asks anew on the same ports.
#[test]
fn half_open() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    wall.handshake();
    let before = wall.connection().1;
    assert_eq!(wall.tcp(Local, segment(SYN, 3_000_000, 0)), ToPort);
    let after = wall.connection().1;
    assert_eq!(
        Connection {
            again: None,
            ..after
        },
        before
    );
    // The peer answers by what it knows, and hears a reset.
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100)), ToPort);
    assert_eq!(wall.tcp(Local, segment(RST, 100, 0)), ToPort);
    assert_eq!(state(&wall), Closed);
    // The SYN is sent again.
    assert_eq!(wall.tcp(Local, segment(SYN, 3_000_000, 0)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 7000, 3_000_001)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 3_000_001, 7001)), ToPort);
    assert_eq!(state(&wall), Established);
}

#[test]
fn an_older_connection_is_adopted() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.tcp(Peer, segment(ACK, 9, 7)), FirewallDrop);
    assert_eq!(wall.tcp(Local, segment(ACK, 100, 500)), ToPort);
    let (_, connection) = wall.connection();
    assert!(connection.adopted);
    assert_eq!(connection.state, Opening);
    // Its windows are not known: nothing is out of them.
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 4_000_000).len(5)), ToPort);
    assert_eq!(state(&wall), Established);
    assert_eq!(wall.tcp(Local, segment(ACK, 3_000_000, 9)), ToPort);
    // A reset ends it at the number that was acknowledged last, not anywhere.
    assert_eq!(wall.tcp(Peer, segment(RST, 12_345, 0)), ToPort);
    assert_eq!(state(&wall), Established);
    for (sequence, after) in [(505, Established), (500, Closed)] {
        assert_eq!(wall.tcp(Peer, segment(RST, sequence, 0)), ToPort);
        assert_eq!(state(&wall), after, "{sequence}");
    }
    let mut wall = Wall::new(OPEN, vec![]);
    assert_eq!(wall.tcp(Local, segment(FIN | ACK, 100, 500)), ToPort);
    assert_eq!(state(&wall), Opening);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 101)), ToPort);
    assert_eq!(state(&wall), Closing);
}

#[test]
fn each_state_has_its_time() {
    let (syn_ack, ack) = (segment(SYN | ACK, 499, 100), segment(ACK, 500, 100));
    for (passes, limit, last) in [(1, 240, syn_ack), (3, 432_000, ack)] {
        for (late, verdict) in [(0, ToPort), (1, FirewallDrop)] {
            let mut wall = Wall::new(OUTBOUND, vec![]);
            let all = [
                (Local, segment(SYN, 99, 0)),
                (Peer, segment(SYN | ACK, 499, 100)),
                (Local, segment(ACK, 100, 500)),
            ];
            for (from, tcp) in &all[..passes] {
                assert_eq!(wall.tcp(*from, *tcp), ToPort);
            }
            wall.wait(limit);
            wall.now_ns += late;
            assert_eq!(wall.tcp(Peer, last), verdict, "{limit}");
        }
    }
}

#[test]
fn the_time_is_written_once_a_second_or_with_the_state() {
    let mut wall = Wall::new(OPEN, vec![]);
    wall.handshake();
    let seen = |wall: &Wall| wall.connection().1.seen_ns;
    wall.now_ns = SECOND;
    assert_eq!(wall.tcp(Local, segment(ACK, 100, 500).len(1)), ToPort);
    assert_eq!(seen(&wall), 1);
    wall.now_ns = SECOND + 1;
    assert_eq!(wall.tcp(Local, segment(ACK, 101, 500).len(1)), ToPort);
    assert_eq!(seen(&wall), SECOND + 1);
    wall.now_ns = SECOND + 2;
    assert_eq!(wall.tcp(Local, segment(FIN | ACK, 102, 500)), ToPort);
    assert_eq!(seen(&wall), SECOND + 1);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 103)), ToPort);
    assert_eq!(state(&wall), Closing);
    assert_eq!(seen(&wall), SECOND + 2);
    assert_eq!(wall.connection().1.begun_ns, 1);
}

#[test]
fn other_rules_judge_a_connection_again() {
    let inbound = |name| with(rule(name, To, Action::Allow), &[ports(6, 1000, 1000)]);
    let mut wall = Wall::new(OUTBOUND, vec![inbound("web")]);
    assert_eq!(wall.tcp(Peer, segment(SYN, 499, 0)), ToPort);
    assert_eq!(wall.tcp(Local, segment(SYN | ACK, 99, 500)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 100)), ToPort);
    // Another rule that allows it: the connection goes on, and counts there.
    wall.set(vec![inbound("shop")]);
    let outcome = wall.run(Local, segment(ACK, 100, 500).len(5).bytes(Local));
    assert_eq!(outcome.verdict, ToPort);
    assert_eq!(
        outcome.counters.rules.keys().next().unwrap().as_str(),
        "shop"
    );
    assert_eq!(wall.connection().1.version, 2);
    // None: it is over for both ends, though the port may begin connections of its own.
    wall.set(vec![]);
    let before = wall.connection().1;
    assert_eq!(
        wall.tcp(Local, segment(ACK, 105, 500).len(5)),
        ConnectionInvalid
    );
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 105)), FirewallDrop);
    let after = wall.connection().1;
    assert!(after.picked_up && !after.local.seen && !after.peer.seen);
    assert_eq!((after.state, after.seen_ns), (before.state, before.seen_ns));
    // Until they allow it again. By then the ends may be anywhere.
    wall.set(vec![inbound("web")]);
    assert_eq!(wall.tcp(Peer, segment(ACK, 3_000_000, 105)), ToPort);
    assert_eq!(wall.tcp(Local, segment(ACK, 105, 3_000_000)), ToPort);
    assert_eq!(wall.tcp(Peer, segment(ACK, 500, 105)), OutOfWindow);
    wall.set(vec![]);
    assert_eq!(wall.tcp(Local, segment(SYN, 5000, 0)), ToPort);
    assert_eq!(state(&wall), Opening);
    assert!(!wall.connection().1.from_peer);
    // Without state is not enough.
    wall.set(vec![rule("out", FromPort, Action::AllowStateless)]);
    assert_eq!(wall.tcp(Peer, segment(SYN | ACK, 499, 5001)), FirewallDrop);
    assert_eq!(wall.tcp(Local, segment(ACK, 5001, 500)), ToPort);
    assert_eq!(state(&wall), Opening);
}
