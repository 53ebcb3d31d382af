//! The first page: what the run answers, in sentences that are computed from its comparisons and lead to them. Which
//! comparisons answer which of the [`questions`](crate::report::sections::questions) is said there.

use crate::record::{Bound, CellKey, Feature, Test};
use crate::results::{Axis, Compared, Metric};
use crate::stats::Verdict;

use crate::report::block::{Block, Line, Span};
use crate::report::names::{mark, other_setting, pairs};
use crate::report::numbers::{amount, interval, name, ratio, unit, value};
use crate::report::page::Report;
use crate::report::sections::questions::{QUESTIONS, Question};

/// Settings of one kind that get a sentence each where the study asks the question; of more the first page gives the count.
const EACH: usize = 3;

/// Comparisons that one sentence can tell together: the same two networks or settings by the same test.
struct Topic<'c> {
    first: &'c Compared,
    all: Vec<&'c Compared>,
}

/// The first page.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let mut out = notes(r);
    let mut questions: Vec<&Question> = QUESTIONS.iter().collect();
    let asked = |q: &&Question| r.views().iter().position(q.first).unwrap_or(usize::MAX);
    questions.sort_by_key(asked);
    let found: Vec<Block> = questions.into_iter().flat_map(|q| answer(r, q)).collect();
    let rates = rates(r);
    if found.is_empty() && rates.is_empty() {
        out.push(Block::text(
            "There are no two cells with samples to compare: no answer.",
        ));
    }
    out.extend(found);
    out.extend(rates);
    out
}

/// What weakens every answer below.
fn notes(r: &Report<'_>) -> Vec<Block> {
    let measured: Vec<_> = r
        .analysis
        .cells
        .iter()
        .filter(|f| f.is_measured())
        .collect();
    let tool = measured.iter().filter(|f| f.bound == Bound::Tool).count();
    let mut out = Vec::new();
    if tool > 0 {
        out.push(Block::Note(format!(
            "In {tool} of {} cells the traffic tool was the bound: there differences between networks are hidden.",
            measured.len()
        )));
    }
    if r.analysis.run.interrupted {
        out.push(Block::Note(
            "The run did not come to its end: some cells have fewer samples, or none.".to_owned(),
        ));
    }
    out
}

fn answer(r: &Report<'_>, question: &Question) -> Vec<Block> {
    let topics = topics(pairs(
        r.analysis.comparisons.iter().filter(|c| (question.keep)(c)),
    ));
    if topics.is_empty() {
        return Vec::new();
    }
    let (mut lines, mut folded) = (Vec::new(), Vec::new());
    let each = if r.views().iter().any(question.first) {
        EACH
    } else {
        1
    };
    for topic in &topics {
        if topic.all.len() <= each {
            lines.extend(topic.all.iter().map(|c| sentence(r, c)));
        } else {
            lines.push(summary(r, topic));
            folded.extend(topic.all.iter().map(|c| sentence(r, c)));
        }
    }
    let mut out = vec![Block::Heading(question.title.to_owned())];
    if !question.note.is_empty() {
        out.push(Block::Hint(question.note.to_owned()));
    }
    out.push(Block::List(lines));
    if !folded.is_empty() {
        out.push(Block::Folded(
            format!("Setting by setting ({})", folded.len()),
            vec![Block::List(folded)],
        ));
    }
    out
}

fn topics(all: Vec<&Compared>) -> Vec<Topic<'_>> {
    let same = |a: &Compared, b: &Compared| {
        let key = |c: &Compared| {
            let at = |group| other_setting(c.axis, group);
            (
                c.axis,
                c.a.backend,
                c.b.backend,
                c.a.group.workload.test,
                at(&c.a.group),
                at(&c.b.group),
            )
        };
        key(a) == key(b)
    };
    let mut out: Vec<Topic<'_>> = Vec::new();
    for compared in all {
        match out.iter_mut().find(|topic| same(topic.first, compared)) {
            Some(topic) => topic.all.push(compared),
            None => out.push(Topic {
                first: compared,
                all: vec![compared],
            }),
        }
    }
    out
}

/// What is compared: its name, and what it is held against.
fn sides(c: &Compared) -> (String, String) {
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
        Some((clause(c.a, found)?, found.result.verdict))
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
fn clause(a: CellKey, c: &Compared) -> Option<String> {
    let (noun, value) = (noun(a, c.metric), c.result.ratio?);
    let (much, range) = amount(value, c.result.ci95);
    let factor = much.starts_with('×');
    let higher = c.metric == Metric::primary(a.group.workload.test);
    let words = match (c.result.verdict, higher) {
        (Verdict::NotComparable, _) => format!("cannot be compared in {noun}"),
        (Verdict::Same, _) => format!("has the same {noun} within 5 % {range}"),
        (Verdict::CannotTell, _) => format!("has {} the {noun} {range}", ratio(value)),
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
        other => name(other),
    }
}

/// Many comparisons in a sentence: how often which verdict, and how far.
fn summary(r: &Report<'_>, topic: &Topic<'_>) -> Line {
    let (c, (a, b)) = (topic.first, sides(topic.first));
    let test = c.a.group.workload.test;
    let head = format!(" against {b}, {test}, {} settings: ", topic.all.len());
    let mut line = Line(vec![Span::Key(c.a.backend)])
        .strong(a.clone())
        .text(head);
    for (i, metric) in [Metric::primary(test), Metric::cost(test)]
        .into_iter()
        .enumerate()
    {
        let find = |c: &&Compared| r.analysis.comparison(c.a, c.b, metric);
        let found: Vec<&Compared> = topic.all.iter().filter_map(find).collect();
        if i > 0 {
            line = line.text("; ");
        }
        line = line.text(format!("{} {}", noun(c.a, metric), counts(&found)));
    }
    line.text(". ").link(
        r.names.comparison(c),
        "rows ↓",
        format!("Rows of {a} against {b}"),
    )
}

/// `▲ better in 6 (×1.02 to ×1.10), ◆ cannot tell in 2`
fn counts(found: &[&Compared]) -> String {
    let one = |verdict: Verdict| {
        let hits = found.iter().filter(|c| c.result.verdict == verdict);
        let ratios: Vec<f64> = hits.filter_map(|c| c.result.ratio).collect();
        let (low, high) = ratios
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        let range = match ratios.len() {
            0 => return None,
            1 => ratio(low),
            _ => format!("{} to {}", ratio(low), ratio(high)),
        };
        Some(format!(
            "{} {} in {} ({range})",
            mark(verdict),
            verdict.words(),
            ratios.len()
        ))
    };
    let all = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::Same,
        Verdict::CannotTell,
        Verdict::NotComparable,
    ]
    .into_iter()
    .filter_map(one);
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        "not measured".to_owned()
    } else {
        all.join(", ")
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
    let (first, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| r.is_headline(g));
    let of = |groups: Vec<_>| -> Vec<Line> {
        let cells: Vec<_> = groups.into_iter().flat_map(|g| r.measured(g)).collect();
        cells.iter().filter_map(line).collect()
    };
    let (mut lines, mut rest) = (of(first), of(rest));
    if lines.is_empty() {
        lines = rest.drain(..rest.len().min(4 * EACH)).collect();
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let mut out = vec![
        Block::Heading("How many packets get through?".to_owned()),
        Block::List(lines),
    ];
    if !rest.is_empty() {
        out.push(Block::Folded(
            format!("{} more cells", rest.len()),
            vec![Block::List(rest)],
        ));
    }
    out
}
