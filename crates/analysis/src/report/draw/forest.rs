//! Comparisons as points with intervals on a common line: left of it the subject has less, right of it more. The band
//! around it is ±5 %, the same for practical purposes.
//!
//! The names are text of the page, and only the tracks are pictures: so the rows fit a phone and a wall.

use crate::record::BackendName;
use crate::stats::Verdict;

use super::class;
use crate::report::names::tone;
use crate::report::numbers::{fixed, ratio, ratio_interval, signed};
use crate::report::write::markup::{Attr, Markup};

/// Half of the width within which two networks are the same for practical purposes.
const BAND: f64 = 0.05;

/// The farthest that the axis reaches, as a factor either way.
const REACH: f64 = 10.0;

/// The values that the axis may name, those that are wanted most first.
const TICKS: [f64; 13] = [
    1.0, 0.5, 2.0, 0.2, 5.0, 0.1, 10.0, 0.7, 1.5, 0.8, 1.2, 0.9, 1.1,
];

/// Two ticks are at least this share of the axis apart.
const APART: f64 = 0.14;

/// A row.
pub(in crate::report) enum ForestRow {
    /// What the following rows have in common.
    Heading(String),
    /// A comparison.
    Ratio {
        /// Who.
        name: String,
        /// Its colour.
        backend: BackendName,
        /// How many times as much as the other side.
        ratio: f64,
        /// The interval of that.
        ci95: Option<[f64; 2]>,
        /// What it says.
        verdict: Verdict,
        /// `▼ −12 %`
        words: String,
    },
}

/// A logarithmic scale, on which half and twice are as far from the middle.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(rows: &[ForestRow]) -> Self {
        let ends = rows.iter().filter_map(|row| match row {
            ForestRow::Heading(_) => None,
            ForestRow::Ratio { ratio, ci95, .. } => Some(ci95.unwrap_or([*ratio, *ratio])),
        });
        let (mut low, mut high) = (1.0 - 2.0 * BAND, 1.0 + 2.0 * BAND);
        for [from, to] in ends {
            low = low.min(from);
            high = high.max(to);
        }
        Self {
            low: low.max(1.0 / REACH) / 1.03,
            high: high.min(REACH) * 1.03,
        }
    }

    /// The place of a ratio, from 0 to 1.
    fn share(&self, ratio: f64) -> f64 {
        let ratio = ratio.clamp(self.low, self.high);
        (ratio / self.low).ln() / (self.high / self.low).ln()
    }

    /// The place of a ratio as an attribute.
    fn at(&self, ratio: f64) -> String {
        percent(self.share(ratio))
    }

    fn ticks(&self) -> Vec<f64> {
        let mut out: Vec<f64> = Vec::new();
        for tick in TICKS {
            let inside = (self.low..=self.high).contains(&tick);
            let free = |other: &f64| (self.share(tick) - self.share(*other)).abs() >= APART;
            if inside && out.iter().all(free) {
                out.push(tick);
            }
        }
        out
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// `−50 %`, `×2`
fn label(tick: f64) -> String {
    match tick {
        1.0 => "0".to_owned(),
        v if (0.5..2.0).contains(&v) => format!("{} %", signed(100.0 * (v - 1.0), 0)),
        v if v < 1.0 => format!("×{}", fixed(v, 1)),
        v => format!("×{}", fixed(v, 0)),
    }
}

pub(super) fn draw(m: &mut Markup, rows: &[ForestRow], words: &str) {
    let scale = Scale::of(rows);
    let attrs: [Attr<'_>; 3] = [
        ("class", &"forest"),
        ("role", &"img"),
        ("aria-label", &words),
    ];
    m.el("div", &attrs, |m| {
        rows.iter().for_each(|row| draw_row(m, &scale, row));
        m.el("div", &[("class", &"axis")], |m| axis(m, &scale));
    });
}

fn draw_row(m: &mut Markup, scale: &Scale, row: &ForestRow) {
    match row {
        ForestRow::Heading(words) => m.leaf("div", &[("class", &"head")], words),
        ForestRow::Ratio {
            name,
            backend,
            ratio: value,
            ci95,
            verdict,
            words,
        } => m.el("div", &[("class", &"mark")], |m| {
            m.el("span", &[("class", &"who")], |m| {
                let key = format!("key {}", class(*backend));
                m.leaf("span", &[("class", &key)], "");
                m.text(name);
            });
            m.el("svg", &[("class", &"track")], |m| {
                ground(m, scale);
                if let Some([low, high]) = ci95 {
                    segment(
                        m,
                        "whisker",
                        [scale.at(*low), scale.at(*high)],
                        ["50%", "50%"],
                    );
                }
                let attrs: [Attr<'_>; 4] = [
                    ("class", &format!("ours {}", class(*backend))),
                    ("cx", &scale.at(*value)),
                    ("cy", &"50%"),
                    ("r", &"5"),
                ];
                let title = format!("{name}: {} {}", ratio(*value), ratio_interval(*ci95));
                m.el("circle", &attrs, |m| m.leaf("title", &[], title));
            });
            let tone = format!("v {}", tone(*verdict));
            m.leaf("span", &[("class", &tone)], words);
        }),
    }
}

/// The band and the line of no difference.
fn ground(m: &mut Markup, scale: &Scale) {
    let (from, to) = (scale.share(1.0 - BAND), scale.share(1.0 + BAND));
    let attrs: [Attr<'_>; 5] = [
        ("class", &"band"),
        ("x", &percent(from)),
        ("y", &"0"),
        ("width", &percent(to - from)),
        ("height", &"100%"),
    ];
    m.shape("rect", &attrs);
    let at = scale.at(1.0);
    segment(m, "one", [at.clone(), at], ["0%", "100%"]);
}

fn segment(m: &mut Markup, class: &str, [x1, x2]: [String; 2], [y1, y2]: [&str; 2]) {
    let attrs: [Attr<'_>; 5] = [
        ("class", &class),
        ("x1", &x1),
        ("x2", &x2),
        ("y1", &y1),
        ("y2", &y2),
    ];
    m.shape("line", &attrs);
}

fn axis(m: &mut Markup, scale: &Scale) {
    m.leaf("span", &[("class", &"who")], "");
    m.el("svg", &[("class", &"track")], |m| {
        for tick in scale.ticks() {
            let attrs: [Attr<'_>; 3] = [("class", &"tick"), ("x", &scale.at(tick)), ("y", &"75%")];
            m.leaf("text", &attrs, label(tick));
        }
    });
    m.leaf("span", &[("class", &"v")], "");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(low: f64, high: f64) -> Scale {
        Scale::of(&[ForestRow::Ratio {
            name: String::new(),
            backend: BackendName::Bridge,
            ratio: 1.0,
            ci95: Some([low, high]),
            verdict: Verdict::CannotTell,
            words: String::new(),
        }])
    }

    #[test]
    fn the_axis_names_no_difference_and_few_others() {
        for (low, high) in [(1.0, 1.0), (0.8, 1.1), (0.02, 1.3), (0.9, 2.4), (1e-9, 1e9)] {
            let scale = scale(low, high);
            let ticks = scale.ticks();
            assert_eq!(ticks[0], 1.0);
            assert!((3..=8).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            assert!(scale.share(1.0 - BAND) > 0.0 && scale.share(1.0 + BAND) < 1.0);
        }
    }

    #[test]
    fn ticks_are_per_cents_near_1_and_factors_far_from_it() {
        let all = [0.1, 0.5, 0.9, 1.0, 1.2, 2.0].map(label);
        assert_eq!(all, ["×0.1", "−50 %", "−10 %", "0", "+20 %", "×2"]);
    }
}
