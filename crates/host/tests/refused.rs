//! The kernel's verifier refuses a program: the host stays as it is, and the error says all that a report needs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;

use common::{World, assert_same, build_with, can_run, snapshot, with_object};
use overlane_host::{HostError, paths};

/// A mistake that every verifier finds, and at once: it writes what only the kernel may write.
fn wrong_build() -> Vec<u8> {
    build_with(
        "w = begin(ctx, hook);",
        "ctx->len = 0; w = begin(ctx, hook);",
    )
}

#[test]
fn a_refused_program_changes_nothing_and_leaves_the_verifiers_log() {
    if !can_run("a_refused_program") {
        return;
    }
    let wrong = wrong_build();
    let testing = with_object(&wrong);
    let world = World::new(2);
    let text = world.fabric("vxlan", 4789, "");
    let host = world.host(1);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();

    // On an empty host, and on one that carries traffic.
    for is_applied in [false, true] {
        if is_applied {
            world.apply(&text, 1).unwrap();
            world.apply(&text, 2).unwrap();
        }
        let before = snapshot(&world, 1);
        let error = world.apply_with(&text, 1, false, testing).unwrap_err();
        assert_same(&before, &snapshot(&world, 1), "a refused program");
        assert!(matches!(error, HostError::Refused { .. }), "{error:?}");

        let said = error.to_string();
        let log = paths::verifier_log(&host);
        assert!(!said.contains('\n'), "{said}");
        for part in [
            release.trim(),
            " refused program data_path",
            &log.display().to_string(),
        ] {
            assert!(said.contains(part), "no {part}: {said}");
        }
        assert!(error.help().unwrap().contains("mistake of Overlane"));
        let log = fs::read_to_string(log).unwrap();
        // The reason is in both.
        let (_, reason) = said.split_once(": ").unwrap();
        let (reason, _) = reason.split_once(" (verifier's log").unwrap();
        assert!(log.lines().any(|line| line.trim() == reason), "{said}");
        assert!(log.contains("processed "), "{log}");
    }
    assert!(world.ping(1, 2, 3));

    // What loads afterwards makes the log meaningless.
    let other = build_with(
        "if (len > sizeof(o->bytes))",
        "if (len >= sizeof(o->bytes) + 1)",
    );
    let testing = with_object(&other);
    world.apply_with(&text, 1, false, testing).unwrap();
    assert!(!paths::verifier_log(&host).exists());
}

/// A full table of neighbours costs the host nothing but the kernel's care for that next hop.
#[test]
fn a_next_hop_that_the_kernel_has_no_room_for_is_told_and_all_else_is_applied() {
    if !can_run("a_next_hop_without_room") {
        return;
    }
    let world = World::new(2);
    let text = world.fabric("vxlan", 4789, "");
    world.apply(&text, 2).unwrap();
    let tables = world.tables(&text, 1);
    let thing = format!("managed {} {}", tables.uplink, tables.remotes[0].addr);
    let testing = overlane_host::Testing {
        refused: Some(&thing),
        ..Default::default()
    };
    for round in ["first", "again"] {
        let report = world.apply_with(&text, 1, false, testing).unwrap();
        let told = report.notes.iter().find(|row| row.note == Some("not_kept"));
        let told = told
            .unwrap_or_else(|| panic!("{round}: {:?}", report.notes))
            .to_string();
        for part in [
            &tables.remotes[0].addr.to_string(),
            "net.ipv4.neigh.default.gc_thresh3",
        ] {
            assert!(told.contains(part), "{told}");
        }
        assert!(world.ping(1, 2, 3), "{round}");
    }
    let status = overlane_host::status(&world.host(1), None).unwrap();
    assert!(format!("{status:?}").contains("gc_thresh3"), "{status:?}");
    // With room again, the next apply makes it, and says nothing more.
    let report = world.apply(&text, 1).unwrap();
    assert!(report.notes.iter().all(|row| row.note != Some("not_kept")));
    assert!(
        report
            .changes
            .iter()
            .any(|row| row.to_string().contains("next hop"))
    );
}
