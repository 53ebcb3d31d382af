//! The schema of logical routers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::firewall::{Policy, allow};
use super::text::{
    Address, Device, InterfaceAddress, MacText, Name, NetworkText, PortRange, Socket,
};
use super::timeouts::Timeouts;
use crate::tables::{self, NatKind, PortLimits};

/// A logical router: the same on every host.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Router {
    /// Its unicast MAC on all of its switches. Default: derived from its first interface.
    #[schemars(with = "MacText", default, skip_serializing_if = "Option::is_none")]
    mac: Option<MacText>,
    /// Its addresses, by the name of the switch they are on.
    #[schemars(extend("minProperties" = 1))]
    interfaces: BTreeMap<Name, Addresses>,
    /// Its static routes.
    #[schemars(default)]
    routes: Vec<Route>,
    /// What it asks of a packet's source.
    #[schemars(default = "strict")]
    reverse_path: ReversePath,
    /// Whether the MSS of TCP that it routes is lowered to what fits.
    #[schemars(default)]
    mss_clamp: bool,
    /// Where it meets the physical network.
    #[schemars(with = "Gateway", default, skip_serializing_if = "Option::is_none")]
    gateway: Option<Gateway>,
}

/// Addresses of a router, at least one.
#[derive(JsonSchema)]
#[schemars(transparent, extend("minItems" = 1))]
struct Addresses(Vec<InterfaceAddress>);

/// A static route.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Route {
    /// The network: every one once.
    to: NetworkText,
    /// The next router in a network of this one; or several, which share the packets.
    via: NextHops,
}

/// The next router, or several.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(clippy::enum_variant_names)]
enum NextHops {
    /// One.
    One(Address),
    /// Several.
    Several(#[schemars(extend("minItems" = 1, "uniqueItems" = true))] Vec<Address>),
}

/// Where a router meets the physical network.
#[derive(JsonSchema)]
#[schemars(
    deny_unknown_fields,
    extend("dependentRequired" = { "device": ["addresses"], "addresses": ["device"], "nat": ["device"], "untranslated": ["device"], "connections": ["device"], "timeouts": ["device"] })
)]
struct Gateway {
    /// Name of its host.
    host: Name,
    /// The leg: that host's device in the physical network.
    #[schemars(with = "Device", default, skip_serializing_if = "Option::is_none")]
    device: Option<Device>,
    /// The router's addresses on the leg.
    #[schemars(with = "Addresses", default, skip_serializing_if = "Option::is_none")]
    addresses: Option<Addresses>,
    /// What is translated there. The first entry that fits counts.
    #[schemars(default)]
    nat: Vec<NatRule>,
    /// What becomes of packets that no entry translates.
    #[schemars(default = "allow")]
    untranslated: Policy,
    /// The most translations at a time.
    #[schemars(default = "most_translations", range(min = *PortLimits::CONNECTIONS.start(), max = *PortLimits::CONNECTIONS.end()))]
    connections: u32,
    /// How long they live without a packet.
    #[schemars(default)]
    timeouts: Timeouts,
}

fn most_translations() -> u32 {
    tables::Gateway::CONNECTIONS
}

/// What a router asks of a packet's source.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum ReversePath {
    /// The route to it leads out where the packet came in.
    Strict,
    /// Nothing but that it is not the router's own.
    Off,
}

fn strict() -> ReversePath {
    ReversePath::Strict
}

/// One translation: `one_to_one`, `forward` or `source`.
#[derive(JsonSchema)]
#[schemars(
    deny_unknown_fields,
    extend("oneOf" = [
        { "required": ["one_to_one"] },
        { "required": ["forward", "protocol"] },
        { "required": ["source"] },
    ])
)]
struct NatRule {
    /// An address inside that has an address outside for itself.
    #[schemars(with = "Address", default, skip_serializing_if = "Option::is_none")]
    one_to_one: Option<Address>,
    /// Address and port inside, to which a port outside leads.
    #[schemars(with = "Socket", default, skip_serializing_if = "Option::is_none")]
    forward: Option<Socket>,
    /// A network inside that shares an address outside.
    #[schemars(with = "NetworkText", default, skip_serializing_if = "Option::is_none")]
    source: Option<NetworkText>,
    /// The address outside; of `forward` with its port.
    outside: Outside,
    /// The protocol of a `forward`.
    #[schemars(with = "Protocol", default, skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol>,
    /// First and last outside port of a `source`.
    #[schemars(with = "PortRange", default = "ports")]
    ports: String,
}

fn ports() -> String {
    format!("{}-{}", NatKind::PORTS.start(), NatKind::PORTS.end())
}

/// An address outside, or one of its ports.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Outside {
    /// All of it.
    Address(Address),
    /// One port.
    Socket(Socket),
}

/// A protocol with ports.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}
