//! What there is only so much of: places for connections, records in the log.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use overlane_model::Direction::ToPort as To;
use overlane_model::{Action, PortFirewall, Verdict::*};

use crate::wall::*;

fn with_places(places: u32, firewall: PortFirewall) -> Wall {
    let mut wall = Wall::new(firewall, vec![]);
    wall.set_places(places);
    wall
}

fn begin(wall: &mut Wall, ports: RangeInclusive<u16>) {
    for port in ports {
        assert_eq!(wall.udp(Local, port, 53), ToPort);
    }
}

/// The peer answers, and the port sends again: both ends talk.
fn answer(wall: &mut Wall, ports: RangeInclusive<u16>) {
    for port in ports {
        assert_eq!(wall.udp(Peer, port, 53), ToPort);
        assert_eq!(wall.udp(Local, port, 53), ToPort);
    }
}

/// The local ports of all connections.
fn known(wall: &Wall) -> BTreeSet<u16> {
    let keys = wall.state.connections().keys();
    keys.map(|key| key.local_port).collect()
}

#[test]
fn a_full_table_takes_no_more() {
    let mut wall = with_places(16, OPEN);
    begin(&mut wall, 1..=16);
    answer(&mut wall, 1..=16);
    assert_eq!(wall.connections(), 16);
    assert_eq!(wall.udp(Local, 17, 53), ConnectionsFull);
    assert_eq!(wall.udp(Peer, 18, 53), ConnectionsFull);
    // The first expires, its place is taken; the others are refreshed and keep their own.
    wall.wait(20);
    answer(&mut wall, 2..=16);
    wall.wait(281);
    assert_eq!(wall.udp(Local, 17, 53), ToPort);
    answer(&mut wall, 17..=17);
    assert_eq!(wall.udp(Local, 18, 53), ConnectionsFull);
    assert_eq!(known(&wall), (2..=17).collect());
}

#[test]
fn what_is_opening_makes_way_the_oldest_first() {
    let mut wall = with_places(16, OPEN);
    begin(&mut wall, 1..=15);
    answer(&mut wall, 3..=15);
    wall.wait(2);
    begin(&mut wall, 16..=16);
    for (next, gone) in [(17, 1), (18, 2), (19, 16), (20, 17)] {
        wall.wait(1);
        assert!(known(&wall).contains(&gone));
        begin(&mut wall, next..=next);
        assert!(!known(&wall).contains(&gone), "{gone}");
    }
    assert_eq!(wall.connections(), 16);
    assert!(known(&wall).is_superset(&(3..=15).collect()));
}

#[test]
fn a_port_has_its_share_and_no_more() {
    let mut wall = with_places(1024, OPEN);
    wall.limit(4);
    begin(&mut wall, 1..=4);
    answer(&mut wall, 1..=4);
    assert_eq!(wall.connections(), 4);
    assert_eq!(wall.udp(Local, 5, 53), ConnectionsFull);
    // Of more than it may have, the first ones that it looks at.
    wall.limit(8);
    begin(&mut wall, 5..=8);
    answer(&mut wall, 5..=8);
    assert_eq!(wall.udp(Local, 9, 53), ConnectionsFull);
    wall.limit(4);
    assert_eq!(wall.udp(Local, 9, 53), ConnectionsFull);
    answer(&mut wall, 1..=8);
}

/// Whoever fills a table in order leaves no row of places in which a new one finds none.
#[test]
fn of_a_table_with_nine_places_of_ten_taken_nearly_all_find_a_free_one() {
    let mut wall = with_places(1 << 11, OPEN);
    wall.limit(1 << 11);
    let taken = 1843;
    for port in 1_001..=1_000 + taken {
        assert_eq!(wall.udp(Local, port, 53), ToPort);
        assert_eq!(wall.udp(Peer, port, 53), ToPort);
        assert_eq!(wall.udp(Local, port, 53), ToPort);
    }
    // These give their place back at once, so the table stays as it is.
    let mut full = 0;
    for port in 0..5_000 {
        let before = wall.state.clone();
        full += u32::from(wall.udp(Local, 20_000 + port, 54) == ConnectionsFull);
        wall.state = before;
    }
    assert!(full <= 5, "{full} of 5000 found no place");
}

#[test]
fn a_switch_may_let_pass_what_has_no_place() {
    let firewall = PortFirewall {
        allow_when_full: true,
        ..OUTBOUND
    };
    let mut wall = with_places(1, firewall);
    begin(&mut wall, 1..=1);
    answer(&mut wall, 1..=1);
    assert_eq!(wall.udp(Local, 2, 53), ToPort);
    assert_eq!(wall.udp(Peer, 2, 53), FirewallDrop);
    assert_eq!(wall.udp(Peer, 1, 53), ToPort);
}

#[test]
fn a_forgotten_connection_leaves_its_place() {
    let mut wall = with_places(2, OPEN);
    // Each SYN begins anew; what it had before is free.
    for n in 0..5 {
        assert_eq!(wall.tcp(Local, segment(SYN, 100 * n, 0)), ToPort);
        assert_eq!(wall.connections(), 1);
    }
    begin(&mut wall, 1..=1);
    assert_eq!(wall.connections(), 2);
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
