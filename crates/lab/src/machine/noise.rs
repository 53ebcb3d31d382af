//! Is the machine steady? A fixed piece of work, timed many times on each CPU of the laboratory,
//! before and after a run. A neighbour, a hypervisor or a clock that changes shows in the spread.

use super::cpus::pin_thread;
use crate::error::LabError;
use overlane_analysis::record::NoiseProbe;
use std::hint::black_box;
use std::time::Instant;

const REPEATS: usize = 150;
const WORK: u64 = 400_000;

/// Times the work on one CPU.
pub(crate) fn probe(when: &str, cpu: usize) -> Result<NoiseProbe, LabError> {
    // On a thread of its own, whose affinity ends with it.
    let timed = std::thread::spawn(move || {
        pin_thread(&[cpu])?;
        Ok::<_, nix::errno::Errno>((0..REPEATS).map(|_| time_once()).collect::<Vec<f64>>())
    });
    let panicked = || LabError::System {
        action: "probing the machine's steadiness".to_owned(),
        source: std::io::ErrorKind::Other.into(),
    };
    let times = timed.join().map_err(|_| panicked())?;
    let times = times.map_err(LabError::system("pinning the steadiness probe"))?;
    Ok(summary(when, cpu, times))
}

fn time_once() -> f64 {
    let began = Instant::now();
    let mut state = 1_u64;
    for step in 0..WORK {
        state = black_box(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(step),
        );
    }
    black_box(state);
    began.elapsed().as_secs_f64() * 1e6
}

fn summary(when: &str, cpu: usize, mut times: Vec<f64>) -> NoiseProbe {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = times.len().saturating_sub(1);
        times
            .get((share * last as f64).round() as usize)
            .copied()
            .unwrap_or(0.0)
    };
    let median_us = at(0.5);
    let above = |time: f64| {
        if median_us > 0.0 {
            100.0 * (time - median_us) / median_us
        } else {
            0.0
        }
    };
    NoiseProbe {
        when: when.to_owned(),
        cpu,
        median_us,
        spread_percent: above(at(0.9)),
        worst_percent: above(at(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_told() {
        let steady = summary("before", 0, vec![100.0; 50]);
        assert_eq!((steady.median_us, steady.spread_percent), (100.0, 0.0));
        let mut shaken = vec![120.0; 40];
        shaken.extend(vec![150.0; 10]);
        let shaken = summary("after", 0, shaken);
        assert!((shaken.spread_percent - 25.0).abs() < 1e-9, "{shaken:?}");
    }

    #[test]
    fn a_probe_measures_something() {
        let cpu = crate::machine::cpus::allowed().unwrap()[0];
        assert!(probe("before", cpu).unwrap().median_us > 0.0);
    }
}
