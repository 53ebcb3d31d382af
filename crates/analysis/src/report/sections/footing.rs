//! On what footing the networks stand: how each was set, what could not be set alike, and whose doing that is.

use std::collections::BTreeMap;

use crate::record::{Asymmetry, Cause, footing};
use crate::report::block::{Block, Field, Line, Row, Table};
use crate::report::page::Report;

/// What the reader has to know at once, and the settings of all devices, folded.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let hops = &r.analysis.run.env.hops;
    let mut out: Vec<Block> = asymmetries(r).into_iter().collect();
    if hops.is_empty() {
        return out;
    }
    let mut folded = Vec::new();
    let unlike = footing::unlike(hops);
    if unlike.is_empty() {
        let alike = "The laboratory’s own devices are set alike on all networks of a setting.";
        folded.push(Block::Text(Line::of(alike)));
    } else {
        folded.push(Block::Text(Line::of(
            "What is not set alike on the laboratory’s own devices:",
        )));
        folded.push(Block::List(unlike.into_iter().map(Line::of).collect()));
    }
    folded.push(Block::Table(settings(r)));
    out.push(Block::Folded("How each network was set".to_owned(), folded));
    out
}

/// Where networks stand on another footing than others.
fn asymmetries(r: &Report<'_>) -> Option<Block> {
    let mut networks: BTreeMap<Asymmetry, Vec<String>> = BTreeMap::new();
    for figures in &r.analysis.cells {
        for asymmetry in &figures.cell.asymmetries {
            let names = networks.entry(*asymmetry).or_default();
            let name = figures.cell.key.network();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let rows = networks.iter().map(|(asymmetry, names)| {
        Row::of([
            Field::text(names.join(", ")),
            Field::wide(asymmetry.words()),
            Field::text(whose(asymmetry.cause())),
        ])
    });
    let columns = ["Networks", "What is unequal", "Whose doing"];
    (!networks.is_empty()).then(|| Block::Table(Table::new("Unequal footing", &columns).with(rows)))
}

const fn whose(cause: Cause) -> &'static str {
    match cause {
        Cause::Kernel => "the kernel’s: no verdict",
        Cause::Laboratory => "the laboratory’s: no verdict",
        Cause::Network => "its own: part of the figure",
    }
}

/// Every device, those of one network that are set alike in one row.
fn settings(r: &Report<'_>) -> Table {
    let columns = [
        "Network and setting",
        "Devices",
        "Made by",
        "GRO",
        "TSO",
        "RPS",
        "Queues",
        "Discipline",
        "#Super-packet bytes",
        "Outer checksum",
        "Learning",
        "Bridge netfilter",
    ];
    let on = |on: Option<bool>| match on {
        Some(true) => "on",
        Some(false) => "off",
        None => "–",
    };
    let rows = footing::rows(&r.analysis.run.env.hops)
        .into_iter()
        .map(|row| {
            let hop = row.hop;
            let [tx, rx] = hop.queues;
            let feature = |name: &str| on(hop.features.get(name).copied());
            Row::of([
                Field::text(row.topology),
                Field::text(row.devices.join(", ")),
                Field::text(if hop.own { "network" } else { "laboratory" }),
                Field::text(feature("rx-gro")),
                Field::text(feature("tx-tcp-segmentation")),
                Field::text(on(Some(!hop.rps_cpus.is_empty()))),
                Field::text(format!("{tx} + {rx}")),
                Field::text(&hop.qdisc),
                Field::count(hop.gso_max_size.into()),
                Field::text(on(hop.outer_checksum)),
                Field::text(on(hop.learning)),
                Field::text(on(hop.bridge_netfilter)),
            ])
        });
    Table::new("Settings as read back from the devices", &columns).with(rows)
}
