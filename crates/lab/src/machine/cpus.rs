//! Which CPUs are whose: each virtual host gets CPUs of its own, so that CPU time per CPU is CPU
//! time per host. Hardware threads of one core go to the same host.

use crate::error::LabError;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;

/// The CPUs of the two virtual hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    pub(crate) host1: Vec<usize>,
    pub(crate) host2: Vec<usize>,
}

/// Binds the calling thread to some CPUs; none: it runs on any.
pub(crate) fn pin_thread(cpus: &[usize]) -> nix::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

impl Cpus {
    /// Splits the CPUs that this process may use.
    pub(crate) fn of_this_machine() -> Result<Self, LabError> {
        let allowed = allowed()?;
        Ok(Self::split(&allowed, |cpu| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            // The lowest sibling names the core.
            let list = fs::read_to_string(path).ok()?;
            list.split([',', '-', '\n']).next()?.parse().ok()
        }))
    }

    fn split(allowed: &[usize], core_of: impl Fn(usize) -> Option<usize>) -> Self {
        let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &cpu in allowed {
            cores
                .entry(core_of(cpu).unwrap_or(cpu))
                .or_default()
                .push(cpu);
        }
        let mut groups: Vec<Vec<usize>> = cores.into_values().collect();
        if groups.len() == 1 {
            // One core: its threads are the best there is.
            groups = allowed.iter().map(|cpu| vec![*cpu]).collect();
        }
        let half = groups.len() / 2;
        if half == 0 {
            return Self {
                host1: allowed.to_vec(),
                host2: allowed.to_vec(),
            };
        }
        // Of an odd number of cores the last stays free, so that the hosts are alike.
        Self {
            host1: groups[..half].concat(),
            host2: groups[half..half * 2].concat(),
        }
    }

    /// The hosts share a CPU: nothing can be said per host.
    pub(crate) fn shared(&self) -> bool {
        self.host1.iter().any(|cpu| self.host2.contains(cpu))
    }

    /// The CPUs of both, each once.
    pub(crate) fn all(&self) -> Vec<usize> {
        let mut all = [self.host1.as_slice(), &self.host2].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The CPUs that this process may run on.
pub(crate) fn allowed() -> Result<Vec<usize>, LabError> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(LabError::system("reading the CPUs"))?;
    Ok((0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_whole_cores() {
        let split = |allowed: &[usize], threads: usize| {
            Cpus::split(allowed, |cpu| Some(cpu / threads * threads))
        };
        assert_eq!(
            split(&[0, 1], 1),
            Cpus {
                host1: vec![0],
                host2: vec![1]
            }
        );
        assert_eq!(
            split(&[0, 1, 2, 3], 2),
            Cpus {
                host1: vec![0, 1],
                host2: vec![2, 3]
            }
        );
        assert_eq!(
            split(&[0, 1, 2], 1),
            Cpus {
                host1: vec![0],
                host2: vec![1]
            }
        );
        // Two threads of one core, and a single CPU.
        assert_eq!(
            split(&[0, 1], 2),
            Cpus {
                host1: vec![0],
                host2: vec![1]
            }
        );
        let single = split(&[3], 1);
        assert_eq!(
            single,
            Cpus {
                host1: vec![3],
                host2: vec![3]
            }
        );
        assert!(single.shared());
        assert_eq!(single.all(), [3]);
    }
}
