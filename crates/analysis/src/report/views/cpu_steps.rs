//! Study D's view: what a step costs against a baseline, in six lines of which each shows its numbers, scaled to a whole host.

use crate::record::{BackendName, CellKey, Feature, GroupKey, Test};
use crate::results::{Axis, Compared, Metric};

use crate::report::block::{Block, Field, Line, Row, Span, Table};
use crate::report::numbers::{fixed, interval, signed, signed_interval};
use crate::report::page::Report;

/// What the cost is scaled to.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// A rate.
    pub(super) at_gbps: f64,
    /// Cores of a host.
    pub(super) cores: u32,
}

/// A step, and what it is held against.
#[derive(Clone, Copy)]
struct Step {
    base: CellKey,
    step: CellKey,
    axis: Axis,
}

/// The calculations, group by group and step by step.
pub(super) fn blocks(
    r: &Report<'_>,
    baseline: &[BackendName],
    steps: &[BackendName],
    features: &[Feature],
    scale: Scale,
) -> Vec<Block> {
    let mut out = r.by_group(Test::is_tcp_stream, |group| {
        if group.setting.feature != Feature::Default {
            return Vec::new();
        }
        let all = to_backends(r, group, baseline, steps);
        all.into_iter()
            .chain(to_features(group, features))
            .flat_map(|step| calculation(r, step, scale))
            .collect()
    });
    if !out.is_empty() {
        let hint = "Bandwidth and CPU are means over the samples; CPU is that of all hosts together, in per cent of one core. The last line \
                    is the measured difference with its interval, from pairs of one round: what the calculation rests on.";
        out.insert(0, Block::Hint(hint.to_owned()));
    }
    out
}

/// From the first baseline that was measured to each of the other backends.
fn to_backends(
    r: &Report<'_>,
    group: GroupKey,
    baseline: &[BackendName],
    steps: &[BackendName],
) -> Vec<Step> {
    let mut bases = baseline.iter().map(|backend| group.cell(*backend));
    let Some(base) = bases.find(|base| figure(r, *base).is_some()) else {
        return Vec::new();
    };
    let others = steps.iter().filter(|step| **step != base.backend);
    others
        .map(|step| Step {
            base,
            step: group.cell(*step),
            axis: Axis::Backend,
        })
        .collect()
}

/// From each backend as it comes to the same with each feature.
fn to_features(group: GroupKey, features: &[Feature]) -> impl Iterator<Item = Step> {
    let step = move |backend, feature: &Feature| Step {
        base: group.cell(backend),
        step: group.with_feature(*feature).cell(backend),
        axis: Axis::Feature,
    };
    let backends = BackendName::ALL.into_iter();
    backends.flat_map(move |backend| features.iter().map(move |feature| step(backend, feature)))
}

/// (Gbit/s, CPU %), means.
fn figure(r: &Report<'_>, key: CellKey) -> Option<(f64, f64)> {
    let figures = r.figures(key)?;
    let (bandwidth, cpu) = (
        figures.get(Metric::Goodput)?.mean,
        figures.get(Metric::CpuTotal)?.mean,
    );
    (bandwidth > 0.0).then_some((bandwidth, cpu))
}

/// `overlane-vxlan`, or what it does besides switching: as a step is called.
fn name(axis: Axis, key: CellKey) -> String {
    match axis {
        Axis::Feature => format!("{}, {}", key.network(), key.group.setting.feature.words()),
        _ => key.network(),
    }
}

fn calculation(r: &Report<'_>, taken: Step, scale: Scale) -> Vec<Block> {
    let Step { base, step, axis } = taken;
    let (Some(b), Some(s)) = (figure(r, base), figure(r, step)) else {
        return Vec::new();
    };
    let Scale { at_gbps, cores } = scale;
    let (per_b, per_s) = (b.1 / b.0, s.1 / s.0);
    let extra = per_s - per_b;
    let at_rate = extra * at_gbps;
    let host = at_rate / f64::from(cores);
    let compared = r.compare(axis, step, base, Metric::CpuPerGbps);
    let rows = [
        measured(r, "1 Baseline", (axis, base), b),
        measured(r, "2 Step", (axis, step), s),
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
        verdict(compared.as_ref()),
    ];
    let (step_name, base_name) = (name(axis, step), name(axis, base));
    let place = r.names.group(&base.group);
    let mut line = Line(vec![Span::Key(step.backend)])
        .strong(format!("{step_name}, {place}"))
        .text(format!(
            ": {} % of a core at {at_gbps} Gbit/s against {base_name}, {} % of a host of {cores} cores",
            signed(at_rate, 1),
            signed(host, 2)
        ));
    if let Some(compared) = compared {
        line = line.text(": ").span(Span::Verdict(compared.result.verdict));
    }
    let caption = format!("{step_name} against {base_name}, {place}");
    let columns = [
        "Line",
        "#Bandwidth Gbit/s",
        "#CPU % of one core",
        "#Result",
        "How",
    ];
    vec![
        Block::Text(line.text(".")),
        Block::Table(Table::new(caption, &columns).with(rows)),
    ]
}

/// A line of what was measured: bandwidth, CPU, and CPU for a Gbit/s.
fn measured(
    r: &Report<'_>,
    line: &str,
    (axis, key): (Axis, CellKey),
    (gbps, cpu): (f64, f64),
) -> Row {
    let per = cpu / gbps;
    let name = Field::network(format!("{line}: {}", name(axis, key)), key.backend)
        .to(r.names.anchor(&key));
    let how = format!(
        "{} / {} = {} % per Gbit/s",
        fixed(cpu, 2),
        fixed(gbps, 3),
        fixed(per, 2)
    );
    let range = interval(
        Metric::Goodput,
        r.figures(key).and_then(|f| f.get(Metric::Goodput)),
    );
    Row::of([
        name,
        Field::number(fixed(gbps, 3), gbps).small(range),
        Field::number(fixed(cpu, 2), cpu),
        Field::number(format!("{} %/Gbit/s", fixed(per, 2)), per),
        Field::wide(how),
    ])
}

/// A line of what follows from it.
fn derived(line: &str, result: String, sort: f64, how: String) -> Row {
    Row::of([
        Field::text(line),
        Field::text(""),
        Field::text(""),
        Field::number(result, sort),
        Field::wide(how),
    ])
}

fn verdict(compared: Option<&Compared>) -> Row {
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
    let how = format!("median over {}", crate::report::names::method(compared));
    Row::of([head, empty(), empty(), shown, Field::wide(how)])
}
