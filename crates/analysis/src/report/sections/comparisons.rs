//! Every comparison, axis by axis: the rows that the sentences of the first page lead to.

use crate::record::Test;
use crate::results::{Axis, Compared, Metric};

use crate::report::block::{Block, Field, Row, Table};
use crate::report::names::{method, other_setting, pairs};
use crate::report::numbers::{NONE, name, ratio, ratio_interval};
use crate::report::page::Report;
use crate::stats::Verdict;

/// The tables, folded: there are many, and links open them.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let mut axes: Vec<Axis> = r.analysis.comparisons.iter().map(|c| c.axis).collect();
    axes.sort_unstable();
    axes.dedup();
    let folded: Vec<Block> = axes
        .into_iter()
        .map(|axis| {
            let tables: Vec<Table> = r
                .analysis
                .tests()
                .filter_map(|test| table(r, axis, test))
                .collect();
            let count: usize = tables.iter().map(|t| t.rows.len()).sum();
            let title = format!("By {} ({count})", axis.words());
            Block::Folded(title, tables.into_iter().map(Block::Table).collect())
        })
        .collect();
    if folded.is_empty() {
        return folded;
    }
    let hint = "Median of the ratios within each round, its 95 % interval, and the verdict for the side named first.";
    std::iter::once(Block::Hint(hint.to_owned()))
        .chain(folded)
        .collect()
}

fn table(r: &Report<'_>, axis: Axis, test: Test) -> Option<Table> {
    let keep = |c: &&Compared| c.axis == axis && c.a.group.workload.test == test;
    let rows = pairs(r.analysis.comparisons.iter().filter(keep));
    if rows.is_empty() {
        return None;
    }
    let metrics = [Metric::primary(test), Metric::cost(test)];
    let heads = metrics.map(|m| format!("#{}", name(m)));
    let columns = [
        "Network", "Setting", "Against", &heads[0], &heads[1], "Samples",
    ];
    let caption = format!("{test}: by {}", axis.words());
    Some(Table::new(caption, &columns).with(rows.into_iter().map(|c| row(r, c, metrics))))
}

fn row(r: &Report<'_>, c: &Compared, metrics: [Metric; 2]) -> Row {
    let against = match c.axis {
        Axis::Backend | Axis::Itself | Axis::Without => c.b.network(),
        Axis::Model => format!("{}, {}", c.b.network(), other_setting(c.axis, &c.b.group)),
        _ => other_setting(c.axis, &c.b.group),
    };
    let [figure, cost] = metrics.map(|metric| verdict(r.analysis.comparison(c.a, c.b, metric)));
    let fields = [
        Field::network(c.a.network(), c.a.backend).to(r.names.anchor(&c.a)),
        Field::text(r.names.setting(&c.a.group)),
        Field::text(against).to(r.names.anchor(&c.b)),
        figure,
        cost,
        Field::text(method(c)),
    ];
    Row::of(fields).at(r.names.comparison(c))
}

/// `×1.42 [1.38, 1.45] ▲ better`
pub(in crate::report) fn verdict(compared: Option<&Compared>) -> Field {
    let Some((result, value)) = compared.and_then(|c| Some((&c.result, c.result.ratio?))) else {
        return Field::text(NONE);
    };
    let range = ratio_interval(result.ci95);
    let why = result
        .reason
        .filter(|_| result.verdict == Verdict::NotComparable);
    let small = match why {
        Some(why) => format!("{range} {}", why.words()),
        None => range,
    };
    Field::number(ratio(value), value)
        .small(small.trim_start())
        .verdict(result.verdict)
}
