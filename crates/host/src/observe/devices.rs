//! What the devices lost that packets are handed to: the data path has counted these as sent.

use std::collections::BTreeSet;

use serde::Serialize;

use overlane_ebpf::Program;
use overlane_ebpf::devices::held;
use overlane_model::{DeviceName, Tables};
use overlane_net::{Link, Netlink};

use super::look::{in_namespace, maps};
use super::states::{OtherDevice, device_states, others};
use crate::HostError;
use crate::kinds::{inside, own_devices};
use crate::state::{DeviceState, Lost, State};

/// What the devices of a host lost.
#[derive(Debug, Clone, Serialize)]
pub struct Devices {
    /// The host.
    pub host: String,
    /// Those of the fabric, then those that `apply` made.
    pub devices: Vec<DeviceRow>,
    /// The host's uplink, and the legs of gateways, also those that are gone.
    pub others: Vec<OtherDevice>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    /// Its name.
    pub device: String,
    /// `port`, `uplink`, `leg`, or `helper`: a device of ours.
    pub used_as: &'static str,
    /// Since `apply` found it, or made it.
    #[serde(flatten)]
    pub lost: Lost,
    /// Largest packet that it takes.
    pub mtu: u32,
    /// The same when `apply` looked; none of a device of ours.
    pub mtu_at_apply: Option<u32>,
}

impl DeviceRow {
    /// Somebody lowered the MTU, and the data path goes on with the one that `apply` saw.
    pub fn has_lower_mtu(&self) -> bool {
        self.mtu_at_apply.is_some_and(|before| self.mtu < before)
    }

    /// Somebody raised the MTU of an uplink or a leg, by which the data path reckons; it does not reckon by a port's.
    pub fn has_raised_mtu(&self) -> bool {
        let is_reckoned = matches!(self.used_as, "uplink" | "leg");
        is_reckoned && self.mtu_at_apply.is_some_and(|before| self.mtu > before)
    }
}

/// Looks at the devices of `host`; those that are gone are left out.
pub fn devices(host: &str) -> Result<Devices, HostError> {
    let state = State::applied(host)?;
    let look = |netlink: &Netlink| {
        let states = device_states(&state, &netlink.links()?)?;
        Ok((rows(&state, netlink)?, states))
    };
    let (devices, states) = in_namespace(&state, look)?.unwrap_or_default();
    Ok(Devices {
        host: host.to_owned(),
        devices,
        others: others(&state, &states),
    })
}

/// The devices that a host should have, and lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Since `apply` they were deleted, made anew, or moved into another namespace.
    pub gone: BTreeSet<DeviceName>,
    /// `apply` did not find them.
    pub missing: BTreeSet<DeviceName>,
}

/// Which devices of `tables` their host lacks on this machine.
pub fn lacking(tables: &Tables) -> Result<Lacking, HostError> {
    let state = State::applied(tables.host.as_str())?;
    // A host of that name in another fabric says nothing of this one.
    if state.tables.vtep != tables.vtep {
        return Ok(Lacking::default());
    }
    let look = |netlink: &Netlink| {
        let held = match maps(&state) {
            // Of another build: the devices say what they can.
            Err(HostError::OtherVersion(_)) => None,
            other => Some(held(&other?)?),
        };
        Ok((netlink.links()?, held))
    };
    let (links, held) = in_namespace(&state, look)?.unwrap_or_default();
    let is_there = |before: &DeviceState| {
        let index = before.ifindex;
        let is_held = held.as_ref().is_none_or(|held| held.contains(&index));
        is_held && links.iter().any(|link| link.index == index)
    };
    let elsewhere = tables.devices_elsewhere();
    let mut lacking = Lacking::default();
    let ports = tables.ports.iter().map(|port| &port.attachment.device);
    let legs = tables.legs().map(|(_, leg)| leg);
    for device in ports.chain(legs).chain([&tables.uplink]) {
        let name = device.as_str();
        match state.devices.get(name) {
            Some(before) if is_there(before) => {}
            Some(_) => _ = lacking.gone.insert(device.clone()),
            None if state.missing.iter().any(|it| it == name) => {
                _ = lacking.missing.insert(device.clone())
            }
            // The file is newer than what is applied. A device that another namespace has is found by `apply`.
            None if elsewhere.contains_key(device) || links.iter().any(|it| it.name == name) => {}
            None => _ = lacking.missing.insert(device.clone()),
        }
    }
    Ok(lacking)
}

/// From a thread in the host's namespace.
pub(super) fn rows(state: &State, netlink: &Netlink) -> Result<Vec<DeviceRow>, HostError> {
    let links = netlink.links()?;
    let hooks = state.hooks();
    let of_fabric = hooks.iter().filter_map(|(program, name)| {
        let link = links.iter().find(|link| link.name == *name)?;
        Some(fabric_row(state, *program, link))
    });
    let mut rows: Vec<_> = of_fabric.collect();
    let mut ours: Vec<Link> = own_devices::find(&links).into_values().collect();
    ours.extend(inside::inside(&state.host)?);
    rows.extend(ours.iter().map(|link| DeviceRow {
        device: link.name.clone(),
        used_as: "helper",
        lost: link.stats.into(),
        mtu: link.mtu,
        mtu_at_apply: None,
    }));
    Ok(rows)
}

fn fabric_row(state: &State, program: Program, link: &Link) -> DeviceRow {
    let at_apply = state.devices.get(&link.name);
    let at_apply = at_apply.filter(|before| before.ifindex == link.index);
    let earlier = at_apply.map(|before| before.lost).unwrap_or_default();
    DeviceRow {
        device: link.name.clone(),
        used_as: match program {
            Program::FromPort => "port",
            Program::FromLeg => "leg",
            _ => "uplink",
        },
        lost: Lost::from(link.stats).since(earlier),
        mtu: link.mtu,
        mtu_at_apply: at_apply.map(|before| before.mtu),
    }
}
