//! A summary for a terminal: one plain table per group, no colour; the last line names the report.

use std::fmt::Write;
use std::path::Path;

use crate::results::{Analysis, CellFigures, Metric, status};

use super::answers::in_short;
use super::numbers::{interval, mean};
use super::words::group_title;

const HEADER: [&str; 6] = [
    "network",
    "Gbit/s",
    "CPU %/Gbit/s",
    "kpps",
    "bytes/packet",
    "path proof",
];

/// The summary.
pub(super) fn summary(analysis: &Analysis<'_>, report: &Path) -> String {
    let mut out = format!("{}\n\n", clean(&analysis.run.study.title));
    for &group in &analysis.groups {
        out += &group_title(group);
        out.push('\n');
        table(&mut out, analysis.in_group(group).map(row));
        out.push('\n');
    }
    if let Some(text) = in_short(analysis) {
        out += &text;
        out.push('\n');
    }
    if !analysis.warnings.is_empty() {
        let _ = writeln!(out, "{} warnings, see the report.", analysis.warnings.len());
    }
    let _ = write!(out, "report: {}", report.display());
    out
}

fn row(figures: &CellFigures<'_>) -> Vec<String> {
    let name = figures.cell.key.backend.to_string();
    if let (word, Some(reason)) = status(&figures.cell.status) {
        return vec![name, format!("{word}: {}", clean(reason))];
    }
    let text = |metric| {
        let summary = figures.get(metric);
        format!("{} {}", mean(metric, summary), interval(metric, summary))
            .trim_end()
            .to_owned()
    };
    let short = |metric| mean(metric, figures.get(metric));
    let proof = if figures.cell.path_proof { "yes" } else { "no" };
    vec![
        name,
        text(Metric::Goodput),
        text(Metric::CpuPerGbps),
        short(Metric::UnderlayRate),
        short(Metric::UnderlayPacket),
        proof.to_owned(),
    ]
}

/// Columns as wide as their widest field; a row with a reason in place of figures runs over them.
fn table(out: &mut String, rows: impl Iterator<Item = Vec<String>>) {
    let mut all = vec![HEADER.map(str::to_owned).to_vec()];
    all.extend(rows);
    let figures = || all.iter().filter(|row| row.len() == HEADER.len());
    let width = |i: usize| {
        figures()
            .filter_map(|r| r.get(i))
            .map(|f| f.chars().count())
            .max()
    };
    let name = all
        .iter()
        .filter_map(|r| r.first())
        .map(|f| f.chars().count())
        .max();
    let widths: Vec<usize> = (0..HEADER.len())
        .map(|i| if i == 0 { name } else { width(i) }.unwrap_or(0))
        .collect();
    for row in &all {
        let mut line = String::from(" ");
        for (i, (field, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match i {
                0 => write!(line, " {field:<width$}"),
                _ if row.len() == HEADER.len() => write!(line, "  {field:>width$}"),
                _ => write!(line, "  {field}"),
            };
        }
        *out += line.trim_end();
        out.push('\n');
    }
}

/// Text from outside without characters that would steer the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
