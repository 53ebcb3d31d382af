//! Machines that moved: how long it took, how long they stood still, and what their flows noticed.

use crate::report::block::Block;
use crate::report::page::Report;

/// The section.
pub(super) fn blocks(_r: &Report<'_>) -> Vec<Block> {
    Vec::new()
}
