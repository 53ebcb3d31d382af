//! What all observations share: the state, the maps and the namespace of a host, and names of its things.

use std::fmt;
use std::net::IpAddr;

use overlane_ebpf::DataPath;
use overlane_ebpf::abi::Counter;
use overlane_ebpf::maps::MapSet;
use overlane_model::{SwitchId, VlanId};
use overlane_net::Netlink;
use overlane_wire::Vni;
use serde::Serialize;

use crate::HostError;
use crate::lib::{files, paths};
use crate::state::State;

/// Counters of one hook, port or remote. Packets are what crossed the hook, segments what they are on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Socket buffers.
    pub packets: u64,
    /// On-wire segments.
    pub segments: u64,
    /// Bytes of the inner frames.
    pub bytes: u64,
}

/// What tells a logical switch apart on the underlay: one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OnUnderlay {
    /// Its VNI, in tunnels.
    pub vni: Option<u32>,
    /// Its VLAN on the uplink.
    pub uplink_vlan: Option<u16>,
}

impl OnUnderlay {
    /// Of the number that the maps use.
    pub(crate) fn of(switch_id: u32) -> Self {
        let id = SwitchId::from_number(switch_id);
        Self {
            vni: id.and_then(SwitchId::vni).map(Vni::get),
            uplink_vlan: id.and_then(SwitchId::vlan).map(VlanId::get),
        }
    }
}

impl fmt::Display for OnUnderlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.vni, self.uplink_vlan) {
            (Some(vni), _) => write!(f, "VNI {vni}"),
            (None, Some(vlan)) => write!(f, "VLAN {vlan}"),
            (None, None) => f.pad("-"),
        }
    }
}

impl From<Counter> for Count {
    fn from(counter: Counter) -> Self {
        Self {
            packets: counter.packets,
            segments: counter.segments,
            bytes: counter.bytes,
        }
    }
}

/// True when the last `apply` of `host` did not come to its end: `show` should say so.
pub fn interrupted(host: &str) -> Result<bool, HostError> {
    Ok(State::applied(host)?.in_progress)
}

/// The pinned maps, if this build can read them.
pub(crate) fn maps(state: &State) -> Result<MapSet, HostError> {
    let data_path = DataPath::embedded()?;
    let other_version = || HostError::OtherVersion(state.host.clone());
    let folder = paths::map_set(&state.host, &state.map_signature);
    if state.map_signature != data_path.signature() {
        return Err(other_version());
    }
    files::check_pins(&state.host)?;
    MapSet::open(&folder, data_path.layouts())?.ok_or_else(other_version)
}

/// Looks at the host's namespace; none when it is gone.
pub(crate) fn in_namespace<T: Send>(
    state: &State,
    look: impl FnOnce(&Netlink) -> Result<T, HostError> + Send,
) -> Result<Option<T>, HostError> {
    let Some(netns) = state.namespace()? else {
        return Ok(None);
    };
    netns.run(|| look(&Netlink::new()?))?.map(Some)
}

pub(super) fn switch_name(state: &State, id: u32) -> Option<String> {
    state.switch(id).map(|switch| switch.name.to_string())
}

pub(super) fn router_name(state: &State, id: u32) -> Option<String> {
    state.router(id).map(|router| router.name.to_string())
}

pub(super) fn remote_name(state: &State, address: IpAddr) -> Option<String> {
    let mut remotes = state.tables.remotes.iter();
    let remote = remotes.find(|remote| remote.addr == address);
    remote.map(|remote| remote.name.to_string())
}
