//! A run from the study's file to the result folder. What was measured survives errors and signals.

use crate::api::{RunRequest, RunSummary};
use crate::bench::Bench;
use crate::error::LabError;
use crate::plan::Plan;
use crate::progress::Shown;
use crate::record::{Cell, CellKey, CellStatus, Run, SCHEMA};
use crate::session::Session;
use crate::study::Study;
use crate::{environment, noise, results, time};
use std::fs;
use std::path::{Path, PathBuf};

/// The status of a cell before its turn.
const NOT_REACHED: &str = "not reached";

/// Runs a study and writes its result folder.
pub(crate) fn run(request: &RunRequest) -> Result<RunSummary, LabError> {
    run_study(Study::shipped(&request.study)?, request)
}

fn run_study(mut study: Study, request: &RunRequest) -> Result<RunSummary, LabError> {
    if let Some(backends) = &request.backends {
        study.compare_only(backends);
    }
    let plan = Plan::new(if request.quick {
        &study.quick
    } else {
        &study.matrix
    });
    let started_unix_ms = time::unix_ms();
    let dir = request
        .out
        .clone()
        .unwrap_or_else(|| default_dir(&study, started_unix_ms));
    require_generator()?;
    let session = Session::begin()?;
    // Before the measuring, not after it: a folder that cannot be written would cost the whole run.
    fs::create_dir_all(&dir).map_err(LabError::io("creating", &dir))?;
    let env = environment::record(&session.cpus, &request.version);
    let run = Run {
        schema: SCHEMA.to_owned(),
        study,
        quick: request.quick,
        interrupted: false,
        planned_samples: plan.samples,
        planned_seconds: f64::from(plan.seconds),
        env,
        cells: plan.cells().map(not_reached).collect(),
        started_unix_ms,
        finished_unix_ms: started_unix_ms,
        warnings: Vec::new(),
    };
    let samples = plan.cells().count() as u64 * u64::from(plan.samples + 1);
    let shown = Shown::new(request.progress, samples, plan.expected());
    let mut bench = Bench {
        session: &session,
        plan: &plan,
        run,
        shown,
    };
    let outcome = bench.measure();
    session.interrupts.shield();
    bench.shown.finish();
    let Bench { mut run, .. } = bench;
    run.finished_unix_ms = time::unix_ms();
    run.interrupted = matches!(outcome, Err(LabError::Interrupted));
    if let Err(error) = outcome {
        if !run.cells.iter().any(|cell| cell.counted().next().is_some()) {
            // Only an empty folder goes: one that had content before is not ours.
            let _ = fs::remove_dir(&dir);
            return Err(error);
        }
        close_open_cells(&mut run.cells, &error);
        if !run.interrupted {
            run.warnings.push(format!(
                "The run broke off: {error}. What had been measured is kept."
            ));
        }
    }
    for left in session.end() {
        run.warnings.push(format!(
            "Not undone: {left}. `overlane lab cleanup` tries again."
        ));
    }
    run.warnings.extend(noise::drift(&run.env.noise));
    let report = results::write(&run, &dir)?;
    Ok(RunSummary { dir, report, run })
}

fn default_dir(study: &Study, started_unix_ms: u64) -> PathBuf {
    Path::new("results").join(format!(
        "{}-{}",
        time::utc_stamp(started_unix_ms),
        study.name
    ))
}

fn require_generator() -> Result<(), LabError> {
    match environment::find_program("iperf3") {
        Some(_) => Ok(()),
        None => Err(LabError::Unable {
            reason: "`iperf3` is not installed (package iperf3)".to_owned(),
        }),
    }
}

/// A cell before its turn; if its turn never comes, this is how it ended.
fn not_reached(key: CellKey) -> Cell {
    Cell::empty(
        key,
        CellStatus::Failed {
            reason: NOT_REACHED.to_owned(),
        },
    )
}

/// After a run that broke off: a cell with samples is as good as they are, and their number is shown;
/// the others ended with the run.
fn close_open_cells(cells: &mut [Cell], error: &LabError) {
    for cell in cells {
        if !matches!(&cell.status, CellStatus::Failed { reason } if reason == NOT_REACHED) {
            continue;
        }
        cell.status = if cell.counted().next().is_some() {
            CellStatus::Ok
        } else {
            CellStatus::Failed {
                reason: error.to_string(),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Progress;
    use crate::record::{BackendName, MtuClass};
    use crate::study::GroupAxes;
    use nix::unistd::geteuid;

    /// Real namespaces, real traffic, one second a sample.
    #[test]
    fn a_small_study_is_measured_and_leaves_nothing() {
        if !geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let mut study = Study::shipped("jumbo-vxlan").unwrap();
        // Those of the project itself need its program, which a test is not.
        study.quick.backends = BackendName::ALL
            .into_iter()
            .filter(|name| !name.as_str().starts_with("overlane"))
            .collect();
        study.quick.groups = vec![GroupAxes {
            mtu: vec![MtuClass::Standard],
            streams: vec![1],
            offload: vec![false],
        }];
        (study.quick.samples, study.quick.seconds) = (1, 1);
        let out = std::env::temp_dir().join(format!("overlane-lab-run-{}", std::process::id()));
        let request = RunRequest {
            study: study.name.clone(),
            quick: true,
            backends: None,
            out: Some(out.clone()),
            progress: Progress::Lines,
            version: "test".to_owned(),
        };
        let run = run_study(study, &request).unwrap().run;
        for cell in &run.cells {
            let needs_packages = cell.key.backend.as_str().starts_with("ovs");
            if needs_packages && matches!(cell.status, CellStatus::Unavailable { .. }) {
                continue;
            }
            assert_eq!(cell.status, CellStatus::Ok, "{cell:?}");
            assert!(cell.path_proof, "{cell:?}");
            assert_eq!((cell.samples.len(), cell.counted().count()), (2, 1));
            let sample = cell.counted().next().unwrap();
            assert!(
                sample.goodput_gbps > 0.01 && sample.underlay_packets > 100,
                "{sample:?}"
            );
            // The wire segments: no packet is larger than the underlay allows.
            let size = sample.underlay_packet_bytes.unwrap();
            assert!((1000.0..1615.0).contains(&size), "{size}");
        }
        let prefix = format!("lab{}-", std::process::id());
        let left = overlane_net::netns::list().unwrap();
        assert!(
            !left.iter().any(|name| name.starts_with(&prefix)),
            "{left:?}"
        );
        fs::remove_dir_all(out).unwrap();
    }
}
