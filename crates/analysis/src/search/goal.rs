//! What is searched for: a checked [`Goal`] and the [`Limits`] of the loads.
//!
//! Terms of RFC 9971: final trial duration, duration sum, loss ratio, exceed ratio, width, initial
//! trial duration. Ready-made goals are in [`super::Preset`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

const SHORTEST_TRIAL: Duration = Duration::from_millis(1);
const LONGEST_SUM: Duration = Duration::from_secs(86_400);
const SMALLEST_WIDTH: f64 = 0.0001;
const LARGEST_RATIO: f64 = 0.999;
const LARGEST_LOAD_PPS: f64 = 1e12;

/// Why a goal or limits cannot be searched with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// A duration is out of range or the three are out of order.
    #[error(
        "goal: trials of {initial_trial:?} to {final_trial:?} with a duration sum of {duration_sum:?} \
         do not fit together; give 1 ms <= initial trial <= final trial <= duration sum <= 1 day"
    )]
    Durations {
        /// Shortest trial.
        initial_trial: Duration,
        /// Full-length trial.
        final_trial: Duration,
        /// Trial time that decides a load.
        duration_sum: Duration,
    },
    /// A ratio is out of range.
    #[error(
        "goal: {name} {value} is out of range; give a share from {least} to {most}, 0.005 for 0.5 %"
    )]
    Ratio {
        /// Which field.
        name: &'static str,
        /// What was given.
        value: f64,
        /// Smallest value that is accepted.
        least: f64,
        /// Largest value that is accepted.
        most: f64,
    },
    /// The loads are out of range or out of order.
    #[error(
        "limits: {min_pps} to {max_pps} frames per second is not a range of loads; \
         give 0 < min <= max <= 1e12"
    )]
    Limits {
        /// Smallest load.
        min_pps: f64,
        /// Largest load.
        max_pps: f64,
    },
    /// No preset has this name.
    #[error("search preset \"{0}\" is unknown; give rfc2544, tst009, quick or brief")]
    UnknownPreset(String),
}

/// A search goal whose parts fit together (RFC 9971, "Search Goal").
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Goal(pub(super) GoalParts);

/// The parts of a goal before they are checked, and to read them one by one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoalParts {
    /// Shortest trial that may be used to narrow the search down; results of such trials count less.
    pub initial_trial: Duration,
    /// Length from which a trial is full-length.
    pub final_trial: Duration,
    /// Full-length trial time after which a load is decided for certain.
    pub duration_sum: Duration,
    /// Largest loss ratio of a good trial, from 0 (not one frame lost).
    pub loss_ratio: f64,
    /// Share of trial time that may be bad while the load still passes.
    pub exceed_ratio: f64,
    /// Largest distance of the bounds, (upper − lower) / upper.
    pub width: f64,
}

impl Goal {
    /// The goal, if durations and ratios are in range and in order.
    pub fn new(parts: GoalParts) -> Result<Self, SearchError> {
        let GoalParts {
            initial_trial,
            final_trial,
            duration_sum,
            ..
        } = parts;
        if initial_trial < SHORTEST_TRIAL
            || final_trial < initial_trial
            || duration_sum < final_trial
            || duration_sum > LONGEST_SUM
        {
            return Err(SearchError::Durations {
                initial_trial,
                final_trial,
                duration_sum,
            });
        }
        ratio("loss ratio", parts.loss_ratio, 0.0)?;
        ratio("exceed ratio", parts.exceed_ratio, 0.0)?;
        ratio("width", parts.width, SMALLEST_WIDTH)?;
        Ok(Self(parts))
    }

    /// The parts of the goal.
    pub fn parts(&self) -> &GoalParts {
        &self.0
    }

    /// Are these two bounds close enough?
    pub fn narrow(&self, lower_pps: f64, upper_pps: f64) -> bool {
        (upper_pps / lower_pps).ln() <= self.log_width() * (1.0 + 1e-9)
    }

    /// The width as a distance of logarithms, in which loads are compared and halved.
    pub(super) fn log_width(&self) -> f64 {
        -(-self.0.width).ln_1p()
    }
}

fn ratio(name: &'static str, value: f64, least: f64) -> Result<(), SearchError> {
    if (least..=LARGEST_RATIO).contains(&value) {
        return Ok(());
    }
    Err(SearchError::Ratio {
        name,
        value,
        least,
        most: LARGEST_RATIO,
    })
}

/// The loads that may be tried (RFC 9971, "Min Load" and "Max Load").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    min_pps: f64,
    max_pps: f64,
}

impl Limits {
    /// The limits, if they are positive, finite and in order.
    ///
    /// `max_pps` should be what the generator alone reaches, or what the study declares.
    pub fn new(min_pps: f64, max_pps: f64) -> Result<Self, SearchError> {
        if min_pps > 0.0 && min_pps <= max_pps && max_pps <= LARGEST_LOAD_PPS {
            return Ok(Self { min_pps, max_pps });
        }
        Err(SearchError::Limits { min_pps, max_pps })
    }

    /// Smallest load.
    pub fn min_pps(&self) -> f64 {
        self.min_pps
    }

    /// Largest load.
    pub fn max_pps(&self) -> f64 {
        self.max_pps
    }

    /// The same limits with a smallest load that sends one frame in a trial of this length.
    pub(super) fn with_a_frame_in(self, shortest: Duration) -> Self {
        let one_frame_pps = 1.0 / shortest.as_secs_f64();
        Self {
            min_pps: self.min_pps.max(one_frame_pps).min(self.max_pps),
            ..self
        }
    }
}

/// How a goal is written in results: whole nanoseconds, units in the names.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Goal", deny_unknown_fields)]
struct Written {
    initial_trial_ns: u64,
    final_trial_ns: u64,
    duration_sum_ns: u64,
    loss_ratio: f64,
    exceed_ratio: f64,
    width: f64,
}

impl TryFrom<Written> for Goal {
    type Error = SearchError;

    fn try_from(written: Written) -> Result<Self, SearchError> {
        Self::new(GoalParts {
            initial_trial: Duration::from_nanos(written.initial_trial_ns),
            final_trial: Duration::from_nanos(written.final_trial_ns),
            duration_sum: Duration::from_nanos(written.duration_sum_ns),
            loss_ratio: written.loss_ratio,
            exceed_ratio: written.exceed_ratio,
            width: written.width,
        })
    }
}

impl From<Goal> for Written {
    fn from(Goal(parts): Goal) -> Self {
        // A day of nanoseconds fits in 47 bits.
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            initial_trial_ns: ns(parts.initial_trial),
            final_trial_ns: ns(parts.final_trial),
            duration_sum_ns: ns(parts.duration_sum),
            loss_ratio: parts.loss_ratio,
            exceed_ratio: parts.exceed_ratio,
            width: parts.width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: GoalParts = GoalParts {
        initial_trial: Duration::from_secs(1),
        final_trial: Duration::from_secs(60),
        duration_sum: Duration::from_secs(120),
        loss_ratio: 0.005,
        exceed_ratio: 0.5,
        width: 0.005,
    };

    fn refused(change: impl FnOnce(&mut GoalParts)) -> String {
        let mut parts = GOOD;
        change(&mut parts);
        Goal::new(parts).unwrap_err().to_string()
    }

    #[test]
    fn parts_that_do_not_fit_are_refused_by_name() {
        assert!(Goal::new(GOOD).is_ok());
        assert!(refused(|p| p.initial_trial = Duration::ZERO).contains("initial trial"));
        assert!(refused(|p| p.initial_trial = Duration::from_secs(61)).contains("initial trial"));
        assert!(refused(|p| p.duration_sum = Duration::from_secs(59)).contains("duration sum"));
        assert!(refused(|p| p.duration_sum = Duration::MAX).contains("1 day"));
        assert!(refused(|p| p.loss_ratio = -0.1).contains("loss ratio"));
        assert!(refused(|p| p.loss_ratio = f64::NAN).contains("loss ratio"));
        assert!(refused(|p| p.exceed_ratio = 1.0).contains("exceed ratio"));
        assert!(refused(|p| p.width = 0.0).contains("width"));
    }

    #[test]
    fn limits_in_order() {
        assert!(Limits::new(1.0, 1.0).is_ok());
        for (min, max) in [
            (0.0, 1.0),
            (2.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            assert!(Limits::new(min, max).is_err(), "{min} {max}");
        }
    }

    #[test]
    fn smallest_load_sends_a_frame() {
        let limits = Limits::new(0.1, 100.0).unwrap();
        let fitted = limits.with_a_frame_in(Duration::from_millis(500));
        assert_eq!((fitted.min_pps(), fitted.max_pps()), (2.0, 100.0));
        let fitted = limits.with_a_frame_in(Duration::from_millis(1));
        assert_eq!((fitted.min_pps(), fitted.max_pps()), (100.0, 100.0));
    }

    #[test]
    fn written_and_read_back() {
        let goal = Goal::new(GOOD).unwrap();
        let text = serde_json::to_string(&goal).unwrap();
        assert!(text.contains("\"final_trial_ns\":60000000000"), "{text}");
        assert_eq!(serde_json::from_str::<Goal>(&text).unwrap(), goal);
        let bad = text.replace("60000000000", "1");
        assert!(serde_json::from_str::<Goal>(&bad).is_err());
    }

    #[test]
    fn width_is_relative_to_the_upper_bound() {
        let goal = Goal::new(GOOD).unwrap();
        assert!(goal.narrow(995.0, 1000.0));
        assert!(!goal.narrow(994.9, 1000.0));
    }
}
