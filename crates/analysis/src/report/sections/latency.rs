//! Latency by percentile: every nine takes the same room, and the curve is not smoothed.

use crate::record::{CellKey, GroupKey};
use crate::results::LatencyCurve;

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, Lines, Series, XAxis, YAxis};
use crate::report::numbers::{NONE, fixed, short};
use crate::report::page::Report;
use crate::report::sections::charts::{group_charts, place};

/// Percentiles of the table.
const SHOWN: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0];

/// The charts, group by group.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let mut out = r.by_group(
        |_| true,
        |group| group_charts(r, group, chart(r, group).into_iter().collect()),
    );
    if !out.is_empty() {
        let hint = "Medians over the samples. A percentile is shown where at least ten values lie beyond it. Transactions: the whole \
                    round trip as measured, closed loop: a stall delays the next request instead of counting as many slow ones. Paced \
                    packets: one way, from the intended time of sending.";
        out.insert(0, Block::Hint(hint.to_owned()));
    }
    out
}

fn chart(r: &Report<'_>, group: GroupKey) -> Option<Chart> {
    let cells = r.measured(group);
    let curves: Vec<(CellKey, &LatencyCurve)> = cells
        .iter()
        .filter_map(|f| {
            Some((
                f.cell.key,
                f.latency.as_ref().filter(|l| l.curve.len() > 1)?,
            ))
        })
        .collect();
    let (_, first) = curves.first()?;
    let way = if first.one_way {
        "one way"
    } else {
        "round trip"
    };
    let title = format!("Latency by percentile, {way}, {}", r.names.group(&group));
    let series = curves.iter().map(|(key, latency)| Series {
        name: key.network(),
        backend: key.backend,
        points: latency
            .curve
            .iter()
            .copied()
            .filter(|&(p, v)| p < 100.0 && v > 0.0)
            .collect(),
    });
    let at = |l: &LatencyCurve, p: f64| l.curve.iter().find(|c| c.0 == p).map(|c| c.1);
    let words = curves.iter().map(|(key, l)| {
        let [half, most] = [50.0, 99.0].map(|p| at(l, p).map_or(NONE.to_owned(), short));
        format!(
            "{} median {half} µs, 99th percentile {most} µs",
            key.network()
        )
    });
    Some(Chart {
        id: format!("chart-latency-{}", place(r, group)),
        hint: "lower is better; both axes are logarithmic".to_owned(),
        words: words.collect::<Vec<_>>().join("; "),
        table: table(r, &title, &curves),
        title,
        drawing: Drawing::Lines(Lines {
            x: XAxis::Percentile,
            x_words: "percentile",
            y: YAxis::Powers,
            y_words: "µs".to_owned(),
            joined: true,
            series: series.collect(),
        }),
    })
}

fn table(r: &Report<'_>, title: &str, curves: &[(CellKey, &LatencyCurve)]) -> Table {
    let heads: Vec<String> = SHOWN
        .iter()
        .map(|p| match *p {
            0.0 => "#smallest µs".to_owned(),
            100.0 => "#largest µs".to_owned(),
            p => format!("#{p} % µs"),
        })
        .collect();
    let columns: Vec<&str> = ["Network"]
        .into_iter()
        .chain(heads.iter().map(String::as_str))
        .chain(["#Measured"])
        .collect();
    let rows = curves.iter().map(|(key, latency)| {
        let head = Field::network(key.network(), key.backend).to(r.names.anchor(key));
        let values = SHOWN.iter().map(|p| {
            let v = latency.curve.iter().find(|c| c.0 == *p).map(|c| c.1);
            Field::number(v.map_or(NONE.to_owned(), short), v)
        });
        let count = Field::number(fixed(latency.count as f64, 0), latency.count as f64);
        Row::of(std::iter::once(head).chain(values).chain([count]))
    });
    Table::new(title, &columns).with(rows)
}
