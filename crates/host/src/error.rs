//! Why `apply`, `remove` or `show` could not do their work, and what helps.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use overlane_ebpf::EbpfError;
use overlane_net::NetError;
use serde::Serialize;
use thiserror::Error;

use crate::{Distrust, Holder};

/// Any failure of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The data path or its rights.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// The kernel's verifier refused a program; all that it said is in a file.
    #[error("{cause} (verifier's log: {})", log.display())]
    Refused {
        /// Which program, which kernel, why.
        cause: Box<EbpfError>,
        /// The file.
        log: PathBuf,
    },
    /// Devices, neighbours, namespaces.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Hooks of one CPU would interrupt each other.
    #[error(
        "this kernel is built with PREEMPT_RT, on which the data path cannot keep packets apart"
    )]
    Realtime,
    /// Another process works on the same host.
    #[error("host {host} is locked by {holder}")]
    Locked {
        /// The host.
        host: String,
        /// Who holds the lock.
        holder: Holder,
    },
    /// Another process captures packets of the same host.
    #[error("packets of host {host} are being captured by {holder}")]
    Capturing {
        /// The host.
        host: String,
        /// Who captures.
        holder: Holder,
    },
    /// Another process reads the log of the host's rules.
    #[error("the log of host {host} is being read by {holder}")]
    ReadingLog {
        /// The host.
        host: String,
        /// Who reads.
        holder: Holder,
    },
    /// The host has neither a port nor a router of this name.
    #[error("host {host} has no port and no router `{name}`")]
    NoPortOrRouter {
        /// The host.
        host: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The host has neither a port nor a remote of this name.
    #[error("host {host} has no port and no remote `{name}`")]
    NoPortOrRemote {
        /// The host.
        host: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The host has no port of this name.
    #[error("host {host} has no port `{name}`")]
    NoPort {
        /// The host.
        host: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Connections of one port for another one.
    #[error("these are connections of {what} {file}, and not of {what} {here}")]
    OtherPort {
        /// What of it differs.
        what: &'static str,
        /// In the file.
        file: String,
        /// On this host.
        here: String,
    },
    /// Connections for a port where nothing would follow them.
    #[error(
        "port {port} has no firewall on host {host}: nothing follows its {connections} connections there"
    )]
    NoFirewall {
        /// The host.
        host: String,
        /// The port.
        port: String,
        /// How many came.
        connections: usize,
    },
    /// The table of connections is full.
    #[error(
        "{left_out} of {all} connections have no place on host {host}: its table is full; the others go on"
    )]
    ConnectionsFull {
        /// The host.
        host: String,
        /// How many did not fit.
        left_out: usize,
        /// How many came.
        all: usize,
    },
    /// What the state file says of a port cannot be.
    #[error("the {what} of port {port} cannot be understood")]
    PortUnclear {
        /// The port.
        port: String,
        /// What of it.
        what: String,
    },
    /// The kernel refused something that has no file and no device.
    #[error("cannot {operation}")]
    System {
        /// As a verb.
        operation: &'static str,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// The clock of this process may be another one than that of the data path.
    #[error("the offsets of this time namespace cannot be understood: {text:?}")]
    TimeNamespace {
        /// What the kernel says.
        text: String,
    },
    /// There is no such namespace.
    #[error("no network namespace {0}")]
    NoNamespace(String),
    /// Devices of the fabric that the namespace does not have.
    #[error("no such device: {} ({})", list(devices), of(namespace.as_deref()))]
    MissingDevices {
        /// Each with what it is for.
        devices: Vec<UnfitDevice>,
        /// Missing too, and no reason to fail.
        besides: Vec<UnfitDevice>,
        /// The namespace; none for the one of this process.
        namespace: Option<String>,
    },
    /// Devices of the fabric that carry no Ethernet frames.
    #[error("layer-3 device: {} ({})", list(devices), of(namespace.as_deref()))]
    Layer3Devices {
        /// Each with what it is for.
        devices: Vec<UnfitDevice>,
        /// The namespace; none for the one of this process.
        namespace: Option<String>,
    },
    /// The uplink lacks the tunnel end point's address.
    #[error("uplink {uplink} does not have the underlay address {address} ({})", of(namespace.as_deref()))]
    NoVtepAddress {
        /// The uplink.
        uplink: String,
        /// The address of the fabric file.
        address: IpAddr,
        /// The namespace.
        namespace: Option<String>,
    },
    /// Addresses of the host that a router on it would take packets for.
    #[error("a router would take packets from this host: {} ({})", list(addresses), of(namespace.as_deref()))]
    TakenAddresses {
        /// Each with the router.
        addresses: Vec<TakenAddress>,
        /// The namespace.
        namespace: Option<String>,
    },
    /// The tunnel header leaves too little of the uplink's MTU.
    #[error("uplink {uplink} has MTU {mtu}, the tunnel needs at least {needs}")]
    MtuTooSmall {
        /// The uplink.
        uplink: String,
        /// What it has.
        mtu: u32,
        /// What it should have.
        needs: u32,
    },
    /// Programs of ours that no pin of this host holds would take the packets before those that it attaches.
    #[error("an older data path is still attached: {}", list(.0))]
    Leftovers(Vec<Leftover>),
    /// Two hosts in one namespace would share devices.
    #[error("host {other} is applied in this namespace already")]
    NamespaceTaken {
        /// The other host.
        other: String,
    },
    /// The host runs in another namespace.
    #[error("host {host} is applied in {}", of(namespace.as_deref()))]
    AppliedElsewhere {
        /// The host.
        host: String,
        /// Where it is.
        namespace: Option<String>,
    },
    /// Nothing of this host is on the machine.
    #[error("host {0} is not applied on this machine")]
    NotApplied(String),
    /// No host was named and none is applied.
    #[error("no host is applied on this machine")]
    NoneApplied,
    /// No host was named and several are applied.
    #[error("several hosts are applied on this machine: {}", .0.join(", "))]
    SeveralApplied(Vec<String>),
    /// The pinned maps belong to another build.
    #[error("host {0} was applied by another version of this program")]
    OtherVersion(String),
    /// A file could not be read or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// As a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// All is gone that could be found, and nothing says whether there was more.
    #[error("host {host} is removed, but for what nothing tells of any more: {}", things.join(", "))]
    LeftUnknown {
        /// The host.
        host: String,
        /// What may be left.
        things: Vec<String>,
    },
    /// A file or a folder that somebody else may have filled.
    #[error("{} is not used: {why}", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: Distrust,
    },
    /// The state file makes no sense.
    #[error("{} cannot be understood", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The addresses of the namespace could not be listed.
    #[error("cannot list the addresses of the devices")]
    Addresses(#[source] nix::errno::Errno),
    /// Apply failed, and not everything could be put back.
    #[error("{cause}; and not everything could be put back: {}", list(failures))]
    RollBack {
        /// Why apply failed.
        cause: Box<Self>,
        /// What resisted.
        failures: Vec<Self>,
    },
    /// A test asked for a failure.
    #[doc(hidden)]
    #[error("failed on purpose before operation {0}")]
    Injected(usize),
}

/// A device the fabric names and the namespace lacks, or has of the wrong kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnfitDevice {
    /// Its name.
    pub device: String,
    /// What it should be.
    pub used_as: UsedAs,
    /// Names of the ports, or of the router.
    pub by: Vec<String>,
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
        match (self.used_as, self.by.len()) {
            (UsedAs::Uplink, _) => write!(f, "{} (uplink)", self.device),
            (UsedAs::Port, 1) => write!(f, "{} (port {by})", self.device),
            (UsedAs::Port, _) => write!(f, "{} (ports {by})", self.device),
            (UsedAs::Leg, _) => write!(f, "{} (leg of router {by})", self.device),
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

/// How each of them goes.
fn take_off(leftovers: &[Leftover]) -> String {
    let way = |it: &Leftover| match (&it.pinned_by, it.link_id) {
        (Some(host), _) => format!("`overlane remove --host {host}`"),
        (None, 0) => format!(
            "`tc filter` and `bpftool net` show who attached program {}",
            it.program_id
        ),
        (None, link) => format!("`bpftool link detach id {link}`"),
    };
    let mut ways: Vec<_> = leftovers.iter().map(way).collect();
    ways.dedup();
    format!(
        "it would take the packets before the new one; take it off: {}; nothing was changed",
        ways.join(", ")
    )
}

fn wait_for(holder: &Holder, rule: &str) -> String {
    match holder {
        Holder::Process { pid, .. } => {
            format!("{rule}wait until process {pid} is done, or end it (`kill {pid}`)")
        }
        Holder::Unseen => {
            format!("{rule}try again; if it stays so, look for it outside of this container")
        }
    }
}

/// How what is not ours alone becomes fit for use.
fn mend(path: &Path, why: Distrust) -> String {
    let path = path.display();
    match why {
        Distrust::Writable(_) => format!(
            "look whether all in it is root's and yours; then `chmod 700 {path}`, or take it away, and try again; nothing was changed"
        ),
        _ => format!("look who made it, take {path} away, and try again; nothing was changed"),
    }
}

impl HostError {
    pub(crate) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            operation,
            path,
            source,
        }
    }

    /// A file, or the folder in which it should be, is not there.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(crate) fn system(operation: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::System {
            operation,
            source: errno.into(),
        }
    }

    /// What the user can do about it.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Net(error) if error.is_permission() => "run it as root (sudo)".into(),
            error if error.is_device_gone() => {
                "the device went away, or was made anew, meanwhile: try again".into()
            }
            Self::Ebpf(error) => return error.help(),
            Self::Refused { cause, .. } => return cause.help(),
            Self::Realtime => "boot a kernel without PREEMPT_RT (`uname -v` names it)".into(),
            Self::Locked { holder, .. } => wait_for(holder, ""),
            Self::Capturing { holder, .. } => wait_for(holder, "one capture at a time: "),
            Self::ReadingLog { holder, .. } => wait_for(holder, "one reader at a time: "),
            Self::TimeNamespace { .. } => "run it outside of the time namespace".into(),
            Self::NotOurs { path, why } => mend(path, *why),
            Self::LeftUnknown { .. } => {
                "look with `ip -d link` and `ip neighbour`, and take back what nobody else needs; a reboot takes back all".into()
            }
            Self::NoPortOrRouter { known, .. } if known.is_empty() => "it has none".into(),
            Self::NoPortOrRouter { known, .. } => format!("there are {}", known.join(", ")),
            Self::NoPortOrRemote { known, .. } if known.is_empty() => "it has none; `all` and `drops` are always there".into(),
            Self::NoPortOrRemote { known, .. } => format!("there are {}, and `all` and `drops`", known.join(", ")),
            Self::NoPort { known, .. } if known.is_empty() => "it has none; apply the fabric in which the port is on this host first".into(),
            Self::NoPort { known, .. } => {
                format!("there are {}; apply the fabric in which the port is on this host first", known.join(", "))
            }
            Self::OtherPort { .. } => "export the connections of this very port on the host that it leaves; nothing was changed".into(),
            Self::NoFirewall { .. } => {
                "without a firewall its connections go on by themselves; nothing was changed".into()
            }
            Self::ConnectionsFull { .. } => {
                "import again when places are free: it takes what is missing (`overlane show connections`)".into()
            }
            Self::PortUnclear { .. } => "apply again with this version: it writes the state anew".into(),
            Self::NoNamespace(name) => format!("`ip netns list` shows what there is; `ip netns add {name}` makes it"),
            Self::MissingDevices { devices, .. } => {
                let is_uplink = |device: &UnfitDevice| device.used_as == UsedAs::Uplink;
                let or = match devices.iter().any(is_uplink) {
                    true => "",
                    false => ", or apply without --strict what is there",
                };
                format!("create the devices first, or correct the names in the fabric file{or}; nothing was changed")
            }
            Self::Layer3Devices { .. } => {
                "Overlane carries Ethernet frames: take a veth, TAP or physical device, or create netkit with `mode l2`; nothing was changed"
                    .into()
            }
            Self::NoVtepAddress { uplink, address, .. } => {
                let prefix = if address.is_ipv4() { 24 } else { 64 };
                format!("for example: ip address add {address}/{prefix} dev {uplink}")
            }
            Self::TakenAddresses { .. } => {
                "a host and a router cannot share an address: write another one in the fabric file, or take this one off the device (`ip address delete`); nothing was changed"
                    .into()
            }
            Self::MtuTooSmall { uplink, needs, .. } => format!("ip link set {uplink} mtu {needs}, or more"),
            Self::Leftovers(leftovers) => take_off(leftovers),
            Self::NamespaceTaken { other } => {
                format!("one host per namespace: `overlane remove --host {other}` first, or use --netns")
            }
            Self::AppliedElsewhere { host, .. } => {
                format!("name that namespace with --netns, or `overlane remove --host {host}` first")
            }
            Self::NotApplied(_) | Self::NoneApplied => "`overlane apply FILE --host NAME` applies one".into(),
            Self::SeveralApplied(_) => "name one with --host".into(),
            Self::OtherVersion(_) => "apply it again with this version; traffic goes on meanwhile".into(),
            Self::State { path, .. } => format!("`overlane remove`, then `overlane apply`, writes {} anew", path.display()),
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run it as root (sudo)".into()
            }
            Self::RollBack { .. } => "`overlane apply` again repairs what differs; `overlane remove` takes all away".into(),
            _ => return None,
        })
    }
}

impl HostError {
    /// A device went away, or was made anew, after it was looked at; all is as it was.
    pub(crate) fn is_device_gone(&self) -> bool {
        match self {
            Self::Net(error) => error.is_not_found() && error.device().is_some(),
            Self::Ebpf(error) => error.is_device_gone(),
            _ => false,
        }
    }

    /// Devices that are missing too, and no reason to fail.
    pub fn missing_besides(&self) -> &[UnfitDevice] {
        match self {
            Self::MissingDevices { besides, .. } => besides,
            _ => &[],
        }
    }
}

fn of(namespace: Option<&str>) -> String {
    namespace.map_or_else(
        || "the namespace of this process".to_owned(),
        |name| format!("namespace {name}"),
    )
}

fn list(items: &[impl ToString]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use overlane_net::Netlink;

    use super::*;

    #[test]
    fn a_device_that_went_away_is_worth_another_try() {
        let error = Netlink::new().unwrap().link("nosuch0").unwrap_err();
        let help = HostError::from(error).help();
        assert!(help.is_some_and(|help| help.contains("try again")));
    }
}
