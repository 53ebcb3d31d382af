//! What follows from the fixtures: figures, sets, splits, comparisons, warnings, and the keys that scripts rely on.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::record::{BackendName, Bound, CellStatus, Feature, Finding, Test, Warning};
use crate::stats::repeat::SetState;
use crate::stats::{Method, Verdict, Why};

pub(super) fn result_json(run: &Run) -> Value {
    serde_json::to_value(json::Document::of(&Analysis::of(run))).unwrap()
}

fn find<'a>(run: &'a Analysis<'_>, backend: BackendName, test: Test) -> &'a CellFigures<'a> {
    let like = |f: &&CellFigures<'_>| {
        f.cell.key.backend == backend && f.cell.key.group.workload.test == test
    };
    run.cells.iter().find(like).unwrap()
}

#[test]
fn the_keys_that_scripts_rely_on() {
    for (name, run) in fixture::all() {
        let json = result_json(&run);
        assert_eq!(json["schema"], run.schema.as_str());
        assert_eq!(json["study"], run.study.name.as_str());
        assert!(json["env"]["kernel"].is_string());
        let cells = json["cells"].as_array().unwrap();
        assert_eq!(cells.len(), run.cells.len(), "{name}");
        for (cell, recorded) in cells.iter().zip(&run.cells) {
            assert_eq!(cell["network"], recorded.key.backend.as_str());
            assert_eq!(cell["mtu"], recorded.key.mtu());
            assert!(cell["instances"].is_u64() && cell["offload"].is_boolean());
            let reasoned = matches!(
                recorded.status,
                CellStatus::Unavailable { .. } | CellStatus::Failed { .. }
            );
            assert_eq!(cell["reason"].is_string(), reasoned);
            let counted = recorded.counted().count();
            for metric in Metric::ALL {
                let figure = cell["figures"]
                    .get(metric.key())
                    .expect("the key is there, as null");
                if figure.is_null() {
                    continue;
                }
                assert_eq!(figure["samples"].as_array().unwrap().len(), counted);
                let (low, high) = (&figure["ci95"][0], &figure["ci95"][1]);
                let mean = figure["mean"].as_f64().unwrap();
                assert!(low.as_f64().unwrap() <= mean && mean <= high.as_f64().unwrap());
            }
            let primary = Metric::primary(recorded.key.group.workload.test).key();
            assert_eq!(cell["figures"][primary].is_null(), counted == 0, "{name}");
        }
    }
}

#[test]
fn comparisons_carry_verdicts() {
    let run = fixture::run();
    let analysis = Analysis::of(&run);
    let group = analysis.groups[0];
    let between = |a, b| {
        let metric = Metric::Goodput;
        let found = analysis
            .comparison(group.cell(a), group.cell(b), metric)
            .unwrap();
        &found.result
    };
    let found = between(BackendName::OverlaneVxlan, BackendName::KernelVxlan);
    assert_eq!((found.pairs, found.verdict), (6, Verdict::Better));
    assert!((found.ratio.unwrap() - 0.86 / 0.55).abs() < 0.05);
    assert!(found.ci95.unwrap()[0] > 1.0 && found.q.unwrap() <= 0.05);
    let found = between(BackendName::OverlaneGeneve, BackendName::OverlaneVxlan);
    assert_eq!(found.verdict, Verdict::Same);
    // Cells without samples are compared with nothing.
    let missing = |c: &Compared| {
        [c.a, c.b]
            .iter()
            .any(|key| key.backend == BackendName::OvsGeneve)
    };
    assert!(!analysis.comparisons.iter().any(missing));
}

#[test]
fn every_axis_is_compared() {
    let mut axes = BTreeSet::new();
    for (_, run) in fixture::all() {
        let analysis = Analysis::of(&run);
        for compared in &analysis.comparisons {
            axes.insert(compared.axis);
            let (a, b) = (compared.a, compared.b);
            let differs = match compared.axis {
                Axis::Backend => a.backend != b.backend && a.group == b.group,
                Axis::Itself => (a.copy, b.copy) == (1, 0),
                Axis::Without => a.backend != b.backend && a.group != b.group,
                _ => a.group != b.group,
            };
            assert!(differs, "{:?}: {a} against {b}", compared.axis);
            if !matches!(compared.axis, Axis::Backend | Axis::Without | Axis::Model) {
                assert_eq!(a.backend, b.backend);
            }
        }
    }
    let missing = [
        Axis::Backend,
        Axis::Itself,
        Axis::Mtu,
        Axis::Offload,
        Axis::Instances,
        Axis::Bytes,
        Axis::OfferedRate,
        Axis::Buffer,
        Axis::Pairs,
        Axis::Guests,
        Axis::Vnis,
        Axis::Hosts,
        Axis::Inner,
        Axis::Underlay,
        Axis::Feature,
        Axis::Without,
        Axis::FarEnd,
        Axis::Model,
    ]
    .into_iter()
    .filter(|axis| !axes.contains(axis))
    .collect::<Vec<_>>();
    assert_eq!(missing, []);
}

#[test]
fn a_feature_is_held_against_none_against_less_and_against_the_kernel() {
    let run = fixture::cost();
    let analysis = Analysis::of(&run);
    let found = |axis: Axis| -> BTreeSet<_> {
        let all = analysis.comparisons.iter();
        let of = all.filter(|c| c.axis == axis && c.metric == Metric::Goodput);
        of.map(|c| {
            let sides = (c.a.group.setting.feature, c.b.group.setting.feature);
            (sides, c.b.backend)
        })
        .collect()
    };
    let own = BackendName::OverlaneVxlan;
    let mut expected: BTreeSet<_> = Feature::ALL
        .into_iter()
        .filter(|feature| feature.is_service())
        .map(|feature| ((feature, Feature::Default), own))
        .collect();
    let kernel = expected
        .iter()
        .map(|(sides, _)| (*sides, BackendName::KernelVxlan));
    assert_eq!(found(Axis::Without), kernel.collect());
    expected.extend([
        ((Feature::Firewall1000, Feature::Firewall10), own),
        ((Feature::RoutingFirewall, Feature::Routing), own),
        ((Feature::GatewayNat, Feature::Gateway), own),
    ]);
    assert_eq!(found(Axis::Feature), expected);
    // They took turns: rounds are pairs, and noise is no difference.
    let verdict = |feature: Feature| {
        let like = |c: &&Compared| {
            c.axis == Axis::Feature
                && (c.a.group.setting.feature, c.metric) == (feature, Metric::Goodput)
        };
        let result = &analysis.comparisons.iter().find(like).unwrap().result;
        (result.method, result.verdict)
    };
    assert_eq!(verdict(Feature::Routing), (Method::Paired, Verdict::Worse));
    let still = (Method::Paired, Verdict::Same);
    assert_eq!(verdict(Feature::Stateless10), still);
}

#[test]
fn model_b_is_held_against_model_a_by_frame_size() {
    let run = fixture::frames();
    let analysis = Analysis::of(&run);
    let found = |b: u32, a: u32| {
        analysis.comparisons.iter().any(|c| {
            c.axis == Axis::Model
                && (c.a.backend, c.b.backend)
                    == (BackendName::OverlaneVxlan, BackendName::OverlaneVlan)
                && (c.a.group.workload.bytes, c.b.group.workload.bytes) == (b, a)
                && c.metric == Metric::CpuSender
        })
    };
    assert!(found(64, 64) && found(512, 512) && found(1450, 1518));
    assert!(!found(64, 512));
}

#[test]
fn pairs_across_groups_only_where_the_clock_shows_turns() {
    let mut run = fixture::run();
    let mtu = |run: &Run| {
        let analysis = Analysis::of(run);
        let like = |c: &&Compared| c.axis == Axis::Mtu && c.a.backend == BackendName::OverlaneVxlan;
        let found = analysis.comparisons.iter().find(like).unwrap();
        let result = &found.result;
        (result.method, result.verdict, result.reason)
    };
    // The fixture measures group after group.
    let unpaired = (
        Method::Unpaired,
        Verdict::NotComparable,
        Some(Why::NotInTurn),
    );
    assert_eq!(mtu(&run), unpaired);
    for sample in run.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
        sample.started_unix_ms = fixture::STARTED + u64::from(sample.round) * 60_000;
    }
    assert_eq!(mtu(&run), (Method::Paired, Verdict::Better, None));
}

#[test]
fn sets_are_told_and_all_samples_count() {
    let run = fixture::scenarios();
    let analysis = Analysis::of(&run);
    let restless = find(&analysis, BackendName::KernelVxlan, Test::TcpStream);
    let states: Vec<_> = restless.sets.iter().map(|set| set.state).collect();
    assert_eq!(states, [SetState::Discarded, SetState::Accepted]);
    assert_eq!(restless.rule_met, Some(true));
    assert_eq!(
        restless.samples(),
        6,
        "a discarded set stays in the figures"
    );
    let calm = find(&analysis, BackendName::OverlaneVxlan, Test::TcpStream);
    assert_eq!(calm.sets[1].state, SetState::Further);
    let json = result_json(&run);
    assert_eq!(json["cells"][0]["sets"][0]["state"], "discarded");
    assert_eq!(json["repeat"]["rule"], "within");
}

#[test]
fn precision_is_told_under_netperfs_rule() {
    let run = fixture::every_axis();
    let analysis = Analysis::of(&run);
    let cell = find(&analysis, BackendName::KernelVxlan, Test::TcpStream);
    let precision = cell.precision.as_ref().unwrap();
    let keys: Vec<_> = precision.widths_percent.keys().copied().collect();
    assert_eq!(
        keys,
        ["cpu_percent_receiver", "cpu_percent_sender", "goodput_gbps"]
    );
    let narrow = precision.widths_percent.values().all(|w| w.unwrap() <= 5.0);
    assert_eq!(cell.rule_met, Some(narrow));
}

#[test]
fn the_split_adds_up() {
    let run = fixture::cost();
    let analysis = Analysis::of(&run);
    let ticks = analysis.cells[0].cpu_split.as_ref().unwrap();
    assert_eq!(ticks.seconds, 9.0);
    let sum = |s: Split| {
        s.user_percent
            + s.system_percent
            + s.irq_percent
            + s.softirq_percent
            + s.idle_percent
            + s.steal_percent
    };
    assert!((sum(ticks.total) - 200.0).abs() < 1e-6);
    assert!((sum(ticks.sender.unwrap()) - 100.0).abs() < 1e-6);
    let mut short = run.clone();
    for cell in &mut short.cells {
        cell.samples.truncate(3);
    }
    assert!(
        Analysis::of(&short).cells[0].cpu_split.is_none(),
        "3 s are too few ticks"
    );
    let mut shared = run;
    shared.env.shared_cpus = true;
    let analysis = Analysis::of(&shared);
    assert_eq!(analysis.cells[0].cpu_split.as_ref().unwrap().sender, None);
}

#[test]
fn packets_latencies_and_references_are_summed_up() {
    let run = fixture::frames();
    let analysis = Analysis::of(&run);
    for figures in analysis.cells.iter().filter(|f| f.is_ok()) {
        let sum = figures.accounting.as_ref().unwrap();
        let lost: u64 = sum.lost.values().sum();
        assert_eq!(
            sum.sent as i64,
            (sum.received + lost) as i64 + sum.unexplained,
            "{}",
            figures.cell.key
        );
        let curve = &figures.latency.as_ref().unwrap().curve;
        assert!(curve.is_sorted() && curve.len() == 11);
        assert!(figures.reference_percent().unwrap() <= 100.0 * 1.3 / 1.12 + 1.0);
    }
    let bound = |backend| {
        let cell = analysis
            .cells
            .iter()
            .find(|f| f.cell.key.backend == backend);
        cell.unwrap().bound
    };
    assert_eq!(bound(BackendName::OverlaneVlan), Bound::Tool);
    assert_eq!(bound(BackendName::Bridge), Bound::Rate);
}

#[test]
fn an_open_cell_with_samples_is_compared_and_one_without_is_not() {
    let run = fixture::frames();
    let analysis = Analysis::of(&run);
    let open: Vec<_> = analysis
        .cells
        .iter()
        .filter(|f| f.cell.status == CellStatus::Open)
        .collect();
    assert_eq!(open.len(), 2);
    let compared = |key| {
        analysis
            .comparisons
            .iter()
            .any(|c| c.a == key || c.b == key)
    };
    for figures in open {
        assert_eq!(figures.is_measured(), figures.samples() > 0);
        assert_eq!(compared(figures.cell.key), figures.is_measured());
    }
}

#[test]
fn not_measured_is_null_and_never_nan() {
    let mut run = fixture::run();
    run.cells[1].samples.iter_mut().for_each(|sample| {
        sample.cpu.sender = None;
        sample.cpu.cpus.clear();
        sample.cpu_percent_per_gbps.sum = None;
        sample.underlay_packet_bytes = None;
        sample.goodput_gbps = Some(f64::NAN);
        sample.retransmits = None;
    });
    let files = render(&run, Path::new("nowhere")).unwrap();
    for (name, text) in &files {
        assert!(!text.contains("NaN") && !text.contains("inf,"), "{name}");
    }
    let json: Value = serde_json::from_str(&files[0].1).unwrap();
    let figures = &json["cells"][1]["figures"];
    for metric in [
        Metric::Goodput,
        Metric::CpuSender,
        Metric::CpuMean,
        Metric::Loss,
    ] {
        assert!(figures[metric.key()].is_null(), "{metric:?}");
    }
    assert!(json["cells"][1]["cpu_split"].is_null());
}

#[test]
fn discarded_samples_are_listed() {
    let run = fixture::run();
    let json = result_json(&run);
    let listed = json["discarded"].as_array().unwrap();
    let samples = run.cells.iter().flat_map(|cell| &cell.samples);
    let discarded = samples.filter(|sample| sample.discarded.is_some()).count();
    assert_eq!(listed.len(), discarded);
    assert_eq!(listed[0]["reason"], "warm-up");
    assert!(listed[0]["value"].is_f64());
}

fn told(analysis: &Analysis<'_>) -> String {
    let lines: Vec<_> = analysis.warnings.iter().map(Warning::to_string).collect();
    lines.join("\n")
}

#[test]
fn a_cpu_that_changed_its_speed_is_told() {
    let mut run = fixture::run();
    for probe in &mut run.env.noise {
        probe.median_us = if probe.when == "after" { 120.0 } else { 100.0 };
    }
    let told = told(&Analysis::of(&run));
    assert!(told.contains("20 % slower after"), "{told}");
}

#[test]
fn samples_give_reason_to_warn() {
    let run = fixture::run();
    let warnings = told(&Analysis::of(&run));
    for part in [
        "bridge tcp_stream-131072B-4i, standard mtu, offload on: goodput_gbps spreads by",
        "stands far from the others; it is kept",
        "direct tcp_stream-131072B-1i, standard mtu, offload off: 3 samples",
        "unsteady after the run",
    ] {
        assert!(warnings.contains(part), "{part} is not in:\n{warnings}");
    }
    let mut run = fixture::frames();
    let samples = run.cells.iter_mut().flat_map(|cell| &mut cell.samples);
    for accounting in samples
        .filter_map(|sample| sample.accounting.as_mut())
        .take(3)
    {
        accounting.corrupt = 1;
    }
    let warnings = told(&Analysis::of(&run));
    for part in [
        "datagrams arrived with another length",
        "1 of ",
        "neither received nor in any counter on the path",
        "interrupted",
    ] {
        assert!(warnings.contains(part), "{part} is not in:\n{warnings}");
    }
}

#[test]
fn many_cells_of_one_kind_make_one_warning() {
    let mut run = fixture::scenarios();
    for cell in &mut run.cells {
        cell.samples.truncate(4);
    }
    let few = |warning: &&Warning| {
        matches!(
            warning,
            Warning::Cells {
                finding: Finding::FewSamples,
                ..
            }
        )
    };
    let warnings = Analysis::of(&run).warnings;
    assert_eq!(warnings.iter().filter(few).count(), 1, "{warnings:?}");
    assert!(warnings.len() < 8, "{warnings:?}");
}
