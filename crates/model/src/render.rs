//! Draws mistakes as text, each above the line it speaks of, in the manner of rustc.
//!
//! Text from the file is untrusted: what is drawn has only characters that a reader sees, and long lines are cut.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

use crate::diagnostic::{Diagnostic, Severity, Sink};
use crate::fabric::Part;

/// The mistakes of a fabric, with the text they speak of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What the file, or the folder, is called in messages.
    pub name: String,
    /// Errors and warnings, in the order of their place.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more errors were found and left out.
    pub omitted_errors: usize,
    /// How many more warnings.
    pub omitted_warnings: usize,
    /// The name and the text of each part.
    parts: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn new(name: &str, parts: &[Part], sink: Sink) -> Self {
        let mut diagnostics = sink.errors.list;
        diagnostics.extend(sink.warnings.list);
        diagnostics.sort_by_key(|d| (d.part, d.line, d.column));
        Self {
            name: printable(name),
            diagnostics,
            omitted_errors: sink.errors.omitted,
            omitted_warnings: sink.warnings.omitted,
            parts: (parts.iter())
                .map(|part| (printable(&part.name), part.text.clone()))
                .collect(),
        }
    }

    /// The name of a part.
    pub fn part(&self, number: u16) -> &str {
        self.parts
            .get(usize::from(number))
            .map_or(&self.name, |(name, _)| name)
    }

    /// Every diagnostic in the manner of rustc, then how many there are.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint(colour);
        let texts = self.parts.iter().map(|(_, text)| lines(text).collect());
        let lines: Vec<Vec<&str>> = texts.collect();
        let mut out = String::new();
        for diagnostic in &self.diagnostics {
            let lines = lines.get(usize::from(diagnostic.part));
            let source = lines
                .and_then(|lines| lines.get(diagnostic.line as usize - 1))
                .copied();
            self.draw(&mut out, diagnostic, source, paint);
            out.push('\n');
        }
        let _ = write!(out, "{} in {}", self.counted(paint), self.name);
        if self.omitted_errors + self.omitted_warnings > 0 {
            let _ = write!(out, " ({} of them are shown)", self.diagnostics.len());
        }
        out
    }

    fn draw(&self, out: &mut String, diagnostic: &Diagnostic, source: Option<&str>, paint: Paint) {
        let name = self.part(diagnostic.part);
        let (line, column) = (diagnostic.line, diagnostic.column);
        let width = line.to_string().len();
        let gap = " ".repeat(width);
        let bar = paint.frame("|");
        let _ = writeln!(
            out,
            "{}: {}",
            paint.label(diagnostic.severity),
            printable(&diagnostic.message)
        );
        let _ = writeln!(out, "{gap}{} {name}:{line}:{column}", paint.frame("-->"));
        if let Some(source) = source {
            let (excerpt, indent, length) = window(source, column, diagnostic.length);
            let caret = paint.mark(diagnostic.severity, &"^".repeat(length));
            let number = paint.frame(&line.to_string());
            let _ = writeln!(out, "{gap} {bar}");
            let _ = writeln!(out, "{number} {bar} {excerpt}");
            let _ = writeln!(out, "{gap} {bar} {}{caret}", " ".repeat(indent));
        }
        if let Some(related) = &diagnostic.related {
            let (note, said) = (paint.frame("note"), printable(&related.message));
            let (line, column) = (related.line, related.column);
            let of = match related.part == diagnostic.part {
                true => String::new(),
                false => format!("{}, ", self.part(related.part)),
            };
            let _ = writeln!(
                out,
                "{gap} = {note}: {said} ({of}line {line}, column {column})"
            );
        }
        if let Some(help) = &diagnostic.help {
            // The longest helps exceed `printable`'s length, and only quote names that passed it.
            let help_text = escaped(help).replace('\n', "\\n");
            let _ = writeln!(out, "{gap} = {}: {help_text}", paint.help("help"));
        }
    }

    /// `error: 2 errors and 1 warning`
    fn counted(&self, paint: Paint) -> String {
        let shown = |severity| {
            let all = self.diagnostics.iter();
            all.filter(|found| found.severity == severity).count()
        };
        let errors = shown(Severity::Error) + self.omitted_errors;
        let warnings = shown(Severity::Warning) + self.omitted_warnings;
        match (errors, warnings) {
            (0, _) => {
                let label = paint.label(Severity::Warning);
                format!("{label}: {}", plural(warnings, "warning"))
            }
            (_, 0) => {
                let label = paint.label(Severity::Error);
                format!("{label}: {}", plural(errors, "error"))
            }
            _ => {
                let label = paint.label(Severity::Error);
                let (errors, warnings) = (plural(errors, "error"), plural(warnings, "warning"));
                format!("{label}: {errors} and {warnings}")
            }
        }
    }
}

fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Each character that a terminal does not show, or that changes what it shows of others, is written as its number:
/// `\u{202e}`. Line feeds stay. The text is safe to print, wherever it came from.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| c == '\n' || is_printable(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_escaped(&mut out, c, c == '\n');
    }
    Cow::Owned(out)
}

/// Whether a terminal shows the character as one that a reader can tell: none of the Unicode categories Cc, Cf, Co,
/// Cn, Zl, Zp, and none of Zs but the space. The standard library knows them, and escapes just these and two quotes.
/// It escapes a mark that stands alone too, so one stands behind a letter here.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut bytes = [0; 8];
    let length = 1 + c.encode_utf8(&mut bytes[1..]).len();
    bytes[0] = b'a';
    let behind_a_letter = std::str::from_utf8(&bytes[..length]).unwrap_or_default();
    behind_a_letter.escape_debug().nth(1) == Some(c)
}

/// Fit for a line of a terminal, wherever it came from, and not endless.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut out = String::new();
    for c in text.chars().take(LONGEST) {
        push_escaped(&mut out, c, false);
    }
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

/// What a reader of JSON says, which quotes the file: fit for a line of a terminal, with the place.
pub fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => printable(what) + &place,
        None => printable(&text),
    }
}

fn push_escaped(out: &mut String, c: char, as_it_is: bool) {
    if as_it_is || is_printable(c) {
        out.push(c);
    } else {
        out.extend(c.escape_unicode());
    }
}

/// In the picture of a line each character has one place.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if is_printable(c) => c,
        _ => '\u{fffd}',
    }
}

/// Colours, or none.
#[derive(Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A text about a mistake of this severity.
    fn mark(self, severity: Severity, text: &str) -> String {
        let code = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "1;33",
        };
        self.wrap(code, text)
    }

    pub(crate) fn label(self, severity: Severity) -> String {
        self.mark(severity, &severity.to_string())
    }

    fn frame(self, text: &str) -> String {
        self.wrap("1;34", text)
    }

    fn help(self, text: &str) -> String {
        self.wrap("1;36", text)
    }
}

/// The lines of a text as YAML 1.2 breaks it (section 5.4): at CR, LF, and both together.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (line, behind) = match text.find(['\r', '\n']) {
            Some(end) => text.split_at(end),
            None => (text, ""),
        };
        let behind = behind.strip_prefix("\r\n").or_else(|| behind.get(1..));
        rest = behind.filter(|behind| !behind.is_empty());
        Some(line)
    })
}

/// Columns of a terminal that a character takes: none for a mark on the one before it, two for a wide one.
fn width(c: char) -> usize {
    visible(c).width().unwrap_or(1)
}

fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// How many bytes of these characters take at most so many columns.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> usize {
    let mut used = 0;
    let fits = |c: &char| {
        used += width(*c);
        used <= columns
    };
    chars.take_while(fits).map(char::len_utf8).sum()
}

/// The part of a line around the character `column` that fits a terminal: excerpt, indent and length of the caret.
fn window(source: &str, column: u32, length: u32) -> (String, usize, usize) {
    const WIDTH: usize = 96;
    const BEFORE: usize = 40;
    let mut places = source.char_indices().map(|(at, _)| at);
    let start = places.nth(column as usize - 1).unwrap_or(source.len());
    let (mut before, mut behind) = source.split_at(start);
    let mut excerpt = String::new();
    let (mut lead, mut trail) = ("", "");
    if columns(source) > WIDTH {
        let shown = fitting(before.chars().rev(), BEFORE);
        if shown < before.len() {
            (lead, before) = ("…", &before[before.len() - shown..]);
        }
        let shown = fitting(behind.chars(), WIDTH - columns(before));
        if shown < behind.len() {
            (behind, trail) = (&behind[..shown], "…");
        }
    }
    excerpt.push_str(lead);
    excerpt.extend(before.chars().chain(behind.chars()).map(visible));
    excerpt.push_str(trail);
    let stretch: usize = behind.chars().take(length as usize).map(width).sum();
    (
        excerpt.trim_end().to_owned(),
        columns(lead) + columns(before),
        stretch.max(1),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(name: &str, text: &str, sink: Sink) -> Report {
        let part = Part {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        Report::new(name, &[part], sink)
    }
    use crate::diagnostic::Span;

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
    fn a_caret_stands_beneath_what_it_means() {
        for (line, column, length, indent, carets) in [
            ("ab: cd", 5, 2, 4, 2),
            // Wide characters before, inside, and half of a stretch.
            ("日本: xy", 5, 2, 6, 2),
            ("a: 日本語 x", 4, 3, 3, 6),
            ("a: ｶﾅ한", 4, 3, 3, 4),
            ("a: 🙂", 4, 1, 3, 2),
            // Marks stand on the character before them.
            ("e\u{301}e\u{301}: xy", 7, 2, 4, 2),
            ("x: e\u{301}", 4, 2, 3, 1),
            ("x: e\u{301}", 5, 1, 4, 1),
            // What cannot be seen takes one place in the picture.
            ("\tx\t: \u{202e}y", 6, 2, 5, 2),
        ] {
            let (excerpt, found, stretch) = window(line, column, length);
            assert_eq!((found, stretch), (indent, carets), "{line:?}");
            assert_eq!(excerpt, line.chars().map(visible).collect::<String>());
        }
        let long = format!("{}: {}", "日".repeat(100), "本".repeat(100));
        let (excerpt, indent, stretch) = window(&long, 103, 100);
        assert_eq!((indent, stretch), (41, 2 * 28), "{excerpt}");
        assert_eq!(columns(&excerpt), 1 + 96 + 1);
    }

    #[test]
    fn lines_end_where_yaml_says() {
        let of = |text| lines(text).collect::<Vec<_>>();
        assert_eq!(of("a\nb\rc\r\nd\n\re"), ["a", "b", "c", "d", "", "e"]);
        assert_eq!(
            of("a\u{85}b\u{2028}c\u{2029}d\x0be\x0cf"),
            ["a\u{85}b\u{2028}c\u{2029}d\x0be\x0cf"]
        );
        assert_eq!(of("a\r"), ["a"]);
        assert_eq!(of("\r\ra"), ["", "", "a"]);
    }

    #[test]
    fn the_excerpt_is_the_line_that_the_number_says() {
        for end in ["\n", "\r", "\r\n"] {
            for comment in ["#", "# a\u{85}b\u{2028}c\u{2029}d", "# 日本語"] {
                let text = ["version: 1", comment, "", "'日': x", "frob: 2", ""].join(end);
                let errors = crate::Fabric::parse("f", &text).unwrap_err();
                let shown = errors.render(false);
                assert!(
                    shown.contains("5 | frob: 2\n  | ^^^^\n"),
                    "{text:?}: {shown}"
                );
                assert!(
                    shown.contains("4 | '日': x\n  | ^^^^\n"),
                    "{text:?}: {shown}"
                );
            }
        }
    }

    #[test]
    fn ten_names_are_listed_and_more_are_counted() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let of = |count: usize| listed(names[..count].iter().copied());
        assert_eq!(of(9), "a, b, c, d, e, f, g, h, i");
        assert_eq!(of(10), "a, b, c, d, e, f, g, h, i, j");
        assert_eq!(of(12), "a, b, c, d, e, f, g, h, i, j and 2 more");
    }

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        let mut sink = Sink::default();
        sink.report(
            Span::START,
            "a\u{1b}[31m\u{202e}b".into(),
            Some("\u{7}".into()),
        );
        let text = of_text("f\n", "\u{1b}]0;x\u{7}", sink).render(false);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
        let mut sink = Sink::default();
        sink.report(Span::START, "m".into(), None);
        assert!(
            of_text("f", "x", sink)
                .render(true)
                .starts_with("\u{1b}[1;31merror\u{1b}[0m: m\n")
        );
    }

    #[test]
    fn what_nobody_sees_is_written_as_a_number() {
        // One of each category, and the borders of ASCII.
        for hidden in [
            '\0',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{200b}',
            '\u{200e}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
            '\u{2028}',
            '\u{2029}',
            '\u{a0}',
            '\u{2003}',
            '\u{3000}',
            '\u{e000}',
            '\u{378}',
            '\u{10ffff}',
        ] {
            let text = format!("a{hidden}b");
            let shown = format!("a\\u{{{:x}}}b", u32::from(hidden));
            assert_eq!(escaped(&text), shown);
            assert_eq!(printable(&text), shown);
            assert_eq!(visible(hidden), '\u{fffd}');
        }
        // With a mark of its own behind the `e`.
        let right = " ~'\"\\ä日🙂e\u{301} \u{301}→─µ";
        assert!(matches!(escaped(right), Cow::Borrowed(_)));
        assert_eq!(printable(right), right);
        assert_eq!(escaped("a\nb"), "a\nb");
        assert_eq!(printable("a\nb"), "a\\u{a}b");
    }

    #[test]
    fn a_flood_of_mistakes_is_counted() {
        let mut sink = Sink::default();
        for _ in 0..Sink::KEPT + 5 {
            sink.report(Span::START, "m".into(), None);
        }
        let report = of_text("f", "", sink);
        assert_eq!(report.diagnostics.len(), Sink::KEPT);
        assert_eq!((report.omitted_errors, report.omitted_warnings), (5, 0));
        assert!(
            report
                .render(false)
                .ends_with("error: 1005 errors in f (1000 of them are shown)")
        );
    }

    #[test]
    fn warnings_crowd_out_no_error_and_have_a_colour_of_their_own() {
        let mut sink = Sink::default();
        for _ in 0..=Sink::KEPT {
            sink.warn(Span::START, "w".into(), "h", None);
        }
        let only = |text: &str| text.lines().last().map(str::to_owned);
        sink.report(Span::START, "m".into(), None);
        let report = of_text("f", "x", sink);
        let text = report.render(false);
        assert!(text.starts_with("error: m\n"), "{text}");
        let said = "error: 1 error and 1001 warnings in f (1001 of them are shown)";
        assert_eq!(only(&text).as_deref(), Some(said));
        let mut sink = Sink::default();
        let place = (Span::START, "said".to_owned());
        sink.warn(Span::START, "w".into(), "h", Some(place));
        let text = of_text("f", "x", sink).render(true);
        assert!(text.starts_with("\u{1b}[1;33mwarning\u{1b}[0m: w\n"));
        assert!(text.contains("said (line 1, column 1)"));
        assert!(text.ends_with("warning\u{1b}[0m: 1 warning in f"));
    }
}
