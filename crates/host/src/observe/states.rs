//! Whether packets flow at each device of the fabric.

use std::collections::BTreeMap;

use overlane_ebpf::Program;
use overlane_ebpf::devices::held;
use overlane_net::Link;
use serde::Serialize;

use super::look::maps;
use crate::HostError;
use crate::kinds::hooks;
use crate::lib::error::UsedAs;
use crate::lib::paths;
use crate::state::State;

/// Whether packets flow at each device of the fabric, by its name.
pub(super) type DeviceStates = BTreeMap<String, PortState>;

/// A device that is no port's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherDevice {
    /// Its name.
    pub device: String,
    /// The uplink, or a leg.
    pub used_as: UsedAs,
    /// Whether packets flow.
    pub state: PortState,
}

/// Whether packets flow at a device; what is wrong first is said first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// The program is attached to the device, which is up.
    Ok,
    /// There is no such device in the namespace.
    Missing,
    /// The device is there without the program, or has been away from the namespace since `apply`.
    Detached,
    /// Somebody took the device down.
    Down,
    /// The device is up, and its other end is not.
    NoCarrier,
}

/// Whether packets flow at each device. What the kernel has at its hook counts: a pin may be there without its link,
/// and a link without its pin.
pub(super) fn device_states(state: &State, devices: &[Link]) -> Result<DeviceStates, HostError> {
    let links = hooks::links(&state.host)?;
    let held = match maps(state) {
        // Of another build: the links say what they can.
        Err(HostError::OtherVersion(_)) => None,
        other => Some(held(&other?)?),
    };
    let is_held = |link: &Link| held.as_ref().is_none_or(|held| held.contains(&link.index));
    let mut states = DeviceStates::new();
    for (program, name) in state.hooks() {
        let own = links.get(&paths::link(program, &name)).copied().flatten();
        let is_at = match devices.iter().find(|link| link.name == name) {
            None => PortState::Missing,
            Some(link) if !is_held(link) => PortState::Detached,
            Some(link) if !hooks::is_at(&name, link.index, own)? => PortState::Detached,
            Some(link) if !link.up => PortState::Down,
            Some(link) if !link.carrier => PortState::NoCarrier,
            Some(_) => PortState::Ok,
        };
        states.insert(name, is_at);
    }
    Ok(states)
}

/// Nothing is known of the devices of a namespace that is gone, and they are gone too.
pub(super) fn state_at(states: &DeviceStates, device: &str) -> PortState {
    states.get(device).copied().unwrap_or(PortState::Missing)
}

/// The uplink and the legs.
pub(super) fn others(state: &State, states: &DeviceStates) -> Vec<OtherDevice> {
    let other = |(program, device): (Program, String)| {
        let used_as = match program {
            Program::FromPort => return None,
            Program::FromLeg => UsedAs::Leg,
            _ => UsedAs::Uplink,
        };
        let state = state_at(states, &device);
        Some(OtherDevice {
            device,
            used_as,
            state,
        })
    };
    state.hooks().into_iter().filter_map(other).collect()
}
