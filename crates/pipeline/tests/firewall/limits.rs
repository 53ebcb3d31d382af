//! What there is only so much of: places for connections, records in the log.

use overlane_model::Direction::ToPort as To;
use overlane_model::{Action, PortFirewall, Verdict::*};
use overlane_pipeline::State;

use crate::wall::*;

fn with_places(places: u32, firewall: PortFirewall) -> Wall {
    let mut wall = Wall::new(firewall, vec![]);
    wall.state = State::with_places(places);
    wall
}

#[test]
fn a_full_ring_takes_no_more() {
    let mut wall = with_places(16, OPEN);
    for port in 1..=16 {
        assert_eq!(wall.udp(Local, port, 53), ToPort);
    }
    assert_eq!(wall.udp(Local, 17, 53), ConnectionsFull);
    assert_eq!(wall.udp(Peer, 18, 53), ConnectionsFull);
    // Connections that there are go on.
    assert_eq!(wall.udp(Peer, 1, 53), ToPort);
    assert_eq!(wall.connections(), 16);
    // The first expires, its place is taken; the second is refreshed and keeps its own.
    wall.wait(20);
    for port in 2..=16 {
        assert_eq!(wall.udp(Peer, port, 53), ToPort);
    }
    wall.wait(161);
    assert_eq!(wall.udp(Local, 17, 53), ToPort);
    assert_eq!(wall.udp(Local, 18, 53), ConnectionsFull);
    assert_eq!(wall.connections(), 16);
    assert!(
        wall.state
            .connections()
            .keys()
            .all(|key| key.local_port != 1)
    );
}

#[test]
fn a_switch_may_let_pass_what_has_no_place() {
    let firewall = PortFirewall {
        allow_when_full: true,
        ..OUTBOUND
    };
    let mut wall = with_places(1, firewall);
    assert_eq!(wall.udp(Local, 1, 53), ToPort);
    assert_eq!(wall.udp(Local, 2, 53), ToPort);
    assert_eq!(wall.udp(Peer, 2, 53), FirewallDrop);
    assert_eq!(wall.udp(Peer, 1, 53), ToPort);
}

#[test]
fn sixteen_places_are_looked_at() {
    let mut wall = with_places(20, OPEN);
    for port in 1..=20 {
        assert_eq!(wall.udp(Local, port, 53), ToPort);
    }
    // Places 0 to 15 hold answered ones, which live on; 16 to 19 expire.
    for port in 1..=16 {
        assert_eq!(wall.udp(Peer, port, 53), ToPort);
    }
    wall.wait(31);
    assert_eq!(wall.udp(Local, 21, 53), ConnectionsFull);
    assert_eq!(wall.udp(Local, 21, 53), ToPort);
    let place = |port| {
        let all = wall.state.connections();
        let (_, found) = all.iter().find(|(key, _)| key.local_port == port).unwrap();
        found.place
    };
    assert_eq!([place(1), place(16), place(21)], [0, 15, 16]);
}

#[test]
fn a_forgotten_connection_leaves_its_place() {
    let mut wall = with_places(2, OPEN);
    // Each SYN begins anew, at the next place; the former is free.
    for n in 0..5 {
        assert_eq!(wall.tcp(Local, segment(SYN, 100 * n, 0)), ToPort);
        assert_eq!(wall.connection().1.place, n % 2);
    }
    assert_eq!(wall.udp(Local, 1, 2), ToPort);
    assert_eq!(wall.udp(Local, 1, 3), ConnectionsFull);
}

#[test]
fn a_log_has_its_limit() {
    let mut wall = Wall::new(OPEN, vec![logged(rule("watch", To, Action::Drop))]);
    let mut records = 0;
    for _ in 0..150 {
        records += wall.run(Peer, ip_frame(Peer, 99, 0, &[])).log.len();
    }
    assert_eq!(records, 100);
    wall.wait(1);
    let outcome = wall.run(Peer, ip_frame(Peer, 99, 0, &[]));
    assert_eq!(outcome.log.len(), 1);
    assert_eq!(outcome.log[0].time_ns, wall.now_ns);
}
