//! One row of samples: mean, spread and the interval of the mean.
//!
//! The interval is Student's t on n − 1 degrees of freedom. Study B's rule (population standard
//! deviation at most 5 % of the mean) stands beside it, because it is a weaker promise: with three
//! samples it bounds the interval to ±15 % only.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Largest population standard deviation, in per cent of the mean, that study B accepts.
pub const STDDEV_LIMIT_PERCENT: f64 = 5.0;

/// Samples of one quantity with their mean and its 95 % interval; the shape printed in `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Arithmetic mean of the samples.
    pub mean: f64,
    /// 95 % interval of the mean, `[low, high]`; `None` with fewer than two samples.
    pub ci95: Option<[f64; 2]>,
    /// The raw values in the order of the rounds.
    pub samples: Vec<f64>,
}

impl Summary {
    /// Summary of the values that were measured; `None` when there is none (which is not 0).
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let samples: Vec<f64> = samples.into_iter().filter(|v| v.is_finite()).collect();
        Some(Self {
            mean: mean(&samples)?,
            ci95: t_interval(&samples),
            samples,
        })
    }

    /// Half the width of the interval as a share of the mean.
    pub fn relative_half_width(&self) -> Option<f64> {
        let [low, high] = self.ci95?;
        finite((high - low) / 2.0 / self.mean.abs())
    }

    /// Study B's rule: is the population standard deviation at most 5 % of the mean?
    pub fn within_stddev_rule(&self) -> Option<bool> {
        population_stddev_percent(&self.samples).map(|percent| percent <= STDDEV_LIMIT_PERCENT)
    }
}

/// Arithmetic mean.
pub fn mean(samples: &[f64]) -> Option<f64> {
    // Divided before summed, so that large finite samples cannot overflow to infinity.
    let n = samples.len() as f64;
    (!samples.is_empty())
        .then(|| samples.iter().map(|v| v / n).sum())
        .and_then(finite)
}

/// Median: the middle sample, or the mean of the two middle ones.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples)?;
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    finite(lower / 2.0 + upper / 2.0)
}

/// Sample standard deviation (divided by n − 1); `None` with fewer than two samples.
fn stddev(samples: &[f64]) -> Option<f64> {
    let squares = squared_deviations(samples)?;
    (samples.len() > 1)
        .then(|| (squares / (samples.len() - 1) as f64).sqrt())
        .and_then(finite)
}

/// Population standard deviation (divided by n) in per cent of the mean: study B's gate.
pub fn population_stddev_percent(samples: &[f64]) -> Option<f64> {
    let squares = squared_deviations(samples)?;
    let spread = (squares / samples.len() as f64).sqrt();
    if samples.len() < 2 {
        return None;
    }
    finite(100.0 * spread / mean(samples)?.abs())
}

/// 95 % interval of the mean by Student's t distribution.
pub fn t_interval(samples: &[f64]) -> Option<[f64; 2]> {
    let degrees = samples.len().checked_sub(1).filter(|&d| d > 0)? as f64;
    let t = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(0.975);
    let half = finite(t * stddev(samples)? / (samples.len() as f64).sqrt())?;
    let centre = mean(samples)?;
    Some([finite(centre - half)?, finite(centre + half)?])
}

/// The samples in ascending order; `None` when there is none or one is not finite.
pub(super) fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || samples.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The value, unless it is an infinity or not a number.
pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn squared_deviations(samples: &[f64]) -> Option<f64> {
    let centre = mean(samples)?;
    finite(samples.iter().map(|v| (v - centre).powi(2)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-3 * b.abs().max(1e-9), "{a} is not {b}");
    }

    #[test]
    fn interval_by_hand() {
        // mean 10, s² = (4 + 1 + 0 + 1 + 4) / 4 = 2.5, t(0.975, 4) = 2.7764.
        let row = [8.0, 9.0, 10.0, 11.0, 12.0];
        close(stddev(&row).unwrap(), 2.5_f64.sqrt());
        let half = 2.776_445 * (2.5_f64 / 5.0).sqrt();
        let [low, high] = t_interval(&row).unwrap();
        close(low, 10.0 - half);
        close(high, 10.0 + half);
    }

    #[test]
    fn quantiles_of_t() {
        // Table values of t(0.975, n − 1) read back from the half width: half · √n / s.
        for (n, t) in [
            (2, 12.7062),
            (3, 4.3027),
            (4, 3.1824),
            (6, 2.5706),
            (10, 2.2622),
        ] {
            let row: Vec<f64> = (0..n).map(f64::from).collect();
            let [low, high] = t_interval(&row).unwrap();
            close(
                (high - low) / 2.0 * f64::from(n).sqrt() / stddev(&row).unwrap(),
                t,
            );
        }
    }

    #[test]
    fn half_the_interval_as_a_share_of_the_mean() {
        // Deviation 1, t(2) = 4.3027: 4.3027 / √3 / 10.
        let summary = Summary::of([9.0, 10.0, 11.0]).unwrap();
        close(summary.relative_half_width().unwrap(), 0.248_414);
    }

    #[test]
    fn the_published_row_of_study_a() {
        // VXLAN, 1500, 1 stream; the study prints the mean as 4.60.
        let row = [4.53, 4.61, 4.63, 4.60, 4.64];
        close(mean(&row).unwrap(), 4.602);
        assert!(population_stddev_percent(&row).unwrap() < 1.0);
        assert_eq!(Summary::of(row).unwrap().within_stddev_rule(), Some(true));
    }

    #[test]
    fn population_not_sample_deviation() {
        // Deviations −1 and +1 about 10: population 1 (10 %), sample √2.
        close(population_stddev_percent(&[9.0, 11.0]).unwrap(), 10.0);
        close(stddev(&[9.0, 11.0]).unwrap(), 2.0_f64.sqrt());
    }

    #[test]
    fn too_little_is_none() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN]), None);
        let one = Summary::of([3.0]).unwrap();
        assert_eq!(
            (one.mean, one.ci95, stddev(&one.samples)),
            (3.0, None, None)
        );
        assert_eq!(population_stddev_percent(&[0.0, 0.0]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    proptest! {
        #[test]
        fn whatever_comes_in_nothing_but_numbers_comes_out(
            row in prop::collection::vec(prop::num::f64::ANY, 0..12)
        ) {
            if let Some(s) = Summary::of(row) {
                prop_assert!(s.mean.is_finite());
                prop_assert!(s.samples.iter().all(|v| v.is_finite()));
                if let Some([low, high]) = s.ci95 {
                    prop_assert!(low.is_finite() && high.is_finite());
                }
            }
        }

        #[test]
        fn interval_holds_the_mean_and_scales(
            row in prop::collection::vec(0.1_f64..100.0, 2..12), factor in 0.01_f64..100.0
        ) {
            let [low, high] = t_interval(&row).unwrap();
            let centre = mean(&row).unwrap();
            prop_assert!(low <= centre + 1e-9 && centre <= high + 1e-9);
            let scaled: Vec<f64> = row.iter().map(|v| v * factor).collect();
            let [slow, shigh] = t_interval(&scaled).unwrap();
            prop_assert!((slow - low * factor).abs() < 1e-6 * factor * 100.0);
            prop_assert!((shigh - high * factor).abs() < 1e-6 * factor * 100.0);
        }
    }
}
