//! `apply` on real namespaces: packets flow, the second time nothing is to do, differences are small.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, assert_same, can_run, changes, snapshot};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{DataPath, abi, events};
use overlane_host::{ApplyRequest, HostError, Testing, apply, capture, observe, paths};
use overlane_net::netns::{self, Netns};
use overlane_net::{Netlink, Vxlan};

#[test]
fn guests_reach_each_other_and_a_second_apply_finds_nothing_to_do() {
    if !can_run("guests_reach_each_other") {
        return;
    }
    for (encapsulation, port) in [("vxlan", 4789), ("geneve", 6081)] {
        let world = World::new(2);
        let text = world.fabric(encapsulation, port, "");
        for n in 1..=2 {
            let report = world.apply(&text, n).unwrap();
            assert!(
                changes(&report)
                    .iter()
                    .any(|line| line.starts_with(&format!("+ port web{n} (device web{n}")))
            );
        }
        assert!(world.ping(1, 2, 5), "{encapsulation}");
        for n in 1..=2 {
            let before = snapshot(&world, n);
            let report = world.apply(&text, n).unwrap();
            assert_eq!(changes(&report), Vec::<String>::new());
            assert_same(&before, &snapshot(&world, n), "second apply");
        }
    }
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    if !can_run("a_dry_run") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("vxlan", 4789, "");
    let before = snapshot(&world, 1);
    let dry = world
        .apply_with(&text, 1, true, Testing::default())
        .unwrap();
    assert_same(&before, &snapshot(&world, 1), "dry run on an empty host");
    let wet = world.apply(&text, 1).unwrap();
    assert!(dry.dry_run && !wet.dry_run);
    assert_eq!(changes(&dry), changes(&wet));

    let before = snapshot(&world, 1);
    let other = text.replace("key: 7", "key: 9");
    let dry = world
        .apply_with(&other, 1, true, Testing::default())
        .unwrap();
    assert!(
        changes(&dry).contains(&"~ port web1 (device web1, key 9): key 7 → 9".to_owned()),
        "{:?}",
        changes(&dry)
    );
    assert_same(&before, &snapshot(&world, 1), "dry run on an applied host");
}

#[test]
fn what_can_be_known_to_fail_is_told_at_once_and_nothing_is_changed() {
    if !can_run("pre-flight") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("vxlan", 4789, "");
    let before = snapshot(&world, 1);
    let host = world.host(1);
    let more = format!(
        "  gone: {{ switch: blue, host: {host}, device: nodev, mac: \"02:00:00:00:00:21\" }}\n"
    );
    let refused = |text: &str| {
        let error = world.apply(text, 1).unwrap_err();
        assert_same(&before, &snapshot(&world, 1), "refused");
        assert!(error.help().is_some(), "{error}");
        error
    };
    // A missing port beside it is no error.
    let error = refused(&format!("{text}{more}").replace("uplink: eth1", "uplink: eth9"));
    assert!(
        error
            .to_string()
            .starts_with("no such device: eth9 (uplink) (namespace "),
        "{error}"
    );
    let error = refused(&text.replace("198.18.0.1", "198.18.0.7"));
    assert!(matches!(error, HostError::NoVtepAddress { .. }), "{error}");
    world.netlink(1).set_mtu("eth1", 600).unwrap();
    let error = world.apply(&text, 1).unwrap_err();
    assert!(
        matches!(
            error,
            HostError::MtuTooSmall {
                mtu: 600,
                needs: 626,
                ..
            }
        ),
        "{error}"
    );

    let tables = world.tables(&text, 1);
    let error = apply(&ApplyRequest {
        netns: Some("ov-nowhere"),
        ..ApplyRequest::new(&tables)
    })
    .unwrap_err();
    assert!(matches!(error, HostError::NoNamespace(_)), "{error}");
}

#[test]
fn one_host_in_one_namespace() {
    if !can_run("one_host_in_one_namespace") {
        return;
    }
    let world = World::new(2);
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 1).unwrap();
    let netns = world.netns(1);
    let tables = world.tables(&text, 2);
    let error = apply(&ApplyRequest {
        netns: Some(&netns),
        ..ApplyRequest::new(&tables)
    })
    .unwrap_err();
    assert!(
        matches!(&error, HostError::NamespaceTaken { other } if *other == world.host(1)),
        "{error}"
    );
    let netns = world.netns(2);
    let tables = world.tables(&text, 1);
    let error = apply(&ApplyRequest {
        netns: Some(&netns),
        ..ApplyRequest::new(&tables)
    })
    .unwrap_err();
    assert!(
        matches!(&error, HostError::AppliedElsewhere { .. }),
        "{error}"
    );
}

#[test]
fn lost_devices_links_and_entries_are_repaired() {
    if !can_run("repair") {
        return;
    }
    let world = World::new(2);
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 1).unwrap();
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 3));
    let host = world.host(1);

    // The port's device is created again: another index, no program.
    world.netlink(1).delete("web1").unwrap();
    assert_eq!(
        observe::ports(&host).unwrap().ports[0].state,
        observe::PortState::Missing
    );
    world.add_port(1);
    assert_eq!(
        observe::ports(&host).unwrap().ports[0].state,
        observe::PortState::Detached
    );
    assert!(!world.ping(1, 2, 1));
    let report = world.apply(&text, 1).unwrap();
    assert!(
        changes(&report)
            .iter()
            .any(|line| line.contains("attached to its device again")),
        "{report:?}"
    );
    assert_eq!(
        observe::ports(&host).unwrap().ports[0].state,
        observe::PortState::Ok
    );
    assert!(world.ping(1, 2, 3));

    // Devices of ours, a link's pin, the managed neighbour, an FDB entry.
    world.netlink(1).delete("ovl-seg1").unwrap();
    world.netlink(1).set_down("ovl-gro").unwrap();
    world
        .netlink(1)
        .delete_neighbour("eth1", common::underlay(2))
        .unwrap();
    std::fs::remove_file(paths::links(&host).join("from_underlay-eth1")).unwrap();
    let report = world.apply(&text, 1).unwrap();
    for line in [
        "+ device ovl-seg0 (segmenter)",
        "~ device ovl-gro: up",
        "~ uplink eth1: attached to its device again",
    ] {
        assert!(
            changes(&report).iter().any(|change| change == line),
            "{line}: {:?}",
            changes(&report)
        );
    }
    assert!(world.ping(1, 2, 3));
    assert_eq!(
        changes(&world.apply(&text, 1).unwrap()),
        Vec::<String>::new()
    );

    // The whole state file: everything is found again, nothing is made twice.
    std::fs::remove_file(paths::state(&host)).unwrap();
    world.apply(&text, 1).unwrap();
    assert!(world.ping(1, 2, 3));
    assert_eq!(
        changes(&world.apply(&text, 1).unwrap()),
        Vec::<String>::new()
    );
}

#[test]
fn what_is_seen_is_what_is_there() {
    if !can_run("observe") {
        return;
    }
    let world = World::new(2);
    let text = world.fabric("geneve", 6081, "");
    world.apply(&text, 1).unwrap();
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 5));
    let host = world.host(1);
    let counters = observe::counters(&host).unwrap();
    let encap = counters
        .verdicts
        .iter()
        .find(|v| (v.hook, v.verdict) == ("from_port", "encap"))
        .unwrap();
    assert!(
        !encap.drop && encap.count.packets >= 5 && encap.count.bytes >= 5 * 98,
        "{encap:?}"
    );
    assert!(counters.ports[0].from_port.packets >= 5 && counters.ports[0].to_port.packets >= 5);
    assert!(
        counters.remotes[0].to_remote.packets >= 5 && counters.remotes[0].from_remote.packets >= 5
    );
    assert!(counters.clone().without_zeros().verdicts.len() < counters.verdicts.len());

    let fdb = serde_json::to_value(observe::fdb(&host).unwrap()).unwrap();
    assert_eq!(fdb["entries"][0]["place"], "local");
    assert_eq!(fdb["entries"][0]["device"], "web1");
    assert_eq!(fdb["entries"][1]["place"], "remote");
    assert_eq!(fdb["entries"][1]["remote"], world.host(2));
    let remotes = observe::remotes(&host).unwrap();
    assert_eq!(remotes.remotes[0].next_hop, Some(common::underlay(2)));
    assert_ne!(remotes.remotes[0].neighbour, "none");
    assert!(
        overlane_host::applied_hosts()
            .unwrap()
            .iter()
            .any(|applied| applied.host == host && !applied.in_progress)
    );
    // A new port's counters begin at zero, a deleted one's are gone. The guests are unplugged: they would ask
    // again, some seconds after the ping, whether the neighbour is there.
    for n in 1..=2 {
        let guest = Netns::open(&world.guest(n)).unwrap();
        let netlink = Netlink::in_netns(&guest).unwrap();
        netlink.set_down("eth0").unwrap();
    }
    let without = text.replace(
        "addresses: [198.18.100.1], key: 7",
        "addresses: [198.18.100.1], key: 8",
    );
    world.apply(&without, 1).unwrap();
    assert_eq!(
        observe::counters(&host).unwrap().ports[0].from_port,
        observe::Count::default()
    );
    // Now the number that the first one had is free again: whoever gets it does not get what it counted.
    let third = text.replace("key: 7", "key: 9");
    world.apply(&third, 1).unwrap();
    assert_eq!(
        observe::counters(&host).unwrap().ports[0].from_port,
        observe::Count::default()
    );
}

#[test]
fn over_ipv6() {
    if !can_run("over_ipv6") {
        return;
    }
    let world = World::new(2);
    for n in 1..=2 {
        world
            .netlink(n)
            .add_address("eth1", common::underlay6(n), 64)
            .unwrap();
    }
    for encapsulation in ["vxlan", "geneve"] {
        let text = world
            .fabric(encapsulation, 4789, "")
            .replace("port: 4789", "port: 4789, udp6_zero_checksum: true")
            .replace("198.18.0.", "2001:2::");
        let text = text.replace("underlay: 2001:2::1", "underlay: \"2001:2::1\"");
        let text = text.replace("underlay: 2001:2::2", "underlay: \"2001:2::2\"");
        for n in 1..=2 {
            world.apply(&text, n).unwrap();
            assert_eq!(
                changes(&world.apply(&text, n).unwrap()),
                Vec::<String>::new()
            );
        }
        assert!(world.ping(1, 2, 5), "{encapsulation}");
    }
}

#[test]
fn a_taken_tunnel_port_costs_coalescing_only() {
    if !can_run("a_taken_tunnel_port") {
        return;
    }
    let world = World::new(2);
    let vxlan = Vxlan {
        vni: None,
        external: true,
        group_policy: false,
        local: None,
        remote: None,
        port: 4789,
        learning: false,
        udp_csum: true,
        udp6_zero_csum: false,
        device: None,
    };
    world.netlink(1).add_vxlan("taken", &vxlan).unwrap();
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 2).unwrap();
    for time in ["first", "second"] {
        let report = world.apply(&text, 1).unwrap();
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.note == Some("other_tunnel")
                    && note.to_string().contains("UDP port 4789")),
            "{time}"
        );
        assert!(
            !changes(&report).iter().any(|line| line.contains("ovl-gro")),
            "{time}"
        );
        assert_eq!(report.changes.is_empty(), time == "second");
        assert!(world.ping(1, 2, 3), "{time}");
    }
    // The port is free again: the device comes without being asked for.
    world.netlink(1).delete("taken").unwrap();
    let report = world.apply(&text, 1).unwrap();
    assert_eq!(
        changes(&report),
        [
            "~ another device on the tunnel port true → false",
            "+ device ovl-gro (receive coalescing)"
        ]
    );
    assert_eq!(report.notes, []);
}

#[test]
fn a_namespace_of_the_same_name_is_another_one() {
    if !can_run("a_namespace_of_the_same_name") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 1).unwrap();
    // Held open, the old one lives on without a name.
    let old = world.ns(1);
    netns::delete(&world.netns(1)).unwrap();
    Netns::create(&world.netns(1)).unwrap();
    let netlink = world.netlink(1);
    netlink.add_veth("eth1", "eth1p", None).unwrap();
    netlink.add_veth("web1", "web1p", None).unwrap();
    netlink
        .add_address("eth1", common::underlay(1), 24)
        .unwrap();
    netlink.set_mtu("eth1", 1600).unwrap();
    netlink.set_up("eth1").unwrap();
    let report = world.apply(&text, 1).unwrap();
    assert!(
        changes(&report)
            .iter()
            .any(|line| line.starts_with("~ port web1")),
        "{report:?}"
    );
    let ports = observe::ports(&world.host(1)).unwrap();
    assert_eq!(ports.ports[0].state, observe::PortState::Down);
    drop(old);
}

#[test]
fn what_a_killed_capture_left_on_is_switched_off() {
    if !can_run("a capture that was killed") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("geneve", 6081, "");
    world.apply(&text, 1).unwrap();
    let (data_path, host) = (DataPath::embedded().unwrap(), world.host(1));
    let set = paths::map_set(&host, data_path.signature());
    let maps = MapSet::open(&set, data_path.layouts()).unwrap().unwrap();
    let on = abi::Capture {
        mode: abi::CAPTURE_ALL,
        snap: 128,
        ..abi::Capture::default()
    };
    let leave = || {
        events::set_capture(&maps, on).unwrap();
        std::fs::write(paths::capture_lock(&host), "1 killed\n").unwrap();
    };
    leave();
    world
        .apply_with(&text, 1, true, Testing::default())
        .unwrap();
    assert_eq!(
        events::capture(&maps).unwrap(),
        on,
        "a dry run changes nothing"
    );
    // Also where there is nothing else to do.
    world.apply(&text, 1).unwrap();
    assert_eq!(events::capture(&maps).unwrap().mode, abi::CAPTURE_OFF);
    assert!(!paths::capture_lock(&host).exists());

    // One that lives is left alone.
    let session = capture::Session::open(&host, capture::Target::Drops, 64).unwrap();
    world.apply(&text, 1).unwrap();
    assert_eq!(events::capture(&maps).unwrap().mode, abi::CAPTURE_DROPS);
    drop(session);
    assert_eq!(events::capture(&maps).unwrap().mode, abi::CAPTURE_OFF);
}
