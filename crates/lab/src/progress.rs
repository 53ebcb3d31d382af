//! How far a run is, on standard error: a bar with the time that is left on a terminal, a line per
//! group and round otherwise.

use crate::api::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(crate) struct Shown {
    bar: Option<ProgressBar>,
    lines: bool,
    began: Instant,
    done: u64,
    steps: u64,
}

impl Shown {
    /// `steps` is the number of samples, `expected` what they are expected to take.
    pub(crate) fn new(mode: Progress, steps: u64, expected: Duration) -> Self {
        let terminal = mode == Progress::Auto && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
            let template = "{bar:30} {pos}/{len} samples · {elapsed} · {eta} left · {msg}";
            bar.set_style(
                ProgressStyle::with_template(template)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let lines = mode != Progress::Off && !terminal;
        let shown = Self {
            bar,
            lines,
            began: Instant::now(),
            done: 0,
            steps,
        };
        shown.note(&format!("{steps} samples, about {}", minutes(expected)));
        shown
    }

    /// Something worth a line.
    pub(crate) fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.println(format!("lab: {text}"));
        } else if self.lines {
            eprintln!("lab: {text}");
        }
    }

    /// What is being done.
    pub(crate) fn doing(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// `count` samples are taken, or never will be.
    pub(crate) fn advance(&mut self, count: u64) {
        self.done += count;
        if let Some(bar) = &self.bar {
            bar.inc(count);
        }
    }

    /// A round is over: without a terminal, the place for a line.
    pub(crate) fn round(&self, group: &str, round: u32, of: u32) {
        if self.lines {
            let left = self.began.elapsed().as_secs_f64() / self.done.max(1) as f64
                * self.steps.saturating_sub(self.done) as f64;
            let left = minutes(Duration::from_secs_f64(left));
            eprintln!(
                "lab: {group}: round {round} of {of} done, {}/{} samples, {left} left",
                self.done, self.steps
            );
        }
    }

    /// Clears the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.finish();
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}
