//! What is wrong with a fabric file: one [`Diagnostic`] per mistake, all of them gathered before
//! anything is shown, and drawn above the lines they speak of.
//!
//! Text from the file is untrusted: what is drawn has no control characters, and long lines are cut.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// One mistake in a fabric file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
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
    /// The earlier place it disagrees with: line, column, what stands there.
    pub related: Option<(u32, u32, String)>,
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
    /// The mistakes in the file, in the order of their place; none if it could not be read.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Invalid(report) => &report.diagnostics,
            Self::Read { .. } | Self::TooLarge { .. } => &[],
        }
    }

    /// The whole text for a terminal: begins with `error:`, ends without a line break.
    pub fn render(&self, colour: bool) -> String {
        match self {
            Self::Invalid(report) => report.render(colour),
            other => {
                let paint = Paint(colour);
                format!("{}: {other}", paint.error("error"))
            }
        }
    }
}

/// The mistakes of one file, with the text they speak of.
#[derive(Debug)]
pub struct Report {
    /// What the file is called in messages.
    pub name: String,
    /// In the order of their place.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more were found and left out.
    pub omitted: usize,
    text: String,
}

impl Report {
    pub(crate) fn new(name: &str, text: &str, sink: Sink) -> Self {
        let mut diagnostics = sink.list;
        diagnostics.sort_by_key(|d| (d.line, d.column));
        Self {
            name: printable(name),
            diagnostics,
            omitted: sink.omitted,
            text: text.to_owned(),
        }
    }

    /// Every diagnostic in the manner of rustc, then how many there are.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint(colour);
        let lines: Vec<&str> = self.text.lines().collect();
        let mut out = String::new();
        for diagnostic in &self.diagnostics {
            let source = lines.get(diagnostic.line as usize - 1).copied();
            draw(&mut out, &self.name, diagnostic, source, paint);
            out.push('\n');
        }
        let count = self.diagnostics.len() + self.omitted;
        let plural = if count == 1 { "error" } else { "errors" };
        let _ = write!(
            out,
            "{}: {count} {plural} in {}",
            paint.error("error"),
            self.name
        );
        if self.omitted > 0 {
            let _ = write!(out, " (the first {} are shown)", self.diagnostics.len());
        }
        out
    }
}

/// A place in the file, drawn as one underlined stretch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

impl Span {
    /// The beginning of the file.
    pub(crate) const START: Self = Self {
        line: 1,
        column: 1,
        length: 1,
    };
}

/// Gathers mistakes. Keeps the first [`Sink::KEPT`] and counts the rest, so that a hostile file
/// costs no more than its size.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    list: Vec<Diagnostic>,
    omitted: usize,
}

impl Sink {
    const KEPT: usize = 1000;
    /// Searching a near name costs as much as there are names: not for every one of many mistakes.
    const SUGGESTED: usize = 100;

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn report(&mut self, at: Span, message: String, help: Option<String>) {
        self.push(at, message, help, None);
    }

    pub(crate) fn error(&mut self, at: Span, message: String, help: &str) {
        self.push(at, message, Some(help.to_owned()), None);
    }

    /// A mistake that lies in two places: the later one, and what stands at the earlier one.
    pub(crate) fn conflict(
        &mut self,
        at: Span,
        message: String,
        help: &str,
        first: (Span, String),
    ) {
        let (place, said) = first;
        let related = Some((place.line, place.column, said));
        self.push(at, message, Some(help.to_owned()), related);
    }

    fn push(
        &mut self,
        at: Span,
        message: String,
        help: Option<String>,
        related: Option<(u32, u32, String)>,
    ) {
        if self.list.len() == Self::KEPT {
            self.omitted += 1;
            return;
        }
        self.list.push(Diagnostic {
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
        if self.list.len() < Self::SUGGESTED
            && let Some(near) = nearest(wrong, known)
        {
            return Some(format!("did you mean `{near}`?"));
        }
        otherwise()
    }
}

/// The known word that `wrong` most probably was meant to be.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let folded = wrong.to_lowercase();
    let length = wrong.chars().count();
    if length > 63 {
        return None;
    }
    known
        .into_iter()
        .map(|word| (strsim::osa_distance(&folded, &word.to_lowercase()), word))
        .filter(|&(distance, word)| distance <= length.max(word.len()).div_ceil(3).min(3))
        .min()
        .map(|(_, word)| word)
}

/// `a, b, c`, or its beginning and how many more.
pub(crate) fn listed<'a>(known: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 10;
    let count = known.len();
    let mut out = known.take(SHOWN).collect::<Vec<_>>().join(", ");
    if count > SHOWN {
        let _ = write!(out, " and {} more", count - SHOWN);
    }
    out
}

/// Without control and direction characters, and not endless: fit for a terminal.
pub(crate) fn printable(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut out: String = text.chars().take(LONGEST).map(visible).collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        // Controls, and the marks that reorder what a reader sees.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// Colours, or none.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn frame(self, text: &str) -> String {
        self.wrap("1;34", text)
    }

    fn help(self, text: &str) -> String {
        self.wrap("1;36", text)
    }
}

fn draw(out: &mut String, name: &str, diagnostic: &Diagnostic, source: Option<&str>, paint: Paint) {
    let (line, column) = (diagnostic.line, diagnostic.column);
    let width = line.to_string().len();
    let gap = " ".repeat(width);
    let bar = paint.frame("|");
    let _ = writeln!(
        out,
        "{}: {}",
        paint.error("error"),
        printable(&diagnostic.message)
    );
    let _ = writeln!(out, "{gap}{} {name}:{line}:{column}", paint.frame("-->"));
    if let Some(source) = source {
        let (excerpt, indent, length) = window(source, column, diagnostic.length);
        let caret = paint.error(&"^".repeat(length));
        let number = paint.frame(&line.to_string());
        let _ = writeln!(out, "{gap} {bar}");
        let _ = writeln!(out, "{number} {bar} {excerpt}");
        let _ = writeln!(out, "{gap} {bar} {}{caret}", " ".repeat(indent));
    }
    if let Some((line, column, said)) = &diagnostic.related {
        let (note, said) = (paint.frame("note"), printable(said));
        let _ = writeln!(out, "{gap} = {note}: {said} (line {line}, column {column})");
    }
    if let Some(help) = &diagnostic.help {
        // The longest helps exceed `printable`'s length, and only quote names that passed it.
        let help_text: String = help.chars().map(visible).collect();
        let _ = writeln!(out, "{gap} = {}: {help_text}", paint.help("help"));
    }
}

/// The part of a line around `column` that fits a terminal: excerpt, indent and length of the caret.
fn window(source: &str, column: u32, length: u32) -> (String, usize, usize) {
    const WIDTH: usize = 96;
    const BEFORE: usize = 40;
    let start = column as usize - 1;
    let count = source.chars().count();
    let skip = if count <= WIDTH {
        0
    } else {
        start.min(count).saturating_sub(BEFORE)
    };
    let mut excerpt: String = source.chars().skip(skip).take(WIDTH).map(visible).collect();
    if skip + WIDTH < count {
        excerpt.push('…');
    }
    let lead = if skip > 0 { "…" } else { "" };
    let indent = start.min(count) - skip;
    let room = excerpt.chars().count().saturating_sub(indent).max(1);
    let excerpt = format!("{lead}{excerpt}").trim_end().to_owned();
    let indent = indent + lead.chars().count();
    (excerpt, indent, (length as usize).clamp(1, room))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let line = format!("{}HERE{}", "a".repeat(300), "b".repeat(300));
        let (excerpt, indent, length) = window(&line, 301, 4);
        let shown: String = excerpt.chars().skip(indent).take(length).collect();
        assert_eq!(shown, "HERE");
        assert!(excerpt.chars().count() <= 98);
        assert!(excerpt.starts_with('…') && excerpt.ends_with('…'));
        // Past the end, and an empty line.
        assert_eq!(window("ab", 9, 7), ("ab".into(), 2, 1));
        assert_eq!(window("", 1, 1), (String::new(), 0, 1));
    }

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        let mut sink = Sink::default();
        sink.report(
            Span::START,
            "a\u{1b}[31m\u{202e}b".into(),
            Some("\u{7}".into()),
        );
        let text = Report::new("f\n", "\u{1b}]0;x\u{7}", sink).render(false);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
        let mut sink = Sink::default();
        sink.report(Span::START, "m".into(), None);
        assert!(
            Report::new("f", "x", sink)
                .render(true)
                .starts_with("\u{1b}[1;31merror\u{1b}[0m: m\n")
        );
    }

    #[test]
    fn a_flood_of_mistakes_is_counted() {
        let mut sink = Sink::default();
        for _ in 0..Sink::KEPT + 5 {
            sink.report(Span::START, "m".into(), None);
        }
        let report = Report::new("f", "", sink);
        assert_eq!((report.diagnostics.len(), report.omitted), (Sink::KEPT, 5));
        assert!(
            report
                .render(false)
                .ends_with("error: 1005 errors in f (the first 1000 are shown)")
        );
    }
}
