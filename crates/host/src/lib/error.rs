//! Why `apply`, `remove` or `show` could not do their work, and what helps.

mod devices;
mod help;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use overlane_ebpf::EbpfError;
use overlane_model::{CompileError, FabricErrors, MovedError, Netns};
use overlane_net::NetError;
use thiserror::Error;

pub use self::devices::{Absence, NotElsewhere, OtherName, UnfitDevice, UsedAs};
pub(crate) use self::devices::{Leftover, TakenAddress, TakenBy};
use super::distrust::Distrust;
use super::holder::Holder;

/// The error and what is behind it, `: ` between; what a text contains already is not said twice.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(source) = behind {
        let more = source.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        behind = source.source();
    }
    text
}

/// Any failure of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no valid fabric.
    #[error(transparent)]
    Fabric(#[from] FabricErrors),
    /// The fabric has no tables for the host that was named.
    #[error(transparent)]
    Compile(#[from] CompileError),
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
    /// Another agent keeps the same host.
    #[error("host {host} is kept by {holder}")]
    AgentRuns {
        /// The host.
        host: String,
        /// Who keeps it.
        holder: Holder,
    },
    /// The agent of a host gave no answer.
    #[error("the agent of host {host} is of no help: {why}")]
    Agent {
        /// The host.
        host: String,
        /// What it did in place of answering.
        why: String,
    },
    /// The system gives this process no more threads.
    #[error("no thread to {what}")]
    Thread {
        /// What it was for.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An agent would make anew what is taken away.
    #[error("an agent keeps host {0}, and would make it anew")]
    KeptByAgent(String),
    /// Nobody keeps the host.
    #[error("no agent keeps host {0}")]
    NoAgent(String),
    /// The settings of the agent make no sense.
    #[error("{}: {what}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Nobody said which host this machine is.
    #[error("which host of the fabric is this machine?")]
    WhichHost,
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
    /// Connections that cannot be.
    #[error(transparent)]
    Moved(#[from] MovedError),
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
    /// Names in the fabric that are other names of devices.
    #[error("{} ({})", list(names), of(namespace.as_deref()))]
    OtherNames {
        /// Each with the device's own.
        names: Vec<OtherName>,
        /// The namespace; none for the one of this process.
        namespace: Option<String>,
    },
    /// The device of a port is in another network namespace, and the kernel does not let it come.
    #[error("cannot take device {device} of port {} from network namespace {netns}: {source}", ports.join(", "))]
    NotTakenIn {
        /// The device.
        device: String,
        /// The ports on it.
        ports: Vec<String>,
        /// Where it is.
        netns: Netns,
        /// The kernel's answer.
        source: Box<NetError>,
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
    /// Its state file has no tables that could be applied again.
    #[error(
        "nobody kept what was applied to host {0}: an earlier version applied it, or its first apply was interrupted"
    )]
    TablesUnknown(String),
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
    /// All is gone that the state file and the record list; this may be left.
    #[error("host {host} is removed, except what neither its state file nor its record lists: {}", things.join(", "))]
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

    /// A device went away, or was made anew, after it was looked at; all is as it was.
    pub(crate) fn is_device_gone(&self) -> bool {
        match self {
            Self::Net(error) => error.is_not_found() && error.device().is_some(),
            // Another device has got its index here.
            Self::NotTakenIn { source, .. } => source.is_not_found() || source.is_busy(),
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
