//! What the CPUs did in a window: by the clock, and by whom.
//!
//! The kernel clocks the time in which a CPU does nothing, and the time that a hypervisor takes; it does not clock the rest, which
//! it samples at its tick (`kernel/sched/cputime.c`). So the busy time is what is left of the wall clock, and the tick
//! says only how it divides into user, system and interrupts.

use serde::{Deserialize, Serialize};

/// Share of the time of a virtual host's CPUs, in per cent of one CPU (two busy CPUs are 200).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Wall clock − idle − waiting for a disk − stolen.
    pub busy_percent: f64,
    /// Taken away by the hypervisor.
    pub steal_percent: f64,
}

impl CpuUse {
    /// Of these CPUs together.
    pub fn of<'a>(cpus: impl Iterator<Item = &'a CpuTime>) -> Self {
        let mut sum = Self::default();
        for cpu in cpus.filter(|cpu| cpu.wall_seconds > 0.0) {
            sum.busy_percent += cpu.busy_percent();
            sum.steal_percent += 100.0 * cpu.steal_seconds / cpu.wall_seconds;
        }
        sum
    }
}

/// Time of one CPU in the window (proc(5), `/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// The CPU.
    pub cpu: usize,
    /// Between the two readings of its counters, by the monotonic clock.
    pub wall_seconds: f64,
    /// Idle, by the kernel's clock.
    pub idle_seconds: f64,
    /// Waiting for a disk, by the kernel's clock.
    pub iowait_seconds: f64,
    /// Stolen by the hypervisor, by its clock.
    pub steal_seconds: f64,
    /// What the busy time was spent on, as the tick met it.
    pub sampled: SampledTicks,
}

impl CpuTime {
    /// Neither idle, nor waiting, nor stolen. Below 0 by at most the grain of the counters.
    pub fn busy_seconds(&self) -> f64 {
        self.wall_seconds - self.idle_seconds - self.iowait_seconds - self.steal_seconds
    }

    /// The same in per cent of the wall clock, never below 0.
    pub fn busy_percent(&self) -> f64 {
        (100.0 * self.busy_seconds() / self.wall_seconds).max(0.0)
    }
}

/// Ticks by what they met: samples of the busy time, not a clock. One short window holds too few of them for a split: they are
/// summed over all samples of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledTicks {
    /// User, with nice.
    pub user: u64,
    /// System.
    pub system: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Soft interrupts: most of the kernel's network work.
    pub softirq: u64,
}

impl SampledTicks {
    /// All of them.
    pub const fn all(&self) -> u64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// CPU of one sample: per virtual host where the hosts have CPUs of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The sending guests' host; null when the hosts share a CPU.
    pub sender: Option<CpuUse>,
    /// The receiving guests' hosts; null when the hosts share a CPU.
    pub receiver: Option<CpuUse>,
    /// The CPUs of all hosts together.
    pub total: CpuUse,
    /// The sending guests' own programs (CLOCK_PROCESS_CPUTIME_ID: their run time, with the interrupts that the kernel
    /// served meanwhile), in per cent of one CPU; part of `sender`.
    pub guest_sender_percent: Option<f64>,
    /// The receiving guests' own programs.
    pub guest_receiver_percent: Option<f64>,
    /// The relays of the sending guests (their CPU clocks), in per cent of one CPU; part of `sender`. Null without
    /// virtual machines.
    #[serde(default)]
    pub relay_sender_percent: Option<f64>,
    /// The relays of the receiving guests.
    #[serde(default)]
    pub relay_receiver_percent: Option<f64>,
    /// Every CPU of the laboratory.
    pub cpus: Vec<CpuTime>,
}

/// CPU cost of a Gbit/s: busy per cent of one CPU, divided by the goodput.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPerGbps {
    /// The sending host; null when the hosts share a CPU.
    pub sender: Option<f64>,
    /// The receiving hosts; null when the hosts share a CPU.
    pub receiver: Option<f64>,
    /// All together; null without goodput.
    pub sum: Option<f64>,
}

/// CPU of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialCpu {
    /// Sending host.
    pub sender: Option<f64>,
    /// Receiving hosts.
    pub receiver: Option<f64>,
    /// All.
    pub total: f64,
}

/// From this share of a CPU on, foreign load disturbs a sample.
pub const FOREIGN_LIMIT_PERCENT: f64 = 3.0;

/// CPU that programs used which are not the laboratory's, on the measured CPUs while the sample was taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// All of them, in per cent of one CPU.
    pub percent: f64,
    /// How finely that is known: one tick of the kernel's counters, in per cent of the time in which they were watched.
    #[serde(default)]
    pub grain_percent: f64,
    /// The largest, largest first.
    pub programs: Vec<Program>,
}

/// Names of programs for a sentence. Those that ended before they were looked at have none.
pub(crate) fn names_of(programs: &[String]) -> String {
    match programs {
        [] => "too short-lived to be named".to_owned(),
        programs => programs.join(", "),
    }
}

/// What the processes of one name used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Name of the process, as ps(1) shows it.
    pub name: String,
    /// In per cent of one CPU.
    pub percent: f64,
}

impl Foreign {
    /// Enough to disturb a sample, beyond what the counters may say too much.
    pub fn disturbs(&self) -> bool {
        self.percent - self.grain_percent > FOREIGN_LIMIT_PERCENT
    }

    /// `other programs used 41 % of a CPU: cargo, chrome, node`
    pub fn words(&self) -> String {
        let names: Vec<_> = self.programs.iter().map(|p| p.name.as_str()).collect();
        let percent = self.percent;
        if names.is_empty() {
            format!("other programs used {percent:.0} % of a CPU")
        } else {
            format!(
                "other programs used {percent:.0} % of a CPU: {}",
                names.join(", ")
            )
        }
    }
}
