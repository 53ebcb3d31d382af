//! Fragments, and headers that hide: a flow has one identity, in fragments or whole.

use overlane_model::Direction::{FromPort, ToPort as To};
use overlane_model::{Action, Service, Verdict, Verdict::*};

use crate::wall::*;

const FIRST: u16 = 0x2000;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// From where the datagram of `first` has 24 bytes.
fn later(from: End, protocol: u8) -> Vec<u8> {
    ip_frame(from, protocol, 3, &[7; 16])
}

fn first(from: End) -> Vec<u8> {
    let (source, destination) = if from == Local { (5, 53) } else { (53, 5) };
    ip_frame(from, UDP, FIRST, &udp(source, destination, &[0; 16]))
}

/// A fragment over IPv6: offset and more-bit, and what follows its header.
fn six(from: End, next: u8, field: u8, payload: &[u8]) -> Vec<u8> {
    let header = [next, 0, 0, field, 0, 0, 0, 9];
    ip6_frame(from, 44, &[&header[..], payload].concat())
}

fn verdicts<const N: usize>(wall: &mut Wall, from: End, frames: [Vec<u8>; N]) -> [Verdict; N] {
    frames.map(|frame| wall.run(from, frame).verdict)
}

fn dns() -> Vec<overlane_model::RuleTable> {
    vec![with(
        rule("dns", FromPort, Action::Allow),
        &[ports(UDP, 53, 53)],
    )]
}

#[test]
fn a_datagram_is_of_one_connection() {
    let closed = overlane_model::PortFirewall {
        drop_from_port: true,
        ..OUTBOUND
    };
    let mut wall = Wall::new(closed, dns());
    let unseen = wall.run(Local, later(Local, UDP));
    assert_eq!(unseen.verdict, FragmentUnknown);
    assert_eq!(
        verdicts(&mut wall, Local, [first(Local), later(Local, UDP)]),
        [ToPort, ToPort]
    );
    let (key, connection) = wall.connection();
    assert_eq!((key.local_port, key.peer_port), (5, 53));
    assert!(!connection.answered);
    // Whole or not, and the answer too; but a later fragment changes nothing.
    assert_eq!(wall.udp(Local, 5, 53), ToPort);
    assert_eq!(wall.run(Peer, first(Peer)).verdict, ToPort);
    assert!(wall.connection().1.answered);
    let outcome = wall.run(Peer, later(Peer, UDP));
    assert_eq!(outcome.verdict, ToPort);
    assert_eq!(outcome.counters.rules.len(), 1);
    let found: Vec<_> = outcome.steps.iter().map(|step| &step.found[..]).collect();
    assert!(
        found.contains(&"a later fragment of the datagram that was from port 53 to port 5"),
        "{found:?}"
    );
    // It is refreshed, and what has expired is not there. Both directions have the same place.
    assert_eq!(wall.run(Local, later(Local, UDP)).verdict, FragmentUnknown);
    wall.run(Local, first(Local));
    wall.wait(30);
    assert_eq!(wall.run(Local, later(Local, UDP)).verdict, ToPort);
    assert_eq!(wall.connection().1.seen_ns, wall.now_ns);
    wall.wait(1);
    assert_eq!(wall.run(Local, later(Local, UDP)).verdict, FragmentUnknown);
    assert_eq!(wall.connections(), 1);
}

#[test]
fn a_later_fragment_begins_and_forgets_nothing() {
    let mut wall = Wall::new(OUTBOUND, dns());
    wall.run(Local, first(Local));
    wall.set(vec![with(
        rule("none", FromPort, Action::Drop),
        &[ports(UDP, 53, 53)],
    )]);
    assert_eq!(wall.run(Local, later(Local, UDP)).verdict, FirewallDrop);
    assert_eq!(wall.connections(), 1);
    let mut wall = Wall::new(OPEN, vec![rule("out", FromPort, Action::AllowStateless)]);
    wall.run(Local, first(Local));
    wall.set(vec![]);
    assert_eq!(wall.run(Local, later(Local, UDP)).verdict, ToPort);
    assert_eq!(wall.connections(), 0);
}

#[test]
fn where_the_first_one_was_not_seen() {
    // Nobody asks for ports: rules judge, and no connection begins.
    let udp_only = with(rule("udp", To, Action::Drop), &[Service::Protocol(UDP)]);
    let mut wall = Wall::new(OPEN, vec![udp_only]);
    assert_eq!(
        verdicts(&mut wall, Peer, [later(Peer, UDP), later(Peer, TCP)]),
        [FirewallDrop, ToPort]
    );
    assert_eq!(
        verdicts(&mut wall, Local, [later(Local, UDP), later(Local, 1)]),
        [ToPort, ToPort]
    );
    assert_eq!(wall.connections(), 0);
    // An extension header behind the fragment header could be before any protocol.
    assert_eq!(
        verdicts(
            &mut wall,
            Peer,
            [six(Peer, 60, 8, &[7; 8]), six(Peer, 47, 8, &[7; 8])]
        ),
        [FragmentUnknown, ToPort]
    );
    // Other protocols have no more than their number.
    assert_eq!(wall.connections(), 1);
    // What the first one passed with is not what the other direction knows.
    wall.run(Local, first(Local));
    assert_eq!(wall.run(Peer, later(Peer, UDP)).verdict, FirewallDrop);
}

#[test]
fn tiny_and_overlapping_fragments() {
    let mut wall = Wall::new(OPEN, vec![]);
    let tiny = |protocol, len: usize| ip_frame(Local, protocol, FIRST, &vec![0x50; len]);
    for (protocol, len) in [(UDP, 8), (1, 8), (132, 12), (TCP, 20)] {
        let frames = [tiny(protocol, len - 1), tiny(protocol, len)];
        let [short, whole] = verdicts(&mut wall, Local, frames);
        assert_eq!(short, FragmentTiny, "{protocol}");
        assert_ne!(whole, FragmentTiny, "{protocol}");
    }
    assert_eq!(wall.run(Local, tiny(47, 0)).verdict, ToPort);
    // ICMP of the other family is any protocol.
    assert_eq!(wall.run(Local, tiny(58, 0)).verdict, ToPort);
    let mut options = tcp(1000, 80, 1, SYN, &[0; 8]);
    options[12] = 0x80;
    assert_eq!(
        wall.run(Local, ip_frame(Local, TCP, FIRST, &options))
            .verdict,
        FragmentTiny
    );
    options[12] = 0x40;
    let impossible = ip_frame(Local, TCP, FIRST, &options);
    assert_eq!(wall.run(Local, impossible).verdict, ConnectionInvalid);
    options[12] = 0x70;
    let frames = [
        ip_frame(Local, TCP, FIRST, &options),
        ip_frame(Local, TCP, 3, &[7; 8]),
        ip_frame(Local, TCP, 4, &[7; 8]),
    ];
    assert_eq!(
        verdicts(&mut wall, Local, frames),
        [ToPort, FragmentOverlap, ToPort]
    );
    // Also to a group, where no connection is looked for.
    let mut group = tiny(UDP, 7);
    group[..6].fill(0xff);
    assert_eq!(wall.run(Local, group).verdict, FragmentTiny);
}

#[test]
fn the_windows_of_a_fragmented_stream_are_open() {
    let fragmented = |tcp: Tcp, from| {
        let mut frame = tcp.bytes(from);
        frame[20] |= 0x20;
        frame
    };
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(
        wall.run(Local, segment(SYN, 1, 0).bytes(Local)).verdict,
        ToPort
    );
    wall.run(Peer, segment(SYN | ACK, 100, 2).bytes(Peer));
    let stray = |wall: &mut Wall| {
        wall.run(Peer, segment(ACK, 9_000_000, 2).bytes(Peer))
            .verdict
    };
    assert_eq!(stray(&mut wall), OutOfWindow);
    // It is checked itself, and a SYN that the other end answers changes nothing.
    let wrong = fragmented(segment(ACK, 9_000_000, 2), Peer);
    assert_eq!(wall.run(Peer, wrong).verdict, OutOfWindow);
    wall.run(Local, segment(ACK, 2, 101).bytes(Local));
    let again = fragmented(segment(SYN, 77, 0), Local);
    assert_eq!(wall.run(Local, again).verdict, ToPort);
    assert!(!wall.connection().1.adopted);
    let right = fragmented(segment(ACK, 101, 2).len(8), Peer);
    assert_eq!(wall.run(Peer, right).verdict, ToPort);
    assert!(wall.connection().1.adopted);
    assert_eq!(stray(&mut wall), ToPort);
    let mut wall = Wall::new(OUTBOUND, vec![]);
    wall.run(Local, fragmented(segment(SYN, 1, 0), Local));
    assert!(wall.connection().1.adopted);
}

#[test]
fn fragments_of_icmp_have_the_type_of_the_first() {
    let echo = Service::Icmp {
        protocol: 58,
        kind: 128,
        code: None,
    };
    let unreachable = Service::Icmp {
        protocol: 58,
        kind: 1,
        code: Some(4),
    };
    let rules = vec![with(rule("some", To, Action::Allow), &[echo, unreachable])];
    let mut wall = Wall::new(OUTBOUND, rules);
    let message = |kind: u8, code: u8| [&[kind, code, 0, 0, 0, 7, 0, 1][..], &[0; 8]].concat();
    let datagram = |kind, code| {
        let first = six(Peer, 58, 1, &message(kind, code));
        [first, six(Peer, 58, 16, &[7; 8])]
    };
    assert_eq!(
        verdicts(&mut wall, Peer, datagram(128, 0)),
        [ToPort, ToPort]
    );
    let (key, _) = wall.connection();
    assert_eq!((key.local_port, key.peer_port), (7, 256 + 128));
    assert_eq!(verdicts(&mut wall, Peer, datagram(1, 4)), [ToPort, ToPort]);
    // What did not pass is not remembered; the place still has the one before.
    assert_eq!(
        wall.run(Peer, six(Peer, 58, 1, &message(1, 3))).verdict,
        FirewallDrop
    );
    assert_eq!(wall.run(Peer, six(Peer, 58, 16, &[7; 8])).verdict, ToPort);
    wall.wait(31);
    assert_eq!(
        wall.run(Peer, six(Peer, 58, 16, &[7; 8])).verdict,
        FragmentUnknown
    );
}

#[test]
fn behind_extension_headers_the_flow_is_the_same() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    let deep = |next: u8| [&[next, 0, 1, 4, 0, 0, 0, 0][..], &udp(5, 53, b"data")].concat();
    assert_eq!(
        wall.run(Local, six(Local, 60, 1, &deep(UDP))).verdict,
        ToPort
    );
    let (key, _) = wall.connection();
    assert_eq!((key.protocol, key.local_port, key.peer_port), (UDP, 5, 53));
    // Its transport header ends 16 bytes behind the fragment header.
    assert_eq!(
        verdicts(
            &mut wall,
            Local,
            [six(Local, 60, 8, &[7; 8]), six(Local, 60, 16, &[7; 8])]
        ),
        [FragmentOverlap, ToPort]
    );
    // Atomic, it is whole.
    let answer = udp(53, 5, b"data");
    assert_eq!(wall.run(Peer, six(Peer, UDP, 0, &answer)).verdict, ToPort);
    assert!(wall.connection().1.answered);
}

#[test]
fn a_hidden_packet() {
    let hidden = || six(Peer, 44, 1, &[UDP, 0, 0, 0, 0, 0, 0, 0]);
    let udp_only = with(rule("udp", To, Action::Allow), &[Service::Protocol(UDP)]);
    let mut wall = Wall::new(OPEN, vec![udp_only]);
    assert_eq!(wall.run(Peer, hidden()).verdict, DeepHeader);
    // Where nobody asks what it is.
    let mut wall = Wall::new(OPEN, dns());
    assert_eq!(wall.run(Peer, hidden()).verdict, ToPort);
    let cut = ip6_frame(Peer, 44, &[UDP, 0]);
    assert_eq!(wall.run(Peer, cut).verdict, ToPort);
    assert_eq!(wall.connections(), 0);
}
