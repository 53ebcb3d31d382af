//! What a search found, as it is kept in results and printed by the report.

use serde::{Deserialize, Serialize};

use super::goal::Goal;
use super::trial::Trial;

/// The result of one search: every trial, and one result for each goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// All trials in the order in which they were measured.
    pub trials: Vec<Trial>,
    /// One result for each goal, in the order in which the goals were given.
    pub goals: Vec<GoalResult>,
}

/// The result for one goal (RFC 9971, "Goal Result").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalResult {
    /// What was searched for.
    pub goal: Goal,
    /// Largest load that passes, below every load that fails; `None` if none was found to pass.
    pub relevant_lower_bound_pps: Option<f64>,
    /// Smallest load that fails; `None` if none was found to fail.
    pub relevant_upper_bound_pps: Option<f64>,
    /// Typical forwarding rate at the lower bound: the figure to compare systems by.
    pub conditional_throughput_pps: Option<f64>,
    /// Did the search end by itself: bounds within the width, or the largest load allowed passes?
    pub regular: bool,
    /// The largest load allowed passes, so the generator or the declared limit was the bound and the
    /// system may carry more. RFC 9971 itself counts this as irregular, see
    /// [`GoalResult::is_regular_by_rfc9971`].
    pub at_max_load: bool,
    /// In words, why the result is not regular.
    pub why_irregular: Option<String>,
}

impl GoalResult {
    /// Is this a "Regular Goal Result" in the strict sense: both bounds exist, within the width?
    ///
    /// Any other result must be marked where its figures are printed.
    pub fn is_regular_by_rfc9971(&self) -> bool {
        self.regular && !self.at_max_load
    }

    /// Distance of the bounds, (upper − lower) / upper, to print beside the goal's width.
    pub fn width(&self) -> Option<f64> {
        let upper = self.relevant_upper_bound_pps?;
        Some(1.0 - self.relevant_lower_bound_pps? / upper)
    }
}
