//! The published figures beside ours: the tables as they were printed, and ratios of two figures of the document against the
//! same ratio here. Absolute values of other hardware are never held against ours.

use crate::record::{BackendName, CellKey, GuestKind};
use crate::results::{Axis, Metric};
use crate::stats::Comparison;
use crate::study::{PublishedRatio, PublishedTable, Selector};

use crate::report::block::{Block, Chart, Field, Line, Row, Span, Table};
use crate::report::draw::{Drawing, RatioRow};
use crate::report::numbers::{NONE, fixed, name, ratio, ratio_interval};
use crate::report::page::Report;

/// Ratios of one kind that the chart shows; the table has all.
const SHOWN: usize = 24;

/// A published ratio with ours.
struct Shape<'s> {
    published: &'s PublishedRatio,
    value: f64,
    ours: Vec<Ours>,
}

/// The same ratio of two cells here.
struct Ours {
    a: CellKey,
    b: CellKey,
    label: String,
    result: Comparison,
}

/// Source, ratios, tables, findings.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let study = &r.analysis.run.study;
    let published = &study.published;
    let mut out = Vec::new();
    if let Some(source) = &study.source {
        let address = Span::Address {
            url: source.url.clone(),
            text: source.title.clone(),
        };
        let rest = format!(
            " ({}, {}). {}",
            source.publisher, source.date, source.testbed
        );
        out.push(Block::Text(Line(vec![address]).text(rest)));
    }
    let shapes: Vec<Shape<'_>> = published
        .ratios
        .iter()
        .filter_map(|p| shape(r, p))
        .collect();
    if !shapes.is_empty() {
        let note = "Other hardware: only shapes and ratios compare, never absolute values.";
        out.push(Block::Note(note.to_owned()));
        out.extend(chart(&shapes).map(|chart| Block::Charts(vec![chart])));
        out.push(Block::Table(ratios(r, &shapes)));
    }
    let tables: Vec<Block> = published
        .tables
        .iter()
        .map(|t| Block::Table(printed(t)))
        .collect();
    if !tables.is_empty() {
        out.push(Block::Folded(
            "The tables as they were published".to_owned(),
            tables,
        ));
    }
    if !published.findings.is_empty() {
        out.push(Block::Heading("What the document says besides".to_owned()));
        out.push(Block::List(
            published.findings.iter().map(Line::of).collect(),
        ));
    }
    out
}

fn shape<'s>(r: &Report<'_>, published: &'s PublishedRatio) -> Option<Shape<'s>> {
    let value = published.published.0 / published.published.1;
    let metric = Metric::from_key(&published.metric)?;
    let pairs = published.a.backends.iter().zip(&published.b.backends);
    let ours: Vec<Ours> = pairs
        .flat_map(|(&a, &b)| held(r, published, metric, (a, b)))
        .collect();
    (value.is_finite() && value > 0.0).then_some(Shape {
        published,
        value,
        ours,
    })
}

/// Every pair of cells that is like the two published figures: what neither selects is the same on both sides.
fn held(
    r: &Report<'_>,
    published: &PublishedRatio,
    metric: Metric,
    (a, b): (BackendName, BackendName),
) -> Vec<Ours> {
    let like = |backend: BackendName, by: &Selector| -> Vec<CellKey> {
        let cells = r
            .analysis
            .cells
            .iter()
            .filter(|f| f.cell.key.backend == backend && f.cell.key.copy == 0);
        cells
            .filter(|f| f.is_measured() && by.selects(&f.cell.key))
            .map(|f| f.cell.key)
            .collect()
    };
    let (all_a, all_b) = (like(a, &published.a), like(b, &published.b));
    let one = |a_key: &CellKey| {
        let partner = all_b
            .iter()
            .find(|b_key| same_rest(a_key, b_key, published))?;
        let axis = if a == b { Axis::Itself } else { Axis::Backend };
        let result = r.compare(axis, *a_key, *partner, metric)?.result;
        let label = if a == b {
            a.to_string()
        } else {
            format!("{a} / {b}")
        };
        let label = match a_key.group.setting.guests {
            GuestKind::Veth | GuestKind::Qemu => label,
            GuestKind::Tap => format!("{label}, virtual machines"),
        };
        Some(Ours {
            a: *a_key,
            b: *partner,
            label,
            result,
        })
    };
    all_a
        .iter()
        .filter_map(one)
        .filter(|o| o.result.ratio.is_some() && o.a != o.b)
        .collect()
}

/// Do two cells agree in all that neither side of a published ratio selects?
fn same_rest(a: &CellKey, b: &CellKey, published: &PublishedRatio) -> bool {
    let (mut a, b) = (a.group, b.group);
    let free = |of_a: bool, of_b: bool| of_a || of_b;
    let (by_a, by_b) = (&published.a, &published.b);
    if free(by_a.test.is_some(), by_b.test.is_some()) {
        a.workload.test = b.workload.test;
    }
    if free(by_a.bytes.is_some(), by_b.bytes.is_some()) {
        a.workload.bytes = b.workload.bytes;
    }
    if free(by_a.instances.is_some(), by_b.instances.is_some()) {
        a.workload.instances = b.workload.instances;
    }
    if free(by_a.mtu.is_some(), by_b.mtu.is_some()) {
        a.setting.mtu_class = b.setting.mtu_class;
    }
    if free(by_a.offload.is_some(), by_b.offload.is_some()) {
        a.setting.offload = b.setting.offload;
    }
    if free(by_a.vnis.is_some(), by_b.vnis.is_some()) {
        a.setting.vnis = b.setting.vnis;
    }
    if free(by_a.pairs.is_some(), by_b.pairs.is_some()) {
        a.setting.pairs = b.setting.pairs;
    }
    if free(by_a.links.is_some(), by_b.links.is_some())
        && let (Some(one), Some(other)) = (&mut a.workload.migration, &b.workload.migration)
    {
        one.links = other.links;
    }
    if free(by_a.far_end.is_some(), by_b.far_end.is_some()) {
        a.setting.far_end = b.setting.far_end;
    }
    if free(by_a.feature.is_some(), by_b.feature.is_some()) {
        a.setting.feature = b.setting.feature;
    }
    a == b
}

fn chart(shapes: &[Shape<'_>]) -> Option<Chart> {
    let mut rows = Vec::new();
    let mut words = Vec::new();
    let mut table = Table::new(
        "Published ratios and ours, as drawn",
        &["What", "Whose", "#Ratio", "#Low", "#High"],
    );
    for shape in shapes.iter().filter(|s| !s.ours.is_empty()).take(SHOWN) {
        let what = || Field::text(&shape.published.name);
        rows.push(RatioRow::Heading(shape.published.name.clone()));
        rows.push(RatioRow::Published(shape.value));
        let none = || Field::text(NONE);
        table.rows.push(Row::of([
            what(),
            Field::text("published"),
            Field::number(ratio(shape.value), shape.value),
            none(),
            none(),
        ]));
        words.push(format!(
            "{}: published {}",
            shape.published.name,
            ratio(shape.value)
        ));
        for ours in &shape.ours {
            let Some(value) = ours.result.ratio else {
                continue;
            };
            let first = ours
                .label
                .split(" / ")
                .next()
                .unwrap_or_default()
                .to_owned();
            rows.push(RatioRow::Ours(
                first,
                ours.a.backend,
                value,
                ours.result.ci95,
            ));
            let end = |i: usize| {
                let v = ours.result.ci95.and_then(|ci| ci.get(i).copied());
                Field::number(v.map_or(NONE.to_owned(), ratio), v)
            };
            table.rows.push(Row::of([
                what(),
                Field::text(&ours.label),
                Field::number(ratio(value), value),
                end(0),
                end(1),
            ]));
            words.push(format!("{} {}", ours.label, ratio(value)));
        }
    }
    (!rows.is_empty()).then(|| Chart {
        id: "chart-published".to_owned(),
        title: "Ratios: published ◆ and ours ●".to_owned(),
        hint: "the dashed line is ×1: no difference".to_owned(),
        words: words.join(", "),
        drawing: Drawing::Ratios(rows),
        table,
    })
}

fn ratios(r: &Report<'_>, shapes: &[Shape<'_>]) -> Table {
    let columns = [
        "What",
        "Quantity",
        "#Published",
        "Ours",
        "Setting",
        "#Ratio here",
        "#Published / ours",
    ];
    let rows = shapes.iter().flat_map(|shape| {
        let head = || {
            let (top, bottom) = shape.published.published;
            let metric = Metric::from_key(&shape.published.metric);
            let published =
                Field::number(ratio(shape.value), shape.value).small(format!("{top} / {bottom}"));
            vec![
                Field::text(&shape.published.name),
                Field::text(metric.map_or("", name)),
                published,
            ]
        };
        if shape.ours.is_empty() {
            let empty = [
                Field::text("no such cells in this run"),
                Field::text(""),
                Field::text(NONE),
                Field::text(NONE),
            ];
            return vec![Row::of(head().into_iter().chain(empty))];
        }
        shape
            .ours
            .iter()
            .map(|ours| Row::of(head().into_iter().chain(of_ours(r, shape, ours))))
            .collect()
    });
    Table::new("Ratios: published, and the same here", &columns).with(rows)
}

fn of_ours(r: &Report<'_>, shape: &Shape<'_>, ours: &Ours) -> [Field; 4] {
    let value = ours.result.ratio;
    let against = value.map(|v| shape.value / v).filter(|v| v.is_finite());
    // The published figure has no interval: only ours moves the quotient.
    let range = ours
        .result
        .ci95
        .map(|[low, high]| [shape.value / high, shape.value / low]);
    let range = range.filter(|ends| ends.iter().all(|v| v.is_finite()));
    [
        Field::network(ours.label.clone(), ours.a.backend).to(r.names.anchor(&ours.a)),
        Field::text(r.names.setting(&ours.a.group)),
        Field::number(value.map_or(NONE.to_owned(), ratio), value)
            .small(ratio_interval(ours.result.ci95)),
        Field::number(against.map_or(NONE.to_owned(), ratio), against).small(ratio_interval(range)),
    ]
}

/// A table as it was published.
fn printed(published: &PublishedTable) -> Table {
    let readings = published.rows.iter().any(|row| !row.readings.is_empty());
    let numbers = |text: &String| format!("#{text}");
    let heads = published.columns.iter().enumerate();
    let heads: Vec<String> = heads
        .map(|(i, text)| if i == 0 { text.clone() } else { numbers(text) })
        .collect();
    let columns: Vec<&str> = heads
        .iter()
        .map(String::as_str)
        .chain(readings.then_some("Readings"))
        .collect();
    let digits = |v: f64| if v.fract() == 0.0 { 0 } else { 2 };
    let rows = published.rows.iter().map(|row| {
        let values = row
            .values
            .iter()
            .map(|v| Field::number(v.map_or(NONE.to_owned(), |v| fixed(v, digits(v))), *v));
        let mut cells: Vec<Field> = std::iter::once(Field::text(&row.name))
            .chain(values)
            .collect();
        if readings {
            let all: Vec<String> = row.readings.iter().map(|&v| fixed(v, digits(v))).collect();
            cells.push(Field::text(all.join(" · ")));
        }
        Row::of(cells)
    });
    Table::new(format!("{} (their hardware)", published.title), &columns).with(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Analysis, fixture};

    #[test]
    fn a_time_is_held_against_a_time_the_same_way_round() {
        let run = fixture::migrations();
        let analysis = Analysis::of(&run);
        let r = Report::of(&analysis);
        let shape = shape(&r, &run.study.published.ratios[0]).unwrap();
        assert_eq!(shape.value, 40.0 / 50.0);
        // Of each network one pair of cells: two machines, two links, offload off.
        assert_eq!(shape.ours.len(), 2);
        for ours in &shape.ours {
            let ratio = ours.result.ratio.unwrap();
            assert!((ratio - 0.82).abs() < 0.02, "{ratio}");
            let links = |key: &CellKey| key.group.workload.migration.unwrap().links;
            assert_eq!((links(&ours.a), links(&ours.b)), (2, 2));
        }
    }

    #[test]
    fn what_one_side_selects_may_differ_and_nothing_else() {
        let mut run = fixture::migrations();
        let ratio = &mut run.study.published.ratios[0];
        // Two links against one, at either MTU and offload.
        (ratio.a.mtu, ratio.a.offload, ratio.a.links) = (None, None, Some(2));
        (ratio.b.mtu, ratio.b.offload, ratio.b.links) = (None, None, Some(1));
        let analysis = Analysis::of(&run);
        let r = Report::of(&analysis);
        let shape = shape(&r, &run.study.published.ratios[0]).unwrap();
        assert_eq!(shape.ours.len(), 2 * 4);
        for ours in &shape.ours {
            assert_eq!(ours.a.group.setting, ours.b.group.setting);
        }
    }
}
