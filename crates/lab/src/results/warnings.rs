//! What the samples themselves give reason to warn of. A warning never changes a figure.

use crate::record::{CellKey, Run};
use crate::stats::{MIN_PAIRS, STDDEV_LIMIT_PERCENT, Summary, outliers, population_stddev_percent};

use super::analysis::{CellFigures, Metric};

/// Stolen time, in per cent of one CPU, above which a sample is no longer the machine's own.
const STEAL_LIMIT_PERCENT: f64 = 2.0;

/// Spread of the fixed piece of work above which the machine is called unsteady.
const NOISE_LIMIT_PERCENT: f64 = 10.0;

/// Warnings about the run as a whole and about each cell.
pub(super) fn from_samples(run: &Run, cells: &[CellFigures<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    if run.interrupted {
        out.push("The run was interrupted: some cells have fewer samples, or none.".to_owned());
    }
    if run.env.shared_cpus {
        out.push(
            "The two virtual hosts share a CPU: CPU per host is not measured, only the total."
                .to_owned(),
        );
    }
    for probe in run
        .env
        .noise
        .iter()
        .filter(|p| p.spread_percent > NOISE_LIMIT_PERCENT)
    {
        out.push(format!(
            "The machine was unsteady {} the run: a fixed piece of work on CPU {} spread by {:.0} %.",
            probe.when, probe.cpu, probe.spread_percent
        ));
    }
    for figures in cells.iter().filter(|figures| figures.is_ok()) {
        few(figures, &mut out);
        if !figures.cell.path_proof {
            out.push(format!(
                "{}: no proof of the path.",
                label(&figures.cell.key)
            ));
        }
        if let Some(goodput) = figures.get(Metric::Goodput) {
            spread(&figures.cell.key, goodput, &mut out);
        }
        stolen(figures, &mut out);
    }
    out
}

/// The cell in words: `overlane-vxlan, MTU 1500, 4 streams, offload on`.
pub(crate) fn label(key: &CellKey) -> String {
    let plural = if key.streams == 1 { "" } else { "s" };
    let offload = if key.offload { "on" } else { "off" };
    format!(
        "{}, MTU {}, {} stream{plural}, offload {offload}",
        key.backend, key.mtu, key.streams
    )
}

fn few(figures: &CellFigures<'_>, out: &mut Vec<String>) {
    let count = figures.samples();
    if count < MIN_PAIRS {
        let plural = if count == 1 { "" } else { "s" };
        out.push(format!(
            "{}: {count} sample{plural}; a verdict on pairs needs {MIN_PAIRS}.",
            label(&figures.cell.key)
        ));
    }
}

fn spread(key: &CellKey, goodput: &Summary, out: &mut Vec<String>) {
    if let Some(percent) = population_stddev_percent(&goodput.samples)
        && percent > STDDEV_LIMIT_PERCENT
    {
        out.push(format!(
            "{}: goodput spreads by {percent:.1} % (standard deviation; study B repeats above {STDDEV_LIMIT_PERCENT} %).",
            label(key)
        ));
    }
    for value in outliers(&goodput.samples)
        .iter()
        .filter_map(|&i| goodput.samples.get(i))
    {
        out.push(format!(
            "{}: a sample of {value:.2} Gbit/s stands far from the others; it is kept.",
            label(key)
        ));
    }
}

fn stolen(figures: &CellFigures<'_>, out: &mut Vec<String>) {
    let worst = figures
        .cell
        .counted()
        .map(|s| s.cpu.total.steal_percent)
        .fold(0.0, f64::max);
    if worst > STEAL_LIMIT_PERCENT {
        out.push(format!(
            "{}: the hypervisor took up to {worst:.0} % of a CPU away during a sample.",
            label(&figures.cell.key)
        ));
    }
}
