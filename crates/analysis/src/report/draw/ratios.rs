//! Ratios as points with intervals on a common line with ×1 marked: the published ones beside ours.

use crate::record::BackendName;

use super::bars::whisker;
use super::scale::{Scale, WIDTH, px, trimmed};
use super::{AXIS, class, frame, line, rect, text};
use crate::report::numbers::{fixed, ratio, ratio_interval};
use crate::report::write::markup::{Attr, Markup};

const ROW: f64 = 24.0;

/// A row of a ratio chart.
pub(in crate::report) enum RatioRow {
    /// What the following rows have in common.
    Heading(String),
    /// The published ratio.
    Published(f64),
    /// Ours: name, colour, ratio, interval.
    Ours(String, BackendName, f64, Option<[f64; 2]>),
}

pub(super) fn draw(m: &mut Markup, rows: &[RatioRow], named: (&str, &str, &str)) {
    let reach = |row: &RatioRow| match row {
        RatioRow::Heading(_) => 1.0,
        RatioRow::Published(v) => *v,
        RatioRow::Ours(_, _, v, ci95) => ci95.map_or(*v, |ci| ci[1]),
    };
    let scale = Scale::up_to(rows.iter().map(reach).fold(1.0, f64::max) * 1.02);
    let bottom = ROW * rows.len() as f64;
    frame(m, bottom + AXIS, named, |m| {
        for tick in scale.ticks() {
            let x = scale.x(tick);
            line(m, "grid", (x, 0.0), (x, bottom));
            text(
                m,
                "tick",
                (x, bottom + 16.0),
                &format!("×{}", trimmed(fixed(tick, 2))),
            );
        }
        line(m, "one", (scale.x(1.0), 0.0), (scale.x(1.0), bottom));
        for (i, row) in rows.iter().enumerate() {
            m.el("g", &[("class", &"mark")], |m| {
                draw_row(m, &scale, ROW * i as f64 + ROW / 2.0, row);
            });
        }
    });
}

fn draw_row(m: &mut Markup, scale: &Scale, y: f64, row: &RatioRow) {
    match row {
        RatioRow::Heading(words) => {
            // The heading runs over the plot: a ground of the page's colour keeps it readable.
            rect(m, "ground", (0.0, y - 11.0), (WIDTH, 22.0), "");
            text(m, "head", (0.0, y + 4.0), words);
        }
        RatioRow::Published(v) => {
            text(m, "dim", (0.0, y + 4.0), "published");
            let x = scale.x(*v);
            let corners = [(x, y - 7.0), (x + 7.0, y), (x, y + 7.0), (x - 7.0, y)];
            let points = corners
                .map(|(x, y)| format!("{},{}", px(x), px(y)))
                .join(" ");
            m.shape("polygon", &[("class", &"published"), ("points", &points)]);
            text(m, "num", (WIDTH, y + 4.0), &ratio(*v));
        }
        RatioRow::Ours(name, backend, v, ci95) => {
            text(m, "name", (0.0, y + 4.0), name);
            if let Some(ends) = ci95 {
                whisker(m, scale, y, *ends);
            }
            let attrs: [Attr<'_>; 4] = [
                ("class", &format!("ours {}", class(*backend))),
                ("cx", &px(scale.x(*v))),
                ("cy", &px(y)),
                ("r", &"4.5"),
            ];
            let words = format!("{name}: {} {}", ratio(*v), ratio_interval(*ci95));
            m.el("circle", &attrs, |m| m.leaf("title", &[], words));
            text(m, "num", (WIDTH, y + 4.0), &ratio(*v));
        }
    }
}
