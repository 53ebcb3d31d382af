//! How the program speaks: tables for people, JSON for programs, colour only for a terminal, and a
//! reader that goes away (`overlane show counters | head`) is no error.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Cell, Color};
use overlane_model::{escaped, is_printable};
use ratatui::crossterm::terminal;
use serde::Serialize;

mod rows;

pub(crate) use rows::Rows;

/// Standard output and standard error, each with what it can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    colour_out: bool,
    colour_err: bool,
    /// Columns of the terminal that standard output is; `None`: it is none.
    terminal: Option<u16>,
}

impl Output {
    /// Looks at the two streams and at `NO_COLOR` (<https://no-color.org>).
    pub(crate) fn from_environment() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let size = out.then(terminal::size).and_then(Result::ok);
        Self {
            colour_out: wanted && out,
            colour_err: wanted && err,
            terminal: size
                .map(|(columns, _)| columns)
                .filter(|columns| *columns > 0),
        }
    }

    /// Neither stream shows colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            colour_out: false,
            colour_err: false,
            terminal: None,
        }
    }

    /// Whether standard output shows colours.
    pub(crate) fn colour_out(self) -> bool {
        self.colour_out
    }

    /// Whether standard error shows colours.
    pub(crate) fn colour_err(self) -> bool {
        self.colour_err
    }

    /// A line, or several, on standard output.
    pub(crate) fn line(self, text: impl AsRef<str>) -> io::Result<()> {
        self.painted(escaped(text.as_ref()))
    }

    /// A text with colours of ours, in which whatever has another origin is escaped.
    pub(crate) fn painted(self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{}", text.as_ref())
    }

    /// A line on standard output that says how it ended; what is not well stands out.
    pub(crate) fn outcome(self, text: impl AsRef<str>, well: bool) -> io::Result<()> {
        let code = if well { "1;32" } else { "1;31" };
        if self.colour_out {
            self.painted(format!("\x1b[{code}m{}\x1b[0m", escaped(text.as_ref())))
        } else {
            self.line(text)
        }
    }

    /// Bytes on standard output, as they are.
    pub(crate) fn raw(self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// A value as JSON on standard output.
    pub(crate) fn json(self, value: &impl Serialize) -> io::Result<()> {
        let mut text = escape_json(&serde_json::to_string_pretty(value)?);
        text.push('\n');
        self.raw(text.as_bytes())
    }

    /// Something worth knowing that is no error, on standard error. Never fails: the work was done.
    pub(crate) fn note(self, text: impl AsRef<str>) {
        let label = self.err_label("note", "1;33");
        let _ = writeln!(io::stderr().lock(), "{label}: {}", escaped(text.as_ref()));
    }

    /// `error: …` and, where there is one, `help: …`, on standard error.
    pub(crate) fn error(self, text: impl AsRef<str>, help: Option<&str>) {
        let mut err = io::stderr().lock();
        let _ = writeln!(
            err,
            "{}: {}",
            self.err_label("error", "1;31"),
            escaped(text.as_ref())
        );
        if let Some(help) = help {
            let label = self.err_label("help", "1;36");
            let _ = writeln!(err, "{label}: {}", escaped(help));
        }
    }

    /// A text that has its own labels and is escaped already, on standard error.
    pub(crate) fn err_raw(self, text: impl AsRef<str>) {
        let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
    }

    fn err_label(self, label: &str, code: &str) -> String {
        if self.colour_err {
            format!("\x1b[{code}m{label}\x1b[0m")
        } else {
            label.to_owned()
        }
    }

    /// A table with these columns. A name that begins with `#` makes a column of numbers.
    pub(crate) fn table(self, columns: &[&str]) -> Rows {
        Rows::new(columns, self.colour_out, self.terminal)
    }

    /// A text behind `label`. On a terminal it continues below, as far to the right, where the line ends.
    pub(crate) fn wrapped(self, label: &str, text: &str) -> String {
        let indent = label.chars().count();
        let width = self.terminal.map_or(usize::MAX, usize::from);
        let (mut out, mut column) = (label.to_owned(), indent);
        for word in text.split(' ') {
            let length = word.chars().count();
            if column > indent && column + 1 + length > width {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            } else if column > indent {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
        out
    }

    /// A heading and its table, or what to say when the table has no rows.
    pub(crate) fn section(self, heading: &str, rows: &Rows, empty: &str) -> io::Result<()> {
        let body = if rows.is_empty() {
            escaped(empty).into_owned()
        } else {
            rows.render()
        };
        self.painted(format!("{}\n\n{body}", escaped(heading)))
    }
}

/// A cell with a text.
pub(crate) fn text(value: impl ToString) -> Cell {
    Cell::new(escaped(&value.to_string()))
}

/// A cell with a number, grouped for reading: `12 345 678`.
pub(crate) fn number(value: u64) -> Cell {
    Cell::new(grouped(value))
}

/// A cell that says whether something is well; what is not stands out.
pub(crate) fn state(value: &str, well: bool) -> Cell {
    Cell::new(escaped(value)).fg(if well { Color::Green } else { Color::Red })
}

/// A value as JSON in one line.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<String> {
    Ok(escape_json(&serde_json::to_string(value)?))
}

/// The same value, and nothing in it that a terminal acts on. Outside of strings JSON is ASCII.
fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || is_printable(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            out.extend(units.map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        for (value, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1 000"),
            (12_345_678, "12 345 678"),
        ] {
            assert_eq!(grouped(value), expected);
        }
    }

    #[test]
    fn what_nobody_sees_is_escaped_in_cells_and_in_json() {
        let mut rows = Output::plain().table(&["port"]);
        rows.push(vec![text("a\u{202e}b\u{1b}[31m")]);
        assert!(rows.render().ends_with("a\\u{202e}b\\u{1b}[31m"));
        let name = "a\u{7f}\u{200b}\u{e0041}\u{1b}ä";
        let json = escape_json(&serde_json::to_string(name).unwrap());
        assert!(json.chars().all(is_printable), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
    }

    #[test]
    fn a_table_has_no_colour_and_no_trailing_space_without_a_terminal() {
        let mut rows = Output::plain().table(&["port", "#packets"]);
        assert!(rows.is_empty());
        rows.push(vec![state("web1", false), number(1234)]);
        rows.push(vec![text("b"), number(5)]);
        assert_eq!(
            rows.render(),
            "port  packets\n─────────────\nweb1    1 234\nb           5"
        );
    }

    #[test]
    fn a_long_text_continues_below_on_a_terminal() {
        let text = "set the MTU inside the guest";
        assert_eq!(
            Output::plain().wrapped("help: ", text),
            format!("help: {text}")
        );
        let narrow = Output {
            terminal: Some(20),
            ..Output::plain()
        };
        let expected = "help: set the MTU\n      inside the\n      guest";
        assert_eq!(narrow.wrapped("help: ", text), expected);
        let none = Output {
            terminal: Some(1),
            ..Output::plain()
        };
        assert_eq!(none.wrapped("", "a b"), "a\nb");
    }

    #[test]
    fn a_table_for_a_terminal_has_colour() {
        let mut rows = Output {
            colour_out: true,
            ..Output::plain()
        }
        .table(&["state"]);
        rows.push(vec![state("missing", false)]);
        assert!(rows.render().contains("\x1b["));
    }
}
