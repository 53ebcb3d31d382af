//! What a run says once its samples are summed up: the one place where figures of a cell are computed.
//!
//! `result.json`, the report and the tables all print what stands here, so they cannot disagree.

use crate::record::{BackendName, Cell, CellKey, CellStatus, GroupKey, Run, Sample};
use crate::stats::{Better, Summary};

use super::comparisons::{Compared, all as all_comparisons};
use super::warnings;

/// One figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// TCP payload that reached the receiver.
    Goodput,
    /// CPU % per Gbit/s, both hosts together.
    CpuPerGbps,
    /// CPU % per Gbit/s of the sending host.
    CpuPerGbpsSender,
    /// CPU % per Gbit/s of the receiving host.
    CpuPerGbpsReceiver,
    /// Busy CPU % of the sending host.
    CpuSender,
    /// Busy CPU % of the receiving host.
    CpuReceiver,
    /// Busy CPU % of both hosts.
    CpuTotal,
    /// Packets per second on the underlay.
    UnderlayRate,
    /// Mean size of a packet on the underlay.
    UnderlayPacket,
    /// TCP segments sent again, in one sample.
    Retransmits,
}

impl Metric {
    /// What the tables of cells show, in this order.
    pub(crate) const COLUMNS: [Self; 7] = [
        Self::Goodput,
        Self::CpuPerGbps,
        Self::CpuSender,
        Self::CpuReceiver,
        Self::UnderlayRate,
        Self::UnderlayPacket,
        Self::Retransmits,
    ];

    /// Every metric, in the order of `result.json`.
    pub const ALL: [Self; 10] = [
        Self::Goodput,
        Self::CpuPerGbps,
        Self::CpuPerGbpsSender,
        Self::CpuPerGbpsReceiver,
        Self::CpuSender,
        Self::CpuReceiver,
        Self::CpuTotal,
        Self::UnderlayRate,
        Self::UnderlayPacket,
        Self::Retransmits,
    ];

    /// The metrics that cells are compared by.
    pub const COMPARED: [Self; 2] = [Self::Goodput, Self::CpuPerGbps];

    /// Its key in `result.json` and `cells.csv`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_gbps",
            Self::CpuPerGbps => "cpu_percent_per_gbps",
            Self::CpuPerGbpsSender => "cpu_percent_per_gbps_sender",
            Self::CpuPerGbpsReceiver => "cpu_percent_per_gbps_receiver",
            Self::CpuSender => "cpu_percent_sender",
            Self::CpuReceiver => "cpu_percent_receiver",
            Self::CpuTotal => "cpu_percent_total",
            Self::UnderlayRate => "underlay_rate_pps",
            Self::UnderlayPacket => "underlay_packet_bytes",
            Self::Retransmits => "retransmits",
        }
    }

    /// Its value in one sample; `None` when it was not measured.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let per_gbps = &sample.cpu_percent_per_gbps;
        match self {
            Self::Goodput => Some(sample.goodput_gbps),
            Self::CpuPerGbps => per_gbps.sum,
            Self::CpuPerGbpsSender => per_gbps.sender,
            Self::CpuPerGbpsReceiver => per_gbps.receiver,
            Self::CpuSender => sample.cpu.sender.as_ref().map(|cpu| cpu.busy_percent),
            Self::CpuReceiver => sample.cpu.receiver.as_ref().map(|cpu| cpu.busy_percent),
            Self::CpuTotal => Some(sample.cpu.total.busy_percent),
            Self::UnderlayRate => Some(sample.underlay_rate_pps),
            Self::UnderlayPacket => sample.underlay_packet_bytes,
            Self::Retransmits => sample.retransmits.map(|count| count as f64),
        }
    }

    /// Which way it is better.
    pub const fn better(self) -> Better {
        match self {
            Self::Goodput => Better::Higher,
            _ => Better::Lower,
        }
    }
}

/// A cell with its figures.
#[derive(Debug, Clone)]
pub struct CellFigures<'a> {
    /// The cell.
    pub cell: &'a Cell,
    figures: Vec<Option<Summary>>,
}

impl<'a> CellFigures<'a> {
    fn of(cell: &'a Cell) -> Self {
        let figures = Metric::ALL
            .map(|metric| Summary::of(row(cell, metric).into_iter().map(|(_, value)| value)));
        Self {
            cell,
            figures: figures.into(),
        }
    }

    /// The figure of one metric; `None` when it was not measured.
    pub fn get(&self, metric: Metric) -> Option<&Summary> {
        let position = Metric::ALL.iter().position(|&m| m == metric)?;
        self.figures.get(position)?.as_ref()
    }

    /// Its samples were taken.
    pub fn is_ok(&self) -> bool {
        self.cell.status == CellStatus::Ok
    }

    /// Samples that count.
    pub fn samples(&self) -> usize {
        self.cell.counted().count()
    }
}

/// A sample that was taken and does not count.
#[derive(Debug, Clone, Copy)]
pub struct Discarded<'a> {
    /// The sample.
    pub sample: &'a Sample,
    /// Why it does not count.
    pub reason: &'a str,
}

/// A run with everything that follows from its samples.
#[derive(Debug, Clone)]
pub struct Analysis<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its cells with their figures, in the order of the plan.
    pub cells: Vec<CellFigures<'a>>,
    /// Its groups, in the order of the plan.
    pub groups: Vec<GroupKey>,
    /// Every comparison.
    pub comparisons: Vec<Compared>,
    /// The run's own warnings, then what the samples give reason to.
    pub warnings: Vec<String>,
    /// Samples that do not count, with the reason.
    pub discarded: Vec<Discarded<'a>>,
}

impl<'a> Analysis<'a> {
    /// Sums up a run.
    pub fn of(run: &'a Run) -> Self {
        let cells: Vec<_> = run.cells.iter().map(CellFigures::of).collect();
        let mut groups = Vec::new();
        for cell in &run.cells {
            let group = cell.key.group();
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let comparisons = all_comparisons(run, &groups);
        let mut warnings = run.warnings.clone();
        warnings.extend(warnings::from_samples(run, &cells));
        let discarded = run
            .cells
            .iter()
            .flat_map(|cell| &cell.samples)
            .filter_map(|sample| {
                Some(Discarded {
                    sample,
                    reason: sample.discarded.as_deref()?,
                })
            })
            .collect();
        Self {
            run,
            cells,
            groups,
            comparisons,
            warnings,
            discarded,
        }
    }

    /// The cells of one group, in the order of the plan.
    pub fn in_group(&self, group: GroupKey) -> impl Iterator<Item = &CellFigures<'a>> {
        self.cells
            .iter()
            .filter(move |figures| figures.cell.key.group() == group)
    }

    /// One cell.
    pub fn cell(&self, key: CellKey) -> Option<&CellFigures<'a>> {
        self.cells.iter().find(|figures| figures.cell.key == key)
    }

    /// The comparison of two cells by one metric.
    pub fn comparison(&self, a: CellKey, b: CellKey, metric: Metric) -> Option<&Compared> {
        self.comparisons
            .iter()
            .find(|c| c.a == a && c.b == b && c.metric == metric)
    }

    /// The backends of the run, in the order in which tables show them.
    pub fn backends(&self) -> impl Iterator<Item = BackendName> {
        let has = |b: &BackendName| self.run.cells.iter().any(|cell| cell.key.backend == *b);
        BackendName::ALL.into_iter().filter(has)
    }
}

/// The values of one metric that count, each with its round, in the order of the rounds.
pub(super) fn row(cell: &Cell, metric: Metric) -> Vec<(u32, f64)> {
    let mut row: Vec<(u32, f64)> = cell
        .counted()
        .filter_map(|sample| Some((sample.round, metric.of(sample)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    row.sort_by_key(|&(round, _)| round);
    row
}
