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

/// `count` ports of the other host, with an address each.
fn ports(world: &World, count: usize) -> String {
    let host = world.host(2);
    (0..count).fold(String::new(), |mut text, n| {
        let (a, b, c) = (n >> 16, n >> 8 & 255, n & 255);
        writeln!(
            text,
            "  p{n}: {{ switch: blue, host: {host}, device: p{n}, mac: \"02:01:00:{a:02x}:{b:02x}:{c:02x}\", \
             addresses: [198.19.{b}.{c}] }}"
        )
        .unwrap();
        text
    })
}

#[test]
fn ten_thousand_entries() {
    if !can_run("ten_thousand_entries") {
        return;
    }
    let world = World::new(1);
    let text = world.fabric("vxlan", 4789, &ports(&world, 10_000));
    let tables = world.tables(&text, 1);
    assert_eq!(tables.fdb.len(), 10_002);
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
        10_002
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
