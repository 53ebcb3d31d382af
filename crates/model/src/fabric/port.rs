//! A logical port of the [`Fabric`](crate::Fabric).

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use overlane_wire::{Mac, PortKey};

use super::Limits;
use crate::names::Name;
use crate::netns::Netns;
use crate::tables::{Attachment, Learning};

/// How much of what a port sends is compared with what the fabric says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Security {
    /// MAC and, where the port has any, addresses.
    #[default]
    Strict,
    /// MAC only: a guest that routes or balances for others.
    Mac,
    /// Nothing.
    Off,
}

impl Security {
    /// All.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Mac, Self::Off];
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Strict => "strict",
            Self::Mac => "mac",
            Self::Off => "off",
        })
    }
}

/// What port security refuses unless the port is allowed it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Allow {
    /// Answers of a DHCP or DHCPv6 server.
    DhcpServer,
    /// Router advertisements and redirects.
    RouterAdvertisement,
}

impl Allow {
    /// Both.
    pub const ALL: [Self; 2] = [Self::DhcpServer, Self::RouterAdvertisement];
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DhcpServer => "dhcp_server",
            Self::RouterAdvertisement => "router_advertisement",
        })
    }
}

/// The only address in a network, if there is only one.
pub(crate) fn single(network: IpNet) -> Option<IpAddr> {
    (network.prefix_len() == network.max_prefix_len()).then(|| network.addr())
}

/// A logical port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its name.
    pub name: Name,
    /// Its logical switch.
    pub switch: Name,
    /// Its host.
    pub host: Name,
    /// Where it is attached on that host.
    pub attachment: Attachment,
    /// Where its device is left by whoever makes it, if not on the host.
    pub netns: Option<Netns>,
    /// Its MAC.
    pub mac: Mac,
    /// Its addresses, in order.
    pub addresses: Vec<IpAddr>,
    /// What it may use beside them, in order. A single address is floating: others may be allowed it, too.
    pub allowed_addresses: Vec<IpNet>,
    /// Floating MACs, which it may use beside its own, in order: others may be allowed them, too.
    pub allowed_macs: Vec<Mac>,
    /// Its number in the switch: declared, or derived from its name.
    pub key: PortKey,
    /// How much of what it sends is checked.
    pub security: Security,
    /// What it may send nevertheless, in order.
    pub allow: Vec<Allow>,
    /// Whether MACs the fabric does not know are learned behind it.
    pub learning: Option<Learning>,
    /// What its switch says otherwise.
    pub limits: Limits,
    /// Where the file declares it.
    pub line: u32,
}
