//! Study D's view: what a step costs against a baseline, in six lines of which each shows its numbers, scaled to a whole host.

use crate::record::{BackendName, GroupKey, Test};
use crate::results::{Axis, Metric};

use super::super::content::{Block, Field, Line, Row, Span, Table};
use super::super::numbers::{fixed, interval, signed, signed_interval};
use super::super::page::Report;

/// What the cost is scaled to.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// A rate.
    pub(super) at_gbps: f64,
    /// Cores of a host.
    pub(super) cores: u32,
}

/// The calculations, group by group and step by step.
pub(super) fn blocks(
    r: &Report<'_>,
    baseline: &[BackendName],
    steps: &[BackendName],
    scale: Scale,
) -> Vec<Block> {
    let mut out = r.by_group(Test::is_tcp_stream, |group| {
        let base = baseline
            .iter()
            .copied()
            .find(|b| figure(r, group, *b).is_some());
        let Some(base) = base else { return Vec::new() };
        steps
            .iter()
            .filter(|step| **step != base)
            .flat_map(|&step| calculation(r, group, base, step, scale))
            .collect()
    });
    if !out.is_empty() {
        let hint = "Bandwidth and CPU are means over the samples; CPU is that of all hosts together, in per cent of one core. The last line \
                    is the measured difference with its interval, from pairs of one round: what the calculation rests on.";
        out.insert(0, Block::Hint(hint.to_owned()));
    }
    out
}

/// (Gbit/s, CPU %), means.
fn figure(r: &Report<'_>, group: GroupKey, backend: BackendName) -> Option<(f64, f64)> {
    let figures = r.figures(group.cell(backend))?;
    let (bandwidth, cpu) = (
        figures.get(Metric::Goodput)?.mean,
        figures.get(Metric::CpuTotal)?.mean,
    );
    (bandwidth > 0.0).then_some((bandwidth, cpu))
}

fn calculation(
    r: &Report<'_>,
    group: GroupKey,
    base: BackendName,
    step: BackendName,
    scale: Scale,
) -> Vec<Block> {
    let (Some(b), Some(s)) = (figure(r, group, base), figure(r, group, step)) else {
        return Vec::new();
    };
    let Scale { at_gbps, cores } = scale;
    let (per_b, per_s) = (b.1 / b.0, s.1 / s.0);
    let extra = per_s - per_b;
    let at_rate = extra * at_gbps;
    let host = at_rate / f64::from(cores);
    let columns = [
        "Line",
        "#Bandwidth Gbit/s",
        "#CPU % of one core",
        "#Result",
        "How",
    ];
    let measured = |line: &str, backend: BackendName, (gbps, cpu): (f64, f64), per: f64| {
        let name = Field::network(format!("{line}: {backend}"), backend)
            .to(r.names.anchor(&group.cell(backend)));
        let how = format!(
            "{} / {} = {} % per Gbit/s",
            fixed(cpu, 2),
            fixed(gbps, 3),
            fixed(per, 2)
        );
        let range = interval(
            Metric::Goodput,
            r.figures(group.cell(backend))
                .and_then(|f| f.get(Metric::Goodput)),
        );
        Row::of([
            name,
            Field::number(fixed(gbps, 3), gbps).small(range),
            Field::number(fixed(cpu, 2), cpu),
            Field::number(format!("{} %/Gbit/s", fixed(per, 2)), per),
            Field::wide(how),
        ])
    };
    let derived = |line: &str, result: String, sort: f64, how: String| {
        Row::of([
            Field::text(line),
            Field::text(""),
            Field::text(""),
            Field::number(result, sort),
            Field::wide(how),
        ])
    };
    let rows = [
        measured("1 Baseline", base, b, per_b),
        measured("2 Step", step, s, per_s),
        derived(
            "3 Extra per Gbit/s",
            format!("{} %/Gbit/s", signed(extra, 2)),
            extra,
            format!(
                "{} − {} = {}",
                fixed(per_s, 2),
                fixed(per_b, 2),
                signed(extra, 2)
            ),
        ),
        derived(
            "4 Extra at the rate",
            format!("{} % of one core", signed(at_rate, 1)),
            at_rate,
            format!(
                "{} × {at_gbps} Gbit/s = {}",
                fixed(extra, 2),
                signed(at_rate, 1)
            ),
        ),
        derived(
            "5 On the host",
            format!("{} % of {cores} cores", signed(host, 2)),
            host,
            format!(
                "{} / ({cores} × 100) = {} % of the host",
                fixed(at_rate, 1),
                signed(host, 2)
            ),
        ),
        verdict(r, group, base, step),
    ];
    let caption = format!("{step} against {base}, {}", r.names.group(&group));
    let compared = r.compare(
        Axis::Backend,
        group.cell(step),
        group.cell(base),
        Metric::CpuPerGbps,
    );
    let mut line = Line(vec![Span::Key(step)])
        .strong(format!("{step}, {}", r.names.group(&group)))
        .text(format!(
            ": {} % of a core at {at_gbps} Gbit/s against {base}, {} % of a host of {cores} cores",
            signed(at_rate, 1),
            signed(host, 2)
        ));
    if let Some(compared) = compared {
        line = line.text(": ").span(Span::Verdict(compared.result.verdict));
    }
    vec![
        Block::Text(line.text(".")),
        Block::Table(Table::new(caption, &columns).with(rows)),
    ]
}

fn verdict(r: &Report<'_>, group: GroupKey, base: BackendName, step: BackendName) -> Row {
    let compared = r.compare(
        Axis::Backend,
        group.cell(step),
        group.cell(base),
        Metric::CpuPerGbps,
    );
    let empty = || Field::text("");
    let head = Field::text("6 Measured difference");
    let Some((compared, difference)) = compared.and_then(|c| c.result.difference.map(|d| (c, d)))
    else {
        return Row::of([
            head,
            empty(),
            empty(),
            Field::text("–"),
            Field::text("not enough samples"),
        ]);
    };
    let result = &compared.result;
    let shown = Field::number(format!("{} %/Gbit/s", signed(difference, 2)), difference)
        .small(signed_interval(result.difference_ci95, 2))
        .verdict(result.verdict);
    let how = format!("median over {}", super::super::words::method(&compared));
    Row::of([head, empty(), empty(), shown, Field::wide(how)])
}
