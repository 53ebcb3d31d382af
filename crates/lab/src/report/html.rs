//! `report.html`: the order of the page, its head, the answer and the charts.

use crate::results::{Analysis, Metric};

use super::answers::{Answer, Clause, Finding, answers, in_short};
use super::markup::Markup;
use super::numbers::{duration, utc};
use super::ratios::{RatioRow, ratios};
use super::sections;
use super::svg;
use super::tables;
use super::words::{VIRTUAL, describe, group_title};

/// The whole page.
pub(super) fn page(analysis: &Analysis<'_>) -> String {
    let study = &analysis.run.study;
    let mut m = Markup::default();
    m.literal("<!doctype html>\n");
    m.el("html", &[("lang", &"en")], |m| {
        m.el("head", &[], |m| {
            m.open("meta", &[("charset", &"utf-8")]);
            m.open(
                "meta",
                &[
                    ("name", &"viewport"),
                    ("content", &"width=device-width, initial-scale=1"),
                ],
            );
            m.open(
                "meta",
                &[("name", &"color-scheme"), ("content", &"light dark")],
            );
            m.leaf(
                "title",
                &[],
                format_args!("{} – Overlane laboratory", study.title),
            );
            m.el("style", &[], |m| m.literal(include_str!("style.css")));
        });
        m.el("body", &[], |m| {
            m.el("main", &[], |m| {
                head(m, analysis);
                answer(m, analysis);
                charts(m, analysis);
                results(m, analysis);
                published(m, analysis);
                sections::unavailable(m, analysis);
                sections::method(m, analysis);
                sections::host(m, analysis);
                sections::warnings(m, analysis);
                sections::discarded(m, analysis);
                sections::repeat(m, analysis);
            });
        });
    });
    m.finish()
}

/// A section with its heading.
pub(super) fn section(m: &mut Markup, id: &str, title: &str, content: impl FnOnce(&mut Markup)) {
    m.el("section", &[("id", &id)], |m| {
        m.leaf("h2", &[], title);
        content(m);
    });
}

fn head(m: &mut Markup, analysis: &Analysis<'_>) {
    let run = analysis.run;
    m.el("header", &[], |m| {
        m.leaf("p", &[("class", &"over")], format_args!("Overlane laboratory · study {}", run.study.name));
        m.leaf("h1", &[], &run.study.title);
        m.leaf("p", &[("class", &"lead")], &run.study.question);
        let matrix = if run.quick { "Quick matrix" } else { "Whole matrix" };
        let broken = if run.interrupted { ", interrupted" } else { "" };
        let took = duration(run.finished_unix_ms.saturating_sub(run.started_unix_ms));
        m.leaf("p", &[("class", &"dim")], format_args!(
            "Measured {} in {took} on {} ({} CPUs), Linux {}. {matrix}{broken}: {} samples of {} s per cell, \
             networks taken in turn.",
            utc(run.started_unix_ms), run.env.cpu_model, run.env.cpus,
            run.env.kernel.split_whitespace().next().unwrap_or_default(),
            run.planned_samples, run.planned_seconds,
        ));
        m.leaf("p", &[("class", &"note")], VIRTUAL);
    });
    m.el("details", &[("class", &"networks"), ("open", &"")], |m| {
        m.leaf("summary", &[], "The networks compared here");
        m.el("dl", &[], |m| {
            for backend in analysis.backends() {
                m.el("dt", &[], |m| {
                    m.leaf(
                        "span",
                        &[("class", &format!("key {}", svg::class(backend)))],
                        "",
                    );
                    m.text(backend);
                });
                m.leaf("dd", &[], describe(backend));
            }
        });
    });
}

fn answer(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "answer", "The answer", |m| {
        if let Some(text) = in_short(analysis) {
            m.leaf("p", &[("class", &"short")], text);
        }
        let answers = answers(analysis);
        if answers.is_empty() {
            m.leaf(
                "p",
                &[],
                "There are no two cells with samples to compare: no answer.",
            );
        }
        for answer in &answers {
            question(m, answer);
        }
    });
}

fn question(m: &mut Markup, answer: &Answer) {
    m.leaf("h3", &[], answer.question);
    if !answer.note.is_empty() {
        m.leaf("p", &[("class", &"dim")], answer.note);
    }
    for setting in &answer.settings {
        m.leaf("p", &[("class", &"setting")], &setting.with);
        m.el("ul", &[("class", &"answers")], |m| {
            for finding in &setting.findings {
                m.el("li", &[], |m| sentence(m, &setting.with, finding));
            }
        });
    }
}

fn sentence(m: &mut Markup, with: &str, finding: &Finding) {
    m.leaf(
        "span",
        &[("class", &format!("key {}", svg::class(finding.backend)))],
        "",
    );
    m.leaf("b", &[], format_args!("{}{}", finding.backend, finding.at));
    for (i, clause) in finding.clauses.iter().enumerate() {
        let Clause {
            verb,
            figure,
            object,
            verdict,
        } = clause;
        m.text(if i == 0 { " " } else { "; " }).text(verb).text(" ");
        m.leaf("b", &[], figure);
        m.text(format_args!(" {object}: "));
        tables::verdict(m, *verdict);
    }
    m.text(". ");
    let href = format!("#{}", finding.anchor);
    let label = format!("Table row: {with}, {}{}", finding.backend, finding.at);
    m.leaf("a", &[("href", &href), ("aria-label", &label)], "row ↓");
    if !finding.why.is_empty() {
        m.leaf("small", &[], format_args!("{}.", capital(&finding.why)));
    }
}

fn charts(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "charts", "The figures", |m| {
        m.leaf(
            "p",
            &[("class", &"dim")],
            "Bars are means; the line over a bar is the 95 % interval of the mean, the dots are the \
             samples. Each chart has its own scale.",
        );
        for &group in &analysis.groups {
            if !analysis.in_group(group).any(|figures| figures.is_ok()) {
                continue;
            }
            m.leaf("h3", &[], group_title(group));
            m.el("div", &[("class", &"charts")], |m| {
                let metrics = [
                    Metric::Goodput,
                    Metric::CpuPerGbps,
                    Metric::UnderlayRate,
                    Metric::UnderlayPacket,
                ];
                for metric in metrics {
                    svg::bars(m, analysis, group, metric);
                }
            });
        }
    });
}

fn results(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "cells", "Every cell", |m| {
        m.leaf(
            "p",
            &[("class", &"dim")],
            "Means, with the 95 % interval below. CPU % is of one logical CPU; – is not measured. \
             Open a proof, a status or a number of samples for what is behind it.",
        );
        for &group in &analysis.groups {
            tables::cells(m, analysis, group);
        }
    });
    section(m, "comparisons", "Every comparison", |m| {
        m.leaf(
            "p",
            &[("class", &"dim")],
            "Median of the ratios within each round, its 95 % interval, and the verdict for the network named \
             first. More goodput is better; less CPU per Gbit/s is better.",
        );
        for &group in &analysis.groups {
            tables::between_networks(m, analysis, group);
        }
        tables::between_settings(m, analysis);
    });
}

fn published(m: &mut Markup, analysis: &Analysis<'_>) {
    let study = &analysis.run.study;
    if study.published.tables.is_empty() {
        return;
    }
    section(m, "published", "Beside the published study", |m| {
        let source = &study.source;
        m.el("p", &[], |m| {
            m.leaf(
                "a",
                &[("href", &source.url), ("rel", &"noreferrer")],
                &source.title,
            );
            m.text(format_args!(
                " ({}, {}). {}",
                source.publisher, source.date, source.testbed
            ));
        });
        m.leaf(
            "p",
            &[("class", &"note")],
            "Other hardware: only shapes and ratios compare. Its NICs had no VXLAN offload, so the \
             cells with offload off are the ones to hold beside it.",
        );
        let rows = ratio_rows(analysis);
        if !rows.is_empty() {
            m.el("figure", &[("class", &"wide")], |m| {
                m.leaf(
                    "figcaption",
                    &[],
                    "Ratios of goodput: published ◆ and ours ●, offload off",
                );
                ratios(m, &rows);
            });
            tables::published_shapes(m, analysis);
        }
        tables::published_figures(m, analysis);
        m.leaf("h3", &[], "What the study says besides");
        m.el("ul", &[], |m| {
            study
                .published
                .findings
                .iter()
                .for_each(|f| m.leaf("li", &[], f))
        });
    });
}

fn ratio_rows(analysis: &Analysis<'_>) -> Vec<RatioRow> {
    let mut rows = Vec::new();
    for shape in super::published::shapes(analysis) {
        let ours: Vec<RatioRow> = shape
            .ours
            .iter()
            .filter(|ours| !ours.offload)
            .filter_map(|o| {
                let name = o.label.split_whitespace().next().unwrap_or_default();
                Some(RatioRow::Ours(
                    name.to_owned(),
                    o.result.ratio?,
                    o.result.ci95,
                ))
            })
            .collect();
        if !ours.is_empty() {
            rows.push(RatioRow::Heading(shape.title));
            rows.push(RatioRow::Published(shape.published));
            rows.extend(ours);
        }
    }
    rows
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}
