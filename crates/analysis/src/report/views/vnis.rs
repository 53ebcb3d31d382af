//! What many VNIs cost: the figure and its CPU by their number, packets rotating over all of them.

use crate::record::{BackendName, GroupKey};
use crate::results::{Axis, Metric};

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, Lines, Series, XAxis, YAxis};
use crate::report::numbers::{heading, name, short, unit};
use crate::report::page::Report;
use crate::report::sections::charts::{figure, place};
use crate::report::sections::comparisons::verdict;
use crate::report::sections::heat::caption;

/// The charts of each row of groups that differ in the number of VNIs alone.
pub(super) fn blocks(r: &Report<'_>) -> Vec<Block> {
    rows(r).iter().flat_map(|groups| row(r, groups)).collect()
}

/// Groups that differ in the number of VNIs alone, rising.
fn rows(r: &Report<'_>) -> Vec<Vec<GroupKey>> {
    let like = |g: &GroupKey| {
        let mut like = *g;
        like.setting.vnis = 1;
        like
    };
    let mut out: Vec<Vec<GroupKey>> = Vec::new();
    for group in &r.analysis.groups {
        match out
            .iter_mut()
            .find(|row| row.first().map(like) == Some(like(group)))
        {
            Some(row) => row.push(*group),
            None => out.push(vec![*group]),
        }
    }
    out.retain(|row| row.len() > 1);
    out.iter_mut()
        .for_each(|row| row.sort_by_key(|g| g.setting.vnis));
    out
}

fn row(r: &Report<'_>, groups: &[GroupKey]) -> Vec<Block> {
    let Some(&first) = groups.first() else {
        return Vec::new();
    };
    let test = first.workload.test;
    let charts: Vec<Chart> = [Metric::primary(test), Metric::cost(test)]
        .into_iter()
        .filter_map(|m| chart(r, groups, m))
        .collect();
    if charts.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Heading(r.names.group(&first)),
        Block::Charts(charts),
        Block::Table(table(r, groups)),
    ]
}

fn chart(r: &Report<'_>, groups: &[GroupKey], metric: Metric) -> Option<Chart> {
    let first = *groups.first()?;
    let scale = if unit(metric) == "kpps" || unit(metric) == "thousand/s" {
        1000.0
    } else {
        1.0
    };
    let points = |backend: BackendName| -> Vec<(f64, f64)> {
        let one = |g: &GroupKey| {
            let mean = r.figures(g.cell(backend))?.get(metric)?.mean;
            Some((f64::from(g.setting.vnis), mean / scale))
        };
        groups.iter().filter_map(one).collect()
    };
    let series = r.analysis.backends().map(|backend| Series {
        name: backend.to_string(),
        backend,
        points: points(backend),
    });
    let series: Vec<Series> = series.filter(|s| !s.points.is_empty()).collect();
    let words = |s: &Series| {
        let ends = [s.points.first(), s.points.last()]
            .map(|p| p.map_or(String::new(), |p| format!("{} at {}", short(p.1), p.0)));
        format!("{} {}", s.name, ends.join(", "))
    };
    let words: Vec<String> = series.iter().map(words).collect();
    let title = format!(
        "{} by number of VNIs, {}",
        caption(metric),
        r.names.group(&first)
    );
    (!series.is_empty()).then(|| Chart {
        id: format!("chart-vnis-{}-{}", metric.key(), place(r, first)),
        hint: "VNIs by powers of two".to_owned(),
        words: words.join("; "),
        table: table(r, groups),
        title,
        drawing: Drawing::Lines(Lines {
            x: XAxis::Powers,
            x_words: "VNIs",
            y: YAxis::Linear,
            y_words: unit(metric).to_owned(),
            joined: true,
            series,
        }),
    })
}

fn table(r: &Report<'_>, groups: &[GroupKey]) -> Table {
    let Some(first) = groups.first() else {
        return Table::new("", &[]);
    };
    let metrics = [
        Metric::primary(first.workload.test),
        Metric::cost(first.workload.test),
    ];
    let heads = metrics.map(|m| {
        [
            format!("#{}", heading(m)),
            format!("#{}, against the fewest", name(m)),
        ]
    });
    let columns = [
        "Network",
        "#VNIs",
        &heads[0][0],
        &heads[0][1],
        &heads[1][0],
        &heads[1][1],
    ];
    let cells = r
        .analysis
        .backends()
        .flat_map(|b| groups.iter().map(move |g| (b, g)));
    let rows = cells
        .filter(|(b, g)| r.figures(g.cell(*b)).is_some())
        .map(|(backend, group)| {
            let key = group.cell(backend);
            let head = [
                Field::network(key.network(), backend).to(r.names.anchor(&key)),
                Field::count(group.setting.vnis.into()),
            ];
            let figures = metrics.into_iter().flat_map(|m| {
                let against = match group == first {
                    true => Field::text(""),
                    false => verdict(r.compare(Axis::Vnis, key, first.cell(backend), m).as_ref()),
                };
                [figure(r.figures(key), m), against]
            });
            Row::of(head.into_iter().chain(figures))
        });
    Table::new(
        format!("Cost by the number of VNIs, {}", r.names.group(first)),
        &columns,
    )
    .with(rows)
}
