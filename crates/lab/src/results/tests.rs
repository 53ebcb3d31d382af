//! The result folder of the fixture: complete, atomic, with the keys that scripts rely on.

use std::path::Path;

use serde_json::Value;

use super::fixture;
use super::*;
use crate::record::{BackendName, Sample};
use crate::stats::{Method, Verdict};

fn result_json(run: &Run) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    write(run, &out).unwrap();
    serde_json::from_str(&fs::read_to_string(out.join("result.json")).unwrap()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

const FILES: [&str; 6] = [
    "cells.csv",
    "env.json",
    "report.html",
    "report.md",
    "result.json",
    "samples.ndjson",
];

#[test]
fn a_folder_appears_whole_and_alone() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("deep/results");
    let report = write(&fixture::run(), &out).unwrap();
    assert_eq!(report, out.join("report.html"));
    assert_eq!(names(&out), FILES);
    assert_eq!(names(out.parent().unwrap()), ["results"]);
}

#[test]
fn an_empty_folder_is_taken_and_foreign_files_stay() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    fs::create_dir(&out).unwrap();
    write(&fixture::run(), &out).unwrap();
    assert_eq!(names(&out), FILES);
    fs::write(out.join("notes.txt"), "mine").unwrap();
    fs::write(out.join("report.md"), "old").unwrap();
    write(&fixture::run(), &out).unwrap();
    assert_eq!(names(&out).len(), FILES.len() + 1);
    assert!(
        fs::read_to_string(out.join("report.md"))
            .unwrap()
            .starts_with("# ")
    );
    assert_eq!(names(parent.path()), ["out"]);
}

#[test]
fn a_place_that_cannot_be_written_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(write(&fixture::run(), &file).is_err());
    assert!(write(&fixture::run(), &file.join("below")).is_err());
    assert_eq!(names(parent.path()), ["file"]);
}

#[test]
fn the_keys_that_scripts_rely_on() {
    let run = fixture::run();
    let json = result_json(&run);
    assert_eq!(json["schema"], run.schema.as_str());
    assert_eq!(json["study"], "jumbo-vxlan");
    assert!(json["env"]["kernel"].is_string());
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), run.cells.len());
    for (cell, recorded) in cells.iter().zip(&run.cells) {
        assert_eq!(cell["backend"], recorded.key.backend.as_str());
        assert!(cell["mtu"].is_u64() && cell["streams"].is_u64());
        assert!(cell["offload"].is_boolean() && cell["path_proof"].is_boolean());
        let ok = cell["status"] == "ok";
        assert_eq!(cell["reason"].is_null(), ok);
        for metric in Metric::ALL {
            let figure = &cell[metric.key()];
            if figure.is_null() {
                assert!(!ok, "{metric:?} of {}", recorded.key);
                assert!(
                    cell.get(metric.key()).is_some(),
                    "the key is there, as null"
                );
                continue;
            }
            let samples = figure["samples"].as_array().unwrap();
            assert_eq!(samples.len(), recorded.counted().count());
            let (low, high) = (&figure["ci95"][0], &figure["ci95"][1]);
            let mean = figure["mean"].as_f64().unwrap();
            assert!(low.as_f64().unwrap() <= mean && mean <= high.as_f64().unwrap());
        }
    }
    assert!(
        cells
            .iter()
            .any(|c| c["status"] == "unavailable" && c["reason"] == fixture::ODD)
    );
    assert!(cells.iter().any(|c| c["status"] == "failed"));
}

#[test]
fn comparisons_carry_verdicts() {
    let json = result_json(&fixture::run());
    let all = json["comparisons"].as_array().unwrap();
    let found = all
        .iter()
        .find(|c| {
            c["a"] == "overlane-vxlan"
                && c["b"] == "kernel-vxlan"
                && c["metric"] == "goodput_gbps"
                && c["group"]["streams"] == 4
        })
        .unwrap();
    assert_eq!(
        (&found["pairs"], &found["verdict"]),
        (&6.into(), &"better".into())
    );
    assert!((found["median_ratio"].as_f64().unwrap() - 39.6 / 24.8).abs() < 0.05);
    assert!(found["ci95"][0].as_f64().unwrap() > 1.0);
    // Cells without status ok are compared with nothing.
    assert!(
        all.iter()
            .all(|c| c["a"] != "ovs-geneve" && c["b"] != "ovs-geneve")
    );
}

#[test]
fn pairs_across_groups_only_where_the_clock_shows_turns() {
    let mut run = fixture::run();
    let mtu = |run: &Run| {
        let analysis = Analysis::of(run);
        let found = analysis
            .comparisons
            .iter()
            .find(|c| c.axis == Axis::Mtu && c.a.backend == BackendName::OverlaneVxlan)
            .unwrap();
        (found.result.method, found.result.verdict)
    };
    // The fixture measures group after group.
    assert_eq!(mtu(&run), (Method::Unpaired, Verdict::Better));
    for sample in run.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
        sample.started_unix_ms = fixture::STARTED + u64::from(sample.round) * 60_000;
    }
    assert_eq!(mtu(&run), (Method::Paired, Verdict::Better));
}

#[test]
fn not_measured_is_null_and_never_nan() {
    let mut run = fixture::run();
    run.cells[1].samples.iter_mut().for_each(|sample| {
        sample.cpu.sender = None;
        sample.cpu_percent_per_gbps.sum = None;
        sample.underlay_packet_bytes = None;
        sample.goodput_gbps = f64::NAN;
        sample.retransmits = None;
    });
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    write(&run, &out).unwrap();
    for name in FILES {
        let text = fs::read_to_string(out.join(name)).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf,"), "{name}");
    }
    let json: Value =
        serde_json::from_str(&fs::read_to_string(out.join("result.json")).unwrap()).unwrap();
    assert!(json["cells"][1]["goodput_gbps"].is_null());
    assert!(json["cells"][1]["cpu_percent_sender"].is_null());
}

#[test]
fn every_sample_is_one_line() {
    let run = fixture::run();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    write(&run, &out).unwrap();
    let text = fs::read_to_string(out.join("samples.ndjson")).unwrap();
    let samples: Vec<Sample> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(
        samples.len(),
        run.cells
            .iter()
            .map(|cell| cell.samples.len())
            .sum::<usize>()
    );
    assert!(
        samples
            .windows(2)
            .all(|w| w[0].started_unix_ms <= w[1].started_unix_ms)
    );
    let discarded = result_json(&run)["discarded"].as_array().unwrap().len();
    assert_eq!(
        discarded,
        samples.iter().filter(|s| s.discarded.is_some()).count()
    );
}

#[test]
fn samples_give_reason_to_warn() {
    let run = fixture::run();
    let warnings = Analysis::of(&run).warnings.join("\n");
    for part in [
        "bridge, MTU 1500, 4 streams, offload on: goodput spreads by",
        "stands far from the others; it is kept",
        "direct, MTU 1500, 1 stream, offload off: 3 samples",
        "unsteady after the run",
    ] {
        assert!(warnings.contains(part), "{part} is not in:\n{warnings}");
    }
}
