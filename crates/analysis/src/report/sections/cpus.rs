//! The view per CPU: what each spent its time on, from the tick split over all samples of a cell.

use crate::record::GroupKey;
use crate::results::{CellFigures, CpuSplit, LEAST_SECONDS};

use crate::report::block::{Block, Chart, Field, Line, Row, Table};
use crate::report::draw::{Drawing, PARTS, Stack, Stacks};
use crate::report::numbers::fixed;
use crate::report::page::Report;
use crate::report::sections::charts::{group_charts, place};

/// Above this share of its time a CPU is called busy.
const BUSY_PERCENT: f64 = 90.0;
/// Below this share the others are called idle.
const IDLE_PERCENT: f64 = 50.0;

/// The charts, group by group, after a note on cells in which one CPU does all.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let charts = r.by_group(
        |_| true,
        |group| group_charts(r, group, chart(r, group).into_iter().collect()),
    );
    if charts.is_empty() {
        return charts;
    }
    let mut out = vec![Block::Hint(format!(
        "How long a CPU was busy is clocked. What it was busy with is a share of that time, sampled at the kernel’s tick ({}), over all \
         samples of a cell, and only where they last {LEAST_SECONDS} s together. Softirq is most of the kernel’s network work; it is charged to whatever it interrupts.",
        r.analysis.run.env.cpu_accounting
    ))];
    let alone: Vec<Line> = r
        .analysis
        .cells
        .iter()
        .filter_map(|f| alone(r, f))
        .collect();
    if !alone.is_empty() {
        out.push(Block::Note(format!(
            "In {} cells one CPU was the limit while others idled.",
            alone.len()
        )));
        out.push(Block::Folded(
            "Which cells".to_owned(),
            vec![Block::List(alone)],
        ));
    }
    out.extend(charts);
    out
}

fn busy(cpu: &CpuSplit) -> f64 {
    100.0 - cpu.split.idle_percent - cpu.split.steal_percent
}

fn parts(cpu: &CpuSplit) -> [f64; 5] {
    let s = cpu.split;
    [
        s.user_percent,
        s.system_percent,
        s.softirq_percent,
        s.irq_percent,
        s.steal_percent,
    ]
}

/// A sentence, where one CPU of several does nearly all.
fn alone(r: &Report<'_>, figures: &CellFigures<'_>) -> Option<Line> {
    let split = figures
        .cpu_split
        .as_ref()
        .filter(|_| figures.is_measured())?;
    let full: Vec<_> = split
        .cpus
        .iter()
        .filter(|c| busy(c) > BUSY_PERCENT)
        .collect();
    let [one] = full.as_slice() else { return None };
    let idle = split
        .cpus
        .iter()
        .filter(|c| c.cpu != one.cpu)
        .all(|c| busy(c) < IDLE_PERCENT);
    let key = figures.cell.key;
    (idle && split.cpus.len() > 1).then(|| {
        let words = format!(
            "{}: CPU {} is {} % busy, the others less than {IDLE_PERCENT} %. ",
            r.names.cell(&key),
            one.cpu,
            fixed(busy(one), 0)
        );
        Line::of(words).link(
            r.names.anchor(&key),
            "cell ↓",
            format!("Cell {}", r.names.cell(&key)),
        )
    })
}

fn chart(r: &Report<'_>, group: GroupKey) -> Option<Chart> {
    let cells = r.measured(group);
    let cpus: Vec<(&CellFigures<'_>, &CpuSplit)> = cells
        .iter()
        .filter_map(|f| Some((*f, f.cpu_split.as_ref()?)))
        .flat_map(|(f, split)| split.cpus.iter().map(move |cpu| (f, cpu)))
        .collect();
    if cpus.is_empty() {
        return None;
    }
    let title = format!("Time of each CPU, {}", r.names.group(&group));
    let name =
        |(f, cpu): &(&CellFigures<'_>, &CpuSplit)| format!("{} {}", f.cell.key.network(), cpu.cpu);
    let words = cpus
        .iter()
        .map(|one| format!("{} {} % busy", name(one), fixed(busy(one.1), 0)));
    let rows = cpus.iter().map(|one| Stack {
        name: name(one),
        values: parts(one.1).into(),
    });
    Some(Chart {
        id: format!("chart-cpus-{}", place(r, group)),
        hint: "network and number of the CPU; in per cent of its time".to_owned(),
        words: words.collect::<Vec<_>>().join(", "),
        table: table(r, &title, &cpus),
        drawing: Drawing::Stacks(Stacks {
            parts: PARTS.into(),
            rows: rows.collect(),
        }),
        title,
    })
}

fn table(r: &Report<'_>, title: &str, cpus: &[(&CellFigures<'_>, &CpuSplit)]) -> Table {
    let heads: Vec<String> = PARTS.iter().map(|(name, _)| format!("#{name} %")).collect();
    let columns: Vec<&str> = ["Network", "#CPU"]
        .into_iter()
        .chain(heads.iter().map(String::as_str))
        .chain(["#idle %"])
        .collect();
    let rows = cpus.iter().map(|(f, cpu)| {
        let key = f.cell.key;
        let percent = |v: f64| Field::number(fixed(v, 1), v);
        let head = [
            Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
            Field::count(cpu.cpu as u64),
        ];
        Row::of(
            head.into_iter()
                .chain(parts(cpu).map(percent))
                .chain([percent(cpu.split.idle_percent)]),
        )
    });
    Table::new(title, &columns).with(rows)
}
