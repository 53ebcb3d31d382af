//! Charts as inline SVG: horizontal bars with intervals, and ratios on a line.
//!
//! Colours come from the page's style sheet by class, so that light and dark both work; every bar
//! carries its name and its figure as text, so that colour is never needed.

use crate::record::BackendName;
use crate::record::GroupKey;
use crate::results::{Analysis, CellFigures, Metric};
use crate::stats::Summary;

use super::markup::Markup;
use super::numbers::{NONE, fixed, interval, ratio, ratio_interval, value};
use super::words::group_title;

const WIDTH: f64 = 420.0;
const LEFT: f64 = 122.0;
const RIGHT: f64 = 358.0;
const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const AXIS: f64 = 22.0;

/// A bar beyond this multiple of the median bar is cut, so that the others stay readable.
const CUT_ABOVE: f64 = 4.0;

/// One bar chart: a metric of every cell of a group that was measured.
pub(super) fn bars(m: &mut Markup, analysis: &Analysis<'_>, group: GroupKey, metric: Metric) {
    let cells: Vec<_> = analysis.in_group(group).filter(|f| f.is_ok()).collect();
    let title = format!("{}, {}", caption(metric), group_title(group));
    let scale = Scale::for_bars(&cells, metric);
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
            axis(m, &scale, height - AXIS, |v| {
                value(metric, v)
                    .trim_end_matches(".00")
                    .trim_end_matches(".0")
                    .to_owned()
            });
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

/// A row of a ratio chart.
pub(super) enum RatioRow {
    /// What the following rows have in common.
    Heading(String),
    /// The published ratio.
    Published(f64),
    /// Ours: name, ratio, interval.
    Ours(String, f64, Option<[f64; 2]>),
}

/// Ratios on a common line with ×1 marked: the published one as a diamond, ours as dots.
pub(super) fn ratios(m: &mut Markup, rows: &[RatioRow]) {
    let highest = rows
        .iter()
        .map(|row| match row {
            RatioRow::Heading(_) => 1.0,
            RatioRow::Published(v) => *v,
            RatioRow::Ours(_, v, ci95) => ci95.map_or(*v, |ci| ci[1]),
        })
        .fold(1.0, f64::max);
    let scale = Scale::up_to(highest * 1.02);
    let height = 24.0 * rows.len() as f64 + AXIS;
    let desc = "Diamonds are published ratios, dots are ours with their 95 % interval. \
                The same figures stand in the table below.";
    frame(
        m,
        "chart-shapes",
        height,
        ("Published ratios and ours", desc),
        |m| {
            axis(m, &scale, height - AXIS, |v| {
                format!("×{}", fixed(v, usize::from(v.fract() != 0.0)))
            });
            let one = scale.x(1.0);
            m.shape(
                "line",
                &[
                    ("class", &"one"),
                    ("x1", &px(one)),
                    ("x2", &px(one)),
                    ("y1", &"0"),
                    ("y2", &px(height - AXIS)),
                ],
            );
            for (i, row) in rows.iter().enumerate() {
                ratio_row(m, &scale, 24.0 * i as f64 + 12.0, row);
            }
        },
    );
}

fn ratio_row(m: &mut Markup, scale: &Scale, y: f64, row: &RatioRow) {
    let label = |m: &mut Markup, class: &str, text: &str| {
        m.leaf(
            "text",
            &[("class", &class), ("x", &"0"), ("y", &px(y + 4.0))],
            text,
        );
    };
    let figure = |m: &mut Markup, v: f64| {
        let at = [
            ("class", &"num" as _),
            ("x", &WIDTH as _),
            ("y", &px(y + 4.0) as _),
        ];
        m.leaf("text", &at, ratio(v));
    };
    match row {
        RatioRow::Heading(text) => {
            // The heading runs over the plot: a ground of the page's colour keeps it readable.
            let at = [
                ("class", &"ground" as _),
                ("x", &"0" as _),
                ("y", &px(y - 11.0) as _),
            ];
            let size = [("width", &px(WIDTH) as _), ("height", &"22" as _)];
            m.shape("rect", &[at.as_slice(), size.as_slice()].concat());
            label(m, "head", text);
        }
        RatioRow::Published(v) => {
            label(m, "dim", "published");
            let x = scale.x(*v);
            let points = format!(
                "{},{} {},{} {},{} {},{}",
                px(x),
                px(y - 7.0),
                px(x + 7.0),
                px(y),
                px(x),
                px(y + 7.0),
                px(x - 7.0),
                px(y)
            );
            m.shape("polygon", &[("class", &"published"), ("points", &points)]);
            figure(m, *v);
        }
        RatioRow::Ours(name, v, ci95) => {
            label(m, "name", name);
            if let Some(ends) = ci95 {
                whisker(m, scale, y, *ends);
            }
            let at = [
                ("cx", &px(scale.x(*v)) as _),
                ("cy", &px(y) as _),
                ("r", &"4.5" as _),
            ];
            m.el(
                "circle",
                &[[("class", &"ours" as _)].as_slice(), at.as_slice()].concat(),
                |m| {
                    m.leaf(
                        "title",
                        &[],
                        format!("{name}: {} {}", ratio(*v), ratio_interval(*ci95)),
                    );
                },
            );
            figure(m, *v);
        }
    }
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
        BackendName::OvsVxlan | BackendName::OvsGeneve => "c-ovs",
        BackendName::OverlaneVxlan => "c-vxlan",
        BackendName::OverlaneGeneve => "c-geneve",
    }
}

fn frame(
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

fn axis(m: &mut Markup, scale: &Scale, bottom: f64, label: impl Fn(f64) -> String) {
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

fn whisker(m: &mut Markup, scale: &Scale, y: f64, [low, high]: [f64; 2]) {
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

/// A coordinate with one decimal, without a trailing zero.
fn px(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A linear scale from 0.
struct Scale {
    top: f64,
    cut: bool,
}

impl Scale {
    fn up_to(highest: f64) -> Self {
        let top = if highest.is_finite() && highest > 0.0 {
            highest
        } else {
            1.0
        };
        Self { top, cut: false }
    }

    fn for_bars(cells: &[&CellFigures<'_>], metric: Metric) -> Self {
        let reach = |s: &Summary| s.ci95.map_or(s.mean, |ci| ci[1].max(s.mean));
        let ends: Vec<f64> = cells
            .iter()
            .filter_map(|f| f.get(metric).map(reach))
            .collect();
        let limit = crate::stats::median(&ends).map_or(0.0, |m| m * CUT_ABOVE);
        let short = ends
            .iter()
            .copied()
            .filter(|&v| v <= limit)
            .fold(0.0, f64::max);
        let longest = ends.iter().copied().fold(0.0, f64::max);
        if longest > limit {
            // The cut bar fills the axis, the others keep two thirds of it.
            return Self {
                cut: true,
                ..Self::up_to(short * 1.5)
            };
        }
        Self::up_to(longest * 1.02)
    }

    fn x(&self, v: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (v / self.top).clamp(0.0, 1.0)
    }

    /// Three to six round numbers from 0.
    fn ticks(&self) -> Vec<f64> {
        let rough = self.top / 4.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = steps
            .into_iter()
            .find(|s| s * power >= rough)
            .unwrap_or(10.0)
            * power;
        (0..=8)
            .map(|i| f64::from(i) * step)
            .take_while(|&v| v <= self.top)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(Scale::up_to(45.0).ticks(), [0.0, 20.0, 40.0]);
        assert_eq!(Scale::up_to(9.0).ticks(), [0.0, 2.5, 5.0, 7.5]);
        assert_eq!(Scale::up_to(f64::NAN).ticks().len(), 5);
        for top in [0.003, 0.9, 1.0, 7.7, 12.0, 99.0, 400_000.0] {
            let ticks = Scale::up_to(top).ticks();
            assert!((3..=6).contains(&ticks.len()), "{top}: {ticks:?}");
        }
    }

    #[test]
    fn coordinates() {
        assert_eq!(px(12.0), "12");
        assert_eq!(px(12.34), "12.3");
        assert_eq!(Scale::up_to(10.0).x(1e9), RIGHT);
    }
}
