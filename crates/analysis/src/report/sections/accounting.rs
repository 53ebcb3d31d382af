//! Where the packets of a cell stayed: sent = received + lost by named counters + unexplained.

use crate::record::Accounting;
use crate::results::CellFigures;

use crate::report::block::{Block, Field, Row, Table};
use crate::report::numbers::fixed;
use crate::report::page::Report;

/// The table of all cells that number their packets.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let cells: Vec<(&CellFigures<'_>, &Accounting)> = r
        .analysis
        .cells
        .iter()
        .filter(|f| f.is_measured())
        .filter_map(|f| Some((f, f.accounting.as_ref()?)))
        .collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let open = cells.iter().filter(|(_, a)| a.unexplained != 0).count();
    let verdict = match open {
        0 => format!(
            "In all {} cells every packet is accounted for: sent = received + lost in named counters.",
            cells.len()
        ),
        _ => format!(
            "In {open} of {} cells some packets are in no counter on the path: the column “Unexplained”.",
            cells.len()
        ),
    };
    let columns = [
        "Network",
        "Setting",
        "#Sent",
        "#Received",
        "#Lost",
        "Where",
        "#Unexplained",
        "#Refused",
        "#Not sent",
        "#Reordered",
        "#Duplicates",
        "#Corrupt",
    ];
    let table = Table::new(
        "Packets from the first to the last, all samples of a cell together",
        &columns,
    );
    let hint = "Sent: taken by the senders’ kernels. Refused: not taken, and not in “sent”. Not sent: due by the pacing and never tried.";
    vec![
        Block::text(verdict),
        Block::Hint(hint.to_owned()),
        Block::Table(table.with(cells.iter().map(|(f, a)| row(r, f, a)))),
    ]
}

fn row(r: &Report<'_>, figures: &CellFigures<'_>, a: &Accounting) -> Row {
    let key = figures.cell.key;
    let lost: u64 = a.lost.values().sum();
    let places: Vec<String> = a
        .lost
        .iter()
        .map(|(name, count)| format!("{name}: {}", fixed(*count as f64, 0)))
        .collect();
    let unexplained = Field::number(fixed(a.unexplained as f64, 0), a.unexplained as f64);
    let unexplained = if a.unexplained == 0 {
        unexplained
    } else {
        unexplained.small("⚠")
    };
    Row::of([
        Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
        Field::text(r.names.group(&key.group)),
        Field::count(a.sent),
        Field::count(a.received),
        Field::count(lost),
        Field::wide(places.join("; ")),
        unexplained,
        Field::count(a.refused),
        Field::count(a.not_sent),
        Field::count(a.reordered),
        Field::count(a.duplicates),
        Field::count(a.corrupt),
    ])
}
