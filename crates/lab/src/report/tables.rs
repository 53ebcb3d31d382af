//! Tables of the page: cells, comparisons, published figures.

use crate::record::{CellKey, GroupKey};
use crate::results::{Analysis, Axis, CellFigures, Compared, Metric, label, status};
use crate::stats::{Comparison, Verdict};

use super::markup::Markup;
use super::numbers::{NONE, fixed, interval, mean, ratio, ratio_interval, short, value};
use super::published::{Shape, shapes};
use super::words::{anchor, group_title, mark, method, pairs, slug};

/// A table that scrolls by itself where the screen is narrow. A heading with `#` stands over numbers.
pub(super) fn table(
    m: &mut Markup,
    caption: &str,
    header: &[&str],
    rows: impl FnOnce(&mut Markup),
) {
    m.el(
        "div",
        &[
            ("class", &"scroll"),
            ("role", &"region"),
            ("tabindex", &"0"),
            ("aria-label", &caption),
        ],
        |m| {
            m.el("table", &[], |m| {
                m.leaf("caption", &[], caption);
                m.el("thead", &[], |m| {
                    m.el("tr", &[], |m| {
                        header.iter().for_each(|text| heading(m, text));
                    });
                });
                m.el("tbody", &[], rows);
            });
        },
    );
}

fn heading(m: &mut Markup, text: &str) {
    let (class, text) = text
        .strip_prefix('#')
        .map_or(("text", text), |number| ("n", number));
    m.leaf("th", &[("scope", &"col"), ("class", &class)], text);
}

/// Every cell of one group.
pub(super) fn cells(m: &mut Markup, analysis: &Analysis<'_>, group: GroupKey) {
    let header = [
        "Network",
        "#Goodput Gbit/s",
        "#CPU %/Gbit/s",
        "#CPU % sender",
        "#CPU % receiver",
        "#Underlay kpps",
        "#Bytes per packet",
        "#Retransmits",
        "Samples",
        "Path proof",
        "Status",
    ];
    table(m, &group_title(group), &header, |m| {
        for figures in analysis.in_group(group) {
            let (word, _) = status(&figures.cell.status);
            let id = format!("cell-{}", slug(figures.cell.key));
            m.el("tr", &[("id", &id), ("class", &word)], |m| cell(m, figures));
        }
    });
}

fn cell(m: &mut Markup, figures: &CellFigures<'_>) {
    let cell = figures.cell;
    let (word, reason) = status(&cell.status);
    m.el("th", &[("scope", &"row"), ("class", &"name")], |m| {
        let class = format!("key {}", super::svg::class(cell.key.backend));
        m.leaf("span", &[("class", &class)], "");
        m.text(cell.key.backend);
        let state = if figures.is_ok() { "" } else { word };
        let separator = if state.is_empty() { "" } else { " · " };
        m.leaf(
            "small",
            &[],
            format!("MTU {}{separator}{state}", cell.key.mtu),
        );
    });
    for metric in Metric::COLUMNS {
        let summary = figures.get(metric);
        let ends = match metric {
            Metric::Goodput | Metric::CpuPerGbps | Metric::UnderlayRate => summary,
            // Beside these an interval says little and costs the width of a column.
            _ => None,
        };
        number(m, &mean(metric, summary), &interval(metric, ends));
    }
    m.el("td", &[("class", &"text")], |m| samples(m, figures));
    m.el("td", &[("class", &"text")], |m| proof(m, figures));
    let texts = || {
        reason
            .into_iter()
            .chain(cell.notes.iter().map(String::as_str))
    };
    m.el("td", &[("class", &"text")], |m| {
        if texts().next().is_none() {
            m.text(word);
        } else {
            details(m, word, texts());
        }
    });
}

fn proof(m: &mut Markup, figures: &CellFigures<'_>) {
    let cell = figures.cell;
    let word = match (cell.path_proof, figures.is_ok()) {
        (true, _) => "✓ proven",
        (false, true) => "✗ not proven",
        (false, false) => NONE,
    };
    if cell.proof_detail.is_empty() {
        m.text(word);
    } else {
        details(m, word, [cell.proof_detail.as_str()].into_iter());
    }
}

fn samples(m: &mut Markup, figures: &CellFigures<'_>) {
    let Some(goodput) = figures.get(Metric::Goodput) else {
        m.text(figures.samples());
        return;
    };
    let values: Vec<_> = goodput
        .samples
        .iter()
        .map(|&v| value(Metric::Goodput, v))
        .collect();
    let text = format!("Gbit/s by round: {}", values.join(" · "));
    details(
        m,
        &figures.samples().to_string(),
        [text.as_str()].into_iter(),
    );
}

fn details<'t>(m: &mut Markup, summary: &str, texts: impl Iterator<Item = &'t str>) {
    m.el("details", &[], |m| {
        m.leaf("summary", &[], summary);
        texts.for_each(|text| m.leaf("p", &[], text));
    });
}

fn number(m: &mut Markup, value: &str, interval: &str) {
    m.el("td", &[("class", &"n")], |m| {
        m.text(value);
        if !interval.is_empty() {
            m.leaf("small", &[], interval);
        }
    });
}

/// The comparisons between the networks of one group.
pub(super) fn between_networks(m: &mut Markup, analysis: &Analysis<'_>, group: GroupKey) {
    let keep = |c: &&Compared| c.axis == Axis::Backend && c.a.group() == group;
    let rows = pairs(analysis.comparisons.iter().filter(keep));
    if rows.is_empty() {
        return;
    }
    let header = ["Network", "against", "#Goodput", "#CPU %/Gbit/s", "Samples"];
    table(m, &group_title(group), &header, |m| {
        for first in rows {
            comparison(
                m,
                analysis,
                first,
                &first.a.backend.to_string(),
                &first.b.backend.to_string(),
            );
        }
    });
}

/// The comparisons of a network with itself under another setting.
pub(super) fn between_settings(m: &mut Markup, analysis: &Analysis<'_>) {
    let header = [
        "Network and setting",
        "against",
        "#Goodput",
        "#CPU %/Gbit/s",
        "Samples",
    ];
    let axes = [
        (Axis::Mtu, "Jumbo MTU against 1500"),
        (Axis::Offload, "Wire offload on against off"),
        (Axis::Streams, "More streams against fewer"),
    ];
    for (axis, title) in axes {
        let rows = pairs(analysis.comparisons.iter().filter(|c| c.axis == axis));
        if rows.is_empty() {
            continue;
        }
        table(m, title, &header, |m| {
            for first in rows {
                let b = other_setting(axis, first.b);
                comparison(m, analysis, first, &label(&first.a), &b);
            }
        });
    }
}

/// `MTU 1500`
pub(super) fn other_setting(axis: Axis, b: CellKey) -> String {
    match axis {
        Axis::Backend => b.backend.to_string(),
        Axis::Mtu => format!("MTU {}", b.mtu),
        Axis::Offload => format!("offload {}", if b.offload { "on" } else { "off" }),
        Axis::Streams => format!(
            "{} stream{}",
            b.streams,
            if b.streams == 1 { "" } else { "s" }
        ),
    }
}

fn comparison(m: &mut Markup, analysis: &Analysis<'_>, c: &Compared, a: &str, b: &str) {
    m.el("tr", &[("id", &anchor(c))], |m| {
        m.leaf("th", &[("scope", &"row")], a);
        m.leaf("td", &[("class", &"text")], b);
        for metric in Metric::COMPARED {
            let result = analysis
                .comparison(c.a, c.b, metric)
                .map(|found| &found.result);
            m.el("td", &[("class", &"n inline")], |m| verdict_cell(m, result));
        }
        m.leaf("td", &[("class", &"text")], method(c));
    });
}

fn verdict_cell(m: &mut Markup, result: Option<&Comparison>) {
    let Some((result, value)) = result.and_then(|r| Some((r, r.ratio?))) else {
        m.text(NONE);
        return;
    };
    m.text(ratio(value)).text(" ");
    m.leaf("small", &[], ratio_interval(result.ci95));
    m.text(" ");
    verdict(m, result.verdict);
}

/// The coloured word with its mark.
pub(super) fn verdict(m: &mut Markup, verdict: Verdict) {
    let class = match verdict {
        Verdict::Better => "v better",
        Verdict::Worse => "v worse",
        Verdict::CannotTell => "v cannot",
    };
    m.leaf(
        "span",
        &[("class", &class)],
        format!("{} {}", mark(verdict), verdict.words()),
    );
}

/// Published ratios beside ours.
pub(super) fn published_shapes(m: &mut Markup, analysis: &Analysis<'_>) {
    let header = [
        "Shape",
        "#Published",
        "Ours, offload off",
        "Ours, offload on",
    ];
    table(m, "Ratios of goodput: published, and here", &header, |m| {
        for shape in shapes(analysis).iter().filter(|s| !s.ours.is_empty()) {
            m.el("tr", &[], |m| {
                m.leaf("th", &[("scope", &"row")], &shape.title);
                let figures = format!(
                    "{} / {} Gbit/s",
                    short(shape.figures.0),
                    short(shape.figures.1)
                );
                number(m, &ratio(shape.published), &figures);
                ours(m, shape, false);
                ours(m, shape, true);
            });
        }
    });
}

fn ours(m: &mut Markup, shape: &Shape, offload: bool) {
    m.el("td", &[("class", &"text")], |m| {
        if !shape.ours.iter().any(|o| o.offload == offload) {
            m.text(NONE);
        }
        for ours in shape.ours.iter().filter(|o| o.offload == offload) {
            let text = ours.result.ratio.map_or_else(|| NONE.to_owned(), ratio);
            m.el("div", &[], |m| {
                m.text(format_args!("{text} "));
                let interval = ratio_interval(ours.result.ci95);
                m.leaf("small", &[], format!("{interval} {}", ours.label));
            });
        }
    });
}

/// The published figures as they were published.
pub(super) fn published_figures(m: &mut Markup, analysis: &Analysis<'_>) {
    let header = ["Network", "#Guest MTU", "#Streams", "#Gbit/s", "Readings"];
    for published in &analysis.run.study.published.tables {
        table(
            m,
            &format!("{} (their hardware)", published.title),
            &header,
            |m| {
                for row in &published.rows {
                    m.el("tr", &[], |m| {
                        m.leaf("th", &[("scope", &"row")], &row.network);
                        number(m, &row.mtu.to_string(), "");
                        number(m, &row.streams.to_string(), "");
                        number(m, &fixed(row.goodput_gbps, 2), "");
                        let readings = row.readings_gbps.iter().map(|&v| fixed(v, 2));
                        m.leaf(
                            "td",
                            &[("class", &"text")],
                            readings.collect::<Vec<_>>().join(" · "),
                        );
                    });
                }
            },
        );
    }
}
