//! Loss against CPU, from the trials of searches: where does it set in?

use crate::record::{BackendName, Test};
use crate::results::CellFigures;

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, Lines, Series, XAxis, YAxis};
use crate::report::numbers::{fixed, loss, short};
use crate::report::page::Report;

/// One trial: busy CPU of the busier host, loss in per cent, load in kpps.
struct Point {
    cpu_percent: f64,
    loss_percent: f64,
    load_kpps: f64,
}

/// The chart, of all searches of the run.
pub(super) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let Some(chart) = chart(r) else {
        return Vec::new();
    };
    let hint = "Each point is a trial of a search: busy CPU of the busier host against the share of frames lost. The draft saw loss of about 2 % \
                set in when the CPU passes 90 %.";
    vec![
        Block::Heading("Loss against CPU".to_owned()),
        Block::Hint(hint.to_owned()),
        Block::Charts(vec![chart]),
    ]
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

fn chart(r: &Report<'_>) -> Option<Chart> {
    let groups = r.groups(Test::is_packets).into_iter();
    let all: Vec<(&CellFigures<'_>, Vec<Point>)> = groups
        .flat_map(|group| r.measured(group))
        .map(|f| (f, trials(f)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let mut networks: Vec<BackendName> = all.iter().map(|(f, _)| f.cell.key.backend).collect();
    networks.sort_unstable();
    networks.dedup();
    let of = |backend: BackendName| {
        let cells = all
            .iter()
            .filter(move |(f, _)| f.cell.key.backend == backend);
        cells.flat_map(|(_, points)| points)
    };
    let words = networks.iter().map(|&backend| {
        let losing = of(backend).filter(|p| p.loss_percent > 0.1);
        let from = losing.map(|p| p.cpu_percent).reduce(f64::min);
        let from = from.map_or("no loss above 0.1 %".to_owned(), |v| {
            format!("loss from {} % CPU", fixed(v, 0))
        });
        format!("{backend}: {from}")
    });
    let series = networks.iter().map(|&backend| Series {
        name: backend.to_string(),
        backend,
        points: of(backend)
            .map(|p| (p.cpu_percent, p.loss_percent))
            .collect(),
    });
    let title = "Loss against CPU, all frame sizes";
    (!networks.is_empty()).then(|| Chart {
        id: "chart-loss".to_owned(),
        hint: "one point a trial".to_owned(),
        words: words.collect::<Vec<_>>().join("; "),
        table: table(r, title, &all),
        drawing: Drawing::Lines(Lines {
            x: XAxis::Linear,
            x_words: "CPU % of the busier host",
            y: YAxis::Linear,
            y_words: "loss %".to_owned(),
            joined: false,
            series: series.collect(),
        }),
        title: title.to_owned(),
    })
}

fn table(r: &Report<'_>, title: &str, all: &[(&CellFigures<'_>, Vec<Point>)]) -> Table {
    let columns = [
        "Network",
        "Setting",
        "#CPU % of the busier host",
        "#Loss %",
        "#Load kpps",
    ];
    let rows = all.iter().flat_map(|(f, points)| {
        points.iter().map(move |p| {
            let key = f.cell.key;
            Row::of([
                Field::network(key.network(), key.backend).to(r.names.anchor(&key)),
                Field::text(r.names.setting(&key.group)),
                Field::number(fixed(p.cpu_percent, 0), p.cpu_percent),
                Field::number(loss(p.loss_percent), p.loss_percent),
                Field::number(short(p.load_kpps), p.load_kpps),
            ])
        })
    });
    Table::new(title, &columns).with(rows)
}
