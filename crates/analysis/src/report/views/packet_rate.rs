//! Study A's view: packets per second on the underlay over time, beside the goodput.

use crate::record::{Cell, GroupKey, Interval, Test};
use crate::stats::median;

use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, Lines, Series, XAxis, YAxis};
use crate::report::numbers::{NONE, fixed, short};
use crate::report::page::Report;
use crate::report::sections::charts::{group_charts, place};

/// A quantity of an interval.
type Quantity = fn(&Interval) -> Option<f64>;

/// The charts, group by group.
pub(super) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let mut out = r.by_group(Test::is_tcp_stream, |group| {
        let rate = chart(r, group, "rate", "Packets on the underlay, kpps", |i| {
            Some(i.underlay_rate_pps / 1000.0)
        });
        let arrived = chart(r, group, "arrived", "Packets at the receiver, kpps", |i| {
            Some(i.receiver_rate_pps / 1000.0)
        });
        let goodput = chart(r, group, "goodput", "Goodput, Gbit/s", |i| i.goodput_gbps);
        group_charts(
            r,
            group,
            rate.into_iter().chain(arrived).chain(goodput).collect(),
        )
    });
    if !out.is_empty() {
        let hint = "Medians over the samples at each moment of their windows. The packet rate is the study’s explanation of the goodput: \
                    a CPU that has to take each packet in its hands carries a rate of packets, whatever their size. \
                    At the receiver fewer arrive where something joins segments on the way.";
        out.insert(0, Block::Hint(hint.to_owned()));
    }
    out
}

fn chart(r: &Report<'_>, group: GroupKey, id: &str, title: &str, of: Quantity) -> Option<Chart> {
    let cells = r.measured(group);
    let series: Vec<Series> = cells
        .iter()
        .map(|f| Series {
            name: f.cell.key.network(),
            backend: f.cell.key.backend,
            points: over_time(f.cell, of),
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    let mean = |s: &Series| s.points.iter().map(|p| p.1).sum::<f64>() / s.points.len() as f64;
    let words: Vec<String> = series
        .iter()
        .map(|s| format!("{} about {}", s.name, short(mean(s))))
        .collect();
    (!series.is_empty()).then(|| {
        let title = format!("{title}, {}", r.names.group(&group));
        Chart {
            id: format!("chart-time-{id}-{}", place(r, group)),
            hint: "over the window of a sample".to_owned(),
            words: words.join(", "),
            table: table(&title, &series),
            drawing: Drawing::Lines(Lines {
                x: XAxis::Linear,
                x_words: "seconds",
                y: YAxis::Linear,
                y_words: title.split(", ").nth(1).unwrap_or_default().to_owned(),
                joined: true,
                series,
            }),
            title,
        }
    })
}

/// The medians over the samples that count, moment by moment.
fn over_time(cell: &Cell, of: Quantity) -> Vec<(f64, f64)> {
    let samples: Vec<&[Interval]> = cell.counted().map(|s| s.intervals.as_slice()).collect();
    let moments = samples.iter().map(|s| s.len()).max().unwrap_or_default();
    let at = |i: usize| {
        let here = || samples.iter().filter_map(move |s| s.get(i));
        let time = median(&here().map(|i| i.at_seconds).collect::<Vec<_>>())?;
        let values: Vec<f64> = here().filter_map(of).collect();
        Some((time, median(&values)?))
    };
    (0..moments).filter_map(at).collect()
}

fn table(title: &str, series: &[Series]) -> Table {
    let heads: Vec<String> = series.iter().map(|s| format!("#{}", s.name)).collect();
    let columns: Vec<&str> = ["#Seconds"]
        .into_iter()
        .chain(heads.iter().map(String::as_str))
        .collect();
    let moments = series
        .iter()
        .map(|s| s.points.len())
        .max()
        .unwrap_or_default();
    let rows = (0..moments).map(|i| {
        let time = series.iter().find_map(|s| Some(s.points.get(i)?.0));
        let head = Field::number(time.map_or(NONE.to_owned(), |t| fixed(t, 2)), time);
        let values = series.iter().map(|s| {
            let v = s.points.get(i).map(|p| p.1);
            Field::number(v.map_or(NONE.to_owned(), short), v)
        });
        Row::of(std::iter::once(head).chain(values))
    });
    Table::new(title, &columns).with(rows)
}
