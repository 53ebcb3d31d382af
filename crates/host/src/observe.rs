//! What runs on this machine, for `overlane show`: numbers from the kernel, names from the state file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use overlane_ebpf::abi::{self, Counter};
use overlane_ebpf::devices::held;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::Table;
use overlane_ebpf::{DataPath, Program};
use overlane_model::{Hook, PortTable, Remote, SwitchId, Verdict, VlanId};
use overlane_net::{Link, Netlink};
use overlane_wire::Vni;
use serde::Serialize;
use zerocopy::FromBytes;

use crate::apply::{self, hooks};
use crate::error::UsedAs;
pub use crate::state::Lost;
use crate::state::State;
use crate::{HostError, files, paths};

mod connections;
mod devices;
mod fdb;
mod guard;
mod learned;
mod neighbours;
mod remotes;
mod routes;
mod rules;
mod switches;

#[cfg(test)]
pub(crate) use connections::tests::key as connection_key;
pub use connections::{
    ConnectionRow, ConnectionState, Connections, End, Translation, Whose, connections,
};
pub(crate) use connections::{ends, known_owner};
pub use devices::{DeviceRow, Devices, device_names, devices};
pub use fdb::{Fdb, FdbPlace, FdbRow, fdb};
pub use guard::{Guard, GuardRow, GuardState};
pub use learned::{Learned, LearnedRow, LearningPort, learned};
pub use neighbours::{NeighbourRow, NeighbourState, Neighbours, neighbours};
pub(crate) use remotes::PATH_MTU_SECONDS;
pub use remotes::{PathMtuRow, RemoteRow, Remotes, remotes};
pub use routes::{NextHopRow, RouteRow, RouterRow, Routes, WayRow, routes};
pub use rules::{RuleRow, Rules, rules};
pub use switches::{SwitchRow, Switches, switches};

/// Whether packets flow at each device of the fabric, by its name.
type DeviceStates = BTreeMap<String, PortState>;

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

/// `show counters`.
#[derive(Debug, Clone, Serialize)]
pub struct Counters {
    /// The host.
    pub host: String,
    /// All hooks × verdicts, also those that are zero (see [`Counters::without_zeros`]).
    pub verdicts: Vec<VerdictCount>,
    /// Every logical port of this host.
    pub ports: Vec<PortCount>,
    /// Every remote.
    pub remotes: Vec<RemoteCount>,
}

/// One verdict at one hook.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictCount {
    /// `from_port`, `from_underlay` or `from_segmenter`.
    pub hook: &'static str,
    /// Name of the verdict.
    pub verdict: &'static str,
    /// True when the packet ended here.
    pub drop: bool,
    /// How many.
    #[serde(flatten)]
    pub count: Count,
}

/// Counters of one logical port.
#[derive(Debug, Clone, Serialize)]
pub struct PortCount {
    /// The port's name.
    pub port: String,
    /// Its logical switch.
    pub switch: String,
    /// What tells the switch apart on the underlay.
    #[serde(flatten)]
    pub on_underlay: OnUnderlay,
    /// Came from the port.
    pub from_port: Count,
    /// Went to the port.
    pub to_port: Count,
    /// Came from the port and was dropped.
    pub dropped: Count,
    /// Of that, what its guest was not told of, because it had been told enough.
    pub untold: Count,
    /// Bytes of the longest IP packet that came from it, segments counted; 0: none came.
    pub longest: u64,
    /// Bytes of the longest segment of a super-packet, as an IP packet.
    pub longest_segment: u64,
}

/// Counters of one remote.
#[derive(Debug, Clone, Serialize)]
pub struct RemoteCount {
    /// The remote's name.
    pub remote: String,
    /// Its VTEP.
    pub address: IpAddr,
    /// Went to it.
    pub to_remote: Count,
    /// Came from it and was accepted.
    pub from_remote: Count,
    /// To or from it, and dropped.
    pub dropped: Count,
}

/// `show ports`.
#[derive(Debug, Clone, Serialize)]
pub struct Ports {
    /// The host.
    pub host: String,
    /// Its logical ports.
    pub ports: Vec<PortRow>,
    /// The host's other devices: its uplink, and the legs of gateways.
    pub others: Vec<OtherDevice>,
    /// Devices whose MTU is lower than `apply` found it.
    pub lower_mtu: Vec<LowerMtu>,
    /// What stops a port's device that is made again; none without ports, or when the namespace is gone.
    pub guard: Option<Guard>,
}

/// A device that takes less than `apply` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LowerMtu {
    /// Its name.
    pub device: String,
    /// Now.
    pub mtu: u32,
    /// When `apply` looked.
    pub mtu_at_apply: u32,
}

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

/// One logical port.
#[derive(Debug, Clone, Serialize)]
pub struct PortRow {
    /// The port's name.
    pub port: String,
    /// Its logical switch.
    pub switch: String,
    /// What tells the switch apart on the underlay.
    #[serde(flatten)]
    pub on_underlay: OnUnderlay,
    /// Logical port key.
    pub key: u16,
    /// The port's MAC.
    pub mac: String,
    /// Its device.
    pub device: String,
    /// On a trunk, its tag on the device.
    pub vlan: Option<u16>,
    /// The device's index, when it is there.
    pub ifindex: Option<u32>,
    /// How super-packets from tunnels reach it; none where the maps cannot be read.
    pub super_packets: Option<SuperPackets>,
    /// Whether packets flow.
    pub state: PortState,
}

/// How super-packets that came out of a tunnel reach a port's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SuperPackets {
    /// As they are: the device takes the tunnel's mark, or the kernel has taken it off.
    Straight,
    /// Through the unmarker, which takes the mark off.
    Unmarker,
    /// Cut into segments: there is no unmarker.
    Segments,
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

/// What tells a logical switch apart on the underlay: one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OnUnderlay {
    /// Its VNI, in tunnels.
    pub vni: Option<u32>,
    /// Its VLAN on the uplink.
    pub uplink_vlan: Option<u16>,
}

impl Counters {
    /// Only the verdicts that occurred.
    pub fn without_zeros(mut self) -> Self {
        self.verdicts
            .retain(|verdict| verdict.count != Count::default());
        self
    }
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

/// Reads the counters of `host`.
pub fn counters(host: &str) -> Result<Counters, HostError> {
    let state = state_of(host)?;
    let read = overlane_ebpf::counters::read(&maps(&state)?)?;
    let verdict = |(hook, verdict, counter): &(Hook, Verdict, Counter)| VerdictCount {
        hook: hook.name(),
        verdict: verdict.name(),
        drop: verdict.is_drop(),
        count: (*counter).into(),
    };
    let port = |port: &PortTable| {
        let switch = port.switch.number();
        let count = read.ports.get(&(switch, port.key.get().into()));
        let count = count.copied().unwrap_or_default();
        PortCount {
            port: port.name.to_string(),
            switch: switch_name(&state, switch).unwrap_or_default(),
            on_underlay: OnUnderlay::of(switch),
            from_port: count.from_port.into(),
            to_port: count.to_port.into(),
            dropped: count.dropped.into(),
            untold: count.untold.into(),
            longest: count.longest,
            longest_segment: count.longest_segment,
        }
    };
    let remote = |remote: &Remote| {
        let count = read.remotes.get(&remote.addr).copied().unwrap_or_default();
        RemoteCount {
            remote: remote.name.to_string(),
            address: remote.addr,
            to_remote: count.to_remote.into(),
            from_remote: count.from_remote.into(),
            dropped: count.dropped.into(),
        }
    };
    Ok(Counters {
        host: host.to_owned(),
        verdicts: read.verdicts.iter().map(verdict).collect(),
        ports: state.tables.ports.iter().map(port).collect(),
        remotes: state.tables.remotes.iter().map(remote).collect(),
    })
}

/// Looks at the logical ports of `host`.
pub fn ports(host: &str) -> Result<Ports, HostError> {
    let state = state_of(host)?;
    let look = |netlink: &Netlink| {
        let devices = netlink.links()?;
        let states = device_states(&state, &devices)?;
        let rows = devices::rows(&state, netlink)?;
        let lower_mtu: Vec<_> = rows.iter().filter_map(lower_mtu).collect();
        Ok((devices, states, lower_mtu, guard::look(&state)?))
    };
    let (devices, states, lower_mtu, guard) = in_namespace(&state, look)?.unwrap_or_default();
    let ways = super_packets(&state)?;
    let row = |port: &PortTable| {
        let device = port.attachment.device.as_str();
        let link = devices.iter().find(|link| link.name == device);
        let switch = port.switch.number();
        PortRow {
            port: port.name.to_string(),
            switch: switch_name(&state, switch).unwrap_or_default(),
            on_underlay: OnUnderlay::of(switch),
            key: port.key.get(),
            mac: port.mac.to_string(),
            device: device.to_owned(),
            vlan: port.attachment.vlan.map(VlanId::get),
            ifindex: link.map(|link| link.index),
            super_packets: ways.get(&(switch, port.key.get().into())).copied(),
            state: state_at(&states, device),
        }
    };
    Ok(Ports {
        host: host.to_owned(),
        ports: state.tables.ports.iter().map(row).collect(),
        others: others(&state, &states),
        lower_mtu,
        guard,
    })
}

fn lower_mtu(row: &DeviceRow) -> Option<LowerMtu> {
    row.has_lower_mtu().then_some(LowerMtu {
        device: row.device.clone(),
        mtu: row.mtu,
        mtu_at_apply: row.mtu_at_apply?,
    })
}

/// Whether packets flow at each device. What the kernel has at its hook counts: a pin may be there without its link,
/// and a link without its pin.
fn device_states(state: &State, devices: &[Link]) -> Result<DeviceStates, HostError> {
    let links = apply::links(&state.host)?;
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
fn state_at(states: &DeviceStates, device: &str) -> PortState {
    states.get(device).copied().unwrap_or(PortState::Missing)
}

/// The uplink and the legs.
fn others(state: &State, states: &DeviceStates) -> Vec<OtherDevice> {
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

/// By switch and key of the port.
fn super_packets(state: &State) -> Result<BTreeMap<(u32, u32), SuperPackets>, HostError> {
    let maps = match maps(state) {
        // Of another build: `show ports` says what it can.
        Err(HostError::OtherVersion(_)) => return Ok(BTreeMap::new()),
        other => other?,
    };
    let settings = maps.entries(Table::Settings)?;
    let settings = settings.values().next();
    let settings = settings.and_then(|value| abi::Settings::read_from_bytes(value).ok());
    let unmarker = settings.is_some_and(|settings| settings.unmarker_ifindex != 0);
    let ports = maps.entries(Table::Ports)?;
    let ports = ports
        .values()
        .filter_map(|value| abi::Port::read_from_bytes(value).ok());
    let way = |port: &abi::Port| match port.flags & abi::PORT_TAKES_NO_MARK != 0 {
        true if unmarker => SuperPackets::Unmarker,
        true => SuperPackets::Segments,
        false => SuperPackets::Straight,
    };
    Ok(ports
        .map(|port| ((port.switch_id, port.key.into()), way(&port)))
        .collect())
}

/// True when the last `apply` of `host` did not come to its end: `show` should say so.
pub fn interrupted(host: &str) -> Result<bool, HostError> {
    Ok(state_of(host)?.in_progress)
}

pub(crate) fn state_of(host: &str) -> Result<State, HostError> {
    State::read(host)?.ok_or_else(|| HostError::NotApplied(host.to_owned()))
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

fn switch_name(state: &State, id: u32) -> Option<String> {
    state.switch(id).map(|switch| switch.name.to_string())
}

fn router_name(state: &State, id: u32) -> Option<String> {
    state.router(id).map(|router| router.name.to_string())
}

fn remote_name(state: &State, address: IpAddr) -> Option<String> {
    let mut remotes = state.tables.remotes.iter();
    let remote = remotes.find(|remote| remote.addr == address);
    remote.map(|remote| remote.name.to_string())
}
