//! Study C's view: the CPU of the hosts, and the guests' own part of it, beside each figure.

use crate::record::{GroupKey, Test};
use crate::results::{CellFigures, CpuSplits, Metric};

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, Stack, Stacks};
use crate::report::numbers::{fixed, heading};
use crate::report::page::Report;
use crate::report::sections::charts::{bare, figure, group_charts, place};

/// The parts of a host's CPU.
const PARTS: [(&str, &str); 2] = [("guest", "p-user"), ("rest of the host", "p-system")];

/// The charts, group by group, and the table of all.
pub(super) fn blocks(r: &Report<'_>) -> Vec<Block> {
    // What machines cost while they move stands in their own view.
    let has = |f: &&CellFigures<'_>| {
        let stays = f.cell.key.group.workload.migration.is_none();
        stays && f.is_measured() && f.get(Metric::GuestSender).is_some()
    };
    let cells: Vec<&CellFigures<'_>> = r.analysis.cells.iter().filter(has).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let mut out = vec![Block::Hint(
        "Guest: CPU time of the traffic programs. Host: everything on the virtual host’s CPUs, the guest included; the rest of it is \
         the kernel, the switch and interrupts. In per cent of one CPU."
            .to_owned(),
    )];
    out.push(Block::Table(table(
        r,
        "Host CPU and guest CPU beside each figure",
        &cells,
    )));
    out.extend(r.by_group(
        |test| test != Test::Migration,
        |group| group_charts(r, group, chart(r, group).into_iter().collect()),
    ));
    out
}

fn chart(r: &Report<'_>, group: GroupKey) -> Option<Chart> {
    let cells: Vec<&CellFigures<'_>> = r
        .measured(group)
        .into_iter()
        .filter(|f| f.get(Metric::GuestSender).is_some())
        .collect();
    let rows: Vec<Stack> = cells.iter().flat_map(|f| stacks(f)).collect();
    let title = format!("CPU of guests and hosts, {}", r.names.group(&group));
    let words: Vec<String> = rows
        .iter()
        .map(|s| format!("{} {} %", s.name, fixed(s.values.iter().sum(), 0)))
        .collect();
    (!rows.is_empty()).then(|| Chart {
        id: format!("chart-guests-{}", place(r, group)),
        hint: "→ sends, ← receives".to_owned(),
        words: words.join(", "),
        table: table(r, &title, &cells),
        drawing: Drawing::Stacks(Stacks {
            parts: PARTS.into(),
            rows,
        }),
        title,
    })
}

fn stacks(f: &CellFigures<'_>) -> Vec<Stack> {
    let sides = [
        ("→", Metric::GuestSender, Metric::CpuSender),
        ("←", Metric::GuestReceiver, Metric::CpuReceiver),
    ];
    let one = |(arrow, guest, host): (&str, Metric, Metric)| {
        let (guest, host) = (f.get(guest)?.mean, f.get(host)?.mean);
        let values = vec![guest.min(host), (host - guest).max(0.0)];
        Some(Stack {
            name: format!("{} {arrow}", f.cell.key.network()),
            values,
        })
    };
    sides.into_iter().filter_map(one).collect()
}

fn table(r: &Report<'_>, caption: &str, cells: &[&CellFigures<'_>]) -> Table {
    let metrics = [
        Metric::CpuSender,
        Metric::GuestSender,
        Metric::CpuReceiver,
        Metric::GuestReceiver,
    ];
    let heads = metrics.map(|m| format!("#{}", heading(m)));
    let columns: Vec<&str> = ["Network", "Setting", "#Figure", "Unit", "#CPU per unit"]
        .into_iter()
        .chain(heads.iter().map(String::as_str))
        .chain(["#softirq % of all CPUs"])
        .collect();
    let rows = cells.iter().map(|f| {
        let key = f.cell.key;
        let test = key.group.workload.test;
        let softirq = f
            .cpu_split
            .as_ref()
            .map(|split: &CpuSplits| split.total.softirq_percent);
        let head = [
            Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
            Field::text(r.names.group(&key.group)),
            figure(Some(f), Metric::primary(test)),
            Field::text(crate::report::numbers::unit(Metric::primary(test))),
            figure(Some(f), Metric::cost(test)),
        ];
        let cpus = metrics.map(|m| bare(Some(f), m));
        let softirq = Field::number(softirq.map_or("–".to_owned(), |v| fixed(v, 0)), softirq);
        Row::of(head.into_iter().chain(cpus).chain([softirq]))
    });
    Table::new(caption, &columns).with(rows)
}
