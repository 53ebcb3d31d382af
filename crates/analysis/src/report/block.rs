//! What a report says, before it is a page or Markdown: sections of sentences, tables and charts.
//!
//! The sections are built once ([`crate::report::page`]) and written twice, by [`crate::report::write::html`] and
//! [`crate::report::write::markdown`], so that both say the same.

use crate::record::BackendName;
use crate::stats::Verdict;

use crate::report::answer::Trust;
use crate::report::draw::Drawing;

/// A part of the page with a heading.
pub(in crate::report) struct Section {
    /// Its anchor.
    pub(in crate::report) id: &'static str,
    /// Its heading.
    pub(in crate::report) title: &'static str,
    /// What it says.
    pub(in crate::report) blocks: Vec<Block>,
}

/// A piece of a section.
pub(in crate::report) enum Block {
    /// A heading inside of the section.
    Heading(String),
    /// The answer, and what stands beside it.
    Answer(String, Option<String>),
    /// How far to trust it.
    Trust(Trust),
    /// A paragraph.
    Text(Line),
    /// A paragraph in small print: how to read what follows.
    Hint(String),
    /// A paragraph that must not be missed.
    Note(String),
    /// Findings or remarks, one a line.
    List(Vec<Line>),
    /// Terms with their meaning.
    Terms(Vec<(Line, String)>),
    /// A table.
    Table(Table),
    /// Charts that stand beside each other.
    Charts(Vec<Chart>),
    /// Text to copy.
    Code(String),
    /// What opens on demand.
    Folded(String, Vec<Self>),
}

impl Block {
    /// A paragraph of plain text.
    pub(in crate::report) fn text(text: impl Into<String>) -> Self {
        Self::Text(Line::of(text))
    }
}

/// A sentence.
#[derive(Clone, Default)]
pub(in crate::report) struct Line(pub(in crate::report) Vec<Span>);

/// A part of a sentence.
#[derive(Clone)]
pub(in crate::report) enum Span {
    /// Plain.
    Text(String),
    /// Set off.
    Strong(String),
    /// The colour of a network, before its name.
    Key(BackendName),
    /// A verdict with its mark.
    Verdict(Verdict),
    /// A link to an anchor of the page.
    Link {
        /// The anchor, without `#`.
        to: String,
        /// What is read.
        text: String,
        /// What is heard.
        label: String,
    },
    /// A link to another site.
    Address {
        /// Where.
        url: String,
        /// What is read.
        text: String,
    },
}

impl Line {
    /// Plain text.
    pub(in crate::report) fn of(text: impl Into<String>) -> Self {
        Self(vec![Span::Text(text.into())])
    }

    /// Adds plain text.
    pub(in crate::report) fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Text(text.into()));
        self
    }

    /// Adds text that is set off.
    pub(in crate::report) fn strong(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Strong(text.into()));
        self
    }

    /// Adds a part.
    pub(in crate::report) fn span(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }

    /// Adds a link within the page.
    pub(in crate::report) fn link(self, to: String, text: &str, label: String) -> Self {
        let text = text.to_owned();
        self.span(Span::Link { to, text, label })
    }
}

/// A table; the first cell of a row is its head.
pub(in crate::report) struct Table {
    /// What it shows.
    pub(in crate::report) caption: String,
    /// Heads of the columns.
    pub(in crate::report) columns: Vec<Column>,
    /// Its rows.
    pub(in crate::report) rows: Vec<Row>,
    /// Rows that stay below when the others are sorted: means, sums.
    pub(in crate::report) foot: Vec<Row>,
}

impl Table {
    /// A table without rows. A head with `#` before it stands over numbers.
    pub(in crate::report) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.iter().map(|text| Column::of(text)).collect(),
            rows: Vec::new(),
            foot: Vec::new(),
        }
    }

    /// The same with `rows`.
    pub(in crate::report) fn with(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        self.rows = rows.into_iter().collect();
        self
    }
}

/// The head of a column.
pub(in crate::report) struct Column {
    /// Its words.
    pub(in crate::report) title: String,
    /// Numbers stand below.
    pub(in crate::report) number: bool,
}

impl Column {
    fn of(text: &str) -> Self {
        let bare = text.strip_prefix('#');
        Self {
            title: bare.unwrap_or(text).to_owned(),
            number: bare.is_some(),
        }
    }
}

/// A row of a table.
#[derive(Default)]
pub(in crate::report) struct Row {
    /// Its anchor.
    pub(in crate::report) id: Option<String>,
    /// Its cells.
    pub(in crate::report) cells: Vec<Field>,
}

impl Row {
    /// A row.
    pub(in crate::report) fn of(cells: impl IntoIterator<Item = Field>) -> Self {
        Self {
            id: None,
            cells: cells.into_iter().collect(),
        }
    }

    /// The same with an anchor.
    pub(in crate::report) fn at(mut self, id: String) -> Self {
        self.id = Some(id);
        self
    }
}

/// A cell of a table.
#[derive(Default)]
pub(in crate::report) struct Field {
    /// Its text.
    pub(in crate::report) text: String,
    /// Small print after it: an interval, a name.
    pub(in crate::report) small: String,
    /// By what it is sorted; null: by its text.
    pub(in crate::report) sort: Option<f64>,
    /// A verdict after it.
    pub(in crate::report) verdict: Option<Verdict>,
    /// Strength of its ground, −5 (much worse) to 5 (much better); heat maps.
    pub(in crate::report) heat: Option<i8>,
    /// The colour of a network before it.
    pub(in crate::report) key: Option<BackendName>,
    /// What is behind it, unfolded on demand.
    pub(in crate::report) more: Vec<String>,
    /// The anchor that it leads to.
    pub(in crate::report) to: Option<String>,
    /// Long text, which may be broken into lines.
    pub(in crate::report) wide: bool,
}

impl Field {
    /// A text.
    pub(in crate::report) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Long text, which may be broken into lines.
    pub(in crate::report) fn wide(text: impl Into<String>) -> Self {
        Self {
            wide: true,
            ..Self::text(text)
        }
    }

    /// A number as it is shown and as it is sorted.
    pub(in crate::report) fn number(text: String, sort: impl Into<Option<f64>>) -> Self {
        Self {
            sort: sort.into(),
            ..Self::text(text)
        }
    }

    /// A count.
    pub(in crate::report) fn count(count: u64) -> Self {
        Self::number(crate::report::numbers::fixed(count as f64, 0), count as f64)
    }

    /// A network by its name and colour.
    pub(in crate::report) fn network(name: String, backend: BackendName) -> Self {
        Self {
            key: Some(backend),
            ..Self::text(name)
        }
    }

    /// The same with small print.
    pub(in crate::report) fn small(mut self, small: impl Into<String>) -> Self {
        self.small = small.into();
        self
    }

    /// The same with a verdict.
    pub(in crate::report) fn verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// The same as a link.
    pub(in crate::report) fn to(mut self, anchor: String) -> Self {
        self.to = Some(anchor);
        self
    }

    /// The same with text that unfolds.
    pub(in crate::report) fn more(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.more = more.into_iter().filter(|text| !text.is_empty()).collect();
        self
    }
}

/// A picture with its figures.
pub(in crate::report) struct Chart {
    /// Its anchor, unique in the page.
    pub(in crate::report) id: String,
    /// What it shows.
    pub(in crate::report) title: String,
    /// How to read it: `more is better`.
    pub(in crate::report) hint: String,
    /// The picture in words.
    pub(in crate::report) words: String,
    /// The picture.
    pub(in crate::report) drawing: Drawing,
    /// Its figures.
    pub(in crate::report) table: Table,
}
