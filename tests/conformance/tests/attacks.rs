//! Every attack of tests/attacks on both executors: none may get through.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use overlane_conformance::case::{Attack, Differences, load_attacks};
use overlane_conformance::compare::{counters, failure, with_reference};
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

/// A packet of an attack that is not as it must be.
struct Failure {
    /// Where it went, if it got through.
    through: Option<String>,
    text: String,
}

impl Failure {
    fn new(attack: &Attack, index: usize, differences: &Differences, outcome: &Outcome) -> Self {
        let through = (!differences.through.is_empty()).then(|| {
            format!(
                "GOT THROUGH to {}: {} ({}:{})",
                differences.through.join(", "),
                attack.case.name,
                attack.case.path.display(),
                attack.case.steps[index].line,
            )
        });
        Self {
            through,
            text: failure(&attack.case, index, &differences.words, outcome),
        }
    }
}

/// First those that got through, each with where it went; then all that is otherwise.
fn report(failures: &[Failure]) {
    let through: Vec<_> = failures
        .iter()
        .filter_map(|it| it.through.clone())
        .collect();
    let texts: Vec<_> = failures.iter().map(|it| it.text.clone()).collect();
    assert!(
        failures.is_empty(),
        "{} got through, {} are otherwise than their tables say\n\n{}\n\n{}",
        through.len(),
        failures.len(),
        through.join("\n"),
        texts.join("\n\n")
    );
}

#[test]
fn no_attack_gets_through_the_reference_executor() {
    let mut failures = Vec::new();
    for attack in attacks() {
        for (index, outcome) in reference::run(&attack.case).iter().enumerate() {
            let differences = attack.of_reference(index, outcome);
            if differences.any() {
                failures.push(Failure::new(&attack, index, &differences, outcome));
            }
        }
    }
    report(&failures);
}

/// Against the table first, and then byte by byte against the reference executor.
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
        let observed = runner.observe(&attack.case).unwrap();
        for (index, (observed, counted)) in observed.iter().enumerate() {
            let (step, outcome) = (&attack.case.steps[index], &outcomes[index]);
            let mut differences = attack.of_programs(index, observed);
            if !differences.any() {
                let tables = &attack.case.tables;
                let mut words = with_reference(tables, &step.packet, outcome, observed);
                words.extend(counters(&outcome.counters, counted));
                differences.words = words;
            }
            if differences.any() {
                failures.push(Failure::new(attack, index, &differences, outcome));
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
