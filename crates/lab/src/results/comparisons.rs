//! Which cells of a run are compared with which.
//!
//! Within a group the cells differ in the backend alone and were sampled in turn: their samples of
//! one round are pairs. Across groups (8900 against 1500, offload on against off, 4 streams against
//! 1) the two sides of a round are pairs only where the clock shows that they were sampled in turn.

use serde::Serialize;

use crate::record::{BackendName, Cell, CellKey, CellStatus, GroupKey, MtuClass, Run};
use crate::stats::{Comparison, compare, unpaired};

use super::analysis::{Metric, row};

/// What differs between the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The backend.
    Backend,
    /// The guests' MTU: jumbo against 1500.
    Mtu,
    /// Wire offload: on against off.
    Offload,
    /// Streams: more against fewer.
    Streams,
}

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
    /// Ratio, interval and verdict.
    pub result: Comparison,
}

/// The backends that the others are held against.
const BASELINES: [BackendName; 3] = [
    BackendName::Direct,
    BackendName::Bridge,
    BackendName::KernelVxlan,
];

/// The same switch with another encapsulation: Geneve against VXLAN, and each tunnel against a VLAN.
const ENCAPSULATIONS: [(BackendName, BackendName); 6] = [
    (BackendName::OvsVxlan, BackendName::OvsVlan),
    (BackendName::OvsGeneve, BackendName::OvsVlan),
    (BackendName::OverlaneVxlan, BackendName::OverlaneVlan),
    (BackendName::OverlaneGeneve, BackendName::OverlaneVlan),
    (BackendName::OvsGeneve, BackendName::OvsVxlan),
    (BackendName::OverlaneGeneve, BackendName::OverlaneVxlan),
];

/// Every comparison of a run: between backends group by group, then along the other axes.
pub(super) fn all(run: &Run, groups: &[GroupKey]) -> Vec<Compared> {
    let mut out = Vec::new();
    for group in groups {
        for (a, b) in backend_pairs() {
            push(run, Axis::Backend, group.cell(a), group.cell(b), &mut out);
        }
    }
    for group in groups {
        for backend in BackendName::ALL {
            for (axis, other) in neighbours(group, groups) {
                push(
                    run,
                    axis,
                    group.cell(backend),
                    other.cell(backend),
                    &mut out,
                );
            }
        }
    }
    out
}

/// (a, b): each backend against each baseline before it, then the encapsulations of one switch.
fn backend_pairs() -> impl Iterator<Item = (BackendName, BackendName)> {
    BASELINES
        .into_iter()
        .flat_map(|b| {
            BackendName::ALL
                .into_iter()
                .filter(move |a| *a > b)
                .map(move |a| (a, b))
        })
        .chain(ENCAPSULATIONS)
}

/// The groups that `group` is held against: those one step down on exactly one axis.
fn neighbours(group: &GroupKey, groups: &[GroupKey]) -> Vec<(Axis, GroupKey)> {
    let mut out = Vec::new();
    if group.mtu_class == MtuClass::Jumbo {
        out.push((
            Axis::Mtu,
            GroupKey {
                mtu_class: MtuClass::Standard,
                ..*group
            },
        ));
    }
    if group.offload {
        out.push((
            Axis::Offload,
            GroupKey {
                offload: false,
                ..*group
            },
        ));
    }
    let fewest = groups
        .iter()
        .map(|g| g.streams)
        .min()
        .unwrap_or(group.streams);
    if group.streams > fewest {
        out.push((
            Axis::Streams,
            GroupKey {
                streams: fewest,
                ..*group
            },
        ));
    }
    out.retain(|(_, other)| groups.contains(other));
    out
}

fn push(run: &Run, axis: Axis, a: CellKey, b: CellKey, out: &mut Vec<Compared>) {
    let find = |key| {
        run.cells
            .iter()
            .find(|c| c.key == key && c.status == CellStatus::Ok)
    };
    let (Some(side_a), Some(side_b)) = (find(a), find(b)) else {
        return;
    };
    let turns = axis == Axis::Backend || in_turn(side_a, side_b);
    for metric in Metric::COMPARED {
        let (rows_a, rows_b) = (row(side_a, metric), row(side_b, metric));
        if rows_a.is_empty() || rows_b.is_empty() {
            continue;
        }
        let result = if turns {
            compare(&rows_a, &rows_b, metric.better())
        } else {
            let values = |row: &[(u32, f64)]| row.iter().map(|&(_, v)| v).collect::<Vec<_>>();
            unpaired(&values(&rows_a), &values(&rows_b), metric.better())
        };
        out.push(Compared {
            axis,
            metric,
            a,
            b,
            result,
        });
    }
}

/// Were the two cells sampled in turn, each round of both before the next round of either?
fn in_turn(a: &Cell, b: &Cell) -> bool {
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
    rounds.len() > 1 && rounds.windows(2).all(|w| matches!(w, [x, y] if x.2 < y.1))
}
