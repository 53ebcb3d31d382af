//! What a run answers first: one sentence, what stands beside it, and how far to trust it.
//!
//! ```text
//! comparisons of the study's question ──► votes ──► sentence (words of the question: phrase)
//! the cells of these comparisons      ──► trust
//! all comparisons of a figure         ──► doubt, where most cannot tell
//! ```
//!
//! [`screen`] puts them on the first screen of the report, with a chart and the figures.

mod amounts;
mod claims;
mod doubt;
mod phrase;
pub(in crate::report) mod screen;
mod sentence;
mod split;
mod trust;
mod votes;

pub use trust::{Level, Trust};

use serde::Serialize;

use crate::record::{BackendName, Bound, Encapsulation, Test, footing};
use crate::results::{Analysis, CellFigures, Compared, Metric};
use crate::stats::{Verdict, Why};
use crate::study::View;

use crate::report::names::pairs;
use crate::report::page::Report;
use crate::report::sections::questions::{QUESTIONS, Question};
use phrase::{OVERLAYS_AGAINST, Phrase};
pub(in crate::report) use sentence::Start;
pub(in crate::report) use votes::Quantity;
use votes::Vote;

/// The answer of a run, as `result.json`, the terminal and the report give it.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The answer to the study's question.
    pub sentence: String,
    /// What its cost says, or the figure where the question is the cost; null where it was not measured.
    pub beside: Option<String>,
    /// How far to trust it.
    pub trust: Trust,
    /// Why most comparisons cannot tell, and what helps; null where they can.
    pub doubt: Option<String>,
}

impl Answer {
    /// The answer of a run.
    pub fn of(analysis: &Analysis<'_>) -> Self {
        let report = Report::of(analysis);
        Asked::first(&report).answer(&report)
    }
}

/// Why two cells are not comparable, in a few words.
pub(in crate::report) fn why_not(r: &Report<'_>, c: &Compared) -> Option<&'static str> {
    match c
        .result
        .reason
        .filter(|_| c.result.verdict == Verdict::NotComparable)?
    {
        Why::UnequalFooting => {
            let (a, b) = (r.figures(c.a)?, r.figures(c.b)?);
            footing::unequal_short(a.cell, b.cell)
        }
        why => Some(why.words()),
    }
}

/// A question with the comparisons of a run that answer it.
pub(in crate::report) struct Asked<'r> {
    /// The question.
    pub(in crate::report) question: &'static Question,
    /// One comparison for each pair of cells, whatever its metric.
    pub(in crate::report) pairs: Vec<&'r Compared>,
    /// Those of them that the sentence counts: against one kind of network, where there are several.
    pub(in crate::report) counted: Vec<&'r Compared>,
    /// The question is the cost, the figure stands beside it.
    pub(in crate::report) by_cost: bool,
    phrase: Phrase,
}

impl<'r> Asked<'r> {
    /// The study's own question: the first that its views ask and the run has comparisons for; without views the first of all.
    /// A run against itself asks for its noise.
    pub(in crate::report) fn first(r: &'r Report<'r>) -> Self {
        let mut all = Self::all(r);
        let for_noise = r.analysis.run.matrix().against_itself;
        let is_asked = |asked: &Self| match for_noise {
            true => asked.phrase.noise,
            false => r.views().iter().any(asked.question.first),
        };
        if all.iter().any(is_asked) {
            all.retain(is_asked);
        }
        let place = all.iter().position(|asked| !asked.pairs.is_empty());
        all.swap_remove(place.unwrap_or_default())
    }

    /// Every question, those that the study asks first before the others.
    pub(in crate::report) fn all(r: &'r Report<'r>) -> Vec<Self> {
        let place = |q: &&'static Question| {
            let mut views = r.views().iter();
            views.position(q.first).unwrap_or(usize::MAX)
        };
        let mut questions: Vec<&'static Question> = QUESTIONS.iter().collect();
        questions.sort_by_key(place);
        questions.into_iter().map(|q| Self::of(r, q)).collect()
    }

    fn of(r: &'r Report<'r>, question: &'static Question) -> Self {
        let all = r.analysis.comparisons.iter();
        let pairs = pairs(all.filter(|c| (question.keep)(c)));
        let asking = r.views().iter().find(|view| (question.first)(view));
        let phrase = Phrase::of(question);
        let (phrase, counted) = match phrase.object {
            OVERLAYS_AGAINST => one_object(phrase, &pairs, asking),
            _ => (phrase, pairs.clone()),
        };
        Self {
            by_cost: matches!(asking, Some(View::CpuSteps { .. })),
            phrase,
            question,
            pairs,
            counted,
        }
    }

    /// The metric that the question is about, of a test.
    pub(in crate::report) const fn metric(&self, test: Test) -> Metric {
        if self.by_cost {
            Metric::cost(test)
        } else {
            Metric::primary(test)
        }
    }

    /// What the question is about.
    pub(in crate::report) fn asked_of(&self) -> Quantity {
        self.quantity(|test| self.metric(test))
    }

    /// The answer to the study's question.
    pub(in crate::report) fn answer(&self, r: &Report<'_>) -> Answer {
        let start = if r.analysis.run.interrupted {
            Start::SoFar
        } else {
            Start::Here
        };
        Answer {
            sentence: self.sentence(r, start),
            beside: self.beside_first(r),
            trust: trust::trust(r, &self.cells(r)),
            doubt: doubt::doubt(r),
        }
    }

    /// Its answer in a sentence.
    pub(in crate::report) fn sentence(&self, r: &Report<'_>, start: Start) -> String {
        let of = |test| self.metric(test);
        let (quantity, votes) = (self.quantity(of), self.votes(r, of, |_| true));
        let plain: Vec<Vote> = votes.iter().map(|(_, vote)| *vote).collect();
        let parts = split::split(&votes);
        sentence::lead(&self.phrase, quantity, &plain, parts.as_ref(), start)
    }

    /// What stands beside the study's answer. Of machines that move: what else the study asks of them, and of the guests' own traffic.
    fn beside_first(&self, r: &Report<'_>) -> Option<String> {
        if !self.is_of_migrations() {
            return self.beside(r);
        }
        let asked = |other: &Asked<'_>| {
            let own = other.question.title == self.question.title;
            !own && !other.pairs.is_empty() && r.views().iter().any(other.question.first)
        };
        let others: Vec<Asked<'_>> = Asked::all(r).into_iter().filter(asked).collect();
        let of_machines = others.iter().find(|other| other.is_of_migrations());
        let of_guests = others.iter().find(|other| !other.is_of_migrations());
        let machines = match of_machines {
            Some(other) => Some(other.sentence(r, Start::Bare)),
            None => self.beside(r),
        };
        let guests = of_guests.map(|other| other.sentence(r, Start::Guests));
        let all: Vec<String> = machines.into_iter().chain(guests).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    /// What it compares is how machines move.
    pub(in crate::report) fn is_of_migrations(&self) -> bool {
        let mut all = self.counted.iter();
        all.any(|c| c.a.group.workload.migration.is_some())
    }

    /// What the cost says beside the figure, or the figure beside the cost.
    pub(in crate::report) fn beside(&self, r: &Report<'_>) -> Option<String> {
        let of = if self.by_cost {
            Metric::primary
        } else {
            Metric::cost
        };
        // Where a CPU is full both are one finding, and the sentence has it.
        let is_news = |c: &Compared| {
            let cost = Metric::cost(c.a.group.workload.test);
            let cost = r.analysis.comparison(c.a, c.b, cost);
            cost.is_none_or(|cost| cost.counted)
        };
        let votes = self.votes(r, of, is_news);
        let votes: Vec<Vote> = votes.iter().map(|(_, vote)| *vote).collect();
        sentence::second(&self.phrase, self.quantity(of), &votes)
    }

    /// The comparisons by one quantity, as they are counted.
    fn votes(
        &self,
        r: &Report<'_>,
        of: impl Fn(Test) -> Metric,
        counts: impl Fn(&Compared) -> bool,
    ) -> Vec<(&'r Compared, Vote)> {
        let vote = |c: &&'r Compared| {
            let test = c.a.group.workload.test;
            let metric = of(test);
            // A rate that both were asked for and both reached says nothing of the networks.
            let asked = metric == Metric::primary(test) && self.is_at_rate(r, c);
            let found = r.analysis.comparison(c.a, c.b, metric).filter(|_| !asked)?;
            let (verdict, ratio) = (found.result.verdict, found.result.ratio);
            Some((
                *c,
                Vote {
                    verdict,
                    ratio,
                    within_percent: found.result.within_percent(),
                    why_not: why_not(r, found),
                },
            ))
        };
        let counted = self.counted.iter().filter(|c| counts(c));
        counted.filter_map(vote).collect()
    }

    fn is_at_rate(&self, r: &Report<'_>, c: &Compared) -> bool {
        let at_rate = |key| r.figures(key).is_some_and(|f| f.bound == Bound::Rate);
        at_rate(c.a) && at_rate(c.b)
    }

    /// What the quantity is called: by its own name where all comparisons have the same.
    fn quantity(&self, of: impl Fn(Test) -> Metric) -> Quantity {
        let metrics = self.counted.iter().map(|c| of(c.a.group.workload.test));
        let mut metrics: Vec<Metric> = metrics.collect();
        metrics.sort_unstable();
        metrics.dedup();
        match metrics.as_slice() {
            [Metric::Goodput] => Quantity::Figure("goodput"),
            [Metric::Transactions] => Quantity::Figure("transactions per second"),
            [Metric::Rate] => Quantity::Figure("packets per second"),
            [Metric::CpuPerGbps] => Quantity::Cost("CPU per Gbit/s"),
            [Metric::CpuPerTransaction] => Quantity::Cost("CPU per transaction"),
            [Metric::CpuPerPacket] => Quantity::Cost("CPU per packet"),
            [Metric::MigrationTime] => Quantity::Time {
                noun: "migration time",
                what: "the migration",
            },
            [Metric::CpuPerGbps | Metric::CpuPerTransaction, ..] => {
                Quantity::Cost("CPU for the same work")
            }
            _ => Quantity::Figure("throughput"),
        }
    }

    /// The cells that the answer rests on; all that were measured where there is no answer.
    fn cells(&self, r: &'r Report<'_>) -> Vec<&'r CellFigures<'r>> {
        let measured = r.analysis.cells.iter().filter(|f| f.is_measured());
        let is_in = |f: &&CellFigures<'_>| {
            let key = f.cell.key;
            self.counted.is_empty() || self.counted.iter().any(|c| c.a == key || c.b == key)
        };
        measured.filter(is_in).collect()
    }
}

/// An overlay against one kind of network: the baseline of the view that asks, else a plain bridge, else a VLAN on its switch.
fn one_object<'r>(
    phrase: Phrase,
    pairs: &[&'r Compared],
    asking: Option<&View>,
) -> (Phrase, Vec<&'r Compared>) {
    let baseline: &[BackendName] = match asking {
        Some(View::CpuSteps { baseline, .. }) => baseline,
        _ => &[],
    };
    let usual = [Encapsulation::None, Encapsulation::Vlan];
    let kinds = baseline.iter().map(|b| b.encapsulation()).chain(usual);
    let against = |kind: Encapsulation| -> Vec<&'r Compared> {
        let all = pairs.iter().copied();
        all.filter(|c| c.b.backend.encapsulation() == kind)
            .collect()
    };
    let mut found = kinds.map(|kind| (kind, against(kind)));
    let Some((kind, counted)) = found.find(|(_, all)| !all.is_empty()) else {
        return (phrase, Vec::new());
    };
    let object = match kind {
        Encapsulation::Vlan => "a VLAN on the same switch",
        _ => "a plain bridge",
    };
    (Phrase { object, ..phrase }, counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    /// The sentence of a fixture, and what stands beside it.
    fn said(run: &crate::record::Run) -> (String, String) {
        let answer = Answer::of(&Analysis::of(run));
        (answer.sentence, answer.beside.unwrap_or_default())
    }

    fn bound_by(mut run: crate::record::Run, bound: Bound) -> crate::record::Run {
        let samples = run.cells.iter_mut().flat_map(|cell| &mut cell.samples);
        samples.for_each(|sample| sample.bound = bound);
        run
    }

    #[test]
    fn where_a_cpu_is_full_the_cost_is_said_with_the_figure() {
        let (_, beside) = said(&bound_by(fixture::run(), Bound::ReceiverCpu));
        assert_eq!(beside, "");
        let (_, beside) = said(&bound_by(fixture::run(), Bound::Nothing));
        assert!(beside.contains("CPU per Gbit/s"), "{beside}");
    }

    #[test]
    fn the_views_of_a_study_decide_which_question_is_answered_first() {
        for (name, run) in fixture::all() {
            let (sentence, _) = said(&run);
            let words = match name {
                "jumbo" | "cost" => "an overlay",
                "scenarios" => "Geneve",
                "guests" => "jumbo frames",
                "migrations" => "jumbo frames shorten the migration by",
                "frames" => "an overlay between two hosts",
                "itself" => "a network differs from itself",
                _ => "Overlane",
            };
            assert!(sentence.contains(words), "{name}: {sentence}");
        }
    }

    #[test]
    fn machines_that_move_answer_first_and_the_guests_traffic_stands_beside() {
        let (sentence, beside) = said(&fixture::migrations());
        assert_eq!(
            sentence,
            "On this machine, with offload off, jumbo frames shorten the migration by 18 % against 1500 bytes: all 6 comparisons; \
             with offload on, they make no difference: all 6 within 5 %."
        );
        assert!(
            beside.starts_with("A second link makes no difference to the migration: all 12 comparisons within 5 %. For traffic between guests, "),
            "{beside}"
        );
        // Without a second link the cost stands there, where it is news.
        let mut run = bound_by(fixture::migrations(), Bound::Nothing);
        run.cells.retain(|cell| {
            let moving = cell.key.group.workload.migration;
            moving.is_some_and(|moving| moving.links == 1)
        });
        let (sentence, beside) = said(&run);
        assert!(
            sentence.contains("shorten the migration by 18 %"),
            "{sentence}"
        );
        assert!(beside.contains("CPU per Gbit/s"), "{beside}");
        assert!(!beside.contains("guests"), "{beside}");
    }

    #[test]
    fn where_the_question_is_the_cost_the_cost_comes_first() {
        let (sentence, beside) = said(&bound_by(fixture::cost(), Bound::Nothing));
        assert!(sentence.contains("CPU for the same work"), "{sentence}");
        assert!(sentence.contains("a VLAN on the same switch"), "{sentence}");
        assert!(beside.to_lowercase().contains("throughput"), "{beside}");
        let (sentence, beside) = said(&bound_by(fixture::run(), Bound::Nothing));
        assert!(sentence.contains("goodput"), "{sentence}");
        assert!(sentence.contains("a plain bridge"), "{sentence}");
        assert!(beside.contains("CPU per Gbit/s"), "{beside}");
    }

    #[test]
    fn an_answer_that_depends_on_one_thing_names_it() {
        let (sentence, _) = said(&fixture::run());
        for words in ["with the kernel’s own devices, ", "; with Overlane, it "] {
            assert!(sentence.contains(words), "{sentence}");
        }
    }

    #[test]
    fn a_study_whose_question_has_no_comparison_cannot_say() {
        let mut run = fixture::scenarios();
        run.cells
            .retain(|cell| cell.key.backend.encapsulation() != Encapsulation::Geneve);
        let (sentence, _) = said(&run);
        assert_eq!(
            sentence,
            "This run cannot say whether Geneve costs more than VXLAN: it has no two cells to compare."
        );
    }

    #[test]
    fn a_rate_that_both_sides_reached_says_nothing() {
        let mut run = bound_by(fixture::guests(), Bound::Rate);
        // The fixture measures group after group; here all take turns.
        for sample in run.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
            sample.started_unix_ms = fixture::STARTED + u64::from(sample.round) * 60_000;
        }
        let (sentence, beside) = said(&run);
        assert!(sentence.ends_with("no two cells to compare."), "{sentence}");
        assert!(beside.starts_with("Jumbo frames save "), "{beside}");
    }
}
