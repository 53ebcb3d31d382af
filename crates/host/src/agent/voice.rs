//! How an agent speaks to people: the command line has the words.

use std::fmt;

use crate::report::Report;

/// How an agent speaks to people.
#[derive(Clone, Copy)]
pub struct Voice<'a> {
    /// A line, or several, for the journal.
    pub say: &'a dyn Fn(&str),
    /// A report in words.
    pub render: &'a dyn Fn(&Report) -> Rendered,
}

/// A report in words.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// What was changed, a line each, and the outcome.
    pub lines: Vec<String>,
    /// What deserves a look.
    pub notes: Vec<String>,
}

impl Voice<'_> {
    /// For the journal.
    pub(super) fn say(&self, text: &str) {
        (self.say)(text);
    }
}

impl fmt::Debug for Voice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Voice")
    }
}
