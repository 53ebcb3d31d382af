//! `show ports`, and whether packets flow at each device of the fabric.

use std::collections::BTreeMap;

use overlane_ebpf::abi;
use overlane_ebpf::tables::Table;
use overlane_model::{PortTable, VlanId};
use overlane_net::{Link, Netlink};
use overlane_wire::Mac;
use serde::Serialize;
use zerocopy::FromBytes;

use super::devices::{self, DeviceRow};
use super::guard::{self, Guard};
use super::look::{OnUnderlay, in_namespace, maps, switch_name};
use super::states::{OtherDevice, PortState, device_states, others, state_at};
use crate::HostError;
use crate::state::State;

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
    pub lower_mtu: Vec<OtherMtu>,
    /// The uplink and legs whose MTU is larger than `apply` found it.
    pub raised_mtu: Vec<OtherMtu>,
    /// Legs whose MAC is another one than `apply` found.
    pub other_mac: Vec<OtherMac>,
    /// What stops a port's device that is made again; none without ports, or when the namespace is gone.
    pub guard: Option<Guard>,
}

/// A device whose MAC somebody changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherMac {
    /// Its name.
    pub device: String,
    /// Now.
    pub mac: String,
    /// When `apply` looked.
    pub mac_at_apply: String,
}

/// A device whose MTU somebody changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherMtu {
    /// Its name.
    pub device: String,
    /// Now.
    pub mtu: u32,
    /// When `apply` looked.
    pub mtu_at_apply: u32,
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

/// Looks at the logical ports of `host`.
pub fn ports(host: &str) -> Result<Ports, HostError> {
    let state = State::applied(host)?;
    let look = |netlink: &Netlink| {
        let devices = netlink.links()?;
        let states = device_states(&state, &devices)?;
        let rows = devices::rows(&state, netlink)?;
        Ok((devices, states, rows, guard::look(&state)?))
    };
    let (devices, states, rows, guard) = in_namespace(&state, look)?.unwrap_or_default();
    let lower = rows.iter().filter(|row| row.has_lower_mtu());
    let raised = rows.iter().filter(|row| row.has_raised_mtu());
    let legs = state.tables.legs().map(|(_, leg)| leg.as_str());
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
        lower_mtu: lower.filter_map(other_mtu).collect(),
        raised_mtu: raised.filter_map(other_mtu).collect(),
        other_mac: legs
            .filter_map(|leg| other_mac(&state, &devices, leg))
            .collect(),
        guard,
    })
}

fn other_mtu(row: &DeviceRow) -> Option<OtherMtu> {
    Some(OtherMtu {
        device: row.device.clone(),
        mtu: row.mtu,
        mtu_at_apply: row.mtu_at_apply?,
    })
}

fn other_mac(state: &State, devices: &[Link], leg: &str) -> Option<OtherMac> {
    let link = devices.iter().find(|link| link.name == leg)?;
    let before = state.devices.get(leg)?.other_mac(link)?;
    Some(OtherMac {
        device: leg.to_owned(),
        mac: Mac::new(link.mac).to_string(),
        mac_at_apply: before.to_string(),
    })
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
