//! Neighbours: static ones, and ones the kernel keeps resolved for us; and the forwarding table of
//! bridges and VXLAN devices, which the kernel calls neighbours of family AF_BRIDGE.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage,
    NeighbourState as WireState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::address::family_of;
use crate::error::NetError;
use crate::netlink::Netlink;

/// Ticks of a second in what the kernel shows (include/asm-generic/param.h).
const USER_HZ: u32 = 100;

/// What the kernel knows of one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourState {
    /// How sure it is.
    pub state: Nud,
    /// MAC address, once known.
    pub mac: Option<[u8; 6]>,
    /// The kernel resolves it by itself and keeps it so.
    pub managed: bool,
    /// Since it answered last, or since the kernel began to ask for it.
    pub confirmed: Duration,
}

/// State of neighbour unreachability detection (RFC 4861 §7.3.2, and the kernel's own).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nud {
    /// Never tried.
    None,
    /// Asked, no answer yet.
    Incomplete,
    /// Known to be there.
    Reachable,
    /// Was there, not confirmed of late.
    Stale,
    /// In use though stale, waiting for a confirmation from above.
    Delay,
    /// Being asked again.
    Probe,
    /// Asked, no answer.
    Failed,
    /// Needs no resolution.
    NoArp,
    /// Configured.
    Permanent,
}

impl Nud {
    /// Lower-case name, as `ip neigh` prints it in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Delay => "delay",
            Self::Probe => "probe",
            Self::Failed => "failed",
            Self::NoArp => "noarp",
            Self::Permanent => "permanent",
        }
    }

    /// Packets can be sent (`NUD_VALID` of the kernel).
    #[must_use]
    pub fn is_valid(self) -> bool {
        !matches!(self, Self::None | Self::Incomplete | Self::Failed)
    }
}

impl fmt::Display for Nud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Netlink {
    /// Sets a neighbour for good; an existing entry is replaced.
    pub fn add_neighbour(&self, name: &str, addr: IpAddr, mac: [u8; 6]) -> Result<(), NetError> {
        let mut message = self.neighbour_message(name, addr)?;
        message.header.state = WireState::Permanent;
        message
            .attributes
            .push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.call(
            format!("set the neighbour {addr}"),
            Some(name),
            message,
            flags,
        )
        .map(drop)
    }

    /// Has the kernel resolve a neighbour now and keep it resolved (`NTF_EXT_MANAGED`), as a next hop that
    /// a program looks up but no socket talks to needs it. For IPv6 the kernel asks from the device's
    /// link-local address (`ndisc_send_ns`): without one, the entry fails until traffic resolves it.
    pub fn manage_neighbour(&self, name: &str, addr: IpAddr) -> Result<(), NetError> {
        let mut message = self.neighbour_message(name, addr)?;
        message
            .attributes
            .push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.call(
            format!("manage the neighbour {addr}"),
            Some(name),
            message,
            flags,
        )
        .map(drop)
    }

    /// Lists an address as one that the kernel may answer for on this device (`NTF_PROXY`). It answers only where
    /// `proxy_ndp` says so; of an IPv6 address it joins the solicited-node group in any case: the device takes
    /// solicitations in, and switches hear of the group by MLD.
    pub fn add_proxy(&self, name: &str, addr: IpAddr) -> Result<(), NetError> {
        let message = RouteNetlinkMessage::NewNeighbour(self.proxy_message(name, addr)?);
        self.call(
            format!("add the proxy neighbour {addr}"),
            Some(name),
            message,
            NLM_F_CREATE,
        )
        .map(drop)
    }

    /// Takes it off the list, and leaves the group.
    pub fn delete_proxy(&self, name: &str, addr: IpAddr) -> Result<(), NetError> {
        let message = RouteNetlinkMessage::DelNeighbour(self.proxy_message(name, addr)?);
        self.call(
            format!("delete the proxy neighbour {addr}"),
            Some(name),
            message,
            0,
        )
        .map(drop)
    }

    /// Whether the address is on that list. A missing device is an error.
    pub fn has_proxy(&self, name: &str, addr: IpAddr) -> Result<bool, NetError> {
        let message = RouteNetlinkMessage::GetNeighbour(self.proxy_message(name, addr)?);
        let operation = format!("find the proxy neighbour {addr}");
        match self.call(operation, Some(name), message, 0) {
            Ok(replies) => Ok(!replies.is_empty()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets a neighbour.
    pub fn delete_neighbour(&self, name: &str, addr: IpAddr) -> Result<(), NetError> {
        let message = RouteNetlinkMessage::DelNeighbour(self.neighbour_message(name, addr)?);
        self.call(
            format!("delete the neighbour {addr}"),
            Some(name),
            message,
            0,
        )
        .map(drop)
    }

    /// What the kernel knows of a neighbour; `None` if it has no entry. A missing device is an error.
    pub fn neighbour(&self, name: &str, addr: IpAddr) -> Result<Option<NeighbourState>, NetError> {
        let message = RouteNetlinkMessage::GetNeighbour(self.neighbour_message(name, addr)?);
        match self.call(format!("find the neighbour {addr}"), Some(name), message, 0) {
            Ok(replies) => Ok(replies.into_iter().find_map(neighbour_of)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells a VXLAN device where a MAC lives. The zero MAC is the flood list: each call adds a member.
    pub fn add_bridge_fdb(&self, name: &str, mac: [u8; 6], dst: IpAddr) -> Result<(), NetError> {
        let mut message = self.neighbour_message(name, dst)?;
        message.header.family = AddressFamily::Bridge;
        message.header.flags = NeighbourFlags::Own;
        message.header.state = WireState::Permanent;
        message
            .attributes
            .push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        let flags = if mac == [0; 6] {
            NLM_F_APPEND
        } else {
            NLM_F_EXCL
        };
        let message = RouteNetlinkMessage::NewNeighbour(message);
        let operation = format!("add an FDB entry towards {dst}");
        self.call(operation, Some(name), message, NLM_F_CREATE | flags)
            .map(drop)
    }

    fn proxy_message(&self, name: &str, addr: IpAddr) -> Result<NeighbourMessage, NetError> {
        let mut message = self.neighbour_message(name, addr)?;
        message.header.flags = NeighbourFlags::Proxy;
        Ok(message)
    }

    fn neighbour_message(&self, name: &str, addr: IpAddr) -> Result<NeighbourMessage, NetError> {
        let mut message = NeighbourMessage::default();
        message.header.ifindex = self.link(name)?.index;
        message.header.family = family_of(addr);
        message
            .attributes
            .push(NeighbourAttribute::Destination(addr.into()));
        Ok(message)
    }
}

fn neighbour_of(message: RouteNetlinkMessage) -> Option<NeighbourState> {
    let RouteNetlinkMessage::NewNeighbour(message) = message else {
        return None;
    };
    let mut neighbour = NeighbourState {
        state: nud_of(message.header.state),
        mac: None,
        managed: false,
        confirmed: Duration::ZERO,
    };
    for attribute in message.attributes {
        match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                neighbour.mac = bytes.as_slice().try_into().ok();
            }
            NeighbourAttribute::ExtFlags(flags) => {
                neighbour.managed = flags.contains(NeighbourExtFlags::Managed);
            }
            NeighbourAttribute::CacheInfo(info) => {
                neighbour.confirmed = Duration::from_secs((info.confirmed / USER_HZ).into());
            }
            _ => {}
        }
    }
    Some(neighbour)
}

fn nud_of(state: WireState) -> Nud {
    match state {
        WireState::Incomplete => Nud::Incomplete,
        WireState::Reachable => Nud::Reachable,
        WireState::Stale => Nud::Stale,
        WireState::Delay => Nud::Delay,
        WireState::Probe => Nud::Probe,
        WireState::Failed => Nud::Failed,
        WireState::Noarp => Nud::NoArp,
        WireState::Permanent => Nud::Permanent,
        _ => Nud::None,
    }
}
