//! A failure at any operation of `apply` leaves the host exactly as it was: an empty one empty, an applied
//! one applied, with the same programs, entries, devices and neighbours.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{
    World, assert_same, build_without_stages, can_run, other_build_without_stages,
    same_maps_without_stages, snapshot, unmarker_of, with_object,
};
use overlane_host::{ApplyRequest, HostError, Testing, apply};

/// Fails at operation 0, 1, 2, … until an apply comes through; returns how many operations there were.
fn fail_everywhere(world: &World, text: &str, object: &[u8]) -> usize {
    let before = snapshot(world, 1);
    for fail_at in 0.. {
        let testing = Testing {
            fail_at: Some(fail_at),
            ..with_object(object)
        };
        match world.apply_with(text, 1, false, testing) {
            Ok(_) => return fail_at,
            Err(HostError::Injected(at)) => assert_eq!(at, fail_at),
            Err(other) => panic!("operation {fail_at}: {other}"),
        }
        assert_same(
            &before,
            &snapshot(world, 1),
            &format!("failure at operation {fail_at}"),
        );
    }
    unreachable!()
}

#[test]
fn an_empty_host_stays_empty() {
    if !can_run("an_empty_host_stays_empty") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("vxlan", 4789, "");
    let operations = fail_everywhere(&world, &text, &build_without_stages());
    assert!(operations > 20, "{operations}");
    // And an upgrade leaves the former build there.
    let operations = fail_everywhere(&world, &text, &other_build_without_stages());
    assert!(operations > 15, "{operations}");
}

/// It takes over at all hooks at once, by a map that it shares with the former.
#[test]
fn another_build_with_the_same_maps_changes_nothing() {
    if !can_run("another_build_with_the_same_maps") {
        return;
    }
    let (former, other) = (build_without_stages(), same_maps_without_stages());
    let world = World::new(1);
    let text = world.fabric("vxlan", 4789, "");
    let first = world.apply_with(&text, 1, false, with_object(&former));
    first.unwrap();
    let before = snapshot(&world, 1);
    let operations = fail_everywhere(&world, &text, &other);
    assert!(operations > 10, "{operations}");
    let data_path = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("data path"))
            .map(str::to_owned)
    };
    let (before, after) = (data_path(&before), data_path(&snapshot(&world, 1)));
    assert!(before.is_some() && before != after, "{before:?} {after:?}");
}

#[test]
fn an_applied_host_stays_applied() {
    if !can_run("an_applied_host_stays_applied") {
        return;
    }
    let object = build_without_stages();
    let quickly = with_object(&object);
    let world = World::new(2);
    world.netlink(1).add_veth("lan1", "lan1p", None).unwrap();
    let (h1, h2) = (world.host(1), world.host(2));
    let first = format!(
        "  old1: {{ switch: red, host: {h1}, device: lan1, mac: \"02:00:00:00:00:11\", addresses: [198.18.101.1] }}\n  \
           old2: {{ switch: red, host: {h2}, device: lan2, mac: \"02:00:00:00:00:12\" }}\n"
    );
    let first = world.fabric("vxlan", 4789, &first);
    world.apply_with(&first, 1, false, quickly).unwrap();

    // Entries to add, to change and to delete; a link to make, one to take away; the GRO device to renew.
    let second = world
        .fabric("vxlan", 4790, &format!("  new1: {{ switch: blue, host: {h1}, device: lan1p, mac: \"02:00:00:00:00:13\" }}\n"))
        .replace("key: 7", "key: 8");
    world.netlink(1).delete("ovl-seg0").unwrap();
    let operations = fail_everywhere(&world, &second, &object);
    assert!(operations > 20, "{operations}");

    // To Geneve: the GRO device is another, or goes where the kernel has no Geneve.
    let third = world.fabric("geneve", 6081, "");
    fail_everywhere(&world, &third, &object);
    for n in 1..=2 {
        world.apply(&third, n).unwrap();
    }
    assert!(world.ping(1, 2, 3));
    let gro = world.netlink(1).link("ovl-gro");
    assert!(gro.is_err() || gro.is_ok_and(|gro| gro.kind.as_deref() == Some("geneve")));
}

#[test]
fn rules_and_routers_stay_as_they_were() {
    if !can_run("rules_and_routers_stay_as_they_were") {
        return;
    }
    let object = build_without_stages();
    let quickly = with_object(&object);
    let world = World::new(1);
    world.netlink(1).add_veth("phys0", "phys1", None).unwrap();
    let fabric = |rules: &str, routes: &str, addresses: &str, nat: &str| {
        format!(
            "{}rules:\n{rules}routers:\n  r1:\n    interfaces: {{ blue: [198.18.100.254/24] }}\n    \
             routes: [{routes}]\n    gateway: {{ host: {}, device: phys0, addresses: [{addresses}], nat: [{nat}] }}\n",
            world.fabric("geneve", 6081, ""),
            world.host(1)
        )
    };
    let pings =
        "  pings: { ports: [web1], direction: to_port, action: allow, services: [icmp/8] }\n";
    let others = "  others: { ports: [web1], direction: to_port, action: drop, priority: 2000, services: [tcp/80-89] }\n";
    let source = "{ source: 198.18.100.0/24, outside: 198.19.0.2 }";
    // Groups to join and to leave.
    let addresses = "198.19.0.2/24, '2001:2::2/64'";
    let first = fabric(
        pings,
        "{ to: 0.0.0.0/0, via: 198.19.0.1 }",
        addresses,
        source,
    );
    world.apply_with(&first, 1, false, quickly).unwrap();
    let one = "{ one_to_one: 198.18.100.1, outside: 198.19.0.9 }, ";
    let second = fabric(
        &format!("{others}{pings}"),
        "{ to: 0.0.0.0/0, via: [198.19.0.1, 198.19.0.7] }",
        "198.19.0.2/24, '2001:2::3/64'",
        &format!("{one}{source}"),
    );
    let operations = fail_everywhere(&world, &second, &object);
    assert!(operations > 20, "{operations}");
    // And back, over the other generation of rules and the other list of translations.
    fail_everywhere(&world, &first, &object);
}

#[test]
fn frames_never_go_into_an_unmarker_that_is_not_there() {
    if !can_run("frames_never_go_into_an_unmarker_that_is_not_there") {
        return;
    }
    let world = World::new(2);
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 1).unwrap();
    let index = || {
        let link = world.netlink(1).link("ovl-unm0");
        link.map_or(0, |link| link.index)
    };
    assert!(index() != 0 && unmarker_of(&world, 1) == index());
    // It has to be made anew.
    world.netlink(1).set_down("ovl-unm4").unwrap();
    for fail_at in 0.. {
        let testing = Testing {
            fail_at: Some(fail_at),
            ..Testing::default()
        };
        let applied = world.apply_with(&text, 1, false, testing);
        let into = unmarker_of(&world, 1);
        assert!(into == 0 || into == index(), "operation {fail_at}: {into}");
        if applied.is_ok() {
            assert!(fail_at > 5 && into != 0, "operation {fail_at}: {into}");
            break;
        }
    }
}

/// A port and a leg on which nothing can be attached, and a next hop that cannot be kept: with `each_alone` the others are applied, and the report says
/// which failed. An operation that is not theirs takes all back as before.
#[test]
fn what_stands_alone_fails_alone() {
    if !can_run("what_stands_alone_fails_alone") {
        return;
    }
    let object = build_without_stages();
    let quickly = with_object(&object);
    let world = World::new(1);
    let netlink = world.netlink(1);
    for (device, peer) in [("lan1", "lan1p"), ("phys0", "phys1")] {
        netlink.add_veth(device, peer, None).unwrap();
    }
    let host = world.host(1);
    let port = |name: &str, device: &str, mac: u8| {
        format!(
            "  {name}: {{ switch: red, host: {host}, device: {device}, mac: \"02:00:00:00:00:{mac}\" }}\n"
        )
    };
    let text = format!(
        "{}routers:\n  r1:\n    interfaces: {{ red: [198.18.101.254/24] }}\n    \
         gateway: {{ host: {host}, device: phys0, addresses: [198.19.0.2/24] }}\n",
        world.fabric("vxlan", 4789, &port("lan", "lan1", 11))
    );
    let tables = world.tables(&text, 1);
    let netns = world.netns(1);
    let apply_with = |testing| {
        apply(&ApplyRequest {
            netns: Some(&netns),
            each_alone: true,
            testing,
            ..ApplyRequest::new(&tables)
        })
    };
    let before = snapshot(&world, 1);
    let mut alone = std::collections::BTreeSet::new();
    for fail_at in 0.. {
        let testing = Testing {
            fail_at: Some(fail_at),
            ..quickly
        };
        match apply_with(testing) {
            Err(HostError::Injected(at)) => {
                assert_eq!(at, fail_at);
                let what = format!("failure at operation {fail_at}");
                assert_same(&before, &snapshot(&world, 1), &what);
            }
            Ok(report) => {
                let failed = report.notes.iter().filter(|row| row.note == Some("failed"));
                let failed: Vec<_> = failed.map(|row| row.name.clone()).collect();
                // The next one makes up for it.
                let again = apply_with(quickly).unwrap();
                assert_eq!(again.changes.is_empty(), failed.is_empty(), "{again:?}");
                assert_eq!(apply_with(quickly).unwrap().changes, []);
                world.remove(1);
                assert_same(&before, &snapshot(&world, 1), "remove");
                if failed.is_empty() {
                    break;
                }
                alone.extend(failed);
            }
            Err(other) => panic!("operation {fail_at}: {other}"),
        }
    }
    let all = ["198.18.0.2", "lan", "phys0", "web1"];
    assert_eq!(alone, all.map(str::to_owned).into());
}

#[test]
fn a_device_that_is_not_fit_is_left_out() {
    if !can_run("a_device_that_is_not_fit_is_left_out") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    let netns = world.ns(1);
    let made = netns
        .command("ip")
        .args(["tuntap", "add", "l3", "mode", "tun"])
        .status();
    assert!(made.unwrap().success());
    let host = world.host(1);
    let flat = format!(
        "  flat: {{ switch: red, host: {host}, device: l3, mac: \"02:00:00:00:00:11\" }}\n"
    );
    let text = world.fabric("vxlan", 4789, &flat);
    let tables = world.tables(&text, 1);
    let name = world.netns(1);
    let request = |each_alone| ApplyRequest {
        netns: Some(&name),
        each_alone,
        testing: with_object(&object),
        ..ApplyRequest::new(&tables)
    };
    let refused = apply(&request(false)).unwrap_err();
    assert!(
        matches!(refused, HostError::Layer3Devices { .. }),
        "{refused}"
    );
    let report = apply(&request(true)).unwrap();
    let failed = report.notes.iter().find(|row| row.note == Some("failed"));
    let said = failed.unwrap().to_string();
    assert!(
        said.starts_with("port flat: its device l3 carries no Ethernet frames"),
        "{said}"
    );
    assert_eq!(apply(&request(true)).unwrap().changes, []);
}
