//! The CPU clock of the laboratory against another one: a thread spins for a set share of the time on every CPU, and its own run
//! time (CLOCK_THREAD_CPUTIME_ID) has to be what the laboratory reads of that CPU.

use super::cpu_time::CpuTimes;
use super::cpus::{Cpus, pin_thread};
use crate::error::LabError;
use nix::time::{ClockId, clock_gettime};
use overlane_analysis::record::CpuTime;
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// Shares of the time that are spun, in per cent.
const DUTIES: [u32; 3] = [10, 50, 90];
/// How far the two clocks may be apart, in points.
pub(crate) const TOLERANCE_POINTS: f64 = 2.0;
/// Long against the grain of the counters (10 ms at either end).
const LENGTH: Duration = Duration::from_millis(1500);
/// Spinning and sleeping take turns in this time.
const PERIOD: Duration = Duration::from_millis(20);

/// What one CPU showed at one duty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) cpu: usize,
    /// What was to be spun, in per cent.
    pub(crate) duty_percent: u32,
    /// The spinner's own run time.
    pub(crate) spun_percent: f64,
    /// What the laboratory read.
    pub(crate) busy_percent: f64,
}

impl Reading {
    /// The clocks agree.
    pub(crate) fn agrees(&self) -> bool {
        (self.busy_percent - self.spun_percent).abs() <= TOLERANCE_POINTS
    }
}

/// Spins on all CPUs at once, one duty after the other.
pub(crate) fn readings(cpus: &Cpus) -> Result<Vec<Reading>, LabError> {
    let mut out = Vec::new();
    for duty_percent in DUTIES {
        let before = CpuTimes::now()?;
        let spinners: Vec<_> = cpus
            .all()
            .into_iter()
            .map(|cpu| (cpu, thread::spawn(move || spin(cpu, duty_percent))))
            .collect();
        let mut spun = Vec::new();
        for (cpu, spinner) in spinners {
            let time = spinner.join().map_err(|_| LabError::System {
                action: "spinning on a CPU".to_owned(),
                source: std::io::ErrorKind::Other.into(),
            })?;
            spun.push((cpu, time.map_err(LabError::system("spinning on a CPU"))?));
        }
        let found = CpuTimes::now()?.since(&before, cpus).cpus;
        out.extend(spun.into_iter().filter_map(|(cpu, time)| {
            let of: &CpuTime = found.iter().find(|found| found.cpu == cpu)?;
            Some(Reading {
                cpu,
                duty_percent,
                spun_percent: 100.0 * time.as_secs_f64() / of.wall_seconds,
                busy_percent: of.busy_percent(),
            })
        }));
    }
    Ok(out)
}

/// Spins on one CPU; returns the thread's own run time.
fn spin(cpu: usize, duty_percent: u32) -> nix::Result<Duration> {
    pin_thread(&[cpu])?;
    let end = Instant::now() + LENGTH;
    let busy = PERIOD * duty_percent / 100;
    let mut next = Instant::now();
    while Instant::now() < end {
        let until = Instant::now() + busy;
        while Instant::now() < until {
            spin_loop();
        }
        next += PERIOD;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_points_apart_agree_and_three_do_not() {
        let reading = |busy_percent| Reading {
            cpu: 0,
            duty_percent: 50,
            spun_percent: 50.0,
            busy_percent,
        };
        assert!(reading(51.9).agrees() && reading(48.1).agrees());
        assert!(!reading(53.0).agrees() && !reading(47.0).agrees());
    }

    #[test]
    fn a_spinner_spins_on_its_cpu_about_as_long_as_it_says() {
        let cpu = crate::machine::cpus::allowed().unwrap()[0];
        let spun = spin(cpu, 50).unwrap();
        assert!(spun > Duration::ZERO && spun < LENGTH + PERIOD, "{spun:?}");
    }
}
