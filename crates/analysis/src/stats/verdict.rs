//! Is A better than B, worse, the same for practical purposes, or can one not tell?
//!
//! A run makes many comparisons, and one in twenty would be a false find if each stood alone. So the comparisons that
//! answer one question are a family: their p-values are adjusted together (Benjamini and Hochberg 1995), which keeps the false
//! ones among the finds of a family at 5 %. A find needs the adjusted p, an interval that excludes 1, and an estimate that is
//! as far from 1 as the run may claim.
//!
//! That two are the same is a claim of its own and not the lack of a find: two one-sided tests at 5 % within
//! a band of 5 % (Schuirmann 1987), which is to say that the 90 % interval lies in the band. It goes before a find: a
//! difference that is certain and certainly below 5 % is the same for practical purposes.

use serde::{Deserialize, Serialize};

use super::ratio::{Better, Comparison};

/// Largest adjusted p-value that can give a verdict.
pub const SIGNIFICANCE: f64 = 0.05;

/// Ratios from 1/`SAME_WITHIN` to `SAME_WITHIN` are the same for practical purposes.
pub const SAME_WITHIN: f64 = 1.05;

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

/// Why a comparison has no find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// What drifted between the two is in the ratio.
    NotInTurn,
    /// The kernel or the laboratory treats the two unlike.
    UnequalFooting,
    /// Too few for an interval.
    FewPairs,
    /// Chance alone may part them as far, in a family of so many.
    Noise,
    /// There is a difference, and it is smaller than what the run may claim.
    Small,
}

impl Why {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotInTurn => "not sampled in turn",
            Self::UnequalFooting => "not on equal footing",
            Self::FewPairs => "fewer than 6 pairs",
            Self::Noise => "within the noise",
            Self::Small => "smaller than what this run can claim",
        }
    }
}

/// Gives the comparisons of one family their verdicts. `resolution_percent`: so far from 1 an estimate has to be.
pub fn judge(family: &mut [&mut Comparison], resolution_percent: f64) {
    let p: Vec<f64> = family.iter().filter_map(|one| one.p).collect();
    let mut q = adjusted(&p).into_iter();
    for one in family {
        let q = one.p.and_then(|_| q.next());
        one.decide(q, resolution_percent);
    }
}

/// p-values adjusted for each other (Benjamini and Hochberg): the smallest false discovery rate at which each is a find.
fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut out = p.to_vec();
    let mut least = 1.0_f64;
    for (rank, &at) in order.iter().enumerate().rev() {
        least = least.min(p[at] * p.len() as f64 / (rank + 1) as f64);
        out[at] = least;
    }
    out
}

impl Comparison {
    /// Two that do not stand on equal footing: the ratio stays, and says nothing of who is better.
    pub fn without_verdict(self, reason: Why) -> Self {
        Self {
            p: None,
            verdict: Verdict::NotComparable,
            reason: Some(reason),
            ..self
        }
    }

    /// How far from 1, in per cent, the farther end of the 95 % interval is; `None`: there is no interval.
    pub fn within_percent(&self) -> Option<f64> {
        let far = |[low, high]: [f64; 2]| 100.0 * (1.0 - low).abs().max((high - 1.0).abs());
        self.ci95.map(far)
    }

    /// The verdict at this adjusted p. Without pairs there is none, whatever the samples say.
    pub fn decide(&mut self, q: Option<f64>, resolution_percent: f64) {
        if self.verdict == Verdict::NotComparable {
            return;
        }
        self.q = q;
        let (Some(ratio), Some([low, high]), Some(narrow)) = (self.ratio, self.ci95, self.ci90)
        else {
            return;
        };
        let excludes_1 = low > 1.0 || high < 1.0;
        let least = 1.0 + resolution_percent / 100.0;
        (self.verdict, self.reason) = if 1.0 / SAME_WITHIN <= narrow[0] && narrow[1] <= SAME_WITHIN
        {
            (Verdict::Same, None)
        } else if !excludes_1 || q.is_none_or(|q| q > SIGNIFICANCE) {
            (Verdict::CannotTell, Some(Why::Noise))
        } else if 1.0 / least < ratio && ratio < least {
            (Verdict::CannotTell, Some(Why::Small))
        } else if (ratio > 1.0) == (self.better == Better::Higher) {
            (Verdict::Better, None)
        } else {
            (Verdict::Worse, None)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::ratio::{paired, unpaired};
    use super::*;
    use proptest::prelude::*;

    /// The verdict of a comparison that stands alone.
    fn alone(pairs: &[(f64, f64)], better: Better, resolution_percent: f64) -> Comparison {
        let mut found = paired(pairs, better);
        judge(&mut [&mut found], resolution_percent);
        found
    }

    fn ratios<const N: usize>(ratios: [f64; N]) -> [(f64, f64); N] {
        ratios.map(|ratio| (ratio, 1.0))
    }

    #[test]
    fn words() {
        let verdicts = [Verdict::Better, Verdict::Worse, Verdict::CannotTell];
        assert_eq!(
            verdicts.map(Verdict::words),
            ["better", "worse", "cannot tell"]
        );
    }

    #[test]
    fn six_pairs_are_enough_where_one_question_has_one_comparison() {
        let faster = ratios([1.4, 1.42, 1.38, 1.44, 1.4, 1.39]);
        let found = alone(&faster, Better::Higher, 10.0);
        assert_eq!((found.verdict, found.reason), (Verdict::Better, None));
        assert_eq!(found.q, Some(2.0 / 64.0));
        assert_eq!(alone(&faster, Better::Lower, 10.0).verdict, Verdict::Worse);
        let five = alone(&faster[..5], Better::Higher, 10.0);
        assert_eq!(five.verdict, Verdict::CannotTell);
        assert_eq!((five.reason, five.q), (Some(Why::FewPairs), None));
    }

    #[test]
    fn an_interval_that_touches_one_says_nothing() {
        let touching = ratios([1.0, 1.1, 1.1, 1.1, 1.1, 1.1]);
        let found = alone(&touching, Better::Higher, 0.0);
        assert_eq!(found.verdict, Verdict::CannotTell);
        assert_eq!(found.reason, Some(Why::Noise));
    }

    #[test]
    fn a_find_needs_the_permutation_test_too() {
        // Of 10 pairs 9 are above 1 and one is far below: the second smallest excludes 1, the logarithms do not.
        let mut pairs = [(1.06, 1.0); 10];
        pairs[9].0 = 0.5;
        let found = alone(&pairs, Better::Higher, 0.0);
        assert!(found.ci95.unwrap()[0] > 1.0 && found.q.unwrap() > SIGNIFICANCE);
        assert_eq!(found.verdict, Verdict::CannotTell);
        pairs[9].0 = 0.999;
        let found = alone(&pairs, Better::Higher, 0.0);
        assert_eq!(found.verdict, Verdict::Better, "{found:?}");
    }

    #[test]
    fn what_is_certainly_small_is_the_same_and_what_may_be_large_is_not() {
        let of = |around: f64| {
            let pairs: Vec<_> = (0..10)
                .map(|i| (around + 0.001 * f64::from(i), 1.0))
                .collect();
            alone(&pairs, Better::Higher, 2.5)
        };
        // Certain and below 5 %.
        let small = of(1.03);
        assert!(small.q.unwrap() <= SIGNIFICANCE);
        assert_eq!((small.verdict, small.reason), (Verdict::Same, None));
        assert_eq!(of(0.97).verdict, Verdict::Same);
        // One end of the 90 % interval is beyond the band, on either side.
        assert_eq!(of(1.045).verdict, Verdict::Better);
        assert_eq!(of(0.945).verdict, Verdict::Worse);
        // Restless samples about 1 are no sameness.
        let restless = ratios([0.9, 1.1, 0.92, 1.08, 0.95, 1.05, 1.0, 1.0]);
        assert_eq!(
            alone(&restless, Better::Higher, 2.5).verdict,
            Verdict::CannotTell
        );
    }

    #[test]
    fn an_estimate_below_the_resolution_is_no_find() {
        let eight = ratios([1.07, 1.08, 1.06, 1.09, 1.07, 1.08, 1.06, 1.09]);
        let found = alone(&eight, Better::Lower, 10.0);
        assert_eq!(found.verdict, Verdict::CannotTell);
        assert_eq!(found.reason, Some(Why::Small));
        assert_eq!(alone(&eight, Better::Lower, 2.5).verdict, Verdict::Worse);
        let slower = eight.map(|(a, b)| (b, a));
        assert_eq!(alone(&slower, Better::Lower, 10.0).reason, Some(Why::Small));
        assert_eq!(alone(&slower, Better::Lower, 2.5).verdict, Verdict::Better);
    }

    #[test]
    fn without_pairs_there_is_no_verdict_whatever_the_samples_say() {
        let mut found = unpaired(&[2.0; 10], &[1.0; 10], Better::Higher);
        assert!(found.ci95.unwrap()[0] > 1.9);
        judge(&mut [&mut found], 0.0);
        assert_eq!(found.verdict, Verdict::NotComparable);
        assert_eq!((found.reason, found.q), (Some(Why::NotInTurn), None));
    }

    #[test]
    fn adjusted_by_hand() {
        // Benjamini and Hochberg 1995, the 15 p-values of their §3.1: at 5 % the first four are finds.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let q = adjusted(&p);
        assert_eq!(q.iter().filter(|q| **q <= 0.05).count(), 4);
        assert!((q[0] - 0.0015).abs() < 1e-9 && (q[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-9);
        // The fifth is not better than the eighth's: 0.0344 · 15 / 8.
        assert!((q[5] - 0.0298 * 15.0 / 7.0).abs() < 1e-9);
        // Their order is none of the rows'.
        assert_eq!(adjusted(&[0.04, 0.01, 0.02]), [0.04, 0.03, 0.03]);
        assert_eq!(adjusted(&[]), [] as [f64; 0]);
    }

    #[test]
    fn many_comparisons_of_one_family_make_a_find_harder() {
        // 8 pairs, all above 1: p = 2 / 256. Alone a find, beside 35 that differ in nothing not.
        let find = paired(&[(1.2, 1.0); 8], Better::Higher);
        let noise: Vec<_> = (0..8)
            .map(|i| (1.0 + 0.1 * f64::from(i % 2), 1.05))
            .collect();
        let mut family = vec![paired(&noise, Better::Higher); 36];
        family[7] = find.clone();
        judge(&mut family.iter_mut().collect::<Vec<_>>(), 0.0);
        assert_eq!(family[7].verdict, Verdict::CannotTell);
        // Where a third differs, the same p is enough.
        family[..12].fill(find);
        judge(&mut family.iter_mut().collect::<Vec<_>>(), 0.0);
        let found = family.iter().filter(|one| one.verdict == Verdict::Better);
        assert_eq!(found.count(), 12);
    }

    proptest! {
        #[test]
        fn a_row_against_itself_never_differs(v in prop::collection::vec(0.1_f64..1e6, 0..20)) {
            let pairs: Vec<_> = v.iter().map(|&v| (v, v)).collect();
            let want = if v.len() < 6 { Verdict::CannotTell } else { Verdict::Same };
            prop_assert_eq!(alone(&pairs, Better::Higher, 0.0).verdict, want);
        }

        #[test]
        fn swapping_sides_swaps_the_verdict(
            v in prop::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 0..20)
        ) {
            let ab = alone(&v, Better::Higher, 0.0);
            let back: Vec<_> = v.into_iter().map(|(a, b)| (b, a)).collect();
            let ba = alone(&back, Better::Higher, 0.0);
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
        fn adjusting_keeps_the_order_and_never_helps(p in prop::collection::vec(0.0_f64..=1.0, 1..40)) {
            let q = adjusted(&p);
            for (i, a) in p.iter().enumerate() {
                // But for rounding.
                prop_assert!(q[i] >= a * (1.0 - 1e-12) && q[i] <= 1.0);
                for (j, b) in p.iter().enumerate() {
                    prop_assert!(a >= b || q[i] <= q[j]);
                }
            }
        }
    }
}
