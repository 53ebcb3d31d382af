//! What a study shows besides the tables and charts that every report has: one file a view.

mod cpu_steps;
mod difference;
mod frame_table;
mod guest_cpu;
mod loss_curve;
mod migrations;
mod packet_rate;
mod vnis;

use crate::study::View;

use crate::report::block::{Block, Section};
use crate::report::page::{Report, section};

/// The sections of the study's views, in its order; two views of a kind share one.
pub(in crate::report) fn sections(r: &Report<'_>) -> Vec<Section> {
    let mut out: Vec<Section> = Vec::new();
    for view in r.views() {
        let (id, title, blocks) = one(r, view);
        match out.iter_mut().find(|section| section.id == id) {
            Some(section) => section.blocks.extend(blocks),
            None => out.push(section(id, title, blocks)),
        }
    }
    out
}

fn one(r: &Report<'_>, view: &View) -> (&'static str, &'static str, Vec<Block>) {
    match view {
        View::PacketRate => (
            "packet-rate",
            "Packet rate over time",
            packet_rate::blocks(r),
        ),
        View::Difference { pairs } => (
            "difference",
            "Differences, scenario by scenario",
            difference::blocks(r, pairs),
        ),
        View::Migrations => ("migrations", "Machines that moved", migrations::blocks(r)),
        View::GuestCpu => ("guest-cpu", "Host CPU and guest CPU", guest_cpu::blocks(r)),
        View::CpuSteps {
            baseline,
            steps,
            features,
            at_gbps,
            cores,
        } => {
            let scale = cpu_steps::Scale {
                at_gbps: *at_gbps,
                cores: *cores,
            };
            (
                "cpu-steps",
                "What a step costs in CPU, in six lines",
                cpu_steps::blocks(r, baseline, steps, features, scale),
            )
        }
        View::FrameTable { pairs } => (
            "frame-table",
            "The draft’s table: model A beside model B",
            frame_table::blocks(r, pairs),
        ),
        View::Vnis => ("vnis", "Cost by the number of VNIs", vnis::blocks(r)),
    }
}
