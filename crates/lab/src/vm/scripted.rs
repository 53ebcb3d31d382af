//! Migrations between two monitors that play QEMU: what is asked of them, and when. They need root, as each session does.

use super::fake::Fake;
use super::lines::Lines;
use super::qmp::Qmp;
use super::tests::{options, session};
use super::*;
use crate::session::process::Process;
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

/// One side, and what it was asked. The guest's port is open as long as the second stream.
struct Side {
    machine: Machine,
    fake: Fake,
    _guest: UnixStream,
}

fn side(
    session: &Session,
    name: &str,
    answer: impl FnMut(&str, &Value) -> Vec<Value> + Send + 'static,
) -> Side {
    let (fake, stream) = Fake::monitor(answer);
    let qmp = Qmp::greet(stream, &session.interrupts).unwrap();
    let (ours, guest) = UnixStream::pair().unwrap();
    let mut command = Command::new("sleep");
    command.arg("600");
    let process = Process::start(command, &[]).unwrap();
    let files = session.dir().to_owned();
    Side {
        machine: Machine::of(
            name.to_owned(),
            files,
            process,
            qmp,
            Lines::new(ours).unwrap(),
        ),
        fake,
        _guest: guest,
    }
}

fn ok() -> Vec<Value> {
    vec![json!({"return": {}})]
}

/// A source that says one after another what it is told to; the last one again and again.
fn source(session: &Session, says: Vec<Value>, status: &'static str) -> Side {
    let mut says = says.into_iter().peekable();
    let mut last = Value::Null;
    side(session, "vm1 on host1", move |command, _| match command {
        "query-migrate" => {
            last = says.next().unwrap_or_else(|| last.clone());
            vec![json!({"return": last})]
        }
        "query-status" => vec![json!({"return": {"status": status}})],
        "migrate-continue" => vec![
            json!({"event": "MIGRATION", "data": {"status": "device"}}),
            json!({"return": {}}),
        ],
        _ => ok(),
    })
}

/// A destination that listens at a port, and then has this status.
fn destination(session: &Session, status: Vec<&'static str>) -> Side {
    let mut status = status.into_iter();
    let mut last = "";
    side(session, "vm1 on host2", move |command, _| match command {
        "query-migrate" => vec![json!({"return": {"socket-address": [
            {"type": "inet", "host": "198.18.1.2", "port": "4711"}]}})],
        "query-status" => {
            last = status.next().unwrap_or(last);
            if last == "gone" {
                return Vec::new();
            }
            vec![
                json!({"event": "RESUME"}),
                json!({"return": {"status": last}}),
            ]
        }
        _ => ok(),
    })
}

fn ram(rounds: u64) -> Value {
    json!({"dirty-sync-count": rounds, "transferred": 9 << 20, "remaining": 5 << 20, "page-size": 4096,
        "dirty-pages-rate": 512, "multifd-bytes": 0, "normal": 3, "duplicate": 4, "mbps": 1.5, "postcopy-requests": 0})
}

fn active(rounds: u64) -> Value {
    json!({"status": "active", "ram": ram(rounds)})
}

fn count(side: &Side, command: &str) -> usize {
    let commands = side.fake.commands();
    commands.iter().filter(|asked| *asked == command).count()
}

#[test]
fn nothing_is_switched_before_it_is_asked_and_figures_are_waited_for() {
    let Some(session) = session() else { return };
    let says = vec![
        active(1),
        json!({"status": "pre-switchover", "ram": ram(2)}),
        json!({"status": "pre-switchover", "ram": ram(2)}),
        json!({"status": "device", "ram": ram(2)}),
        json!({"status": "completed", "total-time": 0, "downtime": 0, "ram": ram(3)}),
        json!({"status": "completed", "total-time": 700, "downtime": 40, "setup-time": 2, "ram": ram(3)}),
    ];
    let one = source(&session, says, "postmigrate");
    let two = destination(&session, vec!["inmigrate", "inmigrate", "running"]);
    let mut migration = Migration::begin(&session, &one.machine, &two.machine, options()).unwrap();
    let error = migration.switch().unwrap_err().to_string();
    assert!(error.contains("not ready"), "{error}");
    assert!(matches!(migration.poll().unwrap(), Progress::Running));
    let sample = migration.last();
    assert_eq!((sample.rounds, sample.remaining_bytes), (1, 5 << 20));
    assert_eq!(sample.dirty_bytes_per_second, 2 << 20);
    assert_eq!(
        sample.to_string(),
        "round 1, 5 MiB left, the guest writes 2 MiB/s"
    );
    assert!(matches!(migration.poll().unwrap(), Progress::ReadyToSwitch));
    assert!(matches!(migration.poll().unwrap(), Progress::ReadyToSwitch));
    assert_eq!(count(&one, "migrate-continue"), 0);
    migration.switch().unwrap();
    for _ in 0..3 {
        // The device's state; then done without figures; then with, but the destination does not run yet.
        assert!(matches!(migration.poll().unwrap(), Progress::Running));
    }
    let Progress::Completed(figures) = migration.poll().unwrap() else {
        panic!()
    };
    assert_eq!(
        (figures.total_ms, figures.downtime_ms, figures.setup_ms),
        (700, 40, 2)
    );
    assert_eq!(figures.rounds, 3);
    assert!(
        figures.times.resumed > figures.times.switched,
        "{figures:?}"
    );
    assert_eq!(count(&one, "migrate-continue"), 1);
    let before = one.fake.commands().len();
    assert!(matches!(migration.poll().unwrap(), Progress::Completed(_)));
    assert_eq!(
        one.fake.commands().len(),
        before,
        "what is done is asked no more"
    );
    let asked = two.fake.commands();
    let settings = [
        "qmp_capabilities",
        "migrate-set-capabilities",
        "migrate-set-parameters",
        "migrate-incoming",
    ];
    assert_eq!(asked[..4], settings);
}

#[test]
fn the_way_back_is_always_on() {
    let Some(session) = session() else { return };
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&told);
    let one = side(&session, "vm1 on host1", move |command, arguments| {
        note.lock()
            .unwrap()
            .push((command.to_owned(), arguments.clone()));
        ok()
    });
    let two = destination(&session, vec![]);
    let on_links = Options {
        addresses: vec!["198.18.1.2".parse().unwrap()],
        channels: 3,
        ..options()
    };
    Migration::begin(&session, &one.machine, &two.machine, on_links).unwrap();
    let told = told.lock().unwrap();
    let on = |name: &str| {
        let all = told[0].1["capabilities"].as_array().unwrap();
        let found = all.iter().find(|each| each["capability"] == name);
        found.unwrap()["state"].as_bool().unwrap()
    };
    assert_eq!(told[0].0, "migrate-set-capabilities");
    assert!(on("return-path") && on("events") && on("pause-before-switchover") && on("multifd"));
    assert!(!on("postcopy-ram"));
    assert_eq!(told[1].1["multifd-channels"], 3);
    assert_eq!(told[1].1["downtime-limit"], 300);
    assert_eq!(told[2].1["uri"], "tcp:198.18.1.2:4711");
}

#[test]
fn what_does_not_converge_is_given_up_once() {
    let Some(session) = session() else { return };
    let cancelled = json!({"status": "cancelled", "ram": ram(8)});
    let one = source(
        &session,
        vec![active(7), active(8), active(8), cancelled],
        "running",
    );
    let two = destination(&session, vec![]);
    let short = Options {
        limit: Duration::ZERO,
        ..options()
    };
    let mut migration = Migration::begin(&session, &one.machine, &two.machine, short).unwrap();
    for _ in 0..3 {
        assert!(matches!(migration.poll().unwrap(), Progress::Running));
    }
    let Progress::Failed(stopped) = migration.poll().unwrap() else {
        panic!()
    };
    assert_eq!(stopped.guest, Guest::AtSource);
    assert_eq!(
        stopped.reason,
        "it did not converge within 0 s (round 8, 5 MiB left, the guest writes 2 MiB/s)"
    );
    assert_eq!(count(&one, "migrate_cancel"), 1);
}

#[test]
fn a_destination_that_is_gone_after_the_switch_is_a_lost_guest() {
    let Some(session) = session() else { return };
    let done = json!({"status": "completed", "total-time": 700, "downtime": 40, "ram": ram(3)});
    let one = source(&session, vec![done], "postmigrate");
    let two = destination(&session, vec!["gone"]);
    let mut migration = Migration::begin(&session, &one.machine, &two.machine, options()).unwrap();
    let Progress::Failed(stopped) = migration.poll().unwrap() else {
        panic!()
    };
    assert_eq!(stopped.guest, Guest::Lost);
    assert!(
        stopped.reason.contains("vm1 on host2"),
        "{}",
        stopped.reason
    );
}

#[test]
fn a_source_that_stopped_for_the_switch_is_had_go_on() {
    let Some(session) = session() else { return };
    let mut runs = false;
    let one = side(&session, "vm1 on host1", move |command, _| match command {
        "query-migrate" => vec![json!({"return": {"status": "failed", "error-desc": "no way"}})],
        "query-status" => {
            vec![json!({"return": {"status": if runs { "running" } else { "postmigrate" }}})]
        }
        "cont" => {
            runs = true;
            ok()
        }
        _ => ok(),
    });
    let two = destination(&session, vec![]);
    let mut migration = Migration::begin(&session, &one.machine, &two.machine, options()).unwrap();
    let Progress::Failed(stopped) = migration.poll().unwrap() else {
        panic!()
    };
    assert_eq!(stopped.guest, Guest::AtSource);
    assert!(
        stopped.reason.starts_with("no way (round 0"),
        "{}",
        stopped.reason
    );
    assert_eq!(count(&one, "cont"), 1);
}

#[test]
fn what_qemu_cannot_is_refused_before() {
    let Some(session) = session() else { return };
    let (one, two) = (
        source(&session, vec![], "running"),
        destination(&session, vec![]),
    );
    let address = "198.18.1.2".parse().unwrap();
    for (addresses, words) in [(vec![address; 2], "post-copy"), (vec![], "address")] {
        let wanted = Options {
            addresses,
            postcopy: true,
            ..options()
        };
        let refused = Migration::begin(&session, &one.machine, &two.machine, wanted);
        let error = refused.err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(two.fake.commands(), ["qmp_capabilities"]);
}
