//! The result folder: everything that a reader, a script or a later comparison needs of one run.
//!
//! ```text
//! record::Run ──► Analysis (figures, comparisons, warnings) ──► result.json  samples.ndjson  env.json
//!                                                          └──► report: report.html  report.md  cells.csv
//! ```
//!
//! [`folder`] writes and reads it; [`compare`] says what is better.

mod analysis;
mod cell;
pub mod compare;
mod cpu_split;
pub mod folder;
mod foreign;
mod json;
mod metric;
mod warnings;

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;

pub use analysis::{Analysis, Discarded};
pub use cell::{CellFigures, LatencyCurve, Precision};
pub use compare::{Axis, Compared, Question, resolution_percent};
pub use cpu_split::{CpuSplit, CpuSplits, LEAST_SECONDS, Split};
pub use foreign::ForeignLoad;
pub use json::status;
pub use metric::Metric;

use std::path::Path;

use serde::Serialize;

use crate::error::AnalysisError;
use crate::record::Run;
use crate::report;

/// Name → content of every file that follows from the record.
fn render(run: &Run, dir: &Path) -> Result<Vec<(&'static str, String)>, AnalysisError> {
    let analysis = Analysis::of(run);
    Ok(vec![
        (
            "result.json",
            pretty(&json::Document::of(&analysis), &dir.join("result.json"))?,
        ),
        ("env.json", pretty(&run.env, &dir.join("env.json"))?),
        ("report.html", report::html(&analysis)),
        ("report.md", report::markdown(&analysis)),
        ("cells.csv", report::csv(&analysis)),
    ])
}

fn pretty(value: &impl Serialize, path: &Path) -> Result<String, AnalysisError> {
    let text = serde_json::to_string_pretty(value).map_err(AnalysisError::json("writing", path))?;
    Ok(text + "\n")
}
