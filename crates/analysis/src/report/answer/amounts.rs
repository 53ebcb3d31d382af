//! Amounts, ranges and counts as a manager reads them.

use crate::stats::{Verdict, median};

use super::votes::{Quantity, Vote};
use crate::report::numbers::fixed;

/// At least this many times as much is said as a factor, less in per cent.
const FACTOR: f64 = 1.95;

/// How much, and from where to where: the comparisons that have the verdict, by their median.
pub(super) fn amount(quantity: Quantity, verdict: Verdict, votes: &[Vote]) -> (String, String) {
    let agree = votes.iter().filter(|vote| vote.verdict == verdict);
    let ratios: Vec<f64> = agree.filter_map(|vote| vote.ratio).collect();
    let Some(typical) = median(&ratios) else {
        return ("some".to_owned(), String::new());
    };
    let (low, high) = ends(&ratios);
    if quantity.is_higher(verdict) && typical >= FACTOR {
        let text = |v: f64| fixed(v, usize::from(v < 9.95));
        let range = span(&text(typical), &text(low), &text(high), "times");
        return (format!("{} times", text(typical)), range);
    }
    let text = |v: f64| percent((v - 1.0).abs() * 100.0);
    let (near, far) = if typical < 1.0 {
        (high, low)
    } else {
        (low, high)
    };
    let range = span(&text(typical), &text(near), &text(far), "%");
    (format!("{} %", text(typical)), range)
}

/// ` (8 to 15 %)`; nothing where it says no more than the middle.
pub(super) fn span(typical: &str, near: &str, far: &str, unit: &str) -> String {
    if near == typical && far == typical {
        String::new()
    } else {
        format!(" ({near} to {far} {unit})")
    }
}

/// `12 % less`, of a time `12 % shorter`
pub(super) fn change(quantity: Quantity, ratio: f64) -> String {
    let (less, more) = match quantity {
        Quantity::Time { .. } => ("shorter", "longer"),
        _ => ("less", "more"),
    };
    match percent((ratio - 1.0).abs() * 100.0) {
        _ if ratio >= FACTOR => format!("{} times", fixed(ratio, usize::from(ratio < 9.95))),
        text if ratio < 1.0 => format!("{text} % {less}"),
        text => format!("{text} % {more}"),
    }
}

pub(super) fn percent(value: f64) -> String {
    match value {
        v if v < 0.05 => "less than 0.1".to_owned(),
        v => fixed(v, usize::from(v < 0.95)),
    }
}

pub(super) fn ends(ratios: &[f64]) -> (f64, f64) {
    let fold = |(low, high): (f64, f64), v: &f64| (low.min(*v), high.max(*v));
    ratios.iter().fold((f64::MAX, f64::MIN), fold)
}

/// `two`, from ten on in digits.
pub(super) fn in_words(count: usize) -> String {
    const WORDS: [&str; 10] = [
        "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    ];
    WORDS
        .get(count)
        .map_or_else(|| count.to_string(), |word| (*word).to_owned())
}

/// `a, b and c`
pub(super) fn and(parts: &[String]) -> String {
    match parts {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => parts.concat(),
    }
}
