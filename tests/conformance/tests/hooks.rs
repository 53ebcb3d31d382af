//! docs/counters.md lists for each verdict the hooks at which it occurs: those of all cases and attacks, and no others.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use overlane_conformance::case::{cases_folder, load_all, load_attacks};
use overlane_conformance::reference;
use overlane_model::Hook::{self, FromLeg, FromPort, FromUnderlay};
use overlane_model::Verdict;

const MANUAL: &str = include_str!("../../../docs/counters.md");

/// Where packets of cases enter. At the others nothing is decided, or what `from_underlay` decides.
const ENTERED: [Hook; 3] = [FromPort, FromUnderlay, FromLeg];

/// The kernel, or tables that are not complete: no case has these.
const OUT_OF_REACH: [Verdict; 8] = [
    Verdict::Coalesce,
    Verdict::UnknownSwitch,
    Verdict::EncapFailed,
    Verdict::UnknownRemote,
    Verdict::DecapFailed,
    Verdict::NotConfigured,
    Verdict::ConnectionsFull,
    // After 1 024 stations at one port: a test of the reference executor, and random packets.
    Verdict::NeighbourLimit,
];

/// To a port that is just being removed.
const GOING: [(Verdict, Hook); 2] = [(Verdict::NoPort, FromUnderlay), (Verdict::NoPort, FromLeg)];

type Met = BTreeSet<(Verdict, Hook)>;

fn met() -> Met {
    let attacks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attacks");
    let attacks = load_attacks(&attacks).unwrap_or_else(|error| panic!("{error}"));
    let cases = load_all(&cases_folder()).unwrap_or_else(|error| panic!("{error}"));
    let cases = cases
        .iter()
        .chain(attacks.iter().map(|attack| &attack.case));
    let outcomes = cases.flat_map(reference::run);
    outcomes
        .map(|outcome| (outcome.verdict, outcome.hook))
        .collect()
}

fn listed() -> Met {
    let mut listed = Met::new();
    for line in MANUAL.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, number, _, _, hooks, ..] = cells[..] else {
            continue;
        };
        let verdicts = Verdict::ALL.iter();
        let verdict = verdicts.filter(|verdict| number == verdict.number().to_string());
        for hook in Hook::ALL {
            if hooks.split(", ").any(|name| name == format!("`{hook}`")) {
                listed.extend(verdict.clone().map(|verdict| (*verdict, hook)));
            }
        }
    }
    listed
}

#[test]
fn the_document_lists_the_hooks_of_each_verdict() {
    let (met, listed) = (met(), listed());
    let words = |all: &mut dyn Iterator<Item = &(Verdict, Hook)>| -> Vec<String> {
        all.map(|(verdict, hook)| format!("{verdict} at {hook}"))
            .collect()
    };
    assert_eq!(
        words(&mut met.difference(&listed)),
        [""; 0],
        "occur, and docs/counters.md does not list them"
    );
    let is_reachable = |(verdict, hook): &&(Verdict, Hook)| {
        ENTERED.contains(hook)
            && !OUT_OF_REACH.contains(verdict)
            && !GOING.contains(&(*verdict, *hook))
    };
    assert_eq!(
        words(&mut listed.difference(&met).filter(is_reachable)),
        [""; 0],
        "are listed in docs/counters.md, and no case and no attack has them"
    );
}
