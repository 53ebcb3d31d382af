//! The fabric file, its validation, and its compilation to the tables of one host.
//!
//! A file's way: `yaml` (text → tree with places) → `decode` (tree → draft, each value right by
//! itself; with `record`, `values`, `networks` and `scalar`) → `check` (the values together) → `build` (draft → [`Fabric`]) → `compile` ([`Fabric`] →
//! [`Tables`]). Mistakes are gathered all the way and shown at once ([`FabricErrors`]).

#![forbid(unsafe_code)]

mod build;
mod check;
pub mod classifier;
mod compile;
pub mod cookie;
mod decode;
mod diagnostic;
mod fabric;
mod keys;
mod meaning;
mod moved;
pub mod mtu;
mod names;
mod netns;
mod networks;
mod prefixes;
mod record;
mod render;
mod scalar;
mod schema;
#[cfg(test)]
mod schema_test;
pub mod sizes;
mod special;
mod tables;
mod template;
mod values;
mod verdict;
mod yaml;

pub use compile::CompileError;
pub use diagnostic::{Diagnostic, FabricErrors, Related, Severity, nearest};
pub use fabric::{
    Allow, Fabric, GatewayHost, Group, GuestVlan, Host, Interface, Limits, MAX_FILE_BYTES,
    Neighbours, Network, NonIp, Part, Peer, Policy, Port, PortSet, ReversePath, Router, Rule,
    Security, StaticRoute, Switch, SwitchFirewall, UnknownUnicast,
};
pub use moved::{
    MovedConnection, MovedConnections, MovedEnd, MovedEnds, MovedError, MovedMarks, MovedState,
};
pub use names::{DeviceName, Name, NameError, OWN_DEVICES};
pub use netns::{Netns, NetnsError};
pub use render::{Report, escaped, is_printable, json_error, printable};
pub use schema::schema;
pub use special::{Special, is_end_of, special, special_described};
pub use tables::{
    Action, Asks, Attachment, Direction, Dscp, Encapsulation, FdbEntry, FirewallTable,
    FloatingAddress, FloatingMac, FloodMember, Gateway, GatewayPlace, GeneveOptions, Learning,
    NatKind, NatRule, Neighbour, NextHop, Origin, Place, PortFirewall, PortLimits, PortSecurity,
    PortTable, Remote, Route, RouterId, RouterInterface, RouterTable, RuleTable, Service, Side,
    SwitchId, SwitchTable, Tables, Timeouts, Tunnel, VlanError, VlanId, Way,
};
pub use verdict::{Hook, Verdict};

/// Reads and validates a fabric file.
pub fn load(path: impl AsRef<std::path::Path>) -> Result<Fabric, FabricErrors> {
    Fabric::load(path.as_ref())
}
