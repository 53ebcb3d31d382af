//! What errors name: devices, programs on them, and addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use overlane_model::Netns;
use serde::Serialize;

/// A device the fabric names and the namespace lacks, or has of the wrong kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnfitDevice {
    /// Its name.
    pub device: String,
    /// What it should be.
    pub used_as: UsedAs,
    /// Names of the ports, or of the router.
    pub by: Vec<String>,
    /// Where else a port's device was looked for (`netns`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<NotElsewhere>,
}

/// Another network namespace from which a device does not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotElsewhere {
    /// As declared.
    pub netns: Netns,
    /// What is wrong there.
    pub why: Absence,
}

/// Why a device does not come from another network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absence {
    /// There is no such namespace: a container that does not run.
    NoNamespace,
    /// There is such a file, and it is that of no network namespace.
    #[serde(rename = "not_a_namespace")]
    NotANamespace,
    /// The namespace has no such device.
    NoDevice,
    /// It is another name (`altname`) of the device with this one.
    OtherName(String),
    /// The kernel does not let it come.
    NotTaken,
    /// The namespace cannot be looked into, for this reason.
    Unreadable(String),
}

/// A name in the fabric that no device goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherName {
    /// With this name.
    pub device: UnfitDevice,
    /// The device that has it as another name (`altname`).
    pub of: String,
}

/// What the fabric uses a device as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UsedAs {
    /// The uplink.
    Uplink,
    /// Of a logical port, or on a trunk of several.
    Port,
    /// The leg of a router.
    Leg,
}

impl UsedAs {
    /// What is lost without the device, for so many who use it.
    pub fn lost(self, users: usize) -> &'static str {
        match (self, users) {
            (Self::Uplink, _) => "nothing reaches the other hosts",
            (Self::Port, 1) => "the port has no network",
            (Self::Port, _) => "the ports have no network",
            (Self::Leg, _) => "the router reaches no physical network",
        }
    }
}

/// A program of ours at the hook of a device, of a data path that is nobody's any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The device.
    pub device: String,
    /// Name of the program.
    pub program: String,
    /// The kernel's number of it.
    pub program_id: u32,
    /// The kernel's number of the link that holds it there; 0: it was attached without one.
    pub link_id: u32,
    /// The host whose pin holds the link.
    pub pinned_by: Option<String>,
    /// Processes that hold the link.
    pub processes: BTreeSet<u32>,
}

/// An address of the host, and the router that packets to it would be for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenAddress {
    /// The address.
    pub address: IpAddr,
    /// The device of the host that has it.
    pub device: String,
    /// The router.
    pub router: String,
    /// Why.
    pub by: TakenBy,
}

/// Why packets to an address are a router's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenBy {
    /// It is one of its addresses, or an outside one of its `nat`.
    Own {
        /// Where the fabric file says so.
        line: u32,
    },
    /// It is in a network that lies inside.
    Network {
        /// The network.
        network: IpNet,
        /// Where the fabric file says so.
        line: u32,
    },
    /// It is the address of the logical port with this name.
    Port(String),
}

impl std::fmt::Display for TakenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, device, router) = (self.address, &self.device, &self.router);
        write!(f, "{address} of {device} (")?;
        match &self.by {
            TakenBy::Own { line } => write!(f, "address of router {router}, line {line})"),
            TakenBy::Network { network, line } => {
                write!(f, "in {network} inside router {router}, line {line})")
            }
            TakenBy::Port(port) => write!(f, "address of port {port} inside router {router})"),
        }
    }
}

impl std::fmt::Display for UnfitDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = self.by.join(", ");
        write!(f, "{} (", self.device)?;
        match (self.used_as, self.by.len()) {
            (UsedAs::Uplink, _) => f.write_str("uplink"),
            (UsedAs::Port, 1) => write!(f, "port {by}"),
            (UsedAs::Port, _) => write!(f, "ports {by}"),
            (UsedAs::Leg, _) => write!(f, "leg of router {by}"),
        }?;
        match &self.elsewhere {
            Some(elsewhere) => write!(f, "; {elsewhere})"),
            None => f.write_str(")"),
        }
    }
}

impl std::fmt::Display for OtherName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is another name of device {}", self.device, self.of)
    }
}

impl std::fmt::Display for NotElsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let netns = &self.netns;
        match &self.why {
            Absence::NoNamespace => write!(f, "there is no network namespace {netns}"),
            Absence::NotANamespace => {
                write!(f, "{} is not a network namespace", netns.path().display())
            }
            Absence::NoDevice => write!(f, "network namespace {netns} has none either"),
            Absence::OtherName(device) => {
                write!(
                    f,
                    "in network namespace {netns} it is another name of device {device}"
                )
            }
            Absence::NotTaken => write!(f, "it does not come from network namespace {netns}"),
            Absence::Unreadable(why) => {
                write!(f, "network namespace {netns} cannot be looked into: {why}")
            }
        }
    }
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (program, id) = (&self.program, self.program_id);
        write!(f, "{} (program {program}, id {id}", self.device)?;
        if let Some(host) = &self.pinned_by {
            write!(f, ", pinned by host {host}")?;
        }
        for process in &self.processes {
            write!(f, ", held by process {process}")?;
        }
        f.write_str(")")
    }
}
