//! How a page becomes text: HTML and Markdown; and the cells as CSV.

/// Colours and charts: in the page, and in a picture that stands by itself.
pub(super) const CHART_STYLE: &str = include_str!("chart.css");

pub(super) mod csv;
pub(super) mod html;
pub(super) mod markdown;
pub(super) mod markup;
