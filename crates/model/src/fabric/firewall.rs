//! The firewall of the [`Fabric`](crate::Fabric): rules, and the sets of ports and addresses that they
//! name. References are kept as names; they are followed when the fabric is compiled for a host.

use ipnet::IpNet;

use crate::names::Name;
use crate::tables::{Action, Direction, Service};

/// A named set of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name.
    pub name: Name,
    /// Its ports, in order, each once.
    pub ports: Vec<Name>,
    /// Where the file declares it.
    pub line: u32,
}

/// A named set of addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// Its name.
    pub name: Name,
    /// Its networks, in order, each once.
    pub networks: Vec<IpNet>,
    /// Where the file declares it.
    pub line: u32,
}

/// A rule of the firewall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Its name.
    pub name: Name,
    /// The ports whose packets it looks at.
    pub ports: Vec<PortSet>,
    /// Which of their packets.
    pub direction: Direction,
    /// What becomes of them.
    pub action: Action,
    /// Higher is tried first, and of equals what stands first in the file.
    pub priority: u16,
    /// Where the other end is; `None`: anywhere.
    pub peers: Option<Vec<Peer>>,
    /// What the packets are for, in order, each once; `None`: anything.
    pub services: Option<Vec<Service>>,
    /// Whether what it decides is written into the log.
    pub log: bool,
    /// Where the file declares it.
    pub line: u32,
}

impl Rule {
    /// The priority of a rule that names none.
    pub const PRIORITY: u16 = 1000;
}

/// Ports that a rule names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortSet {
    /// This one.
    Port(Name),
    /// Those of a group.
    Group(Name),
    /// Those of a switch.
    Switch(Name),
}

/// Addresses that a rule names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// One network or address.
    Addresses(IpNet),
    /// A named set of them.
    Network(Name),
    /// The addresses that these ports are known by: `docs/semantics.md`, ACL-12.
    Ports(PortSet),
}
