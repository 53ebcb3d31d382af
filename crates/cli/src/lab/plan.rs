//! `overlane lab plan`: the cells of a study and how long they take, without measuring anything.

use std::time::Duration;

use overlane_analysis::plan::{PlanBlock, PlanCell, PlanSummary};
use overlane_analysis::record::{CellKey, Feature, MtuClass, Setting};
use overlane_analysis::study::Study;

use crate::args::LabPlan;
use crate::failure::Failure;
use crate::output::{Output, text};

use super::shown::minutes;

pub(super) fn run(args: &LabPlan, output: Output) -> Result<(), Failure> {
    let request = super::request(&args.matrix);
    let mut study = Study::load(&request.study)?;
    study.change(&request.overrides)?;
    let plan = PlanSummary::of(&study, request.quick);
    if args.json {
        output.json(&plan)?;
    } else {
        show(&plan, output)?;
    }
    Ok(())
}

fn show(plan: &PlanSummary, output: Output) -> std::io::Result<()> {
    output.line(format!("{}\n", plan.title))?;
    for block in &plan.blocks {
        show_block(block, output)?;
        output.line("")?;
    }
    let expected = minutes(Duration::from_secs_f64(plan.expected_seconds));
    let most = minutes(Duration::from_secs_f64(plan.at_most_seconds));
    output.line(format!(
        "{} cells on {} networks, {} samples {}: about {expected}{}",
        plan.cells,
        plan.networks,
        plan.samples_in_all,
        length(plan),
        if most == expected {
            String::new()
        } else {
            format!(", at most {most} where the study's rule asks for more samples")
        }
    ))
}

/// How long a sample is: a machine on its way takes as long as it takes.
fn length(plan: &PlanSummary) -> String {
    let cells = || plan.blocks.iter().flat_map(|block| &block.cells);
    let moves = |cell: &PlanCell| cell.key.group.workload.migration.is_some();
    let window = format!("of {} s (warm-up {} s)", plan.seconds, plan.warm_up_seconds);
    match (cells().any(moves), cells().all(moves)) {
        (true, true) => "as long as the machines take".to_owned(),
        (true, false) => format!("{window}, or as long as machines take to move"),
        (false, _) => window,
    }
}

/// Of the guests, or of the cables that machines move over.
fn mtu(cell: &PlanCell) -> u32 {
    match cell.key.group.workload.migration {
        Some(_) => cell.key.group.setting.mtu_class.link_mtu(),
        None => cell.mtu,
    }
}

fn show_block(block: &PlanBlock, output: Output) -> std::io::Result<()> {
    let mut rows = output.table(&["WORKLOAD", "NETWORK", "#MTU", "#SAMPLES", "#TIME"]);
    let mut workload = String::new();
    for cell in &block.cells {
        let name = cell.key.group.workload.to_string();
        let shown = if name == workload { "" } else { name.as_str() };
        rows.push(vec![
            text(shown),
            text(network(block, &cell.key)),
            text(mtu(cell)),
            text(cell.samples),
            text(minutes(Duration::from_secs_f64(cell.expected_seconds))),
        ]);
        workload = name;
    }
    let heading = format!(
        "{}: {} networks, {} of which {} to build them",
        block.setting,
        block.networks,
        minutes(Duration::from_secs_f64(block.expected_seconds)),
        minutes(Duration::from_secs_f64(block.overhead_seconds)),
    );
    output.section(&heading, &rows, "no cells")
}

/// The network of a cell, with its setting where the block has several.
fn network(block: &PlanBlock, key: &CellKey) -> String {
    // What it does stands in its name.
    let setting = |key: &CellKey| Setting {
        feature: Feature::default(),
        ..key.group.setting
    };
    let place = |key: &CellKey| Setting {
        mtu_class: MtuClass::default(),
        ..setting(key)
    };
    let mut cells = block.cells.iter();
    if cells.all(|cell| place(&cell.key) == place(key)) {
        return key.network_in_full();
    }
    format!("{}: {}", key.network_in_full(), setting(key))
}
