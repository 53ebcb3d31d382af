//! Every cell of the matrix with its figures, test by test.

use crate::record::{Bound, Test};
use crate::results::{CellFigures, Metric, status};

use crate::report::block::{Block, Field, Row, Table};
use crate::report::names::anchor;
use crate::report::numbers::{NONE, fixed, heading, unit, value};
use crate::report::page::Report;
use crate::report::sections::charts::{bare, figure};

/// The tables.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let tables: Vec<Block> = r
        .analysis
        .tests()
        .map(|test| Block::Table(table(r, test)))
        .collect();
    if tables.is_empty() {
        return tables;
    }
    let hint = "Means with the 95 % interval. CPU % is of one logical CPU; – is not measured. Open a proof, a status or a number of \
                samples for what is behind it.";
    std::iter::once(Block::Hint(hint.to_owned()))
        .chain(tables)
        .collect()
}

/// The quantities of a test, with the relays' CPU where some of its guests are virtual machines.
fn quantities(r: &Report<'_>, test: Test) -> Vec<Metric> {
    let relays = [Metric::RelaySender, Metric::RelayReceiver];
    let of_test = |f: &&CellFigures<'_>| f.cell.key.group.workload.test == test;
    let mut cells = r.analysis.cells.iter().filter(of_test);
    let has = cells.any(|f| relays.iter().any(|relay| f.get(*relay).is_some()));
    let relays = relays.into_iter().filter(|_| has);
    Metric::columns(test)
        .iter()
        .copied()
        .chain(relays)
        .collect()
}

fn table(r: &Report<'_>, test: Test) -> Table {
    let quantities = quantities(r, test);
    let heads = quantities.iter().map(|m| format!("#{}", heading(*m)));
    let heads: Vec<String> = ["Network", "Setting", "#MTU"]
        .map(str::to_owned)
        .into_iter()
        .chain(heads)
        .collect();
    let columns: Vec<&str> = heads
        .iter()
        .map(String::as_str)
        .chain(["Samples", "Bound", "Path proof", "Status"])
        .collect();
    let cells = r.analysis.cells.iter().enumerate();
    let cells = cells.filter(|(_, f)| f.cell.key.group.workload.test == test);
    Table::new(format!("{test}, every cell"), &columns)
        .with(cells.map(|(place, f)| row(r, f, &quantities).at(anchor(place))))
}

fn row(r: &Report<'_>, figures: &CellFigures<'_>, quantities: &[Metric]) -> Row {
    let (cell, key) = (figures.cell, figures.cell.key);
    let (word, reason) = status(&cell.status);
    let mtu = match key.group.workload.migration {
        Some(_) => key.group.setting.mtu_class.link_mtu(),
        None => key.mtu(),
    };
    let mut fields = vec![
        Field::network(key.network(), key.backend),
        Field::text(r.names.setting(&key.group)),
        Field::number(mtu.to_string(), f64::from(mtu)),
    ];
    let (primary, cost) = (
        Metric::primary(key.group.workload.test),
        Metric::cost(key.group.workload.test),
    );
    for &metric in quantities {
        let with_interval = metric == primary || metric == cost;
        // Beside the others an interval says little and costs the width of a column.
        fields.push(if with_interval {
            figure(Some(figures), metric)
        } else {
            bare(Some(figures), metric)
        });
    }
    let notes = reason
        .into_iter()
        .chain(cell.notes.iter().map(String::as_str))
        .map(str::to_owned);
    fields.extend([
        samples(figures),
        Field::text(bound(figures)),
        Field::text(proof(figures)).more([cell.proof_detail.clone()]),
        Field::text(word).more(notes),
    ]);
    Row::of(fields)
}

fn samples(figures: &CellFigures<'_>) -> Field {
    let metric = Metric::primary(figures.cell.key.group.workload.test);
    let rows = metric.row(figures.cell);
    let values: Vec<String> = rows.iter().map(|&(_, v)| value(metric, v)).collect();
    let count = figures.samples();
    let field = Field::number(count.to_string(), count as f64);
    if values.is_empty() {
        return field;
    }
    field.more([format!("{} by round: {}", unit(metric), values.join(" · "))])
}

/// What held the figure down, and how near it is to what the traffic tool does alone.
pub(in crate::report) fn bound(figures: &CellFigures<'_>) -> String {
    let word = match figures.bound {
        _ if !figures.is_measured() => return NONE.to_owned(),
        Bound::Tool => format!("⚠ {}", Bound::Tool.words()),
        other => other.words().to_owned(),
    };
    match figures.reference_percent() {
        Some(percent) => format!("{word}; {} % of one cable", fixed(percent, 0)),
        None => word,
    }
}

fn proof(figures: &CellFigures<'_>) -> &'static str {
    match (figures.cell.path_proof, figures.is_measured()) {
        (true, _) => "✓ proven",
        (false, true) => "✗ not proven",
        (false, false) => NONE,
    }
}
