//! What a run tells those who watch it, while it goes on: the command line draws it, as a live view or as lines.

use overlane_analysis::record::{CellKey, Sample};
use std::time::Duration;

/// Somebody who watches a run.
pub trait Watch {
    /// Something happened. Called from the measuring thread: quick, and four times a second at most while a sample is taken.
    fn event(&mut self, event: Event<'_>);
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The run begins, or goes on.
    Begun {
        /// Title of the study.
        title: &'a str,
        /// The result folder.
        dir: &'a std::path::Path,
        /// All cells in the order of the plan.
        cells: &'a [CellKey],
        /// Samples to be taken.
        samples: u64,
        /// Those of them that a run which goes on has already.
        taken: u64,
        /// How long all of them are expected to take.
        expected: Duration,
    },
    /// Something worth a line: a backend that cannot run, a cell that failed.
    Note(&'a str),
    /// What is being done between samples: `building kernel-vxlan …`.
    Doing(&'a str),
    /// A sample begins.
    Sampling {
        /// The cell.
        cell: CellKey,
        /// The round, 0 is the warm-up.
        round: u32,
        /// Rounds that are planned.
        rounds: u32,
        /// Length of the sample.
        seconds: f64,
    },
    /// How the sample goes.
    Live(Live),
    /// A sample was taken.
    Sampled(&'a Sample),
    /// So many samples more are to be taken than were planned: a round again, or a rule that is not met.
    More(u64),
    /// So many samples more are done with: taken, or never to be.
    Advanced(u64),
    /// A round of a group is over.
    RoundDone {
        /// What its cells share, in words.
        group: &'a str,
        /// The round.
        round: u32,
        /// Rounds that are planned.
        rounds: u32,
    },
    /// The run ended; the report is being written.
    Ended,
}

/// Rates of the last quarter of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Live {
    /// Payload that reached the receivers.
    pub goodput_gbps: Option<f64>,
    /// Transactions.
    pub transactions_per_second: Option<f64>,
    /// Numbered packets that arrived.
    pub rate_pps: Option<f64>,
    /// Packets on the underlay.
    pub underlay_rate_pps: f64,
    /// Busy CPU of the sending host in per cent of one CPU.
    pub cpu_sender_percent: Option<f64>,
    /// Busy CPU of the receiving hosts.
    pub cpu_receiver_percent: Option<f64>,
    /// Since the sample began.
    pub elapsed_seconds: f64,
}
