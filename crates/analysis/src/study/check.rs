//! From the text of a study file to a study that can be run, or to every mistake in it with its place.
//!
//! ```text
//! text ──► tree (places) ──► shape (keys, kinds, words) ──► types ──► rules (what cannot be measured) ──► Study
//! ```

use super::tree::{self, Node, Place};
use super::{Study, rules, shape};
use crate::error::AnalysisError;
use std::collections::BTreeSet;
use std::fmt;

/// More are only counted: who sees so many has another file in hand.
const MOST_MISTAKES: usize = 50;

/// One mistake in a study file, or in what the command line makes of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, or the name of the study.
    pub file: String,
    /// Line and column, from 1; null where the command line is wrong, not the file.
    pub at: Option<(u64, u64)>,
    /// The key, such as `matrix.groups[0].bytes[2]`; empty: the file as a whole.
    pub key: String,
    /// What is wrong, with the value.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// `my.yaml:12:5: matrix.samples: … (…)`.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

/// Mistakes as text, one a line.
pub(crate) fn told(mistakes: &[Mistake]) -> String {
    let lines: Vec<_> = mistakes.iter().map(Mistake::to_string).collect();
    lines.join("\n")
}

/// A mistake before its file is known; without a place it is looked up by the key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) at: Option<Place>,
    pub(super) path: String,
    pub(super) message: String,
    pub(super) help: String,
}

impl Found {
    pub(super) fn at(at: Place, path: &str, message: String, help: String) -> Self {
        Self {
            at: Some(at),
            path: path.to_owned(),
            message,
            help,
        }
    }

    pub(super) fn of(
        path: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            at: None,
            path: path.into(),
            message: message.into(),
            help: help.into(),
        }
    }

    fn in_file(self, file: &str, root: &Node) -> Mistake {
        let at = self.at.unwrap_or_else(|| root.find(&self.path).at);
        Mistake {
            file: file.to_owned(),
            at: Some((at.line, at.column)),
            key: self.path,
            message: self.message,
            help: self.help,
        }
    }

    /// Of a study that the command line changed: what is wrong stands in no file.
    pub(super) fn of_command(self, study: &str) -> Mistake {
        Mistake {
            file: format!("{study} with the changes of the command line"),
            at: None,
            key: self.path,
            message: self.message,
            help: self.help,
        }
    }
}

/// Reads a study; `file` says which in errors.
pub(super) fn read(file: &str, text: &str) -> Result<Study, AnalysisError> {
    let refused = |error: &serde_saphyr::Error| AnalysisError::Mistakes {
        mistakes: vec![of_parser(file, error)],
    };
    let root = tree::read(text).map_err(|error| refused(&error))?;
    all_well(file, &root, shape::mistakes(&root))?;
    let study: Study = serde_saphyr::from_str(text).map_err(|error| refused(&error))?;
    all_well(file, &root, rules::broken(&study))?;
    Ok(study)
}

/// An error with all mistakes in the order of their places, if there are any.
fn all_well(file: &str, root: &Node, found: Vec<Found>) -> Result<(), AnalysisError> {
    if found.is_empty() {
        return Ok(());
    }
    let mistakes = found.into_iter().map(|found| found.in_file(file, root));
    let mut mistakes: Vec<_> = mistakes.collect();
    mistakes.sort_by_key(|mistake| mistake.at);
    // What an alias repeats is one mistake.
    let mut seen = BTreeSet::new();
    mistakes.retain(|mistake| seen.insert((mistake.at, mistake.message.clone())));
    let more = mistakes.len().saturating_sub(MOST_MISTAKES);
    if more > 0 {
        mistakes.truncate(MOST_MISTAKES);
        mistakes.push(Mistake {
            file: file.to_owned(),
            at: None,
            key: String::new(),
            message: format!("and {more} more mistakes"),
            help: String::new(),
        });
    }
    Err(AnalysisError::Mistakes { mistakes })
}

/// What the YAML reader says, without the place that it repeats.
fn of_parser(file: &str, error: &serde_saphyr::Error) -> Mistake {
    let error = error.without_snippet();
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.split(" at line ").next().unwrap_or(first);
    let at = error.location().map(|at| tree::place(&at));
    let help = match error {
        serde_saphyr::Error::DuplicateMappingKey { .. } => "remove one of them",
        serde_saphyr::Error::NonFiniteFloat { .. } => "write a number",
        serde_saphyr::Error::Eof { .. } => "docs/studies.md shows a small study",
        _ => "check indentation, brackets and quotes at this place and on the line before",
    };
    Mistake {
        file: file.to_owned(),
        at: at.map(|at| (at.line, at.column)),
        key: String::new(),
        message: message.to_owned(),
        help: help.to_owned(),
    }
}
