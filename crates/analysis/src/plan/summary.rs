//! The plan for readers: `overlane lab plan` prints it, or gives it as JSON.

use super::{Block, Plan};
use crate::record::{CellKey, Feature, Setting};
use crate::study::{Repeat, Study, possible};
use serde::Serialize;
use std::collections::BTreeSet;

/// One line of `lab list`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudySummary {
    /// The name that `lab run` takes.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it answers.
    pub question: String,
    /// Cells of the whole matrix.
    pub cells: usize,
    /// Expected length of the whole matrix.
    pub minutes: f64,
    /// Cells of the quick matrix.
    pub quick_cells: usize,
    /// Expected length of the quick matrix.
    pub quick_minutes: f64,
}

/// What a run would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanSummary {
    /// Name of the study.
    pub study: String,
    /// Its title.
    pub title: String,
    /// The quick matrix, not the whole one.
    pub quick: bool,
    /// Samples per cell, without the warm-up, where a block does not say otherwise.
    pub samples: u32,
    /// When there are enough; null: after `samples`.
    pub repeat: Option<Repeat>,
    /// Length of a sample's window.
    pub seconds: f64,
    /// Length of the warm-up's.
    pub warm_up_seconds: f64,
    /// Number of cells.
    pub cells: usize,
    /// Number of networks that are built.
    pub networks: usize,
    /// Samples to be taken in all, warm-ups among them.
    pub samples_in_all: u64,
    /// How long it takes.
    pub expected_seconds: f64,
    /// How long it takes if the rule of `repeat` asks for all the samples that it may.
    pub at_most_seconds: f64,
    /// What is up at the same time, one after the other.
    pub blocks: Vec<PlanBlock>,
}

/// Networks that are up at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanBlock {
    /// What they share, in words.
    pub setting: String,
    /// Number of networks.
    pub networks: usize,
    /// Building, path proofs, the tester alone, and taking down.
    pub overhead_seconds: f64,
    /// How long it takes in all.
    pub expected_seconds: f64,
    /// The cells in their order.
    pub cells: Vec<PlanCell>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanCell {
    /// Its dimensions.
    #[serde(flatten)]
    pub key: CellKey,
    /// The guests' MTU.
    pub mtu: u32,
    /// Its samples, without the warm-up.
    pub samples: u32,
    /// Warm-up and samples.
    pub expected_seconds: f64,
    /// Why the laboratory has no such cell; null where it has. What a machine lacks is not in it.
    pub unsupported: Option<String>,
}

impl StudySummary {
    /// Of a study.
    pub fn of(study: &Study) -> Self {
        let (whole, quick) = (Plan::new(&study.matrix), Plan::new(&study.quick));
        Self {
            name: study.name.clone(),
            title: study.title.clone(),
            question: study.question.clone(),
            cells: whole.cells().count(),
            minutes: whole.expected().as_secs_f64() / 60.0,
            quick_cells: quick.cells().count(),
            quick_minutes: quick.expected().as_secs_f64() / 60.0,
        }
    }
}

impl PlanSummary {
    /// What the study would do.
    pub fn of(study: &Study, quick: bool) -> Self {
        let plan = Plan::new(if quick { &study.quick } else { &study.matrix });
        let blocks = plan.blocks.iter().map(|block| plan.block(block));
        Self {
            study: study.name.clone(),
            title: study.title.clone(),
            quick,
            samples: plan.rounds,
            repeat: plan.repeat,
            seconds: plan.seconds,
            warm_up_seconds: plan.warm_up_seconds,
            cells: plan.cells().count(),
            networks: plan.blocks.iter().map(|block| block.networks.len()).sum(),
            samples_in_all: plan.samples(),
            expected_seconds: plan.expected().as_secs_f64(),
            at_most_seconds: plan.at_most().as_secs_f64(),
            blocks: blocks.collect(),
        }
    }
}

impl Plan {
    fn block(&self, block: &Block) -> PlanBlock {
        let workloads = block.workloads.iter();
        let cells: Vec<_> = workloads
            .flat_map(|workload| {
                let expected_seconds = workload.cell_seconds(self.seconds, self.warm_up_seconds);
                workload.cells.iter().map(move |key| PlanCell {
                    key: *key,
                    mtu: key.mtu(),
                    samples: workload.samples,
                    expected_seconds,
                    unsupported: possible::unsupported(key.backend, &key.group.setting),
                })
            })
            .collect();
        PlanBlock {
            setting: places(block),
            networks: block.networks.len(),
            overhead_seconds: block.overhead_seconds(),
            expected_seconds: self.block_seconds(block, |workload| workload.samples),
            cells,
        }
    }
}

/// The places of a block in words, one after the other.
fn places(block: &Block) -> String {
    let mut places: Vec<Setting> = Vec::new();
    for network in &block.networks {
        if !places.contains(&network.setting.place()) {
            places.push(network.setting.place());
        }
    }
    let words: Vec<String> = places.iter().map(|one| place(block, one)).collect();
    words.join("; ")
}

/// One place of a block; its networks differ in the MTU class and the feature.
fn place(block: &Block, place: &Setting) -> String {
    let settings = || {
        let all = block.networks.iter().map(|network| network.setting);
        all.filter(|setting| setting.place() == *place)
    };
    let mtus: BTreeSet<_> = settings().map(|setting| setting.mtu_class).collect();
    let mut words = match (mtus.first(), mtus.len()) {
        (Some(&mtu_class), 1) => Setting {
            mtu_class,
            ..*place
        }
        .to_string(),
        _ => {
            let standard = place.to_string();
            standard.replacen("standard mtu", "standard and jumbo mtu", 1)
        }
    };
    let mut features = Vec::new();
    for setting in settings() {
        if !features.contains(&setting.feature) {
            features.push(setting.feature);
        }
    }
    if features != [Feature::Default] {
        let names: Vec<_> = features.iter().map(|feature| feature.as_str()).collect();
        words += &format!(", features {}", names.join(" "));
    }
    words
}
