//! From a matrix to the order of work: blocks of networks that stay up together, the rounds in which their
//! cells are sampled in turn ([`order`]), and how long that takes ([`cost`]). [`summary`] is the plan for readers.

mod cost;
mod order;
mod summary;
#[cfg(test)]
mod tests;

pub use cost::{IDLE_SECONDS, REFERENCE_SAMPLES, REFERENCE_SECONDS, alone};
pub use order::order;
pub use summary::{PlanBlock, PlanCell, PlanSummary, StudySummary};

use crate::record::{BackendName, CellKey, GroupKey, Setting, Workload};
use crate::study::{GroupAxes, Matrix, Repeat};
use std::time::Duration;

/// Most networks that are up at the same time. Each is a few namespaces, a switch on each host and an agent in each guest, most
/// of them asleep; more would take memory from those that are measured, and timers of their own.
const MOST_NETWORKS: usize = 24;

/// Most memory of machines that are up at the same time, those of one place apart.
const MOST_MACHINES_MIB: u32 = 4096;

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

/// Networks that are up at the same time, and what is measured on them: all networks of one place ([`Setting::place`]) with both
/// MTUs and all features, and those of further places as long as they are no more than [`MOST_NETWORKS`].
#[derive(Clone, Debug, Default, PartialEq)]
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

/// The cells of a workload in one place. They take turns with each other, and with those of the same test.
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
        let mut places: Vec<(Setting, Block)> = Vec::new();
        for axes in &matrix.groups {
            for setting in axes.settings() {
                let place = setting.place();
                let at = places.iter().position(|(known, _)| *known == place);
                let at = at.unwrap_or_else(|| {
                    places.push((place, Block::default()));
                    places.len() - 1
                });
                places[at].1.add(matrix, axes, setting);
            }
        }
        let mut blocks: Vec<Block> = Vec::new();
        for (_, block) in places {
            match blocks.last_mut() {
                Some(last) if last.has_room(&block) => last.join(block),
                _ => blocks.push(block),
            }
        }
        Self {
            blocks,
            rounds: matrix.samples,
            repeat: matrix.repeat,
            seconds: matrix.seconds,
            warm_up_seconds: matrix.warm_up_seconds,
        }
    }

    /// The cells that are sampled in turn, for each turn of each block.
    pub fn turns(&self) -> Vec<Vec<CellKey>> {
        let turns = self.blocks.iter().flat_map(Block::turns);
        let cells = |turn: Vec<&WorkloadCells>| turn.iter().flat_map(|w| w.cells.clone()).collect();
        turns.map(cells).collect()
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
    /// The workloads whose cells take turns in the same rounds: all of one test, so that 8 instances against 1 is a ratio within
    /// a round like network against network. A search takes many times as long as a sample, and has rounds of its own.
    pub fn turns(&self) -> Vec<Vec<&WorkloadCells>> {
        let mut turns: Vec<Vec<&WorkloadCells>> = Vec::new();
        for work in &self.workloads {
            let kind = |work: &WorkloadCells| (work.workload.test, work.workload.search);
            let known = turns.iter_mut().find(|turn| kind(turn[0]) == kind(work));
            match known {
                Some(turn) => turn.push(work),
                None => turns.push(vec![work]),
            }
        }
        turns
    }

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

    fn has_room(&self, other: &Self) -> bool {
        self.networks.len() + other.networks.len() <= MOST_NETWORKS
            && self.machines_mib() + other.machines_mib() <= MOST_MACHINES_MIB
    }

    /// Memory of its machines.
    fn machines_mib(&self) -> u32 {
        let settings = self.networks.iter().map(|network| &network.setting);
        settings
            .map(|setting| setting.guest_memory_mib.unwrap_or_default() * setting.pairs)
            .sum()
    }

    /// Takes in what stands in another place. Its workloads stay by themselves, also where they are the same: so the networks that
    /// are compared the most are close in time.
    fn join(&mut self, other: Self) {
        self.networks.extend(other.networks);
        self.workloads.extend(other.workloads);
    }
}
