//! What the samples themselves give reason to warn of. A warning never changes a figure.

use super::cell::CellFigures;
use super::foreign::ForeignLoad;
use super::metric::Metric;
use crate::record::{CellKey, Finding, NoiseProbe, Run, Warning};
use crate::stats::{MIN_PAIRS, STDDEV_LIMIT_PERCENT, outliers, population_stddev_percent};
use crate::study::Repeat;

/// Stolen time, in per cent of one CPU, above which a sample is no longer the machine's own.
const STEAL_LIMIT_PERCENT: f64 = 2.0;

/// Spread of the fixed piece of work above which the machine is called unsteady.
const NOISE_LIMIT_PERCENT: f64 = 10.0;

/// A change of the median between before and after above this is worth a warning.
const SPEED_LIMIT_PERCENT: f64 = 5.0;

/// Cells of which the same is said are named up to this number; more are counted.
const NAMED: usize = 6;

/// Warnings about the run as a whole and about its cells.
pub(super) fn from_samples(run: &Run, cells: &[CellFigures<'_>]) -> Vec<Warning> {
    let mut out = of_the_run(run);
    let measured: Vec<_> = cells.iter().filter(|figures| figures.is_ok()).collect();
    let rule = run.matrix().repeat;
    for find in [
        few,
        unproven,
        unexplained,
        corrupt,
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

/// Other programs ran beside the samples.
pub(super) fn of_foreign(load: &ForeignLoad) -> Warning {
    Warning::ForeignLoad {
        percent: load.percent,
        programs: load.programs.clone(),
        taken_again: load.taken_again,
        marked: load.marked,
        counted: load.counted,
    }
}

/// What is found of one cell.
struct Found<'a> {
    finding: Finding,
    cell: &'a CellKey,
    /// `3 samples; …`
    detail: String,
}

/// One warning a cell; beyond a handful, one for all, so that no warning drowns in its like.
fn together(found: Vec<Found<'_>>) -> Vec<Warning> {
    let Some(first) = found.first().filter(|_| found.len() > NAMED) else {
        let one = |f: Found<'_>| Warning::Cell {
            finding: f.finding,
            cell: *f.cell,
            detail: f.detail,
        };
        return found.into_iter().map(one).collect();
    };
    vec![Warning::Cells {
        finding: first.finding,
        count: found.len(),
        example: *first.cell,
        detail: first.detail.clone(),
    }]
}

fn of_the_run(run: &Run) -> Vec<Warning> {
    let mut out = Vec::new();
    if run.interrupted {
        out.push(Warning::Interrupted);
    }
    if run.env.shared_cpus {
        out.push(Warning::SharedCpus);
    }
    out.extend(unsteady(&run.env.noise));
    out.extend(changed_speed(&run.env.noise));
    out
}

/// The widest spread of a probe, if it is too wide.
fn unsteady(probes: &[NoiseProbe]) -> Option<Warning> {
    let widest = probes
        .iter()
        .max_by(|a, b| a.spread_percent.total_cmp(&b.spread_percent))?;
    (widest.spread_percent > NOISE_LIMIT_PERCENT).then(|| Warning::Unsteady {
        when: widest.when.clone(),
        cpu: widest.cpu,
        spread_percent: widest.spread_percent,
    })
}

/// The CPU whose speed changed most between the probes before and after, if it changed too much.
fn changed_speed(probes: &[NoiseProbe]) -> Option<Warning> {
    let befores = probes.iter().filter(|probe| probe.when == "before");
    let changes = befores.filter_map(|before| {
        let after = probes
            .iter()
            .find(|probe| probe.when == "after" && probe.cpu == before.cpu)?;
        let slower_percent = 100.0 * (after.median_us - before.median_us) / before.median_us;
        Some((before.cpu, slower_percent))
    });
    let (cpu, slower_percent) = changes.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    (slower_percent.abs() > SPEED_LIMIT_PERCENT).then_some(Warning::SpeedChanged {
        cpu,
        slower_percent,
    })
}

fn found<'a>(figures: &CellFigures<'a>, finding: Finding, detail: String) -> Found<'a> {
    Found {
        finding,
        cell: &figures.cell.key,
        detail,
    }
}

fn few<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
    let count = figures.samples();
    if count >= MIN_PAIRS {
        return None;
    }
    let plural = if count == 1 { "" } else { "s" };
    let detail = format!("{count} sample{plural}; a verdict on pairs needs {MIN_PAIRS}.");
    Some(found(figures, Finding::FewSamples, detail))
}

fn unproven<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
    let detail = "no proof of the path.".to_owned();
    (!figures.cell.path_proof).then(|| found(figures, Finding::NoPathProof, detail))
}

fn unexplained<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
    let accounting = figures.accounting.as_ref().filter(|a| a.unexplained != 0)?;
    let detail = format!(
        "{} of {} packets are neither received nor in any counter on the path.",
        accounting.unexplained, accounting.sent
    );
    Some(found(figures, Finding::UnexplainedPackets, detail))
}

fn corrupt<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
    let accounting = figures.accounting.as_ref().filter(|a| a.corrupt != 0)?;
    let detail = format!(
        "{} of {} datagrams arrived with another length than they were sent with, or without their number.",
        accounting.corrupt, accounting.sent
    );
    Some(found(figures, Finding::DamagedDatagrams, detail))
}

fn spread<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
    let percent = population_stddev_percent(&figures.primary()?.samples)
        .filter(|percent| *percent > STDDEV_LIMIT_PERCENT)?;
    let key = primary(figures).key();
    let detail = format!(
        "{key} spreads by {percent:.1} % (standard deviation; study B repeats above {STDDEV_LIMIT_PERCENT} %)."
    );
    Some(found(figures, Finding::WideSpread, detail))
}

fn far_off<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
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
    Some(found(figures, Finding::FarSamples, detail))
}

fn stolen<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
    let steal = figures.cell.counted().map(|s| s.cpu.total.steal_percent);
    let worst = steal.fold(0.0, f64::max);
    let detail = format!("the hypervisor took up to {worst:.0} % of a CPU away during a sample.");
    (worst > STEAL_LIMIT_PERCENT).then(|| found(figures, Finding::StolenTime, detail))
}

fn irregular<'a>(figures: &CellFigures<'a>) -> Option<Found<'a>> {
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
    Some(found(figures, Finding::IrregularSearch, detail))
}

fn unmet<'a>(figures: &CellFigures<'a>, rule: Option<Repeat>) -> Option<Found<'a>> {
    let rule = rule.filter(|_| figures.rule_met == Some(false))?;
    let detail = match rule {
        Repeat::Within { set, percent, .. } => {
            let tried = figures.sets.len();
            format!("none of {tried} sets of {set} samples is within {percent} %.")
        }
        Repeat::Confidence { width_percent, .. } => {
            let widths = figures.precision.iter().flat_map(|p| &p.widths_percent);
            let widths: Vec<String> = widths
                .map(|(key, width)| match width {
                    Some(width) => format!("{key} {width:.1} %"),
                    None => format!("{key} unknown"),
                })
                .collect();
            format!(
                "intervals are wider than {width_percent} %: {}.",
                widths.join(", ")
            )
        }
    };
    Some(found(figures, Finding::RuleNotMet, detail))
}

fn primary(figures: &CellFigures<'_>) -> Metric {
    Metric::primary(figures.cell.key.group.workload.test)
}
