//! The reference executor and the eBPF programs decide the same about random packets in random fabrics:
//! verdict, device, bytes, tag, every counter, the log, what is learned, and every connection. Each kind of difference is shown once, as a
//! case made small.
//!
//! The packets are chosen by the commit, so that each commit tries others and a red run can be repeated.
//! `OVERLANE_SEED` chooses others, `OVERLANE_PACKETS` how many.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::process::Command;

use overlane_conformance::differential::{self, Met, shrink};
use overlane_conformance::generate::{FabricSpec, World, sequence};
use overlane_conformance::random::Random;
use overlane_conformance::say;
use overlane_conformance::test_runner::{TestRunner, obstacle};
use overlane_model::Verdict;

const SEQUENCES: usize = 8;
const PACKETS: usize = 40;

/// So many kinds of difference are shown before the test ends.
const KINDS: usize = 8;

/// With fewer packets it is chance which verdicts they meet.
const ENOUGH: usize = 50_000;
/// Of connections and of translations: opening, established, closing, closed.
const STATES: usize = 8;

/// What no packet of a test run can meet, and why.
const OUT_OF_REACH: [(Verdict, &str); 9] = [
    (Verdict::UnknownSwitch, "tables of a fabric are complete"),
    (Verdict::UnknownRemote, "tables of a fabric are complete"),
    (Verdict::NotConfigured, "the tables are filled"),
    (Verdict::EncapFailed, "the kernel refused"),
    (Verdict::DecapFailed, "the kernel refused"),
    (Verdict::OuterDevice, "a device of its own"),
    (Verdict::Probe, "the copy comes out of the segmenter"),
    (Verdict::NeighbourLimit, "a port has room for a thousand"),
    (
        Verdict::Coalesce,
        "a stream takes many packets, and no time",
    ),
];

fn setting(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}

/// The seed, and where it comes from.
fn seed() -> (u64, String) {
    if std::env::var_os("OVERLANE_SEED").is_some() {
        return (setting("OVERLANE_SEED", 0) as u64, "OVERLANE_SEED".into());
    }
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"])
        .output();
    let commit = git
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let start = commit.as_deref().and_then(|commit| commit.get(..8));
    match start.and_then(|start| Some((u32::from_str_radix(start, 16).ok()?, start))) {
        Some((number, start)) => (number.into(), format!("of commit {start}")),
        None => (1, "fixed: git names no commit here".into()),
    }
}

#[test]
fn both_executors_decide_the_same_about_random_packets() {
    let (seed, origin) = seed();
    say(&format!("random packets: OVERLANE_SEED={seed} ({origin})"));
    let wanted = setting("OVERLANE_PACKETS", 100_000);
    let mut kernel = match obstacle() {
        Some(obstacle) => {
            say(&format!(
                "SKIPPED both_executors_decide_the_same_about_random_packets on eBPF: {obstacle}"
            ));
            None
        }
        None => {
            let loaded = TestRunner::load();
            Some(loaded.unwrap_or_else(|error| panic!("{error}: {error:#?}")))
        }
    };
    let mut met = Met::default();
    let (mut kinds, mut failures) = (BTreeSet::new(), Vec::new());
    let (mut packets, mut fabrics) = (0, 0);
    // What is rare may be missing by then: a few more packets meet it.
    while packets < wanted || (packets >= ENOUGH && packets < 4 * wanted && !met_all(&met)) {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(fabrics));
        let spec = FabricSpec::random(&mut random);
        fabrics += 1;
        let tables = differential::tables(&spec).unwrap_or_else(|error| {
            let yaml = spec.yaml();
            panic!("seed {seed}, fabric {fabrics} is refused:\n{error}\n{yaml}")
        });
        let world = World {
            spec: &spec,
            tables: &tables,
        };
        for _ in 0..SEQUENCES {
            let arrivals = sequence(&mut random, &world, PACKETS);
            packets += arrivals.len();
            let difference =
                differential::run(kernel.as_mut(), &spec, &arrivals, &mut met).unwrap();
            if let (Some(difference), Some(kernel)) = (difference, kernel.as_mut())
                && kinds.insert(difference.kind())
            {
                let first = difference.found.join("\n");
                assert!(
                    std::env::var_os("OVERLANE_OBJECT").is_none(),
                    "seed {seed}, fabric {fabrics}: the executors differ, as is no wonder with OVERLANE_OBJECT\n{first}"
                );
                let small = shrink(kernel, difference).unwrap();
                failures.push(format!(
                    "seed {seed}, fabric {fabrics}: the executors differ\n{first}\n\nmade small:\n{}\n\n{}",
                    small.found.join("\n"),
                    small.case()
                ));
            }
        }
        if failures.len() >= KINDS {
            break;
        }
    }
    assert!(
        failures.is_empty(),
        "{} kinds of difference\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
    let on = if kernel.is_some() {
        "reference and eBPF agree"
    } else {
        "reference only"
    };
    statistics(
        &format!("{packets} packets in {fabrics} fabrics (seed {seed}), {on}"),
        packets,
        &met,
    );
}

/// How often each verdict was met; none may be missed that can be met.
fn statistics(words: &str, packets: usize, met: &Met) {
    let counts: Vec<_> = met
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{verdict} {count}"))
        .collect();
    say(&format!("{words}: {}", counts.join(", ")));
    let connections = met
        .connections
        .iter()
        .map(|((is_translation, state), count)| {
            let kind = if *is_translation {
                "translations"
            } else {
                "connections"
            };
            format!("{kind} {state} {count}")
        });
    let connections: Vec<_> = connections.collect();
    say(&format!("left behind: {}", connections.join(", ")));
    if packets >= ENOUGH {
        let missed = missed(met);
        assert!(missed.is_empty(), "no packet met {missed:?}");
        assert_eq!(met.connections.len(), STATES, "each state of both kinds");
    }
}

fn met_all(met: &Met) -> bool {
    missed(met).is_empty() && met.connections.len() == STATES
}

/// The verdicts that can be met, and were not.
fn missed(met: &Met) -> Vec<Verdict> {
    let all = Verdict::ALL.iter().copied();
    let reachable = all.filter(|verdict| !OUT_OF_REACH.iter().any(|(out, _)| out == verdict));
    reachable
        .filter(|verdict| !met.verdicts.contains_key(verdict))
        .collect()
}
