//! Study E's view: the draft's table by frame size, model A (a bare tester at the far end, no overlay) beside model B (two hosts,
//! the overlay), the CPU-increase table, and loss against CPU.

use crate::record::{BackendName, CellKey, Setting};
use crate::results::{Axis, CellFigures, Compared, Metric};

use super::loss_curve;
use crate::report::block::{Block, Column, Field, Row, Table};
use crate::report::names::pairs as once;
use crate::report::numbers::{NONE, fixed, loss, short, value};
use crate::report::page::Report;
use crate::report::sections::comparisons::verdict;

/// The tables of each pair (model A, model B), and the curves.
pub(super) fn blocks(r: &Report<'_>, pairs: &[(BackendName, BackendName)]) -> Vec<Block> {
    let mut out: Vec<Block> = pairs.iter().flat_map(|&pair| of_pair(r, pair)).collect();
    if !out.is_empty() {
        let hint = "Model A: one host, the far end a bare tester, no overlay. Model B: two hosts, the overlay between them. Frame sizes \
                    include the 4 bytes of FCS; the largest frame of the overlay stands beside the next larger one without it, as in the draft. \
                    Server: the host’s CPUs and the machine’s memory; VM: the guest’s own programs.";
        out.insert(0, Block::Hint(hint.to_owned()));
    }
    out.extend(loss_curve::blocks(r));
    out
}

fn of_pair(r: &Report<'_>, (a, b): (BackendName, BackendName)) -> Vec<Block> {
    let keep = |c: &&Compared| c.axis == Axis::Model && c.a.backend == b && c.b.backend == a;
    let rows = once(r.analysis.comparisons.iter().filter(keep));
    if rows.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Heading(format!("Model A: {a}; model B: {b}")),
        Block::Table(table(r, &rows, (a, b))),
        Block::Table(increase(r, &rows, (a, b))),
    ]
}

/// What the draft prints of each model.
const QUANTITIES: [&str; 9] = [
    "kpps",
    "Gbit/s",
    "server CPU %",
    "server CPU MHz",
    "server MiB",
    "VM CPU %",
    "VM MiB",
    "loss %",
    "latency µs",
];

fn table(r: &Report<'_>, rows: &[&Compared], (a, b): (BackendName, BackendName)) -> Table {
    let mut table = Table::new(format!("The draft’s table: A {a}, B {b}"), &["Setting"]);
    for model in ["A", "B"] {
        table.columns.extend(QUANTITIES.map(|q| Column {
            title: format!("{model}: {q}"),
            number: true,
        }));
    }
    let megahertz = r.analysis.run.env.cpu_mhz;
    let mut places = Vec::new();
    for c in rows {
        let models = [c.b, c.a].map(|key| key.group.setting.place());
        if !places.contains(&models) {
            places.push(models);
        }
    }
    let idle = places
        .into_iter()
        .filter_map(|models| idle_row(r, models, megahertz));
    table.with(idle.chain(rows.iter().map(|c| {
        let head = Field::text(r.names.setting(&c.a.group))
            .small(sizes(c.b, c.a))
            .to(r.names.anchor(&c.a));
        let model = |key: CellKey| quantities(r.figures(key), megahertz);
        Row::of(std::iter::once(head).chain(model(c.b)).chain(model(c.a)))
    })))
}

/// The draft's row "0 (idle)": both models' places without traffic, with all their networks up.
fn idle_row(r: &Report<'_>, models: [Setting; 2], megahertz: Option<f64>) -> Option<Row> {
    let idle_at = |place: Setting| r.analysis.run.idle.iter().find(|idle| idle.place == place);
    models.into_iter().find_map(idle_at)?;
    let of = |place: Setting| {
        let idle = idle_at(place);
        let show = |v: Option<f64>, digits: usize| {
            Field::number(v.map_or(NONE.to_owned(), |v| fixed(v, digits)), v)
        };
        let cpu = idle.and_then(|idle| Some(idle.cpu.sender.as_ref()?.busy_percent));
        let mut fields: Vec<Field> = QUANTITIES.iter().map(|_| Field::text(NONE)).collect();
        fields[0] = show(idle.map(|_| 0.0), 0);
        fields[2] = show(cpu, 1);
        fields[3] = show(cpu.zip(megahertz).map(|(cpu, mhz)| cpu / 100.0 * mhz), 0);
        fields[4] = show(idle.map(|idle| idle.memory_mib), 0);
        fields
    };
    let head = Field::text("0 (idle)").small(models[1].to_string());
    Some(Row::of(
        std::iter::once(head).chain(models.into_iter().flat_map(of)),
    ))
}

/// Where the two frame sizes differ, both.
fn sizes(a: CellKey, b: CellKey) -> String {
    let (a, b) = (a.group.workload.bytes, b.group.workload.bytes);
    if a == b {
        String::new()
    } else {
        format!("A {a}, B {b} bytes")
    }
}

fn quantities(figures: Option<&CellFigures<'_>>, megahertz: Option<f64>) -> Vec<Field> {
    let get = |metric| figures.and_then(|f| f.get(metric)).map(|s| s.mean);
    let show = |v: Option<f64>, text: &dyn Fn(f64) -> String| {
        Field::number(v.map_or(NONE.to_owned(), text), v)
    };
    let of = |metric: Metric| show(get(metric), &move |v| value(metric, v));
    vec![
        of(Metric::Rate),
        show(get(Metric::Goodput), &short),
        of(Metric::CpuSender),
        show(
            get(Metric::CpuSender)
                .zip(megahertz)
                .map(|(cpu, mhz)| cpu / 100.0 * mhz),
            &|v| fixed(v, 0),
        ),
        of(Metric::Memory),
        of(Metric::GuestSender),
        of(Metric::GuestSenderMemory),
        show(get(Metric::Loss), &loss),
        of(Metric::LatencyP50),
    ]
}

fn increase(r: &Report<'_>, rows: &[&Compared], (a, b): (BackendName, BackendName)) -> Table {
    let columns = [
        "Setting",
        "#Server CPU % A",
        "#Server CPU % B",
        "#Increase",
        "#VM CPU, increase",
        "#Rate, B against A",
    ];
    let table = Table::new(
        format!("CPU increase by the overlay: {b} against {a}"),
        &columns,
    );
    table.with(rows.iter().map(|c| {
        let cpu = |key| crate::report::sections::charts::bare(r.figures(key), Metric::CpuSender);
        let ratio = |metric| verdict(r.compare(Axis::Model, c.a, c.b, metric).as_ref());
        let head = Field::text(r.names.setting(&c.a.group))
            .small(sizes(c.b, c.a))
            .to(r.names.comparison(c));
        let figure = Metric::primary(c.a.group.workload.test);
        Row::of([
            head,
            cpu(c.b),
            cpu(c.a),
            ratio(Metric::CpuSender),
            ratio(Metric::GuestSender),
            ratio(figure),
        ])
    }))
}
