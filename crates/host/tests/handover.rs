//! Connections leave a real host with their port and come back to it from a file.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, can_run};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{DataPath, connections};
use overlane_host::{HostError, handover, observe, paths};
use overlane_model::{MovedConnections, MovedMarks, MovedState};

const RULES: &str = "  pings: { ports: [web1], direction: to_port, action: allow, services: [icmp/8] }\n\
    \x20 others: { ports: [web1], direction: to_port, action: drop, priority: 5 }\n";

fn live(host: &str) -> usize {
    observe::connections(host, None).unwrap().connections.len()
}

/// Those in the map, of ports that are gone too.
fn kept(host: &str) -> usize {
    let data_path = DataPath::embedded().unwrap();
    let set = paths::map_set(host, data_path.signature());
    let maps = MapSet::open(&set, data_path.layouts());
    let entries = connections::entries(&maps.unwrap().unwrap());
    entries.unwrap().len()
}

#[test]
fn a_port_that_comes_begins_without_connections_and_takes_those_that_come_with_it() {
    if !can_run("a_port_that_comes") {
        return;
    }
    let world = World::new(2);
    let (host, other) = (world.host(1), world.host(2));
    let here = format!("{}rules:\n{RULES}", world.fabric("geneve", 6081, ""));
    let port_of = |host: &str| format!("switch: blue, host: {host}, device: web1");
    let elsewhere = here.replace(&port_of(&host), &port_of(&other));
    assert_ne!(here, elsewhere);
    for n in 1..=2 {
        world.apply(&here, n).unwrap();
    }
    assert!(world.ping(2, 1, 2));
    let export = handover::export(&host, "web1").unwrap();
    assert!(export.has_firewall);
    let [echo] = &export.moved.connections[..] else {
        panic!("one connection: {export:?}");
    };
    assert!(matches!(echo.marks, MovedMarks::Query(8, _)) && echo.begun_by_peer);
    assert_eq!(echo.state, MovedState::Established);
    let file = export.moved.to_json().unwrap();
    let moved = MovedConnections::parse(&file).unwrap();
    assert_eq!(moved, export.moved);

    let import = |moved: &_| handover::import(&host, "web1", moved, &|_| ());
    // It is here: nothing to take.
    let done = import(&moved).unwrap();
    assert_eq!((done.taken, done.there, done.expired), (0, 1, 0));
    // Another port that comes changes nothing for this one.
    let more = "  web3: { switch: red, host: H, device: web3, mac: \"02:00:00:00:00:03\" }\nrules:";
    let more = here.replace("rules:", &more.replace('H', &host));
    world.netlink(1).add_veth("web3", "web3p", None).unwrap();
    world.apply(&more, 1).unwrap();
    assert_eq!(live(&host), 1);
    // The port goes, and gives its places back. It comes back without.
    assert_eq!(kept(&host), 1);
    world.apply(&elsewhere, 1).unwrap();
    assert_eq!(kept(&host), 0);
    let gone = import(&moved).unwrap_err();
    assert!(matches!(gone, HostError::NoPort { .. }), "{gone}");
    world.apply(&here, 1).unwrap();
    assert_eq!(live(&host), 0);
    let done = import(&moved).unwrap();
    assert_eq!((done.taken, done.there, done.expired), (1, 0, 0));
    let row = observe::connections(&host, Some("web1")).unwrap();
    let row = row.connections.into_iter().next().unwrap();
    assert!(row.begun_by_peer && !row.expired && row.rule.is_none());
    // Its time went on.
    let mut late = moved.clone();
    late.connections[0].idle_ms += 61_000;
    late.connections[0].age_ms += 61_000;
    world.apply(&elsewhere, 1).unwrap();
    world.apply(&here, 1).unwrap();
    let done = import(&late).unwrap();
    assert_eq!((done.taken, done.there, done.expired), (0, 0, 1));
    assert_eq!(live(&host), 0);
    // Another port takes the key and the device in one go.
    assert_eq!(import(&moved).unwrap().taken, 1);
    let another = here
        .replace("web1: {", "web8: {")
        .replace("[web1]", "[web8]")
        .replace("02:00:00:00:00:01", "02:00:00:00:00:08");
    world.apply(&another, 1).unwrap();
    assert_eq!(live(&host), 0);
}
