//! What the samples themselves give reason to warn of. A warning never changes a figure.

use super::cell::CellFigures;
use super::metric::Metric;
use crate::record::{Bound, Run};
use crate::stats::{
    MIN_PAIRS, MIN_SIDE, STDDEV_LIMIT_PERCENT, outliers, population_stddev_percent,
};
use crate::study::Repeat;

/// Stolen time, in per cent of one CPU, above which a sample is no longer the machine's own.
const STEAL_LIMIT_PERCENT: f64 = 2.0;

/// Spread of the fixed piece of work above which the machine is called unsteady.
const NOISE_LIMIT_PERCENT: f64 = 10.0;

/// Cells of which the same is said are named up to this number; more are counted.
const NAMED: usize = 6;

/// Warnings about the run as a whole and about its cells.
pub(super) fn from_samples(run: &Run, cells: &[CellFigures<'_>]) -> Vec<String> {
    let mut out = of_the_run(run);
    let measured: Vec<_> = cells.iter().filter(|figures| figures.is_ok()).collect();
    let rule = run.matrix().repeat;
    for find in [
        few,
        unproven,
        unexplained,
        corrupt,
        alone,
        spread,
        far_off,
        stolen,
        irregular,
    ] {
        let found = measured
            .iter()
            .filter_map(|figures| find(figures))
            .collect();
        out.extend(together(found));
    }
    out.extend(together(
        measured
            .iter()
            .filter_map(|figures| unmet(figures, rule))
            .collect(),
    ));
    out
}

/// What is found of one cell: in general, and of this one.
struct Found {
    /// `fewer than 6 samples`: what many cells have in common.
    kind: String,
    cell: String,
    /// `3 samples; …`
    detail: String,
}

/// One sentence a cell; beyond a handful, one for all, so that no warning drowns in its like.
fn together(found: Vec<Found>) -> Vec<String> {
    let Some(first) = found.first().filter(|_| found.len() > NAMED) else {
        let line = |f: Found| format!("{}: {}", f.cell, f.detail);
        return found.into_iter().map(line).collect();
    };
    vec![format!(
        "{} cells: {}. For example {}: {}",
        found.len(),
        first.kind,
        first.cell,
        first.detail
    )]
}

fn of_the_run(run: &Run) -> Vec<String> {
    let mut out = Vec::new();
    if run.interrupted {
        out.push("The run was interrupted: some cells have fewer samples, or none.".to_owned());
    }
    if run.env.shared_cpus {
        out.push(
            "The virtual hosts share a CPU: CPU per host is not measured, only the total."
                .to_owned(),
        );
    }
    let unsteady = |spread: f64| spread > NOISE_LIMIT_PERCENT;
    for probe in run.env.noise.iter().filter(|p| unsteady(p.spread_percent)) {
        out.push(format!(
            "The machine was unsteady {} the run: a fixed piece of work on CPU {} spread by {:.0} %.",
            probe.when, probe.cpu, probe.spread_percent
        ));
    }
    out
}

fn found(figures: &CellFigures<'_>, kind: impl Into<String>, detail: String) -> Found {
    Found {
        kind: kind.into(),
        cell: figures.cell.key.to_string(),
        detail,
    }
}

fn few(figures: &CellFigures<'_>) -> Option<Found> {
    let count = figures.samples();
    if count >= MIN_PAIRS {
        return None;
    }
    let plural = if count == 1 { "" } else { "s" };
    let kind = format!(
        "fewer than {MIN_PAIRS} samples; a verdict needs {MIN_PAIRS} pairs, or {MIN_SIDE} samples a side where they are no pairs"
    );
    let detail = format!("{count} sample{plural}; a verdict on pairs needs {MIN_PAIRS}.");
    Some(found(figures, kind, detail))
}

fn unproven(figures: &CellFigures<'_>) -> Option<Found> {
    let detail = "no proof of the path.".to_owned();
    (!figures.cell.path_proof).then(|| found(figures, "no proof of the path", detail))
}

fn unexplained(figures: &CellFigures<'_>) -> Option<Found> {
    let accounting = figures.accounting.as_ref().filter(|a| a.unexplained != 0)?;
    let detail = format!(
        "{} of {} packets are neither received nor in any counter on the path.",
        accounting.unexplained, accounting.sent
    );
    Some(found(figures, "packets that no counter explains", detail))
}

fn corrupt(figures: &CellFigures<'_>) -> Option<Found> {
    let accounting = figures.accounting.as_ref().filter(|a| a.corrupt != 0)?;
    let detail = format!(
        "{} of {} datagrams arrived with another length than they were sent with, or without their number.",
        accounting.corrupt, accounting.sent
    );
    Some(found(figures, "datagrams that arrived damaged", detail))
}

fn alone(figures: &CellFigures<'_>) -> Option<Found> {
    let ceiling = figures
        .ceiling_percent()
        .map_or_else(String::new, |percent| {
            format!(" ({percent:.0} % of what it reaches without a network)")
        });
    let detail = format!("the traffic tool was the bound, not the network{ceiling}.");
    (figures.bound == Bound::Tester).then(|| {
        found(
            figures,
            "the traffic tool was the bound, not the network",
            detail,
        )
    })
}

fn spread(figures: &CellFigures<'_>) -> Option<Found> {
    let percent = population_stddev_percent(&figures.primary()?.samples)
        .filter(|percent| *percent > STDDEV_LIMIT_PERCENT)?;
    let key = primary(figures).key();
    let detail = format!(
        "{key} spreads by {percent:.1} % (standard deviation; study B repeats above {STDDEV_LIMIT_PERCENT} %)."
    );
    let kind = format!("the figure spreads by more than {STDDEV_LIMIT_PERCENT} %");
    Some(found(figures, kind, detail))
}

fn far_off(figures: &CellFigures<'_>) -> Option<Found> {
    let row = primary(figures).row(figures.cell);
    let values: Vec<f64> = row.iter().map(|&(_, value)| value).collect();
    let far: Vec<String> = outliers(&values)
        .into_iter()
        .filter_map(|i| row.get(i))
        .map(|(round, value)| format!("{value:.2} in round {round}"))
        .collect();
    let (noun, verb, kept) = match far.len() {
        0 => return None,
        1 => ("a sample", "stands", "it is"),
        _ => ("samples", "stand", "they are"),
    };
    let detail = format!(
        "{noun} of {} ({}) {verb} far from the others; {kept} kept.",
        far.join(", "),
        primary(figures).key()
    );
    Some(found(
        figures,
        "samples that stand far from the others, and are kept",
        detail,
    ))
}

fn stolen(figures: &CellFigures<'_>) -> Option<Found> {
    let steal = figures.cell.counted().map(|s| s.cpu.total.steal_percent);
    let worst = steal.fold(0.0, f64::max);
    let detail = format!("the hypervisor took up to {worst:.0} % of a CPU away during a sample.");
    let kind = format!(
        "the hypervisor took more than {STEAL_LIMIT_PERCENT} % of a CPU away during a sample"
    );
    (worst > STEAL_LIMIT_PERCENT).then(|| found(figures, kind, detail))
}

fn irregular(figures: &CellFigures<'_>) -> Option<Found> {
    let reason = |(round, record): (u32, &crate::record::SearchRecord)| {
        let why = record
            .outcome
            .goals
            .iter()
            .find_map(|goal| goal.why_irregular.clone())?;
        Some((round, why))
    };
    let (round, why) = figures.searches().find_map(reason)?;
    let detail = format!("the search of round {round} ended without a regular result: {why}");
    Some(found(
        figures,
        "a search ended without a regular result",
        detail,
    ))
}

fn unmet(figures: &CellFigures<'_>, rule: Option<Repeat>) -> Option<Found> {
    let rule = rule.filter(|_| figures.rule_met == Some(false))?;
    let (kind, detail) = match rule {
        Repeat::Within { set, percent, .. } => {
            let kind = format!("no set of {set} samples within {percent} %");
            let tried = figures.sets.len();
            (
                kind,
                format!("none of {tried} sets of {set} samples is within {percent} %."),
            )
        }
        Repeat::Confidence { width_percent, .. } => {
            let widths = figures.precision.iter().flat_map(|p| &p.widths_percent);
            let widths: Vec<String> = widths
                .map(|(key, width)| match width {
                    Some(width) => format!("{key} {width:.1} %"),
                    None => format!("{key} unknown"),
                })
                .collect();
            let kind = format!("intervals wider than the {width_percent} % that the study wants");
            let widths = widths.join(", ");
            (
                kind,
                format!("intervals are wider than {width_percent} %: {widths}."),
            )
        }
    };
    Some(found(figures, kind, detail))
}

fn primary(figures: &CellFigures<'_>) -> Metric {
    Metric::primary(figures.cell.key.group.workload.test)
}
