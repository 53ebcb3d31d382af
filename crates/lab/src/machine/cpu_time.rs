//! CPU time from `/proc/stat`, per CPU, against the monotonic clock.
//!
//! The kernel clocks idle time, waiting for a disk and stolen time (`get_idle_time` in `fs/proc/stat.c`,
//! `steal_account_process_time`), and samples the rest at its tick. So the busy time of a window is the wall clock
//! without the three; the ticks are kept as what they are.

use crate::error::LabError;
use crate::machine::cpus::Cpus;
use nix::unistd::{SysconfVar, sysconf};
use overlane_analysis::record::{Cpu, CpuTime, CpuUse, SampledTicks};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

const PATH: &str = "/proc/stat";

/// The counters of every CPU at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuTimes {
    /// When they were read.
    pub(crate) at: Instant,
    cpus: BTreeMap<usize, Counters>,
}

/// Of one CPU since the machine began, in seconds and in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counters {
    idle_seconds: f64,
    iowait_seconds: f64,
    steal_seconds: f64,
    sampled: SampledTicks,
}

impl CpuTimes {
    pub(crate) fn now() -> Result<Self, LabError> {
        let before = Instant::now();
        let text = fs::read_to_string(PATH).map_err(LabError::io("reading", PATH.as_ref()))?;
        Ok(Self {
            at: before + before.elapsed() / 2,
            cpus: parse(&text, ticks_per_second())?,
        })
    }

    /// The use of each virtual host's CPUs since `before`; what the guests' programs used is not known here.
    pub(crate) fn since(&self, before: &Self, cpus: &Cpus) -> Cpu {
        let times = self.times_since(before, &cpus.all());
        let of = |cpus: &[usize]| CpuUse::of(times.iter().filter(|time| cpus.contains(&time.cpu)));
        let per_host = !cpus.shared();
        Cpu {
            sender: per_host.then(|| of(&cpus.host1)),
            receiver: per_host.then(|| of(&cpus.host2)),
            total: CpuUse::of(times.iter()),
            relay_sender_percent: None,
            relay_receiver_percent: None,
            guest_sender_percent: None,
            guest_receiver_percent: None,
            cpus: times,
        }
    }

    fn times_since(&self, before: &Self, cpus: &[usize]) -> Vec<CpuTime> {
        let wall_seconds = (self.at - before.at).as_secs_f64();
        let both = cpus
            .iter()
            .filter_map(|cpu| Some((*cpu, self.cpus.get(cpu)?, before.cpus.get(cpu)?)));
        both.map(|(cpu, now, then)| CpuTime {
            cpu,
            wall_seconds,
            idle_seconds: now.idle_seconds - then.idle_seconds,
            iowait_seconds: now.iowait_seconds - then.iowait_seconds,
            steal_seconds: now.steal_seconds - then.steal_seconds,
            sampled: minus(now.sampled, then.sampled),
        })
        .collect()
    }
}

/// The unit of the counters in `/proc` (USER_HZ).
pub(crate) fn ticks_per_second() -> f64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    ticks.map_or(100.0, |ticks| ticks as f64)
}

fn parse(text: &str, ticks_per_second: f64) -> Result<BTreeMap<usize, Counters>, LabError> {
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
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second;
        let counters = Counters {
            idle_seconds: seconds(idle),
            iowait_seconds: seconds(iowait),
            steal_seconds: seconds(steal),
            sampled: SampledTicks {
                user: user + nice,
                system,
                irq,
                softirq,
            },
        };
        cpus.insert(cpu, counters);
    }
    Ok(cpus)
}

fn minus(now: SampledTicks, before: SampledTicks) -> SampledTicks {
    SampledTicks {
        user: now.user.saturating_sub(before.user),
        system: now.system.saturating_sub(before.system),
        irq: now.irq.saturating_sub(before.irq),
        softirq: now.softirq.saturating_sub(before.softirq),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BEFORE: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 100 0 50 1000 10 0 5 0 40 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 140 10 70 1090 20 5 20 10 80 0\ncpu1 0 0 70 100 0 0 0 0 0 0\nintr 6\n";

    /// Two seconds apart, at 100 ticks a second.
    fn between(host1: usize, host2: usize) -> Cpu {
        let cpus = Cpus {
            host1: vec![host1],
            host2: vec![host2],
        };
        let at = Instant::now();
        let of = |text, at| CpuTimes {
            at,
            cpus: parse(text, 100.0).unwrap(),
        };
        of(AFTER, at + Duration::from_secs(2)).since(&of(BEFORE, at), &cpus)
    }

    #[test]
    fn busy_is_the_wall_clock_without_idle_iowait_and_steal() {
        let cpu = between(0, 1);
        // cpu0: of 2 s 0.9 idle, 0.1 waiting, 0.1 stolen. Its ticks say 0.9 s and are not asked.
        let sender = cpu.sender.unwrap();
        assert!((sender.busy_percent - 45.0).abs() < 1e-9, "{sender:?}");
        assert!((sender.steal_percent - 5.0).abs() < 1e-9);
        // cpu1: 1 s idle; the tick met 0.7 s of the other.
        assert!((cpu.receiver.unwrap().busy_percent - 50.0).abs() < 1e-9);
        assert!((cpu.total.busy_percent - 95.0).abs() < 1e-9);
    }

    #[test]
    fn every_cpu_is_there_once_with_its_parts() {
        let expected = CpuTime {
            cpu: 0,
            wall_seconds: 2.0,
            idle_seconds: 0.9,
            iowait_seconds: 0.1,
            steal_seconds: 0.1,
            sampled: SampledTicks {
                user: 50,
                system: 20,
                irq: 5,
                softirq: 15,
            },
        };
        let [found] = between(0, 0).cpus[..] else {
            panic!("one CPU")
        };
        assert_eq!((found.cpu, found.sampled), (0, expected.sampled));
        for (found, expected) in [
            (found.wall_seconds, expected.wall_seconds),
            (found.idle_seconds, expected.idle_seconds),
            (found.iowait_seconds, expected.iowait_seconds),
            (found.steal_seconds, expected.steal_seconds),
        ] {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        let cpus: Vec<_> = between(1, 0).cpus.iter().map(|time| time.cpu).collect();
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
        assert!(parse("cpu0 1 2 3\n", 100.0).is_err());
        assert!(parse("cpu0 1 2 x 4 5 6 7 8\n", 100.0).is_err());
        assert!(CpuTimes::now().is_ok());
    }
}
