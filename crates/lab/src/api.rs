//! The four calls of the laboratory, as the command line makes them.

use crate::error::LabError;
use crate::plan::Plan;
use crate::record::{BackendName, Run};
use crate::study::Study;
use serde::Serialize;
use std::path::PathBuf;

/// How a run shows that it goes on; always on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A bar with the time that is left on a terminal, plain lines otherwise.
    #[default]
    Auto,
    /// Plain lines.
    Lines,
    /// Nothing.
    Off,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Name of the study.
    pub study: String,
    /// The quick matrix in place of the whole one.
    pub quick: bool,
    /// The backends to compare, in place of the study's own.
    pub backends: Option<Vec<BackendName>>,
    /// The result folder; default `results/<UTC time>-<study>`.
    pub out: Option<PathBuf>,
    /// How progress is shown.
    pub progress: Progress,
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

/// One line of `lab list`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudySummary {
    /// The name that `lab run` takes.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it answers.
    pub question: String,
    /// Cells of the whole matrix.
    pub cells: usize,
    /// Expected length of the whole matrix.
    pub minutes: f64,
    /// Cells of the quick matrix.
    pub quick_cells: usize,
    /// Expected length of the quick matrix.
    pub quick_minutes: f64,
}

/// How one thing that the laboratory needs stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoctorState {
    /// It is there.
    Ok,
    /// It is missing or limits the figures; the quick study runs without it.
    Limited,
    /// It is missing and the quick study cannot run.
    Missing,
}

/// One finding of `lab doctor`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DoctorItem {
    /// What was looked at, for example `backend ovs-vxlan`.
    pub what: String,
    /// How it stands.
    pub state: DoctorState,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty when nothing.
    pub help: String,
}

/// What this machine can run and why not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Doctor {
    /// All findings.
    pub items: Vec<DoctorItem>,
    /// The quick study can run here.
    pub quick_can_run: bool,
}

/// What `lab cleanup` removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CleanupReport {
    /// Dead runs whose journals were undone.
    pub runs: Vec<String>,
    /// What was removed, one line a thing.
    pub removed: Vec<String>,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
    /// A run that is alive and was left alone.
    pub active: Option<u32>,
}

/// Runs a study and writes its result folder.
pub fn run(request: RunRequest) -> Result<RunSummary, LabError> {
    crate::run::run(&request)
}

/// The studies that ship.
pub fn list() -> Result<Vec<StudySummary>, LabError> {
    let summary = |study: Study| {
        let (whole, quick) = (Plan::new(&study.matrix), Plan::new(&study.quick));
        StudySummary {
            name: study.name,
            title: study.title,
            question: study.question,
            cells: whole.cells().count(),
            minutes: whole.expected().as_secs_f64() / 60.0,
            quick_cells: quick.cells().count(),
            quick_minutes: quick.expected().as_secs_f64() / 60.0,
        }
    };
    Ok(Study::all_shipped()?.into_iter().map(summary).collect())
}

/// Looks at what this machine can run.
pub fn doctor() -> Result<Doctor, LabError> {
    crate::doctor::doctor()
}

/// Undoes what dead runs left behind.
pub fn cleanup() -> Result<CleanupReport, LabError> {
    crate::undo::cleanup()
}
