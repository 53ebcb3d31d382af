//! `report.md`: the same sections as the page, for a terminal, a wiki or a pull request. A chart is its table.

use crate::report::block::{Block, Field, Line, Row, Span, Table};
use crate::report::names::mark;
use crate::report::page::Page;

/// The whole file: what a reader needs, then the appendix, where everything is that the page folds.
pub(in crate::report) fn write(page: &Page) -> String {
    let mut out = Writer::default();
    out.text += &format!("# {}\n\n", esc(&page.title));
    out.blocks(&page.intro, "###");
    for section in &page.front {
        out.text += &format!("## {}\n\n", esc(section.title));
        out.blocks(&section.blocks, "###");
    }
    let folded = std::mem::take(&mut out.folded);
    out.text += "## Appendix\n\n";
    for (title, inner) in folded {
        out.text += &format!("### {}\n\n", esc(&title));
        out.inline = true;
        out.blocks(inner, "####");
    }
    out.inline = true;
    for section in &page.appendix {
        out.text += &format!("### {}\n\n", esc(section.title));
        out.blocks(&section.blocks, "####");
    }
    out.text += &format!("{}\n", esc(&page.footer));
    out.text
}

/// The file under construction.
#[derive(Default)]
struct Writer<'p> {
    text: String,
    /// What is folded stands where it is; before the appendix it is put off into it.
    inline: bool,
    /// What was put off, with the heading that it stood under.
    folded: Vec<(String, &'p [Block])>,
}

impl<'p> Writer<'p> {
    fn blocks(&mut self, all: &'p [Block], level: &str) {
        let mut heading = "";
        for one in all {
            let out = &mut self.text;
            match one {
                Block::Heading(text) => {
                    heading = text;
                    *out += &format!("{level} {}\n\n", esc(text));
                }
                Block::Answer(sentence, beside) => {
                    *out += &format!("**{}**\n\n", esc(sentence));
                    let beside = beside.iter().map(|text| format!("{}\n\n", esc(text)));
                    out.extend(beside);
                }
                Block::Trust(trust) => {
                    let reasons = esc(&trust.reasons.join(" "));
                    *out += &format!("> **Trust: {}.** {reasons}\n\n", trust.level.words());
                }
                Block::Text(text) => *out += &format!("{}\n\n", line(text)),
                Block::Hint(text) => *out += &format!("{}\n\n", esc(text)),
                Block::Note(text) => *out += &format!("> {}\n\n", esc(text)),
                Block::List(lines) => list(out, lines.iter().map(line)),
                Block::Terms(terms) => {
                    let term = |(t, meaning): &(Line, String)| {
                        format!("**{}**: {}", line(t), esc(meaning))
                    };
                    list(out, terms.iter().map(term));
                }
                Block::Table(one) => table(out, one),
                Block::Charts(charts) => charts.iter().for_each(|chart| table(out, &chart.table)),
                // Indented, so that no run of backticks in it can end the block.
                Block::Code(text) => *out += &format!("    {}\n\n", text.replace('\n', " ")),
                Block::Folded(title, inner) if self.inline => {
                    *out += &format!("**{}**\n\n", esc(title));
                    self.blocks(inner, level);
                }
                Block::Folded(title, inner) => {
                    let title = match heading {
                        "" => title.clone(),
                        heading => format!("{heading} {title}"),
                    };
                    self.folded.push((title, inner));
                }
            }
        }
    }
}

fn list(out: &mut String, items: impl Iterator<Item = String>) {
    items.for_each(|item| *out += &format!("- {item}\n"));
    out.push('\n');
}

fn line(line: &Line) -> String {
    let one = |span: &Span| match span {
        Span::Text(text) => esc(text),
        Span::Strong(text) => format!("**{}**", esc(text)),
        // Links within the page have no target in Markdown, colours no meaning.
        Span::Key(_) | Span::Link { .. } => String::new(),
        Span::Verdict(verdict) => format!("{} {}", mark(*verdict), verdict.words()),
        Span::Address { url, text } => {
            format!("{} <{}>", esc(text), url.replace(['<', '>', '\n', ' '], ""))
        }
    };
    line.0
        .iter()
        .map(one)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

fn table(out: &mut String, table: &Table) {
    *out += &format!("*{}*\n\n", esc(&table.caption));
    let heads: Vec<String> = table
        .columns
        .iter()
        .map(|column| esc(&column.title))
        .collect();
    let rules = table
        .columns
        .iter()
        .map(|c| if c.number { "--:|" } else { "---|" });
    *out += &format!(
        "| {} |\n|{}\n",
        heads.join(" | "),
        rules.collect::<String>()
    );
    for row in table.rows.iter().chain(&table.foot) {
        *out += &format!("| {} |\n", fields(row).join(" | "));
    }
    out.push('\n');
}

fn fields(row: &Row) -> Vec<String> {
    let one = |field: &Field| {
        let mut text = esc(&field.text);
        if !field.small.is_empty() {
            text += &format!(" {}", esc(&field.small));
        }
        if let Some(verdict) = field.verdict {
            text += &format!(" {} {}", mark(verdict), verdict.words());
        }
        text
    };
    row.cells.iter().map(one).collect()
}

/// Text that Markdown and the HTML in it leave alone.
fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
