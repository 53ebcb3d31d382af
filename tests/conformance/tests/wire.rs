//! Golden cases on a wire: real programs on real devices in network namespaces, and above all those cases
//! that a test run of the programs cannot run.
//!
//! `OVERLANE_CASE=part-of-a-name` runs some of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write as _;

use overlane_conformance::case::{Case, cases_folder, load_all};
use overlane_conformance::compare;
use overlane_conformance::test_runner::can_run;
use overlane_conformance::wire_runner::{Ran, WireRunner, cannot_run, obstacle};

/// Past the test harness, which shows nothing of a test that passes.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Cases of one host follow each other, for they share it.
fn cases() -> Vec<Case> {
    let wanted = std::env::var("OVERLANE_CASE").unwrap_or_default();
    let cases = load_all(&cases_folder()).unwrap_or_else(|errors| {
        let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
        panic!(
            "{} cases cannot be read:\n{}",
            errors.len(),
            lines.join("\n")
        );
    });
    let mut cases: Vec<_> = cases
        .into_iter()
        .filter(|case| case.name.contains(&wanted))
        .collect();
    cases.sort_by_cached_key(|case| {
        let host = case.tables.host.to_string();
        (case.fabric_text.clone(), host, case.underlay_mtu)
    });
    cases
}

fn failures(case: &Case, ran: &[Ran]) -> Vec<String> {
    let steps = case.steps.iter().zip(ran).enumerate();
    let failed = steps.filter(|(_, (_, ran))| !ran.found.is_empty());
    let words = failed.map(|(index, (step, ran))| {
        format!(
            "case {} ({}), packet {} ({}:{}):\n  {}\nThe reference executor says:\n{}",
            case.name,
            case.title,
            index + 1,
            case.path.display(),
            step.line,
            ran.found.join("\n  "),
            compare::outcome_text(&ran.outcome)
        )
    });
    words.collect()
}

#[test]
fn cases_on_a_wire() {
    if let Some(obstacle) = obstacle() {
        say(&format!("skipped: cases_on_a_wire: {obstacle}"));
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
