//! The schema of rules, and of the default policies of a switch.

use schemars::JsonSchema;
use serde::Serialize;

use super::text::{Name, Peer, Service};
use crate::fabric;

/// A rule of the firewall.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Rule {
    /// Names of ports, groups, or switches (all their ports).
    #[schemars(extend("minItems" = 1))]
    ports: Vec<Name>,
    /// Which packets of these ports it looks at.
    direction: Direction,
    /// What becomes of the packets.
    action: Action,
    /// Higher is tried first; of equals what comes first in the file.
    #[schemars(default = "priority", range(min = 0, max = u16::MAX))]
    priority: u16,
    /// Where the other end is. Default: anywhere.
    #[schemars(
        with = "Vec<Peer>",
        default,
        extend("minItems" = 1),
        skip_serializing_if = "Option::is_none"
    )]
    peers: Option<Vec<Peer>>,
    /// What the packets are for. Default: anything.
    #[schemars(
        with = "Vec<Service>",
        default,
        extend("minItems" = 1),
        skip_serializing_if = "Option::is_none"
    )]
    services: Option<Vec<Service>>,
    /// Whether each packet that it decides is written into the log.
    #[schemars(default)]
    log: bool,
}

fn priority() -> u16 {
    fabric::Rule::PRIORITY
}

/// Which packets of a port.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Direction {
    /// What the port sends.
    FromPort,
    /// What it gets.
    ToPort,
}

/// What becomes of packets.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// They pass, and so do the answers.
    Allow,
    /// They pass, one by one.
    AllowStateless,
    /// They are dropped.
    Drop,
    /// They are dropped, and the sender is told.
    Reject,
}

/// What the ports of a switch do with packets that no rule matches.
#[derive(JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub(super) struct Firewall {
    /// With what a port sends.
    #[schemars(default = "allow")]
    from_port: Policy,
    /// With what a port gets.
    #[schemars(default = "allow")]
    to_port: Policy,
    /// With the first packet of a connection that finds no place in the table.
    #[schemars(default = "drop_when_full")]
    when_full: Policy,
    /// With frames that are neither IP nor ARP; a list has the EtherTypes that pass. Default: `drop` where `from_port` or
    /// `to_port` is `drop`.
    #[schemars(with = "NonIp", default, skip_serializing_if = "Option::is_none")]
    non_ip: Option<NonIp>,
}

/// What becomes of frames that are neither IP nor ARP.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(super) enum NonIp {
    /// All of them.
    All(Policy),
    /// These pass, the others are dropped.
    Passing(
        #[schemars(extend("maxItems" = fabric::NonIp::MOST, "uniqueItems" = true))] Vec<EtherType>,
    ),
}

/// An EtherType, like 0x88cc; not that of IP, ARP or a VLAN tag.
#[derive(JsonSchema, Serialize)]
#[schemars(transparent)]
pub(super) struct EtherType(#[schemars(range(min = fabric::NonIp::FIRST, max = u16::MAX))] u32);

impl Default for Firewall {
    fn default() -> Self {
        Self {
            from_port: allow(),
            to_port: allow(),
            when_full: drop_when_full(),
            non_ip: None,
        }
    }
}

pub(super) fn allow() -> Policy {
    Policy::Allow
}

fn drop_when_full() -> Policy {
    Policy::Drop
}

/// What becomes of packets about which no rule says anything.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Policy {
    /// They pass.
    Allow,
    /// They are dropped.
    Drop,
}
