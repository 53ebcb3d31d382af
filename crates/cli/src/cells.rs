//! The cells of a run as tables for a terminal: one table per comparison, the networks side by side.
//! The report says more; this is what a reader sees first.

use std::io;

use overlane_lab::record::{BackendName, Cell, CellStatus, GroupKey, Run, Sample};
use overlane_lab::stats::{Better, Summary, Verdict, compare};

use crate::output::{Output, Rows, state, text};

/// What the last column compares with.
const BASELINE: BackendName = BackendName::KernelVxlan;

pub(crate) fn print(run: &Run, output: Output) -> io::Result<()> {
    output.line(format!("{}\n", run.study.title))?;
    for group in groups(run) {
        let cells: Vec<&Cell> = run
            .cells
            .iter()
            .filter(|cell| cell.key.group() == group)
            .collect();
        output.section(&heading(&group, &cells), &table(&cells, output), "no cells")?;
        output.line("")?;
    }
    output.line(
        "mean ± half of the 95 % interval; CPU is % of one CPU, both hosts together; the last\n\
         column is the median of paired ratios of the goodput, its interval, and what it says\n",
    )
}

/// The comparisons, in the order of the plan.
fn groups(run: &Run) -> Vec<GroupKey> {
    let mut groups: Vec<GroupKey> = Vec::new();
    for cell in &run.cells {
        let group = cell.key.group();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// `MTU 1500, 4 streams, offload on`
fn heading(group: &GroupKey, cells: &[&Cell]) -> String {
    let mut mtus: Vec<u32> = cells.iter().map(|cell| cell.key.mtu).collect();
    mtus.sort_unstable();
    mtus.dedup();
    let mtus: Vec<String> = mtus.iter().map(ToString::to_string).collect();
    let streams = if group.streams == 1 {
        "stream"
    } else {
        "streams"
    };
    let offload = if group.offload {
        "on"
    } else {
        "off (the wire segments)"
    };
    format!(
        "MTU {}, {} {streams}, offload {offload}",
        mtus.join("/"),
        group.streams
    )
}

fn table(cells: &[&Cell], output: Output) -> Rows {
    let ratio = format!("× {BASELINE}");
    let columns = [
        "NETWORK",
        "#Gbit/s",
        "#CPU %/Gbit/s",
        "#kpps",
        "#bytes/packet",
        "PROOF",
        &ratio,
    ];
    let mut rows = output.table(&columns);
    let baseline = cells
        .iter()
        .find(|cell| cell.key.backend == BASELINE)
        .map(|cell| goodput(cell));
    for cell in cells {
        let network = text(cell.key.backend);
        let reason = match &cell.status {
            CellStatus::Ok => {
                let ratio = baseline
                    .as_deref()
                    .map_or_else(String::new, |base| against(cell, base));
                rows.push(vec![
                    network,
                    text(interval(cell, 2, |sample| Some(sample.goodput_gbps))),
                    text(interval(cell, 1, |sample| sample.cpu_percent_per_gbps.sum)),
                    text(interval(cell, 0, |sample| {
                        Some(sample.underlay_rate_pps / 1000.0)
                    })),
                    text(interval(cell, 0, |sample| sample.underlay_packet_bytes)),
                    if cell.path_proof {
                        state("ok", true)
                    } else {
                        state("none", false)
                    },
                    text(ratio),
                ]);
                continue;
            }
            CellStatus::Unavailable { reason } => format!("unavailable: {reason}"),
            CellStatus::Failed { reason } => format!("failed: {reason}"),
        };
        let mut row = vec![network];
        row.extend((1..columns.len() - 1).map(|_| text("-")));
        row.push(text(reason));
        rows.push(row);
    }
    rows
}

/// Mean and half the width of its interval over the samples that count; `-` when nothing was measured.
fn interval(cell: &Cell, digits: usize, value: impl Fn(&Sample) -> Option<f64>) -> String {
    let Some(summary) = Summary::of(cell.counted().filter_map(value)) else {
        return "-".to_owned();
    };
    match summary.ci95 {
        Some([low, high]) => format!(
            "{:.digits$} ± {:.digits$}",
            summary.mean,
            (high - low) / 2.0
        ),
        None => format!("{:.digits$}", summary.mean),
    }
}

fn goodput(cell: &Cell) -> Vec<(u32, f64)> {
    cell.counted()
        .map(|sample| (sample.round, sample.goodput_gbps))
        .collect()
}

/// `1.31 [1.24, 1.38] better`
fn against(cell: &Cell, baseline: &[(u32, f64)]) -> String {
    if cell.key.backend == BASELINE {
        return String::new();
    }
    let comparison = compare(&goodput(cell), baseline, Better::Higher);
    match (comparison.ratio, comparison.ci95, comparison.verdict) {
        (Some(ratio), Some([low, high]), verdict) => {
            format!("{ratio:.2} [{low:.2}, {high:.2}] {}", verdict.words())
        }
        (Some(ratio), None, _) => format!("{ratio:.2} {}", Verdict::CannotTell.words()),
        (None, ..) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use overlane_lab::record::{CellKey, Cpu, CpuPerGbps, CpuUse};

    use super::*;

    fn cell(backend: BackendName, goodput: &[f64]) -> Cell {
        let key = CellKey {
            backend,
            mtu: 1500,
            streams: 4,
            offload: true,
        };
        let mut cell = Cell::empty(key, CellStatus::Ok);
        cell.path_proof = true;
        cell.samples = (1..)
            .zip(goodput)
            .map(|(round, &gbps)| sample(key, round, gbps))
            .collect();
        cell
    }

    fn sample(cell: CellKey, round: u32, goodput_gbps: f64) -> Sample {
        let total = CpuUse {
            busy_percent: 100.0,
            steal_percent: 0.0,
            user_percent: None,
            system_percent: None,
            softirq_percent: None,
        };
        Sample {
            cell,
            round,
            started_unix_ms: 0,
            seconds: 1.5,
            discarded: None,
            goodput_gbps,
            retransmits: None,
            window_seconds: 1.5,
            underlay_packets: 1000,
            underlay_bytes: 1_500_000,
            underlay_rate_pps: 2000.0,
            underlay_packet_bytes: None,
            cpu: Cpu {
                sender: None,
                receiver: None,
                total,
            },
            cpu_percent_per_gbps: CpuPerGbps {
                sender: None,
                receiver: None,
                sum: Some(4.0),
            },
        }
    }

    #[test]
    fn networks_stand_side_by_side() {
        let base = cell(BASELINE, &[10.0; 6]);
        let ours = cell(BackendName::OverlaneVxlan, &[13.0; 6]);
        let reason = "openvswitch-switch is not installed".to_owned();
        let missing = Cell::empty(
            CellKey {
                backend: BackendName::OvsVxlan,
                ..base.key
            },
            CellStatus::Unavailable { reason },
        );
        let cells = [&base, &ours, &missing];
        assert_eq!(
            heading(&base.key.group(), &cells),
            "MTU 1500, 4 streams, offload on"
        );

        let text = table(&cells, Output::plain()).render();
        let line = |network: &str| text.lines().find(|line| line.starts_with(network)).unwrap();
        assert!(line("kernel-vxlan").contains("10.00 ± 0.00"), "{text}");
        assert!(
            line("overlane-vxlan").ends_with("1.30 [1.30, 1.30] better"),
            "{text}"
        );
        assert!(line("ovs-vxlan").ends_with("unavailable: openvswitch-switch is not installed"));
        // Packet size was not measured: never 0.
        assert!(line("overlane-vxlan").contains("  - "), "{text}");
    }
}
