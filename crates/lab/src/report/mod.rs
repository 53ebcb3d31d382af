//! The report of a run: one web page, the same in Markdown, a CSV of the cells.
//!
//! Everything here turns an [`Analysis`] into text; nothing is computed but the choice of words and
//! digits. The page needs no network and no script.

mod answers;
mod csv;
mod html;
mod markdown;
mod markup;
mod numbers;
mod published;
mod ratios;
mod scale;
mod sections;
mod svg;
mod tables;
mod words;

#[cfg(test)]
mod tests;

use crate::results::Analysis;

/// `report.html`: the whole page.
pub fn html(analysis: &Analysis<'_>) -> String {
    html::page(analysis)
}

/// `report.md`: the same answers and tables.
pub fn markdown(analysis: &Analysis<'_>) -> String {
    markdown::page(analysis)
}

/// `cells.csv`: one line per cell.
pub fn csv(analysis: &Analysis<'_>) -> String {
    csv::cells(analysis)
}
