//! The calls of the laboratory, as the command line makes them.

use crate::doctor::Doctor;
use crate::error::LabError;
use crate::run::{RunRequest, RunSummary};
use crate::session::undo::CleanupReport;
use crate::watch::Watch;
use std::path::Path;

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
    crate::doctor::doctor()
}

/// Undoes what dead runs left behind.
pub fn cleanup() -> Result<CleanupReport, LabError> {
    crate::session::undo::cleanup()
}
