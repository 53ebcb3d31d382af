//! How a page becomes text: HTML and Markdown; and the cells as CSV.

pub(super) mod csv;
pub(super) mod html;
pub(super) mod markdown;
pub(super) mod markup;
