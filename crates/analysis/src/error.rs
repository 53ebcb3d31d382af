//! What can be wrong with a study, or with the record of a run.

use std::path::{Path, PathBuf};

/// An error of a study, a record or a result folder.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// No study of that name ships.
    #[error("there is no study `{name}` (known: {known})")]
    UnknownStudy {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No network, or no feature, has that name.
    #[error("there is no {what} `{name}` (known: {known})")]
    UnknownName {
        /// `network` or `feature`.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A study says something that cannot be run.
    #[error("{}", crate::study::told(mistakes))]
    Mistakes {
        /// Every mistake that was found, in the order of their places.
        mistakes: Vec<crate::study::Mistake>,
    },
    /// A study file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file or folder could not be used.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, for example `writing`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A result folder is there already.
    #[error("{} holds a result already; choose another folder, or go on with it: overlane lab resume {}", path.display(), path.display())]
    FolderTaken {
        /// The folder.
        path: PathBuf,
    },
    /// A folder holds no result.
    #[error("{} holds no result of the laboratory (no run.json)", path.display())]
    NoResult {
        /// The folder.
        path: PathBuf,
    },
    /// A result was written by another version.
    #[error("{} has the format `{found}`, this program reads `{}`", path.display(), crate::record::SCHEMA)]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// The format that it names.
        found: String,
    },
    /// A result has no figure that a chart could show.
    #[error("no cell of this result has a figure: there is nothing to draw")]
    NothingToDraw,
    /// A run has nothing left to do.
    #[error("{} is complete: there is nothing to go on with", path.display())]
    Complete {
        /// The folder.
        path: PathBuf,
    },
    /// Two results, or two networks, cannot be held against each other.
    #[error("cannot compare: {reason}")]
    NotComparable {
        /// Why, and what to give.
        reason: String,
    },
    /// JSON could not be written or read.
    #[error("{action} {}: {source}", path.display())]
    Json {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: serde_json::Error,
    },
}

impl AnalysisError {
    /// For `map_err` on file operations.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// For `map_err` on JSON of a file.
    pub fn json(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(serde_json::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Json {
            action,
            path,
            source,
        }
    }
}
