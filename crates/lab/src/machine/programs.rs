//! Who else used the CPUs: the run time of every process that is not the laboratory's, between two moments.
//!
//! A process's time has that of the children it has waited for in it (`/proc/<pid>/stat`, fields 14 to 17, proc(5)), so a
//! compiler that begins and ends between the moments counts with the program that called it. The kernel scales these
//! fields to the run time that its scheduler clocks (`cputime_adjust` in `kernel/sched/cputime.c`): they are no samples.

use super::cpu_time::ticks_per_second;
use crate::error::LabError;
use nix::unistd::{SysconfVar, sysconf};
use overlane_analysis::record::{Foreign, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

/// So many programs are named.
const NAMED: usize = 3;
/// Process identifier of `kthreadd`: the kernel's threads are its children, and do the network's own work.
const KERNEL_THREADS: u32 = 2;
/// Who takes over what has no parent.
const INIT: u32 = 1;

/// All processes at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    at: Instant,
    of: BTreeMap<u32, Process>,
}

#[derive(Clone, Debug, PartialEq)]
struct Process {
    name: String,
    parent: u32,
    /// CPU that it ran on last.
    cpu: usize,
    /// Its own run time, and that of the children that it waited for.
    seconds: f64,
}

impl Programs {
    /// Reads every process that the kernel shows. One that ends meanwhile is left out.
    pub(crate) fn now() -> Result<Self, LabError> {
        let path = "/proc";
        let entries = fs::read_dir(path).map_err(LabError::io("reading", path.as_ref()))?;
        let ticks = ticks_per_second();
        let at = Instant::now();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let of = pids.filter_map(|pid: u32| {
            let text = fs::read_to_string(format!("{path}/{pid}/stat")).ok()?;
            Some((pid, parse(&text, ticks)?))
        });
        Ok(Self {
            at,
            of: of.collect(),
        })
    }

    /// What others than the process `own` and its descendants used since `before`, on these CPUs.
    pub(crate) fn foreign_since(&self, before: &Self, own: u32, cpus: &[usize]) -> Foreign {
        let seconds = (self.at - before.at).as_secs_f64();
        let mut used: BTreeMap<u32, f64> = BTreeMap::new();
        for (&pid, process) in &self.of {
            let then = before.of.get(&pid).map_or(0.0, |then| then.seconds);
            used.insert(pid, process.seconds - then);
        }
        // What a process had used before it ended is in its parent's time by now, and no news.
        for (pid, process) in &before.of {
            if !self.of.contains_key(pid) {
                used.entry(self.heir(before, process))
                    .and_modify(|used| *used -= process.seconds);
            }
        }
        let left_out = self.family(&[own, KERNEL_THREADS]);
        // The kernel tells the CPU of a process's first thread alone: where all CPUs are measured it does not matter.
        let everywhere = online().is_some_and(|online| cpus.len() >= online);
        let mut by_name: BTreeMap<&str, f64> = BTreeMap::new();
        for (pid, process) in &self.of {
            if !left_out.contains(pid) && (everywhere || cpus.contains(&process.cpu)) {
                let used = used.get(pid).copied().unwrap_or_default().max(0.0);
                *by_name.entry(&process.name).or_default() += 100.0 * used / seconds;
            }
        }
        let mut programs: Vec<Program> = by_name
            .into_iter()
            .filter(|(_, percent)| *percent > 0.0)
            .map(|(name, percent)| Program {
                name: name.to_owned(),
                percent,
            })
            .collect();
        programs.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        // Not `sum`: that of nothing is -0.
        let percent = programs.iter().fold(0.0, |sum, it| sum + it.percent);
        programs.truncate(NAMED);
        Foreign {
            percent,
            grain_percent: 100.0 / ticks_per_second() / seconds,
            programs,
        }
    }

    /// Who has waited for a process that ended, or for the one that did: the nearest ancestor that lives.
    fn heir(&self, before: &Self, ended: &Process) -> u32 {
        let mut parent = ended.parent;
        while !self.of.contains_key(&parent) {
            match before.of.get(&parent) {
                Some(ended) => parent = ended.parent,
                None => return INIT,
            }
        }
        parent
    }

    /// These processes and all their descendants.
    fn family(&self, roots: &[u32]) -> BTreeSet<u32> {
        let mut family: BTreeSet<u32> = roots.iter().copied().collect();
        loop {
            let children = self.of.iter();
            let new: Vec<u32> = children
                .filter(|(pid, process)| family.contains(&process.parent) && !family.contains(*pid))
                .map(|(pid, _)| *pid)
                .collect();
            if new.is_empty() {
                return family;
            }
            family.extend(new);
        }
    }
}

/// CPUs of the machine that run.
fn online() -> Option<usize> {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten()?;
    usize::try_from(online).ok()
}

/// One line of `/proc/<pid>/stat`: the name stands in parentheses and may hold anything, these among it.
fn parse(text: &str, ticks_per_second: f64) -> Option<Process> {
    let (begin, end) = (text.find('(')?, text.rfind(')')?);
    let name = text.get(begin + 1..end)?.to_owned();
    // Field 3, the state, stands first behind the name.
    let fields: Vec<&str> = text.get(end + 1..)?.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some(Process {
        name,
        parent: number(4)?.try_into().ok()?,
        cpu: number(39)?.try_into().ok()?,
        seconds: ticks as f64 / ticks_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn process(name: &str, parent: u32, seconds: f64) -> Process {
        Process {
            name: name.to_owned(),
            parent,
            cpu: 0,
            seconds,
        }
    }

    /// Two seconds apart; the laboratory is process 100.
    fn foreign(
        before: impl IntoIterator<Item = (u32, Process)>,
        now: impl IntoIterator<Item = (u32, Process)>,
    ) -> Foreign {
        let at = Instant::now();
        let before = Programs {
            at,
            of: before.into_iter().collect(),
        };
        let now = Programs {
            at: at + Duration::from_secs(2),
            of: now.into_iter().collect(),
        };
        now.foreign_since(&before, 100, &[0, 1])
    }

    fn named(foreign: &Foreign) -> Vec<(&str, f64)> {
        let programs = foreign.programs.iter();
        programs
            .map(|program| (program.name.as_str(), program.percent.round()))
            .collect()
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let mut line = "77 (a) b (c)) S 1 77 77 0 -1 4194560 100 0 0 0 10 20 30 40".to_owned();
        line += &" 0".repeat(21);
        line += " 3 0 0";
        let found = parse(&line, 100.0).unwrap();
        assert_eq!(
            (found.name.as_str(), found.parent, found.cpu),
            ("a) b (c)", 1, 3)
        );
        assert!((found.seconds - 1.0).abs() < 1e-9);
        assert_eq!(parse("77 (short) S 1", 100.0), None);
    }

    #[test]
    fn others_are_named_and_the_laboratory_and_the_kernel_are_not() {
        let found = foreign(
            [
                (1, process("init", 0, 9.0)),
                (2, process("kthreadd", 0, 0.0)),
                (3, process("ksoftirqd/0", 2, 5.0)),
                (50, process("cargo", 1, 7.0)),
                (100, process("overlane", 1, 3.0)),
                (101, process("overlane", 100, 3.0)),
            ],
            [
                (1, process("init", 0, 9.0)),
                (2, process("kthreadd", 0, 0.0)),
                (3, process("ksoftirqd/0", 2, 6.5)),
                (50, process("cargo", 1, 7.8)),
                (51, process("node", 50, 0.2)),
                (100, process("overlane", 1, 4.0)),
                (101, process("overlane", 100, 4.9)),
            ],
        );
        assert_eq!(named(&found), [("cargo", 40.0), ("node", 10.0)]);
        assert!((found.percent - 50.0).abs() < 1e-9);
        assert!(found.disturbs());
        assert_eq!(
            found.words(),
            "other programs used 50 % of a CPU: cargo, node"
        );
    }

    #[test]
    fn a_child_that_ended_counts_once_and_for_what_it_used_meanwhile() {
        // The compiler had used 6 s before; it used half a second more and was waited for.
        let found = foreign(
            [
                (50, process("cargo", 1, 1.0)),
                (60, process("rustc", 50, 6.0)),
            ],
            [(50, process("cargo", 1, 7.5))],
        );
        assert_eq!(named(&found), [("cargo", 25.0)]);
        // Both it and who called it ended: what they had used before is with who waited for the last of them.
        let found = foreign(
            [
                (40, process("bash", 1, 1.0)),
                (50, process("cargo", 40, 2.0)),
                (60, process("rustc", 50, 6.0)),
            ],
            [(40, process("bash", 1, 9.2))],
        );
        assert_eq!(named(&found), [("bash", 10.0)]);
        // Nobody waited for it: nothing is known of its end, and nothing is negative.
        let found = foreign(
            [
                (50, process("cargo", 1, 1.0)),
                (60, process("rustc", 50, 6.0)),
            ],
            [(50, process("cargo", 1, 1.0))],
        );
        assert_eq!((found.percent, found.programs), (0.0, Vec::new()));
    }

    #[test]
    fn this_machine_shows_its_processes() {
        let before = Programs::now().unwrap();
        assert!(before.of.contains_key(&std::process::id()));
        let own = std::process::id();
        let family = before.family(&[own]);
        assert!(family.contains(&own));
    }
}
