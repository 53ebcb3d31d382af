//! Why a sample was taken and does not count.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason; [`fmt::Display`] is its sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Discard {
    /// The first of a cell.
    WarmUp,
    /// Other programs ran beside its round, which was taken again.
    OtherPrograms {
        /// Beside it, or beside another sample of the round.
        words: String,
    },
    /// It breaks a rule that every sample keeps.
    Broken {
        /// The rule.
        rule: String,
    },
    /// The run was broken off in its round.
    BrokenOff,
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp => f.write_str("warm-up"),
            Self::OtherPrograms { words } => f.write_str(words),
            Self::Broken { rule } => f.write_str(rule),
            Self::BrokenOff => f.write_str("the run was broken off in this round"),
        }
    }
}
