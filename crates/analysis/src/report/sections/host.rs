//! The end of the report: the method, the machine, and the command that repeats the run.

use std::collections::BTreeMap;

use crate::record::GuestKind;
use crate::study::Repeat;

use crate::report::block::{Block, Field, Line, Row, Span, Table};
use crate::report::glossary::{
    GLOSSARY, MOVING_MACHINES, MOVING_WORDS, VIRTUAL, VIRTUAL_MACHINES, describe,
};
use crate::report::numbers::{duration, short, utc};
use crate::report::page::Report;

/// How it was measured, and the words of the page.
pub(in crate::report) fn method(r: &Report<'_>) -> Vec<Block> {
    let matrix = r.analysis.run.matrix();
    let mut lines: Vec<Line> = r.analysis.run.study.method.iter().map(Line::of).collect();
    lines.push(Line::of(format!(
        "{} samples per cell; {}.",
        matrix.samples,
        rule(matrix.repeat)
    )));
    let kinds = |kind| {
        r.analysis
            .groups
            .iter()
            .any(|group| group.setting.guests == kind)
    };
    let (has_vms, moves) = (kinds(GuestKind::Tap), kinds(GuestKind::Qemu));
    let of_moving = MOVING_WORDS.into_iter().filter(|_| moves);
    let words = GLOSSARY.into_iter().chain(of_moving);
    let words = words.map(|(term, meaning)| (Line::of(term), meaning.to_owned()));
    let networks = r.analysis.backends().map(|backend| {
        let name = Line(vec![Span::Key(backend)]).text(backend.to_string());
        (name, describe(backend).to_owned())
    });
    let mut out = vec![Block::text(when(r)), Block::Note(VIRTUAL.to_owned())];
    out.extend(has_vms.then(|| Block::Note(VIRTUAL_MACHINES.to_owned())));
    out.extend(moves.then(|| Block::Note(MOVING_MACHINES.to_owned())));
    out.extend([
        Block::List(lines),
        Block::Heading("The networks compared here".to_owned()),
        Block::Terms(networks.collect()),
        Block::Heading("The words of this page".to_owned()),
        Block::Terms(words.collect()),
    ]);
    out
}

/// When, where and how much was measured.
fn when(r: &Report<'_>) -> String {
    let run = r.analysis.run;
    let matrix = run.matrix();
    let words = if run.quick {
        "Quick matrix"
    } else {
        "Whole matrix"
    };
    let broken = if run.interrupted { ", interrupted" } else { "" };
    let took = duration(run.finished_unix_ms.saturating_sub(run.started_unix_ms));
    format!(
        "Measured {} in {took} on {} ({} CPUs), Linux {}. {words}{broken}: {} samples of {} s per cell, networks taken in turn.",
        utc(run.started_unix_ms),
        run.env.cpu_model,
        run.env.cpus,
        run.env.kernel.split_whitespace().next().unwrap_or_default(),
        matrix.samples,
        matrix.seconds,
    )
}

fn rule(repeat: Option<Repeat>) -> String {
    match repeat {
        None => "no rule asks for more".to_owned(),
        Some(Repeat::Within {
            set,
            percent,
            attempts,
        }) => format!(
            "study B’s rule asks for sets of {set} until one has a standard deviation within {percent} % of its mean, {attempts} sets at most"
        ),
        Some(Repeat::Confidence {
            width_percent,
            most,
        }) => format!(
            "netperf’s rule asks for more until the 95 % interval is no wider than {width_percent} % of the mean, {most} samples at most"
        ),
    }
}

/// The machine and its settings.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let env = &r.analysis.run.env;
    let mut out = vec![Block::Table(pairs("Host record", facts(r)))];
    for (title, map) in [
        ("Programs", &env.tools),
        ("Kernel settings (sysctl)", &env.sysctl),
        ("CPU mitigations", &env.mitigations),
    ] {
        out.extend(folded_map(title, map));
    }
    out.extend(hops(r));
    out
}

fn folded_map(title: &str, map: &BTreeMap<String, String>) -> Option<Block> {
    let facts = map
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    (!map.is_empty())
        .then(|| Block::Folded(title.to_owned(), vec![Block::Table(pairs(title, facts))]))
}

fn pairs(caption: &str, facts: Vec<(String, String)>) -> Table {
    let rows = facts
        .into_iter()
        .map(|(what, value)| Row::of([Field::text(what), Field::wide(value)]));
    Table::new(caption, &["What", "Value"]).with(rows)
}

fn facts(r: &Report<'_>) -> Vec<(String, String)> {
    let env = &r.analysis.run.env;
    let yes_no = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
    let mut facts = vec![
        ("CPU", format!("{} × {}", env.cpus, env.cpu_model)),
        ("Memory", format!("{} MiB", env.memory_mib)),
        ("Virtual machine", yes_no(env.virtualised)),
        ("Kernel", env.kernel.clone()),
        ("Kernel command line", env.cmdline.clone()),
        ("Distribution", env.os.clone()),
        ("Frequency governor", known(&env.governor)),
        ("Hyper-threading", known(&env.smt)),
        ("CPU accounting", env.cpu_accounting.clone()),
        ("CPUs of the first virtual host", numbers(&env.host1_cpus)),
        ("CPUs of the other virtual hosts", numbers(&env.host2_cpus)),
        ("Hosts share a CPU", yes_no(env.shared_cpus)),
        ("Overlane", env.overlane_version.clone()),
    ];
    for probe in &env.noise {
        let [median, spread, worst] =
            [probe.median_us, probe.spread_percent, probe.worst_percent].map(short);
        let text = format!(
            "CPU {}: a fixed piece of work took {median} µs, 90th percentile +{spread} %, slowest +{worst} %",
            probe.cpu
        );
        let when = if probe.when == "before" {
            "Steadiness before"
        } else {
            "Steadiness after"
        };
        facts.push((when, text));
    }
    facts
        .into_iter()
        .map(|(what, value)| (what.to_owned(), value))
        .collect()
}

fn numbers(cpus: &[usize]) -> String {
    cpus.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn hops(r: &Report<'_>) -> Option<Block> {
    let hops = &r.analysis.run.env.hops;
    let columns = [
        "Topology",
        "Place",
        "Device",
        "#MTU",
        "RPS CPUs",
        "Features on",
        "Features off",
        "Pause",
    ];
    let rows = hops.iter().map(|hop| {
        let with = |on: bool| {
            let names = hop
                .features
                .iter()
                .filter(|&(_, &v)| v == on)
                .map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>().join(" ")
        };
        Row::of([
            Field::text(&hop.topology),
            Field::text(&hop.place),
            Field::text(&hop.device),
            Field::count(hop.mtu.into()),
            Field::text(numbers(&hop.rps_cpus)),
            Field::wide(with(true)),
            Field::wide(with(false)),
            Field::text(hop.pause.as_deref().unwrap_or("–")),
        ])
    });
    (!hops.is_empty()).then(|| {
        let table =
            Table::new("Devices on every path, in the order of the path", &columns).with(rows);
        Block::Folded(
            "Devices on every path and their settings".to_owned(),
            vec![Block::Table(table)],
        )
    })
}

/// The command that repeats the run, and where the rest lies.
pub(in crate::report) fn repeat(r: &Report<'_>) -> Vec<Block> {
    vec![
        Block::Code(r.analysis.run.env.command.clone()),
        Block::Hint(
            "Beside this page: result.json (all figures), samples.ndjson (every sample), cells.csv, env.json, report.md.".to_owned(),
        ),
    ]
}
