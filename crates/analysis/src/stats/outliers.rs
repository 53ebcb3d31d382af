//! Samples that stand far from their row: named in a warning, never removed.
//!
//! The modified Z score of Iglewicz and Hoaglin measures distance from the median in units of the
//! median absolute deviation, so that one wild sample cannot hide itself by widening the spread.

use super::summary::{mean, median};

/// Score above which a sample is named as an outlier (Iglewicz and Hoaglin's 3.5).
pub const OUTLIER_SCORE: f64 = 3.5;

/// Below this share of the median a distance is no news, however quiet the other samples were.
const NEGLIGIBLE: f64 = 0.05;

/// Positions of the samples whose modified Z score is above [`OUTLIER_SCORE`].
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    let Some(centre) = median(samples).filter(|_| samples.len() >= 4) else {
        return Vec::new();
    };
    let Some(unit) = unit(samples, centre) else {
        return Vec::new();
    };
    let far = |v: f64| {
        let distance = (v - centre).abs();
        distance / unit > OUTLIER_SCORE && distance > NEGLIGIBLE * centre.abs()
    };
    samples
        .iter()
        .enumerate()
        .filter(|&(_, &v)| far(v))
        .map(|(i, _)| i)
        .collect()
}

/// What one unit of score is: MAD / 0.6745, or the mean deviation · 1.2533 when over half of the
/// samples are equal; `None` when all are.
fn unit(samples: &[f64], centre: f64) -> Option<f64> {
    let distances: Vec<f64> = samples.iter().map(|v| (v - centre).abs()).collect();
    let from_median = median(&distances)? / 0.6745;
    if from_median > 0.0 {
        return Some(from_median);
    }
    mean(&distances)
        .map(|m| m * 1.253_314)
        .filter(|&unit| unit > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Median 10, distances 0.1 0 0.1 0.2 5 → MAD 0.1; score of 15: 0.6745 · 5 / 0.1 = 33.7.
        assert_eq!(outliers(&[9.9, 10.0, 10.1, 10.2, 15.0]), [4]);
        // Score of 10.6: 0.6745 · 0.5 / 0.1 = 3.37, just below.
        assert_eq!(
            outliers(&[9.9, 10.0, 10.1, 10.2, 10.6]),
            Vec::<usize>::new()
        );
        // Median 3, distances 2 1 0 1 4 → MAD 1; score of 7: 0.6745 · 4 = 2.7.
        assert!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.0]).is_empty());
    }

    #[test]
    fn equal_samples_and_short_rows_have_none() {
        assert!(outliers(&[5.0; 6]).is_empty());
        assert!(outliers(&[1.0, 100.0, 1.0]).is_empty());
        assert!(outliers(&[]).is_empty());
    }

    #[test]
    fn mostly_equal_samples_fall_back_on_the_mean_deviation() {
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.0, 5.0, 9.0]), [5]);
        // Mean deviation 1.6; score of 9: 4 / (1.6 · 1.2533) = 2.
        assert!(outliers(&[5.0, 5.0, 5.0, 9.0, 9.0]).is_empty());
    }

    #[test]
    fn a_hair_off_a_still_row_is_no_outlier() {
        assert!(outliers(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.01]).is_empty());
    }
}
