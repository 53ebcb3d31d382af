//! Which load to try next for one goal.
//!
//! A goal is approached in stages: first short trial time and a wide distance of the bounds, then
//! more time and half the distance, until the goal itself. Each stage begins where the stage before
//! ended. Loads are compared and halved by their logarithms, because widths are relative. Called by
//! [`super::search()`] before each trial, with the trials so far in the [`Book`].

use std::time::Duration;

use super::book::{Book, Bounds};
use super::classify::{Class, classify};
use super::goal::{Goal, GoalParts, Limits};

/// How often the forwarding rate of a failed load is tried as the next load.
const FORWARDING_GUESSES: u8 = 2;

/// The search for one goal.
#[derive(Debug)]
pub(super) struct Seeker {
    /// The goal in the end, coarser ones before it.
    stages: Vec<Goal>,
    stage: usize,
    /// Where the stage before found its bounds.
    hints: Bounds,
    stride: Stride,
    asked: Option<Asked>,
    guesses_left: u8,
}

/// A trial to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ask {
    pub(super) load_pps: f64,
    pub(super) duration: Duration,
}

/// The load that was asked for, and why: what follows from its class depends on it.
#[derive(Debug, Clone, Copy)]
struct Asked {
    load_pps: f64,
    reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Reason {
    /// The threshold is likely to be near: the next loads are close by.
    Guess,
    /// A step away from a bound, to find the other one.
    Step,
    /// Between two bounds.
    Halve,
}

/// Growing steps away from a bound, as a distance of logarithms. Good while the threshold is likely
/// to be near one bound; `None` when halving is as good.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stride {
    None,
    Up(f64),
    Down(f64),
}

impl Seeker {
    /// Begins a search. `near` are the bounds of a goal that was searched for before, with less loss
    /// or in shorter trials: the threshold is likely to be there or above.
    pub(super) fn new(goal: &Goal, near: Option<Bounds>) -> Self {
        let stages = stages(goal);
        let stride = match (near, stages.first()) {
            (Some(_), Some(first)) => Stride::Up(first.log_width()),
            _ => Stride::None,
        };
        Self {
            stages,
            stage: 0,
            hints: near.unwrap_or_default(),
            stride,
            asked: None,
            guesses_left: if near.is_some() {
                0
            } else {
                FORWARDING_GUESSES
            },
        }
    }

    /// The next trial, or `None` when no trial brings this goal further.
    ///
    /// Ends because trials at one load decide it, and a load between the bounds moves a bound.
    pub(super) fn next(&mut self, book: &Book, limits: Limits) -> Option<Ask> {
        while let Some(goal) = self.stages.get(self.stage).copied() {
            let bounds = book.bounds(&goal);
            self.learn(book, &goal, bounds);
            if !settled(&goal, bounds, limits) {
                let asked = match self.asked {
                    Some(asked) => asked,
                    None => self.choose(book, &goal, bounds, limits),
                };
                self.asked = Some(asked);
                return Some(Ask {
                    load_pps: asked.load_pps,
                    duration: goal.parts().final_trial,
                });
            }
            if self.stage + 1 == self.stages.len() {
                return None;
            }
            self.stage += 1;
            self.asked = None;
            self.hints = bounds;
            self.stride = Stride::None;
            self.guesses_left = 0;
        }
        None
    }

    /// Draws the conclusion from the load that was asked for and forgets it, unless more trials are
    /// needed there.
    fn learn(&mut self, book: &Book, goal: &Goal, bounds: Bounds) {
        let Some(asked) = self.asked else {
            return;
        };
        let class = classify(book.trials_at(asked.load_pps), goal);
        if class == Class::Undecided && bounds.contains(asked.load_pps) {
            return;
        }
        self.asked = None;
        let width = goal.log_width();
        self.stride = match (asked.reason, class, self.stride) {
            (Reason::Guess, Class::Lower, _) => Stride::Up(width),
            (Reason::Guess, Class::Upper, _) => Stride::Down(width),
            (Reason::Step, Class::Lower, Stride::Up(step)) => Stride::Up(2.0 * step),
            (Reason::Step, Class::Upper, Stride::Down(step)) => Stride::Down(2.0 * step),
            _ => Stride::None,
        };
    }

    fn choose(&mut self, book: &Book, goal: &Goal, bounds: Bounds, limits: Limits) -> Asked {
        if let Some(asked) = self.hinted(goal, bounds) {
            return asked;
        }
        match (bounds.lower, bounds.upper) {
            (None, None) => Asked::guess(limits.max_pps()),
            (Some(lower), None) => self.upwards(goal, lower, limits),
            (None, Some(upper)) => self.downwards(book, goal, upper, limits),
            (Some(lower), Some(upper)) => self.between(lower, upper),
        }
    }

    fn upwards(&mut self, goal: &Goal, lower: f64, limits: Limits) -> Asked {
        let step = match self.stride {
            Stride::Up(step) => step,
            _ => goal.log_width(),
        };
        self.stride = Stride::Up(step);
        let load = above(lower, step);
        // Less than a width below the limit the limit itself is as good.
        match goal.narrow(load, limits.max_pps()) {
            true => Asked::step(limits.max_pps()),
            false => Asked::step(load),
        }
    }

    fn downwards(&mut self, book: &Book, goal: &Goal, upper: f64, limits: Limits) -> Asked {
        let step = match self.stride {
            Stride::Down(step) => step,
            _ => goal.log_width(),
        };
        self.stride = Stride::Down(step);
        let mut asked = Asked::step(below(upper, step));
        if let Some(rate) = self.forwarded(book, goal, upper)
            && rate < asked.load_pps
        {
            asked = Asked::guess(rate);
        }
        if goal.narrow(limits.min_pps(), asked.load_pps) {
            asked.load_pps = limits.min_pps();
        }
        asked
    }

    /// The bounds of the stage before, confirmed or refuted first, the smaller load before the
    /// larger: so a bound found late spoils no bound found early.
    fn hinted(&self, goal: &Goal, bounds: Bounds) -> Option<Asked> {
        let known = |load: &f64| bounds.contains(*load);
        let (low, high) = (
            self.hints.lower.filter(known),
            self.hints.upper.filter(known),
        );
        if let (Some(low), Some(high)) = (low, high)
            && !goal.narrow(low, high)
        {
            // The middle takes the place of one of the two, so only the other is to be confirmed.
            return Some(Asked::halve(middle(low, high)));
        }
        low.or(high).map(Asked::guess)
    }

    /// The load at which everything that came through at `upper_pps` would be all there is.
    fn forwarded(&mut self, book: &Book, goal: &Goal, upper_pps: f64) -> Option<f64> {
        self.guesses_left = self.guesses_left.checked_sub(1)?;
        let trials = book.trials_at(upper_pps);
        let sum: f64 = trials.iter().map(|trial| trial.forwarding_pps()).sum();
        // The loss that the goal allows comes on top: everything beyond that rate is lost.
        let rate = sum / trials.len() as f64 / (1.0 - goal.parts().loss_ratio);
        Some(tidy(rate, f64::floor))
    }

    fn between(&self, lower: f64, upper: f64) -> Asked {
        let half = (upper / lower).ln() / 2.0;
        match self.stride {
            Stride::Up(step) if step < half => Asked::step(above(lower, step)),
            Stride::Down(step) if step < half => Asked::step(below(upper, step)),
            _ => Asked::halve(middle(lower, upper)),
        }
    }
}

impl Asked {
    fn guess(load_pps: f64) -> Self {
        Self {
            load_pps,
            reason: Reason::Guess,
        }
    }

    fn step(load_pps: f64) -> Self {
        Self {
            load_pps,
            reason: Reason::Step,
        }
    }

    fn halve(load_pps: f64) -> Self {
        Self {
            load_pps,
            reason: Reason::Halve,
        }
    }
}

/// Is there nothing left to find: bounds within the width, or a limit of the loads is the bound?
pub(super) fn settled(goal: &Goal, bounds: Bounds, limits: Limits) -> bool {
    match (bounds.lower, bounds.upper) {
        (Some(lower), Some(upper)) => goal.narrow(lower, upper),
        (Some(lower), None) => lower >= limits.max_pps(),
        (None, Some(upper)) => upper <= limits.min_pps(),
        (None, None) => false,
    }
}

fn middle(lower: f64, upper: f64) -> f64 {
    tidy(lower * (upper / lower).sqrt(), f64::floor)
}

fn above(lower: f64, step: f64) -> f64 {
    tidy(lower * step.exp(), f64::floor)
}

fn below(upper: f64, step: f64) -> f64 {
    tidy(upper * (-step).exp(), f64::ceil)
}

/// Ten significant digits: far finer than any width, and the number that is written into results is
/// read back exactly. Steps are rounded towards the bound they start at, so none exceeds its width.
fn tidy(load_pps: f64, round: fn(f64) -> f64) -> f64 {
    let decimals = (9.0 - load_pps.log10().floor()).clamp(0.0, 22.0);
    let scale = 10.0_f64.powi(decimals as i32);
    round(load_pps * scale) / scale
}

/// The goal and, before it, up to two coarser ones: trial time grows by a constant factor from the
/// initial trial to the duration sum, the distance of the bounds halves each time.
fn stages(goal: &Goal) -> Vec<Goal> {
    let parts = goal.parts();
    let growth = parts.duration_sum.as_secs_f64() / parts.initial_trial.as_secs_f64();
    let before: u8 = match growth {
        growth if growth <= 1.0 => 0,
        growth if growth <= 4.0 => 1,
        _ => 2,
    };
    let coarser = (1..=before).rev().map(|steps| {
        let share = growth.powf(-f64::from(steps) / f64::from(before));
        let duration_sum = parts.duration_sum.mul_f64(share).max(parts.initial_trial);
        let factor = f64::from(1_u8 << steps);
        Goal(GoalParts {
            final_trial: parts.final_trial.min(duration_sum),
            duration_sum,
            width: -(-goal.log_width() * factor).exp_m1(),
            ..*parts
        })
    });
    coarser.chain([*goal]).collect()
}

#[cfg(test)]
mod tests;
