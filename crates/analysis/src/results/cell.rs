//! One cell with everything that follows from its samples.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cpu_split::CpuSplits;
use super::metric::Metric;
use crate::record::{Accounting, Bound, Cell, CellStatus, GroupKey, Run, SearchRecord};
use crate::stats::repeat::{self, SampleSet, SetState, ruled_by};
use crate::stats::{Summary, median};
use crate::study::Repeat;

/// A cell with its figures.
#[derive(Debug, Clone)]
pub struct CellFigures<'a> {
    /// The cell.
    pub cell: &'a Cell,
    figures: Vec<Option<Summary>>,
    /// Its samples as the rule `within` takes them together; empty under another rule.
    pub sets: Vec<SampleSet>,
    /// What the rule `confidence` reached; `None` under another rule.
    pub precision: Option<Precision>,
    /// The rule of the study was met; `None`: it has none, or the cell no samples.
    pub rule_met: Option<bool>,
    /// What the CPUs spent their time on; `None` with less than 4 s of windows.
    pub cpu_split: Option<CpuSplits>,
    /// What the traffic tool reaches here without a network.
    pub reference: Option<f64>,
    /// What held the figure down, in most of the samples.
    pub bound: Bound,
    /// Latencies over all samples.
    pub latency: Option<LatencyCurve>,
    /// Where the packets of all samples stayed.
    pub accounting: Option<Accounting>,
}

/// What the rule `confidence` reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Precision {
    /// Whole width that was wanted, in per cent of the mean.
    pub wanted_percent: f64,
    /// Quantity → whole width of its 95 % interval in per cent of the mean; null where it has none.
    pub widths_percent: BTreeMap<&'static str, Option<f64>>,
}

/// Latencies by percentile, as medians over the samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyCurve {
    /// One way, not a round trip.
    pub one_way: bool,
    /// How many were measured in all samples together.
    pub count: u64,
    /// (per cent, µs), rising; the percentiles that all samples have.
    pub curve: Vec<(f64, f64)>,
}

impl<'a> CellFigures<'a> {
    pub(super) fn of(run: &Run, cell: &'a Cell) -> Self {
        let values = |metric: Metric| metric.row(cell).into_iter().map(|(_, value)| value);
        let figures = Metric::ALL.map(|metric| Summary::of(values(metric)));
        let mut out = Self {
            cell,
            figures: figures.into(),
            sets: Vec::new(),
            precision: None,
            rule_met: None,
            cpu_split: CpuSplits::of(&run.env, cell),
            reference: reference(run, cell.key.group),
            bound: bound(cell),
            latency: latency(cell),
            accounting: accounting(cell),
        };
        out.apply_rule(run.matrix().repeat);
        out
    }

    fn apply_rule(&mut self, rule: Option<Repeat>) {
        let test = self.cell.key.group.workload.test;
        match rule {
            Some(Repeat::Within { set, percent, .. }) => {
                self.sets = repeat::sets(&Metric::primary(test).row(self.cell), set, percent);
                let accepted = |s: &SampleSet| s.state == SetState::Accepted;
                self.rule_met = (!self.sets.is_empty()).then(|| self.sets.iter().any(accepted));
            }
            Some(Repeat::Confidence { width_percent, .. }) => {
                let measured = ruled_by(test)
                    .into_iter()
                    .filter_map(|metric| Some((metric.key(), self.get(metric)?)));
                let widths: BTreeMap<_, _> = measured
                    .map(|(key, summary)| (key, repeat::width_percent(&summary.samples)))
                    .collect();
                let narrow = |width: &Option<f64>| width.is_some_and(|w| w <= width_percent);
                self.rule_met = (!widths.is_empty()).then(|| widths.values().all(narrow));
                self.precision = Some(Precision {
                    wanted_percent: width_percent,
                    widths_percent: widths,
                });
            }
            None => {}
        }
    }

    /// The figure of one metric; `None` when it was not measured.
    pub fn get(&self, metric: Metric) -> Option<&Summary> {
        let position = Metric::ALL.iter().position(|&m| m == metric)?;
        self.figures.get(position)?.as_ref()
    }

    /// The figure of the cell's test.
    pub fn primary(&self) -> Option<&Summary> {
        self.get(Metric::primary(self.cell.key.group.workload.test))
    }

    /// Its samples were taken.
    pub fn is_ok(&self) -> bool {
        self.cell.status == CellStatus::Ok
    }

    /// It has figures that may be compared: its samples were taken, or some were when the run was broken off.
    pub fn is_measured(&self) -> bool {
        is_measured(self.cell)
    }

    /// Samples that count.
    pub fn samples(&self) -> usize {
        self.cell.counted().count()
    }

    /// The searches of its samples, each with its round.
    pub fn searches(&self) -> impl Iterator<Item = (u32, &'a SearchRecord)> {
        self.cell
            .counted()
            .filter_map(|sample| Some((sample.round, sample.search.as_ref()?)))
    }

    /// The mean figure in per cent of what the traffic tool reaches alone.
    pub fn reference_percent(&self) -> Option<f64> {
        let percent = 100.0 * self.primary()?.mean / self.reference?;
        percent.is_finite().then_some(percent)
    }
}

pub(super) fn is_measured(cell: &Cell) -> bool {
    match cell.status {
        CellStatus::Ok => true,
        CellStatus::Open => cell.counted().next().is_some(),
        CellStatus::Unavailable { .. } | CellStatus::Failed { .. } => false,
    }
}

/// The tool alone is measured over one cable, whatever stands between the guests of the cell.
fn reference(run: &Run, group: GroupKey) -> Option<f64> {
    let place = |group: GroupKey| {
        let s = group.setting;
        (s.mtu_class, s.offload, s.inner, s.pairs, s.vnis)
    };
    let like = |other: GroupKey| other.workload == group.workload && place(other) == place(group);
    run.references
        .iter()
        .find(|reference| like(reference.group))
        .map(|reference| reference.value)
}

/// With as many samples either way, the one that warns more.
pub(super) fn bound(cell: &Cell) -> Bound {
    let count = |bound: Bound| cell.counted().filter(|s| s.bound == bound).count();
    Bound::ALL
        .into_iter()
        .max_by_key(|&bound| count(bound))
        .filter(|_| cell.counted().next().is_some())
        .unwrap_or_default()
}

fn latency(cell: &Cell) -> Option<LatencyCurve> {
    let all: Vec<_> = cell.counted().filter_map(|s| s.latency.as_ref()).collect();
    let first = all.first()?;
    let at = |percent: f64| -> Option<(f64, f64)> {
        let values: Option<Vec<f64>> = all
            .iter()
            .map(|l| l.curve.iter().find(|point| point.0 == percent).map(|p| p.1))
            .collect();
        Some((percent, median(&values?)?))
    };
    Some(LatencyCurve {
        one_way: first.one_way,
        count: all.iter().map(|l| l.count).sum(),
        curve: first.curve.iter().filter_map(|&(p, _)| at(p)).collect(),
    })
}

fn accounting(cell: &Cell) -> Option<Accounting> {
    let mut all = cell.counted().filter_map(|s| s.accounting.as_ref());
    let mut sum = all.next()?.clone();
    for one in all {
        sum.sent += one.sent;
        sum.received += one.received;
        for (name, count) in &one.lost {
            *sum.lost.entry(name.clone()).or_default() += count;
        }
        sum.unexplained += one.unexplained;
        sum.refused += one.refused;
        sum.not_sent += one.not_sent;
        sum.reordered += one.reordered;
        sum.duplicates += one.duplicates;
        sum.corrupt += one.corrupt;
    }
    Some(sum)
}
