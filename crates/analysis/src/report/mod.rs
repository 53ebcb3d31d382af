//! The report of a run: one web page, the same in Markdown, a CSV of the cells.
//!
//! ```text
//! Analysis ──► page: sections of sentences, tables and charts ──► html      (charts: draw, as inline SVG)
//!              answers, heat, views, charts, …               └──► markdown  (charts: their tables)
//! ```
//!
//! Everything here turns an [`Analysis`] into text; nothing is computed but the choice of words and
//! digits. The page needs no network; its script only sorts tables.

mod accounting;
mod answers;
mod cells;
mod charts;
mod comparisons;
mod content;
mod cpus;
mod csv;
mod draw;
mod heat;
mod host;
mod html;
mod latency;
mod markdown;
mod markup;
mod missing;
mod numbers;
mod page;
mod published;
mod questions;
mod searches;
mod views;
mod words;

#[cfg(test)]
mod tests;

use crate::results::Analysis;

/// `report.html`: the whole page.
pub fn html(analysis: &Analysis<'_>) -> String {
    html::write(&page::Page::of(analysis))
}

/// `report.md`: the same answers and tables.
pub fn markdown(analysis: &Analysis<'_>) -> String {
    markdown::write(&page::Page::of(analysis))
}

/// `cells.csv`: one line per cell.
pub fn csv(analysis: &Analysis<'_>) -> String {
    csv::cells(analysis)
}
