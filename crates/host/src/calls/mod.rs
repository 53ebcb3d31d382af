//! What the agent of a host and the command line say to each other: a line of JSON each way, over a Unix socket.
//!
//! ```text
//!   {"version":1,"call":"status"}  ──►  {"version":1,"status":{…}}
//!   {"version":1,"call":"apply","file":"/etc/overlane/fabric.yaml","netns":null,"dry_run":false,"strict":false}
//!                                  ──►  {"version":1,"applied":{…}} or {"version":1,"refused":{"error":…,"help":…,"code":1}}
//! ```

mod client;
mod rows;
mod view;

pub use client::{ask, is_kept};
pub(crate) use rows::rows;
pub use view::{Failed, Generation, Held, Mended, Seen, Trouble, View};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Of the lines. Another one is refused.
pub const VERSION: u32 = 1;
/// The longest line that is read: a fabric has much to say about itself.
pub(crate) const LONGEST: u64 = 64 << 20;

/// What may be asked of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// How the host is kept.
    Status,
    /// Read the source again and apply it, now.
    Apply {
        /// The fabric file that is meant; none: the agent's.
        file: Option<PathBuf>,
        /// The network namespace that is meant; none: the agent's.
        netns: Option<String>,
        /// Only tell what would change.
        dry_run: bool,
        /// Refuse where a device is missing.
        strict: bool,
    },
    /// Do what is held.
    Accept,
}

/// A call as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) version: u32,
    #[serde(flatten)]
    pub(crate) call: Call,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Call::Status`].
    Status(Box<View>),
    /// To [`Call::Apply`] and [`Call::Accept`].
    Applied(Applied),
    /// It was not done.
    Refused(Refused),
}

/// An answer as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) version: u32,
    #[serde(flatten)]
    pub(crate) answer: Answer,
}

/// What an agent did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// As `apply --json` prints it.
    pub report: serde_json::Value,
    /// For people: what changed.
    pub lines: Vec<String>,
    /// For people: what deserves a look.
    pub notes: Vec<String>,
    /// So many things could not be applied, and are tried again.
    pub failed: usize,
}

/// Why an agent did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// In words.
    pub error: String,
    /// What helps.
    pub help: Option<String>,
    /// For the exit code: 1 it failed, 2 the call or the file makes no sense.
    pub code: u8,
}
