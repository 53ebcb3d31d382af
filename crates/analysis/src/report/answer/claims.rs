//! What is said of a quantity, with its own verbs: a figure is given or cost, a cost is taken or saved, a time is shortened or
//! lengthened.

use crate::stats::Verdict;

use super::phrase::Phrase;
use super::votes::{NEAR_PERCENT, Quantity};

/// `costs 12 % of the goodput against a plain bridge`; without an object it is left out.
pub(super) fn told(
    p: &Phrase,
    quantity: Quantity,
    verdict: Verdict,
    much: &str,
    object: &str,
) -> String {
    let noun = quantity.noun();
    let factor = much.ends_with("times");
    let held = |word: &str| match object {
        "" => String::new(),
        object => format!(" {word} {object}"),
    };
    let gains = verdict == Verdict::Better;
    match (quantity, gains) {
        (Quantity::Figure(_), false) => {
            format!("{} {much} of the {noun}{}", p.verb("cost"), held("against"))
        }
        (Quantity::Cost(_), true) => {
            format!("{} {much} of the {noun}{}", p.verb("save"), held("against"))
        }
        (Quantity::Figure(_), true) if factor => {
            format!("{} {much} the {noun}{}", p.verb("give"), held("of"))
        }
        (Quantity::Cost(_), false) if factor => {
            format!("{} {much} the {noun}{}", p.verb("take"), held("of"))
        }
        (Quantity::Figure(_), true) => {
            format!("{} {much} more {noun}{}", p.verb("give"), held("than"))
        }
        (Quantity::Cost(_), false) => {
            format!("{} {much} more {noun}{}", p.verb("take"), held("than"))
        }
        (Quantity::Time { what, .. }, false) if factor => {
            format!("{}{}", time(p, gains, what, much), held("as with"))
        }
        (Quantity::Time { what, .. }, _) => {
            format!("{}{}", time(p, gains, what, much), held("against"))
        }
    }
}

/// `cost 12 %`: the same of another place, where quantity and object were said before.
pub(super) fn told_again(p: &Phrase, quantity: Quantity, verdict: Verdict, much: &str) -> String {
    let gains = verdict == Verdict::Better;
    let more = quantity.is_higher(verdict);
    let verb = match (quantity, more) {
        (Quantity::Time { .. }, _) => return time(p, gains, "it", much),
        (Quantity::Figure(_), true) => "give",
        (Quantity::Figure(_), false) => "cost",
        (Quantity::Cost(_), true) => "take",
        (Quantity::Cost(_), false) => "save",
    };
    let much = match (more, much.ends_with("times")) {
        (true, true) => format!("{much} as much"),
        (true, false) => format!("{much} more"),
        (false, _) => much.to_owned(),
    };
    format!("{} {much}", p.verb(verb))
}

/// `shorten the migration by 19 %`
fn time(p: &Phrase, shorter: bool, what: &str, much: &str) -> String {
    match (shorter, much.ends_with("times")) {
        (true, _) => format!("{} {what} by {much}", p.verb("shorten")),
        (false, false) => format!("{} {what} by {much}", p.verb("lengthen")),
        (false, true) => format!("{} {what} {much} as long", p.verb("make")),
    }
}

/// Of figures that do not differ: `an overlay costs no goodput against a plain bridge`.
pub(super) fn same(p: &Phrase, quantity: Quantity) -> String {
    match quantity {
        Quantity::Figure(noun) | Quantity::Time { noun, .. } => p.fill(p.same, noun),
        Quantity::Cost(noun) => {
            format!(
                "{} {} the same {noun} as {}",
                p.subject,
                p.verb("take"),
                p.object
            )
        }
    }
}

/// The same after the subject: `change nothing`, `make no difference`.
pub(super) fn no_difference(p: &Phrase, quantity: Quantity) -> String {
    match quantity {
        Quantity::Time { .. } => format!("{} no difference", p.verb("make")),
        Quantity::Figure(_) | Quantity::Cost(_) => format!("{} nothing", p.verb("change")),
    }
}

/// A difference that can only be small.
pub(super) fn small(p: &Phrase, quantity: Quantity) -> String {
    match quantity {
        Quantity::Time { what, .. } => format!(
            "{} {} {what} by less than {NEAR_PERCENT:.0} %",
            p.subject,
            p.verb("change")
        ),
        Quantity::Figure(noun) | Quantity::Cost(noun) => format!(
            "{} and {} differ by less than {NEAR_PERCENT:.0} % in {noun}",
            p.subject, p.object
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::answer::sentence::{Start, lead, second};
    use crate::report::answer::votes::{Part, Vote};
    use crate::report::sections::questions::QUESTIONS;

    const TIME: Quantity = Quantity::Time {
        noun: "migration time",
        what: "the migration",
    };

    fn words(title: &str) -> Phrase {
        let mut questions = QUESTIONS.iter();
        Phrase::of(questions.find(|q| q.title.starts_with(title)).unwrap())
    }

    fn votes<const N: usize>(verdict: Verdict, ratios: [f64; N]) -> Vec<Vote> {
        let vote = |ratio: f64| Vote {
            verdict,
            ratio: Some(ratio),
            within_percent: Some(100.0 * (ratio - 1.0).abs() + 4.0),
            why_not: None,
        };
        ratios.map(vote).into()
    }

    fn said(p: &Phrase, votes: &[Vec<Vote>]) -> String {
        lead(p, TIME, &votes.concat(), None, Start::Bare)
    }

    #[test]
    fn a_time_is_shortened_or_lengthened() {
        let p = words("Do jumbo frames shorten");
        assert_eq!(
            said(&p, &[votes(Verdict::Better, [0.81, 0.8, 0.83])]),
            "Jumbo frames shorten the migration by 19 % against 1500 bytes (17 to 20 %): all 3 comparisons."
        );
        assert_eq!(
            said(&p, &[votes(Verdict::Same, [1.0, 0.99])]),
            "Jumbo frames make no difference to the migration: both comparisons within 5 %."
        );
        assert_eq!(
            said(&p, &[votes(Verdict::CannotTell, [0.96, 0.98])]),
            "Jumbo frames change the migration by less than 10 %: both comparisons."
        );
        let p = words("Do more links");
        let some = [
            votes(Verdict::Worse, [1.12; 9]),
            votes(Verdict::Better, [0.9]),
        ];
        assert_eq!(
            said(&p, &some),
            "A second link lengthens the migration by 12 % against one link: 9 of 10 comparisons, one is shorter."
        );
        let p = words("What do more machines");
        assert_eq!(
            said(&p, &[votes(Verdict::Worse, [2.1, 2.1])]),
            "A larger number of machines at once makes the migration 2.1 times as long as with the smallest: both comparisons."
        );
    }

    #[test]
    fn where_the_setting_decides_each_place_has_its_verb() {
        let p = words("Do jumbo frames shorten");
        let part = |place: &str, votes| Part {
            place: place.to_owned(),
            votes,
        };
        let off = votes(Verdict::Better, [0.81; 6]);
        let on = votes(Verdict::Same, [1.0; 6]);
        let parts = [
            part("with offload on", on.clone()),
            part("with offload off", off.clone()),
        ];
        assert_eq!(
            lead(
                &p,
                TIME,
                &[on, off.clone()].concat(),
                Some(&parts),
                Start::Here
            ),
            "On this machine, with offload off, jumbo frames shorten the migration by 19 % against 1500 bytes: all 6 comparisons; \
             with offload on, they make no difference: all 6 within 5 %."
        );
        let longer = votes(Verdict::Worse, [1.2; 6]);
        let parts = [
            part("over 1 link", off.clone()),
            part("over 2 links", longer.clone()),
        ];
        let all = [off, longer].concat();
        let text = lead(&p, TIME, &all, Some(&parts), Start::Bare);
        assert!(
            text.ends_with("over 2 links, they lengthen it by 20 %: all 6."),
            "{text}"
        );
        assert_eq!(
            lead(&p, TIME, &all, None, Start::Bare),
            "It depends on the setting: against 1500 bytes, jumbo frames shorten the migration in 6 and lengthen it in 6 of 12 \
             comparisons (from 19 % shorter to 20 % longer)."
        );
    }

    #[test]
    fn beside_another_quantity_a_time_is_longer_or_shorter() {
        let p = words("Do jumbo frames shorten");
        let mixed = [
            votes(Verdict::Better, [0.8; 2]),
            votes(Verdict::Worse, [1.3; 2]),
        ];
        assert_eq!(
            second(&p, TIME, &mixed.concat()).unwrap(),
            "Migration time is shorter in 2 and longer in 2 of 4 comparisons (from 20 % shorter to 30 % longer)."
        );
    }
}
