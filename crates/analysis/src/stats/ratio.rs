//! Two rows of samples: is A better than B, worse, or can one not tell?
//!
//! The estimate is the median of the ratios A/B of the same round of one interleaved run, because
//! whatever drifts from round to round (heat, neighbours on the machine) is in both and cancels.
//! Its interval uses order statistics and the binomial distribution alone: no assumption about the
//! shape of the noise. With too few pairs but five samples a side, all cross ratios are compared
//! instead (Hodges-Lehmann estimate, Mann-Whitney interval). Beside the interval stands the p-value of a
//! permutation test on the logarithms. A verdict needs both: an interval that excludes 1 and p ≤ 0.05.
//!
//! The same is given as a difference A − B, for quantities that are per cents themselves. Ratio and
//! difference share their order statistics, so that one interval excludes 1 when the other excludes 0.

use serde::{Deserialize, Serialize};

use super::permutation::{sign_flip, two_sample};
use super::summary::{finite, median, sorted};

/// Fewest pairs that can give a verdict: with 5, min..max covers only 93.75 %.
pub const MIN_PAIRS: usize = 6;

/// Fewest samples a side that can give a verdict without pairs.
pub const MIN_SIDE: usize = 5;

/// Largest p-value that can give a verdict.
pub const SIGNIFICANCE: f64 = 0.05;

const TAIL: f64 = 0.025;

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

/// Outcome of a comparison, from A's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A is better than B.
    Better,
    /// A is worse than B.
    Worse,
    /// A and B are the same, for practical purposes: they differ by less than 5 %.
    Same,
    /// The samples do not say.
    CannotTell,
    /// The two do not stand on the same footing, or were not sampled in turn: no verdict.
    NotComparable,
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "the same within 5 %",
            Self::CannotTell => "cannot tell",
            Self::NotComparable => "not comparable",
        }
    }
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
    /// How ratio and interval were computed.
    pub method: Method,
    /// Rounds in which both sides have a sample with a ratio.
    pub pairs: usize,
    /// Median ratio A/B; `None` without a single ratio.
    pub ratio: Option<f64>,
    /// Interval of the ratio with at least 95 % coverage; `None` with too few samples for one.
    pub ci95: Option<[f64; 2]>,
    /// Median difference A − B, in the quantity's own unit.
    pub difference: Option<f64>,
    /// Interval of the difference, as that of the ratio.
    pub difference_ci95: Option<[f64; 2]>,
    /// p-value of the permutation test: how often chance alone would part the two as far. `None` without an interval.
    pub p: Option<f64>,
    /// What that says.
    pub verdict: Verdict,
}

/// Compares two rows given as (round, value); values of the same round are pairs.
///
/// Paired if there are enough pairs, else unpaired if there are enough samples a side: decided by
/// the numbers of samples alone, never by what comes out.
pub fn compare(a: &[(u32, f64)], b: &[(u32, f64)], better: Better) -> Comparison {
    let pairs: Vec<(f64, f64)> = a
        .iter()
        .filter_map(|&(round, x)| Some((x, b.iter().find(|&&(r, _)| r == round)?.1)))
        .filter(|&(x, y)| ratio(x, y).is_some())
        .collect();
    let (a, b): (Vec<f64>, Vec<f64>) = (values(a), values(b));
    if pairs.len() < MIN_PAIRS && a.len() >= MIN_SIDE && b.len() >= MIN_SIDE {
        return Comparison {
            pairs: pairs.len(),
            ..unpaired(&a, &b, better)
        };
    }
    paired(&pairs, better)
}

/// Comparison of samples that are pairs, (A, B); a pair without a ratio is left out.
pub fn paired(pairs: &[(f64, f64)], better: Better) -> Comparison {
    let (ratios, differences): (Vec<f64>, Vec<f64>) = pairs
        .iter()
        .filter_map(|&(x, y)| Some((ratio(x, y)?, x - y)))
        .unzip();
    let interval = |row: &[f64]| sorted(row).and_then(|s| median_interval(&s));
    let ci95 = interval(&ratios).filter(|_| ratios.len() >= MIN_PAIRS);
    let logs: Vec<f64> = ratios.iter().map(|r| r.max(SMALLEST).ln()).collect();
    let p = ci95.and_then(|_| sign_flip(&logs));
    Comparison {
        method: Method::Paired,
        pairs: ratios.len(),
        ratio: median(&ratios),
        ci95,
        difference: median(&differences),
        difference_ci95: interval(&differences).filter(|_| ci95.is_some()),
        p,
        verdict: verdict(ci95, p, better),
    }
}

/// Comparison of two independent rows: median and interval of all ratios a/b.
pub fn unpaired(a: &[f64], b: &[f64], better: Better) -> Comparison {
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
    let ci95 = interval(&ratios);
    let logs = |row: &[f64]| row.iter().map(|v| v.max(SMALLEST).ln()).collect::<Vec<_>>();
    let p = ci95.and_then(|_| two_sample(&logs(a), &logs(b)));
    Comparison {
        method: Method::Unpaired,
        pairs: 0,
        ratio: median(&ratios),
        ci95,
        difference: median(&differences),
        difference_ci95: interval(&differences),
        p,
        verdict: verdict(ci95, p, better),
    }
}

fn verdict(ci95: Option<[f64; 2]>, p: Option<f64>, better: Better) -> Verdict {
    if p.is_none_or(|p| p > SIGNIFICANCE) {
        return Verdict::CannotTell;
    }
    match (ci95, better) {
        (Some([low, _]), Better::Higher) if low > 1.0 => Verdict::Better,
        (Some([_, high]), Better::Lower) if high < 1.0 => Verdict::Better,
        (Some([_, high]), Better::Higher) if high < 1.0 => Verdict::Worse,
        (Some([low, _]), Better::Lower) if low > 1.0 => Verdict::Worse,
        _ => Verdict::CannotTell,
    }
}

/// Largest-rank interval [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] with P(X < k) ≤ 2.5 % a side, X ~ Bin(n, ½).
fn median_interval(sorted: &[f64]) -> Option<[f64; 2]> {
    let n = sorted.len();
    let mut term = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = term;
    let mut k = 0;
    while below <= TAIL && k < n {
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
            below <= TAIL
        })
        .count();
    (k > 0).then_some(k)
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (a >= 0.0 && b > 0.0).then_some(a / b).and_then(finite)
}

fn values(row: &[(u32, f64)]) -> Vec<f64> {
    row.iter()
        .map(|&(_, v)| v)
        .filter(|v| v.is_finite())
        .collect()
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
            assert_eq!(median_interval(&s), want, "n = {n}");
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
        assert_eq!(
            (c.method, c.pairs, c.verdict),
            (Method::Paired, 6, Verdict::Better)
        );
        assert_eq!(c.ci95, Some([13.8 / 10.0, 14.4 / 10.0]));
        assert_eq!(c.ratio, Some(1.4));
        assert_eq!(compare(&a, &b, Better::Lower).verdict, Verdict::Worse);
    }

    #[test]
    fn five_interleaved_samples_fall_back_on_all_ratios() {
        let a = row(&[14.0, 14.2, 13.8, 14.4, 14.1]);
        let c = compare(&a, &row(&[10.0; 5]), Better::Higher);
        assert_eq!(
            (c.method, c.pairs, c.verdict),
            (Method::Unpaired, 5, Verdict::Better)
        );
        let five = [1.4, 1.42, 1.38, 1.44, 1.41].map(|x| (x, 1.0));
        assert_eq!(paired(&five, Better::Higher).verdict, Verdict::CannotTell);
    }

    #[test]
    fn few_samples_and_gaps_cannot_tell() {
        let c = compare(&row(&[2.0, 2.0]), &row(&[1.0, 1.0]), Better::Higher);
        assert_eq!(
            (c.ratio, c.ci95, c.verdict),
            (Some(2.0), None, Verdict::CannotTell)
        );
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
    fn verdicts_in_words() {
        let verdicts = [Verdict::Better, Verdict::Worse, Verdict::CannotTell];
        assert_eq!(
            verdicts.map(Verdict::words),
            ["better", "worse", "cannot tell"]
        );
    }

    #[test]
    fn an_interval_that_touches_one_says_nothing() {
        let touching = [1.0, 1.1, 1.1, 1.1, 1.1, 1.1].map(|x| (x, 1.0));
        assert_eq!(
            paired(&touching, Better::Higher).verdict,
            Verdict::CannotTell
        );
    }

    #[test]
    fn an_interval_around_1_decides_nothing_whatever_p_says() {
        let p = Some(SIGNIFICANCE / 2.0);
        for better in [Better::Higher, Better::Lower] {
            let of = |ci95| verdict(ci95, p, better);
            assert_eq!(of(Some([0.9, 1.1])), Verdict::CannotTell);
            assert_eq!(of(Some([1.0, 1.1])), Verdict::CannotTell);
            assert_eq!(of(Some([0.9, 1.0])), Verdict::CannotTell);
            assert_eq!(of(None), Verdict::CannotTell);
        }
    }

    #[test]
    fn a_verdict_needs_the_permutation_test_too() {
        // Of 10 pairs 9 are a little above 1 and one is far below: the second smallest excludes 1, the logarithms do not.
        let mut pairs = [(1.01, 1.0); 10];
        pairs[9].0 = 0.5;
        let c = paired(&pairs, Better::Higher);
        assert!(
            c.ci95.unwrap()[0] > 1.0 && c.p.unwrap() > SIGNIFICANCE,
            "{c:?}"
        );
        assert_eq!(c.verdict, Verdict::CannotTell);
        pairs[9].0 = 0.999;
        let c = paired(&pairs, Better::Higher);
        assert!(c.p.unwrap() <= SIGNIFICANCE, "{c:?}");
        assert_eq!(c.verdict, Verdict::Better);
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
        fn a_against_itself_cannot_tell(v in prop::collection::vec(0.1_f64..1e6, 0..20)) {
            let a = row(&v);
            prop_assert_eq!(compare(&a, &a, Better::Higher).verdict, Verdict::CannotTell);
        }

        #[test]
        fn swapping_sides_swaps_the_verdict(
            v in prop::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 0..20)
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = v.into_iter().unzip();
            let ab = compare(&row(&a), &row(&b), Better::Higher);
            let ba = compare(&row(&b), &row(&a), Better::Higher);
            let swapped = match ab.verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                even => even,
            };
            prop_assert_eq!(ba.verdict, swapped);
            if let (Some([low, high]), Some([rlow, rhigh])) = (ab.ci95, ba.ci95) {
                prop_assert!((low * rhigh - 1.0).abs() < 1e-9 && (high * rlow - 1.0).abs() < 1e-9);
            }
        }

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
            prop_assert_eq!(plain.verdict, scaled.verdict);
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
