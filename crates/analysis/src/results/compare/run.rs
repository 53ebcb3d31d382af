//! Which cells of a run are compared with which.
//!
//! Cells that were sampled in turn have pairs: their samples of one round. Whether they were is read from the clock in the
//! samples, and not from the plan: so it holds for a run that was broken off, and for a record of another version.

use super::axis::{Axis, model_a, neighbours};
use super::question::Question;
use crate::record::{BackendName, Cell, CellKey, Feature, GroupKey, Run, footing};
use crate::results::cell::is_measured;
use crate::results::metric::Metric;
use crate::stats::{Comparison, Why, compare, unpaired};
use crate::study::View;

/// One comparison: cell A against cell B by one metric.
#[derive(Debug, Clone)]
pub struct Compared {
    /// What differs.
    pub axis: Axis,
    /// By what they are compared.
    pub metric: Metric,
    /// The cell that the verdict is about.
    pub a: CellKey,
    /// The cell that it is held against.
    pub b: CellKey,
    /// The question that it answers; the comparisons of one question are judged together.
    pub question: Question,
    /// It is counted among those. The cost of two cells that both fill a CPU is not: it says what their figure says.
    pub counted: bool,
    /// Why the two do not stand on equal footing; `None`: they do.
    pub footing: Option<String>,
    /// Ratio, interval and verdict.
    pub result: Comparison,
}

impl Compared {
    /// Why there is neither a difference nor sameness; `None` where there is one of them.
    pub fn reason(&self) -> Option<String> {
        let why = self.result.reason?;
        let footing = self.footing.clone().filter(|_| why == Why::UnequalFooting);
        Some(footing.unwrap_or_else(|| why.words().to_owned()))
    }
}

/// The backends that the others are held against.
const BASELINES: [BackendName; 3] = [
    BackendName::Direct,
    BackendName::Bridge,
    BackendName::KernelVxlan,
];

/// The same switch with another encapsulation: Geneve against VXLAN, and each tunnel against a VLAN.
const ENCAPSULATIONS: [(BackendName, BackendName); 12] = [
    (BackendName::KernelVxlan, BackendName::KernelVlan),
    (BackendName::KernelGeneve, BackendName::KernelVlan),
    (BackendName::OvsVxlan, BackendName::OvsVlan),
    (BackendName::OvsGeneve, BackendName::OvsVlan),
    (BackendName::OvsKernelVxlan, BackendName::OvsKernelVlan),
    (BackendName::OvsKernelGeneve, BackendName::OvsKernelVlan),
    (BackendName::OverlaneVxlan, BackendName::OverlaneVlan),
    (BackendName::OverlaneGeneve, BackendName::OverlaneVlan),
    (BackendName::KernelGeneve, BackendName::KernelVxlan),
    (BackendName::OvsGeneve, BackendName::OvsVxlan),
    (BackendName::OvsKernelGeneve, BackendName::OvsKernelVxlan),
    (BackendName::OverlaneGeneve, BackendName::OverlaneVxlan),
];

/// Every comparison of a run: between networks group by group, then along the other axes.
pub(in crate::results) fn all(run: &Run, groups: &[GroupKey]) -> Vec<Compared> {
    let mut out = Vec::new();
    let pairs = backend_pairs(&run.study.views);
    for group in groups {
        for &(a, b) in &pairs {
            push(run, Axis::Backend, group.cell(a), group.cell(b), &mut out);
        }
        for backend in BackendName::ALL {
            let first = group.cell(backend);
            push(
                run,
                Axis::Itself,
                CellKey { copy: 1, ..first },
                first,
                &mut out,
            );
        }
    }
    for group in groups {
        for (axis, other) in neighbours(group, groups) {
            for backend in BackendName::ALL {
                push(
                    run,
                    axis,
                    group.cell(backend),
                    other.cell(backend),
                    &mut out,
                );
            }
        }
        for backend in with_services(group) {
            let without = group
                .with_feature(Feature::Default)
                .cell(BackendName::KernelVxlan);
            push(run, Axis::Without, group.cell(backend), without, &mut out);
        }
        let Some(tester) = model_a(group, groups) else {
            continue;
        };
        for (without, with) in models(&run.study.views) {
            push(
                run,
                Axis::Model,
                group.cell(with),
                tester.cell(without),
                &mut out,
            );
        }
    }
    out
}

/// Compares two cells by one metric, without a verdict yet; `None` when one was not measured.
pub(in crate::results) fn one(
    run: &Run,
    axis: Axis,
    a: CellKey,
    b: CellKey,
    metric: Metric,
) -> Option<Compared> {
    let (side_a, side_b) = (measured(run, a)?, measured(run, b)?);
    cells(axis, side_a, side_b, metric, in_turn(side_a, side_b))
}

/// Compares two cells, in pairs where they were sampled in turn; `None` when one has no such quantity.
pub(super) fn cells(
    axis: Axis,
    a: &Cell,
    b: &Cell,
    metric: Metric,
    in_turn: bool,
) -> Option<Compared> {
    let (rows_a, rows_b) = (metric.row(a), metric.row(b));
    if rows_a.is_empty() || rows_b.is_empty() {
        return None;
    }
    let result = if in_turn {
        compare(&rows_a, &rows_b, metric.better())
    } else {
        let values = |row: &[(u32, f64)]| row.iter().map(|&(_, v)| v).collect::<Vec<_>>();
        unpaired(&values(&rows_a), &values(&rows_b), metric.better())
    };
    // Between networks alone: one network in two settings is the setting's own doing.
    let footing = (a.key.backend != b.key.backend)
        .then(|| footing::unequal(a, b))
        .flatten();
    let result = match footing {
        Some(_) => result.without_verdict(Why::UnequalFooting),
        None => result,
    };
    Some(Compared {
        axis,
        metric,
        footing,
        a: a.key,
        b: b.key,
        question: Question::of(axis, &a.key, &b.key),
        counted: true,
        result,
    })
}

/// (a, b): each backend against each baseline before it, the encapsulations of one switch, and what the study's views show.
fn backend_pairs(views: &[View]) -> Vec<(BackendName, BackendName)> {
    let against = |b: BackendName| {
        let after = BackendName::ALL.into_iter().filter(move |a| *a > b);
        after.map(move |a| (a, b))
    };
    let mut out: Vec<_> = BASELINES.into_iter().flat_map(against).collect();
    out.extend(ENCAPSULATIONS);
    for view in views {
        match view {
            View::Difference { pairs } => out.extend(pairs),
            View::CpuSteps {
                baseline, steps, ..
            } => {
                let against = |&step: &BackendName| baseline.iter().map(move |&b| (step, b));
                out.extend(steps.iter().flat_map(against));
            }
            View::PacketRate
            | View::GuestCpu
            | View::Migrations
            | View::FrameTable { .. }
            | View::Vnis => {}
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    out.retain(|&(a, b)| a != b && seen.insert((a, b)));
    out
}

/// The tunnels of a group that do more than switching: what the kernel's own switches alone.
fn with_services(group: &GroupKey) -> impl Iterator<Item = BackendName> {
    let is_service = group.setting.feature.is_service();
    let tunnels = BackendName::ALL.into_iter();
    tunnels.filter(move |backend| is_service && backend.is_overlay())
}

/// (model A, model B) of study E.
fn models(views: &[View]) -> impl Iterator<Item = (BackendName, BackendName)> {
    views
        .iter()
        .filter_map(|view| match view {
            View::FrameTable { pairs } => Some(pairs.iter().copied()),
            _ => None,
        })
        .flatten()
}

/// By what two cells are compared: the figure of the test and its cost; the models also by the CPU that study E prints, and
/// transactions and streams by the one of study B.
fn metrics(run: &Run, axis: Axis, a: CellKey, b: CellKey) -> Vec<Metric> {
    let test = a.group.workload.test;
    let mut out = vec![Metric::primary(test), Metric::cost(test)];
    let differs = |view: &View| match view {
        View::Difference { pairs } => pairs.contains(&(a.backend, b.backend)),
        _ => false,
    };
    if axis == Axis::Backend && run.study.views.iter().any(differs) {
        out.push(Metric::CpuMean);
    }
    if axis == Axis::Model {
        out.extend([Metric::CpuSender, Metric::GuestSender]);
    }
    out
}

fn push(run: &Run, axis: Axis, a: CellKey, b: CellKey, out: &mut Vec<Compared>) {
    if measured(run, a).is_some() && measured(run, b).is_some() {
        let all = metrics(run, axis, a, b).into_iter();
        out.extend(all.filter_map(|metric| one(run, axis, a, b, metric)));
    }
}

fn measured(run: &Run, key: CellKey) -> Option<&Cell> {
    run.cells
        .iter()
        .find(|cell| cell.key == key && is_measured(cell))
}

/// Were the two cells sampled in turn, each round of both before the next round of either? One round alone does not show it;
/// the cells of a group always are.
pub(super) fn in_turn(a: &Cell, b: &Cell) -> bool {
    let mut rounds: Vec<(u32, u64, u64)> = a
        .counted()
        .filter_map(|x| {
            let y = b.counted().find(|y| y.round == x.round)?;
            let (first, last) = (
                x.started_unix_ms.min(y.started_unix_ms),
                x.started_unix_ms.max(y.started_unix_ms),
            );
            Some((x.round, first, last))
        })
        .collect();
    rounds.sort_unstable();
    let turns = rounds.windows(2).all(|w| matches!(w, [x, y] if x.2 < y.1));
    turns && (rounds.len() > 1 || a.key.group == b.key.group)
}
