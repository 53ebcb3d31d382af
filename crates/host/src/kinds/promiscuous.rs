//! Promiscuous mode of the uplink. A switch on a VLAN brings frames to the guests' MACs, which the network card would
//! refuse; and cards that sort by VLAN take every VLAN in that mode.

use super::switch::Switch;
use super::target::Spot;
use crate::report::Object;

/// The kind.
pub(super) const PROMISCUOUS: Switch = Switch {
    word: "promiscuous",
    object: Object::Promiscuous,
    wanted: |target| {
        let mut switches = target.tables.switches.iter();
        let on_vlan = switches.any(|switch| switch.id.vlan().is_some());
        let uplink = on_vlan.then(|| Spot::on(&target.tables.uplink));
        uplink.into_iter().collect()
    },
    is_on: |netlink, spot| Ok(netlink.link(&spot.device)?.promiscuous),
    set: |netlink, spot, on| netlink.set_promiscuous(&spot.device, on),
    without: None,
};
