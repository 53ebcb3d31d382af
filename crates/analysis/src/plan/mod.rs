//! From a matrix to the order of work: blocks of networks that stay up together, the rounds in which their
//! cells are sampled in turn, and how long that takes ([`cost`]). [`summary`] is the plan for readers.

mod cost;
mod summary;
#[cfg(test)]
mod tests;

pub use cost::{REFERENCE_SAMPLES, REFERENCE_SECONDS};
pub use summary::{PlanBlock, PlanCell, PlanSummary, StudySummary};

use crate::record::{BackendName, CellKey, GroupKey, Setting, Workload};
use crate::study::{GroupAxes, Matrix, Repeat};
use std::time::Duration;

/// The order of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is up at the same time, one block after the other.
    pub blocks: Vec<Block>,
    /// Samples per cell where a workload does not say otherwise ([`WorkloadCells::samples`] has the last word).
    pub rounds: u32,
    /// When there are enough; null: after the samples.
    pub repeat: Option<Repeat>,
    /// Length of a sample's window.
    pub seconds: f64,
    /// Length of the warm-up's.
    pub warm_up_seconds: f64,
}

/// Networks that are up at the same time, and what is measured on them, workload by workload: all networks
/// of one place ([`Setting::place`]) with both MTUs and all features.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What is built.
    pub networks: Vec<Network>,
    /// What is measured on them.
    pub workloads: Vec<WorkloadCells>,
}

/// One topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// What joins the guests.
    pub backend: BackendName,
    /// 0, or 1 for the second of a backend that is held against itself.
    pub copy: u8,
    /// What it is like.
    pub setting: Setting,
}

impl From<CellKey> for Network {
    /// The network that a cell is measured on.
    fn from(cell: CellKey) -> Self {
        Self {
            backend: cell.backend,
            copy: cell.copy,
            setting: cell.group.setting,
        }
    }
}

/// Cells that are sampled in turn.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadCells {
    /// What is measured.
    pub workload: Workload,
    /// On which networks.
    pub cells: Vec<CellKey>,
    /// Samples of each, without the warm-up.
    pub samples: u32,
}

impl Plan {
    /// Of a matrix.
    pub fn new(matrix: &Matrix) -> Self {
        let mut blocks: Vec<(Setting, Block)> = Vec::new();
        for axes in &matrix.groups {
            for setting in axes.settings() {
                let place = setting.place();
                let at = blocks.iter().position(|(known, _)| *known == place);
                let at = at.unwrap_or_else(|| {
                    let (networks, workloads) = (Vec::new(), Vec::new());
                    blocks.push((
                        place,
                        Block {
                            networks,
                            workloads,
                        },
                    ));
                    blocks.len() - 1
                });
                blocks[at].1.add(matrix, axes, setting);
            }
        }
        Self {
            blocks: blocks.into_iter().map(|(_, block)| block).collect(),
            rounds: matrix.samples,
            repeat: matrix.repeat,
            seconds: matrix.seconds,
            warm_up_seconds: matrix.warm_up_seconds,
        }
    }

    /// All cells in the order of the plan.
    pub fn cells(&self) -> impl Iterator<Item = CellKey> {
        let workloads = self.blocks.iter().flat_map(|block| &block.workloads);
        workloads.flat_map(|workload| workload.cells.iter().copied())
    }

    /// Samples to be taken, warm-ups among them, if no rule asks for more.
    pub fn samples(&self) -> u64 {
        let workloads = self.blocks.iter().flat_map(|block| &block.workloads);
        workloads
            .map(|workload| workload.cells.len() as u64 * (u64::from(workload.samples) + 1))
            .sum()
    }

    /// Samples of a cell, without the warm-up.
    pub fn samples_of(&self, key: &CellKey) -> u32 {
        let mut workloads = self.blocks.iter().flat_map(|block| &block.workloads);
        let of = workloads.find(|workload| workload.cells.contains(key));
        of.map_or(self.rounds, |workload| workload.samples)
    }

    /// Length of a sample of this round: the warm-up is round 0.
    pub fn seconds_of(&self, round: u32) -> f64 {
        if round == 0 {
            self.warm_up_seconds
        } else {
            self.seconds
        }
    }

    /// How long it takes, if no rule asks for more samples.
    pub fn expected(&self) -> Duration {
        let blocks: f64 = self
            .blocks
            .iter()
            .map(|block| self.block_seconds(block, |workload| workload.samples))
            .sum();
        Duration::from_secs_f64(cost::RUN_SECONDS + blocks)
    }

    /// How long it takes if the rule asks for all the samples that it may.
    pub fn at_most(&self) -> Duration {
        let blocks: f64 = self
            .blocks
            .iter()
            .map(|block| self.block_seconds(block, |workload| self.most_samples(workload)))
            .sum();
        Duration::from_secs_f64(cost::RUN_SECONDS + blocks)
    }

    /// The samples that a cell of this workload has in the end, if its rule is never content.
    pub fn most_samples(&self, workload: &WorkloadCells) -> u32 {
        let most = match self.repeat {
            None => workload.samples,
            Some(Repeat::Within { set, attempts, .. }) => set.saturating_mul(attempts),
            Some(Repeat::Confidence { most, .. }) => most,
        };
        most.max(workload.samples)
    }

    fn block_seconds(&self, block: &Block, samples: impl Fn(&WorkloadCells) -> u32) -> f64 {
        let (seconds, warm_up_seconds) = (self.seconds, self.warm_up_seconds);
        let workload = |workload: &WorkloadCells| {
            let one = workload.samples_seconds(samples(workload), seconds, warm_up_seconds);
            workload.cells.len() as f64 * one
        };
        block.overhead_seconds() + block.workloads.iter().map(workload).sum::<f64>()
    }
}

impl Block {
    /// Adds the networks and cells of one product in one setting; what is there already stays alone.
    fn add(&mut self, matrix: &Matrix, axes: &GroupAxes, setting: Setting) {
        let backends = axes.backends.as_ref().unwrap_or(&matrix.backends);
        let copies = if matrix.against_itself { 2 } else { 1 };
        let samples = axes.samples.unwrap_or(matrix.samples);
        for workload in axes.workloads() {
            let at = (self.workloads.iter()).position(|known| known.workload == workload);
            let at = at.unwrap_or_else(|| {
                self.workloads.push(WorkloadCells {
                    workload,
                    cells: Vec::new(),
                    samples,
                });
                self.workloads.len() - 1
            });
            let turn = &mut self.workloads[at];
            turn.samples = turn.samples.max(samples);
            let group = GroupKey { workload, setting };
            for &backend in backends {
                for copy in 0..copies {
                    let cell = CellKey {
                        copy,
                        ..group.cell(backend)
                    };
                    if !turn.cells.contains(&cell) {
                        turn.cells.push(cell);
                    }
                    let network = Network::from(cell);
                    if !self.networks.contains(&network) {
                        self.networks.push(network);
                    }
                }
            }
        }
    }
}

/// The order of `count` cells in a round: A B C, B C A, C A B, so that none always follows the same
/// one's heat or comes first.
pub fn order(count: usize, round: u32) -> impl Iterator<Item = usize> {
    let first = if count == 0 {
        0
    } else {
        round as usize % count
    };
    (first..count).chain(0..first)
}
