//! A run from the study's file to the result folder, or from a result folder that was broken off to its end. What was
//! measured survives errors, signals and kills.

use crate::bench::Bench;
use crate::error::LabError;
use crate::machine::environment;
use crate::session::Session;
use crate::watch::{Event, Watch};
use overlane_analysis::AnalysisError;
use overlane_analysis::plan::Plan;
use overlane_analysis::record::{Cell, CellKey, CellStatus, Run, SCHEMA, Warning, rounds};
use overlane_analysis::results::folder::{self, Folder};
use overlane_analysis::study::{Overrides, Study, StudyRef};
use overlane_analysis::time;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What to run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The study.
    pub study: StudyRef,
    /// The quick matrix in place of the whole one.
    pub quick: bool,
    /// What else differs from the study's file.
    pub overrides: Overrides,
    /// The result folder; default `results/<UTC time>-<study>`.
    pub out: Option<PathBuf>,
    /// Version and source revision of the program, for the host record.
    pub version: String,
}

/// What a run left behind.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The result folder.
    pub dir: PathBuf,
    /// The page to open first.
    pub report: PathBuf,
    /// Everything that was recorded.
    pub run: Run,
}

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
        references: Vec::new(),
        idle: Vec::new(),
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
        return Err(AnalysisError::Complete {
            path: dir.to_owned(),
        }
        .into());
    }
    let session = Session::begin()?;
    let here = environment::record(&session.cpus, version);
    if (&here.host1_cpus, &here.host2_cpus) != (&run.env.host1_cpus, &run.env.host2_cpus) {
        return Err(LabError::Unable {
            reason: format!(
                "it ran with the hosts on CPUs {:?} and {:?}, which are {:?} and {:?} now; begin a new run",
                run.env.host1_cpus, run.env.host2_cpus, here.host1_cpus, here.host2_cpus
            ),
        });
    }
    run.warnings.extend(changes(&run, &here));
    run.warnings.push(Warning::WentOn {
        at_unix_ms: time::unix_ms(),
    });
    run.interrupted = true;
    rounds::discard_broken(&mut run.cells, &plan.turns());
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
        images: None,
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
            run.warnings.push(Warning::BrokeOff {
                reason: error.to_string(),
            });
        }
    }
    for left in session.end() {
        run.warnings.push(Warning::NotUndone {
            what: left.to_string(),
        });
    }
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

/// What is not as it was when the run began.
fn changes(run: &Run, here: &overlane_analysis::record::Environment) -> Vec<Warning> {
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
    .map(|(what, then, now)| Warning::Changed {
        what: what.to_owned(),
        then: then.clone(),
        now: now.clone(),
    })
    .collect()
}
