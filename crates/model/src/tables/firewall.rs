//! The firewall of one host: the rules that name one of its ports, in the order in which they are
//! tried. `docs/semantics.md`, conntrack and acl, says what the data path does with them.

use std::fmt;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use overlane_wire::PortKey;
use serde::{Deserialize, Serialize};

use crate::names::Name;
use crate::tables::SwitchId;

/// The rules of one host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct FirewallTable {
    /// In the order in which they are tried: by priority, the highest first, then by line.
    pub rules: Vec<RuleTable>,
    /// A hash over all that decides whether a new connection is allowed. A connection that was admitted
    /// by another version is judged again.
    pub version: u32,
}

impl FirewallTable {
    /// The version of no rules: a connection that came from another host has it, and is judged here.
    pub const NO_VERSION: u32 = 0;
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RuleTable {
    /// Its name in the fabric.
    pub name: Name,
    /// Its line in the fabric file.
    pub line: u32,
    /// Higher is tried first.
    pub priority: u16,
    /// Which packets of its ports it looks at.
    pub direction: Direction,
    /// Its ports on this host, in order.
    pub ports: Vec<(SwitchId, PortKey)>,
    /// The other end's address is in one of these networks; `None`: any, of both families.
    pub peers: Option<Vec<IpNet>>,
    /// The packet is for one of these; `None`: any.
    pub services: Option<Vec<Service>>,
    /// What becomes of the packet.
    pub action: Action,
    /// Each packet that it decides is written into the log.
    pub log: bool,
}

/// Of packets at a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// What it sends.
    FromPort,
    /// What it gets.
    ToPort,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::FromPort, Self::ToPort];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FromPort => "from_port",
            Self::ToPort => "to_port",
        })
    }
}

/// A protocol, or a part of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Everything with this protocol number.
    Protocol(u8),
    /// Destination ports of TCP, UDP or SCTP.
    Ports {
        /// Its number.
        protocol: u8,
        /// First and last.
        first: u16,
        /// See `first`.
        last: u16,
    },
    /// Messages of ICMP or ICMPv6.
    Icmp {
        /// 1 or 58.
        protocol: u8,
        /// Of the message.
        kind: u8,
        /// Of the message; `None`: all.
        code: Option<u8>,
    },
}

impl Service {
    /// Protocol and what stands for the destination port: of ICMP type and code. `None`: all of them.
    pub fn range(&self) -> (u8, Option<RangeInclusive<u16>>) {
        match *self {
            Self::Protocol(protocol) => (protocol, None),
            Self::Ports {
                protocol,
                first,
                last,
            } => (protocol, Some(first..=last)),
            Self::Icmp {
                protocol,
                kind,
                code,
            } => {
                let first = u16::from(kind) << 8 | u16::from(code.unwrap_or(0));
                let last = u16::from(kind) << 8 | u16::from(code.unwrap_or(0xff));
                (protocol, Some(first..=last))
            }
        }
    }
}

/// What a rule does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It passes, and begins a connection whose packets pass too.
    Allow,
    /// It passes.
    AllowStateless,
    /// It is lost.
    Drop,
    /// It is lost, and the sender is told.
    Reject,
}

impl Action {
    /// All.
    pub const ALL: [Self; 4] = [Self::Allow, Self::AllowStateless, Self::Drop, Self::Reject];
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::AllowStateless => "allow_stateless",
            Self::Drop => "drop",
            Self::Reject => "reject",
        })
    }
}

/// What the rules of a port and direction want to know of a packet. What cannot be seen of it then is a reason to drop it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Asks {
    /// What it carries.
    pub protocol: bool,
    /// Its ports, or ICMP's type.
    pub ports: bool,
}

/// What a port with a firewall does with packets that no rule matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PortFirewall {
    /// With what it sends: `true`: drop, else allow statefully.
    pub drop_from_port: bool,
    /// With what it gets.
    pub drop_to_port: bool,
    /// Without a place for a new connection its packet passes; else it is dropped.
    pub allow_when_full: bool,
    /// Frames that are neither IP nor ARP are dropped, but for those that the switch lets pass.
    pub drop_non_ip: bool,
    /// What its rules ask for, of what it sends.
    pub asks_from_port: Asks,
    /// Of what it gets.
    pub asks_to_port: Asks,
}

impl PortFirewall {
    /// What its rules ask for.
    pub fn asks(&self, direction: Direction) -> Asks {
        match direction {
            Direction::FromPort => self.asks_from_port,
            Direction::ToPort => self.asks_to_port,
        }
    }
}
