//! The calls of the laboratory, as the command line makes them.

use crate::error::LabError;
use crate::watch::Watch;
use overlane_analysis::record::Run;
use overlane_analysis::study::{Overrides, StudyRef};
use serde::Serialize;
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

/// Looks at what this machine can run.
pub fn doctor() -> Result<Doctor, LabError> {
    crate::machine::doctor::doctor()
}

/// Undoes what dead runs left behind.
pub fn cleanup() -> Result<CleanupReport, LabError> {
    crate::session::undo::cleanup()
}
