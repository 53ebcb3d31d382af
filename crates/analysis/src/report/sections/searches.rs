//! Searches of the highest rate: bounds, goals, deviations from RFC 2544, and every trial (RFC 9971 asks for all of it).

use std::collections::BTreeSet;

use crate::record::SearchRecord;
use crate::results::{CellFigures, Metric};
use crate::search::{GoalParts, GoalResult};

use crate::report::block::{Block, Field, Line, Row, Table};
use crate::report::numbers::{NONE, fixed, loss, short};
use crate::report::page::Report;

/// Goals, results, trials.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let cells: Vec<&CellFigures<'_>> = r
        .analysis
        .cells
        .iter()
        .filter(|f| f.is_measured() && f.searches().next().is_some())
        .collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let presets: BTreeSet<_> = cells
        .iter()
        .filter_map(|f| f.cell.key.group.workload.search)
        .collect();
    let presets = presets.into_iter().map(|p| {
        Line::default()
            .strong(p.to_string())
            .text(format!(": {}", p.describe()))
    });
    let mut out = vec![Block::Hint(
        "MLRsearch (RFC 9971). Rates are frames per second of one pair of guests times the pairs, summed over all senders. A result that is \
         not regular is marked: its bounds were not closed."
            .to_owned(),
    )];
    out.push(Block::List(presets.collect()));
    out.push(Block::Table(results(r, &cells)));
    out.push(Block::Folded(
        "Every trial".to_owned(),
        cells.iter().map(|f| Block::Table(trials(r, f))).collect(),
    ));
    out
}

fn goal(parts: &GoalParts) -> String {
    format!(
        "loss ≤ {} %, trials of {:?}, {:?} in all, {} % may exceed, width {} %",
        loss(100.0 * parts.loss_ratio),
        parts.final_trial,
        parts.duration_sum,
        short(100.0 * parts.exceed_ratio),
        short(100.0 * parts.width),
    )
}

fn results(r: &Report<'_>, cells: &[&CellFigures<'_>]) -> Table {
    let columns = [
        "Network",
        "Setting",
        "#Round",
        "Goal",
        "#Lower bound kpps",
        "#Upper bound kpps",
        "#Throughput kpps",
        "Regular",
        "#Trials",
    ];
    let rows = cells
        .iter()
        .flat_map(|f| f.searches().map(move |s| (f, s)))
        .flat_map(|(f, (round, search))| {
            search
                .outcome
                .goals
                .iter()
                .map(move |goal| result(r, f, round, search, goal))
        });
    Table::new("What the searches found, for each goal", &columns).with(rows)
}

fn result(
    r: &Report<'_>,
    f: &CellFigures<'_>,
    round: u32,
    search: &SearchRecord,
    found: &GoalResult,
) -> Row {
    let key = f.cell.key;
    let rate = |v: Option<f64>| {
        let v = v.filter(|v| v.is_finite());
        Field::number(v.map_or(NONE.to_owned(), |v| short(v / 1000.0)), v)
    };
    let regular = match (found.regular, found.at_max_load) {
        (true, false) => "yes".to_owned(),
        (true, true) => "⚠ the largest load passed: the network may carry more".to_owned(),
        (false, _) => format!(
            "⚠ no: {}",
            found
                .why_irregular
                .as_deref()
                .unwrap_or("the bounds were not closed")
        ),
    };
    Row::of([
        Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
        Field::text(r.names.group(&key.group)),
        Field::count(round.into()),
        Field::wide(goal(found.goal.parts())),
        rate(found.relevant_lower_bound_pps),
        rate(found.relevant_upper_bound_pps),
        rate(found.conditional_throughput_pps),
        Field::wide(regular),
        Field::count(search.outcome.trials.len() as u64),
    ])
}

fn trials(r: &Report<'_>, f: &CellFigures<'_>) -> Table {
    let columns = [
        "#Round",
        "#Trial",
        "#Load kpps",
        "#Seconds",
        "#Intended",
        "#Sent",
        "#Received",
        "#Loss %",
        "#CPU % sender",
        "#CPU % receiver",
    ];
    let cpu = |v: Option<f64>| Field::number(v.map_or(NONE.to_owned(), |v| fixed(v, 0)), v);
    let rows = f.searches().flat_map(|(round, search)| {
        search
            .outcome
            .trials
            .iter()
            .enumerate()
            .map(move |(i, trial)| {
                let spent = search.cpu_percent.get(i);
                let lost = 100.0 * trial.loss_ratio();
                let seconds = trial.duration.as_secs_f64();
                Row::of([
                    Field::count(round.into()),
                    Field::count(i as u64 + 1),
                    Field::number(
                        crate::report::numbers::value(Metric::Rate, trial.load_pps),
                        trial.load_pps,
                    ),
                    Field::number(short(seconds), seconds),
                    Field::count(trial.intended),
                    Field::count(trial.sent),
                    Field::count(trial.received),
                    Field::number(loss(lost), lost),
                    cpu(spent.and_then(|c| c.sender)),
                    cpu(spent.and_then(|c| c.receiver)),
                ])
            })
    });
    Table::new(r.names.cell(&f.cell.key), &columns).with(rows)
}
