//! Machines that moved: how long it took, how long they stood still, and what their flows noticed.

use crate::record::{GroupKey, Migration, MtuClass, Sample};
use crate::results::{Axis, CellFigures, Metric};
use crate::stats::mean;

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Bar, Bars, Drawing};
use crate::report::names::{counted, mtu_of};
use crate::report::numbers::{NONE, fixed, value};
use crate::report::page::Report;
use crate::report::sections::charts::{bare, figure, place};

const READ: &str = "A sample is one way of all machines of a network at once; rounds go there and back in turn. Migration time: from the \
    beginning of the first machine until the last one runs at the other host. Downtime: the longest time that a machine stood still, \
    as QEMU says; the network’s share of it is what it took to switch the machine’s port over to the other host.";

const FLOWS: &str = "Meanwhile two paced flows go to each machine and back: datagrams, and messages over one TCP connection. A gap is the \
    longest time in which no answer came: the machine stands still, and the network has to find it at its new host. A datagram in \
    the gap waits for the machine where the network keeps it, else it is lost. TCP sends again what was lost, but waits for its \
    timer first, so its gap may be longer.";

/// For each setting a table of times, one of flows and cables, and the times as bars.
pub(super) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let moves = |f: &&CellFigures<'_>| f.is_measured() && moving(&f.cell.key.group).is_some();
    let cells: Vec<&CellFigures<'_>> = r.analysis.cells.iter().filter(moves).collect();
    let mut places: Vec<GroupKey> = Vec::new();
    for figures in &cells {
        let place = without_links(figures.cell.key.group);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    let mut out = vec![Block::Hint(READ.to_owned()), Block::Hint(FLOWS.to_owned())];
    for place in &places {
        let here = cells.iter().copied();
        let here: Vec<_> = here
            .filter(|f| without_links(f.cell.key.group) == *place)
            .collect();
        let name = r.names.without(&[Axis::Mtu, Axis::Links], &here);
        if !name.is_empty() {
            out.push(Block::Heading(name.clone()));
        }
        out.push(Block::Charts(charts(r, &here, &name)));
        out.push(Block::Table(times(r, &here, &name)));
        out.push(Block::Table(flows(r, &here, &name)));
    }
    out
}

fn moving(group: &GroupKey) -> Option<crate::record::Moving> {
    group.workload.migration
}

/// The group with one link and the standard MTU: what the rows of a table have in common.
fn without_links(mut group: GroupKey) -> GroupKey {
    group.setting.mtu_class = MtuClass::Standard;
    if let Some(moving) = &mut group.workload.migration {
        moving.links = 1;
    }
    group
}

/// `Migration times, offload off`
fn titled(words: &str, name: &str) -> String {
    if name.is_empty() {
        words.to_owned()
    } else {
        format!("{words}, {name}")
    }
}

/// Network, MTU and links.
fn head(r: &Report<'_>, f: &CellFigures<'_>) -> Vec<Field> {
    let key = f.cell.key;
    let links = moving(&key.group).map_or(0, |moving| moving.links);
    vec![
        Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
        Field::number(
            mtu_of(&key.group),
            f64::from(key.group.setting.mtu_class.link_mtu()),
        ),
        Field::count(links.into()),
    ]
}

fn times(r: &Report<'_>, cells: &[&CellFigures<'_>], name: &str) -> Table {
    let asks = cells
        .iter()
        .any(|f| moving(&f.cell.key.group).is_some_and(|moving| moving.postcopy));
    let columns = ["Network", "#MTU", "#Links", "#Time s", "#There / back s"]
        .into_iter()
        .chain(["#Downtime ms", "#of it the network ms", "#Gbit/s"])
        .chain(["#Rounds of dirty pages", "#Sent MiB", "#Written MiB/s"])
        .chain(asks.then_some("#Pages asked for"));
    let columns: Vec<&str> = columns.collect();
    let rows = cells.iter().map(|f| {
        let mut row = head(r, f);
        row.extend([
            figure(Some(f), Metric::MigrationTime),
            ways(f),
            figure(Some(f), Metric::Downtime),
            bare(Some(f), Metric::Switching),
            bare(Some(f), Metric::Goodput),
            bare(Some(f), Metric::DirtyRounds),
            bare(Some(f), Metric::Transferred),
            bare(Some(f), Metric::Dirtied),
        ]);
        row.extend(asks.then(|| pages(f)));
        Row::of(row)
    });
    Table::new(titled("Migration times", name), &columns).with(rows)
}

fn flows(r: &Report<'_>, cells: &[&CellFigures<'_>], name: &str) -> Table {
    let columns = ["Network", "#MTU", "#Links"]
        .into_iter()
        .chain(["#UDP gap ms", "#TCP gap ms", "#Datagrams lost"])
        .chain(["#CPU of the source %", "#CPU of the destination %"])
        .chain([
            "#CPU per Gbit/s %",
            "#Mean packet, bytes",
            "#Bytes by link %",
        ]);
    let columns: Vec<&str> = columns.collect();
    let rows = cells.iter().map(|f| {
        let mut row = head(r, f);
        row.extend([
            figure(Some(f), Metric::UdpGap),
            figure(Some(f), Metric::TcpGap),
            bare(Some(f), Metric::FlowLost).small(of_sent(f)),
            cpu(f, false),
            cpu(f, true),
            bare(Some(f), Metric::CpuPerGbps),
            bare(Some(f), Metric::UnderlayPacket),
            shares(f),
        ]);
        Row::of(row)
    });
    Table::new(
        titled("What flows noticed, and what it cost", name),
        &columns,
    )
    .with(rows)
}

/// The samples that count, each with what moved.
fn samples<'f>(f: &'f CellFigures<'_>) -> impl Iterator<Item = (&'f Sample, &'f Migration)> {
    f.cell
        .counted()
        .filter_map(|sample| Some((sample, sample.migration.as_ref()?)))
}

/// A mean over samples as a field.
fn number(values: &[f64], digits: usize) -> Field {
    let mean = mean(values);
    Field::number(mean.map_or(NONE.to_owned(), |v| fixed(v, digits)), mean)
}

/// The mean of each way.
fn ways(f: &CellFigures<'_>) -> Field {
    let way = |back: bool| {
        let all = samples(f).filter(|(_, migration)| migration.back == back);
        mean(&all.map(|(_, one)| one.seconds).collect::<Vec<_>>())
    };
    let text = |way: Option<f64>| way.map_or(NONE.to_owned(), |v| value(Metric::MigrationTime, v));
    let (there, back) = (way(false), way(true));
    Field::number(format!("{} / {}", text(there), text(back)), there)
}

/// Pages that machines asked for after they had moved.
fn pages(f: &CellFigures<'_>) -> Field {
    let asked = |(_, one): (&Sample, &Migration)| -> f64 {
        let machines = one.machines.iter();
        machines.map(|moved| moved.pages_asked_for as f64).sum()
    };
    number(&samples(f).map(asked).collect::<Vec<_>>(), 0)
}

/// `of 620`: the datagrams of one sample.
fn of_sent(f: &CellFigures<'_>) -> String {
    let sent = |(_, one): (&Sample, &Migration)| -> f64 {
        one.machines.iter().map(|moved| moved.udp.sent as f64).sum()
    };
    let sent = mean(&samples(f).map(sent).collect::<Vec<_>>());
    sent.map_or_else(String::new, |sent| format!("of {}", fixed(sent, 0)))
}

/// The CPU of the host that machines leave, or of the one that they come to: on the way back they are the other way round.
fn cpu(f: &CellFigures<'_>, destination: bool) -> Field {
    let of = |(sample, one): (&Sample, &Migration)| {
        let second = one.back != destination;
        let host = if second {
            &sample.cpu.receiver
        } else {
            &sample.cpu.sender
        };
        host.as_ref().map(|host| host.busy_percent)
    };
    number(&samples(f).filter_map(of).collect::<Vec<_>>(), 0)
}

/// `53 / 47`: the share of each link in the bytes of all samples.
fn shares(f: &CellFigures<'_>) -> Field {
    let mut links: Vec<f64> = Vec::new();
    for (_, migration) in samples(f) {
        let bytes = &migration.link_bytes;
        links.resize(links.len().max(bytes.len()), 0.0);
        for (sum, bytes) in links.iter_mut().zip(bytes) {
            *sum += *bytes as f64;
        }
    }
    let all: f64 = links.iter().sum();
    if all <= 0.0 {
        return Field::text(NONE);
    }
    let shares: Vec<String> = links
        .iter()
        .map(|bytes| fixed(100.0 * bytes / all, 0))
        .collect();
    Field::number(shares.join(" / "), links.first().map(|bytes| bytes / all))
}

/// The times by MTU, network by network: a chart for each number of links.
fn charts(r: &Report<'_>, cells: &[&CellFigures<'_>], name: &str) -> Vec<Chart> {
    let mut links: Vec<u32> = cells
        .iter()
        .filter_map(|f| moving(&f.cell.key.group))
        .map(|moving| moving.links)
        .collect();
    links.sort_unstable();
    links.dedup();
    let one = |&count: &u32| {
        let here = |f: &&&CellFigures<'_>| {
            moving(&f.cell.key.group).is_some_and(|moving| moving.links == count)
        };
        let mut here: Vec<&CellFigures<'_>> = cells.iter().filter(here).copied().collect();
        // Both MTUs of a network beside each other.
        here.sort_by_key(|f| (f.cell.key.backend, f.cell.key.copy));
        chart(r, &here, &titled(&counted(count, "link"), name))
    };
    links.iter().filter_map(one).collect()
}

fn chart(r: &Report<'_>, cells: &[&CellFigures<'_>], name: &str) -> Option<Chart> {
    let metric = Metric::MigrationTime;
    let first = cells.first()?;
    let label = |f: &CellFigures<'_>| {
        let key = f.cell.key;
        format!("{} {}", key.network(), mtu_of(&key.group))
    };
    let title = format!("Migration time by MTU, s, {name}");
    let words = cells.iter().filter_map(|f| {
        let mean = f.get(metric)?.mean;
        Some(format!("{} {}", label(f), value(metric, mean)))
    });
    let rows = cells.iter().map(|f| {
        let end = |i: usize| {
            let ends = f.get(metric).and_then(|s| s.ci95);
            let v = ends.and_then(|ends| ends.get(i).copied());
            Field::number(v.map_or(NONE.to_owned(), |v| value(metric, v)), v)
        };
        let key = f.cell.key;
        Row::of([
            Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
            Field::text(mtu_of(&key.group)),
            bare(Some(f), metric),
            end(0),
            end(1),
        ])
    });
    Some(Chart {
        id: format!("chart-moved-{}", place(r, first.cell.key.group)),
        hint: "less is better".to_owned(),
        words: words.collect::<Vec<_>>().join(", "),
        table: Table::new(
            title.as_str(),
            &["Network", "#MTU", "#Seconds", "#Low", "#High"],
        )
        .with(rows),
        drawing: Drawing::Bars(Bars {
            metric,
            rows: cells
                .iter()
                .map(|f| Bar {
                    name: label(f),
                    backend: f.cell.key.backend,
                    summary: f.get(metric).cloned(),
                    mark: None,
                })
                .collect(),
            limit: None,
        }),
        title,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CpuUse;
    use crate::results::{Analysis, fixture};

    fn text(field: &Field) -> &str {
        &field.text
    }

    #[test]
    fn each_setting_has_a_chart_a_link_and_both_tables_a_row_a_cell() {
        let run = fixture::migrations();
        let analysis = Analysis::of(&run);
        let blocks = blocks(&Report::of(&analysis));
        let headings = blocks.iter().filter_map(|block| match block {
            Block::Heading(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(
            headings.collect::<Vec<_>>(),
            ["offload off", "offload on"],
            "what both tables of a setting share"
        );
        let (mut charts, mut rows) = (0, Vec::new());
        for block in &blocks {
            match block {
                Block::Charts(all) => charts += all.len(),
                Block::Table(table) => rows.push(table.rows.len()),
                _ => {}
            }
        }
        // Three networks, two MTUs, two numbers of links.
        assert_eq!((charts, rows), (4, vec![12; 4]));
    }

    #[test]
    fn on_the_way_back_source_and_destination_are_the_other_way_round() {
        let mut run = fixture::migrations();
        let cell = &mut run.cells[0];
        for sample in &mut cell.samples {
            let back = sample.migration.as_ref().unwrap().back;
            let host = |busy_percent| {
                Some(CpuUse {
                    busy_percent,
                    steal_percent: 0.0,
                })
            };
            let (first, second) = if back { (40.0, 90.0) } else { (90.0, 40.0) };
            (sample.cpu.sender, sample.cpu.receiver) = (host(first), host(second));
        }
        let analysis = Analysis::of(&run);
        let figures = &analysis.cells[0];
        assert_eq!(
            (text(&cpu(figures, false)), text(&cpu(figures, true))),
            ("90", "40")
        );
    }

    #[test]
    fn links_share_by_the_bytes_of_all_samples() {
        let mut run = fixture::migrations();
        let two = run.cells.iter().position(|cell| {
            let moving = cell.key.group.workload.migration;
            moving.is_some_and(|moving| moving.links == 2)
        });
        let cell = &mut run.cells[two.unwrap()];
        for (sample, bytes) in cell
            .samples
            .iter_mut()
            .skip(1)
            .zip([100, 300].iter().cycle())
        {
            sample.migration.as_mut().unwrap().link_bytes = vec![*bytes, 400 - *bytes];
        }
        cell.samples[1].migration.as_mut().unwrap().link_bytes = vec![0, 800];
        let analysis = Analysis::of(&run);
        // (0 + 300 + 3 × (100 + 300)) of 400 × 7 + 800.
        assert_eq!(text(&shares(&analysis.cells[two.unwrap()])), "42 / 58");
        assert_eq!(text(&shares(&analysis.cells[0])), "100");
    }

    #[test]
    fn only_postcopy_has_a_column_of_pages_asked_for() {
        let columns = |run: &crate::record::Run| -> Vec<String> {
            let analysis = Analysis::of(run);
            let report = Report::of(&analysis);
            let cells: Vec<_> = analysis.cells.iter().take(3).collect();
            let table = times(&report, &cells, "");
            let fits = |row: &Row| row.cells.len() == table.columns.len();
            assert!(table.rows.iter().all(fits));
            table
                .columns
                .into_iter()
                .map(|column| column.title)
                .collect()
        };
        let mut run = fixture::migrations();
        assert!(!columns(&run).contains(&"Pages asked for".to_owned()));
        for cell in &mut run.cells {
            if let Some(moving) = &mut cell.key.group.workload.migration {
                moving.postcopy = true;
            }
        }
        assert!(columns(&run).contains(&"Pages asked for".to_owned()));
    }

    #[test]
    fn a_run_without_machines_has_no_section() {
        let run = fixture::guests();
        assert!(blocks(&Report::of(&Analysis::of(&run))).is_empty());
    }
}
