//! Promiscuous mode of the uplink. A switch on a VLAN brings frames to the guests' MACs, which the network card would
//! refuse; and cards that sort by VLAN take every VLAN in that mode.

use super::switch::{Form, Switch};
use super::target::{NO_DEVICE, Spot};
use crate::report::Object;

/// The kind.
pub(super) const PROMISCUOUS: Switch = Switch {
    word: "promiscuous",
    object: Object::Promiscuous,
    purpose: Some("for switches on a VLAN"),
    wanted: |target| {
        let mut switches = target.tables.switches.iter();
        let on_vlan = switches.any(|switch| switch.id.vlan().is_some());
        let is_there = target.resolved.devices.uplink_ifindex != NO_DEVICE;
        let uplink = (on_vlan && is_there).then(|| Spot::on(&target.tables.uplink));
        uplink.into_iter().collect()
    },
    form: Form::Mode {
        is_on: |netlink, device| Ok(netlink.link(device)?.promiscuous),
        set: |netlink, device, on| netlink.set_promiscuous(device, on),
    },
};
