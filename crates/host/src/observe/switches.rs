//! `show switches`: the logical switches with a port on this host, and those that a router joins with one.

use overlane_model::SwitchTable;
use serde::Serialize;

use super::look::OnUnderlay;
use crate::HostError;
use crate::state::State;

/// `show switches`.
#[derive(Debug, Clone, Serialize)]
pub struct Switches {
    /// The host.
    pub host: String,
    /// Its logical switches, by name.
    pub switches: Vec<SwitchRow>,
}

/// One logical switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchRow {
    /// Its name.
    pub switch: String,
    /// What tells it apart on the underlay.
    #[serde(flatten)]
    pub on_underlay: OnUnderlay,
    /// Its ports on this host, by name.
    pub ports: Vec<String>,
    /// Unicast to unknown MACs is flooded, not dropped.
    pub flood_unknown: bool,
    /// VLAN tags of guests are carried, not refused.
    pub vlan_transparent: bool,
    /// The sender of a packet that is too large is told so.
    pub path_mtu_discovery: bool,
    /// The MSS of TCP that crosses the underlay is lowered to what fits.
    pub mss_clamp: bool,
    /// Seconds a MAC learned from another host is remembered; none: nothing is learned.
    pub learn_age_s: Option<u32>,
}

/// Looks at the logical switches of `host`.
pub fn switches(host: &str) -> Result<Switches, HostError> {
    let state = State::applied(host)?;
    let row = |switch: &SwitchTable| {
        let ports = state.tables.ports.iter();
        let ports = ports.filter(|port| port.switch == switch.id);
        SwitchRow {
            switch: switch.name.to_string(),
            on_underlay: OnUnderlay::of(switch.id.number()),
            ports: ports.map(|port| port.name.to_string()).collect(),
            flood_unknown: switch.flood_unknown,
            vlan_transparent: switch.vlan_transparent,
            path_mtu_discovery: switch.path_mtu_discovery,
            mss_clamp: switch.mss_clamp,
            learn_age_s: switch.learn_age_s,
        }
    };
    Ok(Switches {
        host: host.to_owned(),
        switches: state.tables.switches.iter().map(row).collect(),
    })
}
