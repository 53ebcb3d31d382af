//! Two rows of samples as a ratio and as a difference, each with its interval. [`verdict`](super::verdict) says what that means.
//!
//! The estimate is the median of the ratios A/B of the same round of one interleaved run, because
//! whatever drifts from round to round (heat, neighbours on the machine) is in both and cancels.
//! Its intervals use order statistics and the binomial distribution alone: no assumption about the
//! shape of the noise. Beside them stands the p-value of a permutation test on the logarithms.
//!
//! Samples that were not taken in turn have no pairs. All cross ratios are compared instead (Hodges-Lehmann estimate,
//! Mann-Whitney interval). What drifted between the two rows is in that ratio, so it has no p-value and never a verdict.
//!
//! The same is given as a difference A − B, for quantities that are per cents themselves. Ratio and
//! difference share their order statistics, so that one interval excludes 1 when the other excludes 0.

use serde::{Deserialize, Serialize};

use super::permutation::sign_flip;
use super::summary::{finite, median, sorted};
use super::verdict::{Verdict, Why};

/// Fewest pairs that can give a verdict: with 5, min..max covers only 93.75 %.
pub const MIN_PAIRS: usize = 6;

/// Fewest samples a side that give an interval without pairs.
pub const MIN_SIDE: usize = 5;

/// What may lie beyond one end of an interval of 95 %, and of one of 90 %.
const TAIL_95: f64 = 0.025;
const TAIL_90: f64 = 0.05;

/// What a value of 0 counts as where logarithms are taken.
const SMALLEST: f64 = 1e-12;

/// Which way a quantity is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better: goodput.
    Higher,
    /// Less is better: CPU per Gbit/s.
    Lower,
}

/// How the ratio and its interval were computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Ratios within a round, order statistics.
    Paired,
    /// Ratios across all rounds, Hodges-Lehmann with the Mann-Whitney distribution.
    Unpaired,
}

/// A against B, as a ratio and as a difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Which way the quantity is better.
    pub better: Better,
    /// How ratio and interval were computed.
    pub method: Method,
    /// Rounds in which both sides have a sample with a ratio.
    pub pairs: usize,
    /// Median ratio A/B; `None` without a single ratio.
    pub ratio: Option<f64>,
    /// Interval of the ratio with at least 95 % coverage; `None` with too few samples for one.
    pub ci95: Option<[f64; 2]>,
    /// The same with at least 90 % coverage; `None` without pairs.
    pub ci90: Option<[f64; 2]>,
    /// Median difference A − B, in the quantity's own unit.
    pub difference: Option<f64>,
    /// Interval of the difference, as `ci95` of the ratio.
    pub difference_ci95: Option<[f64; 2]>,
    /// p-value of the permutation test: how often chance alone would part the two as far. `None` without pairs enough for
    /// an interval.
    pub p: Option<f64>,
    /// The p-value adjusted for the comparisons of the same family; `None` before they are judged, and without p.
    pub q: Option<f64>,
    /// What that says; [`judge`](super::judge) decides.
    pub verdict: Verdict,
    /// Why there is neither a difference nor sameness; `None` where there is one of them.
    pub reason: Option<Why>,
}

/// Compares two rows given as (round, value) that were sampled in turn: values of the same round are pairs.
pub fn compare(a: &[(u32, f64)], b: &[(u32, f64)], better: Better) -> Comparison {
    let pairs: Vec<(f64, f64)> = a
        .iter()
        .filter_map(|&(round, x)| Some((x, b.iter().find(|&&(r, _)| r == round)?.1)))
        .collect();
    paired(&pairs, better)
}

/// Comparison of samples that are pairs, (A, B); a pair without a ratio is left out.
pub fn paired(pairs: &[(f64, f64)], better: Better) -> Comparison {
    let (ratios, differences): (Vec<f64>, Vec<f64>) = pairs
        .iter()
        .filter_map(|&(x, y)| Some((ratio(x, y)?, x - y)))
        .unzip();
    let enough = ratios.len() >= MIN_PAIRS;
    let interval = |row: &[f64], tail: f64| {
        sorted(row)
            .filter(|_| enough)
            .and_then(|s| median_interval(&s, tail))
    };
    let ci95 = interval(&ratios, TAIL_95);
    let logs: Vec<f64> = ratios.iter().map(|r| r.max(SMALLEST).ln()).collect();
    Comparison {
        better,
        method: Method::Paired,
        pairs: ratios.len(),
        ratio: median(&ratios),
        ci95,
        ci90: interval(&ratios, TAIL_90),
        difference: median(&differences),
        difference_ci95: interval(&differences, TAIL_95),
        p: ci95.and_then(|_| sign_flip(&logs)),
        q: None,
        verdict: Verdict::CannotTell,
        reason: Some(if enough { Why::Noise } else { Why::FewPairs }),
    }
}

/// Comparison of two rows that were not sampled in turn: median and interval of all ratios a/b, and no verdict.
pub fn unpaired(a: &[f64], b: &[f64], better: Better) -> Comparison {
    let finite_values = |row: &[f64]| row.iter().copied().filter(|v| v.is_finite()).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = (finite_values(a), finite_values(b));
    let (ratios, differences): (Vec<f64>, Vec<f64>) = a
        .iter()
        .flat_map(|&x| b.iter().filter_map(move |&y| Some((ratio(x, y)?, x - y))))
        .unzip();
    // A pair without a ratio (0, negative) would leave the order statistics without their meaning.
    let complete = ratios.len() == a.len() * b.len() && a.len() >= MIN_SIDE && b.len() >= MIN_SIDE;
    let interval = |row: &[f64]| {
        let s = sorted(row).filter(|_| complete)?;
        let k = mann_whitney_rank(a.len(), b.len())?;
        Some([*s.get(k - 1)?, *s.get(s.len() - k)?])
    };
    Comparison {
        better,
        method: Method::Unpaired,
        pairs: 0,
        ratio: median(&ratios),
        ci95: interval(&ratios),
        ci90: None,
        difference: median(&differences),
        difference_ci95: interval(&differences),
        p: None,
        q: None,
        verdict: Verdict::NotComparable,
        reason: Some(Why::NotInTurn),
    }
}

/// Largest-rank interval [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] with P(X < k) ≤ `tail` a side, X ~ Bin(n, ½).
fn median_interval(sorted: &[f64], tail: f64) -> Option<[f64; 2]> {
    let n = sorted.len();
    let mut term = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = term;
    let mut k = 0;
    while below <= tail && k < n {
        k += 1;
        term *= (n - k + 1) as f64 / k as f64;
        below += term;
    }
    let k = Some(k).filter(|&k| k > 0)?;
    Some([*sorted.get(k - 1)?, *sorted.get(n - k)?])
}

/// Largest k with P(U < k) ≤ 2.5 %, U the Mann-Whitney statistic of n and m samples without a
/// difference; `None` when not even k = 1 is covered.
fn mann_whitney_rank(n: usize, m: usize) -> Option<usize> {
    // ways[u] counts the interleavings with statistic u: the Gaussian binomial coefficient
    // ∏ (1 − qᵐ⁺ⁱ) / (1 − qⁱ), built factor by factor.
    let mut ways = vec![0.0_f64; n * m + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..ways.len()).rev() {
            ways[u] -= ways[u - m - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    let total: f64 = ways.iter().sum();
    let mut below = 0.0;
    let k = ways
        .iter()
        .take_while(|&&count| {
            below += count / total;
            below <= TAIL_95
        })
        .count();
    (k > 0).then_some(k)
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (a >= 0.0 && b > 0.0).then_some(a / b).and_then(finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(values: &[f64]) -> Vec<(u32, f64)> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn ranks_of_the_median_interval() {
        // Table of the sign test: n → k (0 = none) at 95 %, two-sided.
        for (n, k) in [
            (1, 0),
            (5, 0),
            (6, 1),
            (8, 1),
            (9, 2),
            (11, 2),
            (12, 3),
            (15, 4),
            (20, 6),
            (25, 8),
        ] {
            let s: Vec<f64> = (1..=n).map(f64::from).collect();
            let want = (k > 0).then(|| [f64::from(k), f64::from(n + 1 - k)]);
            assert_eq!(median_interval(&s, TAIL_95), want, "n = {n}");
        }
    }

    #[test]
    fn ranks_of_mann_whitney() {
        // Critical values of U (two-sided 5 %): reject at U ≤ c, so k = c + 1.
        for (n, m, c) in [
            (4, 4, 0),
            (5, 5, 2),
            (5, 6, 3),
            (6, 6, 5),
            (8, 8, 13),
            (10, 10, 23),
            (20, 20, 127),
        ] {
            assert_eq!(mann_whitney_rank(n, m), Some(c + 1), "{n} × {m}");
        }
        assert_eq!(mann_whitney_rank(3, 3), None);
    }

    #[test]
    fn six_pairs_give_min_to_max() {
        let a = row(&[14.0, 14.2, 13.8, 14.4, 14.0, 13.9]);
        let b = row(&[10.0; 6]);
        let c = compare(&a, &b, Better::Higher);
        assert_eq!((c.method, c.pairs), (Method::Paired, 6));
        assert_eq!(c.ci95, Some([13.8 / 10.0, 14.4 / 10.0]));
        assert_eq!(c.ratio, Some(1.4));
        assert_eq!((c.p, c.q), (Some(2.0 / 64.0), None));
    }

    #[test]
    fn few_samples_and_gaps_have_no_interval() {
        let c = compare(&row(&[2.0; 5]), &row(&[1.0; 5]), Better::Higher);
        assert_eq!((c.ratio, c.ci95, c.ci90), (Some(2.0), None, None));
        assert_eq!((c.p, c.reason), (None, Some(Why::FewPairs)));
        let c = compare(&[], &row(&[1.0]), Better::Higher);
        assert_eq!((c.ratio, c.ci95, c.pairs), (None, None, 0));
        // Rounds that only one side has are no pairs; nor is a division by zero.
        let c = compare(
            &[(0, 1.0), (1, 1.0), (7, 1.0)],
            &[(0, 2.0), (1, 0.0)],
            Better::Higher,
        );
        assert_eq!((c.ratio, c.pairs), (Some(0.5), 1));
    }

    #[test]
    fn the_difference_goes_with_the_ratio() {
        let a = row(&[14.0, 14.2, 13.8, 14.4, 14.0, 13.9]);
        let c = compare(&a, &row(&[10.0; 6]), Better::Higher);
        assert_eq!(c.difference, Some(4.0));
        let [low, high] = c.difference_ci95.unwrap();
        assert!((low - 3.8).abs() < 1e-9 && (high - 4.4).abs() < 1e-9);
        assert_eq!(c.p, Some(2.0 / 64.0));
    }

    proptest! {
        #[test]
        fn a_common_factor_changes_nothing(
            v in prop::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 1..20), exponent in -20_i32..20
        ) {
            // A power of two scales exactly, so equality is exact.
            let factor = 2.0_f64.powi(exponent);
            let (a, b): (Vec<f64>, Vec<f64>) = v.into_iter().unzip();
            let scale = |r: &[f64]| row(&r.iter().map(|x| x * factor).collect::<Vec<_>>());
            let (plain, scaled) = (
                compare(&row(&a), &row(&b), Better::Lower),
                compare(&scale(&a), &scale(&b), Better::Lower),
            );
            prop_assert_eq!(plain.p, scaled.p);
            prop_assert_eq!((plain.ratio, plain.ci95), (scaled.ratio, scaled.ci95));
            prop_assert_eq!(plain.difference.map(|d| d * factor), scaled.difference);
        }

        #[test]
        fn never_nan(
            a in prop::collection::vec((0_u32..8, prop::num::f64::ANY), 0..12),
            b in prop::collection::vec((0_u32..8, prop::num::f64::ANY), 0..12)
        ) {
            let c = compare(&a, &b, Better::Higher);
            prop_assert!(c.ratio.is_none_or(f64::is_finite));
            let sound = |ci: Option<[f64; 2]>| {
                ci.is_none_or(|[l, h]| l.is_finite() && h.is_finite() && l <= h)
            };
            prop_assert!(sound(c.ci95) && sound(c.difference_ci95));
            prop_assert!(c.difference.is_none_or(f64::is_finite));
            prop_assert!(c.p.is_none_or(|p| p > 0.0 && p <= 1.0));
        }

        #[test]
        fn ratio_and_difference_never_disagree(
            v in prop::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 6..12), in_pairs: bool
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = v.iter().copied().unzip();
            let c = if in_pairs { paired(&v, Better::Higher) } else { unpaired(&a, &b, Better::Higher) };
            let (ratio, difference) = (c.ci95.unwrap(), c.difference_ci95.unwrap());
            prop_assert_eq!(ratio[0] > 1.0, difference[0] > 0.0);
            prop_assert_eq!(ratio[1] < 1.0, difference[1] < 0.0);
        }
    }
}
