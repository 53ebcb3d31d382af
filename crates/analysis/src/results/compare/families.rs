//! The verdicts of a run: its comparisons judged question by question, each figure counted once.

use std::collections::BTreeMap;

use super::run::Compared;
use crate::record::{Bound, CellKey, Run};
use crate::results::metric::Metric;
use crate::stats::{Comparison, judge};

/// How far from 1, in per cent, an estimate has to be for a verdict. A quick run has few and short samples: what it calls better or
/// worse shall be there on another day too. A whole run has the samples to find 5 %, and a true 5 % is estimated below 5 % half of
/// the time, so its limit is half of that.
pub fn resolution_percent(run: &Run) -> f64 {
    if run.quick { 10.0 } else { 2.5 }
}

/// Is a CPU what held this cell down? Then its cost is 100 % of that CPU divided by its figure, which is one finding and not two.
pub(super) const fn is_cpu_bound(bound: Bound) -> bool {
    match bound {
        Bound::SenderCpu | Bound::ReceiverCpu | Bound::BothCpus => true,
        Bound::Nothing | Bound::Tool | Bound::Rate => false,
    }
}

/// Judges all comparisons of a run, those of a question together. `bound` says what held a cell down.
pub(in crate::results) fn judge_questions(
    all: &mut [Compared],
    bound: impl Fn(CellKey) -> Bound,
    resolution_percent: f64,
) {
    mark_counted(all, bound);
    let mut families: BTreeMap<_, Vec<&mut Comparison>> = BTreeMap::new();
    for one in all.iter_mut().filter(|one| one.counted) {
        let key = (one.question, one.other_axis());
        families.entry(key).or_default().push(&mut one.result);
    }
    for family in families.values_mut() {
        judge(family, resolution_percent);
    }
    judge_uncounted(all, resolution_percent);
}

/// Judges comparisons that answer one question, whatever it is.
pub(super) fn judge_together(
    all: &mut [Compared],
    bound: impl Fn(CellKey) -> Bound,
    resolution_percent: f64,
) {
    mark_counted(all, bound);
    let counted = all.iter_mut().filter(|one| one.counted);
    let mut family: Vec<_> = counted.map(|one| &mut one.result).collect();
    judge(&mut family, resolution_percent);
    judge_uncounted(all, resolution_percent);
}

/// The cost of two cells that both fill a CPU is counted with their figure.
fn mark_counted(all: &mut [Compared], bound: impl Fn(CellKey) -> Bound) {
    for one in all {
        let is_cost = one.metric == Metric::cost(one.a.group.workload.test);
        let is_full = |key| is_cpu_bound(bound(key));
        one.counted = !(is_cost && is_full(one.a) && is_full(one.b));
    }
}

/// What is not counted says what its figure says: it has the same adjusted p.
fn judge_uncounted(all: &mut [Compared], resolution_percent: f64) {
    for at in 0..all.len() {
        if !all[at].counted {
            let q = all[at].figure(all).and_then(|figure| figure.result.q);
            all[at].result.decide(q, resolution_percent);
        }
    }
}

impl Compared {
    /// What parts the families of no question.
    fn other_axis(&self) -> Option<super::Axis> {
        (self.question == super::Question::Other).then_some(self.axis)
    }

    /// The comparison of the same two cells by the figure of their test.
    fn figure<'a>(&self, all: &'a [Self]) -> Option<&'a Self> {
        let primary = Metric::primary(self.a.group.workload.test);
        let key = |one: &Self| (one.axis, one.a, one.b);
        all.iter()
            .find(|one| one.metric == primary && key(one) == key(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Analysis;
    use crate::results::fixture;
    use crate::stats::Verdict;

    fn judged(bound: Bound) -> Vec<Compared> {
        let run = fixture::run();
        let mut all = Analysis::of(&run).comparisons;
        judge_questions(&mut all, |_| bound, resolution_percent(&run));
        all
    }

    #[test]
    fn where_a_cpu_is_full_cost_and_figure_are_counted_once() {
        let apart = judged(Bound::Nothing);
        assert!(apart.iter().all(|one| one.counted));
        let full = judged(Bound::ReceiverCpu);
        let is_cost = |one: &Compared| one.metric == Metric::cost(one.a.group.workload.test);
        assert!(full.iter().all(|one| one.counted != is_cost(one)));
        for cost in full.iter().filter(|one| !one.counted) {
            assert_eq!(cost.result.q, cost.figure(&full).unwrap().result.q);
        }
        // A full CPU on one side alone parts the two.
        let run = fixture::run();
        let mut all = Analysis::of(&run).comparisons;
        let ours = |key: CellKey| match key.backend.is_overlane() {
            true => Bound::SenderCpu,
            false => Bound::Nothing,
        };
        judge_questions(&mut all, ours, 10.0);
        for one in &all {
            let both = one.a.backend.is_overlane() && one.b.backend.is_overlane();
            assert_eq!(one.counted, !(both && is_cost(one)), "{one:?}");
        }
    }

    #[test]
    fn each_question_is_a_family() {
        let all = judged(Bound::Nothing);
        let mut families: BTreeMap<_, Vec<&Compared>> = BTreeMap::new();
        for one in all.iter().filter(|one| one.result.p.is_some()) {
            let key = (one.question, one.other_axis());
            families.entry(key).or_default().push(one);
        }
        assert!(families.len() > 4, "{:?}", families.keys());
        for family in families.values() {
            // The smallest q of a family is at least its smallest p, the largest p is its own q.
            let row = |of: fn(&Compared) -> Option<f64>| -> Vec<f64> {
                family.iter().filter_map(|one| of(one)).collect()
            };
            let (p, q) = (row(|one| one.result.p), row(|one| one.result.q));
            assert_eq!(p.len(), q.len());
            let most = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
            assert_eq!(most(&p), most(&q));
            assert!(p.iter().zip(&q).all(|(p, q)| p <= q));
        }
    }

    #[test]
    fn a_quick_run_claims_less() {
        let run = fixture::run();
        assert!(run.quick);
        for one in &judged(Bound::Nothing) {
            let found = &one.result;
            if matches!(found.verdict, Verdict::Better | Verdict::Worse) {
                let ratio = found.ratio.unwrap();
                assert!(!(1.0 / 1.1..1.1).contains(&ratio), "{ratio}");
            }
        }
        let whole = Run {
            quick: false,
            ..run
        };
        assert!(
            resolution_percent(&whole) < 5.0,
            "a true 5 % is not cut away"
        );
    }
}
