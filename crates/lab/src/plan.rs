//! From a matrix to the order of work: groups of cells that are compared, the rounds in which they
//! are sampled in turn, and how long that takes.

use crate::record::{CellKey, GroupKey};
use crate::study::Matrix;
use std::time::Duration;

/// What a sample takes besides its own length: the generator's start and end.
const SAMPLE_OVERHEAD: f64 = 0.25;
/// What a cell takes besides its samples: its topology, its path proof, and taking it down.
const CELL_OVERHEAD: f64 = 2.0;

/// The order of work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) groups: Vec<GroupPlan>,
    pub(crate) samples: u32,
    pub(crate) seconds: u32,
    pub(crate) warm_up_seconds: u32,
}

/// Cells that are measured in turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupPlan {
    pub(crate) key: GroupKey,
    pub(crate) cells: Vec<CellKey>,
}

impl Plan {
    pub(crate) fn new(matrix: &Matrix) -> Self {
        let mut groups: Vec<GroupPlan> = Vec::new();
        for axes in &matrix.groups {
            for &offload in &axes.offload {
                for &mtu_class in &axes.mtu {
                    for &streams in &axes.streams {
                        let key = GroupKey {
                            mtu_class,
                            streams,
                            offload,
                        };
                        if groups.iter().any(|group| group.key == key) {
                            continue;
                        }
                        let cells = matrix.backends.iter().map(|backend| key.cell(*backend));
                        groups.push(GroupPlan {
                            key,
                            cells: cells.collect(),
                        });
                    }
                }
            }
        }
        let Matrix {
            samples,
            seconds,
            warm_up_seconds,
            ..
        } = *matrix;
        Self {
            groups,
            samples,
            seconds,
            warm_up_seconds,
        }
    }

    /// All cells in the order of the plan.
    pub(crate) fn cells(&self) -> impl Iterator<Item = CellKey> {
        self.groups
            .iter()
            .flat_map(|group| group.cells.iter().copied())
    }

    /// Number of the rounds: the warm-up is round 0.
    pub(crate) fn rounds(&self) -> std::ops::RangeInclusive<u32> {
        0..=self.samples
    }

    /// Length of a sample of this round.
    pub(crate) fn seconds_of(&self, round: u32) -> u32 {
        if round == 0 {
            self.warm_up_seconds
        } else {
            self.seconds
        }
    }

    /// How long it takes.
    pub(crate) fn expected(&self) -> Duration {
        let cells = self.cells().count() as f64;
        let samples = f64::from(self.samples) * (f64::from(self.seconds) + SAMPLE_OVERHEAD)
            + f64::from(self.warm_up_seconds)
            + SAMPLE_OVERHEAD;
        Duration::from_secs_f64(cells * (samples + CELL_OVERHEAD))
    }
}

/// The order of `count` cells in a round: A B C, B C A, C A B, so that none always follows the same
/// one's heat or comes first.
pub(crate) fn order(count: usize, round: u32) -> impl Iterator<Item = usize> {
    let first = if count == 0 {
        0
    } else {
        round as usize % count
    };
    (first..count).chain(0..first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BackendName, MtuClass};
    use crate::study::Study;

    #[test]
    fn the_shipped_study_is_the_matrix_of_the_method() {
        let study = Study::shipped("jumbo-vxlan").unwrap();
        let full = Plan::new(&study.matrix);
        assert_eq!((full.groups.len(), full.cells().count()), (8, 56));
        let quick = Plan::new(&study.quick);
        let keys: Vec<_> = quick.groups.iter().map(|group| group.key).collect();
        let key = |mtu_class, streams, offload| GroupKey {
            mtu_class,
            streams,
            offload,
        };
        assert_eq!(
            keys,
            [
                key(MtuClass::Standard, 4, true),
                key(MtuClass::Standard, 1, false),
                key(MtuClass::Jumbo, 1, false)
            ]
        );
        let mtus: Vec<_> = quick.groups[2].cells.iter().map(|cell| cell.mtu).collect();
        assert_eq!(mtus, [9000, 9000, 8900, 8900, 8900]);
        assert!(quick.samples >= 6 && quick.seconds >= 2);
        assert!(
            quick.expected() < Duration::from_secs(290),
            "{:?}",
            quick.expected()
        );
    }

    #[test]
    fn rounds_rotate_and_leave_nobody_out() {
        assert_eq!(order(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(3, 1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(order(3, 5).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(order(0, 5).count(), 0);
    }

    #[test]
    fn a_group_that_is_named_twice_is_measured_once() {
        let mut study = Study::shipped("jumbo-vxlan").unwrap();
        let again = study.quick.groups[0].clone();
        study.quick.groups.push(again);
        study.quick.backends = vec![BackendName::Direct];
        assert_eq!(Plan::new(&study.quick).cells().count(), 3);
    }
}
