//! Bar charts as inline SVG: horizontal bars with intervals and samples.
//!
//! Colours come from the page's style sheet by class, so that light and dark both work; every bar
//! carries its name and its figure as text, so that colour is never needed.

use crate::record::{BackendName, GroupKey};
use crate::results::{Analysis, CellFigures, Metric};
use crate::stats::Summary;

use super::markup::Markup;
use super::numbers::{NONE, interval, value};
use super::scale::{LEFT, RIGHT, Scale, WIDTH, px, trimmed};
use super::words::group_title;

const ROW: f64 = 30.0;
const BAR: f64 = 20.0;

/// Height of the axis below a chart.
pub(super) const AXIS: f64 = 22.0;

/// One bar chart: a metric of every cell of a group that was measured.
pub(super) fn bars(m: &mut Markup, analysis: &Analysis<'_>, group: GroupKey, metric: Metric) {
    let cells: Vec<_> = analysis.in_group(group).filter(|f| f.is_ok()).collect();
    let title = format!("{}, {}", caption(metric), group_title(group));
    let scale = scale(&cells, metric);
    let height = ROW * cells.len() as f64 + AXIS;
    let id = format!(
        "chart-{}-{}-{}",
        metric.key(),
        group_id(group),
        u8::from(group.offload)
    );
    let desc = describe(&cells, metric);
    m.el("figure", &[], |m| {
        m.el("figcaption", &[], |m| {
            m.leaf("strong", &[], caption(metric));
            m.text(" ")
                .leaf("span", &[("class", &"dim")], direction(metric));
        });
        frame(m, &id, height, (&title, &desc), |m| {
            axis(m, &scale, height - AXIS, |v| trimmed(value(metric, v)));
            for (i, figures) in cells.iter().enumerate() {
                bar(m, &scale, ROW * i as f64, figures, metric);
            }
        });
        if scale.cut {
            m.leaf(
                "p",
                &[("class", &"dim")],
                "A bar with ≫ is longer than the axis.",
            );
        }
    });
}

/// The words above a chart.
pub(super) fn caption(metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput => "Goodput, Gbit/s",
        Metric::CpuPerGbps => "CPU %/Gbit/s, both hosts",
        Metric::UnderlayRate => "Underlay, thousand packets/s",
        Metric::UnderlayPacket => "Underlay, mean bytes per packet",
        other => other.key(),
    }
}

fn direction(metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput => "more is better",
        Metric::CpuPerGbps => "less is better",
        _ => "explains the two above",
    }
}

/// The class that colours a backend.
pub(super) fn class(backend: BackendName) -> &'static str {
    match backend {
        BackendName::Direct => "c-direct",
        BackendName::Bridge => "c-bridge",
        BackendName::KernelVxlan => "c-kernel",
        BackendName::OvsVlan | BackendName::OvsVxlan | BackendName::OvsGeneve => "c-ovs",
        BackendName::OverlaneVlan => "c-vlan",
        BackendName::OverlaneVxlan => "c-vxlan",
        BackendName::OverlaneGeneve => "c-geneve",
    }
}

/// The picture with its name and its content in words.
pub(super) fn frame(
    m: &mut Markup,
    id: &str,
    height: f64,
    (title, desc): (&str, &str),
    content: impl FnOnce(&mut Markup),
) {
    let (title_id, desc_id) = (format!("{id}-t"), format!("{id}-d"));
    let attrs: [super::markup::Attr<'_>; 4] = [
        ("viewBox", &format!("0 0 {WIDTH} {}", px(height))),
        ("role", &"img"),
        ("aria-labelledby", &format!("{title_id} {desc_id}")),
        ("class", &"chart"),
    ];
    m.el("svg", &attrs, |m| {
        m.leaf("title", &[("id", &title_id)], title);
        m.leaf("desc", &[("id", &desc_id)], desc);
        content(m);
    });
}

/// Lines and figures of the axis.
pub(super) fn axis(m: &mut Markup, scale: &Scale, bottom: f64, label: impl Fn(f64) -> String) {
    for tick in scale.ticks() {
        let x = px(scale.x(tick));
        let line = [
            ("x1", &x as _),
            ("x2", &x as _),
            ("y1", &"0" as _),
            ("y2", &px(bottom) as _),
        ];
        m.shape(
            "line",
            &[[("class", &"grid" as _)].as_slice(), line.as_slice()].concat(),
        );
        m.leaf(
            "text",
            &[("class", &"tick"), ("x", &x), ("y", &px(bottom + 16.0))],
            label(tick),
        );
    }
}

fn bar(m: &mut Markup, scale: &Scale, top: f64, figures: &CellFigures<'_>, metric: Metric) {
    let backend = figures.cell.key.backend;
    let middle = top + ROW / 2.0;
    m.el("g", &[], |m| {
        m.leaf(
            "text",
            &[("class", &"name"), ("x", &"0"), ("y", &px(middle + 4.0))],
            backend,
        );
        let at = [
            ("class", &"num" as _),
            ("x", &WIDTH as _),
            ("y", &px(middle + 4.0) as _),
        ];
        let Some(summary) = figures.get(metric) else {
            m.leaf("text", &at, NONE);
            return;
        };
        let end = scale.x(summary.mean);
        let rect: [super::markup::Attr<'_>; 6] = [
            ("class", &format!("bar {}", class(backend))),
            ("x", &px(LEFT)),
            ("y", &px(middle - BAR / 2.0)),
            ("width", &px((end - LEFT).max(0.5))),
            ("height", &px(BAR)),
            ("rx", &"2"),
        ];
        m.el("rect", &rect, |m| {
            m.leaf("title", &[], tooltip(backend, summary, metric))
        });
        if summary.mean > scale.top {
            m.leaf(
                "text",
                &[
                    ("class", &"cut"),
                    ("x", &px(RIGHT - 4.0)),
                    ("y", &px(middle + 5.0)),
                ],
                "≫",
            );
        } else {
            dots(m, scale, middle, &summary.samples);
            if let Some(ends) = summary.ci95 {
                whisker(m, scale, middle, ends);
            }
        }
        m.leaf("text", &at, value(metric, summary.mean));
    });
}

/// The samples themselves, spread over the height of the bar in the order of the rounds.
fn dots(m: &mut Markup, scale: &Scale, middle: f64, samples: &[f64]) {
    let step = (BAR - 6.0) / samples.len().max(2) as f64;
    for (i, &sample) in samples.iter().enumerate().filter(|&(_, &v)| v <= scale.top) {
        let y = middle + step * (i as f64 - (samples.len() - 1) as f64 / 2.0);
        let at = [
            ("cx", &px(scale.x(sample)) as _),
            ("cy", &px(y) as _),
            ("r", &"1.6" as _),
        ];
        m.shape(
            "circle",
            &[[("class", &"dot" as _)].as_slice(), at.as_slice()].concat(),
        );
    }
}

/// An interval.
pub(super) fn whisker(m: &mut Markup, scale: &Scale, y: f64, [low, high]: [f64; 2]) {
    let (low, high) = (px(scale.x(low)), px(scale.x(high)));
    let (top, bottom) = (px(y - 5.0), px(y + 5.0));
    let path = format!(
        "M{low} {top}V{bottom}M{low} {}H{high}M{high} {top}V{bottom}",
        px(y)
    );
    m.shape("path", &[("class", &"whisker"), ("d", &path)]);
}

fn tooltip(backend: BackendName, summary: &Summary, metric: Metric) -> String {
    let mean = value(metric, summary.mean);
    let n = summary.samples.len();
    format!(
        "{backend}: {mean} {} ({n} samples)",
        interval(metric, Some(summary))
    )
}

/// The chart in words, for those who do not see it.
fn describe(cells: &[&CellFigures<'_>], metric: Metric) -> String {
    let one = |f: &&CellFigures<'_>| {
        let figure = f
            .get(metric)
            .map_or(NONE.to_owned(), |s| value(metric, s.mean));
        format!("{} {figure}", f.cell.key.backend)
    };
    cells.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn group_id(group: GroupKey) -> String {
    format!(
        "{}-{}",
        super::words::mtu(group).replace('/', "-"),
        group.streams
    )
}

fn scale(cells: &[&CellFigures<'_>], metric: Metric) -> Scale {
    let reach = |s: &Summary| s.ci95.map_or(s.mean, |ci| ci[1].max(s.mean));
    let ends: Vec<f64> = cells
        .iter()
        .filter_map(|f| f.get(metric).map(reach))
        .collect();
    Scale::for_bars(&ends)
}
