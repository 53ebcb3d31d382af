//! The cells of a run as tables for a terminal: one table per comparison, the networks side by side.
//! The report says more; this is what a reader sees first.

use std::io;

use overlane_analysis::record::{
    BackendName, CellKey, CellStatus, Feature, GroupKey, MtuClass, Setting, Test,
};
use overlane_analysis::results::{Analysis, CellFigures, Metric};
use overlane_analysis::stats::Verdict;

use crate::output::{Output, Rows, state, text};

use super::shown::machines;

/// What the last column compares with: the first of these that the run has.
const BASELINES: [BackendName; 4] = [
    BackendName::KernelVxlan,
    BackendName::Bridge,
    BackendName::OverlaneVlan,
    BackendName::Direct,
];

pub(super) fn print(analysis: &Analysis<'_>, output: Output) -> io::Result<()> {
    output.line(format!("{}\n", analysis.run.study.title))?;
    for group in &analysis.groups {
        let cells = side_by_side(analysis, *group);
        if cells.is_empty() {
            continue;
        }
        let rows = table(analysis, *group, &cells, output);
        output.section(&heading(group, &cells), &rows, "no cells")?;
        output.line("")?;
    }
    output.line(
        "mean ± half of the 95 % interval; CPU is of all hosts together; the last column is the median\n\
         ratio of the first figure, its interval, and what it says; a ! marks what the traffic tool bounds\n",
    )?;
    if analysis.tests().any(|test| test == Test::Migration) {
        output.line(
            "seconds until the last machine runs at the other host: less is better; downtime: a machine stands\n\
             still; gap: the longest time without an answer of a machine\n",
        )?;
    }
    Ok(())
}

/// The group that gives its table its place: as it comes, and of machines that move at the MTU that they are held against.
fn first_of(group: &GroupKey) -> GroupKey {
    let mut first = group.with_feature(Feature::Default);
    if group.workload.migration.is_some() {
        first.setting.mtu_class = MtuClass::Standard;
    }
    first
}

/// The cells of a group, and those that differ from it in the feature alone, or in the MTU of the links; none of those again in a
/// table of their own.
fn side_by_side<'a>(analysis: &'a Analysis<'a>, group: GroupKey) -> Vec<&'a CellFigures<'a>> {
    let first = first_of(&group);
    if first != group && analysis.groups.contains(&first) {
        return Vec::new();
    }
    let belongs = |other: &&GroupKey| **other == group || first_of(other) == group;
    let groups = analysis.groups.iter().filter(belongs);
    groups.flat_map(|other| analysis.in_group(*other)).collect()
}

/// `tcp_rr-64B-8i, standard mtu, offload on (guest MTU 1500)`
fn heading(group: &GroupKey, cells: &[&CellFigures<'_>]) -> String {
    if let Some(moving) = &group.workload.migration {
        let (what, how) = machines(group, moving);
        return format!("{}: {what}, {how}", group.workload.test);
    }
    let mut mtus: Vec<u32> = cells.iter().map(|cell| cell.cell.key.mtu()).collect();
    mtus.sort_unstable();
    mtus.dedup();
    let mtus: Vec<String> = mtus.iter().map(ToString::to_string).collect();
    format!("{group} (guest MTU {})", mtus.join("/"))
}

/// What a terminal has room for: heading, quantity, factor, digits.
fn columns(test: Test) -> [(&'static str, Metric, f64, usize); 4] {
    let underlay = ("#underlay kpps", Metric::UnderlayRate, 1e-3, 0);
    if test == Test::Migration {
        [
            ("#seconds", Metric::MigrationTime, 1.0, 2),
            ("#downtime ms", Metric::Downtime, 1.0, 0),
            ("#gap ms", Metric::FlowGap, 1.0, 0),
            ("#CPU %/Gbit/s", Metric::CpuPerGbps, 1.0, 1),
        ]
    } else if test.is_transactions() {
        [
            ("#transactions/s", Metric::Transactions, 1.0, 0),
            ("#CPU µs each", Metric::CpuPerTransaction, 1.0, 2),
            ("#p50 µs", Metric::LatencyP50, 1.0, 1),
            ("#p99 µs", Metric::LatencyP99, 1.0, 1),
        ]
    } else if test == Test::UdpGsoStream {
        [
            ("#Gbit/s", Metric::Goodput, 1.0, 2),
            ("#CPU %/Gbit/s", Metric::CpuPerGbps, 1.0, 1),
            ("#loss %", Metric::Loss, 1.0, 3),
            underlay,
        ]
    } else if test.is_packets() {
        [
            ("#kpps received", Metric::Rate, 1e-3, 1),
            ("#CPU µs each", Metric::CpuPerPacket, 1.0, 2),
            ("#loss %", Metric::Loss, 1.0, 3),
            underlay,
        ]
    } else {
        [
            ("#Gbit/s", Metric::Goodput, 1.0, 2),
            ("#CPU %/Gbit/s", Metric::CpuPerGbps, 1.0, 1),
            underlay,
            ("#bytes/packet", Metric::UnderlayPacket, 1.0, 0),
        ]
    }
}

fn table(
    analysis: &Analysis<'_>,
    group: GroupKey,
    cells: &[&CellFigures<'_>],
    output: Output,
) -> Rows {
    let columns = columns(group.workload.test);
    let baseline = BASELINES
        .into_iter()
        .find(|name| cells.iter().any(|cell| is_of(cell, *name)));
    let by_mtu = cells
        .iter()
        .any(|f| at_1500(analysis, f.cell.key).is_some());
    let ratio = match baseline {
        _ if by_mtu => "× MTU 1500".to_owned(),
        Some(name) => format!("× {name}"),
        None => String::new(),
    };
    let mut headings = vec!["NETWORK"];
    headings.extend(columns.iter().map(|(heading, ..)| *heading));
    headings.extend(["PROOF", &ratio]);
    let mut rows = output.table(&headings);
    for figures in cells {
        let cell = figures.cell;
        let mut row = vec![text(name(&cell.key))];
        let why_not = match &cell.status {
            CellStatus::Ok => None,
            CellStatus::Open if figures.samples() > 0 => None,
            CellStatus::Open => Some("not reached".to_owned()),
            CellStatus::Unavailable { reason } => Some(format!("unavailable: {reason}")),
            CellStatus::Failed { reason } => Some(format!("failed: {reason}")),
        };
        if let Some(reason) = why_not {
            row.extend(columns.iter().map(|_| text("-")));
            row.extend([text("-"), text(reason)]);
        } else {
            let bound = if by_tool(figures) { " !" } else { "" };
            row.extend(columns.iter().enumerate().map(|(place, column)| {
                let (_, metric, factor, digits) = *column;
                let mark = if place == 0 { bound } else { "" };
                text(interval(figures, metric, factor, digits) + mark)
            }));
            row.push(match cell.path_proof {
                true => state("ok", true),
                false => state("none", false),
            });
            let base = match by_mtu {
                true => at_1500(analysis, cell.key),
                false => base(analysis, cell.key, baseline),
            };
            row.push(text(against(analysis, cell.key, base)));
        }
        rows.push(row);
    }
    rows
}

/// The network, of machines that move with the MTU of the links: both stand in one table.
fn name(key: &CellKey) -> String {
    match key.group.workload.migration {
        Some(_) => format!(
            "{} {}",
            key.network_in_full(),
            key.group.setting.mtu_class.link_mtu()
        ),
        None => key.network_in_full(),
    }
}

/// The same machines over links of 1500 bytes, where they were measured.
fn at_1500(analysis: &Analysis<'_>, key: CellKey) -> Option<CellKey> {
    let other = CellKey {
        group: GroupKey {
            setting: Setting {
                mtu_class: MtuClass::Standard,
                ..key.group.setting
            },
            ..key.group
        },
        ..key
    };
    let is_other = key.group.workload.migration.is_some() && other != key;
    is_other
        .then_some(other)
        .filter(|key| analysis.cell(*key).is_some())
}

fn is_of(figures: &CellFigures<'_>, name: BackendName) -> bool {
    figures.cell.key.backend == name && figures.samples() > 0
}

/// Most of its samples say that the traffic tool did no better.
fn by_tool(figures: &CellFigures<'_>) -> bool {
    let bound = figures
        .cell
        .counted()
        .filter(|sample| sample.bound == overlane_analysis::record::Bound::Tool)
        .count();
    bound * 2 > figures.samples()
}

/// Mean and half the width of its interval over the samples that count; `-` when nothing was measured.
fn interval(figures: &CellFigures<'_>, metric: Metric, factor: f64, digits: usize) -> String {
    let Some(summary) = figures.get(metric) else {
        return "-".to_owned();
    };
    let mean = summary.mean * factor;
    match summary.ci95 {
        Some([low, high]) => {
            format!("{mean:.digits$} ± {:.digits$}", factor * (high - low) / 2.0)
        }
        None => format!("{mean:.digits$}"),
    }
}

/// What a cell is held against: the first of its network, else the baseline in the same group.
fn base(analysis: &Analysis<'_>, key: CellKey, baseline: Option<BackendName>) -> Option<CellKey> {
    let of = |name| {
        let plain = key.group.with_feature(Feature::Default).cell(name);
        match analysis.cell(plain) {
            Some(_) => plain,
            None => key.group.cell(name),
        }
    };
    match baseline {
        _ if key.copy > 0 => Some(CellKey { copy: 0, ..key }),
        Some(name) if of(name) != key => Some(of(name)),
        _ => None,
    }
}

/// `1.31 [1.24, 1.38] better`
fn against(analysis: &Analysis<'_>, key: CellKey, base: Option<CellKey>) -> String {
    let metric = Metric::primary(key.group.workload.test);
    let Some(base) = base else {
        return String::new();
    };
    // The analysis holds each pair once, the later network against the earlier one.
    let Some(compared) = analysis.comparison(key, base, metric) else {
        return String::new();
    };
    let result = &compared.result;
    let verdict = match (result.verdict, result.reason) {
        (Verdict::NotComparable, Some(why)) => {
            format!("{}: {}", result.verdict.words(), why.words())
        }
        (verdict, _) => verdict.words().to_owned(),
    };
    match (result.ratio, result.ci95) {
        (Some(ratio), Some([low, high])) => format!("{ratio:.2} [{low:.2}, {high:.2}] {verdict}"),
        (Some(ratio), None) => format!("{ratio:.2} {verdict}"),
        (None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use overlane_analysis::record::{GuestKind, Moving, Workload};

    use super::*;

    fn group(mtu_class: MtuClass, migration: Option<Moving>) -> GroupKey {
        GroupKey {
            workload: Workload {
                test: migration.map_or(Test::TcpStream, |_| Test::Migration),
                bytes: 64,
                instances: 1,
                buffer_bytes: None,
                rate_pps: None,
                rate_mbps: None,
                search: None,
                migration,
            },
            setting: Setting {
                mtu_class,
                guests: migration.map_or(GuestKind::Veth, |_| GuestKind::Qemu),
                guest_memory_mib: migration.map(|_| 256),
                ..Setting::default()
            },
        }
    }

    #[test]
    fn both_mtus_of_machines_stand_in_one_table_and_those_of_streams_in_two() {
        let moving = Some(Moving {
            dirty_percent: 40,
            dirty_mib_per_second: 20,
            links: 2,
            postcopy: true,
        });
        for (moving, one_table) in [(moving, true), (None, false)] {
            let jumbo = group(MtuClass::Jumbo, moving);
            let standard = group(MtuClass::Standard, moving);
            assert_eq!(first_of(&jumbo) == standard, one_table);
            assert_eq!(first_of(&standard), standard);
        }
        let jumbo = group(MtuClass::Jumbo, moving);
        let cell = jumbo.cell(BackendName::OverlaneVxlan);
        assert_eq!(name(&cell), "overlane-vxlan 9000");
        assert_eq!(
            heading(&jumbo, &[]),
            "migration: 1 machine of 256 MiB, 2 links, postcopy, offload on, 40 % written at 20 MiB/s"
        );
    }
}
