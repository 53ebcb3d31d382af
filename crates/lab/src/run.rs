//! A run from the study's file to the result folder, or from a result folder that was broken off to its end. What was
//! measured survives errors, signals and kills.

use crate::api::{RunRequest, RunSummary};
use crate::bench::Bench;
use crate::error::LabError;
use crate::plan::Plan;
use crate::record::{Cell, CellKey, CellStatus, Run, SCHEMA, Setting, Workload};
use crate::results::folder::{self, Folder};
use crate::session::Session;
use crate::study::Study;
use crate::watch::{Event, Watch};
use crate::{environment, noise, time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Runs a study and writes its result folder.
pub(crate) fn run(request: &RunRequest, watch: &mut dyn Watch) -> Result<RunSummary, LabError> {
    let mut study = Study::load(&request.study)?;
    study.change(&request.overrides)?;
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
    let session = Session::begin()?;
    let run = Run {
        schema: SCHEMA.to_owned(),
        study,
        quick: request.quick,
        interrupted: true,
        env: environment::record(&session.cpus, &request.version),
        ceilings: Vec::new(),
        cells: plan
            .cells()
            .map(|key| Cell::empty(key, CellStatus::Open))
            .collect(),
        started_unix_ms,
        finished_unix_ms: started_unix_ms,
        warnings: Vec::new(),
    };
    // Before the measuring, not after it: a folder that cannot be written would cost the whole run.
    let folder = Folder::create(&dir, &run)?;
    measure(session, &plan, folder, run, watch)
}

/// Goes on with a run that was broken off.
pub(crate) fn resume(
    dir: &Path,
    version: &str,
    watch: &mut dyn Watch,
) -> Result<RunSummary, LabError> {
    let mut run = folder::load(dir)?;
    let plan = Plan::new(run.matrix());
    if !run.cells.iter().any(|cell| cell.status == CellStatus::Open) {
        return Err(LabError::Complete {
            path: dir.to_owned(),
        });
    }
    let session = Session::begin()?;
    let here = environment::record(&session.cpus, version);
    run.warnings.extend(changes(&run, &here));
    run.warnings.push(format!(
        "The run was broken off and went on at {}; rounds that were not complete were measured again.",
        time::utc_text(time::unix_ms())
    ));
    run.interrupted = true;
    discard_broken_rounds(&mut run.cells);
    let folder = Folder::reopen(dir, &run)?;
    measure(session, &plan, folder, run, watch)
}

fn measure(
    session: Session,
    plan: &Plan,
    folder: Folder,
    run: Run,
    watch: &mut dyn Watch,
) -> Result<RunSummary, LabError> {
    let cells: Vec<CellKey> = plan.cells().collect();
    let title = run.study.title.clone();
    watch.event(Event::Begun {
        title: &title,
        dir: folder.dir(),
        cells: &cells,
        samples: plan.samples(),
        taken: taken_samples(&run, plan),
        expected: plan.expected(),
    });
    let mut bench = Bench {
        session: &session,
        plan,
        folder,
        run,
        watch,
    };
    let outcome = bench.measure();
    session.interrupts.shield();
    let Bench {
        mut run,
        folder,
        watch,
        ..
    } = bench;
    watch.event(Event::Ended);
    run.finished_unix_ms = time::unix_ms();
    run.interrupted = matches!(outcome, Err(LabError::Interrupted));
    if let Err(error) = outcome {
        if !run.cells.iter().any(|cell| cell.counted().next().is_some()) {
            folder.discard();
            return Err(error);
        }
        if !run.interrupted {
            run.warnings.push(format!(
                "The run broke off: {error}. What had been measured is kept; `overlane lab resume` goes on."
            ));
        }
    }
    for left in session.end() {
        run.warnings.push(format!(
            "Not undone: {left}. `overlane lab cleanup` tries again."
        ));
    }
    run.warnings.extend(noise::drift(&run.env.noise));
    let report = folder.finish(&run)?;
    let dir = folder.dir().to_owned();
    Ok(RunSummary { dir, report, run })
}

fn default_dir(study: &Study, started_unix_ms: u64) -> PathBuf {
    Path::new("results").join(format!(
        "{}-{}",
        time::utc_stamp(started_unix_ms),
        study.name
    ))
}

/// Samples that will not be taken again.
fn taken_samples(run: &Run, plan: &Plan) -> u64 {
    let of = |cell: &Cell| match cell.status {
        CellStatus::Open => {
            let known: BTreeSet<u32> = cell.counted().map(|sample| sample.round).collect();
            known.len() as u64
        }
        _ => u64::from(plan.samples_of(&cell.key) + 1),
    };
    run.cells.iter().map(of).sum()
}

/// A round in which some of the cells that take turns has a sample and another has none is measured anew by all: pairs are
/// taken in turn, not hours apart.
fn discard_broken_rounds(cells: &mut [Cell]) {
    let mut rounds = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.status == CellStatus::Open) {
        let known: BTreeSet<u32> = cell.counted().map(|sample| sample.round).collect();
        let all = rounds
            .entry(turn(&cell.key))
            .or_insert_with(|| known.clone());
        all.retain(|round| known.contains(round));
    }
    for cell in cells
        .iter_mut()
        .filter(|cell| cell.status == CellStatus::Open)
    {
        let complete = rounds.get(&turn(&cell.key));
        for sample in &mut cell.samples {
            let whole = complete.is_some_and(|rounds| rounds.contains(&sample.round));
            if sample.discarded.is_none() && !whole {
                sample.discarded = Some("the run was broken off in this round".to_owned());
            }
        }
    }
}

/// What the cells share that are sampled in turn.
fn turn(key: &CellKey) -> (Workload, Setting) {
    (key.group.workload, key.group.setting.place())
}

/// What is not as it was when the run began.
fn changes(run: &Run, here: &crate::record::Environment) -> Vec<String> {
    let then = &run.env;
    [
        ("kernel", &then.kernel, &here.kernel),
        ("CPU", &then.cpu_model, &here.cpu_model),
        (
            "overlane version",
            &then.overlane_version,
            &here.overlane_version,
        ),
    ]
    .into_iter()
    .filter(|(_, then, now)| then != now)
    .map(|(what, then, now)| {
        format!("The run went on with another {what}: {now} in place of {then}.")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    #[test]
    fn a_round_that_not_all_have_is_measured_again_by_all() {
        let mut cells = fixture::run().cells;
        let group = cells[0].key.group;
        cells.retain(|cell| cell.key.group == group && cell.counted().count() > 3);
        assert!(cells.len() > 1);
        for cell in &mut cells {
            cell.status = CellStatus::Open;
            cell.samples.retain(|sample| sample.round <= 3);
        }
        cells[0].samples.retain(|sample| sample.round <= 2);
        discard_broken_rounds(&mut cells);
        for cell in &cells {
            let rounds: Vec<u32> = cell.counted().map(|sample| sample.round).collect();
            assert_eq!(rounds, [1, 2], "{}", cell.key);
        }
        let kept = &cells[1].samples;
        assert!(
            kept.iter()
                .any(|sample| sample.round == 3 && sample.discarded.is_some()),
            "kept in the record"
        );
    }
}
