//! How the networks of a comparison are set: the axis `tuning` of a study.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a network is set.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Tuning {
    /// Like for like: whatever can be set is set the same for all networks.
    #[default]
    Alike,
    /// Its own best: what makes this network fastest on such a wire, whatever the others have.
    Best,
}

impl Tuning {
    /// What it is, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Alike => "like for like",
            Self::Best => "its own best",
        }
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl FromStr for Tuning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "alike" => Ok(Self::Alike),
            "best" => Ok(Self::Best),
            _ => Err("it is alike (like for like) or best (each network's own best)".to_owned()),
        }
    }
}
