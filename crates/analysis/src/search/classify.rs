//! Is a load a lower bound, an upper bound or still undecided? The logic that RFC 9971 publishes.
//!
//! Used by [`super::search()`] while it runs and by whoever checks a result afterwards. All sums are
//! whole nanoseconds, the exceed ratio a whole number of billionths and every division is
//! multiplied out, so no rounding decides a load.

use super::goal::Goal;
use super::trial::Trial;

/// Denominator of the exceed ratio.
const BILLION: u128 = 1_000_000_000;

/// Most trial time that is told apart, about 31 years; keeps every product below within 128 bits.
const LONGEST_SUM_NS: u128 = BILLION * BILLION;

/// What the trials at one load say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The load fulfils the goal, whatever further trials up to the duration sum would show.
    Lower,
    /// The load misses the goal, whatever further trials up to the duration sum would show.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Classifies a load by all the trials measured at it (RFC 9971, "Load Classification Code").
pub fn classify(trials: &[Trial], goal: &Goal) -> Class {
    let sums = Sums::of(trials, goal);
    match (sums.pessimistic_is_lower(), sums.optimistic_is_lower()) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

/// Forwarding rate that is typical of a load (RFC 9971, "Conditional Throughput Code"): that of the
/// full-length trial at which the goal's share of the trial time, best trials first, is filled.
///
/// It has its meaning at the relevant lower bound. `None` without any trial; 0 when the full-length
/// trials do not fill the share.
pub fn conditional_throughput(load_pps: f64, trials: &[Trial], goal: &Goal) -> Option<f64> {
    if trials.is_empty() {
        return None;
    }
    let parts = goal.parts();
    let mut full: Vec<(f64, u128)> = trials
        .iter()
        .filter(|trial| trial.duration >= parts.final_trial)
        .map(|trial| (trial.loss_ratio(), trial.duration.as_nanos()))
        .collect();
    full.sort_by(|a, b| a.0.total_cmp(&b.0));
    let full_ns: u128 = full.iter().map(|(_, ns)| ns).sum();
    let whole_ns = full_ns.max(parts.duration_sum.as_nanos());

    let mut remaining = whole_ns * (BILLION - billionths(parts.exceed_ratio));
    for (loss_ratio, ns) in full {
        let taken = ns * BILLION;
        if remaining <= taken {
            return Some(load_pps * (1.0 - loss_ratio));
        }
        remaining -= taken;
    }
    Some(0.0)
}

/// Trial time at one load, split and balanced as the published code does.
///
/// Balancing divides by the subceed ratio (1 − exceed ratio); the sums named `scaled` are multiplied
/// by it instead, that is by a whole number of billionths.
struct Sums {
    exceed: u128,
    full_low_scaled: u128,
    effective_high_scaled: u128,
    effective_whole_scaled: u128,
}

impl Sums {
    fn of(trials: &[Trial], goal: &Goal) -> Self {
        let parts = goal.parts();
        let sum = |full: bool, high: bool| {
            trials
                .iter()
                .filter(|trial| (trial.duration >= parts.final_trial) == full)
                .filter(|trial| (trial.loss_ratio() > parts.loss_ratio) == high)
                .map(|trial| trial.duration.as_nanos())
                .sum::<u128>()
                .min(LONGEST_SUM_NS)
        };
        let exceed = billionths(parts.exceed_ratio);
        let subceed = BILLION - exceed;
        let full_low_scaled = sum(true, false) * subceed;
        let excess_scaled = (sum(false, true) * subceed).saturating_sub(sum(false, false) * exceed);
        let effective_high_scaled = sum(true, true) * subceed + excess_scaled;
        let effective_full_scaled = full_low_scaled + effective_high_scaled;
        Self {
            exceed,
            full_low_scaled,
            effective_high_scaled,
            effective_whole_scaled: effective_full_scaled
                .max(parts.duration_sum.as_nanos() * subceed),
        }
    }

    /// Does the load pass if all the missing trial time turns out bad?
    fn pessimistic_is_lower(&self) -> bool {
        self.tolerates(self.effective_whole_scaled - self.full_low_scaled)
    }

    /// Does the load pass if all the missing trial time turns out good?
    fn optimistic_is_lower(&self) -> bool {
        self.tolerates(self.effective_high_scaled)
    }

    fn tolerates(&self, high_scaled: u128) -> bool {
        high_scaled * BILLION <= self.effective_whole_scaled * self.exceed
    }
}

/// A ratio from 0 to below 1 as a whole number of billionths.
fn billionths(ratio: f64) -> u128 {
    (ratio * BILLION as f64).round() as u128
}

#[cfg(test)]
mod tests;
