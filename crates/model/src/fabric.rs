//! The whole declared network, valid: there is no way to a [`Fabric`] but through a file without
//! mistakes. From here it is [compiled](Fabric::compile) for one host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::names::{DeviceName, Name};
use crate::render::Report;
use crate::tables::{GeneveOptions, Tunnel};

mod firewall;
mod parts;
mod port;
mod router;
mod switch;

pub use firewall::{Group, Network, Peer, PortSet, Rule};
pub use parts::Part;
pub(crate) use port::single;
pub use port::{Allow, Port, Security};
pub(crate) use router::derived_mac;
pub use router::{GatewayHost, Interface, ReversePath, Router, StaticRoute};
pub use switch::{
    GuestVlan, Limits, Neighbours, NonIp, Policy, Switch, SwitchFirewall, UnknownUnicast,
};

/// The most that is read of a fabric file.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A valid fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fabric {
    pub(crate) tunnel: Tunnel,
    pub(crate) hosts: BTreeMap<Name, Host>,
    pub(crate) switches: BTreeMap<Name, Switch>,
    pub(crate) ports: BTreeMap<Name, Port>,
    pub(crate) groups: BTreeMap<Name, Group>,
    pub(crate) networks: BTreeMap<Name, Network>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) routers: BTreeMap<Name, Router>,
    pub(crate) warnings: Option<Box<Report>>,
}

/// One chassis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name.
    pub name: Name,
    /// Address of its VTEP.
    pub underlay: IpAddr,
    /// Its underlay device.
    pub uplink: DeviceName,
    /// What the Geneve header of a packet to it carries; without meaning in VXLAN.
    pub options: GeneveOptions,
    /// The most connections at a time, a power of two.
    pub connections: u32,
    /// Its number among the hosts of the file.
    pub order: usize,
    /// Where the file declares it.
    pub line: u32,
}

impl Fabric {
    /// What may work, but hardly as it was meant; `None`: nothing.
    pub fn warnings(&self) -> Option<&Report> {
        self.warnings.as_deref()
    }

    /// Settings of the tunnels.
    pub fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    /// Every host, by name.
    pub fn hosts(&self) -> &BTreeMap<Name, Host> {
        &self.hosts
    }

    /// Every logical switch, by name.
    pub fn switches(&self) -> &BTreeMap<Name, Switch> {
        &self.switches
    }

    /// Every logical port, by name.
    pub fn ports(&self) -> &BTreeMap<Name, Port> {
        &self.ports
    }

    /// Every named set of ports, by name.
    pub fn groups(&self) -> &BTreeMap<Name, Group> {
        &self.groups
    }

    /// Every named set of addresses, by name.
    pub fn networks(&self) -> &BTreeMap<Name, Network> {
        &self.networks
    }

    /// Every rule of the firewall, in the order in which they are tried.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Every logical router, by name.
    pub fn routers(&self) -> &BTreeMap<Name, Router> {
        &self.routers
    }
}
