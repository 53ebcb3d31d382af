//! Golden cases on a wire: real programs on real devices in network namespaces, and above all those cases
//! that a test run of the programs cannot run.
//!
//! `OVERLANE_CASE=part-of-a-name` runs some of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use overlane_conformance::case::{Case, wanted};
use overlane_conformance::compare::failure;
use overlane_conformance::say;
use overlane_conformance::test_runner::can_run;
use overlane_conformance::wire_runner::{Ran, WireRunner, cannot_run, obstacle};

/// Cases follow each other that can share a host, and among these those of one fabric.
fn cases() -> Vec<Case> {
    let mut cases = wanted().unwrap_or_else(|error| panic!("{error}"));
    cases.sort_by_cached_key(|case| {
        let host = (
            case.tables.vtep,
            case.tables.uplink.clone(),
            case.machine.underlay_mtu,
        );
        (host, case.fabric_text.clone())
    });
    cases
}

fn failures(case: &Case, ran: &[Ran]) -> Vec<String> {
    let failed = (ran.iter().enumerate()).filter(|(_, ran)| !ran.found.is_empty());
    failed
        .map(|(index, ran)| failure(case, index, &ran.found, &ran.outcome))
        .collect()
}

#[test]
fn cases_on_a_wire() {
    if let Some(obstacle) = obstacle() {
        say(&format!("SKIPPED cases_on_a_wire: {obstacle}"));
        return;
    }
    let cases = cases();
    let mut runner = WireRunner::new().unwrap();
    let (mut failed, mut nowhere) = (Vec::new(), Vec::new());
    let mut ran = 0;
    for case in &cases {
        if let Some(reason) = cannot_run(case) {
            if !case.steps.iter().all(|step| can_run(&step.packet)) {
                nowhere.push(format!("{} ({reason})", case.name));
            }
            continue;
        }
        match runner.run_case(case) {
            Ok(steps) => failed.extend(failures(case, &steps)),
            Err(error) => failed.push(format!("case {}: {error}: {error:?}", case.name)),
        }
        ran += 1;
    }
    drop(runner);
    assert!(
        ran > 0 || std::env::var_os("OVERLANE_CASE").is_some(),
        "no case"
    );
    for case in nowhere {
        say(&format!("on no kernel executor: {case}"));
    }
    assert!(
        failed.is_empty(),
        "{} failures\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    say(&format!("wire: {ran} cases"));
}
