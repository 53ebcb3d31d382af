//! `remove` takes everything away, whatever is left of it, and a killed `apply` is found by the next.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, assert_same, can_run, changes, snapshot};
use overlane_host::{RemoveRequest, observe, paths, remove};
use overlane_net::netns::{self, Netns};

#[test]
fn nothing_is_left_and_the_second_time_there_is_nothing_to_do() {
    if !can_run("remove") {
        return;
    }
    let world = World::new(1);
    let before = snapshot(&world, 1);
    world.apply(&world.fabric("vxlan", 4789, ""), 1).unwrap();
    let removed = world.remove(1);
    for what in [
        "link from_port-web1",
        "maps ",
        "device ovl-seg0",
        "device ovl-gro",
        "next hop 198.18.0.2 on eth1",
        "guard: nftables table overlane-",
        "state ",
    ] {
        assert!(
            removed.iter().any(|line| line.starts_with(what)),
            "{what}: {removed:?}"
        );
    }
    assert_same(&before, &snapshot(&world, 1), "remove");
    assert_eq!(world.remove(1), Vec::<String>::new());
    assert!(!paths::pins(&world.host(1)).exists());
}

#[test]
fn also_when_the_namespace_is_gone() {
    if !can_run("remove without namespace") {
        return;
    }
    for is_named in [false, true] {
        let world = World::new(1);
        let (host, netns) = (world.host(1), world.netns(1));
        world.apply(&world.fabric("vxlan", 4789, ""), 1).unwrap();
        netns::delete(&netns).unwrap();
        let request = RemoveRequest {
            netns: is_named.then_some(netns.as_str()),
            ..RemoveRequest::new(&host)
        };
        let removed = remove(&request).unwrap().removed;
        assert!(
            removed.iter().any(|line| line.starts_with("link ")),
            "{removed:?}"
        );
        assert!(!paths::pins(&host).exists() && !paths::state(&host).exists());
    }
}

#[test]
fn also_when_the_state_file_is_gone_or_makes_no_sense() {
    if !can_run("remove without state") {
        return;
    }
    type Spoil = fn(&str) -> String;
    let spoils: [Option<Spoil>; 5] = [
        None,
        Some(|_| String::new()),
        Some(|text| text[..text.len() / 2].to_owned()),
        Some(|_| "garbage \u{1b}[31m".to_owned()),
        // What a later version may write.
        Some(|text| text.replacen("\"schema\": ", "\"schema\": 9", 1)),
    ];
    for spoil in spoils {
        let world = World::new(1);
        let before = snapshot(&world, 1);
        world.apply(&world.fabric("vxlan", 4789, ""), 1).unwrap();
        let state = paths::state(&world.host(1));
        let written = std::fs::read_to_string(&state).unwrap();
        match spoil {
            None => std::fs::remove_file(&state).unwrap(),
            Some(spoil) => std::fs::write(&state, spoil(&written)).unwrap(),
        }
        // Nobody says where the host is: the record does.
        let removed = remove(&RemoveRequest::new(&world.host(1))).unwrap().removed;
        let next_hop = "next hop 198.18.0.2 on eth1".to_owned();
        assert!(removed.contains(&next_hop), "{removed:?}");
        assert_same(&before, &snapshot(&world, 1), "remove");
        assert_eq!(world.remove(1), Vec::<String>::new());
    }
}

/// As an earlier version left it: no record. What cannot be known is named, and all else is gone.
#[test]
fn what_nothing_tells_of_is_named() {
    if !can_run("remove without state and record") {
        return;
    }
    let world = World::new(1);
    let host = world.host(1);
    world.apply(&world.fabric("vxlan", 4789, ""), 1).unwrap();
    for entry in std::fs::read_dir(paths::pins(&host).join("ours")).unwrap() {
        std::fs::remove_dir(entry.unwrap().path()).unwrap();
    }
    std::fs::write(paths::state(&host), "").unwrap();
    let netns = world.netns(1);
    let request = RemoveRequest {
        netns: Some(&netns),
        ..RemoveRequest::new(&host)
    };
    let error = remove(&request).unwrap_err();
    let said = error.to_string();
    assert!(
        said.ends_with("lists: promiscuous mode of eth1, managed neighbours on eth1"),
        "{said}"
    );
    assert!(!paths::pins(&host).exists() && !paths::state(&host).exists());
    assert!(!paths::lock(&host).exists());
    assert_eq!(world.remove(1), Vec::<String>::new());
}

/// Without its state file a host that is applied goes on where it was: nothing is forgotten, nothing is taken for the
/// user's.
#[test]
fn the_next_apply_knows_what_is_ours_without_the_state_file() {
    if !can_run("apply without state") {
        return;
    }
    let world = World::new(1);
    let (before, host) = (snapshot(&world, 1), world.host(1));
    let vlan = "  wire: { uplink_vlan: 100 }\n";
    let text = world.fabric("vxlan", 4789, "");
    let text = text.replace("switches:\n", &format!("switches:\n{vlan}"));
    let port = format!(
        "  red1: {{ switch: wire, host: {host}, device: red1, mac: \"02:00:00:00:02:01\" }}\n"
    );
    let text = text.replace("ports:\n", &format!("ports:\n{port}"));
    world.netlink(1).add_veth("red1", "red2", None).unwrap();
    world.apply(&text, 1).unwrap();
    let promiscuous = || world.netlink(1).link("eth1").unwrap().promiscuous;
    assert!(promiscuous());
    std::fs::remove_file(paths::state(&host)).unwrap();
    world.apply(&text, 1).unwrap();
    assert!(promiscuous());
    let removed = world.remove(1);
    assert!(
        removed.contains(&"promiscuous mode of eth1".to_owned()),
        "{removed:?}"
    );
    assert!(!promiscuous());
    world.netlink(1).delete("red1").unwrap();
    assert_same(&before, &snapshot(&world, 1), "remove");
    // A namespace that lives is still the host's, though only the record says so.
    world.netlink(1).add_veth("red1", "red2", None).unwrap();
    world.apply(&text, 1).unwrap();
    std::fs::remove_file(paths::state(&host)).unwrap();
    let (tables, second) = (world.tables(&text, 1), world.netns(2));
    let elsewhere = overlane_host::ApplyRequest {
        netns: Some(&second),
        ..overlane_host::ApplyRequest::new(&tables)
    };
    let error = overlane_host::apply(&elsewhere).unwrap_err();
    assert!(
        matches!(error, overlane_host::HostError::AppliedElsewhere { .. }),
        "{error}"
    );
    world.remove(1);
}

/// Its devices are gone, and all that says that the host was applied.
#[test]
fn a_namespace_of_the_unmarker_that_stands_alone_goes() {
    if !can_run("remove of the unmarker's namespace") {
        return;
    }
    let world = World::new(1);
    let inside = format!("overlane.{}.unmarker", world.host(1));
    let line = format!("namespace {inside} (unmarker)");
    Netns::create(&inside).unwrap();
    assert_eq!(world.remove(1), std::slice::from_ref(&line));
    assert!(!netns::exists(&inside));
    assert_eq!(world.remove(1), Vec::<String>::new());

    // Without remotes there is no unmarker.
    let (h1, h2) = (world.host(1), world.host(2));
    let alone = world.fabric("vxlan", 4789, "");
    let alone = alone.lines().filter(|line| !line.contains(&h2));
    let alone = alone.collect::<Vec<_>>().join("\n");
    assert!(alone.contains(&h1));
    world.apply(&alone, 1).unwrap();
    assert!(!netns::exists(&inside));
    Netns::create(&inside).unwrap();
    let lines = changes(&world.apply(&alone, 1).unwrap());
    assert_eq!(lines, [format!("- {line}")]);
    assert!(!netns::exists(&inside));
    assert_eq!(
        changes(&world.apply(&alone, 1).unwrap()),
        Vec::<String>::new()
    );
}

/// Runs the test binary again as a child that applies and dies in the middle.
#[test]
fn a_killed_apply_is_seen_and_repaired() {
    if !can_run("a_killed_apply") {
        return;
    }
    if let Ok(fabric) = std::env::var("OVERLANE_TEST_KILLED") {
        die_in_the_middle(&fabric);
    }
    // Later and later, up to an apply that is through.
    for at in [4, 9, 20, 34] {
        let world = World::new(2);
        let text = world.fabric("vxlan", 4789, "");
        let fabric = std::env::temp_dir().join(format!("{}.yaml", world.id));
        std::fs::write(&fabric, &text).unwrap();
        world.apply(&text, 2).unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_apply_is_seen_and_repaired"])
            .env(
                "OVERLANE_TEST_KILLED",
                format!(
                    "{} {} {} {at}",
                    fabric.display(),
                    world.host(1),
                    world.netns(1)
                ),
            )
            .status()
            .unwrap();
        std::fs::remove_file(&fabric).unwrap();
        let killed = status.code().is_none();
        assert!(killed || at > 20, "{status}");
        if killed {
            assert!(
                observe::interrupted(&world.host(1)).unwrap(),
                "killed at {at}"
            );
        }
        let report = world.apply(&text, 1).unwrap();
        assert_eq!(
            report
                .notes
                .iter()
                .any(|note| note.note == Some("interrupted")),
            killed
        );
        assert!(!observe::interrupted(&world.host(1)).unwrap());
        assert!(world.ping(1, 2, 3), "killed at {at}");
        assert_eq!(
            changes(&world.apply(&text, 1).unwrap()),
            Vec::<String>::new()
        );
    }
}

/// Never returns: the process kills itself before operation number `at`.
fn die_in_the_middle(arguments: &str) -> ! {
    let [fabric, host, netns, at] = arguments.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{arguments}")
    };
    let tables = overlane_model::load(fabric).unwrap().compile(host).unwrap();
    let testing = overlane_host::Testing {
        kill_at: Some(at.parse().unwrap()),
        ..Default::default()
    };
    let request = overlane_host::ApplyRequest {
        netns: Some(netns),
        testing,
        ..overlane_host::ApplyRequest::new(&tables)
    };
    overlane_host::apply(&request).unwrap();
    std::process::exit(0);
}
