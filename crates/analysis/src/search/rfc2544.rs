//! The two procedures of RFC 2544 itself: throughput (section 26.1) and frame loss rate (26.3).
//!
//! Beside [`super::search()`] for readers who want the older, simpler tests. Each trial decides
//! alone, and the trial length is the caller's (section 24 asks for at least 60 s).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::goal::Limits;
use super::trial::Trial;

/// Distance between two loads of the frame loss rate test, in per cent of the largest load.
const STEP_PERCENT: u8 = 10;

/// Loss-free trials in a row that end the frame loss rate test.
const LOSS_FREE_TO_END: usize = 2;

/// Result of the throughput test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// All trials in the order in which they were measured.
    pub trials: Vec<Trial>,
    /// Largest load found that loses no frame; `None` when even the smallest load loses some.
    pub throughput_pps: Option<f64>,
    /// Smallest load found that loses frames; `None` when the largest load loses none.
    pub lossy_pps: Option<f64>,
}

impl Throughput {
    /// Did the largest load lose no frame, so that the system may carry more?
    pub fn is_at_max_load(&self) -> bool {
        self.throughput_pps.is_some() && self.lossy_pps.is_none()
    }
}

/// Searches for the highest load without one lost frame: the largest load, then halving between the
/// highest load that passed and the lowest that failed, until (failed − passed) / failed ≤ `width`.
///
/// Ends after about log2(1 / width) trials; a width below 0.0001 is taken as 0.0001.
///
/// # Errors
///
/// The first error of `measure`, unchanged.
pub fn throughput<E>(
    limits: Limits,
    trial: Duration,
    width: f64,
    mut measure: impl FnMut(f64, Duration) -> Result<Trial, E>,
) -> Result<Throughput, E> {
    let limits = limits.with_a_frame_in(trial);
    let width = width.max(0.0001);
    let mut found = Throughput {
        trials: Vec::new(),
        throughput_pps: None,
        lossy_pps: None,
    };
    let mut next = Some(limits.max_pps());
    while let Some(load_pps) = next {
        let trial = at(load_pps, trial, &mut measure)?;
        found.trials.push(trial);
        match trial.loss_ratio() > 0.0 {
            true => found.lossy_pps = Some(load_pps),
            false => found.throughput_pps = Some(load_pps),
        }
        next = match (found.throughput_pps, found.lossy_pps) {
            (Some(passed), Some(failed)) => {
                (failed - passed > width * failed).then(|| f64::midpoint(passed, failed))
            }
            // The smallest load is tried only when halving arrives there: most systems carry more.
            (None, Some(failed)) if failed > limits.min_pps() => {
                let half = failed / 2.0;
                Some(half.max(limits.min_pps()))
            }
            _ => None,
        };
    }
    Ok(found)
}

/// One row of the frame loss rate test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossStep {
    /// The load as a share of the largest load.
    pub percent_of_max: u8,
    /// ((input − output) × 100) / input, input being the frames intended.
    pub loss_percent: f64,
    /// The trial.
    pub trial: Trial,
}

/// Measures the frame loss rate at 100 % of the largest load, 90 %, 80 % and so on, until two trials
/// in a row lose no frame or 10 % was measured.
///
/// # Errors
///
/// The first error of `measure`, unchanged.
pub fn loss_rate_steps<E>(
    limits: Limits,
    trial: Duration,
    mut measure: impl FnMut(f64, Duration) -> Result<Trial, E>,
) -> Result<Vec<LossStep>, E> {
    let mut steps: Vec<LossStep> = Vec::new();
    for tenth in (1..=100 / STEP_PERCENT).rev() {
        let percent_of_max = tenth * STEP_PERCENT;
        let load_pps = limits.max_pps() * f64::from(percent_of_max) / 100.0;
        let trial = at(load_pps, trial, &mut measure)?;
        steps.push(LossStep {
            percent_of_max,
            loss_percent: 100.0 * trial.loss_ratio(),
            trial,
        });
        let mut last = steps.iter().rev().take(LOSS_FREE_TO_END);
        if steps.len() >= LOSS_FREE_TO_END && last.all(|step| step.loss_percent == 0.0) {
            break;
        }
    }
    Ok(steps)
}

/// Measures a trial; load and duration are entered as asked for.
fn at<E>(
    load_pps: f64,
    duration: Duration,
    measure: &mut impl FnMut(f64, Duration) -> Result<Trial, E>,
) -> Result<Trial, E> {
    Ok(Trial {
        load_pps,
        duration,
        ..measure(load_pps, duration)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    const TRIAL: Duration = Duration::from_secs(60);

    /// A system that forwards everything up to `capacity_pps` and drops the rest.
    fn system(capacity_pps: f64) -> impl FnMut(f64, Duration) -> Result<Trial, Infallible> {
        move |load_pps, duration| {
            let intended = (load_pps * duration.as_secs_f64()).round() as u64;
            let most = (capacity_pps * duration.as_secs_f64()).floor() as u64;
            Ok(Trial {
                load_pps,
                duration,
                intended,
                sent: intended,
                received: intended.min(most),
            })
        }
    }

    fn limits() -> Limits {
        Limits::new(100.0, 1000.0).unwrap()
    }

    #[test]
    fn throughput_at_the_limits() {
        let found = throughput(limits(), TRIAL, 0.005, system(1000.0)).unwrap();
        assert_eq!(
            (found.trials.len(), found.throughput_pps),
            (1, Some(1000.0))
        );
        assert!(found.is_at_max_load());

        let found = throughput(limits(), TRIAL, 0.005, system(50.0)).unwrap();
        assert_eq!((found.throughput_pps, found.lossy_pps), (None, Some(100.0)));
        let loads: Vec<f64> = found.trials.iter().map(|t| t.load_pps).collect();
        assert_eq!(loads, [1000.0, 500.0, 250.0, 125.0, 100.0]);
        assert!(!found.is_at_max_load());
    }

    #[test]
    fn loss_rate_ends_after_two_loss_free_trials() {
        let steps = loss_rate_steps(limits(), TRIAL, system(800.0)).unwrap();
        let rows: Vec<(u8, f64)> = steps
            .iter()
            .map(|s| (s.percent_of_max, (s.loss_percent * 100.0).round() / 100.0))
            .collect();
        assert_eq!(rows, [(100, 20.0), (90, 11.11), (80, 0.0), (70, 0.0)]);
    }

    #[test]
    fn two_loss_free_trials_must_be_in_a_row() {
        let mut count = 0;
        let steps = loss_rate_steps(limits(), TRIAL, |load, duration| {
            count += 1;
            system(if count % 2 == 0 { 1.0 } else { 1000.0 })(load, duration)
        });
        let steps = steps.unwrap();
        assert_eq!(steps.len(), 10);
        assert_eq!(steps.last().unwrap().percent_of_max, 10);
    }

    #[test]
    fn an_error_of_the_measurement_ends_both() {
        assert_eq!(
            throughput(limits(), TRIAL, 0.1, |_, _| Err("no")),
            Err("no")
        );
        assert_eq!(
            loss_rate_steps(limits(), TRIAL, |_, _| Err("no")),
            Err("no")
        );
    }

    proptest! {
        #[test]
        fn brackets_the_capacity(capacity in 100.0..1000.0_f64, width in 0.0..0.2_f64) {
            let found = throughput(limits(), TRIAL, width, system(capacity)).unwrap();
            prop_assert!(found.trials.len() < 25);
            let (passed, failed) = (found.throughput_pps.unwrap(), found.lossy_pps.unwrap());
            // Frames are whole, so a load of up to half a frame per trial more may pass.
            prop_assert!(passed <= capacity + 1.0 / 60.0 && failed > capacity - 1.0 / 60.0);
            prop_assert!(failed - passed <= width.max(0.0001) * failed);
        }

        #[test]
        fn noise_cannot_keep_it_going(bits in prop::collection::vec(any::<bool>(), 64)) {
            let mut bits = bits.into_iter().cycle();
            let mut noisy = |load, duration| {
                system(if bits.next().unwrap_or(true) { 1.0 } else { 1e9 })(load, duration)
            };
            let found = throughput(limits(), TRIAL, 0.0, &mut noisy).unwrap();
            prop_assert!(found.trials.len() < 25);
            prop_assert!(loss_rate_steps(limits(), TRIAL, &mut noisy).unwrap().len() <= 10);
        }
    }
}
