//! Comparisons of folders that the fixtures fill.

use std::collections::BTreeSet;

use tempfile::TempDir;

use super::*;
use crate::error::AnalysisError;
use crate::plan::{Block, Plan, order};
use crate::record::{BackendName, CellKey, CellStatus, Feature, Run};
use crate::results::Analysis;
use crate::results::fixture;
use crate::results::folder::Folder;
use crate::stats::{Method, Verdict};
use std::path::PathBuf;

fn saved(run: &Run) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = Folder::create(dir.path(), run).unwrap();
    for sample in run.cells.iter().flat_map(|cell| &cell.samples) {
        folder.append(sample).unwrap();
    }
    dir
}

fn folders(a: &Run, b: &Run, threshold_percent: f64) -> CompareReport {
    let (a, b) = (saved(a), saved(b));
    compare(&CompareRequest {
        a: a.path().to_owned(),
        b: Some(b.path().to_owned()),
        networks: None,
        threshold_percent,
    })
    .unwrap()
}

fn networks(
    run: &Run,
    a: &str,
    b: &str,
    threshold_percent: f64,
) -> Result<CompareReport, AnalysisError> {
    let dir = saved(run);
    compare(&CompareRequest {
        a: dir.path().to_owned(),
        b: None,
        networks: Some((a.parse().unwrap(), b.parse().unwrap())),
        threshold_percent,
    })
}

/// One network of a run slower by a factor.
fn slowed(run: &Run, backend: BackendName, factor: f64) -> Run {
    let mut run = run.clone();
    for cell in run
        .cells
        .iter_mut()
        .filter(|cell| cell.key.backend == backend)
    {
        for sample in &mut cell.samples {
            sample.goodput_gbps = sample.goodput_gbps.map(|gbps| gbps * factor);
        }
    }
    run
}

#[test]
fn a_run_against_itself_has_no_regression() {
    let run = fixture::guests();
    let report = folders(&run, &run, 0.0);
    assert_eq!(
        (report.regressions, report.failed),
        (0, false),
        "{:?}",
        report.missing
    );
    assert_eq!(report.rows.len(), 2 * run.cells.len());
    for row in &report.rows {
        // Two runs are not sampled in turn, even where one is the other.
        assert_eq!(row.verdict, Verdict::NotComparable);
        assert_eq!((row.p, row.reason), (None, Some("not sampled in turn")));
    }
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
}

#[test]
fn what_is_worse_beyond_the_threshold_is_a_regression() {
    let run = fixture::guests();
    let slow = slowed(&run, BackendName::OverlaneVxlan, 0.85);
    let report = folders(&run, &slow, 10.0);
    let is_ours = |row: &&CompareRow| row.cell_b.backend == BackendName::OverlaneVxlan;
    let expected = run
        .cells
        .iter()
        .filter(|c| c.key.backend == BackendName::OverlaneVxlan);
    assert_eq!(report.regressions, expected.count());
    assert!(report.failed);
    for row in &report.rows {
        assert_eq!(row.regression, is_ours(&row) && row.primary, "{row:?}");
        assert_eq!(row.method, Method::Unpaired);
    }
    // 15 % worse, and 20 % are allowed.
    assert!(!folders(&run, &slow, 20.0).failed);
    // The estimate is beyond the threshold, and a part of the interval is not.
    let close = folders(&run, &slow, 14.5);
    let of_ours = |row: &&CompareRow| is_ours(row) && row.primary;
    for row in close.rows.iter().filter(of_ours) {
        assert_eq!(row.regression, row.ci95.unwrap()[1] < 0.855, "{row:?}");
    }
    assert!(close.regressions < report.regressions);
    // Too few samples for an interval are no regression, and that is said.
    let mut short = slow.clone();
    for cell in &mut short.cells {
        cell.samples.truncate(4);
    }
    let report = folders(&run, &short, 0.0);
    assert!(
        !report.failed
            && report
                .warnings
                .iter()
                .any(|w| w.contains("too few samples"))
    );
    // The other way round it became better.
    assert!(!folders(&slow, &run, 0.0).failed);
}

#[test]
fn two_networks_of_one_run_are_compared_in_pairs() {
    let run = fixture::guests();
    let report = networks(&run, "overlane-vxlan", "kernel-vxlan", 5.0).unwrap();
    let first = &report.rows[0];
    assert_eq!((first.method, first.pairs), (Method::Paired, 6));
    assert!((first.median_ratio.unwrap() - 0.55 / 0.86).abs() < 0.02);
    assert!(first.regression && report.failed);
    assert!(!first.name.contains("vxlan"), "{}", first.name);
    let report = networks(&run, "kernel-vxlan", "overlane-vxlan", 5.0).unwrap();
    assert_eq!(report.rows[0].verdict, Verdict::Better);
}

#[test]
fn a_feature_is_held_against_the_same_network_without_and_against_another() {
    let run = fixture::cost();
    let report = networks(&run, "overlane-vxlan", "overlane-vxlan+routing", 0.0).unwrap();
    assert!(report.missing.is_empty());
    // The study has both tests with routing.
    assert_eq!(report.rows.iter().filter(|row| row.primary).count(), 2);
    for row in &report.rows {
        let feature = |key: CellKey| key.group.setting.feature;
        assert_eq!(feature(row.cell_a), Feature::Default);
        assert_eq!(feature(row.cell_b), Feature::Routing);
        assert_eq!(row.method, Method::Paired);
        assert!(!row.name.contains("routing"), "{}", row.name);
    }
    assert_eq!(report.rows[0].verdict, Verdict::Worse);
    let names = |side: &Side| serde_json::to_value(side).unwrap()["network"].clone();
    assert_eq!(names(&report.a), "overlane-vxlan");
    assert_eq!(names(&report.b), "overlane-vxlan+routing");

    let report = networks(
        &run,
        "overlane-vxlan+gateway",
        "overlane-vxlan+gateway-nat",
        0.0,
    );
    assert_eq!(
        report.unwrap().rows[0].cell_a.group.setting.feature,
        Feature::Gateway
    );

    let error = networks(&run, "overlane-vxlan", "overlane-vxlan+security-off", 0.0);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("no overlane-vxlan+security-off (it has ")
            && error.contains(", overlane-vxlan, ")
            && error.contains(", overlane-vxlan+routing,"),
        "{error}"
    );
    let error = "overlane-vxlan+routin".parse::<Network>().unwrap_err();
    assert!(error.to_string().contains("routing"), "{error}");
}

#[test]
fn a_network_against_itself_is_its_second_copy() {
    let run = fixture::itself();
    let report = networks(&run, "bridge", "bridge", 5.0).unwrap();
    assert!(
        report
            .rows
            .iter()
            .all(|row| (row.cell_a.copy, row.cell_b.copy) == (0, 1))
    );
    assert!(!report.failed && !report.rows.is_empty());
}

#[test]
fn a_cell_that_one_side_lacks_is_named_and_fails() {
    let run = fixture::guests();
    let mut fewer = run.clone();
    let gone = fewer.cells.remove(0).key;
    let reason = "it broke".to_owned();
    fewer.cells[0].status = CellStatus::Failed { reason };
    let report = folders(&run, &fewer, 5.0);
    assert_eq!((report.regressions, report.failed), (0, true));
    let named: Vec<_> = report
        .missing
        .iter()
        .map(|m| (m.side, m.reason.as_str()))
        .collect();
    assert_eq!(
        named,
        [
            ("candidate", "not in its plan"),
            ("candidate", "failed: it broke")
        ]
    );
    assert_eq!(report.missing[0].name, gone.to_string());
    let report = folders(&fewer, &run, 5.0);
    assert_eq!(
        report
            .missing
            .iter()
            .filter(|m| m.side == "baseline")
            .count(),
        2
    );
    // What neither has is no failure.
    let report = folders(&fixture::scenarios(), &fixture::scenarios(), 5.0);
    assert!(!report.failed && !report.unmeasured.is_empty());
}

#[test]
fn groups_that_the_study_gives_one_network_only_are_not_missing() {
    let run = fixture::frames();
    let report = networks(&run, "ovs-vxlan", "overlane-vxlan", 5.0).unwrap();
    let missing: Vec<_> = report.missing.iter().map(|m| m.reason.as_str()).collect();
    assert_eq!(missing, ["not measured before the run was broken off"]);
    assert!(report.warnings[0].contains("broken off"));
}

#[test]
fn other_machines_are_named() {
    let run = fixture::guests();
    let mut other = run.clone();
    other.env.kernel = "6.19.0".to_owned();
    other.env.cpu_model = "Another".to_owned();
    other
        .env
        .tools
        .insert("ethtool".to_owned(), "7.0".to_owned());
    other.quick = false;
    let warnings = folders(&run, &other, 5.0).warnings.join("\n");
    for part in [
        "6.19.0",
        "CPU differs",
        "version of ethtool differs",
        "candidate whole",
    ] {
        assert!(warnings.contains(part), "{part} is not in:\n{warnings}");
    }
}

#[test]
fn what_cannot_be_compared_says_what_to_give() {
    let run = fixture::guests();
    let dir = saved(&run);
    let ask = |b: Option<PathBuf>, networks: Option<(&str, &str)>, threshold_percent| {
        let a = dir.path().to_owned();
        let networks = networks.map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()));
        let request = CompareRequest {
            a,
            b,
            networks,
            threshold_percent,
        };
        compare(&request).unwrap_err().to_string()
    };
    let both = Some(("bridge", "ovs-geneve"));
    assert!(ask(None, None, 5.0).contains("two networks"));
    assert!(ask(Some(dir.path().join(".")), None, 5.0).contains("two networks"));
    assert!(ask(None, both, 5.0).contains("no ovs-geneve (it has bridge"));
    assert!(ask(None, both, f64::NAN).contains("threshold"));
    assert!(ask(Some(dir.path().join("none")), None, 5.0).contains("none"));
    assert!(ask(None, Some(("bridge", "bridge")), 5.0).contains("no cell"));
}

/// The clock of a run as the bench takes it.
fn clocked(mut run: Run) -> (Run, Plan) {
    let plan = Plan::new(run.matrix());
    let mut clock = fixture::STARTED;
    for turn in plan.blocks.iter().flat_map(Block::turns) {
        let counts: Vec<usize> = turn.iter().map(|work| work.cells.len()).collect();
        let rounds = turn.iter().map(|work| work.samples).max().unwrap();
        for round in 0..=rounds {
            for (workload, cell) in order(&counts, round) {
                clock += 1_000;
                let key = turn[workload].cells[cell];
                let cells = run.cells.iter_mut().filter(|cell| cell.key == key);
                for sample in cells.flat_map(|cell| &mut cell.samples) {
                    if sample.round == round {
                        sample.started_unix_ms = clock;
                    }
                }
            }
        }
    }
    (run, plan)
}

#[test]
fn what_takes_turns_in_the_plan_has_pairs_and_nothing_else() {
    let mut axes = BTreeSet::new();
    for (name, run) in fixture::all() {
        let (run, plan) = clocked(run);
        let turns = plan.turns();
        for one in &Analysis::of(&run).comparisons {
            let turn = |key| turns.iter().position(|turn| turn.contains(&key));
            let in_turn = turn(one.a) == turn(one.b) && turn(one.a).is_some();
            let many = one.result.pairs != 1;
            assert_eq!(
                one.result.method == Method::Paired,
                in_turn && many,
                "{name}: {:?}, {} against {}",
                one.axis,
                one.a,
                one.b
            );
            if in_turn {
                axes.insert(one.axis);
            }
        }
    }
    for axis in [
        Axis::Mtu,
        Axis::Offload,
        Axis::Instances,
        Axis::Bytes,
        Axis::Feature,
    ] {
        assert!(axes.contains(&axis), "{axis:?}");
    }
}
