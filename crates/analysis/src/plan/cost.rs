//! How long a plan takes, estimated before anything runs: `lab plan` prints it, the live view counts down from it,
//! and a test holds the shipped quick matrices to it. Measured on two CPUs of 2.6 GHz.

use super::{Block, WorkloadCells};
use crate::record::{
    Family, FarEnd, Feature, GroupKey, GuestKind, Moving, Setting, Tuning, Workload,
};
use crate::search::{Goal, Preset};
use std::collections::BTreeSet;

/// Once a run: the steadiness probes, the record of the machine, the report.
pub(super) const RUN_SECONDS: f64 = 6.0;
/// One network: namespaces, devices, the switch, agents, path proof, and taking it all down.
const NETWORK_SECONDS: f64 = 1.75;
/// The plain cable that the tester is measured on alone.
const CABLE_SECONDS: f64 = 1.5;
/// What a sample takes besides its window: orders, connections, the ramp.
const SAMPLE_SECONDS: f64 = 0.22;
/// What it takes more with packets: those under way when the sender stops have to arrive.
const DRAIN_SECONDS: f64 = 0.2;
/// The window in which the tester is measured alone.
pub const REFERENCE_SECONDS: f64 = 0.25;
/// So often, and the best counts: what held one of them down was no property of the tester.
pub const REFERENCE_SAMPLES: u32 = 3;
/// So long a block is watched without traffic.
pub const IDLE_SECONDS: f64 = 1.0;
/// The trial that finds a search's largest load.
const FREE_TRIAL_SECONDS: f64 = 0.6;
/// Until a machine is up; those of one network start together, and those of one host share its CPUs.
const BOOT_SECONDS: f64 = 4.5;
/// A migration: the flows before and after it, the process that the machine moves to, and its memory's way.
const MIGRATION_SECONDS: f64 = 1.4;
/// What each MiB of memory that was ever written adds.
const MIGRATION_SECONDS_PER_MIB: f64 = 0.0055;
/// Loads that a search tries before it bisects: the highest, what came through of it, and one below.
const FIRST_LOADS: f64 = 3.0;

/// Building and removing a network of this setting.
fn network_seconds(setting: &Setting) -> f64 {
    let more = |count: u32, usual: u32| f64::from(count.saturating_sub(usual));
    NETWORK_SECONDS
        + 0.4 * more(setting.pairs, 1)
        + 0.4 * more(setting.hosts, 2)
        + 0.001 * more(setting.vnis, 1)
        + setting
            .guest_memory_mib
            .map_or(0.0, |_| BOOT_SECONDS * f64::from(setting.pairs))
}

/// How long the machines of a cell take to move.
fn migration_seconds(setting: &Setting, moving: &Moving) -> f64 {
    let memory = f64::from(setting.guest_memory_mib.unwrap_or_default());
    // What a kernel and its programs have written, and what is being written.
    let written = 60.0 + memory * f64::from(moving.dirty_percent) / 100.0;
    MIGRATION_SECONDS + f64::from(setting.pairs) * written * MIGRATION_SECONDS_PER_MIB
}

/// A sample, or a warm-up, with a window of `seconds`.
fn sample_seconds(workload: &Workload, seconds: f64) -> f64 {
    let drain = if workload.test.is_packets() {
        DRAIN_SECONDS
    } else {
        0.0
    };
    seconds + SAMPLE_SECONDS + drain
}

/// All trials of one search: each goal tries the first loads, then halves a factor of two down to its width; most loads are
/// decided as soon as the outstanding trials cannot change the verdict.
fn search_seconds(preset: Preset) -> f64 {
    let goal = |goal: &Goal| {
        let parts = goal.parts();
        let trial_seconds = parts.final_trial.as_secs_f64();
        let loads = FIRST_LOADS + (std::f64::consts::LN_2 / parts.width).log2();
        let sum = parts.duration_sum.as_secs_f64() / trial_seconds;
        let trials = (sum * (1.0 - parts.exceed_ratio)).ceil();
        loads * trials * (trial_seconds + SAMPLE_SECONDS + DRAIN_SECONDS)
    };
    preset.goals().iter().map(goal).sum()
}

impl WorkloadCells {
    /// One cell's warm-up and samples.
    pub fn cell_seconds(&self, seconds: f64, warm_up_seconds: f64) -> f64 {
        self.samples_seconds(self.samples, seconds, warm_up_seconds)
    }

    /// What the machines of its cells take at most, where it moves some.
    fn moving_seconds(&self) -> Option<f64> {
        let moving = self.workload.migration?;
        let settings = self.cells.iter().map(|cell| &cell.group.setting);
        let seconds = settings.map(|setting| migration_seconds(setting, &moving));
        seconds.reduce(f64::max)
    }

    pub(super) fn samples_seconds(&self, samples: u32, seconds: f64, warm_up_seconds: f64) -> f64 {
        if let Some(one) = self.moving_seconds() {
            return (1.0 + f64::from(samples)) * one;
        }
        let search = self.workload.search.map_or(0.0, |preset| {
            sample_seconds(&self.workload, FREE_TRIAL_SECONDS) + search_seconds(preset)
        });
        // What the rate that was found costs is an ordinary sample.
        let one = search + sample_seconds(&self.workload, seconds);
        sample_seconds(&self.workload, warm_up_seconds) + f64::from(samples) * one
    }
}

impl Block {
    /// All but the samples of its cells: building, path proofs, the tester alone, taking down.
    pub(super) fn overhead_seconds(&self) -> f64 {
        let settings = self.networks.iter().map(|network| &network.setting);
        let networks: f64 = settings.map(network_seconds).sum();
        // The tester alone, once for what several cells share.
        let cells = self.workloads.iter().flat_map(|work| &work.cells);
        let alone: BTreeSet<GroupKey> = cells.filter_map(|cell| alone(cell.group)).collect();
        let cables: BTreeSet<Setting> = alone.iter().map(|group| group.setting).collect();
        let reference = |group: &GroupKey| sample_seconds(&group.workload, REFERENCE_SECONDS);
        networks
            + IDLE_SECONDS
            + f64::from(count(cables.len())) * CABLE_SECONDS
            + f64::from(REFERENCE_SAMPLES) * alone.iter().map(reference).sum::<f64>()
    }
}

/// The group in which the traffic tool is measured alone: what the network between would add is taken out.
/// `None`: it is not the traffic tool that is measured.
pub fn alone(group: GroupKey) -> Option<GroupKey> {
    if group.workload.migration.is_some() {
        return None;
    }
    Some(GroupKey {
        setting: Setting {
            far_end: FarEnd::Host,
            hosts: 2,
            guests: GuestKind::Veth,
            underlay: Family::Ipv4,
            feature: Feature::Default,
            tuning: Tuning::Alike,
            ..group.setting
        },
        ..group
    })
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
