//! Every attack of tests/attacks on both executors: none may get through.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use overlane_conformance::case::{Attack, load_attacks};
use overlane_conformance::compare::failure;
use overlane_conformance::reference;
use overlane_conformance::say;
use overlane_conformance::test_runner::{TestRunner, can_run, obstacle};
use overlane_pipeline::Outcome;

/// So many there are at least; counter-examples do not count.
const ATTACKS: usize = 150;

fn attacks() -> Vec<Attack> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attacks");
    load_attacks(&folder).unwrap_or_else(|error| panic!("{error}"))
}

/// First those that got through, each with where it went; then all that is otherwise.
fn report(failures: &[(Attack, usize, Vec<String>, Outcome)]) {
    let mut lines = Vec::new();
    for (attack, index, _, outcome) in failures {
        let went = attack.got_through(*index, outcome);
        if !went.is_empty() {
            lines.push(format!(
                "GOT THROUGH to {}: {} ({}:{})",
                went.join(", "),
                attack.case.name,
                attack.case.path.display(),
                attack.case.steps[*index].line,
            ));
        }
    }
    let all = failures.iter();
    lines.extend(
        all.map(|(attack, index, found, outcome)| failure(&attack.case, *index, found, outcome)),
    );
    assert!(
        failures.is_empty(),
        "{} failures\n\n{}",
        failures.len(),
        lines.join("\n")
    );
}

#[test]
fn no_attack_gets_through_the_reference_executor() {
    let mut failures = Vec::new();
    for attack in attacks() {
        for (index, outcome) in reference::run(&attack.case).into_iter().enumerate() {
            let found = attack.differences(index, &outcome);
            if !found.is_empty() {
                failures.push((attack.clone(), index, found, outcome));
            }
        }
    }
    report(&failures);
}

#[test]
fn no_attack_gets_through_the_ebpf_programs() {
    let attacks = attacks();
    if let Some(obstacle) = obstacle() {
        say(&format!(
            "SKIPPED no_attack_gets_through_the_ebpf_programs: {obstacle}"
        ));
        return;
    }
    let mut runner = TestRunner::load().unwrap_or_else(|error| panic!("{error}: {error:#?}"));
    let mut failures = Vec::new();
    for attack in &attacks {
        let outcomes = reference::run(&attack.case);
        let differences = runner.differences(&attack.case, &outcomes).unwrap();
        for (index, found) in differences.into_iter().enumerate() {
            if !found.is_empty() {
                failures.push((attack.clone(), index, found, outcomes[index].clone()));
            }
        }
    }
    report(&failures);
}

#[test]
fn there_are_attacks_of_all_kinds() {
    let attacks = attacks();
    for attack in &attacks {
        let packets = &attack.case.steps;
        let run = packets.iter().all(|step| can_run(&step.packet));
        assert!(run, "no test run can run {}", attack.case.name);
    }
    let (hostile, honest): (Vec<&Attack>, Vec<_>) = attacks.iter().partition(|it| it.is_one());
    say(&format!(
        "{} attacks, and {} counter-examples",
        hostile.len(),
        honest.len()
    ));
    assert!(hostile.len() >= ATTACKS, "{} attacks", hostile.len());
}
