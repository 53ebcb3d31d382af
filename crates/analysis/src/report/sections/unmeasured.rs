//! What a reader has to know before believing the figures: cells without any, warnings, samples that do not count.

use crate::results::{Metric, status};

use crate::report::block::{Block, Field, Line, Row, Table};
use crate::report::numbers::{NONE, unit, utc, value};
use crate::report::page::Report;

/// Cells that are unavailable, failed, or whose turn has not come, with the reason.
pub(in crate::report) fn cells(r: &Report<'_>) -> Vec<Block> {
    let missing: Vec<_> = r
        .analysis
        .cells
        .iter()
        .filter(|figures| !figures.is_ok())
        .collect();
    if missing.is_empty() {
        return vec![Block::text(
            "Nothing: every cell of the matrix was measured.",
        )];
    }
    let rows = missing.into_iter().map(|figures| {
        let key = figures.cell.key;
        let (word, reason) = status(&figures.cell.status);
        let kept = match figures.samples() {
            0 => String::new(),
            count => format!("{count} samples are kept"),
        };
        Row::of([
            Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
            Field::text(r.names.group(&key.group)),
            Field::text(word).small(kept),
            Field::wide(reason.unwrap_or("its turn has not come")),
        ])
    });
    let table = Table::new(
        "Cells without figures, or not all of them",
        &["Network", "Setting", "Status", "Reason"],
    );
    vec![Block::Table(table.with(rows))]
}

/// The run's warnings.
pub(in crate::report) fn warnings(r: &Report<'_>) -> Vec<Block> {
    let warnings = &r.analysis.warnings;
    if warnings.is_empty() {
        return vec![Block::text("None.")];
    }
    vec![Block::List(
        warnings
            .iter()
            .map(|text| Line::of(format!("⚠ {text}")))
            .collect(),
    )]
}

/// Samples that were taken and do not count.
pub(in crate::report) fn discarded(r: &Report<'_>) -> Vec<Block> {
    let discarded = &r.analysis.discarded;
    if discarded.is_empty() {
        return vec![Block::text("None.")];
    }
    let rows = discarded.iter().map(|d| {
        let key = d.sample.cell;
        let metric = Metric::primary(key.group.workload.test);
        let figure = metric.of(d.sample);
        let text = figure.map_or(NONE.to_owned(), |v| {
            format!("{} {}", value(metric, v), unit(metric))
        });
        Row::of([
            Field::text(r.names.cell(&key)).to(r.names.anchor(&key)),
            Field::count(d.sample.round.into()),
            Field::text(utc(d.sample.started_unix_ms)),
            Field::number(text, figure),
            Field::wide(d.reason.to_string()),
        ])
    });
    let table = Table::new(
        "Discarded samples",
        &["Cell", "#Round", "Begun", "#Figure", "Why"],
    );
    vec![
        Block::text("Taken, kept in samples.ndjson, and not counted in any figure."),
        Block::Folded(
            format!("{} samples", discarded.len()),
            vec![Block::Table(table.with(rows))],
        ),
    ]
}
