//! Traffic does not notice: fifty re-applies, and four changes between two builds of the data path whose
//! maps differ. A steady stream crosses both hosts all the while, and every packet is answered.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{World, assert_same, build_with, can_run, changes, snapshot, with_object};
use overlane_host::{HostError, Testing, observe, paths};
use overlane_net::netns::Netns;

/// The data path with a larger value in one map: what another release may bring.
fn other_build() -> Vec<u8> {
    build_with(
        "struct scratch {\n",
        "struct scratch {\n\t__u64 enlarged;\n",
    )
}

/// A stream of echo requests from guest 1 to guest 2, 500 a second, until told to stop.
struct Stream(Option<Child>);

/// What a failed test leaves running would hold the output open for ever.
impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Stream {
    fn start(world: &World) -> Self {
        let guest = Netns::open(&world.guest(1)).unwrap();
        let target = common::inner(2).to_string();
        let child = guest
            .command("ping")
            .args(["-n", "-q", "-i", "0.002", &target])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(Some(child))
    }

    /// Packets sent and answered.
    fn stop(mut self) -> (u64, u64) {
        let child = self.0.take().unwrap();
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.contains("packets transmitted"))
            .unwrap()
            .to_owned();
        let numbers: Vec<u64> = line
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        (numbers[0], numbers[1])
    }
}

#[test]
fn fifty_applies_lose_nothing() {
    if !can_run("fifty_applies") {
        return;
    }
    let world = World::new(2);
    let host = world.host(1);
    world.netlink(1).add_veth("lan1", "lan1p", None).unwrap();
    let text = world.fabric("vxlan", 4789, "");
    let more = format!(
        "  more: {{ switch: blue, host: {host}, device: lan1, mac: \"02:00:00:00:00:31\" }}\n"
    );
    let more = world.fabric("vxlan", 4789, &more);
    world.apply(&text, 1).unwrap();
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 3));
    let stream = Stream::start(&world);
    for n in 0..50 {
        let report = world
            .apply(if n % 2 == 0 { &more } else { &text }, 1)
            .unwrap();
        assert!(!report.changes.is_empty());
    }
    let (sent, answered) = stream.stop();
    // The last one may be on its way.
    assert!(sent > 50 && sent - answered <= 1, "{answered} of {sent}");
}

#[test]
fn another_build_with_other_maps_loses_nothing() {
    if !can_run("another_build") {
        return;
    }
    let other = other_build();
    let world = World::new(2);
    let host = world.host(1);
    let text = world.fabric("vxlan", 4789, "");
    // The counters of the port get the second number; in a new set they will have the first.
    world.apply(&text.replace("key: 7", "key: 6"), 1).unwrap();
    world.apply(&text, 1).unwrap();
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 3));
    let testing = with_object(&other);
    let stream = Stream::start(&world);
    for _ in 0..2 {
        let before = observe::counters(&host).unwrap();
        let report = world.apply_with(&text, 1, false, testing).unwrap();
        assert_eq!(
            changes(&report),
            ["~ data path: new programs and maps on 6 devices"]
        );
        assert_eq!(
            std::fs::read_dir(paths::pins(&host)).unwrap().count(),
            3,
            "links, record and one map set"
        );
        // Maps of another build are not read by guess.
        assert!(matches!(
            observe::counters(&host),
            Err(HostError::OtherVersion(_))
        ));
        let report = world.apply(&text, 1).unwrap();
        assert_eq!(
            changes(&report),
            ["~ data path: new programs and maps on 6 devices"]
        );
        // Counters were carried there and back.
        let after = observe::counters(&host).unwrap();
        assert!(after.remotes[0].to_remote.packets > before.remotes[0].to_remote.packets);
        assert!(after.ports[0].from_port.packets > before.ports[0].from_port.packets);
    }
    let (sent, answered) = stream.stop();
    assert!(sent > 50 && sent - answered <= 1, "{answered} of {sent}");
}

/// As builds had it whose counters had the address for a key and no number.
#[test]
fn counters_of_another_form_begin_anew() {
    if !can_run("counters_of_another_form") {
        return;
    }
    let other = other_build();
    let world = World::new(2);
    let host = world.host(1);
    let text = world.fabric("vxlan", 4789, "");
    let testing = with_object(&other);
    world.apply_with(&text, 1, false, testing).unwrap();
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 3));
    let pins = std::fs::read_dir(paths::pins(&host)).unwrap();
    let mut folders = pins.map(|entry| entry.unwrap().path());
    let is_set = |path: &Path| path.join("remote_counters").exists();
    let set = folders.find(|path| is_set(path)).unwrap();
    let map = set.join("remote_counters");
    std::fs::remove_file(&map).unwrap();
    let created = Command::new("bpftool")
        .args(["map", "create"])
        .arg(&map)
        .args(["type", "percpu_hash", "key", "16", "value", "72"])
        .args(["entries", "1024", "name", "remote_counters"])
        .status()
        .unwrap();
    assert!(created.success());

    // Of this one nobody knows the members.
    let learned = set.join("learned");
    std::fs::remove_file(&learned).unwrap();
    let created = Command::new("bpftool")
        .args(["map", "create"])
        .arg(&learned)
        .args(["type", "hash", "key", "12", "value", "48"])
        .args(["entries", "64", "name", "learned"])
        .status()
        .unwrap();
    assert!(created.success());

    let report = world.apply(&text, 1).unwrap();
    let told = report
        .notes
        .iter()
        .find(|row| row.note == Some("begins_anew"));
    let told = told.unwrap().to_string();
    assert!(told.contains("learned: they begin empty"), "{told}");
    assert!(!told.contains("connections"), "{told}");
    let counters = observe::counters(&host).unwrap();
    assert_eq!(counters.remotes[0].to_remote, observe::Count::default());
    assert!(counters.ports[0].from_port.packets >= 3, "{counters:?}");
    assert!(world.ping(1, 2, 3));
}

#[test]
fn a_failed_upgrade_is_taken_back() {
    if !can_run("a_failed_upgrade") {
        return;
    }
    let other = other_build();
    let world = World::new(2);
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 1).unwrap();
    world.apply(&text, 2).unwrap();
    assert!(world.ping(1, 2, 3));
    let stream = Stream::start(&world);
    let before = snapshot(&world, 1);
    let mut failures = 0;
    // All of them fail in `rollback.rs`, without traffic.
    for fail_at in (0..).step_by(4) {
        let testing = Testing {
            fail_at: Some(fail_at),
            ..with_object(&other)
        };
        match world.apply_with(&text, 1, false, testing) {
            Ok(_) => break,
            Err(HostError::Injected(_)) => assert_same(
                &before,
                &snapshot(&world, 1),
                &format!("operation {fail_at}"),
            ),
            Err(other) => panic!("operation {fail_at}: {other}"),
        }
        failures += 1;
    }
    assert!(failures > 4, "{failures}");
    let (sent, answered) = stream.stop();
    assert!(sent > 50 && sent - answered <= 1, "{answered} of {sent}");
}
