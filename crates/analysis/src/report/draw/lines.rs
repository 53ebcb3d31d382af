//! Curves: over time, by percentile, by number of VNIs, loss against CPU. Points are joined by straight lines, never smoothed.

use crate::record::BackendName;

use super::scale::{Scale, WIDTH, px, trimmed};
use super::{class, frame, line, text};
use crate::report::numbers::{fixed, short};
use crate::report::write::markup::{Attr, Markup};

const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 232.0;
const LEGEND: f64 = 18.0;

/// How the values lie on the axis below.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::report) enum XAxis {
    /// From 0.
    Linear,
    /// By powers of two.
    Powers,
    /// Percentiles: each nine takes the same room.
    Percentile,
}

/// How the values lie on the axis at the left.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::report) enum YAxis {
    /// From 0.
    Linear,
    /// By powers of ten.
    Powers,
}

/// A chart of curves.
pub(in crate::report) struct Lines {
    /// The axis below.
    pub(in crate::report) x: XAxis,
    /// Its words.
    pub(in crate::report) x_words: &'static str,
    /// The axis at the left.
    pub(in crate::report) y: YAxis,
    /// Its words.
    pub(in crate::report) y_words: String,
    /// Points are joined.
    pub(in crate::report) joined: bool,
    /// The curves.
    pub(in crate::report) series: Vec<Series>,
}

/// One curve.
pub(in crate::report) struct Series {
    /// Its name.
    pub(in crate::report) name: String,
    /// Its colour and the shape of its points.
    pub(in crate::report) backend: BackendName,
    /// (x, y).
    pub(in crate::report) points: Vec<(f64, f64)>,
}

/// Both axes of a chart.
struct Plane<'l> {
    lines: &'l Lines,
    x: (f64, f64),
    y: (f64, f64),
}

impl Plane<'_> {
    fn of(lines: &Lines) -> Plane<'_> {
        let all = || lines.series.iter().flat_map(|s| &s.points);
        let span = |values: &mut dyn Iterator<Item = f64>| {
            values
                .filter(|v| v.is_finite())
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                    (low.min(v), high.max(v))
                })
        };
        let wide = |(low, high): (f64, f64)| match (low.is_finite(), high > low) {
            (false, _) => (0.0, 1.0),
            (true, false) => (low - 0.5, low + 0.5),
            (true, true) => (low, high),
        };
        let x = wide(span(&mut all().map(|p| place_x(lines.x, p.0))));
        let y = wide(span(&mut all().map(|p| place_y(lines.y, p.1))));
        let from_zero = |(_, high): (f64, f64)| (0.0, if high > 0.0 { high * 1.04 } else { 1.0 });
        Plane {
            lines,
            x: if lines.x == XAxis::Linear {
                from_zero(x)
            } else {
                x
            },
            y: match lines.y {
                YAxis::Linear => from_zero(y),
                YAxis::Powers => (y.0.floor(), y.1.ceil().max(y.0.floor() + 1.0)),
            },
        }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let part = |v: f64, (low, high): (f64, f64)| ((v - low) / (high - low)).clamp(0.0, 1.0);
        let right = part(place_x(self.lines.x, x), self.x);
        let up = part(place_y(self.lines.y, y), self.y);
        (LEFT + (RIGHT - LEFT) * right, BOTTOM - (BOTTOM - TOP) * up)
    }

    /// (value, its words) of the axis below.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let all: Vec<(f64, String)> = match self.lines.x {
            XAxis::Linear => {
                let ticks = Scale::up_to(self.x.1).ticks_about(5.0);
                ticks
                    .into_iter()
                    .map(|v| (v, trimmed(fixed(v, 2))))
                    .collect()
            }
            XAxis::Powers => {
                let step = ((self.x.1 - self.x.0) / 6.0).ceil().max(1.0) as usize;
                let powers = (self.x.0.floor() as i32..=self.x.1.ceil() as i32).step_by(step);
                let values = powers.map(|p| 2.0_f64.powi(p));
                values.map(|v| (v, fixed(v, 0))).collect()
            }
            XAxis::Percentile => [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0]
                .into_iter()
                .map(|v| {
                    (
                        v,
                        if v == 100.0 {
                            "max".to_owned()
                        } else {
                            trimmed(fixed(v, 3))
                        },
                    )
                })
                .collect(),
        };
        let within =
            |v: f64| (self.x.0 - 1e-9..=self.x.1 + 1e-9).contains(&place_x(self.lines.x, v));
        all.into_iter().filter(|(v, _)| within(*v)).collect()
    }

    /// (value, its words) of the axis at the left.
    fn y_ticks(&self) -> Vec<(f64, String)> {
        match self.lines.y {
            YAxis::Linear => {
                let ticks = Scale::up_to(self.y.1).ticks();
                ticks.into_iter().map(|v| (v, trimmed(short(v)))).collect()
            }
            YAxis::Powers => {
                let few = self.y.1 - self.y.0 < 1.5;
                let within: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
                (self.y.0 as i32..=self.y.1 as i32)
                    .flat_map(|p| within.iter().map(move |v| v * 10.0_f64.powi(p)))
                    .filter(|v| v.log10() <= self.y.1 + 1e-9)
                    .map(|v| (v, trimmed(short(v))))
                    .collect()
            }
        }
    }
}

fn place_x(axis: XAxis, x: f64) -> f64 {
    match axis {
        XAxis::Linear => x,
        XAxis::Powers => x.max(1.0).log2(),
        // The largest value has no percentile: it stands one nine beyond what a sample can tell.
        XAxis::Percentile => -(1.0 - x / 100.0).max(1e-6).log10(),
    }
}

fn place_y(axis: YAxis, y: f64) -> f64 {
    match axis {
        YAxis::Linear => y,
        YAxis::Powers => y.max(1e-3).log10(),
    }
}

pub(super) fn draw(m: &mut Markup, lines: &Lines, named: (&str, &str, &str)) {
    let plane = Plane::of(lines);
    let rows = lines.series.len().div_ceil(3);
    let height = BOTTOM + 40.0 + LEGEND * rows as f64;
    frame(m, height, named, |m| {
        for (value, words) in plane.y_ticks() {
            let (_, y) = plane.at((0.0, value));
            line(m, "grid", (LEFT, y), (RIGHT, y));
            text(m, "tick-y", (LEFT - 5.0, y + 4.0), &words);
        }
        for (value, words) in plane.x_ticks() {
            let (x, _) = plane.at((value, 0.0));
            line(m, "grid", (x, TOP), (x, BOTTOM));
            text(m, "tick", (x, BOTTOM + 14.0), &words);
        }
        text(m, "axis", (0.0, 11.0), &lines.y_words);
        text(
            m,
            "tick",
            ((LEFT + RIGHT) / 2.0, BOTTOM + 30.0),
            lines.x_words,
        );
        for series in &lines.series {
            curve(m, &plane, series);
        }
        for (i, series) in lines.series.iter().enumerate() {
            let x = (WIDTH / 3.0) * (i % 3) as f64 + 8.0;
            let y = BOTTOM + 50.0 + LEGEND * (i / 3) as f64;
            point(m, series.backend, (x, y - 4.0), "");
            text(m, "legend", (x + 11.0, y), &series.name);
        }
    });
}

fn curve(m: &mut Markup, plane: &Plane<'_>, series: &Series) {
    m.el("g", &[("class", &"mark")], |m| {
        let places: Vec<_> = series.points.iter().map(|&p| plane.at(p)).collect();
        if plane.lines.joined {
            let points: Vec<String> = places
                .iter()
                .map(|(x, y)| format!("{},{}", px(*x), px(*y)))
                .collect();
            let class = format!("curve {}-s", class(series.backend));
            m.shape(
                "polyline",
                &[("class", &class), ("points", &points.join(" "))],
            );
        }
        for (place, (x, y)) in places.into_iter().zip(&series.points) {
            let words = format!(
                "{}: {} at {}",
                series.name,
                short(*y),
                trimmed(fixed(*x, 3))
            );
            point(m, series.backend, place, &words);
        }
    });
}

/// A point in the colour and shape of its network: circle, square, triangle or diamond.
fn point(m: &mut Markup, backend: BackendName, (x, y): (f64, f64), words: &str) {
    let r = 3.6;
    let shape = match BackendName::ALL
        .iter()
        .position(|b| *b == backend)
        .unwrap_or(0)
        % 4
    {
        0 => [
            (x - r, y - r),
            (x + r, y - r),
            (x + r, y + r),
            (x - r, y + r),
        ]
        .to_vec(),
        1 => [(x, y - r * 1.3), (x + r * 1.3, y + r), (x - r * 1.3, y + r)].to_vec(),
        2 => [
            (x, y - r * 1.4),
            (x + r * 1.4, y),
            (x, y + r * 1.4),
            (x - r * 1.4, y),
        ]
        .to_vec(),
        _ => Vec::new(),
    };
    let class = format!("point {}", class(backend));
    let title = |m: &mut Markup| {
        if !words.is_empty() {
            m.leaf("title", &[], words);
        }
    };
    if shape.is_empty() {
        let attrs: [Attr<'_>; 4] = [
            ("class", &class),
            ("cx", &px(x)),
            ("cy", &px(y)),
            ("r", &px(r)),
        ];
        m.el("circle", &attrs, title);
    } else {
        let points: Vec<String> = shape
            .iter()
            .map(|(x, y)| format!("{},{}", px(*x), px(*y)))
            .collect();
        m.el(
            "polygon",
            &[("class", &class), ("points", &points.join(" "))],
            title,
        );
    }
}
