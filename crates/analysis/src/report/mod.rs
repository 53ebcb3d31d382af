//! The report of a run: one web page, the same in Markdown, a CSV of the cells.
//!
//! ```text
//! Analysis ──► page: sections of sentences, tables and charts ──► write: HTML      (charts: draw, as inline SVG)
//!              sections, views                               └──►        Markdown  (charts: their tables)
//! ```
//!
//! Everything here turns an [`Analysis`] into text; nothing is computed but the choice of words and
//! digits. The page needs no network; its script only sorts tables.

mod answer;
mod block;
mod draw;
mod glossary;
mod names;
mod numbers;
mod page;
mod picture;
mod sections;
mod views;
mod write;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Level, Trust};

use crate::error::AnalysisError;
use crate::results::Analysis;

/// `report.html`: the whole page.
pub fn html(analysis: &Analysis<'_>) -> String {
    write::html::write(&page::Page::of(analysis))
}

/// `report.md`: the same answers and tables.
pub fn markdown(analysis: &Analysis<'_>) -> String {
    write::markdown::write(&page::Page::of(analysis))
}

/// The charts as one SVG: figure and cost of each group, side by side.
pub fn picture(analysis: &Analysis<'_>) -> Result<String, AnalysisError> {
    picture::draw(&page::Report::of(analysis)).ok_or(AnalysisError::NothingToDraw)
}

/// `cells.csv`: one line per cell.
pub fn csv(analysis: &Analysis<'_>) -> String {
    write::csv::cells(analysis)
}
