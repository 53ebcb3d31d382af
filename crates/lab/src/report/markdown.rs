//! `report.md`: the same answers and tables as the page, for a terminal, a wiki or a pull request.

use crate::results::{Analysis, Axis, CellFigures, Compared, Metric, label, status};
use crate::stats::Comparison;

use super::answers::{Setting, answers, in_short};
use super::numbers::{NONE, duration, interval, mean, ratio, ratio_interval, utc};
use super::published::shapes;
use super::sections::host_facts;
use super::tables::other_setting;
use super::words::{GLOSSARY, VIRTUAL, group_title, mark, method, pairs};

/// The whole file.
pub(super) fn page(analysis: &Analysis<'_>) -> String {
    let run = analysis.run;
    let mut out = format!(
        "# {}\n\n{}\n\n",
        esc(&run.study.title),
        esc(&run.study.question)
    );
    let took = duration(run.finished_unix_ms.saturating_sub(run.started_unix_ms));
    out += &format!(
        "Measured {} in {took}. {VIRTUAL}\n\n",
        utc(run.started_unix_ms)
    );
    answer(&mut out, analysis);
    cells(&mut out, analysis);
    comparisons(&mut out, analysis);
    published(&mut out, analysis);
    list(
        &mut out,
        "How it was measured",
        run.study.method.iter().map(|text| esc(text)),
    );
    list(
        &mut out,
        "Words",
        GLOSSARY
            .iter()
            .map(|(term, meaning)| format!("**{term}**: {meaning}")),
    );
    out += "## The machine\n\n";
    let facts = host_facts(analysis)
        .into_iter()
        .map(|(what, value)| vec![what.to_owned(), value]);
    table(&mut out, &["What", "Value"], facts);
    list(
        &mut out,
        "Warnings",
        analysis.warnings.iter().map(|text| esc(text)),
    );
    list(
        &mut out,
        "Discarded samples",
        analysis.discarded.iter().map(|d| {
            esc(&format!(
                "{}, round {}: {}",
                label(&d.sample.cell),
                d.sample.round,
                d.reason
            ))
        }),
    );
    // A run of backticks in the command must not end the block.
    out += &format!(
        "## Repeat it\n\n    {}\n",
        run.env.command.replace('\n', " ")
    );
    out
}

fn answer(out: &mut String, analysis: &Analysis<'_>) {
    *out += "## The answer\n\n";
    if let Some(text) = in_short(analysis) {
        *out += &format!("**{text}**\n\n");
    }
    for answer in answers(analysis) {
        *out += &format!("### {}\n\n", answer.question);
        if !answer.note.is_empty() {
            *out += &format!("{}\n\n", answer.note);
        }
        for sentence in answer.settings.iter().flat_map(Setting::sentences) {
            *out += &format!("- {}\n", esc(&sentence));
        }
        out.push('\n');
    }
}

fn cells(out: &mut String, analysis: &Analysis<'_>) {
    *out += "## Every cell\n\n";
    let header = [
        "Network",
        "MTU",
        "Status",
        "Path proof",
        "Goodput Gbit/s",
        "CPU %/Gbit/s",
        "CPU % sender",
        "CPU % receiver",
        "Underlay kpps",
        "Bytes/packet",
        "Retransmits",
        "Samples",
    ];
    for &group in &analysis.groups {
        *out += &format!("### {}\n\n", group_title(group));
        table(out, &header, analysis.in_group(group).map(cell));
    }
}

fn cell(figures: &CellFigures<'_>) -> Vec<String> {
    let cell = figures.cell;
    let (word, reason) = status(&cell.status);
    let status = reason.map_or_else(|| word.to_owned(), |reason| format!("{word}: {reason}"));
    let proof = match (cell.path_proof, figures.is_ok()) {
        (true, _) => "✓",
        (false, true) => "✗",
        (false, false) => NONE,
    };
    let mut row = vec![
        cell.key.backend.to_string(),
        cell.key.mtu.to_string(),
        status,
        proof.to_owned(),
    ];
    for metric in Metric::COLUMNS {
        let summary = figures.get(metric);
        let text = format!("{} {}", mean(metric, summary), interval(metric, summary));
        row.push(text.trim_end().to_owned());
    }
    row.push(figures.samples().to_string());
    row
}

fn comparisons(out: &mut String, analysis: &Analysis<'_>) {
    *out += "## Every comparison\n\nMedian ratio, 95 % interval, verdict for the network named first.\n\n";
    let header = ["Network", "against", "Goodput", "CPU %/Gbit/s", "Samples"];
    let row = |c: &Compared, a: String| {
        let result = |metric| verdict(analysis.comparison(c.a, c.b, metric).map(|f| &f.result));
        let [goodput, cpu] = Metric::COMPARED.map(result);
        vec![a, other_setting(c.axis, c.b), goodput, cpu, method(c)]
    };
    for &group in &analysis.groups {
        let keep = |c: &&Compared| c.axis == Axis::Backend && c.a.group() == group;
        let rows = pairs(analysis.comparisons.iter().filter(keep));
        if !rows.is_empty() {
            *out += &format!("### {}\n\n", group_title(group));
            table(
                out,
                &header,
                rows.into_iter().map(|c| row(c, c.a.backend.to_string())),
            );
        }
    }
    let rows = pairs(
        analysis
            .comparisons
            .iter()
            .filter(|c| c.axis != Axis::Backend),
    );
    if !rows.is_empty() {
        *out += "### The same network under another setting\n\n";
        table(out, &header, rows.into_iter().map(|c| row(c, label(&c.a))));
    }
}

fn verdict(result: Option<&Comparison>) -> String {
    result.and_then(|r| Some((r, r.ratio?))).map_or_else(
        || NONE.to_owned(),
        |(r, value)| {
            let (interval, mark) = (ratio_interval(r.ci95), mark(r.verdict));
            format!("{} {interval} {mark} {}", ratio(value), r.verdict.words())
        },
    )
}

fn published(out: &mut String, analysis: &Analysis<'_>) {
    let study = &analysis.run.study;
    let shapes: Vec<_> = shapes(analysis)
        .into_iter()
        .filter(|s| !s.ours.is_empty())
        .collect();
    if shapes.is_empty() {
        return;
    }
    let source = &study.source;
    *out += &format!(
        "## Beside the published study\n\n{} ({}, {}), <{}>. Other hardware: only ratios compare.\n\n",
        esc(&source.title),
        esc(&source.publisher),
        esc(&source.date),
        source.url.replace(['<', '>', '\n'], "")
    );
    let rows = shapes.into_iter().map(|shape| {
        let ours = |offload| {
            let one = |o: &super::published::Ours| {
                let value = o.result.ratio.map_or_else(|| NONE.to_owned(), ratio);
                format!("{value} {} {}", ratio_interval(o.result.ci95), o.label)
            };
            let all = shape.ours.iter().filter(|o| o.offload == offload).map(one);
            all.collect::<Vec<_>>().join("; ")
        };
        vec![
            shape.title.clone(),
            ratio(shape.published),
            ours(false),
            ours(true),
        ]
    });
    table(
        out,
        &[
            "Shape",
            "Published",
            "Ours, offload off",
            "Ours, offload on",
        ],
        rows,
    );
    for finding in &study.published.findings {
        *out += &format!("- {}\n", esc(finding));
    }
    out.push('\n');
}

fn list(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.map(|item| format!("- {item}\n")).collect();
    let body = if items.is_empty() {
        "None.\n".to_owned()
    } else {
        items.concat()
    };
    *out += &format!("## {title}\n\n{body}\n");
}

fn table(out: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    *out += &format!(
        "| {} |\n|{}\n",
        header.join(" | "),
        "---|".repeat(header.len())
    );
    for row in rows {
        let fields: Vec<String> = row.iter().map(|field| esc(field)).collect();
        *out += &format!("| {} |\n", fields.join(" | "));
    }
    out.push('\n');
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
