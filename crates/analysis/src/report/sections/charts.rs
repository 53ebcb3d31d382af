//! Figures beside what they cost, and packets on the underlay: bars of every measured cell, group by group.

use crate::record::{BackendName, Encapsulation, Family, GroupKey};
use crate::results::{CellFigures, Metric};

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Bar, Bars, Drawing};
use crate::report::numbers::{NONE, heading, interval, mean, unit, value};
use crate::report::page::Report;
use crate::report::sections::heat::caption;

/// The figure of each test beside its cost.
pub(in crate::report) fn figures(r: &Report<'_>) -> Vec<Block> {
    let blocks = r.by_group(
        |_| true,
        |group| {
            let test = group.workload.test;
            let all = [Metric::primary(test), Metric::cost(test)].into_iter();
            group_charts(
                r,
                group,
                all.filter_map(|metric| bars(r, group, metric)).collect(),
            )
        },
    );
    let hint = "Bars are means with the 95 % interval and the samples as dots; with fewer than five samples there are only the \
                dots, and a stroke at their mean. Each chart has its own scale.";
    with_hint(hint, blocks)
}

/// Packet rate and mean packet size on the underlay: what explains the rest.
pub(in crate::report) fn underlay(r: &Report<'_>) -> Vec<Block> {
    let metrics = [Metric::UnderlayRate, Metric::UnderlayPacket];
    let blocks = r.by_group(
        |_| true,
        |group| {
            group_charts(
                r,
                group,
                metrics
                    .into_iter()
                    .filter_map(|metric| bars(r, group, metric))
                    .collect(),
            )
        },
    );
    let hint = "Counted where the packets leave the sending host (for the direct cable: the sending guest), headers of the overlay \
                included; for machines that move, on the links. With offload on, one packet may be a super-packet of up to 64 kB.";
    with_hint(hint, blocks)
}

fn with_hint(hint: &str, blocks: Vec<Block>) -> Vec<Block> {
    if blocks.is_empty() {
        return blocks;
    }
    std::iter::once(Block::Hint(hint.to_owned()))
        .chain(blocks)
        .collect()
}

/// The charts of a group under its name; nothing without charts.
pub(in crate::report) fn group_charts(
    r: &Report<'_>,
    group: GroupKey,
    charts: Vec<Chart>,
) -> Vec<Block> {
    if charts.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading(r.names.group(&group)), Block::Charts(charts)]
}

/// One bar for each measured cell of a group.
pub(in crate::report) fn bars(r: &Report<'_>, group: GroupKey, metric: Metric) -> Option<Chart> {
    let cells = r.measured(group);
    if !cells.iter().any(|f| f.get(metric).is_some()) {
        return None;
    }
    let rows: Vec<Bar> = cells
        .iter()
        .map(|f| Bar {
            name: f.cell.key.network(),
            backend: f.cell.key.backend,
            summary: f.get(metric).cloned(),
            mark: headers(r, f).filter(|_| metric == Metric::Goodput),
        })
        .collect();
    let is_primary = metric == Metric::primary(group.workload.test);
    let tool = cells
        .iter()
        .find_map(|f| f.reference)
        .filter(|_| is_primary);
    let id = format!("chart-{}-{}", metric.key(), place(r, group));
    let title = format!("{}, {}", caption(metric), r.names.group(&group));
    Some(Chart {
        id,
        words: words(&cells, metric),
        hint: direction(metric).to_owned(),
        table: table(r, &title, &cells, metric),
        title,
        drawing: Drawing::Bars(Bars {
            metric,
            rows,
            limit: tool.map(|limit| (limit, "the traffic tool without a network")),
        }),
    })
}

/// The place of a group among the groups of the run, for anchors.
pub(in crate::report) fn place(r: &Report<'_>, group: GroupKey) -> usize {
    r.analysis
        .groups
        .iter()
        .position(|g| *g == group)
        .unwrap_or_default()
}

const fn direction(metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput | Metric::Transactions | Metric::Rate => "more is better",
        Metric::UnderlayRate
        | Metric::UnderlayPacket
        | Metric::UnderlayPackets
        | Metric::UnderlayBytes => "explains the figures",
        _ => "less is better",
    }
}

/// The chart in words, for those who do not see it.
fn words(cells: &[&CellFigures<'_>], metric: Metric) -> String {
    let one = |f: &&CellFigures<'_>| {
        let figure = f
            .get(metric)
            .map_or(NONE.to_owned(), |s| value(metric, s.mean));
        format!("{} {figure}", f.cell.key.network())
    };
    let all: Vec<String> = cells.iter().map(one).collect();
    format!("In {}: {}.", unit(metric), all.join(", "))
}

fn table(r: &Report<'_>, title: &str, cells: &[&CellFigures<'_>], metric: Metric) -> Table {
    let head = format!("#{}", heading(metric));
    let mut columns = vec!["Network", head.as_str(), "#Low", "#High", "Samples"];
    let marked = metric == Metric::Goodput && cells.iter().any(|f| headers(r, f).is_some());
    if marked {
        columns.push("#Headers alone would leave");
    }
    let rows = cells.iter().map(|f| {
        let (key, summary) = (f.cell.key, f.get(metric));
        let end = |i: usize| {
            let v = summary
                .and_then(|s| s.ci95)
                .and_then(|ci| ci.get(i).copied());
            Field::number(v.map_or(NONE.to_owned(), |v| value(metric, v)), v)
        };
        let samples = summary.map(|s| {
            s.samples
                .iter()
                .map(|v| value(metric, *v))
                .collect::<Vec<_>>()
        });
        let mut row = vec![
            Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
            Field::number(mean(metric, summary), summary.map(|s| s.mean)),
            end(0),
            end(1),
            Field::text(samples.unwrap_or_default().join(" · ")),
        ];
        if marked {
            let left = headers(r, f);
            row.push(Field::number(
                left.map_or(NONE.to_owned(), |v| value(metric, v)),
                left,
            ));
        }
        Row::of(row)
    });
    Table::new(title, &columns).with(rows)
}

/// Goodput that the bytes of the overlay's headers alone would leave of the plain network's: where the wire segments, TCP has
/// timestamps (RFC 7323) and every packet is full. Ethernet costs 38 bytes a packet on a wire.
fn headers(r: &Report<'_>, figures: &CellFigures<'_>) -> Option<f64> {
    let key = figures.cell.key;
    let (group, test) = (key.group, key.group.workload.test);
    if !key.backend.is_overlay() || !test.is_tcp_stream() || group.setting.offload {
        return None;
    }
    let plain = BackendName::ALL
        .into_iter()
        .filter(|b| *b != BackendName::Direct && !b.is_overlay())
        .map(|b| group.cell(b))
        .find_map(|k| Some((k.backend, r.figures(k)?.get(Metric::Goodput)?.mean)))?;
    Some(plain.1 * share(key.backend, group) / share(plain.0, group))
}

/// Payload of a full TCP segment as a share of its bytes on a wire.
fn share(backend: BackendName, group: GroupKey) -> f64 {
    let mtu = f64::from(group.setting.mtu_class.guest_mtu(backend));
    let inner = if group.setting.inner == Family::Ipv6 {
        72.0
    } else {
        52.0
    };
    let outer = if group.setting.underlay == Family::Ipv6 {
        20.0
    } else {
        0.0
    };
    let tunnel = match (backend.encapsulation(), backend) {
        (Encapsulation::None, _) => 0.0,
        (Encapsulation::Vlan, _) => 4.0,
        // OVN's option is 8 bytes.
        (Encapsulation::Geneve, BackendName::OverlaneGeneve) => 58.0 + outer,
        (Encapsulation::Vxlan | Encapsulation::Geneve, _) => 50.0 + outer,
    };
    (mtu - inner) / (mtu + 38.0 + tunnel)
}

/// `14.2 [13.9, 14.5]` as a field of a table.
pub(in crate::report) fn figure(figures: Option<&CellFigures<'_>>, metric: Metric) -> Field {
    let summary = figures.and_then(|f| f.get(metric));
    Field::number(mean(metric, summary), summary.map(|s| s.mean)).small(interval(metric, summary))
}

/// The same without its interval.
pub(in crate::report) fn bare(figures: Option<&CellFigures<'_>>, metric: Metric) -> Field {
    let summary = figures.and_then(|f| f.get(metric));
    Field::number(mean(metric, summary), summary.map(|s| s.mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{MtuClass, Setting, Test, Workload};

    #[test]
    fn headers_alone_take_what_their_bytes_take() {
        let workload = Workload {
            test: Test::TcpStream,
            bytes: 65536,
            instances: 1,
            buffer_bytes: None,
            rate_pps: None,
            rate_mbps: None,
            search: None,
            migration: None,
        };
        let setting = |mtu_class| Setting {
            mtu_class,
            offload: false,
            ..Setting::default()
        };
        let group = GroupKey {
            workload,
            setting: setting(MtuClass::Standard),
        };
        // RFC 6349 with timestamps: (1500 − 52) / 1538.
        assert!((share(BackendName::Bridge, group) - 0.9415).abs() < 1e-4);
        assert!((share(BackendName::KernelVlan, group) - 1448.0 / 1542.0).abs() < 1e-9);
        assert!((share(BackendName::KernelVxlan, group) - 1448.0 / 1588.0).abs() < 1e-9);
        let jumbo = GroupKey {
            workload,
            setting: setting(MtuClass::Jumbo),
        };
        assert!((share(BackendName::OverlaneGeneve, jumbo) - 8848.0 / 8996.0).abs() < 1e-9);
    }
}
