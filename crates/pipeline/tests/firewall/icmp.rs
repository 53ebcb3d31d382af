//! ICMP: requests and their replies, errors about connections, neighbour discovery.

use overlane_model::Direction::{FromPort, ToPort as To};
use overlane_model::{Action, Service, Verdict::*};
use overlane_pipeline::ConnectionState;

use crate::wall::*;

fn echo(kind: u8, identifier: u16) -> Vec<u8> {
    let [i0, i1] = identifier.to_be_bytes();
    vec![kind, 0, 0, 0, i0, i1, 0, 1, 9, 9]
}

/// An error with the beginning of an IPv4 packet of `from`.
fn error(kind: u8, quoted: &[u8]) -> Vec<u8> {
    [&[kind, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat()
}

/// The IP packet of a frame.
fn quote(frame: &[u8], behind_header: usize) -> Vec<u8> {
    frame[14..34 + behind_header].to_vec()
}

fn udp_of(from: End) -> Vec<u8> {
    let (source, destination) = match from {
        Local => (5000, 53),
        Peer => (53, 5000),
    };
    ip_frame(from, 17, 0, &udp(source, destination, b"question"))
}

#[test]
fn a_reply_belongs_to_its_request() {
    for (request, reply) in [(8, 0), (13, 14)] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        assert_eq!(wall.ip(Peer, 1, &echo(reply, 7)), FirewallDrop);
        assert_eq!(wall.ip(Local, 1, &echo(reply, 7)), ConnectionInvalid);
        assert_eq!(wall.ip(Local, 1, &echo(request, 7)), ToPort);
        assert_eq!(wall.ip(Peer, 1, &echo(reply, 8)), FirewallDrop);
        assert_eq!(wall.ip(Peer, 1, &echo(reply, 7)), ToPort);
        let (key, connection) = wall.connection();
        assert_eq!((key.local_port, key.peer_port), (7, request.into()));
        assert_eq!(connection.state, ConnectionState::Established);
        // The peer's own request with this identifier is another thing.
        assert_eq!(wall.ip(Peer, 1, &echo(request, 7)), FirewallDrop);
        wall.wait(60);
        assert_eq!(wall.ip(Local, 1, &echo(request, 7)), ToPort);
        wall.wait(61);
        assert_eq!(wall.ip(Peer, 1, &echo(reply, 7)), FirewallDrop);
    }
}

#[test]
fn a_request_from_the_peer() {
    let ping = with(
        rule("ping", To, Action::Allow),
        &[Service::Icmp {
            protocol: 1,
            kind: 8,
            code: None,
        }],
    );
    let mut wall = Wall::new(OUTBOUND, vec![ping.clone()]);
    assert_eq!(wall.ip(Peer, 1, &echo(8, 7)), ToPort);
    assert_eq!(wall.ip(Local, 1, &echo(0, 7)), ToPort);
    assert_eq!(wall.connection().0.peer_port, 256 + 8);
    assert_eq!(wall.ip(Peer, 1, &echo(13, 7)), FirewallDrop);
    // Judged again as the request it began with, code 0.
    wall.set(vec![ping]);
    assert_eq!(wall.ip(Local, 1, &echo(0, 7)), ToPort);
    wall.set(vec![]);
    assert_eq!(wall.ip(Local, 1, &echo(0, 7)), ConnectionInvalid);
    assert_eq!(wall.connections(), 0);
}

#[test]
fn icmp_of_the_other_family_is_another_protocol() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    assert_eq!(wall.ip(Local, 58, &echo(128, 7)), ToPort);
    assert_eq!(wall.connection().0.peer_port, 0);
    let six = ip6_frame(Local, 58, &echo(128, 7));
    assert_eq!(wall.run(Local, six).verdict, ToPort);
    let reply = ip6_frame(Peer, 58, &echo(129, 7));
    assert_eq!(wall.run(Peer, reply).verdict, ToPort);
}

#[test]
fn errors_about_a_connection_pass() {
    for kind in [3, 11, 12] {
        let mut wall = Wall::new(OUTBOUND, vec![]);
        let sent = udp_of(Local);
        let about = error(kind, &quote(&sent, 8));
        assert_eq!(wall.ip(Peer, 1, &about), FirewallDrop);
        assert_eq!(wall.run(Local, sent.clone()).verdict, ToPort);
        let before = wall.connection();
        wall.wait(120);
        assert_eq!(wall.ip(Peer, 1, &about), ToPort);
        assert_eq!(wall.connection(), before);
        // Shorter, broken, of something else, or for somebody else.
        assert_eq!(
            wall.ip(Peer, 1, &error(kind, &quote(&sent, 7))),
            FirewallDrop
        );
        assert_eq!(wall.ip(Peer, 1, &error(5, &quote(&sent, 8))), FirewallDrop);
        let mut other = about.clone();
        other[8] = 0x44;
        assert_eq!(wall.ip(Peer, 1, &other), FirewallDrop);
        let mut other = about.clone();
        other[8 + 21] ^= 1;
        assert_eq!(wall.ip(Peer, 1, &other), FirewallDrop);
        let mut other = about.clone();
        other[8 + 15] ^= 1;
        assert_eq!(wall.ip(Peer, 1, &other), FirewallDrop);
        let elsewhere = ip4(PEER, "198.18.100.99", 1, &about);
        let verdict = wall.run(Peer, eth(A2, A1, 0x0800, &elsewhere)).verdict;
        assert_eq!(verdict, FirewallDrop);
        // What the peer sent is not for the peer to complain about.
        assert_eq!(
            wall.ip(Peer, 1, &error(kind, &quote(&udp_of(Peer), 8))),
            FirewallDrop
        );
        wall.now_ns += 1;
        assert_eq!(wall.ip(Peer, 1, &about), FirewallDrop);
    }
}

#[test]
fn errors_in_both_directions_and_families() {
    let mut wall = Wall::new(OPEN, vec![]);
    assert_eq!(wall.run(Peer, udp_of(Peer)).verdict, ToPort);
    wall.set(vec![rule("no", FromPort, Action::Drop)]);
    let about = error(3, &quote(&udp_of(Peer), 8));
    assert_eq!(wall.ip(Local, 1, &about), ToPort);
    assert_eq!(wall.ip(Local, 1, &error(3, &[])), FirewallDrop);

    let mut wall = Wall::new(OUTBOUND, vec![]);
    let sent = ip6_frame(Local, 17, &udp(5000, 53, b"question"));
    assert_eq!(wall.run(Local, sent.clone()).verdict, ToPort);
    let about = |kind, quoted: &[u8]| {
        let error = [&[kind, 0, 0, 0, 0, 0, 5, 0][..], quoted].concat();
        ip6_frame(Peer, 58, &error)
    };
    for kind in 1..=4 {
        assert_eq!(wall.run(Peer, about(kind, &sent[14..62])).verdict, ToPort);
        assert_eq!(
            wall.run(Peer, about(kind, &sent[14..61])).verdict,
            FirewallDrop
        );
    }
    // Behind extension headers nothing is looked for.
    let mut extended = sent[14..62].to_vec();
    extended[6] = 60;
    assert_eq!(wall.run(Peer, about(1, &extended)).verdict, FirewallDrop);
}

#[test]
fn an_error_about_a_request() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    let sent = ip_frame(Local, 1, 0, &echo(8, 7));
    assert_eq!(wall.run(Local, sent.clone()).verdict, ToPort);
    assert_eq!(wall.ip(Peer, 1, &error(11, &quote(&sent, 8))), ToPort);
    let reply = ip_frame(Local, 1, 0, &echo(0, 7));
    assert_eq!(
        wall.ip(Peer, 1, &error(11, &quote(&reply, 8))),
        FirewallDrop
    );
}

#[test]
fn messages_without_a_connection() {
    let unreachable = Service::Icmp {
        protocol: 1,
        kind: 3,
        code: Some(3),
    };
    let rules = vec![with(rule("errors", To, Action::Allow), &[unreachable])];
    let mut wall = Wall::new(OUTBOUND, rules);
    assert_eq!(wall.ip(Peer, 1, &error(3, b"nothing")), ToPort);
    assert_eq!(wall.ip(Peer, 1, &error(11, b"nothing")), FirewallDrop);
    // Cut before the end of the header it has no type.
    assert_eq!(wall.ip(Peer, 1, &[3, 3, 0, 0, 0, 0, 0]), FirewallDrop);
    assert_eq!(wall.ip(Local, 1, &[3, 3]), ToPort);
    assert_eq!(wall.connections(), 0);
}

#[test]
fn neighbour_discovery_always_passes() {
    let mut wall = closed();
    let message = |kind: u8, code: u8| [&[kind, code][..], &[0; 38]].concat();
    for (kind, len) in [(133, 8), (135, 24), (136, 24)] {
        let whole = ip6_frame(Peer, 58, &message(kind, 0)[..len]);
        assert_eq!(wall.run(Peer, whole).verdict, ToPort, "{kind}");
        let cut = ip6_frame(Peer, 58, &message(kind, 0)[..len - 1]);
        assert_eq!(wall.run(Peer, cut).verdict, FirewallDrop, "{kind}");
    }
    // Routers speak from their link-local address.
    for (kind, len) in [(134, 16), (137, 40)] {
        let mut frame = ip6_frame(Peer, 58, &message(kind, 0)[..len]);
        assert_eq!(
            wall.run(Peer, frame.clone()).verdict,
            FirewallDrop,
            "{kind}"
        );
        frame[22..24].copy_from_slice(&[0xfe, 0x80]);
        assert_eq!(wall.run(Peer, frame).verdict, ToPort, "{kind}");
    }
    for kind in [128, 130, 131, 132, 138, 142, 143, 144] {
        let frame = ip6_frame(Peer, 58, &message(kind, 0));
        assert_eq!(wall.run(Peer, frame).verdict, FirewallDrop, "{kind}");
    }
    let mut far = ip6_frame(Peer, 58, &message(135, 0));
    far[21] = 254;
    let atomic = [&[58, 0, 0, 0, 0, 0, 0, 1][..], &message(135, 0)].concat();
    for frame in [
        far,
        ip6_frame(Peer, 58, &message(135, 1)),
        ip6_frame(Peer, 58, &message(135, 0)[..7]),
        ip6_frame(Peer, 44, &atomic),
        // Nothing of the sort over IPv4.
        ip_frame(Peer, 58, 0, &[135; 24]),
    ] {
        assert_eq!(wall.run(Peer, frame).verdict, FirewallDrop);
    }
}

#[test]
fn multicast_listeners_always_pass() {
    let mut wall = closed();
    let message = |source: &str, kind: u8| {
        let alert = [58, 0, 5, 2, 0, 0, 1, 0];
        let payload = [&alert[..], &[kind], &[0; 23]].concat();
        let ip = ip6(source, "ff02::16", 0, &payload);
        let mut frame = eth(A2, "33:33:00:00:00:16", 0x86dd, &ip);
        frame[21] = 1;
        frame
    };
    let mut reaches = |frame| wall.run(Peer, frame).outputs.len();
    let stopped = reaches(message("fe80::ff:fe00:12", 129));
    for kind in [130, 131, 132, 143] {
        assert_eq!(reaches(message("fe80::ff:fe00:12", kind)), stopped + 1);
        let from_nobody = usize::from(kind != 130);
        assert_eq!(reaches(message("::", kind)), stopped + from_nobody);
        assert_eq!(reaches(message(PEER6, kind)), stopped);
    }
}

fn closed() -> Wall {
    let all = vec![
        rule("in", To, Action::Drop),
        rule("out", FromPort, Action::Drop),
    ];
    Wall::new(OPEN, all)
}
