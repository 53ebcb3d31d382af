//! Study B's view: two networks scenario by scenario, as the differences A − B with their intervals; the study's own table of
//! three samples stands beside, without a verdict.

use crate::record::{BackendName, CellKey, GroupKey, Setting, Test};
use crate::results::{Axis, CellFigures, Compared, Metric};
use crate::stats::mean;
use crate::stats::repeat::SetState;

use crate::report::block::{Block, Field, Row, Table};
use crate::report::numbers::{NONE, fixed, heading, signed, signed_interval, unit, value};
use crate::report::page::Report;
use crate::report::sections::charts::bare;

/// The tables of each pair (a, b).
pub(super) fn blocks(r: &Report<'_>, pairs: &[(BackendName, BackendName)]) -> Vec<Block> {
    pairs.iter().flat_map(|&pair| of_pair(r, pair)).collect()
}

fn of_pair(r: &Report<'_>, (a, b): (BackendName, BackendName)) -> Vec<Block> {
    let both = |test: fn(Test) -> bool| -> Vec<GroupKey> {
        let measured = |key: CellKey| r.figures(key).is_some_and(|f| f.primary().is_some());
        let all = r
            .analysis
            .groups
            .iter()
            .copied()
            .filter(|g| test(g.workload.test));
        all.filter(|g| measured(g.cell(a)) && measured(g.cell(b)))
            .collect()
    };
    let (streams, transactions) = (both(Test::is_tcp_stream), both(Test::is_transactions));
    if streams.is_empty() && transactions.is_empty() {
        return Vec::new();
    }
    let mut out = vec![
        Block::Heading(format!("{a} against {b}")),
        Block::Hint(format!(
            "Differences are {a} − {b}, medians over the pairs of a round with the 95 % interval; ▲ and ▼ are from the side of {a}. CPU is \
             the mean of both hosts’ CPUs, in per cent, as in the study."
        )),
    ];
    if !streams.is_empty() {
        out.push(Block::Table(throughput(r, &streams, (a, b))));
    }
    if !transactions.is_empty() {
        out.push(Block::Table(rates(r, &transactions, (a, b))));
    }
    let groups: Vec<GroupKey> = streams.into_iter().chain(transactions).collect();
    out.extend(sets(r, &groups, (a, b)));
    out
}

/// Throughput scenarios, compared by CPU.
fn throughput(r: &Report<'_>, groups: &[GroupKey], (a, b): (BackendName, BackendName)) -> Table {
    let (cpu_a, cpu_b) = (format!("#CPU % {a}"), format!("#CPU % {b}"));
    let columns = [
        "Scenario",
        &cpu_b,
        &cpu_a,
        "#Difference in points",
        "#Goodput, change",
    ];
    let mut table = Table::new(format!("CPU in throughput scenarios, {a} − {b}"), &columns);
    let mut differences = Vec::new();
    for &group in groups {
        let (key_a, key_b) = (group.cell(a), group.cell(b));
        let cpu = r.compare(Axis::Backend, key_a, key_b, Metric::CpuMean);
        differences.extend(cpu.as_ref().and_then(|c| c.result.difference));
        let goodput = r.compare(Axis::Backend, key_a, key_b, Metric::Goodput);
        table.rows.push(Row::of([
            scenario(r, group, a),
            bare(r.figures(key_b), Metric::CpuMean),
            bare(r.figures(key_a), Metric::CpuMean),
            points(cpu.as_ref()),
            change(goodput.as_ref()),
        ]));
    }
    table.foot.push(Row::of([
        Field::text("mean"),
        Field::text(""),
        Field::text(""),
        mean_points(&differences),
        Field::text(""),
    ]));
    table
}

/// Transactions, compared by rate and by CPU.
fn rates(r: &Report<'_>, groups: &[GroupKey], (a, b): (BackendName, BackendName)) -> Table {
    let per_second = unit(Metric::Transactions);
    let heads = [(b, per_second), (a, per_second), (b, "CPU %"), (a, "CPU %")]
        .map(|(n, what)| format!("#{what} {n}"));
    let columns = [
        "Scenario",
        &heads[0],
        &heads[1],
        "#Change",
        &heads[2],
        &heads[3],
        "#CPU, difference in points",
    ];
    let mut table = Table::new(format!("Requests per second, {a} against {b}"), &columns);
    let (mut changes, mut differences) = (Vec::new(), Vec::new());
    for &group in groups {
        let (key_a, key_b) = (group.cell(a), group.cell(b));
        let rate = r.compare(Axis::Backend, key_a, key_b, Metric::Transactions);
        let cpu = r.compare(Axis::Backend, key_a, key_b, Metric::CpuMean);
        changes.extend(rate.as_ref().and_then(|c| c.result.ratio));
        differences.extend(cpu.as_ref().and_then(|c| c.result.difference));
        table.rows.push(Row::of([
            scenario(r, group, a),
            bare(r.figures(key_b), Metric::Transactions),
            bare(r.figures(key_a), Metric::Transactions),
            change(rate.as_ref()),
            bare(r.figures(key_b), Metric::CpuMean),
            bare(r.figures(key_a), Metric::CpuMean),
            points(cpu.as_ref()),
        ]));
    }
    let change = mean(&changes).map_or(NONE.to_owned(), |v| {
        format!("{} %", signed(100.0 * (v - 1.0), 1))
    });
    let empty = || Field::text("");
    table.foot.push(Row::of([
        Field::text("mean"),
        empty(),
        empty(),
        Field::text(change),
        empty(),
        empty(),
        mean_points(&differences),
    ]));
    table
}

fn scenario(r: &Report<'_>, group: GroupKey, a: BackendName) -> Field {
    let unusual = group.setting != Setting::default();
    let setting = if unusual {
        group.setting.to_string()
    } else {
        String::new()
    };
    Field::text(group.workload.to_string())
        .small(setting)
        .to(r.names.anchor(&group.cell(a)))
}

fn points(compared: Option<&Compared>) -> Field {
    let Some((result, difference)) = compared.and_then(|c| Some((&c.result, c.result.difference?)))
    else {
        return Field::text(NONE);
    };
    Field::number(signed(difference, 2), difference)
        .small(signed_interval(result.difference_ci95, 2))
        .verdict(result.verdict)
}

fn change(compared: Option<&Compared>) -> Field {
    let Some((result, ratio)) = compared.and_then(|c| Some((&c.result, c.result.ratio?))) else {
        return Field::text(NONE);
    };
    let percent = |v: f64| 100.0 * (v - 1.0);
    let range = result.ci95.map(|ends| ends.map(percent));
    Field::number(format!("{} %", signed(percent(ratio), 1)), percent(ratio))
        .small(signed_interval(range, 1))
        .verdict(result.verdict)
}

fn mean_points(differences: &[f64]) -> Field {
    Field::text(mean(differences).map_or(NONE.to_owned(), |v| signed(v, 2)))
}

/// The table as the study makes it: means of the first set of samples within its limit. Nothing without such a rule.
fn sets(r: &Report<'_>, groups: &[GroupKey], (a, b): (BackendName, BackendName)) -> Vec<Block> {
    let rows: Vec<Row> = groups
        .iter()
        .filter_map(|&group| set_row(r, group, (a, b)))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = [b, a].map(|n| format!("#{n}, figure"));
    let cpu = [b, a].map(|n| format!("#{n}, CPU %"));
    let columns = [
        "Scenario",
        &heads[0],
        &heads[1],
        "#Change",
        &cpu[0],
        &cpu[1],
        "#CPU difference",
    ];
    let table = Table::new(
        format!("By the study’s own rule (sets of samples): {a} against {b}, without a verdict"),
        &columns,
    );
    vec![
        Block::Table(table.with(rows)),
        Block::Hint(
            "Means of the first set whose standard deviation is within the limit, the spread beside. Three samples bound a mean to \
             ±15 % only: no verdict stands on them."
                .to_owned(),
        ),
    ]
}

fn set_row(r: &Report<'_>, group: GroupKey, (a, b): (BackendName, BackendName)) -> Option<Row> {
    let metric = Metric::primary(group.workload.test);
    let of = |backend| accepted(r.figures(group.cell(backend))?);
    let (of_a, of_b) = (of(a), of(b));
    if of_a.is_none() && of_b.is_none() {
        return None;
    }
    let figure = |set: Option<Accepted>| match set {
        Some(s) => Field::number(value(metric, s.mean), s.mean)
            .small(s.spread.map_or(String::new(), |v| format!("± {v:.1} %"))),
        None => Field::text("no set within the limit"),
    };
    let cpu = |set: Option<Accepted>| {
        let v = set.and_then(|s| s.cpu);
        Field::number(v.map_or(NONE.to_owned(), |v| fixed(v, 2)), v)
    };
    let both = of_a.zip(of_b);
    let change = both
        .map(|(a, b)| 100.0 * (a.mean / b.mean - 1.0))
        .filter(|v| v.is_finite());
    let points = both.and_then(|(a, b)| Some(a.cpu? - b.cpu?));
    Some(Row::of([
        Field::text(group.workload.to_string()).small(heading(metric)),
        figure(of_b),
        figure(of_a),
        Field::number(
            change.map_or(NONE.to_owned(), |v| format!("{} %", signed(v, 1))),
            change,
        ),
        cpu(of_b),
        cpu(of_a),
        Field::number(points.map_or(NONE.to_owned(), |v| signed(v, 2)), points),
    ]))
}

/// The set that is the result by the rule.
#[derive(Clone, Copy)]
struct Accepted {
    mean: f64,
    spread: Option<f64>,
    cpu: Option<f64>,
}

fn accepted(figures: &CellFigures<'_>) -> Option<Accepted> {
    let set = figures
        .sets
        .iter()
        .find(|set| set.state == SetState::Accepted)?;
    let row = Metric::CpuMean.row(figures.cell);
    let cpu: Vec<f64> = row
        .iter()
        .filter(|(round, _)| set.rounds.contains(round))
        .map(|&(_, v)| v)
        .collect();
    Some(Accepted {
        mean: set.mean?,
        spread: set.spread_percent,
        cpu: mean(&cpu),
    })
}
