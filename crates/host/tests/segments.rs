//! Switches on VLANs, trunks and learning ports on real namespaces: what `apply` makes of the machine for
//! them, that packets flow, and that nothing of it is left.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, assert_same, build_without_stages, can_run, changes, snapshot, with_object};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{DataPath, learned};
use overlane_host::observe::{self, FdbPlace};
use overlane_host::{HostError, Testing, paths, status};
use overlane_net::netns::Netns;

/// The world's fabric with its switch on VLAN 100 instead of in a tunnel.
fn on_vlan(world: &World) -> String {
    world
        .fabric("geneve", 6081, "")
        .replace("vni: 5001", "uplink_vlan: 100")
}

fn is_promiscuous(world: &World, n: usize) -> bool {
    world.netlink(n).link("eth1").unwrap().promiscuous
}

/// Runs a shell line in a guest, or panics with what it said.
fn guest(world: &World, n: usize, line: &str) {
    let netns = Netns::open(&world.guest(n)).unwrap();
    let output = netns.command("bash").args(["-c", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
}

#[test]
fn guests_of_a_switch_on_a_vlan_reach_each_other() {
    if !can_run("a switch on a VLAN") {
        return;
    }
    let world = World::new(2);
    let before = snapshot(&world, 1);
    let text = on_vlan(&world);
    for n in 1..=2 {
        let report = world.apply(&text, n).unwrap();
        let lines = changes(&report);
        for line in [
            "+ switch blue (VLAN 100)",
            "+ promiscuous mode of eth1 (for switches on a VLAN)",
        ] {
            assert!(lines.iter().any(|change| change == line), "{lines:?}");
        }
        assert!(is_promiscuous(&world, n));
        assert_eq!(
            changes(&world.apply(&text, n).unwrap()),
            Vec::<String>::new()
        );
    }
    assert!(world.ping(1, 2, 5));

    let host = world.host(1);
    let fdb = observe::fdb(&host).unwrap();
    let places: Vec<_> = fdb.entries.iter().map(|entry| &entry.place).collect();
    assert!(
        matches!(places[..], [FdbPlace::Local { .. }, FdbPlace::Uplink { device }] if device == "eth1"),
        "{places:?}"
    );
    let ports = serde_json::to_value(observe::ports(&host).unwrap()).unwrap();
    let port = &ports["ports"][0];
    assert_eq!(
        (&port["vni"], &port["vlan"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(port["uplink_vlan"], 100);
    let switches = serde_json::to_value(observe::switches(&host).unwrap()).unwrap();
    assert_eq!(switches["switches"][0]["uplink_vlan"], 100);
    assert_eq!(
        switches["switches"][0]["ports"],
        serde_json::json!(["web1"])
    );

    // Back into the tunnel: the mode goes, and comes again.
    let report = world.apply(&world.fabric("geneve", 6081, ""), 1).unwrap();
    let lines = changes(&report);
    assert!(
        lines.contains(&"- promiscuous mode of eth1".to_owned()),
        "{lines:?}"
    );
    assert!(!is_promiscuous(&world, 1));
    world.apply(&text, 1).unwrap();
    assert!(world.ping(1, 2, 3));
    let removed = world.remove(1);
    assert!(
        removed.contains(&"promiscuous mode of eth1".to_owned()),
        "{removed:?}"
    );
    assert_same(&before, &snapshot(&world, 1), "remove");
}

#[test]
fn an_uplink_that_its_user_made_promiscuous_stays_so() {
    if !can_run("a promiscuous uplink") {
        return;
    }
    let world = World::new(1);
    world.netlink(1).set_promiscuous("eth1", true).unwrap();
    let text = on_vlan(&world);
    let lines = changes(&world.apply(&text, 1).unwrap());
    assert!(
        !lines.iter().any(|line| line.contains("promiscuous")),
        "{lines:?}"
    );
    world.apply(&world.fabric("geneve", 6081, ""), 1).unwrap();
    assert!(is_promiscuous(&world, 1));
    world.apply(&text, 1).unwrap();
    world.remove(1);
    assert!(is_promiscuous(&world, 1));
}

#[test]
fn a_lost_promiscuous_mode_is_restored_and_still_ours() {
    if !can_run("a lost promiscuous mode") {
        return;
    }
    let world = World::new(1);
    let text = on_vlan(&world);
    world.apply(&text, 1).unwrap();
    world.netlink(1).set_promiscuous("eth1", false).unwrap();
    let lines = changes(&world.apply(&text, 1).unwrap());
    assert_eq!(
        lines,
        ["+ promiscuous mode of eth1 (for switches on a VLAN)"]
    );
    world.remove(1);
    assert!(!is_promiscuous(&world, 1));
}

#[test]
fn a_failed_apply_leaves_the_mode_as_it_was() {
    if !can_run("rollback of promiscuous mode") {
        return;
    }
    let world = World::new(1);
    let (tunnel, vlan) = (world.fabric("geneve", 6081, ""), on_vlan(&world));
    let object = build_without_stages();
    let quickly = with_object(&object);
    for (from, to) in [(&tunnel, &vlan), (&vlan, &tunnel)] {
        world.apply_with(from, 1, false, quickly).unwrap();
        let before = snapshot(&world, 1);
        for fail_at in 0.. {
            let testing = Testing {
                fail_at: Some(fail_at),
                ..quickly
            };
            match world.apply_with(to, 1, false, testing) {
                Ok(_) => break,
                Err(HostError::Injected(_)) => {}
                Err(other) => panic!("operation {fail_at}: {other}"),
            }
            assert_same(
                &before,
                &snapshot(&world, 1),
                &format!("failure at {fail_at}"),
            );
        }
    }
}

/// Guest 1 has a port for what comes untagged and two for tags, all on one device: the machine's side of it.
/// What becomes of tagged frames is shown by the golden cases.
#[test]
fn a_trunk_is_one_device_and_several_ports() {
    if !can_run("a trunk") {
        return;
    }
    let world = World::new(2);
    let host = world.host(1);
    let trunk = |vlan: u16, last: u8| {
        format!(
            "  tag{vlan}: {{ switch: red, host: {host}, device: web1, vlan: {vlan}, mac: \"02:00:00:00:01:{last:02x}\" }}\n"
        )
    };
    let text = world.fabric("geneve", 6081, &(trunk(10, 1) + &trunk(20, 2)));
    let report = world.apply(&text, 1).unwrap();
    let lines = changes(&report);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("+ port tag10 (device web1 tag 10, key ")),
        "{lines:?}"
    );
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 3), "untagged");
    let links: Vec<_> = std::fs::read_dir(paths::links(&host))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with("-web1"))
        .collect();
    assert_eq!(links, ["from_port-web1"], "attached once");
    assert_eq!(
        changes(&world.apply(&text, 1).unwrap()),
        Vec::<String>::new()
    );

    let ports = observe::ports(&host).unwrap().ports;
    let shown: Vec<_> = ports
        .iter()
        .map(|port| (port.port.as_str(), port.vlan, port.state))
        .collect();
    let ok = observe::PortState::Ok;
    assert_eq!(
        shown,
        [
            ("tag10", Some(10), ok),
            ("tag20", Some(20), ok),
            ("web1", None, ok)
        ]
    );

    // One port less: the device keeps its program.
    let less = world.fabric("geneve", 6081, &trunk(20, 2));
    let lines = changes(&world.apply(&less, 1).unwrap());
    assert!(
        lines.iter().any(|line| line.starts_with("- port tag10")),
        "{lines:?}"
    );
    assert!(
        !lines
            .iter()
            .any(|line| line.contains("web1,") || line.contains("tag20")),
        "{lines:?}"
    );
    assert!(world.ping(1, 2, 3));
    // A change of one is said of that one only.
    let mac = less.replace("vlan: 20,", "vlan: 20, security: off,");
    let lines = changes(&world.apply(&mac, 1).unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("~ port tag20 (device web1 tag 20"),
        "{lines:?}"
    );

    // A missing trunk is missed once.
    let missing = text.replace("device: web1, vlan", "device: nodev, vlan");
    let [trunk] = &world.apply(&missing, 1).unwrap().missing[..] else {
        panic!("one device is missing");
    };
    assert_eq!((trunk.device.as_str(), trunk.by.len()), ("nodev", 2));
}

#[test]
fn what_is_learned_is_shown_here_and_there() {
    if !can_run("learning") {
        return;
    }
    let world = World::new(2);
    let text = world
        .fabric("geneve", 6081, "")
        .replace("vni: 5001", "vni: 5001, unknown_unicast: flood")
        .replace(
            "addresses: [198.18.100.1], key: 7",
            "key: 7, learning: { limit: 2, age: 60 }",
        );
    for n in 1..=2 {
        world.apply(&text, n).unwrap();
    }
    assert!(observe::learned(&world.host(1)).unwrap().entries.is_empty());
    assert!(world.ping(1, 2, 2), "with the MAC of the fabric");
    let learned = observe::learned(&world.host(1)).unwrap();
    assert!(
        learned.entries.is_empty(),
        "the port's own MAC is not learned: {learned:?}"
    );
    assert_eq!((learned.ports[0].macs, learned.ports[0].limit), (0, 2));

    guest(&world, 1, "ip link set eth0 address 06:00:00:00:00:01");
    guest(&world, 2, "ip neigh flush all");
    assert!(world.ping(1, 2, 2), "with another");
    let learned = observe::learned(&world.host(1)).unwrap();
    let here = serde_json::to_value(&learned.entries).unwrap();
    assert_eq!(here.as_array().unwrap().len(), 1, "{here}");
    assert_eq!(here[0]["mac"], "06:00:00:00:00:01");
    assert_eq!(
        (&here[0]["place"], &here[0]["device"]),
        (&"local".into(), &"web1".into())
    );
    assert_eq!(
        (&here[0]["port"], &here[0]["age_s"]),
        (&"web1".into(), &60.into())
    );
    assert!(here[0]["seen_s"].as_u64().unwrap() < 30, "{here}");
    assert_eq!(learned.ports[0].macs, 1);
    let learned = observe::learned(&world.host(2)).unwrap();
    let there = serde_json::to_value(&learned.entries).unwrap();
    assert_eq!(
        (&there[0]["place"], &there[0]["remote"]),
        (&"remote".into(), &world.host(1).into())
    );
    assert_eq!(there[0]["key"], 7);
    assert!(learned.ports.is_empty());

    // What was learned stays through an apply that changes nothing about it.
    world
        .apply(&text.replace("key: 7", "key: 7, security: mac"), 1)
        .unwrap();
    assert_eq!(observe::learned(&world.host(1)).unwrap().entries.len(), 1);
    // No longer a learning port: what it learned no longer counts.
    let off = text.replace("learning: { limit: 2, age: 60 }", "learning: false");
    world.apply(&off, 1).unwrap();
    let learned = observe::learned(&world.host(1)).unwrap();
    assert!(
        learned.entries.is_empty() && learned.ports.is_empty(),
        "{learned:?}"
    );
    assert!(
        !world.ping(1, 2, 1),
        "a MAC of its own choice is refused now"
    );
}

/// How many addresses each owner counts, by switch and key, without the clock of the host.
fn counted(world: &World, n: usize) -> Vec<(u32, u32, u32)> {
    let (data_path, host) = (DataPath::embedded().unwrap(), world.host(n));
    let set = paths::map_set(&host, data_path.signature());
    let maps = MapSet::open(&set, data_path.layouts()).unwrap().unwrap();
    let counts = learned::counts(&maps).unwrap();
    let owners = counts.iter().filter(|(id, _)| id.switch_id != 0);
    owners
        .map(|(id, count)| (id.switch_id, id.key, count.macs))
        .collect()
}

#[test]
fn apply_forgets_what_was_learned_where_nothing_learns_any_more() {
    if !can_run("what apply forgets") {
        return;
    }
    let world = World::new(2);
    let text = world
        .fabric("geneve", 6081, "")
        .replace("vni: 5001", "vni: 5001, unknown_unicast: flood")
        .replace(
            "addresses: [198.18.100.1], key: 7",
            "key: 7, learning: true",
        );
    let learn = || {
        for n in 1..=2 {
            world.apply(&text, n).unwrap();
        }
        guest(&world, 1, "ip link set eth0 address 06:00:00:00:00:01");
        guest(&world, 2, "ip neigh flush all");
        assert!(world.ping(1, 2, 2));
        for n in 1..=2 {
            assert_eq!(observe::learned(&world.host(n)).unwrap().entries.len(), 1);
        }
        assert_eq!(counted(&world, 1), [(5001, 7, 1)]);
        assert_eq!(counted(&world, 2), [(5001, 0, 1)]);
    };
    let nothing = |n: usize| {
        let learned = observe::learned(&world.host(n)).unwrap();
        assert!(learned.entries.is_empty(), "{learned:?}");
        assert!(
            learned.ports.iter().all(|port| port.macs == 0),
            "{learned:?}"
        );
    };
    learn();

    // The port goes and comes back: with it, nothing of what it had learned.
    let without = text.replace("  web1: {", "  # web1: {");
    world.apply(&without, 1).unwrap();
    assert_eq!(counted(&world, 1), []);
    world.apply(&text, 1).unwrap();
    nothing(1);
    // Host 2: a switch that learns no more, then does again.
    world.apply(&without, 2).unwrap();
    assert_eq!(counted(&world, 2), []);
    world.apply(&text, 2).unwrap();
    nothing(2);

    // The port learns no more, then does again.
    learn();
    world
        .apply(&text.replace("learning: true", "learning: false"), 1)
        .unwrap();
    assert_eq!(counted(&world, 1), []);
    world.apply(&text, 1).unwrap();
    nothing(1);

    // The port stays one that learns, but its device is another: it begins anew.
    learn();
    world.netlink(1).delete("web1").unwrap();
    world.add_port(1);
    world.apply(&text, 1).unwrap();
    nothing(1);
    assert_eq!(counted(&world, 1), [(5001, 7, 0)]);

    // Of a remote that has another address now, nothing is left, though the switch still learns.
    learn();
    let moved = text.replace("underlay: 198.18.0.1,", "underlay: 198.18.0.3,");
    world.apply(&moved, 2).unwrap();
    nothing(2);
    assert_eq!(counted(&world, 2), [(5001, 0, 0)]);
    // What still holds stays, through any apply.
    learn();
    world
        .apply(&text.replace("key: 7", "key: 7, security: mac"), 1)
        .unwrap();
    assert_eq!(counted(&world, 1), [(5001, 7, 1)]);
}

/// A host that version 1 applied: its state file has names in place of the tables.
#[test]
fn the_state_file_of_the_first_version_is_taken_over() {
    if !can_run("an older state file") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("geneve", 6081, "");
    world.apply(&text, 1).unwrap();
    let path = paths::state(&world.host(1));
    let now = std::fs::read_to_string(&path).unwrap();
    let state: serde_json::Value = serde_json::from_str(&now).unwrap();
    let tables = &state["tables"];
    let mut old = serde_json::json!({
        "schema": 1,
        "tables_digest": "00",
        "uplink": tables["uplink"],
        "vtep": tables["vtep"],
        "encapsulation": tables["tunnel"]["encapsulation"],
        "tunnel_port": tables["tunnel"]["port"],
        "gro_refused": null,
        "neighbours": [{ "device": tables["uplink"], "address": "198.18.0.2" }],
        "ports": [{ "name": "web1", "device": "web1", "vni": 5001, "key": 7, "mac": "02:00:00:00:00:01" }],
        "switches": [{ "name": "blue", "vni": 5001, "flood_unknown": true }],
        "remotes": [{ "name": "h2", "address": "198.18.0.2" }],
    });
    for same in [
        "host",
        "netns",
        "netns_id",
        "netns_cookie",
        "in_progress",
        "object_digest",
        "map_signature",
        "programs",
    ] {
        old[same] = state[same].clone();
    }
    std::fs::write(&path, old.to_string()).unwrap();
    let found = status(&world.host(1), None).unwrap();
    assert_eq!(found.netns, Some(world.netns(1)));
    assert_eq!(
        changes(&world.apply(&text, 1).unwrap()),
        Vec::<String>::new()
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), now);
}
