//! `report.html`: the sections as one page. What comes from a run only gets here through [`Markup`], which escapes it.

use crate::report::answer::Trust;
use crate::report::block::{Block, Chart, Field, Line, Row, Section, Span, Table};
use crate::report::draw;
use crate::report::names::{mark, tone};
use crate::report::page::Page;
use crate::report::write::markup::{Attr, Markup};
use crate::stats::Verdict;

/// The whole page.
pub(in crate::report) fn write(page: &Page) -> String {
    let mut m = Markup::default();
    m.literal("<!doctype html>\n");
    m.el("html", &[("lang", &"en")], |m| {
        m.el("head", &[], |m| head(m, page));
        m.el("body", &[], |m| {
            m.leaf(
                "a",
                &[("class", &"skip"), ("href", &"#answer")],
                "Skip to the answer",
            );
            m.el("header", &[], |m| {
                m.leaf("p", &[("class", &"over")], &page.over);
                m.leaf("h1", &[], &page.title);
                blocks(m, &page.intro, "h3");
            });
            m.el("main", &[], |m| {
                page.front.iter().for_each(|s| section(m, s));
                m.leaf("h2", &[("id", &"appendix")], "Appendix");
                page.appendix.iter().for_each(|s| folded(m, s));
            });
            m.el("footer", &[], |m| {
                m.leaf("p", &[("class", &"dim")], &page.footer)
            });
            m.el("script", &[], |m| m.literal(include_str!("sort.js")));
        });
    });
    m.finish()
}

fn head(m: &mut Markup, page: &Page) {
    m.open("meta", &[("charset", &"utf-8")]);
    let fit = "width=device-width, initial-scale=1";
    m.open("meta", &[("name", &"viewport"), ("content", &fit)]);
    m.open(
        "meta",
        &[("name", &"color-scheme"), ("content", &"light dark")],
    );
    // An icon of its own, or a browser would ask a server for one.
    m.open("link", &[("rel", &"icon"), ("href", &"data:,")]);
    m.leaf(
        "title",
        &[],
        format_args!("{} – Overlane laboratory", page.title),
    );
    m.el("style", &[], |m| {
        m.literal(super::CHART_STYLE);
        m.literal(include_str!("style.css"));
    });
}

/// A section that opens on demand.
fn folded(m: &mut Markup, section: &Section) {
    let heading = format!("{}-h", section.id);
    m.el(
        "section",
        &[("id", &section.id), ("aria-labelledby", &heading)],
        |m| {
            m.el("details", &[("class", &"part")], |m| {
                m.el("summary", &[], |m| {
                    m.leaf("h3", &[("id", &heading)], section.title);
                });
                blocks(m, &section.blocks, "h4");
            });
        },
    );
}

fn section(m: &mut Markup, section: &Section) {
    let heading = format!("{}-h", section.id);
    m.el(
        "section",
        &[("id", &section.id), ("aria-labelledby", &heading)],
        |m| {
            m.leaf("h2", &[("id", &heading)], section.title);
            blocks(m, &section.blocks, "h3");
        },
    );
}

/// Blocks whose headings are of one level.
fn blocks(m: &mut Markup, all: &[Block], level: &'static str) {
    let mut heading = "";
    for one in all {
        match one {
            Block::Heading(text) => {
                heading = text;
                m.leaf(level, &[], text);
            }
            Block::Answer(sentence, beside) => {
                m.leaf("p", &[("class", &"answer")], sentence);
                if let Some(beside) = beside {
                    m.leaf("p", &[("class", &"beside")], beside);
                }
            }
            Block::Trust(one) => trust(m, one),
            Block::Text(text) => m.el("p", &[], |m| line(m, text)),
            Block::Hint(text) => m.leaf("p", &[("class", &"dim")], text),
            Block::Note(text) => m.leaf("p", &[("class", &"note")], text),
            Block::List(lines) => m.el("ul", &[("class", &"list")], |m| {
                lines
                    .iter()
                    .for_each(|text| m.el("li", &[], |m| line(m, text)));
            }),
            Block::Terms(terms) => m.el("dl", &[("class", &"words")], |m| {
                for (term, meaning) in terms {
                    m.el("dt", &[], |m| line(m, term));
                    m.leaf("dd", &[], meaning);
                }
            }),
            Block::Table(one) => table(m, one),
            Block::Charts(charts) => m.el("div", &[("class", &"charts")], |m| {
                charts.iter().for_each(|one| chart(m, one, heading));
            }),
            Block::Code(text) => m.el("pre", &[("tabindex", &"0")], |m| m.leaf("code", &[], text)),
            Block::Folded(title, inner) => m.el("details", &[("class", &"folded")], |m| {
                m.leaf("summary", &[], title);
                blocks(m, inner, level);
            }),
        }
    }
}

fn trust(m: &mut Markup, trust: &Trust) {
    let word = trust.level.words();
    let class = format!("trust trust-{word}");
    m.el("p", &[("class", &class)], |m| {
        m.leaf("b", &[], format_args!("Trust: {word}."));
        m.text(" ").text(trust.reasons.join(" "));
    });
}

fn line(m: &mut Markup, line: &Line) {
    for span in &line.0 {
        match span {
            Span::Text(text) => {
                m.text(text);
            }
            Span::Strong(text) => m.leaf("b", &[], text),
            Span::Key(backend) => key(m, *backend),
            Span::Verdict(verdict) => word(m, *verdict),
            Span::Link { to, text, label } => {
                let to = format!("#{to}");
                m.leaf("a", &[("href", &to), ("aria-label", label)], text);
            }
            Span::Address { url, text } => {
                let safe = url.starts_with("https://") || url.starts_with("http://");
                if safe {
                    m.leaf("a", &[("href", url), ("rel", &"noreferrer")], text);
                } else {
                    m.text(text);
                }
            }
        }
    }
}

fn key(m: &mut Markup, backend: crate::record::BackendName) {
    let class = format!("key {}", draw::class(backend));
    m.leaf("span", &[("class", &class), ("aria-hidden", &"true")], "");
}

fn word(m: &mut Markup, verdict: Verdict) {
    let class = format!("v {}", tone(verdict));
    m.leaf(
        "span",
        &[("class", &class)],
        format!("{} {}", mark(verdict), verdict.words()),
    );
}

/// A table in a box of its own, which scrolls where the screen is narrow.
fn table(m: &mut Markup, table: &Table) {
    let attrs: [Attr<'_>; 4] = [
        ("class", &"scroll"),
        ("role", &"region"),
        ("tabindex", &"0"),
        ("aria-label", &table.caption),
    ];
    m.el("div", &attrs, |m| {
        m.el("table", &[], |m| {
            m.leaf("caption", &[], &table.caption);
            m.el("thead", &[], |m| {
                m.el("tr", &[], |m| {
                    for column in &table.columns {
                        let class = if column.number { "n" } else { "text" };
                        m.leaf("th", &[("scope", &"col"), ("class", &class)], &column.title);
                    }
                });
            });
            m.el("tbody", &[], |m| {
                table.rows.iter().for_each(|r| row(m, table, r))
            });
            if !table.foot.is_empty() {
                m.el("tfoot", &[], |m| {
                    table.foot.iter().for_each(|r| row(m, table, r))
                });
            }
        });
    });
}

fn row(m: &mut Markup, table: &Table, row: &Row) {
    let id = row.id.as_ref();
    let attrs: Vec<Attr<'_>> = id.map(|id| ("id", id as _)).into_iter().collect();
    m.el("tr", &attrs, |m| {
        for (i, cell) in row.cells.iter().enumerate() {
            let number = table.columns.get(i).is_some_and(|column| column.number);
            field(m, cell, i == 0, number);
        }
    });
}

fn field(m: &mut Markup, field: &Field, first: bool, number: bool) {
    let mut class = if number { "n" } else { "text" }.to_owned();
    if field.wide {
        class += " wide";
    }
    if let Some(verdict) = field.verdict {
        class += match verdict {
            Verdict::Better => " is-better",
            Verdict::Worse => " is-worse",
            Verdict::Same => " is-same",
            Verdict::CannotTell | Verdict::NotComparable => " is-cannot",
        };
    }
    if let Some(heat) = field.heat {
        let side = if heat < 0 { "worse" } else { "better" };
        class += &format!(" heat heat-{side}-{}", heat.unsigned_abs());
    }
    let sort = field.sort.filter(|v| v.is_finite()).map(|v| v.to_string());
    let mut attrs: Vec<Attr<'_>> = vec![("class", &class)];
    if first {
        attrs.push(("scope", &"row"));
    }
    if let Some(sort) = &sort {
        attrs.push(("data-sort", sort));
    }
    m.el(if first { "th" } else { "td" }, &attrs, |m| {
        content(m, field)
    });
}

fn content(m: &mut Markup, field: &Field) {
    if let Some(backend) = field.key {
        key(m, backend);
    }
    if field.more.is_empty() {
        match &field.to {
            Some(to) => m.leaf("a", &[("href", &format!("#{to}"))], &field.text),
            None => {
                m.text(&field.text);
            }
        }
    } else {
        m.el("details", &[], |m| {
            m.leaf("summary", &[], &field.text);
            field.more.iter().for_each(|text| m.leaf("p", &[], text));
        });
    }
    if !field.small.is_empty() {
        m.text(" ").leaf("small", &[], &field.small);
    }
    if let Some(verdict) = field.verdict {
        m.text(" ");
        word(m, verdict);
    }
}

/// A chart; what the heading above says already is not said again, but to those who hear the page.
fn chart(m: &mut Markup, chart: &Chart, heading: &str) {
    let own = chart
        .title
        .strip_suffix(heading)
        .and_then(|title| title.strip_suffix(", "));
    m.el("figure", &[("id", &chart.id)], |m| {
        m.el("figcaption", &[], |m| {
            m.leaf("strong", &[], own.unwrap_or(&chart.title));
            m.text(" ").leaf("span", &[("class", &"dim")], &chart.hint);
        });
        chart.drawing.draw(m, &chart.id, &chart.title, &chart.words);
        m.el("details", &[("class", &"data")], |m| {
            m.leaf("summary", &[], "The figures");
            table(m, &chart.table);
        });
    });
}
