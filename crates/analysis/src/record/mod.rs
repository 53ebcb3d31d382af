//! What a run of a study records: plain data, written once by the measurement and read by the
//! statistics, the result folder and the report.
//!
//! Everything that was not measured is `None`, never 0. Units stand last in the names.

mod backend;
mod cpu;
mod discard;
mod environment;
mod feature;
pub mod footing;
pub mod invariants;
mod key;
mod migration;
pub mod rounds;
mod sample;
mod sizes;
mod tuning;
mod warning;
mod workload;

pub use backend::{BackendName, Encapsulation};
pub(crate) use cpu::names_of;
pub use cpu::{
    Cpu, CpuPerGbps, CpuTime, CpuUse, FOREIGN_LIMIT_PERCENT, Foreign, Program, SampledTicks,
    TrialCpu,
};
pub use discard::Discard;
pub use environment::{Environment, Hop, NoiseProbe};
pub use feature::Feature;
pub use feature::Rules;
pub use footing::{Asymmetry, Cause};
pub use key::{CellKey, Family, FarEnd, GroupKey, GuestKind, MtuClass, Setting};
pub use migration::{Flow, Migration, Moved};
pub use sample::{Accounting, Bound, Interval, Latency, Memory, Sample, SearchRecord, TcpSummary};
pub use sizes::PathSizes;
pub use tuning::Tuning;
pub use warning::{Finding, Warning};
pub use workload::{Moving, Test, Workload};

use crate::error::AnalysisError;
use crate::study::Study;
use serde::{Deserialize, Serialize};

/// Version of the result folder's format; `Run::schema` holds it.
pub const SCHEMA: &str = "overlane-lab/3";

/// The one of `all` that is called `text`.
///
/// Errors: none is; the message has the names there are.
fn named<T: Copy>(
    what: &'static str,
    all: &[T],
    name: fn(T) -> &'static str,
    text: &str,
) -> Result<T, AnalysisError> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| AnalysisError::UnknownName {
        what,
        name: text.to_owned(),
        known: all
            .iter()
            .map(|one| name(*one))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum CellStatus {
    /// Its samples were taken.
    Ok,
    /// Its turn has not come, or had not when the run was broken off; samples that it has count.
    Open,
    /// This machine cannot run it.
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// It was tried and did not work.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// One cell of the matrix with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its dimensions.
    #[serde(flatten)]
    pub key: CellKey,
    /// How it ended.
    #[serde(flatten)]
    pub status: CellStatus,
    /// A capture on the underlay showed the packets encapsulated as declared.
    pub path_proof: bool,
    /// What the capture showed.
    pub proof_detail: String,
    /// What a reader of this cell has to know (settings that differ from the other backends).
    pub notes: Vec<String>,
    /// Where it stands on another footing than other networks may.
    #[serde(default)]
    pub asymmetries: Vec<Asymmetry>,
    /// The MTUs of its path and what headers took of them, as they were read and captured; null without an underlay,
    /// and in older records.
    #[serde(default)]
    pub path_sizes: Option<PathSizes>,
    /// Every sample, the discarded ones among them, in the order of time. In the result folder they stand in
    /// `samples.ndjson`, not in `run.json`.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl Cell {
    /// A cell that was not measured, for `status`.
    pub fn empty(key: CellKey, status: CellStatus) -> Self {
        let (proof_detail, notes, samples) = (String::new(), Vec::new(), Vec::new());
        Self {
            key,
            status,
            path_proof: false,
            proof_detail,
            notes,
            asymmetries: Vec::new(),
            path_sizes: None,
            samples,
        }
    }

    /// The samples that count.
    pub fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(|sample| sample.discarded.is_none())
    }
}

/// What the traffic tool reaches without a network: one cable between the guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// What was sent, and the place around it.
    #[serde(flatten)]
    pub group: GroupKey,
    /// Goodput in Gbit/s, transactions or packets per second, by the test.
    pub value: f64,
}

/// What the machine did while networks were up and carried nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// What the networks share ([`Setting::place`]).
    pub place: Setting,
    /// How many were up.
    pub networks: usize,
    /// CPU in that time.
    pub cpu: Cpu,
    /// CPU of programs that are not the laboratory's.
    pub foreign: Foreign,
    /// Used memory of the machine.
    pub memory_mib: f64,
}

/// A whole run: the content of `run.json`, with the samples of `samples.ndjson`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// The study with its published figures, after what the command line changed in it.
    pub study: Study,
    /// The quick matrix was measured, not the whole one.
    pub quick: bool,
    /// The run has not come to its end: it was broken off, or goes on still.
    pub interrupted: bool,
    /// The machine.
    pub env: Environment,
    /// What the traffic tool reaches alone.
    pub references: Vec<Reference>,
    /// What the machine did without traffic, place by place.
    #[serde(default)]
    pub idle: Vec<Idle>,
    /// One entry per cell of the matrix, in the order of the plan.
    pub cells: Vec<Cell>,
    /// Start, in ms since 1970 (UTC).
    pub started_unix_ms: u64,
    /// End, in ms since 1970 (UTC).
    pub finished_unix_ms: u64,
    /// What a reader has to know before believing the figures.
    pub warnings: Vec<Warning>,
}

impl Run {
    /// The matrix that is measured.
    pub fn matrix(&self) -> &crate::study::Matrix {
        if self.quick {
            &self.study.quick
        } else {
            &self.study.matrix
        }
    }
}
