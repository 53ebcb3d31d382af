//! The JSON Schema of the fabric file, for editors and other tools. These types are never read into:
//! [`decode`](crate::decode) reads the file itself, to find every mistake with its place. Tests keep
//! the two in step.

// The fields are only described.
#![allow(dead_code)]

use std::collections::BTreeMap;

use overlane_wire::{PortKey, Vni};
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::Value;

use crate::netns;
use crate::tables::{self, PortLimits, Tunnel, VlanId};

mod firewall;
mod router;
mod text;
mod timeouts;

use firewall::{Firewall, Rule};
use router::Router;
use text::{Address, Device, MacText, Name, NetnsText, NetworkText};
use timeouts::Timeouts;

/// The JSON Schema (draft 2020-12) of the fabric file.
pub fn schema() -> Value {
    schema_for!(FabricFile).to_value()
}

/// A whole network of logical switches, the same file on every host.
#[derive(JsonSchema)]
#[schemars(title = "Overlane fabric", deny_unknown_fields)]
struct FabricFile {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    version: u32,
    /// How hosts speak to each other.
    #[schemars(
        with = "TunnelSettings",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    tunnel: Option<TunnelSettings>,
    /// The hosts (chassis), by name.
    #[schemars(extend("minProperties" = 1))]
    hosts: BTreeMap<Name, Host>,
    /// The logical switches, by name.
    #[schemars(default)]
    switches: BTreeMap<Name, LogicalSwitch>,
    /// The logical ports, by name.
    #[schemars(default)]
    ports: BTreeMap<Name, LogicalPort>,
    /// Named sets of ports, for rules.
    #[schemars(default)]
    groups: BTreeMap<Name, Vec<Name>>,
    /// Named sets of networks and addresses, for rules.
    #[schemars(default)]
    networks: BTreeMap<Name, Vec<NetworkText>>,
    /// The rules of the firewall, by name.
    #[schemars(default)]
    rules: BTreeMap<Name, Rule>,
    /// The logical routers, by name.
    #[schemars(default)]
    routers: BTreeMap<Name, Router>,
}

/// Settings of the tunnels between hosts.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct TunnelSettings {
    /// Tunnel header.
    #[schemars(default)]
    encapsulation: Encapsulation,
    /// Outer UDP destination port. Default: 4789 (vxlan) or 6081 (geneve).
    #[schemars(
        with = "u16",
        default,
        range(min = 1),
        skip_serializing_if = "Option::is_none"
    )]
    port: Option<u16>,
    /// First and last outer UDP source port.
    #[schemars(default = "source_ports", regex(pattern = r"^[0-9]{1,5}-[0-9]{1,5}$"))]
    source_ports: String,
    /// Drop received packets with reserved bits set, instead of ignoring the bits.
    #[schemars(default)]
    strict: bool,
    /// Send a zero UDP checksum over IPv6 (RFC 6936). Must be true with an IPv6 underlay.
    #[schemars(default)]
    udp6_zero_checksum: bool,
    /// DSCP of the outer header: a code point, or `copy` for that of the inner header.
    #[schemars(default)]
    dscp: Dscp,
    /// What the Geneve header of packets to hosts carries that say nothing else. Not with VXLAN.
    #[schemars(default)]
    options: GeneveOptions,
}

/// A code point, or that of the inner header.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Dscp {
    /// A code point.
    Fixed(#[schemars(range(min = 0, max = tables::Dscp::MAX))] u8),
    /// That of the inner header.
    Word(DscpWord),
}

impl Default for Dscp {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// That of the inner header.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
enum DscpWord {
    /// That of the inner header.
    Copy,
}

fn yes() -> bool {
    true
}

fn source_ports() -> String {
    let ports = Tunnel::SOURCE_PORTS;
    format!("{}-{}", ports.start(), ports.end())
}

/// Tunnel header.
#[derive(JsonSchema, Serialize, Default)]
#[serde(rename_all = "lowercase")]
enum Encapsulation {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    #[default]
    Geneve,
}

/// What a Geneve header carries besides the VNI.
#[derive(JsonSchema, Serialize, Default)]
#[serde(rename_all = "lowercase")]
enum GeneveOptions {
    /// OVN's option with the logical ports. Who does not know it drops the packet.
    #[default]
    Ovn,
    /// Nothing.
    None,
}

/// One host (chassis).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Host {
    /// IPv4 or IPv6 address of its VTEP; all hosts of one family, each its own.
    underlay: Address,
    /// Its device towards the underlay.
    uplink: Device,
    /// What the Geneve header of packets to it carries. Default: that of `tunnel`.
    #[schemars(
        with = "GeneveOptions",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    options: Option<GeneveOptions>,
    /// The most connections that it has at a time, of all ports and routers.
    #[schemars(default = "most_connections", extend("enum" = table_sizes()))]
    connections: u32,
}

fn most_connections() -> u32 {
    *PortLimits::CONNECTIONS.end()
}

/// Powers of two.
fn table_sizes() -> Vec<u32> {
    let sizes = std::iter::successors(Some(1u32), |size| size.checked_mul(2));
    sizes
        .take_while(|size| PortLimits::CONNECTIONS.contains(size))
        .collect()
}

/// A logical switch: in tunnels (`vni`) or on a VLAN of the uplink (`uplink_vlan`).
#[derive(JsonSchema)]
#[schemars(
    deny_unknown_fields,
    extend("oneOf" = [{ "required": ["vni"] }, { "required": ["uplink_vlan"] }])
)]
struct LogicalSwitch {
    /// Its number in tunnels, unique.
    #[schemars(
        with = "u32",
        default,
        range(min = 1, max = Vni::MAX),
        skip_serializing_if = "Option::is_none"
    )]
    vni: Option<u32>,
    /// Its VLAN on the uplinks, unique, instead of tunnels.
    #[schemars(
        with = "u16",
        default,
        range(min = 1, max = VlanId::MAX),
        skip_serializing_if = "Option::is_none"
    )]
    uplink_vlan: Option<u16>,
    /// What happens to unicast without an FDB entry.
    #[schemars(default)]
    unknown_unicast: UnknownUnicast,
    /// What happens to VLAN tags of guests.
    #[schemars(default)]
    vlan: GuestVlan,
    /// Whom routers reach on it: who answers when asked, too, or only addresses that ports declare.
    #[schemars(default)]
    neighbours: Neighbours,
    /// Whether the sender of a packet that is too large is told so, by ICMP.
    #[schemars(default = "yes")]
    path_mtu_discovery: bool,
    /// Whether the MSS of TCP that crosses the underlay is lowered to what fits.
    #[schemars(default)]
    mss_clamp: bool,
    /// What its ports do with packets that no rule matches.
    #[schemars(default)]
    firewall: Firewall,
    /// How much of what all share each of its ports may have.
    #[schemars(default)]
    limits: Limits,
    /// How long the connections of its ports live without a packet.
    #[schemars(default)]
    timeouts: Timeouts,
}

/// How much of what all share a port may have.
#[derive(JsonSchema, Serialize, Default)]
#[schemars(deny_unknown_fields)]
struct Limits {
    /// The most connections at a time. Default: 65536.
    #[schemars(
        with = "u32",
        default,
        range(min = *PortLimits::CONNECTIONS.start(), max = *PortLimits::CONNECTIONS.end()),
        skip_serializing_if = "Option::is_none"
    )]
    connections: Option<u32>,
    /// The most copies of flooded frames in a second. Default: 100000.
    #[schemars(
        with = "u32",
        default,
        range(min = *PortLimits::FLOOD.start(), max = *PortLimits::FLOOD.end()),
        skip_serializing_if = "Option::is_none"
    )]
    flood: Option<u32>,
}

/// What happens to VLAN tags of guests.
#[derive(JsonSchema, Serialize, Default)]
#[serde(rename_all = "lowercase")]
enum GuestVlan {
    /// Tagged frames are dropped.
    #[default]
    Refuse,
    /// A tag is carried with its frame. Not with `uplink_vlan`.
    Transparent,
}

/// Whom routers reach on a logical switch.
#[derive(JsonSchema, Serialize, Default)]
#[serde(rename_all = "lowercase")]
enum Neighbours {
    /// Also who answers when they ask by ARP or neighbour discovery.
    #[default]
    Asked,
    /// Only addresses that ports declare.
    Declared,
}

/// What happens to unicast without an FDB entry.
#[derive(JsonSchema, Serialize, Default)]
#[serde(rename_all = "lowercase")]
enum UnknownUnicast {
    /// It is dropped.
    #[default]
    Drop,
    /// It is copied to the flood list.
    Flood,
}

/// A logical port.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LogicalPort {
    /// Name of its logical switch.
    switch: Name,
    /// Name of its host.
    host: Name,
    /// Its device on that host.
    device: Device,
    /// The network namespace in which whoever makes its device leaves it, for example `c1`; `apply` takes it from there.
    #[schemars(with = "Netns", default, skip_serializing_if = "Option::is_none")]
    netns: Option<Netns>,
    /// Its unicast MAC, unique in the switch.
    mac: MacText,
    /// Its addresses, unique in the switch; ARP and ND for them are answered locally.
    #[schemars(default)]
    addresses: Vec<Address>,
    /// Addresses and networks that it may use beside its own. Ports of the switch may share a single address.
    #[schemars(default, extend("uniqueItems" = true))]
    allowed_addresses: Vec<NetworkText>,
    /// MACs that it may use beside its own. Ports of the switch may share them.
    #[schemars(default, extend("uniqueItems" = true))]
    allowed_macs: Vec<MacText>,
    /// Its number in the switch. Default: derived from its name.
    #[schemars(
        with = "u16",
        default,
        range(min = 1, max = PortKey::MAX),
        skip_serializing_if = "Option::is_none"
    )]
    key: Option<u16>,
    /// The VLAN tag that is this port on its device (a trunk). Default: the port is what comes untagged.
    #[schemars(
        with = "u16",
        default,
        range(min = 1, max = VlanId::MAX),
        skip_serializing_if = "Option::is_none"
    )]
    vlan: Option<u16>,
    /// How much of what it sends must be its own.
    #[schemars(default)]
    security: Security,
    /// What it may send although port security refuses it.
    #[schemars(default, extend("uniqueItems" = true))]
    allow: Vec<Allow>,
    /// Whether MACs that the fabric does not know are learned behind it.
    #[schemars(default)]
    learning: Learning,
    /// How much of what all share it may have. Default: what its switch says.
    #[schemars(default)]
    limits: Limits,
}

/// A network namespace: a name as `ip netns` has it, the absolute path of its file, or the number of a process.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Netns {
    /// That of the process with this number.
    Process(#[schemars(range(min = 1, max = netns::Netns::MOST_PROCESSES))] u32),
    /// By name or path.
    Text(NetnsText),
}

/// How much of what a port sends must be its own.
#[derive(JsonSchema, Serialize, Default)]
#[serde(rename_all = "lowercase")]
enum Security {
    /// MAC and, where the port has any, addresses.
    #[default]
    Strict,
    /// The MAC.
    Mac,
    /// Nothing.
    Off,
}

/// What port security refuses unless it is allowed.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Allow {
    /// Answers of a DHCP or DHCPv6 server.
    DhcpServer,
    /// Router advertisements and redirects.
    RouterAdvertisement,
}

/// Whether MACs are learned, or how.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Learning {
    /// Whether, with the defaults.
    Switch(bool),
    /// How.
    Settings(LearningSettings),
}

impl Default for Learning {
    fn default() -> Self {
        Self::Switch(false)
    }
}

/// How MACs are learned.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
struct LearningSettings {
    /// The most MACs at a time.
    #[schemars(default = "learning_limit", range(min = 1, max = tables::Learning::LIMIT_MAX))]
    limit: u32,
    /// Seconds without a packet after which a MAC is forgotten.
    #[schemars(default = "learning_age", range(min = 1, max = tables::Learning::AGE_S_MAX))]
    age: u32,
}

fn learning_limit() -> u32 {
    tables::Learning::default().limit
}

fn learning_age() -> u32 {
    tables::Learning::default().age_s
}
