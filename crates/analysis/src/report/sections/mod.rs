//! The sections of the page, a file each.

pub(super) mod accounting;
pub(super) mod answers;
pub(super) mod cells;
pub(super) mod charts;
pub(super) mod comparisons;
pub(super) mod cpus;
pub(super) mod footing;
pub(super) mod heat;
pub(super) mod host;
pub(super) mod latency;
pub(super) mod published;
pub(super) mod questions;
pub(super) mod searches;
pub(super) mod sizes;
pub(super) mod unmeasured;
