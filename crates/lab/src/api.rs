//! The calls of the laboratory, as the command line makes them.

use crate::error::LabError;
use crate::plan::{Plan, PlanSummary};
use crate::record::{BackendName, Family, GuestKind, Run};
use crate::results::{CompareReport, CompareRequest};
use crate::study::Study;
use crate::watch::Watch;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A study by its name, or by its file: what has a slash or ends in `.yaml` is a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StudyRef {
    /// One that ships.
    Shipped(String),
    /// The user's own.
    File(PathBuf),
}

impl From<&str> for StudyRef {
    fn from(text: &str) -> Self {
        if text.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml") {
            Self::File(text.into())
        } else {
            Self::Shipped(text.to_owned())
        }
    }
}

/// What the command line changes in a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The backends to compare, in place of the study's own.
    pub backends: Option<Vec<BackendName>>,
    /// Number of hosts everywhere.
    pub hosts: Option<u32>,
    /// Pairs of guests everywhere.
    pub pairs: Option<u32>,
    /// What the guests are, everywhere.
    pub guests: Option<Vec<GuestKind>>,
    /// Family of the guests' addresses everywhere.
    pub inner: Option<Family>,
    /// Family of the underlay everywhere.
    pub underlay: Option<Family>,
    /// Samples per cell.
    pub samples: Option<u32>,
    /// Length of a sample.
    pub seconds: Option<f64>,
    /// Each backend against itself.
    pub against_itself: bool,
}

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
pub fn run(request: RunRequest, watch: &mut dyn Watch) -> Result<RunSummary, LabError> {
    crate::run::run(&request, watch)
}

/// Goes on with a run that was broken off: what was measured stays, the rest is measured, into the same folder.
pub fn resume(dir: &Path, version: &str, watch: &mut dyn Watch) -> Result<RunSummary, LabError> {
    crate::run::resume(dir, version, watch)
}

/// Writes the report of a result folder anew; returns its page.
pub fn report(dir: &Path) -> Result<PathBuf, LabError> {
    crate::results::folder::render_again(dir)
}

/// The studies that ship.
pub fn list() -> Result<Vec<StudySummary>, LabError> {
    let studies = Study::all_shipped()?;
    Ok(studies.iter().map(StudySummary::of).collect())
}

/// Reads a study and says what is wrong with it: every mistake with its file, line, column, key and value, and
/// what would do.
pub fn check(study: &StudyRef) -> Result<StudySummary, LabError> {
    Study::load(study).map(|study| StudySummary::of(&study))
}

/// What a run would do: every cell in the order of work, with its expected time.
pub fn plan(request: &RunRequest) -> Result<PlanSummary, LabError> {
    let mut study = Study::load(&request.study)?;
    study.change(&request.overrides)?;
    Ok(PlanSummary::of(&study, request.quick))
}

impl StudySummary {
    fn of(study: &Study) -> Self {
        let (whole, quick) = (Plan::new(&study.matrix), Plan::new(&study.quick));
        Self {
            name: study.name.clone(),
            title: study.title.clone(),
            question: study.question.clone(),
            cells: whole.cells().count(),
            minutes: whole.expected().as_secs_f64() / 60.0,
            quick_cells: quick.cells().count(),
            quick_minutes: quick.expected().as_secs_f64() / 60.0,
        }
    }
}

/// Holds two result folders against each other, or two networks of one; nothing is measured.
pub fn compare(request: &CompareRequest) -> Result<CompareReport, LabError> {
    crate::results::compare::compare(request)
}

/// Looks at what this machine can run.
pub fn doctor() -> Result<Doctor, LabError> {
    crate::doctor::doctor()
}

/// Undoes what dead runs left behind.
pub fn cleanup() -> Result<CleanupReport, LabError> {
    crate::undo::cleanup()
}
