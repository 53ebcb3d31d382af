//! The charts of a run as one picture: an SVG that stands by itself, for a page that is not ours.
//!
//! Two columns, the figure of a test and what it costs, and a row of charts for each group.

use crate::record::GroupKey;
use crate::results::Metric;

use crate::report::block::Chart;
use crate::report::draw::{Drawing, WIDTH as CHART, text};
use crate::report::names::{Names, capital, guests};
use crate::report::numbers::{short, utc};
use crate::report::page::Report;
use crate::report::sections::charts::bars;
use crate::report::sections::heat::caption;
use crate::report::write::CHART_STYLE;
use crate::report::write::markup::{Attr, Markup};

/// Room around the charts and between them.
const MARGIN: f64 = 24.0;
/// Between the columns.
const GAP: f64 = 32.0;
/// The whole width.
const WIDTH: f64 = 2.0 * (CHART + MARGIN) + GAP;
/// From the heading of a group to its captions, and from these to the charts.
const HEADING: f64 = 24.0;
const CAPTION: f64 = 12.0;
/// From the end of a row to the next heading.
const BELOW: f64 = 34.0;
/// From a line of the foot to the next.
const FOOT: f64 = 17.0;
/// Groups that a picture shows.
const SHOWN: usize = 6;

/// One group: its name, and its charts with their heights.
struct Row {
    name: String,
    charts: Vec<(Chart, f64)>,
}

/// The picture; nothing where no cell has a figure.
pub(super) fn draw(r: &Report<'_>) -> Option<String> {
    let groups = r.groups(|_| true).into_iter();
    let rows: Vec<Row> = groups.filter_map(|g| row(r, g)).take(SHOWN).collect();
    if rows.is_empty() {
        return None;
    }
    let foot = foot(r);
    let height = rows.iter().map(Row::height).sum::<f64>() + MARGIN + FOOT * foot.len() as f64;
    let mut m = Markup::default();
    let size = format!("0 0 {WIDTH} {height}");
    let attrs: [Attr<'_>; 5] = [
        ("xmlns", &"http://www.w3.org/2000/svg"),
        ("viewBox", &size),
        ("font-family", &FONT),
        ("role", &"img"),
        ("aria-labelledby", &"title"),
    ];
    m.el("svg", &attrs, |m| {
        m.leaf("title", &[("id", &"title")], &r.analysis.run.study.title);
        m.el("style", &[], |m| {
            m.literal(CHART_STYLE);
            m.literal(STYLE);
        });
        card(m, height);
        let mut top = MARGIN;
        for one in &rows {
            one.draw(m, top);
            top += one.height();
        }
        for line in &foot {
            text(m, "foot", (MARGIN, top), line);
            top += FOOT;
        }
    });
    Some(m.finish())
}

const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// What a picture needs beside the charts' own style.
const STYLE: &str = "\
.card { fill: var(--ground); stroke: var(--line); }
text { fill: var(--text); }
.heading { font-size: 16px; font-weight: 650; }
.caption { font-size: 13px; font-weight: 600; }
.caption-dim, .foot { font-size: 12px; fill: var(--dim); }
";

/// The ground, so that the picture can be read on a page of either theme.
fn card(m: &mut Markup, height: f64) {
    let (width, height) = (WIDTH - 1.0, height - 1.0);
    let attrs: [Attr<'_>; 6] = [
        ("class", &"card"),
        ("x", &"0.5"),
        ("y", &"0.5"),
        ("width", &width),
        ("height", &height),
        ("rx", &"10"),
    ];
    m.shape("rect", &attrs);
}

/// A group with its figure and its cost, where they were measured.
fn row(r: &Report<'_>, group: GroupKey) -> Option<Row> {
    let test = group.workload.test;
    let metrics = [Metric::primary(test), Metric::cost(test)];
    let charts = metrics.into_iter().filter_map(|metric| {
        let chart = bars(r, group, metric)?;
        let Drawing::Bars(bars) = &chart.drawing else {
            return None;
        };
        let height = bars.height();
        let title = caption(metric);
        Some((Chart { title, ..chart }, height))
    });
    let charts: Vec<_> = charts.collect();
    let name = name(&group);
    (!charts.is_empty()).then_some(Row { name, charts })
}

/// `Virtual machines: tcp_stream, 131 072 bytes, 4 instances, MTU 1500, offload on`
fn name(group: &GroupKey) -> String {
    let who = capital(guests(group.setting.guests));
    format!("{who}: {}", Names::in_full(group))
}

impl Row {
    fn height(&self) -> f64 {
        let charts = self.charts.iter().map(|(_, height)| *height);
        HEADING + CAPTION + charts.fold(0.0, f64::max) + BELOW
    }

    fn draw(&self, m: &mut Markup, top: f64) {
        text(m, "heading", (MARGIN, top + 12.0), &self.name);
        for (column, (chart, height)) in self.charts.iter().enumerate() {
            let left = MARGIN + column as f64 * (CHART + GAP);
            let caption = top + 12.0 + HEADING;
            m.el(
                "text",
                &[("class", &"caption"), ("x", &left), ("y", &caption)],
                |m| {
                    m.text(&chart.title).text(" ");
                    let hint = format!("({})", chart.hint);
                    m.leaf("tspan", &[("class", &"caption-dim")], hint);
                },
            );
            let place: [Attr<'_>; 4] = [
                ("x", &left),
                ("y", &(caption + CAPTION)),
                ("width", &CHART),
                ("height", height),
            ];
            m.el("svg", &place, |m| {
                chart.drawing.draw(m, &chart.id, &chart.title, &chart.words);
            });
        }
    }
}

/// How to read it, and where it was measured.
fn foot(r: &Report<'_>) -> Vec<String> {
    let run = r.analysis.run;
    let samples = run.matrix().samples;
    let (cpus, kernel) = (
        run.env.cpus,
        run.env.kernel.split_whitespace().next().unwrap_or_default(),
    );
    let place = if run.env.virtualised {
        ", itself a virtual machine"
    } else {
        ""
    };
    let seconds = short(run.matrix().seconds);
    let read = format!(
        "Bars: mean of {samples} samples of {seconds} s, taken in turn. Whiskers: 95 % interval. Dots: the samples."
    );
    let whom = format!(
        "{}, {cpus} CPUs{place}, Linux {kernel}, {}.",
        run.env.cpu_model,
        utc(run.started_unix_ms)
    );
    vec![read, whom]
}
