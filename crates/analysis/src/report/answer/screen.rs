//! The first screen: the answer in a sentence, one chart, how far to trust it, and the figures of the main setting.

use crate::record::{GroupKey, Test};
use crate::results::{Axis, CellFigures, Compared, Metric};
use crate::stats::Verdict;

use crate::report::answer::{Asked, Quantity};
use crate::report::block::{Block, Chart, Field, Row, Table};
use crate::report::draw::{Drawing, ForestRow};
use crate::report::names::{capital, mark, other_setting};
use crate::report::numbers::heading;
use crate::report::page::Report;
use crate::report::sections::answers::{evidence, sides};
use crate::report::sections::cells::bound;
use crate::report::sections::charts::figure;
use crate::report::sections::comparisons::verdict;
use crate::report::sections::heat::strength;

/// Comparisons that the first chart shows; the others unfold.
const SHOWN: usize = 12;

/// Letters that fit into a line beside the chart.
const LINE: usize = 42;

/// The first screen.
pub(in crate::report) fn blocks(r: &Report<'_>, asked: &Asked<'_>) -> Vec<Block> {
    let answer = asked.answer(r);
    let mut out = vec![Block::Answer(answer.sentence, answer.beside)];
    let mut compared = comparisons(r, asked);
    let rest = compared.split_off(compared.len().min(SHOWN));
    let shown = compared.len();
    out.extend(chart(r, asked, "chart-answer", compared));
    out.push(Block::Trust(answer.trust));
    out.extend(answer.doubt.map(Block::Note));
    out.extend(figures(r, asked).map(Block::Table));
    if !rest.is_empty() {
        let title = format!(
            "The chart shows the {shown} clearest comparisons; {} more",
            rest.len()
        );
        let more = chart(r, asked, "chart-answer-rest", rest);
        out.push(Block::Folded(title, more.into_iter().collect()));
    }
    if !asked.pairs.is_empty() {
        out.push(evidence(r, asked));
    }
    out
}

/// The comparisons by what the question is about: of each network in turn the clearest first, and of these the largest
/// differences.
fn comparisons<'r>(r: &'r Report<'_>, asked: &Asked<'r>) -> Vec<&'r Compared> {
    let found = |c: &&Compared| {
        let metric = asked.metric(c.a.group.workload.test);
        r.analysis.comparison(c.a, c.b, metric)
    };
    let with_ratio = |c: &&Compared| c.result.ratio.is_some();
    let mut out: Vec<&Compared> = asked
        .counted
        .iter()
        .filter_map(found)
        .filter(with_ratio)
        .collect();
    let unclear = |c: &Compared| match c.result.verdict {
        Verdict::Better | Verdict::Worse => 0,
        Verdict::Same => 1,
        Verdict::CannotTell => 2,
        Verdict::NotComparable => 3,
    };
    let far = |c: &Compared| c.result.ratio.map_or(0.0, |v| v.max(1e-6).ln().abs());
    out.sort_by(|a, b| (unclear(a).cmp(&unclear(b))).then(far(b).total_cmp(&far(a))));
    let mut turns = std::collections::BTreeMap::new();
    let mut in_turn = Vec::new();
    for c in out {
        let turn = turns.entry((c.a.backend, c.b.backend)).or_insert(0);
        in_turn.push((*turn, c));
        *turn += 1;
    }
    in_turn.sort_by_key(|(turn, _)| *turn);
    in_turn.into_iter().map(|(_, c)| c).collect()
}

fn chart(r: &Report<'_>, asked: &Asked<'_>, id: &str, all: Vec<&Compared>) -> Option<Block> {
    let first = all.first()?;
    let against = |c: &Compared| sides(c).1;
    let same_against = all.iter().all(|c| against(c) == against(first));
    let name = |c: &Compared| match same_against {
        true => who(c),
        false => format!("{} against {}", who(c), against(c)),
    };
    let test = first.a.group.workload.test;
    let same_test = all.iter().all(|c| c.a.group.workload.test == test);
    let place = |c: &Compared| match r.names.common(c.axis, &c.a.group) {
        common if same_test && !common.is_empty() => common,
        _ => place(r, c),
    };
    // The one makes the headings, the other the rows: whichever takes less room.
    let by_place = height(&all, place, name) <= height(&all, name, place);
    let head = |c: &Compared| if by_place { place(c) } else { name(c) };
    let label = |c: &Compared| if by_place { name(c) } else { place(c) };
    let mut rows = Vec::new();
    for heading in headings(r, &all, head) {
        let below = all.iter().filter(|c| head(c) == heading);
        let mut below: Vec<&&Compared> = below.collect();
        below.sort_by(|a, b| {
            a.result
                .ratio
                .unwrap_or(1.0)
                .total_cmp(&b.result.ratio.unwrap_or(1.0))
        });
        rows.push(ForestRow::Heading(heading));
        rows.extend(below.into_iter().filter_map(|c| row(c, label(c))));
    }
    let quantity = asked.asked_of();
    let noun = capital(quantity.noun());
    let of = match quantity {
        Quantity::Figure(_) | Quantity::Cost(_) if same_test => format!(" of {test}"),
        _ => String::new(),
    };
    let title = if same_against {
        format!("{noun}{of} against {}", against(first))
    } else {
        format!("{noun}{of}, the difference")
    };
    Some(Block::Charts(vec![Chart {
        id: id.to_owned(),
        words: words(&all, name),
        hint: format!(
            "{}. Lines are 95\u{a0}% intervals, the band is ±5\u{a0}%. {}.",
            match quantity {
                Quantity::Figure(_) => "More is to the right",
                Quantity::Cost(_) => "More is to the right; less is better",
                Quantity::Time { .. } => "Shorter is to the left, and better",
            },
            marks(&all)
        ),
        table: table(r, &title, &all),
        title,
        drawing: Drawing::Forest(rows),
    }]))
}

/// `▲ better, ◆ cannot tell`: what the marks of these comparisons mean.
fn marks(all: &[&Compared]) -> String {
    let verdicts = [
        Verdict::Better,
        Verdict::Worse,
        Verdict::Same,
        Verdict::CannotTell,
        Verdict::NotComparable,
    ];
    let there = verdicts
        .into_iter()
        .filter(|verdict| all.iter().any(|c| c.result.verdict == *verdict));
    let words = there.map(|verdict| format!("{}\u{a0}{}", mark(verdict), verdict.words()));
    Vec::from_iter(words).join(", ")
}

/// The headings in the order of the plan.
fn headings(r: &Report<'_>, all: &[&Compared], head: impl Fn(&Compared) -> String) -> Vec<String> {
    let at = |c: &&&Compared| {
        let mut cells = r.analysis.cells.iter();
        let place = cells.position(|f| f.cell.key == c.a);
        let first = r.is_headline(&c.a.group);
        (!first, place)
    };
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(at);
    let mut out: Vec<String> = Vec::new();
    for heading in all.into_iter().map(|c| head(c)) {
        if !out.contains(&heading) {
            out.push(heading);
        }
    }
    out
}

/// Lines of a chart with these headings and these rows.
fn height(
    all: &[&Compared],
    head: impl Fn(&Compared) -> String,
    label: impl Fn(&Compared) -> String,
) -> usize {
    let heads: std::collections::BTreeSet<String> = all.iter().map(|c| head(c)).collect();
    let rows = all.iter().map(|c| label(c).chars().count() / LINE + 1);
    heads.len() + rows.sum::<usize>()
}

/// What both sides have in common.
fn place(r: &Report<'_>, c: &Compared) -> String {
    let (test, common) = (c.a.group.workload.test, r.names.common(c.axis, &c.a.group));
    if common.is_empty() {
        test.to_string()
    } else {
        format!("{test} · {common}")
    }
}

/// Who is compared: its network, and its setting where that has another on each row.
fn who(c: &Compared) -> String {
    match c.axis {
        Axis::Feature | Axis::Without => {
            format!("{}, {}", c.a.network(), other_setting(c.axis, &c.a.group))
        }
        _ => c.a.network(),
    }
}

fn row(c: &Compared, name: String) -> Option<ForestRow> {
    let (_, words) = strength(c)?;
    Some(ForestRow::Ratio {
        name,
        backend: c.a.backend,
        ratio: c.result.ratio?,
        ci95: c.result.ci95,
        verdict: c.result.verdict,
        words,
    })
}

/// The chart in words, for those who do not see it.
fn words(all: &[&Compared], name: impl Fn(&Compared) -> String) -> String {
    let one = |c: &&Compared| {
        let (_, words) = strength(c)?;
        Some(format!("{} {words}", name(c)))
    };
    let all: Vec<String> = all.iter().filter_map(one).collect();
    format!("{}.", all.join(", "))
}

fn table(r: &Report<'_>, caption: &str, all: &[&Compared]) -> Table {
    let rows = all.iter().map(|c| {
        Row::of([
            Field::network(who(c), c.a.backend).to(r.names.comparison(c)),
            Field::text(place(r, c)),
            Field::text(sides(c).1),
            verdict(Some(c)),
        ])
    });
    Table::new(caption, &["Network", "Setting", "Against", "#Ratio"]).with(rows)
}

/// The figures of the main setting: that of the first comparison, with both sides where these are two settings.
fn figures(r: &Report<'_>, asked: &Asked<'_>) -> Option<Table> {
    let headline = |c: &&&Compared| r.is_headline(&c.a.group);
    let first = asked
        .counted
        .iter()
        .find(headline)
        .or(asked.counted.first());
    let any = || r.analysis.groups.first().copied();
    let groups: Vec<GroupKey> = match first {
        Some(c) if c.a.group == c.b.group => vec![c.a.group],
        Some(c) => vec![c.b.group, c.a.group],
        None => any().into_iter().collect(),
    };
    let test = groups.first()?.workload.test;
    let between: &[Metric] = match test {
        Test::Migration => &[Metric::Downtime, Metric::FlowGap],
        _ => &[],
    };
    let mut metrics = vec![Metric::primary(test)];
    metrics.extend(between);
    metrics.push(Metric::cost(test));
    let heads = metrics
        .iter()
        .map(|metric| format!("#{}", heading(*metric)));
    let heads: Vec<String> = heads.collect();
    let several = groups.len() > 1;
    let mut columns = vec!["Network"];
    columns.extend(several.then_some("Setting"));
    columns.extend(heads.iter().map(String::as_str));
    columns.push("Bound by");
    let caption = match several {
        true => format!("The figures, {test}"),
        false => format!("The figures, {}", r.names.group(groups.first()?)),
    };
    let cells: Vec<&CellFigures<'_>> = groups.iter().flat_map(|g| r.measured(*g)).collect();
    let rows = cells.iter().map(|f| {
        let key = f.cell.key;
        let mut row = vec![Field::network(key.network(), key.backend).to(r.names.anchor(&key))];
        row.extend(several.then(|| Field::text(r.names.setting(&key.group))));
        row.extend(metrics.iter().map(|metric| figure(Some(f), *metric)));
        row.push(Field::text(bound(f)));
        Row::of(row)
    });
    (!cells.is_empty()).then(|| Table::new(caption, &columns).with(rows))
}
