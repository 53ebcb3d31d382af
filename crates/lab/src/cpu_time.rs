//! CPU time from `/proc/stat`, per CPU, as shares of a window.

use crate::cpus::Cpus;
use crate::error::LabError;
use crate::record::{Cpu, CpuUse};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const PATH: &str = "/proc/stat";
/// The kernel books user, system and softirq by what its tick meets; below this window those are
/// too few meetings to print.
const SPLIT_NEEDS: Duration = Duration::from_secs(4);

/// The counters of every CPU at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuTimes(BTreeMap<usize, Ticks>);

/// The columns of one CPU, proc(5). The guest columns are part of `user` and `nice` already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

impl CpuTimes {
    pub(crate) fn now() -> Result<Self, LabError> {
        let text = fs::read_to_string(PATH).map_err(LabError::io("reading", PATH.as_ref()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, LabError> {
        let malformed = |reason: String| LabError::KernelFile { path: PATH, reason };
        let mut cpus = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(cpu) = words.next().and_then(|word| word.strip_prefix("cpu")) else {
                continue;
            };
            // The first line, `cpu`, is the sum of the others.
            let Ok(cpu) = cpu.parse() else { continue };
            let columns: Result<Vec<u64>, _> = words.map(str::parse).collect();
            let columns = columns.map_err(|error| malformed(format!("{error} in `{line}`")))?;
            let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = columns.as_slice()
            else {
                return Err(malformed(format!("fewer than 8 columns in `{line}`")));
            };
            let (user, idle) = (user + nice, idle + iowait);
            cpus.insert(
                cpu,
                Ticks {
                    user,
                    system,
                    idle,
                    irq,
                    softirq,
                    steal,
                },
            );
        }
        Ok(Self(cpus))
    }

    /// The use of each virtual host's CPUs since `before`.
    pub(crate) fn since(&self, before: &Self, cpus: &Cpus, window: Duration) -> Cpu {
        let of = |cpus: &[usize]| self.use_of(before, cpus, window);
        let per_host = !cpus.shared();
        Cpu {
            sender: per_host.then(|| of(&cpus.host1)),
            receiver: per_host.then(|| of(&cpus.host2)),
            total: of(&cpus.all()),
        }
    }

    fn use_of(&self, before: &Self, cpus: &[usize], window: Duration) -> CpuUse {
        let mut sum = CpuUse {
            busy_percent: 0.0,
            steal_percent: 0.0,
            user_percent: Some(0.0),
            system_percent: Some(0.0),
            softirq_percent: Some(0.0),
        };
        for cpu in cpus {
            let (Some(now), Some(then)) = (self.0.get(cpu), before.0.get(cpu)) else {
                continue;
            };
            let ticks = now.minus(then);
            let all = ticks.busy() + ticks.idle + ticks.steal;
            if all == 0 {
                continue;
            }
            let share = |part: u64| 100.0 * part as f64 / all as f64;
            sum.busy_percent += share(ticks.busy());
            sum.steal_percent += share(ticks.steal);
            let add = |to: &mut Option<f64>, part| {
                *to = to
                    .filter(|_| window >= SPLIT_NEEDS)
                    .map(|sum| sum + share(part));
            };
            add(&mut sum.user_percent, ticks.user);
            add(&mut sum.system_percent, ticks.system);
            add(&mut sum.softirq_percent, ticks.softirq + ticks.irq);
        }
        sum
    }
}

impl Ticks {
    fn busy(&self) -> u64 {
        self.user + self.system + self.irq + self.softirq
    }

    /// Saturating, as the idle column may step back by one (proc(5)).
    fn minus(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            idle: self.idle.saturating_sub(before.idle),
            irq: self.irq.saturating_sub(before.irq),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 100 0 50 1000 10 0 5 0 40 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 140 10 70 1090 20 5 20 10 80 0\ncpu1 0 0 100 100 0 0 0 0 0 0\nintr 6\n";

    fn between(cpus: &Cpus, seconds: u64) -> Cpu {
        let (before, after) = (
            CpuTimes::parse(BEFORE).unwrap(),
            CpuTimes::parse(AFTER).unwrap(),
        );
        after.since(&before, cpus, Duration::from_secs(seconds))
    }

    #[test]
    fn busy_is_all_but_idle_iowait_and_steal_and_counts_guests_once() {
        let cpu = between(
            &Cpus {
                host1: vec![0],
                host2: vec![1],
            },
            5,
        );
        // cpu0: user+nice 50, system 20, irq 5, softirq 15 of 200; idle+iowait 100; steal 10.
        let sender = cpu.sender.unwrap();
        assert!((sender.busy_percent - 45.0).abs() < 1e-9, "{sender:?}");
        assert!((sender.steal_percent - 5.0).abs() < 1e-9);
        assert_eq!(sender.softirq_percent.unwrap().round(), 10.0);
        assert!((cpu.receiver.unwrap().busy_percent - 50.0).abs() < 1e-9);
        assert!((cpu.total.busy_percent - 95.0).abs() < 1e-9);
    }

    #[test]
    fn short_windows_have_no_split_and_shared_cpus_no_hosts() {
        let cpu = between(
            &Cpus {
                host1: vec![0],
                host2: vec![0],
            },
            2,
        );
        assert_eq!((cpu.sender, cpu.receiver), (None, None));
        assert_eq!(cpu.total.user_percent, None);
        assert!((cpu.total.busy_percent - 45.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_line_is_an_error() {
        assert!(CpuTimes::parse("cpu0 1 2 3\n").is_err());
        assert!(CpuTimes::parse("cpu0 1 2 x 4 5 6 7 8\n").is_err());
        assert!(CpuTimes::now().is_ok());
    }
}
