//! A logical switch of the [`Fabric`](crate::Fabric).

use std::fmt;

use crate::names::Name;
use crate::tables::{SwitchId, Timeouts};

/// A logical switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Its name.
    pub name: Name,
    /// What it is on the underlay.
    pub id: SwitchId,
    /// What happens to unicast without an FDB entry.
    pub unknown_unicast: UnknownUnicast,
    /// What happens to VLAN tags of guests.
    pub guest_vlan: GuestVlan,
    /// Whom routers reach on it.
    pub neighbours: Neighbours,
    /// Whether the sender of a packet that is too large is told so.
    pub path_mtu_discovery: bool,
    /// Whether TCP that crosses the underlay is told a segment size that fits.
    pub mss_clamp: bool,
    /// What its ports do with packets that no rule matches.
    pub firewall: SwitchFirewall,
    /// How much of what all share each of its ports may have.
    pub limits: Limits,
    /// How long the connections of its ports live without a packet.
    pub timeouts: Timeouts,
    /// Where the file declares it.
    pub line: u32,
}

/// How much of what all share a port may have, as far as it is said; else the defaults of
/// [`PortLimits`](crate::PortLimits).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// The most connections at a time.
    pub connections: Option<u32>,
    /// The most copies of flooded frames in a second.
    pub flood: Option<u32>,
}

/// What a logical switch does with unicast without an FDB entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnknownUnicast {
    /// Drops it.
    #[default]
    Drop,
    /// Copies it to the flood list.
    Flood,
}

impl UnknownUnicast {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Drop, Self::Flood];
}

/// What a logical switch does with VLAN tags of guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GuestVlan {
    /// Drops the frame (RFC 7348 section 6.1).
    #[default]
    Refuse,
    /// Carries the tag with the frame.
    Transparent,
}

impl GuestVlan {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Transparent];
}

/// Whom routers reach on a logical switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Neighbours {
    /// Who answers when they ask by ARP or neighbour discovery, too.
    #[default]
    Asked,
    /// Only addresses that ports declare.
    Declared,
}

impl Neighbours {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Asked, Self::Declared];
}

impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Asked => "asked",
            Self::Declared => "declared",
        })
    }
}

impl fmt::Display for GuestVlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refuse => "refuse",
            Self::Transparent => "transparent",
        })
    }
}

impl fmt::Display for UnknownUnicast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Drop => "drop",
            Self::Flood => "flood",
        })
    }
}

/// What the ports of a switch do with frames that are neither IP nor ARP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NonIp {
    /// They pass.
    Allow,
    /// They are dropped, but for those of these EtherTypes, in order, each once.
    Drop(Vec<u16>),
}

impl NonIp {
    /// Most EtherTypes that pass.
    pub const MOST: usize = 8;
    /// The first EtherType: what is below is a length (IEEE 802.3).
    pub const FIRST: u32 = 0x0600;
}

/// What the ports of a switch do with packets that no rule matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchFirewall {
    /// With what a port sends.
    pub from_port: Policy,
    /// With what a port gets.
    pub to_port: Policy,
    /// With the first packet of a connection for which there is no place.
    pub when_full: Policy,
    /// With frames that are neither IP nor ARP.
    pub non_ip: NonIp,
}

impl Default for SwitchFirewall {
    fn default() -> Self {
        Self {
            from_port: Policy::Allow,
            to_port: Policy::Allow,
            when_full: Policy::Drop,
            non_ip: NonIp::Allow,
        }
    }
}

/// What becomes of packets about which nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// They pass.
    Allow,
    /// They are dropped.
    Drop,
}

impl Policy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Drop];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::Drop => "drop",
        })
    }
}
