//! What the run says beside its first answer: every other question in a sentence, and behind each the comparisons that it
//! rests on, which lead to their rows.

use crate::record::{Bound, CellKey, Feature, Test};
use crate::results::{Axis, Compared, Metric};
use crate::stats::{Better, Comparison, Verdict};

use crate::report::answer::{Asked, Start, why_not};
use crate::report::block::{Block, Line, Span};
use crate::report::names::other_setting;
use crate::report::numbers::{amount, interval, name, ratio, ratio_interval, unit, value};
use crate::report::page::Report;

/// Every question but the first, and the rates that searches found.
pub(in crate::report) fn blocks(r: &Report<'_>, first: &Asked<'_>) -> Vec<Block> {
    let others = Asked::all(r)
        .into_iter()
        .filter(|asked| asked.question.title != first.question.title && !asked.pairs.is_empty());
    let mut out: Vec<Block> = others.flat_map(|asked| answer(r, &asked)).collect();
    out.extend(rates(r));
    out
}

fn answer(r: &Report<'_>, asked: &Asked<'_>) -> Vec<Block> {
    let mut text = asked.sentence(r, Start::Bare);
    if let Some(beside) = asked.beside(r) {
        text += " ";
        text += &beside;
    }
    vec![
        Block::Heading(asked.question.title.to_owned()),
        Block::text(text),
        evidence(r, asked),
    ]
}

/// The comparisons of a question, one a line.
pub(in crate::report) fn evidence(r: &Report<'_>, asked: &Asked<'_>) -> Block {
    let lines: Vec<Line> = asked.pairs.iter().map(|c| sentence(r, c)).collect();
    let note = asked.question.note;
    let hint = (!note.is_empty()).then(|| Block::Hint(note.to_owned()));
    let title = format!("Comparison by comparison ({})", lines.len());
    Block::Folded(
        title,
        hint.into_iter().chain([Block::List(lines)]).collect(),
    )
}

/// What is compared: its name, and what it is held against.
pub(in crate::report) fn sides(c: &Compared) -> (String, String) {
    let (a, b) = (
        other_setting(c.axis, &c.a.group),
        other_setting(c.axis, &c.b.group),
    );
    match c.axis {
        Axis::Backend | Axis::Itself => (c.a.network(), c.b.network()),
        Axis::Model => (
            format!("{}, {a}", c.a.network()),
            format!("{}, {b}", c.b.network()),
        ),
        Axis::Feature => {
            let with = match c.b.group.setting.feature {
                Feature::Default => "",
                _ => "with ",
            };
            (
                format!("{}, {a}", c.a.network()),
                format!("the same {with}{b}"),
            )
        }
        Axis::Without => (format!("{}, {a}", c.a.network()), c.b.network()),
        _ => (format!("{}, {a}", c.a.network()), b),
    }
}

/// One comparison in a sentence, with a link to its row.
fn sentence(r: &Report<'_>, c: &Compared) -> Line {
    let ((a, b), test) = (sides(c), c.a.group.workload.test);
    let common = r.names.common(c.axis, &c.a.group);
    let place = if common.is_empty() {
        test.to_string()
    } else {
        format!("{test} · {common}")
    };
    let mut line = Line(vec![Span::Key(c.a.backend)])
        .strong(a.clone())
        .text(format!(" with {place} "));
    let clauses = [Metric::primary(test), Metric::cost(test)];
    let mut clauses = clauses.into_iter().filter_map(|metric| {
        let found = r.analysis.comparison(c.a, c.b, metric)?;
        Some((clause(r, found)?, found.result.verdict))
    });
    if let Some((text, verdict)) = clauses.next() {
        line = line.text(text).span(Span::Verdict(verdict));
    }
    for (text, verdict) in clauses {
        line = line
            .text(format!(" and {text}"))
            .span(Span::Verdict(verdict));
    }
    line = line.text(format!(" against {b}. "));
    line.link(
        r.names.comparison(c),
        "row ↓",
        format!("Row of {a} against {b}, {place}"),
    )
}

/// `costs 3.0 % of the goodput [2.0, 4.0] `
fn clause(r: &Report<'_>, c: &Compared) -> Option<String> {
    said(noun(c.a, c.metric), c.metric, &c.result, why_not(r, c))
}

/// A figure and its interval are of one unit: both a ratio, or both in per cent.
fn said(noun: &str, metric: Metric, c: &Comparison, why: Option<&str>) -> Option<String> {
    let value = c.ratio?;
    let (much, range) = amount(value, c.ci95);
    let factor = much.starts_with('×');
    let higher = metric.better() == Better::Higher;
    let words = match (c.verdict, higher) {
        (Verdict::Better, _) if metric == Metric::MigrationTime && !factor => {
            format!("shortens the migration by {much} {range}")
        }
        (Verdict::Worse, _) if metric == Metric::MigrationTime && !factor => {
            format!("lengthens the migration by {much} {range}")
        }
        (Verdict::NotComparable, _) => match why {
            Some(why) => format!("cannot be compared in {noun}: {why}"),
            None => format!("cannot be compared in {noun}"),
        },
        // What is not proven stays a ratio, and so does its interval.
        (Verdict::Same | Verdict::CannotTell, _) => {
            let (ratio, range) = (ratio(value), ratio_interval(c.ci95));
            format!("has {ratio} the {noun} {range}")
        }
        (_, true) if factor => format!("gives {much} the {noun} {range}"),
        (_, false) if factor => format!("takes {much} the {noun} {range}"),
        (Verdict::Better, true) => format!("gives {much} more {noun} {range}"),
        (Verdict::Worse, true) => format!("costs {much} of the {noun} {range}"),
        (Verdict::Better, false) => format!("saves {much} of the {noun} {range}"),
        (Verdict::Worse, false) => format!("costs {much} more {noun} {range}"),
    };
    Some(format!("{} ", words.trim_end()))
}

/// What a metric is called in a sentence.
fn noun(key: CellKey, metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput => "goodput",
        Metric::Transactions => "transactions per second",
        Metric::Rate if key.group.workload.search.is_some() => "rate within the loss limit",
        Metric::Rate => "packets per second",
        Metric::CpuPerGbps => "CPU per Gbit/s",
        Metric::CpuPerTransaction => "CPU per transaction",
        Metric::CpuPerPacket => "CPU per packet",
        Metric::MigrationTime => "migration time",
        other => name(other),
    }
}

/// The rates that searches found.
fn rates(r: &Report<'_>) -> Vec<Block> {
    let line = |f: &&crate::results::CellFigures<'_>| {
        let (_, search) = f.searches().next()?;
        let goal = search.outcome.goals.first()?.goal;
        let loss = 100.0 * goal.parts().loss_ratio;
        let limit = if loss == 0.0 {
            "without loss".to_owned()
        } else {
            format!("with at most {loss} % of loss")
        };
        let (rate, key) = (f.get(Metric::Rate)?, f.cell.key);
        let figure = format!("{} {}", value(Metric::Rate, rate.mean), unit(Metric::Rate));
        let range = interval(Metric::Rate, Some(rate));
        let bound = if f.bound == Bound::Tool {
            " (the traffic tool was the bound)"
        } else {
            ""
        };
        let line = Line(vec![Span::Key(key.backend)]).strong(key.network());
        Some(
            line.text(format!(
                " carries {figure} {range} {limit}, {}{bound}. ",
                r.names.group(&key.group)
            ))
            .link(
                r.names.anchor(&key),
                "cell ↓",
                format!("Cell {}", r.names.cell(&key)),
            ),
        )
    };
    let groups = r.groups(Test::is_packets);
    let cells: Vec<_> = groups.into_iter().flat_map(|g| r.measured(g)).collect();
    let lines: Vec<Line> = cells.iter().filter_map(line).collect();
    let rates = cells.iter().filter(|f| f.searches().next().is_some());
    let rates = rates.filter_map(|f| f.get(Metric::Rate));
    let (low, high) = rates.fold((f64::MAX, f64::MIN), |(low, high), rate| {
        (low.min(rate.mean), high.max(rate.mean))
    });
    if lines.is_empty() {
        return Vec::new();
    }
    let text = |rate| value(Metric::Rate, rate);
    let sentence = format!(
        "From {} to {} {} within the loss limit, in {} cells.",
        text(low),
        text(high),
        unit(Metric::Rate),
        lines.len()
    );
    vec![
        Block::Heading("How many packets get through?".to_owned()),
        Block::text(sentence),
        Block::Folded("Cell by cell".to_owned(), vec![Block::List(lines)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::compare;

    #[test]
    fn a_figure_and_its_interval_have_one_unit() {
        let rows: Vec<(u32, f64)> = (0..8).map(|round| (round, 1.0)).collect();
        let c = |verdict, ratio, ci95| Comparison {
            verdict,
            ratio: Some(ratio),
            ci95: Some(ci95),
            ..compare(&rows, &rows, Better::Higher)
        };
        let text = |metric, c| said("figure", metric, &c, Some("one has outer checksums")).unwrap();
        let (goodput, cpu) = (Metric::Goodput, Metric::CpuPerGbps);
        for (metric, verdict, ratio, ci95, want) in [
            // Proven by its interval, and not among so many: still a ratio.
            (
                goodput,
                Verdict::CannotTell,
                0.93,
                [0.811, 0.979],
                "has ×0.93 the figure [0.81, 0.98] ",
            ),
            (
                cpu,
                Verdict::CannotTell,
                1.08,
                [1.02, 1.19],
                "has ×1.08 the figure [1.02, 1.19] ",
            ),
            (
                goodput,
                Verdict::CannotTell,
                1.01,
                [0.97, 1.04],
                "has ×1.01 the figure [0.97, 1.04] ",
            ),
            (
                goodput,
                Verdict::Same,
                0.98,
                [0.971, 0.989],
                "has ×0.98 the figure [0.97, 0.99] ",
            ),
            (
                goodput,
                Verdict::Worse,
                0.9,
                [0.88, 0.92],
                "costs 10.0 % of the figure [8.0, 12.0] ",
            ),
            (
                cpu,
                Verdict::Worse,
                1.1,
                [1.08, 1.12],
                "costs 10.0 % more figure [8.0, 12.0] ",
            ),
            (
                cpu,
                Verdict::Better,
                0.3,
                [0.25, 0.35],
                "takes ×0.30 the figure [0.25, 0.35] ",
            ),
            (
                goodput,
                Verdict::NotComparable,
                0.5,
                [0.4, 0.6],
                "cannot be compared in figure: one has outer checksums ",
            ),
        ] {
            assert_eq!(text(metric, c(verdict, ratio, ci95)), want);
        }
    }
}
