//! The chart of the published ratios beside ours: points with intervals on a line, ×1 marked.

use super::markup::Markup;
use super::numbers::{fixed, ratio, ratio_interval};
use super::scale::{Scale, WIDTH, px};
use super::svg::{AXIS, axis, frame, whisker};

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
