//! What the live view says of machines on their way: what moves where, and over what.

use overlane_analysis::record::{CellKey, Moving};

use super::super::shown::{counted, machines};

/// The way of a round, and what moves.
pub(super) fn heading(cell: &CellKey, moving: &Moving, round: u32) -> [String; 2] {
    let way = if round % 2 == 1 { "back" } else { "there" };
    let mtu = cell.group.setting.mtu_class.link_mtu();
    let (what, how) = machines(&cell.group, moving);
    [format!("{way}: {what}"), format!("MTU {mtu}, {how}")]
}

/// `MTU 9000, 2 links`: what parts the cells of one network.
pub(super) fn place(cell: &CellKey) -> String {
    let setting = &cell.group.setting;
    let offload = if setting.offload { "" } else { ", offload off" };
    match cell.group.workload.migration {
        Some(moving) => format!(
            "{}, {}{offload}",
            setting.mtu_class.link_mtu(),
            counted(moving.links, "link")
        ),
        None => format!("{}{offload}", cell.mtu()),
    }
}
