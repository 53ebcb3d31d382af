//! What the CPUs spent their time on, over all samples of a cell.
//!
//! How long a CPU was busy is clocked. What it was busy with is sampled at the kernel's tick: one short window holds too few
//! ticks for a split, so they are summed first, and divide the clocked time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Cell, CpuTime, Environment};

/// Least time of all windows together for a split, in seconds: 400 ticks of a CPU at 100 Hz.
pub const LEAST_SECONDS: f64 = 4.0;

/// Time by what it was spent on, in per cent of one CPU (two busy CPUs are 200).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Split {
    /// Programs, among them the guests'.
    pub user_percent: f64,
    /// The kernel on behalf of programs.
    pub system_percent: f64,
    /// Hard interrupts.
    pub irq_percent: f64,
    /// Soft interrupts: most of the kernel's network work.
    pub softirq_percent: f64,
    /// Nothing, or waiting for a disk.
    pub idle_percent: f64,
    /// Taken away by the hypervisor.
    pub steal_percent: f64,
}

impl Split {
    fn of(time: &CpuTime) -> Option<Self> {
        let percent = |seconds: f64| 100.0 * seconds / time.wall_seconds;
        let busy = time.busy_percent();
        let ticks = time.sampled;
        let share = |part: u64| match ticks.all() {
            0 => 0.0,
            all => busy * part as f64 / all as f64,
        };
        (time.wall_seconds > 0.0).then(|| Self {
            user_percent: share(ticks.user),
            system_percent: share(ticks.system),
            irq_percent: share(ticks.irq),
            softirq_percent: share(ticks.softirq),
            idle_percent: percent(time.idle_seconds + time.iowait_seconds),
            steal_percent: percent(time.steal_seconds),
        })
    }

    fn add(&mut self, other: Self) {
        self.user_percent += other.user_percent;
        self.system_percent += other.system_percent;
        self.irq_percent += other.irq_percent;
        self.softirq_percent += other.softirq_percent;
        self.idle_percent += other.idle_percent;
        self.steal_percent += other.steal_percent;
    }
}

/// One CPU of the laboratory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuSplit {
    /// The CPU.
    pub cpu: usize,
    /// Its time.
    #[serde(flatten)]
    pub split: Split,
}

/// The split of a cell's windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuSplits {
    /// Length of all windows together.
    pub seconds: f64,
    /// CPUs of the sending host; null when the hosts share a CPU.
    pub sender: Option<Split>,
    /// CPUs of the receiving hosts; null when the hosts share a CPU.
    pub receiver: Option<Split>,
    /// CPUs of all hosts.
    pub total: Split,
    /// Every CPU of the laboratory.
    pub cpus: Vec<CpuSplit>,
}

impl CpuSplits {
    /// Over the samples of `cell` that count.
    pub(super) fn of(env: &Environment, cell: &Cell) -> Option<Self> {
        let seconds: f64 = cell
            .counted()
            .filter(|sample| !sample.cpu.cpus.is_empty())
            .map(|sample| sample.window_seconds)
            .sum();
        if seconds < LEAST_SECONDS {
            return None;
        }
        let mut by_cpu: BTreeMap<usize, CpuTime> = BTreeMap::new();
        for one in cell.counted().flat_map(|sample| &sample.cpu.cpus) {
            let sum = by_cpu.entry(one.cpu).or_default();
            sum.cpu = one.cpu;
            sum.wall_seconds += one.wall_seconds;
            sum.idle_seconds += one.idle_seconds;
            sum.iowait_seconds += one.iowait_seconds;
            sum.steal_seconds += one.steal_seconds;
            sum.sampled.user += one.sampled.user;
            sum.sampled.system += one.sampled.system;
            sum.sampled.irq += one.sampled.irq;
            sum.sampled.softirq += one.sampled.softirq;
        }
        let cpus: Vec<CpuSplit> = by_cpu
            .values()
            .filter_map(|time| {
                Some(CpuSplit {
                    cpu: time.cpu,
                    split: Split::of(time)?,
                })
            })
            .collect();
        let host = |on: &[usize]| {
            let known = !env.shared_cpus && cpus.iter().any(|c| on.contains(&c.cpu));
            known.then(|| sum(cpus.iter().filter(|c| on.contains(&c.cpu))))
        };
        Some(Self {
            seconds,
            sender: host(&env.host1_cpus),
            receiver: host(&env.host2_cpus),
            total: sum(cpus.iter()),
            cpus,
        })
    }
}

fn sum<'a>(cpus: impl Iterator<Item = &'a CpuSplit>) -> Split {
    cpus.fold(Split::default(), |mut sum, cpu| {
        sum.add(cpu.split);
        sum
    })
}
