//! Large fabrics: ten thousand FDB entries are applied in about a second, and what does not fit is refused
//! before anything is changed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fmt::Write;
use std::time::Instant;

use common::{World, assert_same, can_run, snapshot};
use overlane_ebpf::EbpfError;
use overlane_host::HostError;
use overlane_model::sizes::{Size, TooMany};

/// Switches beside the first one, with a thousand ports of the other host each.
const SWITCHES: usize = 10;

/// The ports, with an address each, and a router that joins all switches.
fn many(world: &World) -> String {
    let host = world.host(2);
    let mut extra = String::new();
    for n in 0..1000 * SWITCHES {
        let (switch, b, c) = (n / 1000, n >> 8 & 255, n & 255);
        writeln!(
            extra,
            "  p{n}: {{ switch: s{switch}, host: {host}, device: p{n}, mac: \"02:01:00:00:{b:02x}:{c:02x}\", \
             addresses: [\"2001:2:1:{switch:x}::1:{n:x}\"] }}"
        )
        .unwrap();
    }
    extra.push_str("routers:\n  core:\n    interfaces:\n      blue: [\"2001:2:2::fe/64\"]\n");
    for switch in 0..SWITCHES {
        writeln!(extra, "      s{switch}: [\"2001:2:1:{switch:x}::fe/64\"]").unwrap();
    }
    let switches = (0..SWITCHES).fold("switches:\n".to_owned(), |mut text, switch| {
        writeln!(text, "  s{switch}: {{ vni: {} }}", 7000 + switch).unwrap();
        text
    });
    let text = world.fabric("vxlan", 4789, &extra);
    text.replacen("switches:\n", &switches, 1)
}

#[test]
fn ten_thousand_entries() {
    if !can_run("ten_thousand_entries") {
        return;
    }
    let world = World::new(1);
    let text = many(&world);
    let tables = world.tables(&text, 1);
    // The guests of the world, and the router on each switch.
    let entries = 1000 * SWITCHES + 2 + 1 + SWITCHES;
    assert_eq!(tables.fdb.len(), entries);
    for what in ["first", "second"] {
        let started = Instant::now();
        let report = world.apply(&text, 1).unwrap();
        eprintln!(
            "{what}: {:?}, {} changes",
            started.elapsed(),
            report.changes.len()
        );
        assert_eq!(report.changes.is_empty(), what == "second");
    }
    assert_eq!(
        overlane_host::observe::fdb(&world.host(1))
            .unwrap()
            .entries
            .len(),
        entries
    );
}

#[test]
fn what_does_not_fit_is_refused_before_anything_changes() {
    if !can_run("what_does_not_fit") {
        return;
    }
    let world = World::new(1);
    world.apply(&world.fabric("vxlan", 4789, ""), 1).unwrap();
    let before = snapshot(&world, 1);
    let mut tables = world.tables(&world.fabric("vxlan", 4789, ""), 1);
    let entry = tables.fdb[0].clone();
    tables.fdb = vec![entry; 65537];
    let netns = world.netns(1);
    let request = overlane_host::ApplyRequest {
        netns: Some(&netns),
        ..overlane_host::ApplyRequest::new(&tables)
    };
    let error = overlane_host::apply(&request).unwrap_err();
    assert!(matches!(
        error,
        HostError::Ebpf(EbpfError::TooMany(TooMany {
            size: Size::Fdb,
            count: 65537,
        }))
    ));
    assert!(error.help().unwrap().contains("shrink the fabric"));
    assert_same(&before, &snapshot(&world, 1), "refused");
}
