//! Changes of a namespace, as they are told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are tests"
)]

mod common;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use common::{TestNetns, link};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use overlane_net::{Event, Events, NetError};

fn listen(netns: &TestNetns, open: fn() -> Result<Events, NetError>) -> Events {
    netns.0.run(open).unwrap().unwrap()
}

/// Waits as a loop does, until an event is as wanted. Returns all that came.
fn until(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut seen = Vec::new();
    while !seen.iter().any(&wanted) {
        assert!(Instant::now() < end, "not among {seen:?}");
        let mut descriptors = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::from(1000_u16)).unwrap();
        seen.extend(events.read().unwrap());
    }
    seen
}

#[test]
fn links_addresses_routes_and_neighbours_come_and_go() {
    need_root!();
    let (a, b) = (TestNetns::new(), TestNetns::new());
    let mut events = listen(&a, Events::open);
    assert_eq!(events.read().unwrap(), []);
    let netlink = a.netlink();
    netlink.add_veth("eth0", "eth0", Some(&b.0)).unwrap();
    let made = link(&netlink, "eth0").index;
    let is_link = |up: bool, is_gone: bool| {
        move |event: &Event| {
            matches!(event, Event::Link { index, name, carrier, gone, .. }
                if *index == made && name == "eth0" && *carrier == up && *gone == is_gone)
        }
    };
    until(&mut events, is_link(false, false));
    netlink.set_up("eth0").unwrap();
    b.netlink().set_up("eth0").unwrap();
    until(&mut events, is_link(true, false));

    for (own, other, to, len) in [
        ("198.18.0.1", "198.18.0.9", "198.19.0.0", 24),
        ("2001:2::1", "2001:2::9", "2001:2:0:1::", 64),
    ] {
        let [own, other, to] = [own, other, to].map(|text| text.parse::<IpAddr>().unwrap());
        let address = |gone| Event::Address {
            index: made,
            address: own,
            gone,
        };
        let route = |gone| Event::Route {
            destination: (to, len),
            index: Some(made),
            gone,
        };
        let neighbour = |gone| Event::Neighbour {
            index: made,
            address: other,
            gone,
        };
        netlink.add_address("eth0", own, len).unwrap();
        until(&mut events, |event| *event == address(false));
        netlink.add_route(Some((to, len)), None, "eth0").unwrap();
        until(&mut events, |event| *event == route(false));
        netlink
            .add_neighbour("eth0", other, [2, 0, 0, 0, 0, 9])
            .unwrap();
        until(&mut events, |event| *event == neighbour(false));
        netlink.delete_neighbour("eth0", other).unwrap();
        until(&mut events, |event| *event == neighbour(true));
        a.output("ip", &["route", "del", &format!("{to}/{len}")]);
        until(&mut events, |event| *event == route(true));
        a.output(
            "ip",
            &["address", "del", &format!("{own}/{len}"), "dev", "eth0"],
        );
        until(&mut events, |event| *event == address(true));
    }
    netlink.delete("eth0").unwrap();
    let seen = until(&mut events, is_link(false, true));
    assert!(!seen.contains(&Event::Everything), "{seen:?}");
}

#[test]
fn another_namespace_is_not_heard() {
    need_root!();
    let (a, b) = (TestNetns::new(), TestNetns::new());
    let mut events = listen(&a, Events::open);
    b.netlink().add_veth("eth0", "eth1", None).unwrap();
    assert_eq!(events.read().unwrap(), []);
}

#[test]
fn a_port_that_leaves_its_bridge_is_still_there() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    a.output("ip", &["link", "add", "br0", "type", "bridge"]);
    netlink.add_veth("eth0", "eth1", None).unwrap();
    netlink.set_master("eth0", "br0").unwrap();
    let mut events = listen(&a, Events::open);
    netlink.clear_master("eth0").unwrap();
    let is_port = |event: &Event| matches!(event, Event::Link { name, .. } if name == "eth0");
    let seen = until(&mut events, is_port);
    let is_gone = |event: &Event| matches!(event, Event::Link { gone: true, .. });
    assert!(!seen.iter().any(is_gone), "{seen:?}");
}

#[test]
fn lost_events_are_everything_and_the_next_ones_are_heard() {
    need_root!();
    let a = TestNetns::new();
    let netlink = a.netlink();
    let mut events = listen(&a, || Events::with_queue(4096));
    let count = 200;
    let names = |number: u32| (format!("a{number}"), format!("b{number}"));
    for number in 0..count {
        let (one, other) = names(number);
        netlink.add_veth(&one, &other, None).unwrap();
    }
    // What is left of the queue is part of it.
    assert_eq!(events.read().unwrap(), [Event::Everything]);
    assert_eq!(events.read().unwrap(), []);
    let (one, _) = names(0);
    netlink.delete(&one).unwrap();
    let seen = until(
        &mut events,
        |event| matches!(event, Event::Link { name, gone: true, .. } if *name == one),
    );
    assert!(!seen.contains(&Event::Everything), "{seen:?}");
    // And it can happen again.
    for number in 1..count {
        netlink.delete(&names(number).0).unwrap();
    }
    assert_eq!(events.read().unwrap(), [Event::Everything]);
    assert_eq!(events.read().unwrap(), []);
}
