//! A port whose device is made in another network namespace: `apply` takes it in, and puts it back when it fails.
//!
//! ```text
//!   guest1: late ── late0                 both ends are the guest's
//!   guest1: late ── late0 [host1]         after apply
//! ```

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::process::{Child, Command};

use common::{World, assert_same, build_without_stages, can_run, changes, snapshot, with_object};
use overlane_host::{
    Absence, ApplyRequest, HostError, NotElsewhere, Report, Testing, apply, observe, paths,
};
use overlane_model::Netns as Declared;
use overlane_net::netns::{self, Netns};
use overlane_net::nftables::{Family, Nftables};
use overlane_net::{Link, Netlink};

fn fabric(world: &World, netns: &str) -> String {
    let host = world.host(1);
    let more = format!(
        "  late: {{ switch: blue, host: {host}, device: late0, netns: {netns}, \
         mac: \"02:00:00:00:00:21\", addresses: [198.18.100.33], key: 33 }}\n"
    );
    world.fabric("vxlan", 4789, &more)
}

fn guest(world: &World) -> Netlink {
    Netlink::in_netns(&Netns::open(&world.guest(1)).unwrap()).unwrap()
}

/// Both ends, as a runtime leaves them. The first time a device of the host has the same index.
fn plug_in(world: &World) -> Link {
    let guest = guest(world);
    guest.add_veth("late", "late0", None).unwrap();
    guest.set_up("late0").unwrap();
    guest.set_up("late").unwrap();
    guest.link("late0").unwrap()
}

/// Counters go on, and the kernel gives a device its queueing discipline when it comes up.
fn without_stats(link: Link) -> Link {
    Link {
        stats: Default::default(),
        qdisc: String::new(),
        ..link
    }
}

fn names(netlink: &Netlink) -> String {
    let links = netlink.links().unwrap();
    let names: Vec<String> = links.into_iter().map(|link| link.name).collect();
    names.join(" ")
}

/// Names of the devices that the guard closes.
fn guarded(world: &World) -> Vec<String> {
    let table = paths::guard_table(&world.host(1));
    let read = || Nftables::new().unwrap().read(Family::Inet, &table).unwrap();
    let table = world.ns(1).run(read).unwrap();
    let devices = table.map(|table| table.devices).unwrap_or_default();
    devices.into_iter().collect()
}

fn has_link(world: &World) -> bool {
    let link = paths::link(overlane_ebpf::Program::FromPort, "late0");
    paths::links(&world.host(1)).join(link).exists()
}

fn request_alone(world: &World, text: &str, object: &[u8]) -> Result<Report, HostError> {
    let (tables, netns) = (world.tables(text, 1), world.netns(1));
    apply(&ApplyRequest {
        netns: Some(&netns),
        each_alone: true,
        testing: with_object(object),
        ..ApplyRequest::new(&tables)
    })
}

/// A process in the guest's namespace, while this lives.
struct Process(Child);

impl Process {
    fn of(world: &World) -> Self {
        let guest = Netns::open(&world.guest(1)).unwrap();
        Self(guest.command("sleep").arg("1000").spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_device_comes_by_each_form_of_its_namespace() {
    if !can_run("each_form") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    let process = Process::of(&world);
    let id = process.0.id();
    let web1 = world.netlink(1).link("web1").unwrap();
    let forms = [
        (world.guest(1), world.guest(1)),
        (format!("/proc/{id}/ns/net"), format!("/proc/{id}/ns/net")),
        (format!("{id}"), format!("of process {id}")),
    ];
    for (round, (netns, said)) in forms.into_iter().enumerate() {
        let text = fabric(&world, &netns);
        let there = plug_in(&world);
        let apply = |dry_run| {
            let report = world.apply_with(&text, 1, dry_run, with_object(&object));
            report.unwrap()
        };
        let dry = apply(true);
        assert!(names(&guest(&world)).contains("late0"));
        let done = apply(false);
        assert_eq!(changes(&dry), changes(&done));
        let row = format!("+ device late0 (taken from network namespace {said})");
        assert!(changes(&done).contains(&row), "{:?}", changes(&done));
        assert_eq!((&dry.missing, &done.missing), (&vec![], &vec![]));
        assert_eq!(
            (changes(&apply(false)), apply(true).notes),
            (vec![], vec![])
        );
        let here = world.netlink(1).link("late0").unwrap();
        assert_eq!((here.up, here.mac), (true, there.mac));
        assert!(here.peer_in_other_netns && has_link(&world));
        // Its own index, where the host has none.
        match round {
            0 => assert!(there.index == web1.index && here.index >= 1 << 29),
            _ => assert_eq!(here.index, there.index),
        }
        assert!(!names(&guest(&world)).contains("late0"));

        // `remove` leaves it where it is.
        world.remove(1);
        assert_eq!(world.netlink(1).link("late0").unwrap().index, here.index);
        world.netlink(1).delete("late0").unwrap();
    }
}

#[test]
fn a_failure_at_any_operation_puts_the_device_back() {
    if !can_run("puts_the_device_back") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    let text = fabric(&world, &world.guest(1));
    for is_up in [true, false] {
        plug_in(&world);
        if !is_up {
            guest(&world).set_down("late0").unwrap();
        }
        let there = || without_stats(guest(&world).link("late0").unwrap());
        let (before, host) = (there(), snapshot(&world, 1));
        // The second time not everywhere: it takes long.
        for fail_at in (0..).step_by(if is_up { 1 } else { 7 }) {
            let testing = Testing {
                fail_at: Some(fail_at),
                ..with_object(&object)
            };
            match world.apply_with(&text, 1, false, testing) {
                Ok(_) => {
                    assert!(fail_at > 20, "{fail_at}");
                    break;
                }
                Err(HostError::Injected(at)) => assert_eq!(at, fail_at),
                Err(other) => panic!("operation {fail_at}: {other}"),
            }
            // The carrier comes a moment later.
            let (after, carrier) = (there(), before.carrier);
            assert_eq!(Link { carrier, ..after }, before, "operation {fail_at}");
            assert_same(&host, &snapshot(&world, 1), &format!("operation {fail_at}"));
        }
        assert!(world.netlink(1).link("late0").unwrap().up);
        world.remove(1);
        world.netlink(1).delete("late0").unwrap();
    }
}

const DIE: &str = "OVERLANE_TEST_TAKEN_IN";

/// Wherever `apply` dies: a device that has come is closed, and up only with its program.
#[test]
fn the_guard_is_there_before_the_device() {
    if !can_run("the_guard_is_there_before") {
        return;
    }
    if let Ok(arguments) = std::env::var(DIE) {
        die_in_the_middle(&arguments);
    }
    let world = World::new(1);
    let folder = tempfile::tempdir().unwrap();
    let (file, object) = (folder.path().join("f.yaml"), folder.path().join("tc.o"));
    std::fs::write(&file, fabric(&world, &world.guest(1))).unwrap();
    std::fs::write(&object, build_without_stages()).unwrap();
    let (mut closed_before, mut down) = (0, 0);
    for at in 0.. {
        plug_in(&world);
        let (file, object) = (file.display(), object.display());
        let arguments = format!("{file} {object} {} {} {at}", world.host(1), world.netns(1));
        let died = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_guard_is_there_before_the_device"])
            .env(DIE, arguments)
            .output()
            .unwrap();
        let is_here = names(&world.netlink(1)).contains("late0");
        let is_guarded = guarded(&world).contains(&"late0".to_owned());
        assert!(!is_here || is_guarded, "operation {at}");
        closed_before += u32::from(is_guarded && !is_here);
        if let Ok(link) = world.netlink(1).link("late0") {
            assert!(!link.up || has_link(&world), "operation {at}");
            down += u32::from(!link.up && !has_link(&world));
        }
        if died.status.code().is_some() {
            assert!(at > 20 && is_here, "{at}: {died:?}");
            break;
        }
        world.remove(1);
        let _ = world.netlink(1).delete("late0");
        let _ = guest(&world).delete("late0");
    }
    // Both were seen.
    assert!(closed_before > 0 && down > 0, "{closed_before} {down}");
}

/// Never returns: the process kills itself before operation number `at`.
fn die_in_the_middle(arguments: &str) -> ! {
    let [fabric, object, host, netns, at] = arguments.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{arguments}")
    };
    let tables = overlane_model::load(fabric).unwrap().compile(host).unwrap();
    let object = std::fs::read(object).unwrap();
    let testing = Testing {
        kill_at: Some(at.parse().unwrap()),
        ..with_object(&object)
    };
    let request = ApplyRequest {
        netns: Some(netns),
        testing,
        ..ApplyRequest::new(&tables)
    };
    apply(&request).unwrap();
    std::process::exit(0);
}

#[test]
fn who_is_not_there_is_missing_and_the_words_say_where() {
    if !can_run("words_say_where") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    let (guest, host) = (world.guest(1), world.netns(1));
    let not_elsewhere = |netns: &str, why| {
        let netns = Declared::new(netns).unwrap();
        Some(NotElsewhere { netns, why })
    };
    let none = format!("no-{guest}");
    for (netns, elsewhere, said) in [
        (
            guest.as_str(),
            not_elsewhere(&guest, Absence::NoDevice),
            format!("; network namespace {guest} has none either"),
        ),
        (
            none.as_str(),
            not_elsewhere(&none, Absence::NoNamespace),
            format!("; there is no network namespace {none}"),
        ),
        (
            "/etc/passwd",
            not_elsewhere("/etc/passwd", Absence::NotANamespace),
            "; /etc/passwd is not a network namespace".to_owned(),
        ),
        // That of the host: as if it were not said.
        (host.as_str(), None, String::new()),
    ] {
        let text = fabric(&world, netns);
        let report = world.apply_with(&text, 1, false, with_object(&object));
        let report = report.unwrap();
        assert_eq!(report.missing.len(), 1);
        assert_eq!(report.missing[0].elsewhere, elsewhere);
        let words = format!("late0 (port late{said})");
        assert_eq!(report.missing[0].to_string(), words);
        assert_eq!(guarded(&world), ["late0", "web1"]);
    }
}

/// A bridge cannot leave its namespace.
#[test]
fn what_cannot_come_stays_and_stands_alone() {
    if !can_run("stands_alone") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    let (text, netns) = (fabric(&world, &world.guest(1)), world.guest(1));
    guest(&world).add_bridge("late0").unwrap();
    let before = snapshot(&world, 1);
    let error = world.apply_with(&text, 1, false, with_object(&object));
    let error = error.unwrap_err();
    let said = format!(
        "cannot take device late0 of port late from network namespace {netns}: cannot move the device"
    );
    assert!(error.to_string().starts_with(&said), "{error}");
    assert!(error.help().is_some());
    assert_same(&before, &snapshot(&world, 1), "all or nothing");

    let report = request_alone(&world, &text, &object).unwrap();
    let notes: Vec<String> = report.notes.iter().map(ToString::to_string).collect();
    assert!(notes[0].starts_with("port late: cannot take"), "{notes:?}");
    assert_eq!(report.missing[0].by, ["late"]);
    assert!(changes(&report).contains(&"+ port web1 (device web1, key 7)".to_owned()));
    assert!(names(&guest(&world)).contains("late0"));
}

#[test]
fn another_namespace_in_the_file_changes_nothing_for_a_device_that_is_there() {
    if !can_run("changes_nothing") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    plug_in(&world);
    let text = fabric(&world, &world.guest(1));
    let apply = |text: &str| {
        let report = world.apply_with(text, 1, false, with_object(&object));
        changes(&report.unwrap())
    };
    apply(&text);
    // Links with their programs, entries, devices: all but the state file.
    let seen = || {
        let text = snapshot(&world, 1);
        let lines = text.lines().filter(|line| !line.contains("netns_id"));
        let lines = lines.filter(|line| !line.trim_start().starts_with(['"', '{', '}', '[', ']']));
        lines.collect::<Vec<_>>().join("\n")
    };
    let before = seen();
    let host = world.netns(1);
    let row = |old: &str, new: &str| {
        vec![format!(
            "~ port late (device late0, key 33): netns {old} → {new}"
        )]
    };
    assert_eq!(apply(&fabric(&world, "4711")), row(&world.guest(1), "4711"));
    let plain = text.replace(&format!("netns: {}, ", world.guest(1)), "");
    assert_eq!(apply(&plain), row("4711", "none"));
    assert_eq!(apply(&fabric(&world, &host)), row("none", &host));
    assert_same(&before, &seen(), "another namespace");
    assert_eq!(apply(&fabric(&world, &host)), Vec::<String>::new());
}

#[test]
fn nothing_of_the_namespace_is_kept() {
    if !can_run("nothing_is_kept") {
        return;
    }
    let object = build_without_stages();
    let world = World::new(1);
    plug_in(&world);
    let text = fabric(&world, &world.guest(1));
    let report = world.apply_with(&text, 1, false, with_object(&object));
    report.unwrap();
    assert!(observe::ports(&world.host(1)).is_ok());
    // The guest's end goes with its namespace, and with it that of the host.
    netns::delete(&world.guest(1)).unwrap();
    let netlink = world.netlink(1);
    let is_gone = || !names(&netlink).contains("late0");
    let mut looks = (0..1000).map(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
    assert!(looks.any(|()| is_gone()), "{}", names(&netlink));
}
