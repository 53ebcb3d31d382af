//! Horizontal bars: the mean, its 95 % interval, and the samples as dots.
//!
//! With fewer than five samples there is no bar: only the dots, and a stroke at their mean.

use crate::record::BackendName;
use crate::results::Metric;
use crate::stats::Summary;

use super::scale::{LEFT, RIGHT, Scale, WIDTH, px, trimmed};
use super::{AXIS, class, dot, frame, line, name, rect, text};
use crate::report::numbers::{NONE, interval, unit, value};
use crate::report::write::markup::Markup;

const ROW: f64 = 30.0;
const BAR: f64 = 20.0;

/// Fewest samples for a bar.
const LEAST: usize = 5;

/// A bar chart.
pub(in crate::report) struct Bars {
    /// The quantity.
    pub(in crate::report) metric: Metric,
    /// Its bars.
    pub(in crate::report) rows: Vec<Bar>,
    /// A dashed line over all bars, with its words: what the traffic tool reaches alone.
    pub(in crate::report) limit: Option<(f64, &'static str)>,
}

/// One bar.
pub(in crate::report) struct Bar {
    /// Its name.
    pub(in crate::report) name: String,
    /// Its colour.
    pub(in crate::report) backend: BackendName,
    /// Its figure; null: not measured.
    pub(in crate::report) summary: Option<Summary>,
    /// A dashed stroke of its own: what headers alone would leave.
    pub(in crate::report) mark: Option<f64>,
}

impl Bars {
    /// Its height, in its own units.
    pub(in crate::report) fn height(&self) -> f64 {
        let lines = usize::from(self.limit.is_some())
            + usize::from(self.rows.iter().any(|bar| bar.mark.is_some()))
            + usize::from(scale(self).cut);
        ROW * self.rows.len() as f64 + AXIS + 16.0 * lines as f64
    }
}

pub(super) fn draw(m: &mut Markup, bars: &Bars, named: (&str, &str, &str)) {
    let scale = scale(bars);
    let bottom = ROW * bars.rows.len() as f64;
    frame(m, bars.height(), named, |m| {
        for tick in scale.ticks() {
            let x = scale.x(tick);
            line(m, "grid", (x, 0.0), (x, bottom));
            text(
                m,
                "tick",
                (x, bottom + 16.0),
                &trimmed(value(bars.metric, tick)),
            );
        }
        for (i, bar) in bars.rows.iter().enumerate() {
            draw_bar(m, &scale, ROW * i as f64 + ROW / 2.0, bar, bars.metric);
        }
        if let Some((limit, _)) = bars.limit.filter(|(limit, _)| *limit <= scale.top) {
            line(m, "limit", (scale.x(limit), 0.0), (scale.x(limit), bottom));
        }
        legend(m, bars, &scale, bottom + AXIS);
    });
}

/// What the dashed lines mean, below the axis.
fn legend(m: &mut Markup, bars: &Bars, scale: &Scale, top: f64) {
    let mut y = top + 10.0;
    let mut entry = |m: &mut Markup, class: &str, words: &str| {
        if !class.is_empty() {
            line(m, class, (0.0, y - 4.0), (24.0, y - 4.0));
        }
        text(m, "legend", (30.0, y), words);
        y += 16.0;
    };
    if let Some((limit, words)) = bars.limit {
        let beyond = if limit > scale.top {
            ", beyond the axis"
        } else {
            ""
        };
        let (figure, unit) = (value(bars.metric, limit), unit(bars.metric));
        entry(m, "limit", &format!("{words}: {figure} {unit}{beyond}"));
    }
    if bars.rows.iter().any(|bar| bar.mark.is_some()) {
        entry(
            m,
            "header",
            "what the bytes of the headers alone would leave",
        );
    }
    if scale.cut {
        entry(m, "", "≫ is longer than the axis");
    }
}

fn draw_bar(m: &mut Markup, scale: &Scale, middle: f64, bar: &Bar, metric: Metric) {
    m.el("g", &[("class", &"mark")], |m| {
        name(m, middle + 4.0, &bar.name);
        let Some(summary) = &bar.summary else {
            text(m, "num", (WIDTH, middle + 4.0), NONE);
            return;
        };
        let end = scale.x(summary.mean);
        let (top, colour) = (middle - BAR / 2.0, class(bar.backend));
        let tooltip = tooltip(&bar.name, summary, metric);
        if summary.samples.len() < LEAST {
            rect(
                m,
                &format!("mean {colour}"),
                (end - 1.5, top),
                (3.0, BAR),
                &tooltip,
            );
        } else {
            rect(
                m,
                &format!("bar {colour}"),
                (LEFT, top),
                ((end - LEFT).max(0.5), BAR),
                &tooltip,
            );
        }
        if summary.mean > scale.top {
            text(m, "cut", (RIGHT - 4.0, middle + 5.0), "≫");
        } else {
            dots(m, scale, middle, &summary.samples);
            if let Some(ends) = summary.ci95.filter(|_| summary.samples.len() >= LEAST) {
                whisker(m, scale, middle, ends);
            }
        }
        if let Some(at) = bar.mark.filter(|at| *at <= scale.top) {
            line(
                m,
                "header",
                (scale.x(at), top - 4.0),
                (scale.x(at), top + BAR + 4.0),
            );
        }
        text(
            m,
            "num",
            (WIDTH, middle + 4.0),
            &value(metric, summary.mean),
        );
    });
}

/// The samples themselves, spread over the height of the bar in the order of the rounds.
fn dots(m: &mut Markup, scale: &Scale, middle: f64, samples: &[f64]) {
    let (few, step) = (
        samples.len() < LEAST,
        (BAR - 6.0) / samples.len().max(2) as f64,
    );
    for (i, &sample) in samples.iter().enumerate().filter(|&(_, &v)| v <= scale.top) {
        let y = middle + step * (i as f64 - (samples.len() - 1) as f64 / 2.0);
        let radius = if few { "2.6" } else { "1.6" };
        dot(m, "dot", (scale.x(sample), y), radius);
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

fn tooltip(name: &str, summary: &Summary, metric: Metric) -> String {
    let (mean, n) = (value(metric, summary.mean), summary.samples.len());
    format!(
        "{name}: {mean} {} {} ({n} samples)",
        unit(metric),
        interval(metric, Some(summary))
    )
}

fn scale(bars: &Bars) -> Scale {
    let reach = |s: &Summary| s.ci95.map_or(s.mean, |ci| ci[1].max(s.mean));
    let ends: Vec<f64> = bars
        .rows
        .iter()
        .filter_map(|bar| bar.summary.as_ref().map(reach))
        .collect();
    let mut scale = Scale::for_bars(&ends);
    if let Some((limit, _)) = bars.limit {
        // Drawn where it costs the bars no more than a third of their length.
        if limit > scale.top && limit < scale.top * 1.5 && !scale.cut {
            scale = Scale::up_to(limit * 1.02);
        }
    }
    scale
}
