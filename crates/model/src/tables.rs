//! The tables of one host: everything its data path has to know, and nothing of logical switches
//! that have no port there and that no router joins with one that has. Built by [`Fabric::compile`](crate::Fabric::compile), written into maps
//! by the crate above. Devices are names here; they become interface indices on the machine.
//!
//! The same fabric and host always give the same tables, whatever the order of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use overlane_wire::{Mac, PortKey, Vni};
use serde::{Deserialize, Serialize};
use thiserror::Error;

mod firewall;
mod router;
mod timeouts;

pub use firewall::{Action, Asks, Direction, FirewallTable, PortFirewall, RuleTable, Service};
pub use router::{
    Gateway, GatewayPlace, NatKind, NatRule, NextHop, Route, RouterId, RouterInterface,
    RouterTable, Side, Way,
};
pub use timeouts::Timeouts;

use crate::keys::Fnv1a;
use crate::names::{DeviceName, Name};
use crate::netns::Netns;

/// The fabric compiled for one host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Tables {
    /// The host.
    pub host: Name,
    /// Its own tunnel end point.
    pub vtep: IpAddr,
    /// Its underlay device.
    pub uplink: DeviceName,
    /// The most connections that it has at a time, of all ports and routers: a power of two.
    pub connections: u32,
    /// How it speaks to the others.
    pub tunnel: Tunnel,
    /// Its logical ports, by name.
    pub ports: Vec<PortTable>,
    /// The logical switches with a port here, and those that a router joins with one of them, by name.
    pub switches: Vec<SwitchTable>,
    /// Where each MAC of these switches lives, by switch and MAC.
    pub fdb: Vec<FdbEntry>,
    /// Whose the addresses of these switches are, by switch and address.
    pub neighbours: Vec<Neighbour>,
    /// Addresses that ports of these switches share, by switch and address.
    pub floating_addresses: Vec<FloatingAddress>,
    /// MACs that ports of these switches share, by switch and MAC.
    pub floating_macs: Vec<FloatingMac>,
    /// Every other host of the fabric, by name.
    pub remotes: Vec<Remote>,
    /// Which of them may send into which of the switches in tunnels, by switch and address.
    pub origins: Vec<Origin>,
    /// The routers of these switches, and those whose gateway this host is, by name.
    pub routers: Vec<RouterTable>,
    /// The rules that name a port of this host.
    pub firewall: FirewallTable,
}

impl Tables {
    /// The routers whose gateway with a leg is this host, and the legs.
    pub fn legs(&self) -> impl Iterator<Item = (&RouterTable, &DeviceName)> {
        let routers = self.routers.iter();
        routers.filter_map(|router| Some((router, router.leg()?)))
    }

    /// A router with an interface on a switch, the one with the lowest number: it knows the networks there.
    pub fn router_on(&self, switch: SwitchId) -> Option<&RouterTable> {
        let is_on = |it: &&RouterTable| it.interfaces.iter().any(|on| on.switch == switch);
        self.routers.iter().filter(is_on).min_by_key(|it| it.id)
    }

    /// The remotes that hear what is said to routers on a switch, beside those with ports of it: they route into it
    /// and have no port there. Peers without options do not route.
    pub fn routing_remotes(&self, switch: &SwitchTable) -> Vec<IpAddr> {
        let first = self.origins.partition_point(|it| it.switch < switch.id);
        let of_switch = self.origins.iter().skip(first);
        let of_switch = of_switch.take_while(|it| it.switch == switch.id);
        let is_geneve = self.tunnel.encapsulation == Encapsulation::Geneve;
        let peers = self.remotes.iter();
        let peers = peers.filter(|remote| is_geneve && !remote.names_ports);
        let peers: Vec<IpAddr> = peers.map(|remote| remote.addr).collect();
        of_switch
            .filter(|it| switch.asks && !it.has_ports && !peers.contains(&it.remote))
            .map(|it| it.remote)
            .collect()
    }
}

/// Settings of the tunnels, the same on every host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Tunnel {
    /// Which header.
    pub encapsulation: Encapsulation,
    /// Outer UDP destination port.
    pub port: u16,
    /// Outer UDP source ports, chosen by a hash of the inner flow.
    pub source_ports: RangeInclusive<u16>,
    /// Drop packets with reserved bits set.
    pub strict: bool,
    /// Seed of that hash.
    pub hash_seed: u32,
    /// DSCP of the outer header.
    pub dscp: Dscp,
}

/// DSCP of the outer header (RFC 2983).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dscp {
    /// The same for every packet, 0 to 63: the pipe model.
    Fixed(u8),
    /// The inner one: the uniform model, one way.
    Copy,
}

impl Dscp {
    /// The highest code point.
    pub const MAX: u8 = 63;
    /// [`Copy`](Self::Copy) as the fabric file writes it.
    pub const COPY: &str = "copy";
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(dscp) => fmt::Display::fmt(dscp, f),
            Self::Copy => f.pad(Self::COPY),
        }
    }
}

impl Default for Dscp {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// A VLAN: 1 to 4094 (IEEE 802.1Q table 9-2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VlanId(u16);

/// Not the number of a VLAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{0} is no VLAN: 1 to 4094")]
pub struct VlanError(pub u32);

impl VlanId {
    /// The highest.
    pub const MAX: u16 = 4094;

    /// Checks the range.
    pub fn new(number: u32) -> Result<Self, VlanError> {
        match u16::try_from(number) {
            Ok(id @ 1..=Self::MAX) => Ok(Self(id)),
            _ => Err(VlanError(number)),
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u32> for VlanId {
    type Error = VlanError;

    fn try_from(number: u32) -> Result<Self, VlanError> {
        Self::new(number)
    }
}

impl From<VlanId> for u32 {
    fn from(vlan: VlanId) -> Self {
        vlan.get().into()
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What tells logical switches apart on the underlay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchId {
    /// Frames cross it in a tunnel, with this VNI.
    Vni(Vni),
    /// Frames cross it plain, with this tag on the uplink.
    Vlan(VlanId),
}

impl SwitchId {
    /// Set in [`number`](Self::number) of a switch on a VLAN: `SWITCH_ID_VLAN`.
    pub const VLAN_BIT: u32 = 1 << 24;

    /// The number that the maps of the data path use: the VNI, or a bit above all VNIs and the VLAN.
    pub const fn number(self) -> u32 {
        match self {
            Self::Vni(vni) => vni.get(),
            Self::Vlan(vlan) => Self::VLAN_BIT | vlan.get() as u32,
        }
    }

    /// The switch with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        if number & Self::VLAN_BIT == 0 {
            return Vni::new(number).ok().map(Self::Vni);
        }
        VlanId::new(number & !Self::VLAN_BIT).ok().map(Self::Vlan)
    }

    /// The VNI, of a switch that has one.
    pub const fn vni(self) -> Option<Vni> {
        match self {
            Self::Vni(vni) => Some(vni),
            Self::Vlan(_) => None,
        }
    }

    /// The VLAN on the uplink, of a switch that is bound to one.
    pub const fn vlan(self) -> Option<VlanId> {
        match self {
            Self::Vni(_) => None,
            Self::Vlan(vlan) => Some(vlan),
        }
    }
}

impl fmt::Display for SwitchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vni(vni) => write!(f, "VNI {vni}"),
            Self::Vlan(vlan) => write!(f, "VLAN {vlan}"),
        }
    }
}

impl Tunnel {
    /// The seed of every fabric until there is a setting for it.
    pub const HASH_SEED: u32 = 0x6f76_6c6e;
    /// Source ports when the file names none: the dynamic ports (RFC 7348 §5).
    pub const SOURCE_PORTS: RangeInclusive<u16> = 49152..=65535;
}

/// The tunnel header between outer UDP and inner Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encapsulation {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926, with [options](GeneveOptions).
    Geneve,
}

impl Encapsulation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Vxlan, Self::Geneve];

    /// As the fabric file writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
        }
    }

    /// The port that IANA assigned.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Vxlan => 4789,
            Self::Geneve => 6081,
        }
    }
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the Geneve header of a packet to a host carries besides the VNI.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum GeneveOptions {
    /// Nothing: 8 bytes, which every Geneve device takes.
    None,
    /// OVN's option with the logical ports: 16 bytes. It is critical: who does not know it drops the packet.
    #[default]
    Ovn,
}

impl GeneveOptions {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ovn, Self::None];

    /// As the fabric file writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ovn => "ovn",
        }
    }
}

impl fmt::Display for GeneveOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A logical port of this host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PortTable {
    /// Its name in the fabric.
    pub name: Name,
    /// Where it is attached.
    pub attachment: Attachment,
    /// Where its device is left by whoever makes it, if not on the host. An older build knows no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<Netns>,
    /// Its logical switch.
    pub switch: SwitchId,
    /// Its number in that switch.
    pub key: PortKey,
    /// Its MAC.
    pub mac: Mac,
    /// What it may use beside its addresses, in order.
    pub allowed_addresses: Vec<IpNet>,
    /// What it may use beside its MAC, in order.
    pub allowed_macs: Vec<Mac>,
    /// What it may send.
    pub security: PortSecurity,
    /// Whether and how MACs the fabric does not know are learned behind it.
    pub learning: Option<Learning>,
    /// How much of what all share it may have.
    pub limits: PortLimits,
    /// What it has of a firewall; `None`: none.
    pub firewall: Option<PortFirewall>,
}

impl Tables {
    /// The devices of ports that somebody makes in another network namespace, each with that one.
    pub fn devices_elsewhere(&self) -> BTreeMap<&DeviceName, &Netns> {
        let ports = self.ports.iter();
        let elsewhere =
            ports.filter_map(|port| Some((&port.attachment.device, port.netns.as_ref()?)));
        elsewhere.collect()
    }
}

impl PortTable {
    /// Seconds that a MAC behind it is remembered; `None`: none is learned.
    pub fn learn_age_s(&self) -> Option<u32> {
        Learning::age_s(self.learning, &self.allowed_macs)
    }

    /// A hash over its device and MAC. A port that has others is another guest's, and takes over no connection.
    pub fn owner(&self) -> u32 {
        let mut hash = Fnv1a::new();
        hash.add(self.attachment.device.as_str().as_bytes());
        hash.add(&[0]);
        hash.add(&self.attachment.vlan.map_or(0, VlanId::get).to_be_bytes());
        hash.add(self.mac.bytes());
        hash.get()
    }
}

/// How much of what all share a port may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PortLimits {
    /// The most connections at a time.
    pub connections: u32,
    /// The most copies of flooded frames in a second.
    pub flood: u32,
}

impl PortLimits {
    /// What may be said of the connections of a port, of a router, and of a host.
    pub const CONNECTIONS: RangeInclusive<u32> = 1..=1_048_576;
    /// What may be said of copies: a tenth of it passes in a tenth of a second.
    pub const FLOOD: RangeInclusive<u32> = 10..=1_000_000_000;

    /// The most copies in the tenth of a second in which they are counted: `LIMIT_FLOOD` of `bpf/lib/abi_firewall.h`.
    pub const fn flood_in_span(&self) -> u32 {
        self.flood / 10
    }
}

impl Default for PortLimits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            flood: 100_000,
        }
    }
}

/// Where a port of this host is attached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Attachment {
    /// The device.
    pub device: DeviceName,
    /// On a trunk, the tag that its frames carry on the device.
    pub vlan: Option<VlanId>,
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vlan {
            Some(vlan) => write!(f, "{} tag {vlan}", self.device),
            None => fmt::Display::fmt(&self.device, f),
        }
    }
}

/// What a port may send.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct PortSecurity {
    /// Its own MAC only, also inside ARP and ND; no packets of DHCP servers and routers.
    pub check_mac: bool,
    /// Its own addresses only. Never without `check_mac`, nor at a port without addresses.
    pub check_addresses: bool,
    /// It may answer as a DHCP server after all.
    pub allow_dhcp_server: bool,
    /// It may send router advertisements and redirects after all.
    pub allow_router_advertisement: bool,
}

/// How a port learns MACs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Learning {
    /// The most MACs at a time.
    pub limit: u32,
    /// Seconds without a packet after which a MAC is forgotten.
    pub age_s: u32,
}

impl Learning {
    /// The highest limit: more do not fit into the table of a host.
    pub const LIMIT_MAX: u32 = 65536;
    /// The longest age: a day.
    pub const AGE_S_MAX: u32 = 86400;

    /// Seconds that a MAC is remembered behind a port that learns, or has floating MACs. `None`: it has neither.
    pub(crate) fn age_s(learning: Option<Self>, allowed_macs: &[Mac]) -> Option<u32> {
        let floats = (!allowed_macs.is_empty()).then(Self::default);
        Some(learning.or(floats)?.age_s)
    }
}

impl Default for Learning {
    fn default() -> Self {
        Self {
            limit: 64,
            age_s: 300,
        }
    }
}

/// A logical switch with a port on this host, or joined with one by a router.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SwitchTable {
    /// Its name in the fabric.
    pub name: Name,
    /// What it is on the underlay.
    pub id: SwitchId,
    /// Flood unicast without an FDB entry, instead of dropping it.
    pub flood_unknown: bool,
    /// Carry VLAN tags of guests, instead of refusing them.
    pub vlan_transparent: bool,
    /// It has routers, and they ask for neighbours that no port declares.
    pub asks: bool,
    /// The sender of a packet that is too large is told so.
    pub path_mtu_discovery: bool,
    /// TCP that crosses the underlay is told a segment size that fits.
    pub mss_clamp: bool,
    /// Seconds a MAC learned from a remote is remembered: the longest of the switch's learning ports and of those
    /// with floating MACs, here or elsewhere. `None`: it has none, and nothing is learned.
    pub learn_age_s: Option<u32>,
    /// EtherTypes that pass where a port drops what is not IP.
    pub non_ip: Vec<u16>,
    /// How long the connections of its ports live without a packet.
    pub timeouts: Timeouts,
    /// Receivers of a flooded frame: local ports by name, then each remote once, those with the shorter outer
    /// header first, by name. A switch on a VLAN has no remotes: its frames go out of the uplink once.
    pub flood: Vec<FloodMember>,
}

/// One receiver of a flooded frame.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FloodMember {
    /// A port of this host.
    Local(Attachment),
    /// A remote with at least one port in the switch.
    Remote(IpAddr),
}

/// Where a MAC lives.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FdbEntry {
    /// The logical switch.
    pub switch: SwitchId,
    /// The inner destination.
    pub mac: Mac,
    /// The logical port, or the router's interface, that owns it.
    pub key: PortKey,
    /// The port's name in the fabric, or the router's.
    pub port: Name,
    /// Where it is.
    pub place: Place,
    /// A port elsewhere without port security: frames with its MAC may come from any host.
    pub roams: bool,
}

/// Where a logical port is, seen from this host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On this host.
    Local(Attachment),
    /// Behind this VTEP.
    Remote(IpAddr),
    /// On another host, reached over the uplink's VLAN.
    Vlan,
    /// It is a router's: the host that looks routes.
    Router(RouterId),
}

/// Whose an address is, for the ARP/ND responder.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// The logical switch.
    pub switch: SwitchId,
    /// The inner address.
    pub addr: IpAddr,
    /// The answer.
    pub mac: Mac,
    /// The port that owns the address; it never gets an answer about itself.
    pub key: PortKey,
    /// That port may advertise itself as a router, so the answer says that it is one (RFC 4861).
    pub is_router: bool,
    /// The address is an interface's of this router; then `port` is the router's name.
    pub router: Option<RouterId>,
    /// Its name in the fabric.
    pub port: Name,
}

/// An address that several ports may use, one of them at a time. Nobody knows which has it now.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FloatingAddress {
    /// The logical switch.
    pub switch: SwitchId,
    /// The inner address.
    pub addr: IpAddr,
    /// The ports, by name.
    pub ports: Vec<Name>,
}

/// A MAC that several ports may use, one of them at a time. Which has it now, is learned.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct FloatingMac {
    /// The logical switch.
    pub switch: SwitchId,
    /// The inner address.
    pub mac: Mac,
    /// The ports, by name.
    pub ports: Vec<Name>,
}

/// Another host of the fabric.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Remote {
    /// Its name in the fabric.
    pub name: Name,
    /// Its VTEP.
    pub addr: IpAddr,
    /// Template of the outer header towards it: an empty Ethernet header, IP, UDP, VXLAN or Geneve.
    /// DSCP and ECN, lengths, IPv4 checksum, source port, VNI and option data are zero; the data path
    /// writes them per packet.
    pub header: Vec<u8>,
    /// The header has OVN's option, which says the logical ports.
    pub names_ports: bool,
}

/// A remote that may send into a logical switch: it has ports there, or routers lead there from its ports or from
/// a gateway on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The logical switch.
    pub switch: SwitchId,
    /// The VTEP of the remote.
    pub remote: IpAddr,
    /// It has ports there; else it only routes into the switch.
    pub has_ports: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_switch_leads_back_to_it() {
        for id in [
            SwitchId::Vni(Vni::new(1).unwrap()),
            SwitchId::Vni(Vni::new(0xff_ffff).unwrap()),
            SwitchId::Vlan(VlanId::new(1).unwrap()),
            SwitchId::Vlan(VlanId::new(4094).unwrap()),
        ] {
            assert_eq!(SwitchId::from_number(id.number()), Some(id));
        }
        assert_eq!(SwitchId::from_number(0), None);
        assert_eq!(SwitchId::from_number(SwitchId::VLAN_BIT | 4095), None);
    }
}
