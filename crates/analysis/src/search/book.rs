//! The trials so far, by load, and the bounds that they make for a goal.
//!
//! Filled by [`super::search()`], asked by the choice of loads in `select`.

use super::classify::{Class, classify};
use super::goal::Goal;
use super::trial::Trial;

/// The loads tried, in ascending order, each with its trials.
#[derive(Debug, Default)]
pub(super) struct Book {
    loads: Vec<(f64, Vec<Trial>)>,
}

impl Book {
    /// Enters a trial.
    pub(super) fn add(&mut self, trial: Trial) {
        let load = trial.load_pps;
        match self.loads.binary_search_by(|(at, _)| at.total_cmp(&load)) {
            Ok(found) => {
                if let Some((_, trials)) = self.loads.get_mut(found) {
                    trials.push(trial);
                }
            }
            Err(place) => self.loads.insert(place, (load, vec![trial])),
        }
    }

    /// All trials at exactly this load.
    pub(super) fn trials_at(&self, load_pps: f64) -> &[Trial] {
        self.loads
            .binary_search_by(|(at, _)| at.total_cmp(&load_pps))
            .ok()
            .and_then(|found| self.loads.get(found))
            .map_or(&[], |(_, trials)| trials)
    }

    /// The relevant bounds (RFC 9971): the smallest upper bound, and the largest lower bound below
    /// it. A lower bound above an upper bound is a stroke of luck and does not count.
    pub(super) fn bounds(&self, goal: &Goal) -> Bounds {
        let mut bounds = Bounds::default();
        for (load, trials) in &self.loads {
            match classify(trials, goal) {
                Class::Lower => bounds.lower = Some(*load),
                Class::Upper => {
                    bounds.upper = Some(*load);
                    break;
                }
                Class::Undecided => {}
            }
        }
        bounds
    }
}

/// The relevant bounds of one goal, as far as they exist.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bounds {
    /// Largest load that passes.
    pub(super) lower: Option<f64>,
    /// Smallest load that fails.
    pub(super) upper: Option<f64>,
}

impl Bounds {
    /// Could a trial at this load move a bound?
    pub(super) fn contains(&self, load_pps: f64) -> bool {
        self.lower.is_none_or(|lower| load_pps > lower)
            && self.upper.is_none_or(|upper| load_pps < upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Preset;
    use std::time::Duration;

    fn trial(load_pps: f64, received: u64) -> Trial {
        Trial {
            load_pps,
            duration: Duration::from_secs(60),
            intended: 100,
            sent: 100,
            received,
        }
    }

    #[test]
    fn luck_above_an_upper_bound_does_not_count() {
        let goal = Preset::Rfc2544.goals()[0];
        let mut book = Book::default();
        assert_eq!(book.bounds(&goal), Bounds::default());
        for (load, received) in [(30.0, 100), (40.0, 99), (10.0, 100), (20.0, 99)] {
            book.add(trial(load, received));
        }
        let bounds = book.bounds(&goal);
        assert_eq!((bounds.lower, bounds.upper), (Some(10.0), Some(20.0)));
        assert!(bounds.contains(15.0) && !bounds.contains(20.0) && !bounds.contains(30.0));
    }

    #[test]
    fn trials_of_one_load_stand_together() {
        let mut book = Book::default();
        for load in [3.0, 1.0, 2.0, 1.0] {
            book.add(trial(load, 100));
        }
        assert_eq!(book.trials_at(1.0).len(), 2);
        assert_eq!(book.trials_at(1.5), &[]);
    }
}
