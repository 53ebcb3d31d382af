//! What a run says once its samples are summed up: the one place where figures of a cell are computed.
//!
//! `result.json`, the report and the tables all print what stands here, so they cannot disagree.

use super::cell::CellFigures;
use super::compare::Axis;
use super::compare::families::{judge_questions, resolution_percent};
use super::compare::run::{self, Compared};
use super::foreign::ForeignLoad;
use super::metric::Metric;
use super::warnings;
use crate::record::{BackendName, Bound, CellKey, Discard, GroupKey, Run, Sample, Test, Warning};
use crate::stats::judge;

/// A sample that was taken and does not count.
#[derive(Debug, Clone, Copy)]
pub struct Discarded<'a> {
    /// The sample.
    pub sample: &'a Sample,
    /// Why it does not count.
    pub reason: &'a Discard,
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
    /// Load beside the samples that was not the laboratory's; `None`: none that disturbs.
    pub foreign: Option<ForeignLoad>,
    /// The run's own warnings, then what the samples give reason to.
    pub warnings: Vec<Warning>,
    /// Samples that do not count, with the reason.
    pub discarded: Vec<Discarded<'a>>,
}

impl<'a> Analysis<'a> {
    /// Sums up a run.
    pub fn of(run: &'a Run) -> Self {
        let cells: Vec<_> = run
            .cells
            .iter()
            .map(|cell| CellFigures::of(run, cell))
            .collect();
        let mut groups = Vec::new();
        for cell in &run.cells {
            if !groups.contains(&cell.key.group) {
                groups.push(cell.key.group);
            }
        }
        let mut comparisons = run::all(run, &groups);
        let bound = |key: CellKey| {
            let mut cells = cells.iter();
            let cell = cells.find(|figures| figures.cell.key == key);
            cell.map_or(Bound::default(), |figures| figures.bound)
        };
        judge_questions(&mut comparisons, bound, resolution_percent(run));
        let foreign = ForeignLoad::of(run);
        let mut warnings = run.warnings.clone();
        warnings.extend(foreign.as_ref().map(warnings::of_foreign));
        warnings.extend(warnings::from_samples(run, &cells));
        let discarded = run
            .cells
            .iter()
            .flat_map(|cell| &cell.samples)
            .filter_map(|sample| {
                Some(Discarded {
                    sample,
                    reason: sample.discarded.as_ref()?,
                })
            })
            .collect();
        Self {
            run,
            cells,
            groups,
            comparisons,
            foreign,
            warnings,
            discarded,
        }
    }

    /// The cells of one group, in the order of the plan.
    pub fn in_group(&self, group: GroupKey) -> impl Iterator<Item = &CellFigures<'a>> {
        self.cells
            .iter()
            .filter(move |figures| figures.cell.key.group == group)
    }

    /// One cell.
    pub fn cell(&self, key: CellKey) -> Option<&CellFigures<'a>> {
        self.cells.iter().find(|figures| figures.cell.key == key)
    }

    /// The comparison of two cells by one metric, as it stands in `result.json`.
    pub fn comparison(&self, a: CellKey, b: CellKey, metric: Metric) -> Option<&Compared> {
        self.comparisons
            .iter()
            .find(|c| c.a == a && c.b == b && c.metric == metric)
    }

    /// Compares any two cells by any metric: the same method, for tables that need what `result.json` does not list. Its
    /// verdict is that of a comparison that stands alone. `None` when one was not measured.
    pub fn compare(&self, axis: Axis, a: CellKey, b: CellKey, metric: Metric) -> Option<Compared> {
        let mut compared = run::one(self.run, axis, a, b, metric)?;
        judge(&mut [&mut compared.result], resolution_percent(self.run));
        Some(compared)
    }

    /// The backends of the run, in the order in which tables show them.
    pub fn backends(&self) -> impl Iterator<Item = BackendName> {
        let has = |b: &BackendName| self.run.cells.iter().any(|cell| cell.key.backend == *b);
        BackendName::ALL.into_iter().filter(has)
    }

    /// The tests of the run, in the order in which tables show them.
    pub fn tests(&self) -> impl Iterator<Item = Test> {
        let has = |test: &Test| self.groups.iter().any(|group| group.workload.test == *test);
        Test::ALL.into_iter().filter(has)
    }
}
