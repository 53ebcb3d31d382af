//! The verdicts of many comparisons counted: which leads, and what is said of the others.

use std::collections::BTreeSet;

use crate::stats::Verdict;

use super::amounts::in_words;

/// One comparison, as a sentence counts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::report) struct Vote {
    /// What it says, from the side of the subject.
    pub(in crate::report) verdict: Verdict,
    /// Subject / object.
    pub(in crate::report) ratio: Option<f64>,
    /// How far from 1, in per cent, the farther end of the 95 % interval is; `None`: there is no interval.
    pub(in crate::report) within_percent: Option<f64>,
    /// Why the two are not comparable, in a few words.
    pub(in crate::report) why_not: Option<&'static str>,
}

/// A difference below this is small.
pub(super) const NEAR_PERCENT: f64 = 10.0;

impl Vote {
    /// The same, or so narrow an interval about 1 that a difference can only be small.
    pub(super) fn is_near(&self) -> bool {
        let narrow = || {
            self.within_percent
                .is_some_and(|percent| percent <= NEAR_PERCENT)
        };
        match self.verdict {
            Verdict::Same => true,
            Verdict::CannotTell => narrow(),
            Verdict::Better | Verdict::Worse | Verdict::NotComparable => false,
        }
    }
}

/// What is compared: a figure, of which more is better, or a cost or a time, of which less is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Quantity {
    /// `goodput`
    Figure(&'static str),
    /// `CPU per Gbit/s`
    Cost(&'static str),
    /// How long something takes: it is shortened or lengthened.
    Time {
        /// `migration time`
        noun: &'static str,
        /// `the migration`
        what: &'static str,
    },
}

impl Quantity {
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Figure(noun) | Self::Cost(noun) | Self::Time { noun, .. } => noun,
        }
    }

    /// `is`, or `are` of transactions.
    pub(super) fn is(self) -> &'static str {
        let noun = self.noun();
        let many = noun.starts_with("transactions") || noun.starts_with("packets");
        if many { "are" } else { "is" }
    }

    /// What a verdict says of the quantity itself: there is more of it.
    pub(super) fn is_higher(self, verdict: Verdict) -> bool {
        matches!(self, Self::Figure(_)) == (verdict == Verdict::Better)
    }

    /// `higher` or `lower`, of a time `longer` or `shorter`.
    pub(super) fn direction(self, verdict: Verdict) -> &'static str {
        match (self, self.is_higher(verdict)) {
            (Self::Time { .. }, true) => "longer",
            (Self::Time { .. }, false) => "shorter",
            (_, true) => "higher",
            (_, false) => "lower",
        }
    }
}

/// The comparisons of one place, as `with offload off`.
pub(in crate::report) struct Part {
    /// Where.
    pub(in crate::report) place: String,
    /// What the comparisons say there.
    pub(in crate::report) votes: Vec<Vote>,
}

/// What comparisons say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// There is none.
    Nothing,
    /// None stands on the same footing.
    NotComparable,
    /// More than half have this verdict, and at most one in ten contradicts.
    Leads(Verdict),
    /// More than half are the same, or have an interval within [`NEAR_PERCENT`]: whatever the difference is, it is small.
    Near,
    /// More than half cannot tell.
    Open,
    /// No verdict leads.
    Mixed,
}

pub(super) fn say(votes: &[Vote]) -> Say {
    let [better, worse, same, cannot] = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::Same,
        Verdict::CannotTell,
    ]
    .map(|verdict| count(votes, verdict));
    let comparable = votes.len() - count(votes, Verdict::NotComparable);
    let leads = |hits: usize, against: usize| hits * 2 > comparable && against * 10 <= comparable;
    match comparable {
        _ if votes.is_empty() => Say::Nothing,
        0 => Say::NotComparable,
        _ if leads(worse, better) => Say::Leads(Verdict::Worse),
        _ if leads(better, worse) => Say::Leads(Verdict::Better),
        _ if leads(same, better + worse) => Say::Leads(Verdict::Same),
        _ if leads(votes.iter().filter(|vote| vote.is_near()).count(), 0) => Say::Near,
        _ if cannot * 2 > comparable => Say::Open,
        _ => Say::Mixed,
    }
}

pub(super) fn count(votes: &[Vote], verdict: Verdict) -> usize {
    votes.iter().filter(|vote| vote.verdict == verdict).count()
}

/// `in 2 of 36 comparisons`
pub(super) fn differing(votes: &[Vote]) -> String {
    let hits = count(votes, Verdict::Better) + count(votes, Verdict::Worse);
    match (hits, votes.len()) {
        (0, 2) => "in neither comparison".to_owned(),
        (0, all) => format!("in none of {all} comparisons"),
        (2, 2) => "in both comparisons".to_owned(),
        (hits, all) => format!("in {hits} of {all} comparisons"),
    }
}

/// `20 of 36 comparisons cannot tell`
pub(super) fn undecided(votes: &[Vote]) -> String {
    match (count(votes, Verdict::CannotTell), votes.len()) {
        (1, 1) => "its one comparison cannot tell".to_owned(),
        (2, 2) => "neither comparison can tell".to_owned(),
        (hits, all) if hits == all => format!("none of {all} comparisons can tell"),
        (hits, all) => format!("{hits} of {all} comparisons cannot tell"),
    }
}

/// `10 of 12 comparisons`
pub(super) fn of(votes: &[Vote], verdict: Verdict) -> String {
    share(count(votes, verdict), votes.len())
}

/// `10 of 12 comparisons`, `both comparisons`
pub(super) fn share(hits: usize, all: usize) -> String {
    match (hits, all) {
        (1, 1) => "one comparison".to_owned(),
        (2, 2) => "both comparisons".to_owned(),
        _ if hits == all => format!("all {all} comparisons"),
        _ => format!("{hits} of {all} comparisons"),
    }
}

/// `10 of 12`
pub(super) fn of_short(votes: &[Vote], verdict: Verdict) -> String {
    match (count(votes, verdict), votes.len()) {
        (1, 1) => "one comparison".to_owned(),
        (2, 2) => "both".to_owned(),
        (hits, all) if hits == all => format!("all {all}"),
        (hits, all) => format!("{hits} of {all}"),
    }
}

/// `, two cannot tell`: the comparisons that say something else.
pub(super) fn rest(quantity: Quantity, votes: &[Vote], but: Verdict) -> String {
    let all = [
        Verdict::Same,
        Verdict::Better,
        Verdict::Worse,
        Verdict::CannotTell,
        Verdict::NotComparable,
    ];
    let others = all.into_iter().filter(|verdict| *verdict != but);
    others
        .map(|verdict| other(quantity, votes, verdict))
        .collect()
}

/// ` (one has outer checksums)`: why some are not comparable.
pub(super) fn why_not(votes: &[Vote]) -> String {
    let all: BTreeSet<&str> = votes.iter().filter_map(|vote| vote.why_not).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" ({})", Vec::from_iter(all).join("; ")),
    }
}

pub(super) fn other(quantity: Quantity, votes: &[Vote], verdict: Verdict) -> String {
    let hits = count(votes, verdict);
    let is = if hits == 1 { "is" } else { "are" };
    let words = match verdict {
        _ if hits == 0 => return String::new(),
        Verdict::CannotTell => "cannot tell".to_owned(),
        Verdict::Same => format!("{is} the same within 5 %"),
        Verdict::NotComparable => format!("{is} not comparable{}", why_not(votes)),
        Verdict::Better | Verdict::Worse => format!("{is} {}", quantity.direction(verdict)),
    };
    format!(", {} {words}", in_words(hits))
}
