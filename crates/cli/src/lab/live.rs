//! The live view of a run on a terminal: what is measured now, how it goes, what came out so far.
//! Drawn by a thread of its own four times a second, from what the measuring thread leaves here.

mod moving;
mod screen;

use std::collections::VecDeque;
use std::io::{self, Stderr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overlane_analysis::record::{CellKey, Test};
use overlane_lab::watch::{Event, Live, Watch};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event as Key, KeyCode, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::shown;

/// Between two drawings.
const FRAME: Duration = Duration::from_millis(250);
/// Values of the curve at the bottom.
const HISTORY: usize = 240;
/// Notes that are kept.
const NOTES: usize = 6;

/// What the screen shows.
#[derive(Debug, Default)]
struct State {
    title: String,
    dir: PathBuf,
    began: Option<Instant>,
    expected: Duration,
    samples: u64,
    done: u64,
    /// Samples that were there before this run began.
    known: u64,
    doing: String,
    sampling: Option<Sampling>,
    /// None until the first reading of a sample.
    live: Option<Live>,
    history: VecDeque<f64>,
    notes: VecDeque<String>,
    /// Each cell of the current test with its figures; the one that came last stands last.
    results: Vec<Outcome>,
    test: Option<Test>,
    stopping: bool,
    ended: bool,
}

/// What a cell came to so far.
#[derive(Debug)]
struct Outcome {
    cell: CellKey,
    values: Vec<f64>,
    /// The last of them, with its unit.
    last: String,
}

/// The sample that is being taken.
#[derive(Debug, Clone)]
struct Sampling {
    cell: CellKey,
    round: u32,
    rounds: u32,
    seconds: f64,
}

impl State {
    fn note(&mut self, text: &str) {
        self.notes.push_back(text.to_owned());
        if self.notes.len() > NOTES {
            self.notes.pop_front();
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Begun {
                title,
                dir,
                samples,
                taken,
                expected,
                ..
            } => {
                title.clone_into(&mut self.title);
                dir.clone_into(&mut self.dir);
                (self.samples, self.known, self.done) = (samples, taken, taken);
                (self.expected, self.began) = (expected, Some(Instant::now()));
            }
            Event::Note(text) => self.note(text),
            Event::Doing(text) => {
                text.clone_into(&mut self.doing);
                self.sampling = None;
            }
            Event::Sampling {
                cell,
                round,
                rounds,
                seconds,
            } => self.begin(Sampling {
                cell,
                round,
                rounds,
                seconds,
            }),
            Event::Live(live) => {
                let figure = live.transactions_per_second.or(live.rate_pps);
                self.remember(figure.or(live.goodput_gbps).unwrap_or(0.0));
                self.live = Some(live);
            }
            Event::Sampled(sample) => {
                if let Some((value, text)) = shown::figure(sample)
                    && sample.discarded.is_none()
                {
                    if shown::is_time(sample.cell.group.workload.test) {
                        // Nothing is seen of a machine on its way: the curve is of whole samples.
                        self.remember(value);
                    }
                    let known = self.results.iter().position(|one| one.cell == sample.cell);
                    let mut values =
                        known.map_or_else(Vec::new, |at| self.results.remove(at).values);
                    values.push(value);
                    self.results.push(Outcome {
                        cell: sample.cell,
                        values,
                        last: text,
                    });
                }
            }
            Event::More(count) => self.samples += count,
            Event::Advanced(count) => self.done += count,
            Event::RoundDone { .. } => {}
            Event::Ended => self.ended = true,
        }
    }

    fn remember(&mut self, value: f64) {
        self.history.push_back(value);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn begin(&mut self, sampling: Sampling) {
        let test = Some(sampling.cell.group.workload.test);
        if test != self.test {
            // Another quantity: neither the curve nor the table goes on.
            self.test = test;
            self.results.clear();
            self.history.clear();
        }
        self.live = None;
        self.sampling = Some(sampling);
    }

    /// How long the rest takes: by the plan, corrected by how it went so far.
    fn left(&self) -> Duration {
        let measured = self.done.saturating_sub(self.known);
        let rest = self.samples.saturating_sub(self.done);
        match self.began {
            Some(began) if measured >= 5 => {
                let each = began.elapsed().as_secs_f64() / measured as f64;
                Duration::from_secs_f64(each * rest as f64)
            }
            _ => self
                .expected
                .mul_f64(rest as f64 / self.samples.max(1) as f64),
        }
    }
}

/// The view: a thread that draws, until dropped.
pub(super) struct LiveView {
    state: Arc<Mutex<State>>,
    colour: bool,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl LiveView {
    pub(super) fn new(colour: bool) -> Self {
        Self {
            state: Arc::default(),
            colour,
            thread: None,
        }
    }
}

impl Watch for LiveView {
    fn event(&mut self, event: Event<'_>) {
        // The thread begins with the run, not before: it has to inherit the signals that the run takes over.
        let begins = matches!(event, Event::Begun { .. });
        lock(&self.state).take(event);
        if begins && self.thread.is_none() {
            let (state, colour) = (Arc::clone(&self.state), self.colour);
            self.thread = Some(std::thread::spawn(move || draw_until_end(&state, colour)));
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        lock(&self.state).ended = true;
        if let Some(thread) = self.thread.take() {
            // A terminal that went away is no reason to fail: the run is what counts.
            let _ = thread.join();
        }
        for note in &lock(&self.state).notes {
            eprintln!("lab: {}", overlane_model::escaped(note));
        }
    }
}

/// A drawing thread that panicked leaves a state that is good enough to go on with.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw_until_end(state: &Mutex<State>, colour: bool) -> io::Result<()> {
    let mut terminal = Screen::enter()?;
    while !lock(state).ended {
        terminal
            .0
            .draw(|frame| screen::draw(&lock(state), colour, frame))?;
        let until = Instant::now() + FRAME;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if event::poll(left)? && wants_to_stop(&event::read()?) {
                stop(&mut lock(state));
            }
        }
    }
    Ok(())
}

fn wants_to_stop(event: &Key) -> bool {
    let Key::Key(key) = event else { return false };
    matches!(
        (key.code, key.modifiers),
        (KeyCode::Char('c'), KeyModifiers::CONTROL) | (KeyCode::Char('q'), _)
    )
}

/// As if the terminal had sent ^C, which it does not in raw mode.
fn stop(state: &mut State) {
    state.stopping = true;
    // Cannot fail: the process and the signal exist.
    let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::Signal::SIGINT);
}

/// The terminal while the view is on it; leaves it as it was.
struct Screen(Terminal<CrosstermBackend<Stderr>>);

impl Screen {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let entered = execute!(io::stderr(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
        entered.map(Self).inspect_err(|_| {
            let _ = disable_raw_mode();
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Both fail only when the terminal is gone.
        let _ = execute!(io::stderr(), LeaveAlternateScreen);
        let _ = self.0.show_cursor();
        let _ = disable_raw_mode();
    }
}
