//! A run as plain lines on standard error: for logs, pipes and `--no-tty`.

use std::time::{Duration, Instant};

use overlane_lab::watch::{Event, Watch};
use overlane_model::escaped;

use super::shown::minutes;

/// Writes a line for what is worth one: the beginning, notes, and each round of a group.
pub(super) struct Lines {
    began: Instant,
    done: u64,
    /// Samples that a resumed run has already.
    known: u64,
    samples: u64,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            done: 0,
            known: 0,
            samples: 0,
        }
    }

    /// How long the rest takes, by what was done so far took.
    fn left(&self) -> Duration {
        let measured = self.done.saturating_sub(self.known);
        if measured == 0 {
            return Duration::ZERO;
        }
        let each = self.began.elapsed().as_secs_f64() / measured as f64;
        Duration::from_secs_f64(each * self.samples.saturating_sub(self.done) as f64)
    }
}

impl Watch for Lines {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begun {
                dir,
                samples,
                taken,
                expected,
                ..
            } => {
                (self.began, self.samples) = (Instant::now(), samples);
                (self.known, self.done) = (taken, taken);
                eprintln!(
                    "lab: {samples} samples, about {}; result: {}",
                    minutes(expected),
                    dir.display()
                );
                if taken > 0 {
                    eprintln!("lab: {taken} of them are there already");
                }
            }
            Event::Note(text) => eprintln!("lab: {}", escaped(text)),
            Event::More(count) => self.samples += count,
            Event::Advanced(count) => self.done += count,
            Event::RoundDone {
                group,
                round,
                rounds,
            } => eprintln!(
                "lab: {group}: round {round} of {rounds} done, {}/{} samples, {} left",
                self.done,
                self.samples,
                minutes(self.left())
            ),
            Event::Doing(_)
            | Event::Sampling { .. }
            | Event::Live(_)
            | Event::Sampled(_)
            | Event::Ended => {}
        }
    }
}
