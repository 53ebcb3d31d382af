//! Two results held against each other, or two networks within one: has something become worse?
//!
//! The candidate is held against the baseline, cell by cell, by the figure of each cell's test and by its cost in CPU. Cells of
//! one run that were sampled in turn are compared in pairs and have verdicts, judged together. Those of two runs never are: what
//! changed between the runs besides the network (the machine, its load, its kernel) is in the ratio, so there is no verdict.
//! [`machines`] names what can be seen of it.
//!
//! A regression is a cell whose whole interval lies beyond the threshold. So noise alone seldom is one, and what the machine may
//! change from run to run is the threshold's business.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Axis;
use super::families::{judge_together, resolution_percent};
use super::machines;
use super::network::{Network, check, sides};
use super::pairs::{Pair, pairs};
use super::run::{Compared, cells, in_turn};
use crate::error::AnalysisError;
use crate::record::{Bound, Cell, CellKey, Run};
use crate::results::cell::{bound, is_measured};
use crate::results::folder;
use crate::results::json::status;
use crate::results::metric::Metric;
use crate::stats::{self, Better, Comparison, Method, SIGNIFICANCE, Verdict, Why};

/// What to compare: two result folders, or two networks.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareRequest {
    /// The baseline's result folder.
    pub a: PathBuf,
    /// The candidate's result folder; `None`: the same.
    pub b: Option<PathBuf>,
    /// (baseline, candidate): these networks' cells, group by group; `None`: the same cells of both folders.
    /// Where one of them names a feature, the other one is as it comes unless it names one too.
    pub networks: Option<(Network, Network)>,
    /// By how many per cent a cell has to be worse at least, its whole interval long, to be a regression.
    pub threshold_percent: f64,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The result folder.
    pub dir: PathBuf,
    /// The study.
    pub study: String,
    /// The network; null: every one.
    pub network: Option<Network>,
    /// Start of the run, in ms since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Version of the program that measured.
    pub overlane_version: String,
    /// The command that repeats the run.
    pub command: String,
}

/// One cell of each side by one quantity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareRow {
    /// The cell in words; of two networks, what their cells share.
    pub name: String,
    /// The baseline's cell.
    pub cell_a: CellKey,
    /// The candidate's cell.
    pub cell_b: CellKey,
    /// The quantity, a key of `result.json`.
    pub metric: &'static str,
    /// Which way it is better.
    pub better: Better,
    /// The quantity is the figure of the test, not its cost.
    pub primary: bool,
    /// Mean of the baseline.
    pub mean_a: Option<f64>,
    /// Mean of the candidate.
    pub mean_b: Option<f64>,
    /// How ratio and interval were computed.
    pub method: Method,
    /// Rounds in which both sides have a sample; 0 between two runs.
    pub pairs: usize,
    /// Median ratio, candidate / baseline.
    pub median_ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    /// p-value of the permutation test; null between two runs.
    pub p: Option<f64>,
    /// The same, adjusted for all rows.
    pub q: Option<f64>,
    /// The candidate against the baseline; between two runs there is none.
    pub verdict: Verdict,
    /// Why there is no verdict, in words; null with one.
    pub reason: Option<&'static str>,
    /// The whole interval lies beyond the threshold, on the side that is worse.
    pub regression: bool,
}

/// A cell that one side has and the other has not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissingCell {
    /// The cell in words.
    pub name: String,
    /// `baseline` or `candidate`: where it is missing.
    pub side: &'static str,
    /// Why.
    pub reason: String,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareReport {
    /// The baseline.
    pub a: Side,
    /// The candidate.
    pub b: Side,
    /// From how many per cent on a cell that is worse is a regression.
    pub threshold_percent: f64,
    /// Every cell that both have, by figure and by cost, in the order of the baseline's plan.
    pub rows: Vec<CompareRow>,
    /// Cells that one side alone has measured.
    pub missing: Vec<MissingCell>,
    /// Cells that neither side has measured.
    pub unmeasured: Vec<String>,
    /// What a reader has to know before believing the ratios.
    pub warnings: Vec<String>,
    /// Rows that are regressions.
    pub regressions: usize,
    /// There is a regression, or a cell is missing.
    pub failed: bool,
}

/// Compares two result folders, or two networks.
pub fn compare(request: &CompareRequest) -> Result<CompareReport, AnalysisError> {
    let threshold = request.threshold_percent;
    if !(threshold.is_finite() && threshold >= 0.0) {
        return Err(AnalysisError::NotComparable {
            reason: format!("a threshold of {threshold} % is none; give 0 or more per cent"),
        });
    }
    let request = &CompareRequest {
        networks: request.networks.map(sides),
        ..request.clone()
    };
    let same = request.b.as_ref().is_none_or(|b| is_same(b, &request.a));
    let baseline = folder::load(&request.a)?;
    if same {
        let Some((a, b)) = request.networks else {
            return Err(AnalysisError::NotComparable {
                reason: "give two result folders, or one and two networks".to_owned(),
            });
        };
        check(&baseline, a)?;
        check(&baseline, b)?;
        return report(request, &baseline, None);
    }
    let candidate = folder::load(request.b.as_deref().unwrap_or(&request.a))?;
    if let Some((a, b)) = request.networks {
        check(&baseline, a)?;
        check(&candidate, b)?;
    }
    report(request, &baseline, Some(&candidate))
}

fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// `candidate` is `None` where both sides are of one run.
fn report(
    request: &CompareRequest,
    baseline: &Run,
    candidate: Option<&Run>,
) -> Result<CompareReport, AnalysisError> {
    let threshold = request.threshold_percent;
    let other = candidate.unwrap_or(baseline);
    let mut report = CompareReport {
        a: side(baseline, &request.a, request.networks.map(|n| n.0)),
        b: side(
            other,
            request.b.as_ref().unwrap_or(&request.a),
            request.networks.map(|n| n.1),
        ),
        threshold_percent: threshold,
        rows: Vec::new(),
        missing: Vec::new(),
        unmeasured: Vec::new(),
        warnings: candidate.map_or_else(
            || machines::of_one(baseline),
            |candidate| machines::differences(baseline, candidate),
        ),
        regressions: 0,
        failed: false,
    };
    let mut rows = Vec::new();
    for pair in pairs(baseline, candidate, request.networks) {
        rows.extend(compare_cells(&pair, candidate.is_none(), &mut report));
    }
    let bound = |key: CellKey| {
        let mut cells = baseline.cells.iter();
        cells
            .find(|cell| cell.key == key)
            .map_or(Bound::default(), bound)
    };
    let (names, mut compared): (Vec<String>, Vec<Compared>) = rows.into_iter().unzip();
    if candidate.is_none() {
        judge_together(&mut compared, bound, resolution_percent(baseline));
    }
    let unsure = compared
        .iter()
        .filter(|one| one.result.ci95.is_none())
        .count();
    if unsure > 0 {
        report.warnings.push(format!(
            "{unsure} rows have too few samples for an interval: they can be no regression."
        ));
    }
    let figures = |key: CellKey, run: &Run, metric: Metric| {
        let cell = run.cells.iter().find(|cell| cell.key == key)?;
        stats::mean(
            &metric
                .row(cell)
                .into_iter()
                .map(|(_, v)| v)
                .collect::<Vec<_>>(),
        )
    };
    for (name, one) in names.into_iter().zip(compared) {
        let means = (
            figures(one.b, baseline, one.metric),
            figures(one.a, other, one.metric),
        );
        report.rows.push(row(name, &one, means, threshold));
    }
    if report.rows.is_empty() && report.missing.is_empty() {
        return Err(AnalysisError::NotComparable {
            reason: "there is no cell that either side has measured".to_owned(),
        });
    }
    report.regressions = report.rows.iter().filter(|row| row.regression).count();
    report.failed = report.regressions > 0 || !report.missing.is_empty();
    Ok(report)
}

fn side(run: &Run, dir: &Path, network: Option<Network>) -> Side {
    Side {
        dir: dir.to_owned(),
        study: run.study.name.clone(),
        network,
        started_unix_ms: run.started_unix_ms,
        overlane_version: run.env.overlane_version.clone(),
        command: run.env.command.clone(),
    }
}

/// The rows of two cells that belong together, with their name; what one side lacks goes into the report.
fn compare_cells(
    pair: &Pair<'_>,
    one_run: bool,
    report: &mut CompareReport,
) -> Vec<(String, Compared)> {
    let (a, b) = (
        pair.a.filter(|c| is_measured(c)),
        pair.b.filter(|c| is_measured(c)),
    );
    let missing = |side, cell: Option<&Cell>| MissingCell {
        name: pair.name.clone(),
        side,
        reason: why(cell),
    };
    match (a, b) {
        (Some(a), Some(b)) => {
            let test = a.key.group.workload.test;
            let in_turn = one_run && in_turn(a, b);
            let of = |metric| cells(Axis::Backend, b, a, metric, in_turn);
            let metrics = [Metric::primary(test), Metric::cost(test)].into_iter();
            return metrics
                .filter_map(of)
                .map(|one| (pair.name.clone(), one))
                .collect();
        }
        (Some(_), None) => report.missing.push(missing("candidate", pair.b)),
        (None, Some(_)) => report.missing.push(missing("baseline", pair.a)),
        (None, None) => report.unmeasured.push(pair.name.clone()),
    }
    Vec::new()
}

fn why(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "not in its plan".to_owned();
    };
    match status(&cell.status) {
        (word, Some(reason)) => format!("{word}: {reason}"),
        (_, None) => "not measured before the run was broken off".to_owned(),
    }
}

/// `one` is the candidate's cell against the baseline's.
fn row(
    name: String,
    one: &Compared,
    (mean_a, mean_b): (Option<f64>, Option<f64>),
    threshold: f64,
) -> CompareRow {
    let found = &one.result;
    CompareRow {
        name,
        cell_a: one.b,
        cell_b: one.a,
        metric: one.metric.key(),
        better: found.better,
        primary: one.metric == Metric::primary(one.a.group.workload.test),
        mean_a,
        mean_b,
        regression: is_regression(found, threshold),
        method: found.method,
        pairs: found.pairs,
        median_ratio: found.ratio,
        ci95: found.ci95,
        p: found.p,
        q: found.q,
        verdict: found.verdict,
        reason: found.reason.map(Why::words),
    }
}

/// The whole interval is worse by more than the threshold. In pairs, chance is ruled out for all rows together besides.
fn is_regression(found: &Comparison, threshold_percent: f64) -> bool {
    let least_loss = found.ci95.map(|[low, high]| match found.better {
        Better::Higher => 1.0 - high,
        Better::Lower => low - 1.0,
    });
    least_loss.is_some_and(|loss| 100.0 * loss > threshold_percent)
        && (found.method == Method::Unpaired || found.q.is_some_and(|q| q <= SIGNIFICANCE))
}
