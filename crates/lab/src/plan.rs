//! From a matrix to the order of work: blocks of cells that stay up together, the rounds in which they
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
    pub(crate) blocks: Vec<Block>,
    pub(crate) samples: u32,
    pub(crate) seconds: u32,
    pub(crate) warm_up_seconds: u32,
}

/// Cells that are measured in turn: all networks with both MTUs, so that jumbo frames against 1500 is a
/// ratio within a round like network against network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) streams: u32,
    pub(crate) offload: bool,
    pub(crate) cells: Vec<CellKey>,
}

impl Plan {
    pub(crate) fn new(matrix: &Matrix) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        for (streams, offload, axes) in matrix.groups.iter().flat_map(|axes| {
            let offloads = axes.offload.iter();
            offloads.flat_map(move |offload| {
                axes.streams
                    .iter()
                    .map(move |streams| (*streams, *offload, axes))
            })
        }) {
            let known = blocks
                .iter()
                .position(|block| (block.streams, block.offload) == (streams, offload));
            let at = known.unwrap_or_else(|| {
                blocks.push(Block {
                    streams,
                    offload,
                    cells: Vec::new(),
                });
                blocks.len() - 1
            });
            for &mtu_class in &axes.mtu {
                let key = GroupKey {
                    mtu_class,
                    streams,
                    offload,
                };
                for cell in matrix.backends.iter().map(|backend| key.cell(*backend)) {
                    if !blocks[at].cells.contains(&cell) {
                        blocks[at].cells.push(cell);
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
            blocks,
            samples,
            seconds,
            warm_up_seconds,
        }
    }

    /// All cells in the order of the plan.
    pub(crate) fn cells(&self) -> impl Iterator<Item = CellKey> {
        self.blocks
            .iter()
            .flat_map(|block| block.cells.iter().copied())
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
    use crate::record::BackendName;
    use crate::study::Study;

    #[test]
    fn the_shipped_study_is_the_matrix_of_the_method() {
        let study = Study::shipped("jumbo-vxlan").unwrap();
        let full = Plan::new(&study.matrix);
        assert_eq!((full.blocks.len(), full.cells().count()), (4, 72));
        let quick = Plan::new(&study.quick);
        let blocks: Vec<_> = quick
            .blocks
            .iter()
            .map(|block| (block.streams, block.offload, block.cells.len()))
            .collect();
        assert_eq!(blocks, [(4, true, 5), (1, false, 10)]);
        let mtus: Vec<_> = quick.blocks[1].cells.iter().map(|cell| cell.mtu).collect();
        assert_eq!(
            mtus,
            [1500, 1500, 1500, 1500, 1500, 9000, 9000, 8900, 8900, 8900]
        );
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
