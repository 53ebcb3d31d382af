//! `overlane lab compare`: two results, or two networks of one, cell by cell.

use overlane_analysis::results::compare::{self, CompareReport, CompareRequest, CompareRow, Side};
use overlane_analysis::stats::Method;

use crate::args::LabCompare;
use crate::failure::Failure;
use crate::output::{Output, state, text};

pub(super) fn run(args: &LabCompare, output: Output) -> Result<(), Failure> {
    let report = compare::compare(&CompareRequest {
        a: args.a.clone(),
        b: args.b.clone(),
        networks: args.networks,
        threshold_percent: args.threshold,
    })?;
    if args.json {
        output.json(&report)?;
    } else {
        show(&report, output)?;
    }
    if report.failed {
        Err(Failure::Negative)
    } else {
        Ok(())
    }
}

fn show(report: &CompareReport, output: Output) -> std::io::Result<()> {
    let columns = [
        "CELL", "QUANTITY", "#A", "#B", "#B / A", "95 %", "#q", "VERDICT",
    ];
    let mut rows = output.table(&columns);
    for row in &report.rows {
        rows.push(vec![
            text(&row.name),
            text(row.metric),
            text(number(row.mean_a)),
            text(number(row.mean_b)),
            text(
                row.median_ratio
                    .map_or_else(none, |ratio| format!("{ratio:.3}")),
            ),
            text(
                row.ci95
                    .map_or_else(none, |[low, high]| format!("[{low:.3}, {high:.3}]")),
            ),
            text(row.q.map_or_else(none, |q| format!("{q:.3}"))),
            verdict(row),
        ]);
    }
    let heading = format!("{} held against {}", side(&report.b), side(&report.a));
    output.section(&heading, &rows, "no cell that both have measured")?;
    for warning in &report.warnings {
        output.note(warning);
    }
    for missing in &report.missing {
        output.note(format!(
            "{}: missing in the {}: {}",
            missing.name, missing.side, missing.reason
        ));
    }
    let threshold = report.threshold_percent;
    let outcome = match (report.regressions, report.missing.len()) {
        (0, 0) => "no regression".to_owned(),
        (0, missing) => format!("no regression, but {missing} cells are missing on one side"),
        (count, _) => format!("{count} regressions: worse by more than {threshold} %"),
    };
    output.line("")?;
    output.outcome(outcome, !report.failed)
}

fn side(side: &Side) -> String {
    match side.network {
        Some(network) => format!("{network} of {}", side.dir.display()),
        None => side.dir.display().to_string(),
    }
}

fn verdict(row: &CompareRow) -> comfy_table::Cell {
    if row.regression {
        state("regression", false)
    } else if row.method == Method::Unpaired {
        // Two runs: the threshold alone decides.
        text(none())
    } else {
        text(row.verdict.words())
    }
}

/// Four digits that count: quantities are from 0.01 % of loss to millions of packets.
fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return none() };
    let digits = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 10.0 => 1,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn none() -> String {
    "-".to_owned()
}
