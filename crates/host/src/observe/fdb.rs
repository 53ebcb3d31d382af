//! `show fdb`: where the fabric says that each MAC lives.

use std::net::IpAddr;

use overlane_ebpf::abi;
use overlane_ebpf::tables::Table;
use overlane_model::{PortTable, SwitchId};
use overlane_wire::Mac;
use serde::Serialize;
use zerocopy::FromBytes;

use super::look::{OnUnderlay, maps, remote_name, router_name, switch_name};
use crate::HostError;
use crate::state::State;

/// `show fdb`.
#[derive(Debug, Clone, Serialize)]
pub struct Fdb {
    /// The host.
    pub host: String,
    /// The entries the kernel uses.
    pub entries: Vec<FdbRow>,
}

/// One FDB entry.
#[derive(Debug, Clone, Serialize)]
pub struct FdbRow {
    /// The logical switch, when its name is known.
    pub switch: Option<String>,
    /// What tells it apart on the underlay.
    #[serde(flatten)]
    pub on_underlay: OnUnderlay,
    /// The address.
    pub mac: String,
    /// Logical port key behind it.
    pub key: u32,
    /// The logical port, when it is on this host.
    pub port: Option<String>,
    /// Where the address lives.
    #[serde(flatten)]
    pub place: FdbPlace,
}

/// Where an address lives.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub enum FdbPlace {
    /// On this host.
    Local {
        /// The port's device, or its index when it is unknown.
        device: String,
        /// On a trunk, the port's tag on the device.
        vlan: Option<u16>,
    },
    /// On another host.
    Remote {
        /// The remote's name, when known.
        remote: Option<String>,
        /// Its VTEP.
        address: IpAddr,
    },
    /// It is a router's: the host that looks routes.
    Router {
        /// The router's name, when known.
        router: Option<String>,
    },
    /// On another host, reached over the switch's VLAN.
    Uplink {
        /// The uplink.
        device: String,
    },
}

/// Reads the FDB of `host` from the kernel.
pub fn fdb(host: &str) -> Result<Fdb, HostError> {
    let state = State::applied(host)?;
    let contents = maps(&state)?.entries(Table::Fdb)?;
    let mut entries = Vec::new();
    for (key, value) in &contents {
        let (Ok(key), Ok(value)) = (
            abi::FdbKey::read_from_bytes(key),
            abi::FdbEntry::read_from_bytes(value),
        ) else {
            continue;
        };
        // Where it is, is learned.
        if value.flags & abi::FDB_FLOATS != 0 {
            continue;
        }
        entries.push((key.switch_id, fdb_row(&state, &key, &value)));
    }
    entries.sort_by(|(id, a), (other, b)| (id, &a.mac).cmp(&(other, &b.mac)));
    let entries = entries.into_iter().map(|(_, row)| row).collect();
    Ok(Fdb {
        host: host.to_owned(),
        entries,
    })
}

fn fdb_row(state: &State, key: &abi::FdbKey, value: &abi::FdbEntry) -> FdbRow {
    let port = state.port(key.switch_id, value.key);
    let address = IpAddr::from(value.remote);
    FdbRow {
        switch: switch_name(state, key.switch_id),
        on_underlay: OnUnderlay::of(key.switch_id),
        mac: Mac::from(key.mac).to_string(),
        key: value.key,
        port: port.map(|port| port.name.to_string()),
        place: if value.router != 0 {
            FdbPlace::Router {
                router: router_name(state, value.router),
            }
        } else if value.port.ifindex != 0 {
            local_place(port, value.port)
        } else if SwitchId::from_number(key.switch_id).is_some_and(|id| id.vlan().is_some()) {
            FdbPlace::Uplink {
                device: state.tables.uplink.to_string(),
            }
        } else {
            FdbPlace::Remote {
                remote: remote_name(state, address),
                address,
            }
        },
    }
}

pub(super) fn local_place(port: Option<&PortTable>, id: abi::PortId) -> FdbPlace {
    let index = || format!("#{}", id.ifindex);
    FdbPlace::Local {
        device: port.map_or_else(index, |port| port.attachment.device.to_string()),
        vlan: u16::try_from(id.vlan).ok().filter(|&vlan| vlan != 0),
    }
}
