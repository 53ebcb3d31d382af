//! What many comparisons say together, in one sentence: who, how much, how often, and what the others say.

use crate::report::names::capital;
use crate::stats::Verdict;

use super::amounts::{amount, and, change, ends};
use super::claims::{no_difference, same, small, told, told_again};
use super::phrase::Phrase;
use super::votes::{
    NEAR_PERCENT, Part, Quantity, Say, Vote, count, differing, of, of_short, other, rest, say,
    share, undecided, why_not,
};

/// How a sentence begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Start {
    /// `On this machine …`
    Here,
    /// `As far as the run came, …`
    SoFar,
    /// With its subject, where the page has said the rest already.
    Bare,
    /// The guests' own traffic, beside an answer about machines that move.
    Guests,
}

impl Start {
    /// A clause with its beginning; one that is set off begins with its comma.
    fn begin(self, clause: &str) -> String {
        let bare = clause.trim_start_matches([',', ' ']);
        match self {
            Self::Here => format!("On this machine{clause}"),
            Self::SoFar => format!("As far as the run came, {bare}"),
            Self::Bare => capital(bare),
            Self::Guests => format!("For traffic between guests, {bare}"),
        }
    }

    /// What comes before a question without an answer.
    const fn open(self) -> &'static str {
        match self {
            Self::SoFar => "This run was broken off and cannot say",
            Self::Here | Self::Bare => "This run cannot say",
            Self::Guests => "For traffic between guests, this run cannot say",
        }
    }
}

/// The answer of a question.
pub(in crate::report) fn lead(
    p: &Phrase,
    quantity: Quantity,
    votes: &[Vote],
    parts: Option<&[Part; 2]>,
    start: Start,
) -> String {
    let open = start.open();
    let topic = p.fill(p.topic, quantity.noun());
    let rest = |but: Verdict| rest(quantity, votes, but);
    match say(votes) {
        Say::Nothing => format!("{open} {topic}: it has no two cells to compare."),
        Say::NotComparable => format!(
            "{open} {topic}: {} like for like{}.",
            match votes.len() {
                1 => "its one comparison is not".to_owned(),
                all => format!("its {all} comparisons are not"),
            },
            why_not(votes)
        ),
        _ if p.noise => start.begin(&noise(votes)),
        Say::Near => start.begin(&format!(
            " {}: {}.",
            small(p, quantity),
            near(quantity, votes)
        )),
        Say::Open => format!(
            "{open} {topic}: {}{}.{}",
            undecided(votes),
            rest(Verdict::CannotTell),
            below(votes)
        ),
        Say::Leads(verdict) => start.begin(&format!(
            " {}{}.",
            claim(p, quantity, verdict, votes),
            rest(verdict)
        )),
        Say::Mixed => start.begin(&match parts {
            Some(parts) => divided(p, quantity, parts),
            None => format!(
                " it depends on the setting: against {}, {} {}.",
                p.object,
                p.subject,
                mixed(p, quantity, votes)
            ),
        }),
    }
}

/// The other quantity of the same comparisons, after the answer; nothing where it was not measured.
pub(in crate::report) fn second(p: &Phrase, quantity: Quantity, votes: &[Vote]) -> Option<String> {
    let noun = quantity.noun();
    let text = match say(votes) {
        Say::Nothing | Say::NotComparable => return None,
        _ if p.noise => return Some(format!("By {noun}: {}.", differing(votes))),
        Say::Near => format!(
            "{noun} {} by less than {NEAR_PERCENT:.0} %: {}",
            if quantity.is() == "are" {
                "differ"
            } else {
                "differs"
            },
            near(quantity, votes)
        ),
        Say::Open => format!(
            "the run cannot say whether {noun} {}: {}{}",
            if quantity.is() == "are" {
                "differ"
            } else {
                "differs"
            },
            undecided(votes),
            rest(quantity, votes, Verdict::CannotTell)
        ),
        Say::Leads(Verdict::Same) => format!(
            "{noun} {} the same: {} within 5 %{}",
            quantity.is(),
            of(votes, Verdict::Same),
            rest(quantity, votes, Verdict::Same)
        ),
        Say::Leads(verdict) => {
            let (much, range) = amount(quantity, verdict, votes);
            format!(
                "{} {}{range}: {}{}",
                p.short_subject(),
                told(p, quantity, verdict, &much, ""),
                of(votes, verdict),
                rest(quantity, votes, verdict)
            )
        }
        Say::Mixed => format!("{noun} {} {}", quantity.is(), mixed_as(quantity, votes)),
    };
    Some(format!("{}.", capital(&text)))
}

/// `an overlay costs 12 % of the goodput against a plain bridge (8 to 15 %): 10 of 12 comparisons`
fn claim(p: &Phrase, quantity: Quantity, verdict: Verdict, votes: &[Vote]) -> String {
    let of = of(votes, verdict);
    if verdict == Verdict::Same {
        return format!("{}: {of} within 5 %", same(p, quantity));
    }
    let (much, range) = amount(quantity, verdict, votes);
    match (p.verdict, quantity) {
        (Some((gains, loses)), Quantity::Figure(_)) => {
            let words = if verdict == Verdict::Better {
                gains
            } else {
                loses
            };
            let claim = told(p, quantity, verdict, &much, p.object);
            format!("{words}: {} {claim}{range}, {of}", p.pronoun())
        }
        _ => format!(
            "{} {}{range}: {of}",
            p.subject,
            told(p, quantity, verdict, &much, p.object)
        ),
    }
}

/// Two places with an answer of their own: `with offload off, …; with offload on, …`.
fn divided(p: &Phrase, quantity: Quantity, parts: &[Part; 2]) -> String {
    let decided = |part: &Part| {
        matches!(
            say(&part.votes),
            Say::Leads(Verdict::Better | Verdict::Worse)
        )
    };
    let [one, other] = parts;
    let (first, then) = if decided(one) || !decided(other) {
        (one, other)
    } else {
        (other, one)
    };
    let whole = match say(&first.votes) {
        Say::Leads(verdict) => {
            let (much, range) = amount(quantity, verdict, &first.votes);
            format!(
                "{} {}{range}: {}",
                p.subject,
                told(p, quantity, verdict, &much, p.object),
                of(&first.votes, verdict)
            )
        }
        _ => format!("this run cannot say: {}", undecided(&first.votes)),
    };
    let it = p.pronoun();
    let short = match say(&then.votes) {
        Say::Leads(Verdict::Same) => format!(
            "{it} {}: {} within 5 %",
            no_difference(p, quantity),
            of_short(&then.votes, Verdict::Same)
        ),
        Say::Near => format!(
            "{it} {} less than {NEAR_PERCENT:.0} %: {}",
            p.verb("change"),
            near(quantity, &then.votes)
        ),
        Say::Leads(verdict) => {
            let (much, range) = amount(quantity, verdict, &then.votes);
            format!(
                "{it} {}{range}: {}",
                told_again(p, quantity, verdict, &much),
                of_short(&then.votes, verdict)
            )
        }
        _ => format!("this run cannot say: {}", undecided(&then.votes)),
    };
    format!(", {}, {whole}; {}, {short}.", first.place, then.place)
}

/// `has more goodput in 5, less in 3 and the same in 4 of 14 comparisons (from 12 % less to 30 % more), two cannot tell`
fn mixed(p: &Phrase, quantity: Quantity, votes: &[Vote]) -> String {
    let noun = quantity.noun();
    let (verb, less) = match quantity {
        Quantity::Figure(_) if quantity.is() == "are" => (p.has(), "fewer"),
        Quantity::Figure(_) => (p.has(), "less"),
        Quantity::Cost(_) => (&*p.verb("take"), "less"),
        Quantity::Time { what, .. } => return mixed_times(p, quantity, what, votes),
    };
    let words = [&format!("more {noun}"), less, "the same"];
    format!("{verb} {}", tally(quantity, votes, words))
}

/// `shorten the migration in 5, lengthen it in 3 and make no difference in 4 of 14 comparisons …`
fn mixed_times(p: &Phrase, quantity: Quantity, what: &str, votes: &[Vote]) -> String {
    let shorter = count(votes, Verdict::Better) > 0;
    let shorten = format!("{} {what}", p.verb("shorten"));
    let lengthen = format!(
        "{} {}",
        p.verb("lengthen"),
        if shorter { "it" } else { what }
    );
    let words = [&*lengthen, &*shorten, &*no_difference(p, quantity)];
    tally(quantity, votes, words)
}

/// `higher in 5, lower in 3 and the same in 4 of 14 comparisons …`
fn mixed_as(quantity: Quantity, votes: &[Vote]) -> String {
    let words = [true, false].map(
        |higher| match quantity.is_higher(Verdict::Better) == higher {
            true => quantity.direction(Verdict::Better),
            false => quantity.direction(Verdict::Worse),
        },
    );
    tally(quantity, votes, [words[0], words[1], "the same"])
}

fn tally(quantity: Quantity, votes: &[Vote], [more, less, same]: [&str; 3]) -> String {
    let words = |verdict: Verdict| match verdict {
        Verdict::Same => same,
        _ if quantity.is_higher(verdict) => more,
        _ => less,
    };
    let order = match quantity {
        Quantity::Figure(_) | Quantity::Time { .. } => {
            [Verdict::Better, Verdict::Worse, Verdict::Same]
        }
        Quantity::Cost(_) => [Verdict::Worse, Verdict::Better, Verdict::Same],
    };
    let all: Vec<String> = order
        .into_iter()
        .filter(|verdict| count(votes, *verdict) > 0)
        .map(|verdict| format!("{} in {}", words(verdict), count(votes, verdict)))
        .collect();
    let decided = |vote: &&Vote| order.contains(&vote.verdict);
    let ratios: Vec<f64> = votes
        .iter()
        .filter(decided)
        .filter_map(|v| v.ratio)
        .collect();
    let (low, high) = ends(&ratios);
    let range = if low < high {
        format!(
            " (from {} to {})",
            change(quantity, low),
            change(quantity, high)
        )
    } else {
        String::new()
    };
    let left = [Verdict::CannotTell, Verdict::NotComparable];
    let left: String = left.map(|verdict| other(quantity, votes, verdict)).concat();
    format!("{} of {} comparisons{range}{left}", and(&all), votes.len())
}

/// `7 of 12 comparisons, one is lower, two cannot tell`
fn near(quantity: Quantity, votes: &[Vote]) -> String {
    let (near, far): (Vec<Vote>, Vec<Vote>) = votes.iter().partition(|vote| vote.is_near());
    // None of those that are left is the same.
    share(near.len(), votes.len()) + &rest(quantity, &far, Verdict::Same)
}

/// How large a difference can be where nobody can tell: as far as the intervals reach.
fn below(votes: &[Vote]) -> String {
    let open = votes
        .iter()
        .filter(|vote| vote.verdict == Verdict::CannotTell);
    let most = open
        .map(|vote| vote.within_percent)
        .try_fold(0.0, |most: f64, within| Some(most.max(within?)));
    most.map_or_else(String::new, |most| {
        format!(
            " Where they cannot tell, a difference is below {:.0} %.",
            most.ceil()
        )
    })
}

/// Noise that looks like a difference.
fn noise(votes: &[Vote]) -> String {
    format!(
        " a network differs from itself {}: so often does noise look like a difference.",
        differing(votes)
    )
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;
