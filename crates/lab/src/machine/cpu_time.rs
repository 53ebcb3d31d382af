//! CPU time from `/proc/stat`, per CPU: as shares of a window, and as the ticks themselves.

use crate::error::LabError;
use crate::machine::cpus::Cpus;
use overlane_analysis::record::{Cpu, CpuTicks, CpuUse};
use std::collections::BTreeMap;
use std::fs;

const PATH: &str = "/proc/stat";

/// The counters of every CPU at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuTimes(BTreeMap<usize, CpuTicks>);

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
            // proc(5). The guest columns behind are part of `user` and `nice` already.
            let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = columns.as_slice()
            else {
                return Err(malformed(format!("fewer than 8 columns in `{line}`")));
            };
            let ticks = CpuTicks {
                cpu,
                user: user + nice,
                system,
                irq,
                softirq,
                idle: idle + iowait,
                steal,
            };
            cpus.insert(cpu, ticks);
        }
        Ok(Self(cpus))
    }

    /// The use of each virtual host's CPUs since `before`; what the guests' programs used is not known here.
    pub(crate) fn since(&self, before: &Self, cpus: &Cpus) -> Cpu {
        let ticks = self.ticks_since(before, &cpus.all());
        let of = |cpus: &[usize]| use_of(ticks.iter().filter(|ticks| cpus.contains(&ticks.cpu)));
        let per_host = !cpus.shared();
        Cpu {
            sender: per_host.then(|| of(&cpus.host1)),
            receiver: per_host.then(|| of(&cpus.host2)),
            total: of(&cpus.all()),
            relay_sender_percent: None,
            relay_receiver_percent: None,
            guest_sender_percent: None,
            guest_receiver_percent: None,
            ticks,
        }
    }

    fn ticks_since(&self, before: &Self, cpus: &[usize]) -> Vec<CpuTicks> {
        let both = cpus
            .iter()
            .filter_map(|cpu| Some((self.0.get(cpu)?, before.0.get(cpu)?)));
        both.map(|(now, then)| minus(now, then)).collect()
    }
}

fn use_of<'a>(ticks: impl Iterator<Item = &'a CpuTicks>) -> CpuUse {
    let mut sum = CpuUse::default();
    for ticks in ticks {
        let busy = ticks.user + ticks.system + ticks.irq + ticks.softirq;
        let all = busy + ticks.idle + ticks.steal;
        if all > 0 {
            let share = |part: u64| 100.0 * part as f64 / all as f64;
            sum.busy_percent += share(busy);
            sum.steal_percent += share(ticks.steal);
        }
    }
    sum
}

/// Saturating, as the idle column may step back by one (proc(5)).
fn minus(now: &CpuTicks, before: &CpuTicks) -> CpuTicks {
    CpuTicks {
        cpu: now.cpu,
        user: now.user.saturating_sub(before.user),
        system: now.system.saturating_sub(before.system),
        irq: now.irq.saturating_sub(before.irq),
        softirq: now.softirq.saturating_sub(before.softirq),
        idle: now.idle.saturating_sub(before.idle),
        steal: now.steal.saturating_sub(before.steal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 100 0 50 1000 10 0 5 0 40 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 140 10 70 1090 20 5 20 10 80 0\ncpu1 0 0 100 100 0 0 0 0 0 0\nintr 6\n";

    fn between(host1: usize, host2: usize) -> Cpu {
        let cpus = Cpus {
            host1: vec![host1],
            host2: vec![host2],
        };
        let (before, after) = (CpuTimes::parse(BEFORE), CpuTimes::parse(AFTER));
        after.unwrap().since(&before.unwrap(), &cpus)
    }

    #[test]
    fn busy_is_all_but_idle_iowait_and_steal_and_counts_guests_once() {
        let cpu = between(0, 1);
        // cpu0: user+nice 50, system 20, irq 5, softirq 15 of 200; idle+iowait 100; steal 10.
        let sender = cpu.sender.unwrap();
        assert!((sender.busy_percent - 45.0).abs() < 1e-9, "{sender:?}");
        assert!((sender.steal_percent - 5.0).abs() < 1e-9);
        assert!((cpu.receiver.unwrap().busy_percent - 50.0).abs() < 1e-9);
        assert!((cpu.total.busy_percent - 95.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_of_every_cpu_once() {
        let expected = CpuTicks {
            cpu: 0,
            user: 50,
            system: 20,
            irq: 5,
            softirq: 15,
            idle: 100,
            steal: 10,
        };
        assert_eq!(between(0, 0).ticks, [expected]);
        let cpus: Vec<_> = between(1, 0).ticks.iter().map(|ticks| ticks.cpu).collect();
        assert_eq!(cpus, [0, 1]);
    }

    #[test]
    fn shared_cpus_have_no_hosts() {
        let cpu = between(0, 0);
        assert_eq!((cpu.sender, cpu.receiver), (None, None));
        assert!((cpu.total.busy_percent - 45.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_line_is_an_error() {
        assert!(CpuTimes::parse("cpu0 1 2 3\n").is_err());
        assert!(CpuTimes::parse("cpu0 1 2 x 4 5 6 7 8\n").is_err());
        assert!(CpuTimes::now().is_ok());
    }
}
