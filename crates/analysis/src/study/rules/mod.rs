//! What the types allow and no laboratory can measure: each rule names the key that breaks it and what would do.
//!
//! [`matrix`] looks at what is measured, [`report`] at what is shown of it.

mod matrix;
mod report;

pub(super) use matrix::least_frame_bytes;

use super::check::Found;
use super::{Study, tree};

/// Everything that is wrong with a study whose form is right.
pub(super) fn broken(study: &Study) -> Vec<Found> {
    let mut found = Vec::new();
    name(&study.name, &mut found);
    for (key, text) in [("title", &study.title), ("question", &study.question)] {
        if text.trim().is_empty() {
            found.push(Found::of(key, "it is empty", "write a sentence"));
        }
    }
    found.extend(unmeasurable(study));
    // Cells are looked up in both matrices: they have to be in order, and not too many.
    if found.is_empty() {
        report::look(study, &mut found);
    }
    found
}

/// What is wrong with its matrices.
pub(super) fn unmeasurable(study: &Study) -> Vec<Found> {
    let mut found = Vec::new();
    matrix::look("matrix", &study.matrix, &mut found);
    matrix::look("quick", &study.quick, &mut found);
    found
}

/// A result folder is named after the study.
fn name(name: &str, found: &mut Vec<Found>) {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inside = |c: char| plain(c) || matches!(c, '-' | '_' | '.');
    if !name.starts_with(plain) || !name.chars().all(inside) || name.len() > 63 {
        found.push(Found::of(
            "name",
            format!("`{}` is no plain word", tree::shown(name)),
            "write 1 to 63 of a-z, 0-9, `-`, `_` and `.`, the first a letter or digit",
        ));
    }
}
