//! The search itself: one goal after another, one trial after another, until all goals are settled
//! or the budget of trial time is used up.

use std::time::Duration;

use super::book::{Book, Bounds};
use super::classify::conditional_throughput;
use super::goal::{Goal, Limits};
use super::outcome::{GoalResult, Outcome};
use super::select::{Seeker, settled};
use super::trial::Trial;

/// Searches for the highest load of each goal.
///
/// The first trial is at the largest load, the next at the rate that came through there; from then
/// on small loads go first, in growing steps until the threshold lies between two loads, then by
/// halving. Goals with the shortest trials and the least loss go first, and every trial counts for
/// every goal.
///
/// `measure` gets a load and a duration and returns the trial; the load and duration that were asked
/// for are entered, whatever it returns there. No trial is begun that would take more trial time
/// than `budget` in all; then goals that are not settled are marked irregular. The caller warms the
/// system up before, since the first trials would bind unjustly.
///
/// # Errors
///
/// The first error of `measure`, unchanged.
pub fn search<E>(
    goals: &[Goal],
    limits: Limits,
    budget: Duration,
    mut measure: impl FnMut(f64, Duration) -> Result<Trial, E>,
) -> Result<Outcome, E> {
    let shortest = goals.iter().map(|goal| goal.parts().initial_trial).min();
    let limits = shortest.map_or(limits, |shortest| limits.with_a_frame_in(shortest));
    let mut book = Book::default();
    let mut seekers: Vec<(Goal, Seeker)> = Vec::with_capacity(goals.len());
    let mut trials = Vec::new();
    let mut left = Some(budget);

    for goal in in_order(goals) {
        let near = seekers.last().map(|(before, _)| book.bounds(before));
        seekers.push((goal, Seeker::new(&goal, near)));
        // A trial for this goal can unsettle one before, so all so far are asked again.
        while let Some(ask) = seekers.iter_mut().find_map(|(_, s)| s.next(&book, limits)) {
            left = left.and_then(|left| left.checked_sub(ask.duration));
            if left.is_none() {
                break;
            }
            let trial = Trial {
                load_pps: ask.load_pps,
                duration: ask.duration,
                ..measure(ask.load_pps, ask.duration)?
            };
            book.add(trial);
            trials.push(trial);
        }
    }
    let result = |goal: &Goal| result(goal, &book, limits, budget);
    Ok(Outcome {
        goals: goals.iter().map(result).collect(),
        trials,
    })
}

/// The goals in the order in which they are searched for.
fn in_order(goals: &[Goal]) -> Vec<Goal> {
    let mut goals = goals.to_vec();
    goals.sort_by(|a, b| {
        let (a, b) = (a.parts(), b.parts());
        (a.final_trial.cmp(&b.final_trial))
            .then(a.loss_ratio.total_cmp(&b.loss_ratio))
            .then(a.duration_sum.cmp(&b.duration_sum))
    });
    goals
}

fn result(goal: &Goal, book: &Book, limits: Limits, budget: Duration) -> GoalResult {
    let bounds = book.bounds(goal);
    let settled = settled(goal, bounds, limits);
    let regular = settled && bounds.lower.is_some();
    GoalResult {
        goal: *goal,
        relevant_lower_bound_pps: bounds.lower,
        relevant_upper_bound_pps: bounds.upper,
        conditional_throughput_pps: bounds
            .lower
            .and_then(|lower| conditional_throughput(lower, book.trials_at(lower), goal)),
        regular,
        at_max_load: regular && bounds.upper.is_none(),
        why_irregular: (!regular).then(|| why_irregular(settled, bounds, limits, budget)),
    }
}

fn why_irregular(settled: bool, bounds: Bounds, limits: Limits, budget: Duration) -> String {
    if settled {
        let min_pps = limits.min_pps();
        return format!(
            "even the smallest load, {min_pps:.0} frames per second, fails: check that the path \
             carries frames at all, or allow smaller loads"
        );
    }
    let found = match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) => format!("within {:.1} %", 100.0 * (1.0 - lower / upper)),
        (Some(_), None) => "without a load that fails".to_owned(),
        (None, Some(_)) => "without a load that passes".to_owned(),
        (None, None) => "without any load decided".to_owned(),
    };
    format!("the budget of {budget:?} of trial time was used up {found}; allow more time")
}

#[cfg(test)]
mod tests;
