//! The shape of `result.json`, documented in `docs/lab-method.md`.
//!
//! serde_json writes a number that is not finite as null; [`Summary`] holds finite ones only.

use serde::Serialize;

use crate::record::{CellKey, CellStatus, Environment, GroupKey, Study};
use crate::stats::{Better, Method, Summary, Verdict};

use super::analysis::{Analysis, CellFigures, Metric};
use super::comparisons::{Axis, Compared};

/// `result.json`.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'a str,
    study: &'a str,
    title: &'a str,
    quick: bool,
    interrupted: bool,
    started_unix_ms: u64,
    finished_unix_ms: u64,
    planned_samples: u32,
    planned_seconds: f64,
    command: &'a str,
    env: &'a Environment,
    cells: Vec<CellEntry<'a>>,
    comparisons: Vec<ComparisonEntry>,
    warnings: &'a [String],
    discarded: Vec<DiscardedEntry<'a>>,
    definition: &'a Study,
}

#[derive(Debug, Serialize)]
struct CellEntry<'a> {
    #[serde(flatten)]
    key: CellKey,
    status: &'static str,
    reason: Option<&'a str>,
    path_proof: bool,
    proof: &'a str,
    notes: &'a [String],
    goodput_gbps: Option<&'a Summary>,
    cpu_percent_per_gbps: Option<&'a Summary>,
    cpu_percent_per_gbps_sender: Option<&'a Summary>,
    cpu_percent_per_gbps_receiver: Option<&'a Summary>,
    cpu_percent_sender: Option<&'a Summary>,
    cpu_percent_receiver: Option<&'a Summary>,
    cpu_percent_total: Option<&'a Summary>,
    underlay_rate_pps: Option<&'a Summary>,
    underlay_packet_bytes: Option<&'a Summary>,
    retransmits: Option<&'a Summary>,
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
    verdict: Verdict,
}

#[derive(Debug, Serialize)]
struct DiscardedEntry<'a> {
    cell: CellKey,
    round: u32,
    started_unix_ms: u64,
    goodput_gbps: f64,
    reason: &'a str,
}

impl<'a> Document<'a> {
    /// The document of an analysed run.
    pub(super) fn of(analysis: &'a Analysis<'a>) -> Self {
        let run = analysis.run;
        Self {
            schema: &run.schema,
            study: &run.study.name,
            title: &run.study.title,
            quick: run.quick,
            interrupted: run.interrupted,
            started_unix_ms: run.started_unix_ms,
            finished_unix_ms: run.finished_unix_ms,
            planned_samples: run.planned_samples,
            planned_seconds: run.planned_seconds,
            command: &run.env.command,
            env: &run.env,
            cells: analysis.cells.iter().map(CellEntry::of).collect(),
            comparisons: analysis
                .comparisons
                .iter()
                .map(ComparisonEntry::of)
                .collect(),
            warnings: &analysis.warnings,
            discarded: analysis
                .discarded
                .iter()
                .map(|d| DiscardedEntry {
                    cell: d.sample.cell,
                    round: d.sample.round,
                    started_unix_ms: d.sample.started_unix_ms,
                    goodput_gbps: d.sample.goodput_gbps,
                    reason: d.reason,
                })
                .collect(),
            definition: &run.study,
        }
    }
}

impl<'a> CellEntry<'a> {
    fn of(figures: &'a CellFigures<'a>) -> Self {
        let cell = figures.cell;
        let (status, reason) = status(&cell.status);
        Self {
            key: cell.key,
            status,
            reason,
            path_proof: cell.path_proof,
            proof: &cell.proof_detail,
            notes: &cell.notes,
            goodput_gbps: figures.get(Metric::Goodput),
            cpu_percent_per_gbps: figures.get(Metric::CpuPerGbps),
            cpu_percent_per_gbps_sender: figures.get(Metric::CpuPerGbpsSender),
            cpu_percent_per_gbps_receiver: figures.get(Metric::CpuPerGbpsReceiver),
            cpu_percent_sender: figures.get(Metric::CpuSender),
            cpu_percent_receiver: figures.get(Metric::CpuReceiver),
            cpu_percent_total: figures.get(Metric::CpuTotal),
            underlay_rate_pps: figures.get(Metric::UnderlayRate),
            underlay_packet_bytes: figures.get(Metric::UnderlayPacket),
            retransmits: figures.get(Metric::Retransmits),
        }
    }
}

impl ComparisonEntry {
    fn of(compared: &Compared) -> Self {
        // Between backends the name says which cell of the group; along the other axes it does not.
        let name = |key: &CellKey| match compared.axis {
            Axis::Backend => key.backend.to_string(),
            _ => key.to_string(),
        };
        let result = &compared.result;
        Self {
            axis: compared.axis,
            group: compared.a.group(),
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
            verdict: result.verdict,
        }
    }
}

/// (`status`, `reason`) of a cell as all result files name them.
pub(crate) fn status(status: &CellStatus) -> (&'static str, Option<&str>) {
    match status {
        CellStatus::Ok => ("ok", None),
        CellStatus::Unavailable { reason } => ("unavailable", Some(reason)),
        CellStatus::Failed { reason } => ("failed", Some(reason)),
    }
}
