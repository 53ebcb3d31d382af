//! What a report says, before it is a page or Markdown: sections of sentences, tables and charts.
//!
//! The sections are built once ([`super::page`]) and written twice, by [`super::html`] and
//! [`super::markdown`], so that both say the same.

use crate::record::BackendName;
use crate::stats::Verdict;

use super::draw::Drawing;

/// A part of the page with a heading.
pub(super) struct Section {
    /// Its anchor.
    pub(super) id: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// What it says.
    pub(super) blocks: Vec<Block>,
}

/// A piece of a section.
pub(super) enum Block {
    /// A heading inside of the section.
    Heading(String),
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
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Line::of(text))
    }
}

/// A sentence.
#[derive(Clone, Default)]
pub(super) struct Line(pub(super) Vec<Span>);

/// A part of a sentence.
#[derive(Clone)]
pub(super) enum Span {
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
    pub(super) fn of(text: impl Into<String>) -> Self {
        Self(vec![Span::Text(text.into())])
    }

    /// Adds plain text.
    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Text(text.into()));
        self
    }

    /// Adds text that is set off.
    pub(super) fn strong(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Strong(text.into()));
        self
    }

    /// Adds a part.
    pub(super) fn span(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }

    /// Adds a link within the page.
    pub(super) fn link(self, to: String, text: &str, label: String) -> Self {
        let text = text.to_owned();
        self.span(Span::Link { to, text, label })
    }
}

/// A table; the first cell of a row is its head.
pub(super) struct Table {
    /// What it shows.
    pub(super) caption: String,
    /// Heads of the columns.
    pub(super) columns: Vec<Column>,
    /// Its rows.
    pub(super) rows: Vec<Row>,
    /// Rows that stay below when the others are sorted: means, sums.
    pub(super) foot: Vec<Row>,
}

impl Table {
    /// A table without rows. A head with `#` before it stands over numbers.
    pub(super) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.iter().map(|text| Column::of(text)).collect(),
            rows: Vec::new(),
            foot: Vec::new(),
        }
    }

    /// The same with `rows`.
    pub(super) fn with(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        self.rows = rows.into_iter().collect();
        self
    }
}

/// The head of a column.
pub(super) struct Column {
    /// Its words.
    pub(super) title: String,
    /// Numbers stand below.
    pub(super) number: bool,
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
pub(super) struct Row {
    /// Its anchor.
    pub(super) id: Option<String>,
    /// Its cells.
    pub(super) cells: Vec<Field>,
}

impl Row {
    /// A row.
    pub(super) fn of(cells: impl IntoIterator<Item = Field>) -> Self {
        Self {
            id: None,
            cells: cells.into_iter().collect(),
        }
    }

    /// The same with an anchor.
    pub(super) fn at(mut self, id: String) -> Self {
        self.id = Some(id);
        self
    }
}

/// A cell of a table.
#[derive(Default)]
pub(super) struct Field {
    /// Its text.
    pub(super) text: String,
    /// Small print after it: an interval, a name.
    pub(super) small: String,
    /// By what it is sorted; null: by its text.
    pub(super) sort: Option<f64>,
    /// A verdict after it.
    pub(super) verdict: Option<Verdict>,
    /// Strength of its ground, −5 (much worse) to 5 (much better); heat maps.
    pub(super) heat: Option<i8>,
    /// The colour of a network before it.
    pub(super) key: Option<BackendName>,
    /// What is behind it, unfolded on demand.
    pub(super) more: Vec<String>,
    /// The anchor that it leads to.
    pub(super) to: Option<String>,
    /// Long text, which may be broken into lines.
    pub(super) wide: bool,
}

impl Field {
    /// A text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Long text, which may be broken into lines.
    pub(super) fn wide(text: impl Into<String>) -> Self {
        Self {
            wide: true,
            ..Self::text(text)
        }
    }

    /// A number as it is shown and as it is sorted.
    pub(super) fn number(text: String, sort: impl Into<Option<f64>>) -> Self {
        Self {
            sort: sort.into(),
            ..Self::text(text)
        }
    }

    /// A count.
    pub(super) fn count(count: u64) -> Self {
        Self::number(super::numbers::fixed(count as f64, 0), count as f64)
    }

    /// A network by its name and colour.
    pub(super) fn network(name: String, backend: BackendName) -> Self {
        Self {
            key: Some(backend),
            ..Self::text(name)
        }
    }

    /// The same with small print.
    pub(super) fn small(mut self, small: impl Into<String>) -> Self {
        self.small = small.into();
        self
    }

    /// The same with a verdict.
    pub(super) fn verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// The same as a link.
    pub(super) fn to(mut self, anchor: String) -> Self {
        self.to = Some(anchor);
        self
    }

    /// The same with text that unfolds.
    pub(super) fn more(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.more = more.into_iter().filter(|text| !text.is_empty()).collect();
        self
    }
}

/// A picture with its figures.
pub(super) struct Chart {
    /// Its anchor, unique in the page.
    pub(super) id: String,
    /// What it shows.
    pub(super) title: String,
    /// How to read it: `more is better`.
    pub(super) hint: String,
    /// The picture in words.
    pub(super) words: String,
    /// The picture.
    pub(super) drawing: Drawing,
    /// Its figures.
    pub(super) table: Table,
}
