//! How an agent keeps its host, as it tells it. Times are seconds since the Epoch, by the clock at the time of the answer.

use serde::{Deserialize, Serialize};

use crate::report::Object;

/// All that an agent knows which nobody else does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// It keeps the host since then.
    pub since: u64,
    /// What it follows: a file or a folder; none: what somebody applies.
    pub source: Option<String>,
    /// The last desired state that it was given.
    pub attempted: Generation,
    /// The one that the host carries; none: it could not apply any yet.
    pub applied: Option<Generation>,
    /// The source has mistakes, or cannot be read.
    pub mistakes: Option<Trouble>,
    /// The last try to apply failed as a whole.
    pub failed: Option<Trouble>,
    /// The desired state could not be written to the disk.
    pub not_kept: Option<Trouble>,
    /// What waits for a person.
    pub held: Option<Held>,
    /// Objects that could not be applied.
    pub failing: Vec<Failed>,
    /// Since when each thing differs.
    pub seen: Vec<Seen>,
    /// What it mended lately, the newest last.
    pub mended: Vec<Mended>,
}

/// A desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// It grows by one with each.
    pub number: u64,
    /// When it came, or was reached.
    pub since: u64,
}

/// Something that does not work as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// In words; mistakes of a file with their lines.
    pub error: String,
    /// What helps.
    pub help: Option<String>,
    /// Since when.
    pub since: u64,
}

/// A change that takes away much, and waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// So many ports would go.
    pub ports: usize,
    /// Of so many.
    pub of: usize,
    /// Why nobody may have meant it.
    pub why: String,
    /// Since when.
    pub since: u64,
}

/// An object that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// What it is.
    pub object: Object,
    /// Its name.
    pub name: String,
    /// Why not.
    pub reason: String,
    /// How often it was tried.
    pub tries: u32,
    /// Since when.
    pub since: u64,
    /// Seconds until the next try.
    pub again_in_s: u64,
}

/// A row of `status`, and since when it is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Which row.
    pub key: String,
    /// Since when.
    pub since: u64,
}

/// Something that differed, and does no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mended {
    /// When.
    pub at: u64,
    /// What was done, a sentence each.
    pub lines: Vec<String>,
}
