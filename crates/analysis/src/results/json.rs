//! The shape of `result.json`, documented in `docs/lab-method.md` and checked against `docs/result.schema.json`.
//!
//! serde_json writes a number that is not finite as null; [`Summary`](crate::stats::Summary) holds finite ones only.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::analysis::{Analysis, Discarded};
use super::cell::{CellFigures, LatencyCurve, Precision};
use super::compare::run::Compared;
use super::compare::{Axis, Question, resolution_percent};
use super::cpu_split::CpuSplits;
use super::metric::Metric;
use crate::record::{
    Accounting, Asymmetry, Bound, CellKey, CellStatus, Environment, GroupKey, PathSizes, Reference,
    Sample, Warning,
};
use crate::report::Answer;
use crate::search::GoalResult;
use crate::stats::repeat::SampleSet;
use crate::stats::{Better, Method, Verdict};
use crate::study::{Repeat, Study};

/// `result.json`.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'a str,
    study: &'a str,
    title: &'a str,
    quick: bool,
    interrupted: bool,
    answer: Answer,
    started_unix_ms: u64,
    finished_unix_ms: u64,
    planned_samples: u32,
    planned_seconds: f64,
    repeat: Option<Repeat>,
    resolution_percent: f64,
    command: &'a str,
    env: &'a Environment,
    references: &'a [Reference],
    cells: Vec<CellEntry<'a>>,
    comparisons: Vec<ComparisonEntry>,
    warnings: Vec<WarningEntry<'a>>,
    discarded: Vec<DiscardedEntry>,
    definition: &'a Study,
}

#[derive(Debug, Serialize)]
struct WarningEntry<'a> {
    #[serde(flatten)]
    warning: &'a Warning,
    text: String,
}

#[derive(Debug, Serialize)]
struct AsymmetryEntry {
    #[serde(flatten)]
    asymmetry: Asymmetry,
    text: String,
}

#[derive(Debug, Serialize)]
struct SizesEntry {
    #[serde(flatten)]
    sizes: PathSizes,
    largest_guest_mtu: u32,
    verdict: String,
}

#[derive(Debug, Serialize)]
struct CellEntry<'a> {
    name: String,
    #[serde(flatten)]
    key: CellKey,
    mtu: u32,
    status: &'static str,
    reason: Option<&'a str>,
    path_proof: bool,
    proof: &'a str,
    notes: &'a [String],
    asymmetries: Vec<AsymmetryEntry>,
    path_sizes: Option<SizesEntry>,
    samples: usize,
    figures: Figures<'a>,
    bound: Bound,
    reference: Option<f64>,
    reference_percent: Option<f64>,
    rule_met: Option<bool>,
    sets: &'a [SampleSet],
    precision: Option<&'a Precision>,
    latency: Option<&'a LatencyCurve>,
    accounting: Option<&'a Accounting>,
    searches: Vec<SearchEntry<'a>>,
    cpu_split: Option<&'a CpuSplits>,
}

/// Key → summary of every metric, null where it was not measured.
#[derive(Debug)]
struct Figures<'a>(&'a CellFigures<'a>);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(Metric::ALL.len()))?;
        for metric in Metric::ALL {
            map.serialize_entry(metric.key(), &self.0.get(metric))?;
        }
        map.end()
    }
}

#[derive(Debug, Serialize)]
struct SearchEntry<'a> {
    round: u32,
    trials: usize,
    goals: &'a [GoalResult],
}

#[derive(Debug, Serialize)]
struct ComparisonEntry {
    axis: Axis,
    group: GroupKey,
    metric: &'static str,
    better: Better,
    a: String,
    b: String,
    cell_a: CellKey,
    cell_b: CellKey,
    method: Method,
    pairs: usize,
    median_ratio: Option<f64>,
    ci95: Option<[f64; 2]>,
    median_difference: Option<f64>,
    difference_ci95: Option<[f64; 2]>,
    p: Option<f64>,
    q: Option<f64>,
    question: Question,
    counted: bool,
    verdict: Verdict,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct DiscardedEntry {
    cell: CellKey,
    round: u32,
    started_unix_ms: u64,
    value: Option<f64>,
    reason: String,
}

impl<'a> Document<'a> {
    /// The document of an analysed run.
    pub(super) fn of(analysis: &'a Analysis<'a>) -> Self {
        let run = analysis.run;
        let (cells, comparisons) = (analysis.cells.iter(), analysis.comparisons.iter());
        Self {
            schema: &run.schema,
            study: &run.study.name,
            title: &run.study.title,
            quick: run.quick,
            interrupted: run.interrupted,
            answer: Answer::of(analysis),
            started_unix_ms: run.started_unix_ms,
            finished_unix_ms: run.finished_unix_ms,
            planned_samples: run.matrix().samples,
            planned_seconds: run.matrix().seconds,
            repeat: run.matrix().repeat,
            resolution_percent: resolution_percent(run),
            command: &run.env.command,
            env: &run.env,
            references: &run.references,
            cells: cells.map(CellEntry::of).collect(),
            comparisons: comparisons.map(ComparisonEntry::of).collect(),
            warnings: analysis.warnings.iter().map(WarningEntry::of).collect(),
            discarded: analysis.discarded.iter().map(DiscardedEntry::of).collect(),
            definition: &run.study,
        }
    }
}

impl<'a> CellEntry<'a> {
    fn of(figures: &'a CellFigures<'a>) -> Self {
        let cell = figures.cell;
        let (status, reason) = status(&cell.status);
        let search = |(round, record): (u32, &'a crate::record::SearchRecord)| SearchEntry {
            round,
            trials: record.outcome.trials.len(),
            goals: &record.outcome.goals,
        };
        Self {
            name: cell.key.to_string(),
            key: cell.key,
            mtu: cell.key.mtu(),
            status,
            reason,
            path_proof: cell.path_proof,
            proof: &cell.proof_detail,
            notes: &cell.notes,
            asymmetries: cell.asymmetries.iter().map(AsymmetryEntry::of).collect(),
            path_sizes: cell.path_sizes.map(SizesEntry::of),
            samples: figures.samples(),
            figures: Figures(figures),
            bound: figures.bound,
            reference: figures.reference,
            reference_percent: figures.reference_percent(),
            rule_met: figures.rule_met,
            sets: &figures.sets,
            precision: figures.precision.as_ref(),
            latency: figures.latency.as_ref(),
            accounting: figures.accounting.as_ref(),
            searches: figures.searches().map(search).collect(),
            cpu_split: figures.cpu_split.as_ref(),
        }
    }
}

impl SizesEntry {
    fn of(sizes: PathSizes) -> Self {
        Self {
            sizes,
            largest_guest_mtu: sizes.largest_guest_mtu(),
            verdict: sizes.agreement().words(),
        }
    }
}

impl AsymmetryEntry {
    fn of(asymmetry: &Asymmetry) -> Self {
        Self {
            asymmetry: *asymmetry,
            text: asymmetry.words(),
        }
    }
}

impl<'a> WarningEntry<'a> {
    fn of(warning: &'a Warning) -> Self {
        let text = warning.to_string();
        Self { warning, text }
    }
}

impl ComparisonEntry {
    fn of(compared: &Compared) -> Self {
        // Between networks the name says which cell of the group; along the other axes it does not.
        let name = |key: &CellKey| match compared.axis {
            Axis::Backend | Axis::Itself => key.network(),
            _ => key.to_string(),
        };
        let result = &compared.result;
        Self {
            axis: compared.axis,
            group: compared.a.group,
            metric: compared.metric.key(),
            better: compared.metric.better(),
            a: name(&compared.a),
            b: name(&compared.b),
            cell_a: compared.a,
            cell_b: compared.b,
            method: result.method,
            pairs: result.pairs,
            median_ratio: result.ratio,
            ci95: result.ci95,
            median_difference: result.difference,
            difference_ci95: result.difference_ci95,
            p: result.p,
            q: result.q,
            question: compared.question,
            counted: compared.counted,
            verdict: result.verdict,
            reason: compared.reason(),
        }
    }
}

impl DiscardedEntry {
    fn of(discarded: &Discarded<'_>) -> Self {
        let sample: &Sample = discarded.sample;
        Self {
            cell: sample.cell,
            round: sample.round,
            started_unix_ms: sample.started_unix_ms,
            value: Metric::primary(sample.cell.group.workload.test).of(sample),
            reason: discarded.reason.to_string(),
        }
    }
}

/// (`status`, `reason`) of a cell as all result files name them.
pub fn status(status: &CellStatus) -> (&'static str, Option<&str>) {
    match status {
        CellStatus::Ok => ("ok", None),
        CellStatus::Open => ("open", None),
        CellStatus::Unavailable { reason } => ("unavailable", Some(reason)),
        CellStatus::Failed { reason } => ("failed", Some(reason)),
    }
}
