//! What is wrong with a fabric file: one [`Diagnostic`] per mistake, all of them gathered before
//! anything is shown. [`render`](crate::render) draws them.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::render::{Paint, Report, escaped};

/// How bad a mistake is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// It cannot work: there is no fabric.
    Error,
    /// It may work, but hardly as it was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One mistake in a fabric file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Which part of the fabric it is in, from 0: [`Report::part`](crate::Report::part) names it.
    pub part: u16,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// How many characters of the line it is about, at least 1.
    pub length: u32,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
    /// Another place that it has to do with, mostly an earlier one.
    pub related: Option<Related>,
}

/// Another place that a mistake has to do with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Related {
    /// Which part of the fabric it is in, from 0.
    pub part: u16,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What stands there.
    pub message: String,
}

/// Why there is no fabric.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FabricErrors {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is too large to be a fabric file.
    #[error("{} is larger than {limit} bytes: not a fabric file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// The file was read, and its mistakes are these.
    #[error("{}", .0.render(false))]
    Invalid(Box<Report>),
}

impl FabricErrors {
    /// The mistakes of the file; none if it could not be read.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Invalid(report) => Some(report),
            Self::Read { .. } | Self::TooLarge { .. } => None,
        }
    }

    /// Its errors and warnings, in the order of their place.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        self.report().map_or(&[], |report| &report.diagnostics)
    }

    /// The whole text for a terminal: begins with `error:`, ends without a line break.
    pub fn render(&self, colour: bool) -> String {
        match self {
            Self::Invalid(report) => report.render(colour),
            other => {
                let paint = Paint(colour);
                let text = other.to_string();
                // One line: a line feed is one of a file's name.
                let text = escaped(&text).replace('\n', "\\u{a}");
                format!("{}: {text}", paint.label(Severity::Error))
            }
        }
    }
}

/// A place in the file, drawn as one underlined stretch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span {
    /// Which part of the fabric, from 0: a file is its only one.
    pub(crate) part: u16,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

impl Span {
    /// The beginning of the file.
    pub(crate) const START: Self = Self {
        part: 0,
        line: 1,
        column: 1,
        length: 1,
    };

    const fn related(self, message: String) -> Related {
        Related {
            part: self.part,
            line: self.line,
            column: self.column,
            message,
        }
    }
}

/// Gathers mistakes.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// How many words were compared with wrong ones.
    compared: Cell<usize>,
    pub(crate) errors: Kept,
    pub(crate) warnings: Kept,
}

/// Mistakes of one severity: the first [`Sink::KEPT`]. The rest is counted, so that a hostile file costs no more
/// than its size.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) list: Vec<Diagnostic>,
    /// Mistakes that were only counted.
    pub(crate) omitted: usize,
}

impl Sink {
    pub(crate) const KEPT: usize = 1000;
    /// Searching a near name costs as much as there are names: the mistakes of one file share so many comparisons.
    const COMPARED: usize = 100_000;

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.list.is_empty()
    }

    pub(crate) fn report(&mut self, at: Span, message: String, help: Option<String>) {
        self.push(Severity::Error, at, message, help, None);
    }

    pub(crate) fn error(&mut self, at: Span, message: String, help: &str) {
        self.report(at, message, Some(help.to_owned()));
    }

    /// What may work, but hardly as it was meant; perhaps with another place that has to do with it.
    pub(crate) fn warn(
        &mut self,
        at: Span,
        message: String,
        help: &str,
        related: Option<(Span, String)>,
    ) {
        let related = related.map(|(place, said)| place.related(said));
        let help = Some(help.to_owned());
        self.push(Severity::Warning, at, message, help, related);
    }

    /// A mistake that lies in two places: the wrong one, and what stands at the other.
    pub(crate) fn conflict(
        &mut self,
        at: Span,
        message: String,
        help: &str,
        first: (Span, String),
    ) {
        let (place, said) = first;
        let related = Some(place.related(said));
        let help = Some(help.to_owned());
        self.push(Severity::Error, at, message, help, related);
    }

    /// A mistake in two places of which neither is the wrong one: the later is pointed at. Each with what
    /// is said of it when it is the earlier.
    pub(crate) fn disagreement(&mut self, places: [(Span, &str); 2], message: String, help: &str) {
        let [mut first, mut last] = places;
        if last.0 < first.0 {
            std::mem::swap(&mut first, &mut last);
        }
        self.conflict(last.0, message, help, (first.0, first.1.to_owned()));
    }

    fn push(
        &mut self,
        severity: Severity,
        at: Span,
        message: String,
        help: Option<String>,
        related: Option<Related>,
    ) {
        let kept = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if kept.list.len() == Self::KEPT {
            kept.omitted += 1;
            return;
        }
        kept.list.push(Diagnostic {
            severity,
            part: at.part,
            line: at.line,
            column: at.column,
            length: at.length,
            message,
            help,
            related,
        });
    }

    /// "did you mean …?" with the nearest of `known`, else `otherwise`.
    pub(crate) fn suggest<'a>(
        &self,
        wrong: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        let left = Self::COMPARED.saturating_sub(self.compared.get());
        let mut count = 0;
        let counted = known.into_iter().take(left).inspect(|_| count += 1);
        let near = nearest(wrong, counted);
        self.compared.set(self.compared.get() + count);
        // Of names that were not all compared, another one may be nearer.
        if let Some(near) = near.filter(|_| count < left) {
            return Some(format!("did you mean `{near}`?"));
        }
        otherwise()
    }
}

/// What has more changes than that was not meant.
const MOST_CHANGES: usize = 3;
/// Bytes of a character in UTF-8.
const LONGEST_CHAR: usize = 4;

/// The known word that `wrong` most probably was meant to be, if one is near.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = wrong.to_lowercase();
    let length = wrong.chars().count();
    if length > 63 {
        return None;
    }
    // One change adds or takes a character at most.
    let is_as_long = |word: &&str| word.len().abs_diff(wrong.len()) <= MOST_CHANGES * LONGEST_CHAR;
    known
        .into_iter()
        .filter(is_as_long)
        .map(|word| (strsim::osa_distance(&folded, &word.to_lowercase()), word))
        .filter(|&(distance, word)| {
            distance <= length.max(word.len()).div_ceil(3).min(MOST_CHANGES)
        })
        .min()
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_many_wrong_names_has_a_limited_search() {
        let names: Vec<String> = (0..20_000).map(|n| format!("p{n:05}")).collect();
        let sink = Sink::default();
        let near = |n: usize| {
            let known = names.iter().map(String::as_str);
            sink.suggest(&format!("x{n:05}"), known, || None)
        };
        assert_eq!(near(7).as_deref(), Some("did you mean `p00007`?"));
        assert_eq!((0..1000).filter_map(near).count(), 3);
        assert_eq!(sink.compared.get(), Sink::COMPARED);
    }

    #[test]
    fn the_name_of_a_file_adds_no_line() {
        let path = PathBuf::from("a\nerror: b\u{1b}[2J.yaml");
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [
            FabricErrors::Read {
                path: path.clone(),
                source,
            },
            FabricErrors::TooLarge { path, limit: 1 },
        ] {
            let shown = error.render(false);
            assert!(shown.chars().all(crate::is_printable), "{shown:?}");
            assert!(shown.contains("a\\u{a}error: b\\u{1b}[2J.yaml"), "{shown}");
        }
    }

    #[test]
    fn nearest_word() {
        assert_eq!(nearest("vin", ["vni", "unknown_unicast"]), Some("vni"));
        assert_eq!(nearest("Switch", ["switch", "host"]), Some("switch"));
        assert_eq!(
            nearest("unknown-unicast", ["vni", "unknown_unicast"]),
            Some("unknown_unicast")
        );
        assert_eq!(nearest("zebra", ["vni", "host"]), None);
        assert_eq!(nearest("", ["vni"]), None);
        assert_eq!(
            nearest("h3", ["h1", "h2"]),
            Some("h1"),
            "ties: the first in order"
        );
    }
}
