//! Loss against CPU, from the trials of searches: where does it set in?

use crate::record::{GroupKey, Test};
use crate::results::CellFigures;

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, Lines, Series, XAxis, YAxis};
use crate::report::numbers::{fixed, loss, short};
use crate::report::page::Report;
use crate::report::sections::charts::{group_charts, place};

/// One trial: busy CPU of the busier host, loss in per cent, load in kpps.
struct Point {
    cpu_percent: f64,
    loss_percent: f64,
    load_kpps: f64,
}

/// The charts, group by group.
pub(super) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let charts = r.by_group(Test::is_packets, |group| {
        group_charts(r, group, chart(r, group).into_iter().collect())
    });
    if charts.is_empty() {
        return charts;
    }
    let hint = "Each point is a trial of a search: busy CPU of the busier host against the share of frames lost. The draft saw loss of about 2 % \
                set in when the CPU passes 90 %.";
    let head = [
        Block::Heading("Loss against CPU".to_owned()),
        Block::Hint(hint.to_owned()),
    ];
    head.into_iter().chain(charts).collect()
}

fn trials(figures: &CellFigures<'_>) -> Vec<Point> {
    let searches = figures.searches().map(|(_, search)| search);
    let trials = searches.flat_map(|s| s.outcome.trials.iter().zip(&s.cpu_percent));
    let mut points: Vec<Point> = trials
        .map(|(trial, cpu)| Point {
            // Where the hosts share a CPU there is only the sum.
            cpu_percent: cpu
                .sender
                .into_iter()
                .chain(cpu.receiver)
                .reduce(f64::max)
                .unwrap_or(cpu.total),
            loss_percent: 100.0 * trial.loss_ratio(),
            load_kpps: trial.load_pps / 1000.0,
        })
        .filter(|p| p.cpu_percent.is_finite())
        .collect();
    points.sort_by(|a, b| a.cpu_percent.total_cmp(&b.cpu_percent));
    points
}

fn chart(r: &Report<'_>, group: GroupKey) -> Option<Chart> {
    let cells = r.measured(group);
    let all: Vec<(&CellFigures<'_>, Vec<Point>)> = cells
        .iter()
        .map(|f| (*f, trials(f)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if all.is_empty() {
        return None;
    }
    let title = format!("Loss against CPU, {}", r.names.group(&group));
    let words = all.iter().map(|(f, points)| {
        let from = points
            .iter()
            .find(|p| p.loss_percent > 0.1)
            .map(|p| p.cpu_percent);
        let from = from.map_or("no loss above 0.1 %".to_owned(), |v| {
            format!("loss from {} % CPU", fixed(v, 0))
        });
        format!("{}: {from}", f.cell.key.network())
    });
    let series = all.iter().map(|(f, points)| Series {
        name: f.cell.key.network(),
        backend: f.cell.key.backend,
        points: points
            .iter()
            .map(|p| (p.cpu_percent, p.loss_percent))
            .collect(),
    });
    Some(Chart {
        id: format!("chart-loss-{}", place(r, group)),
        hint: "one point a trial".to_owned(),
        words: words.collect::<Vec<_>>().join("; "),
        table: table(r, &title, &all),
        drawing: Drawing::Lines(Lines {
            x: XAxis::Linear,
            x_words: "CPU % of the busier host",
            y: YAxis::Linear,
            y_words: "loss %".to_owned(),
            joined: false,
            series: series.collect(),
        }),
        title,
    })
}

fn table(r: &Report<'_>, title: &str, all: &[(&CellFigures<'_>, Vec<Point>)]) -> Table {
    let columns = [
        "Network",
        "#CPU % of the busier host",
        "#Loss %",
        "#Load kpps",
    ];
    let rows = all.iter().flat_map(|(f, points)| {
        points.iter().map(move |p| {
            let key = f.cell.key;
            Row::of([
                Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
                Field::number(fixed(p.cpu_percent, 0), p.cpu_percent),
                Field::number(loss(p.loss_percent), p.loss_percent),
                Field::number(short(p.load_kpps), p.load_kpps),
            ])
        })
    });
    Table::new(title, &columns).with(rows)
}
