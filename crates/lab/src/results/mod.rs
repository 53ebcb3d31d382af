//! The result folder: everything that a reader, a script or a later comparison needs of one run.
//!
//! ```text
//! record::Run ──► Analysis (figures, comparisons, warnings) ──► result.json  samples.ndjson  env.json
//!                                                          └──► report: report.html  report.md  cells.csv
//! ```
//!
//! A folder is either complete or not there: it is written beside its place and renamed into it.

mod analysis;
mod comparisons;
mod json;
mod warnings;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use analysis::{Analysis, CellFigures, Discarded, Metric};
pub use comparisons::{Axis, Compared};
pub(crate) use json::status;
pub(crate) use warnings::label;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::LabError;
use crate::record::Run;
use crate::report;

/// The page to open first.
const REPORT: &str = "report.html";

/// Writes the result folder and returns its report.
///
/// A folder that is not there, or empty, appears complete in one rename. In one that has content
/// each file is replaced by a rename of its own and what else lies there is left alone.
pub fn write(run: &Run, dir: &Path) -> Result<PathBuf, LabError> {
    let files = render(run, dir)?;
    let parent = dir
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(LabError::io("creating", parent))?;
    let staging = staging(dir);
    remove_if_there(&staging)?;
    let outcome = stage(&files, &staging).and_then(|()| place(&files, &staging, dir));
    if outcome.is_err() {
        // The first error is the one that matters; what is left over carries its own name.
        let _ = fs::remove_dir_all(&staging);
    }
    outcome.map(|()| dir.join(REPORT))
}

/// Name → content of every file.
fn render(run: &Run, dir: &Path) -> Result<Vec<(&'static str, String)>, LabError> {
    let analysis = Analysis::of(run);
    Ok(vec![
        (
            "result.json",
            pretty(&json::Document::of(&analysis), &dir.join("result.json"))?,
        ),
        ("samples.ndjson", lines(run, &dir.join("samples.ndjson"))?),
        ("env.json", pretty(&run.env, &dir.join("env.json"))?),
        (REPORT, report::html(&analysis)),
        ("report.md", report::markdown(&analysis)),
        ("cells.csv", report::csv(&analysis)),
    ])
}

fn pretty(value: &impl Serialize, path: &Path) -> Result<String, LabError> {
    let text = serde_json::to_string_pretty(value).map_err(LabError::json("writing", path))?;
    Ok(text + "\n")
}

/// One line per sample, the discarded ones among them, in the order of time.
fn lines(run: &Run, path: &Path) -> Result<String, LabError> {
    let mut samples: Vec<_> = run.cells.iter().flat_map(|cell| &cell.samples).collect();
    samples.sort_by_key(|sample| sample.started_unix_ms);
    let mut text = String::new();
    for sample in samples {
        text += &serde_json::to_string(sample).map_err(LabError::json("writing", path))?;
        text.push('\n');
    }
    Ok(text)
}

/// Where the folder is put together: beside its place, so that the rename stays on one file system.
fn staging(dir: &Path) -> PathBuf {
    let name = dir
        .file_name()
        .unwrap_or("result".as_ref())
        .to_string_lossy();
    dir.with_file_name(format!(".{name}.partial-{}", std::process::id()))
}

fn remove_if_there(path: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::io("removing", path)(error))
        }
        _ => Ok(()),
    }
}

fn stage(files: &[(&'static str, String)], staging: &Path) -> Result<(), LabError> {
    fs::create_dir(staging).map_err(LabError::io("creating", staging))?;
    for (name, content) in files {
        let path = staging.join(name);
        let mut file = File::create(&path).map_err(LabError::io("creating", &path))?;
        file.write_all(content.as_bytes())
            .map_err(LabError::io("writing", &path))?;
        file.sync_all().map_err(LabError::io("writing", &path))?;
    }
    Ok(())
}

fn place(files: &[(&'static str, String)], staging: &Path, dir: &Path) -> Result<(), LabError> {
    // rename(2) puts a folder in the place of an empty one; it refuses one with content, and `.`.
    match fs::rename(staging, dir) {
        Err(_) if dir.is_dir() => {}
        other => return other.map_err(LabError::io("creating", dir)),
    }
    for (name, _) in files {
        let path = dir.join(name);
        fs::rename(staging.join(name), &path).map_err(LabError::io("writing", &path))?;
    }
    fs::remove_dir(staging).map_err(LabError::io("removing", staging))
}
