//! What `apply` and `remove` tell their caller: the difference, line by line, and what to know besides.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use crate::announce::Announcements;
use crate::answers::Answer;
use crate::detours::Detour;
use crate::error::UnfitDevice;
use crate::paths;

/// The outcome of [`crate::apply`].
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The host that was applied.
    pub host: String,
    /// True when nothing was changed because only the difference was asked for.
    pub dry_run: bool,
    /// What differed; empty when the machine was already as the fabric says.
    pub changes: Vec<Change>,
    /// Devices of ports and of legs that are not there. The fabric is applied without them.
    pub missing: Vec<UnfitDevice>,
    /// What the physical network is told of: addresses that are answered for here, and were not before.
    pub announced: Vec<Announced>,
    /// What works but deserves a look.
    pub notes: Vec<Note>,
    /// Announcements that are left to be made: [`Announcements::start`] has them made.
    #[serde(skip)]
    pub announcements: Option<Announcements>,
}

/// What is announced by one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Announced {
    /// The device.
    pub device: String,
    /// The VLAN on it.
    pub vlan: Option<u16>,
    /// Addresses; of a guest without any, its MAC.
    pub addresses: Vec<String>,
}

/// The outcome of [`crate::remove()`].
#[derive(Debug, Clone, Serialize)]
pub struct Removal {
    /// The host that was removed.
    pub host: String,
    /// What was taken away, one readable line each; empty when there was nothing.
    pub removed: Vec<String>,
}

/// One line of the difference. Displays as `+ port web1 (device web1, key 7)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Added, changed or removed.
    pub kind: ChangeKind,
    /// The thing in words, without the sign.
    pub what: String,
}

/// The sign of a [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// `+`
    Add,
    /// `~`
    Modify,
    /// `-`
    Remove,
}

/// Something that does not stop `apply` and that its user should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Full-size packets of the port do not fit into the underlay with the tunnel header around them.
    PortMtu {
        /// The logical port.
        port: String,
        /// MTU of its device.
        mtu: u32,
        /// Largest inner packet that fits.
        fits: u32,
    },
    /// No route to a remote through the uplink: the kernel drops packets to it.
    NoRoute {
        /// The remote's name.
        remote: String,
        /// Its VTEP.
        address: IpAddr,
    },
    /// The device of a port is down: what goes to the port is lost.
    PortDown {
        /// The logical port.
        port: String,
        /// Its device.
        device: String,
    },
    /// The device of ports belongs to a bridge or another master, which gets no frame from it.
    PortMaster {
        /// The device.
        device: String,
        /// Its master.
        master: String,
        /// Kind of the master: `bridge`, `openvswitch`, `bond` …
        kind: String,
    },
    /// The leg of a gateway is down: what its router sends there is lost.
    LegDown {
        /// The router.
        router: String,
        /// The leg.
        device: String,
    },
    /// There is no receive-side helper device; reception works, with more packets per second.
    NoGro {
        /// The tunnel's UDP port.
        port: u16,
        /// The kernel's answer, or what is wrong with the kernel.
        reason: String,
    },
    /// A detour of frames behind decap is not there; everything works, slower.
    NoDetour {
        /// Which.
        detour: Detour,
        /// The kernel's answer.
        reason: String,
    },
    /// This kernel takes no guard: a port's device that is made again is open until the next `apply`.
    NoGuard {
        /// The families of nftables that it lacks.
        families: Vec<String>,
        /// The kernel's answer.
        reason: String,
    },
    /// A tunnel device of somebody else has the tunnel's UDP port. It keeps what is not the fabric's.
    OtherTunnel {
        /// The device.
        device: String,
        /// The port.
        port: u16,
        /// It makes the kernel coalesce received tunnel packets, as the helper device would.
        coalesces: bool,
    },
    /// The kernel does not join the multicast group of an address, where neighbour solicitations for it go.
    NoGroup {
        /// The device.
        device: String,
        /// The address.
        address: IpAddr,
        /// The kernel's answer.
        reason: String,
    },
    /// Devices are down, so that what they, or the guests behind them, have to announce has to wait.
    AnnouncementWaits {
        /// The devices.
        devices: Vec<String>,
        /// How long they are waited for.
        seconds: u64,
    },
    /// Something could not be announced.
    NotAnnounced {
        /// Why.
        reason: String,
    },
    /// A program of somebody else sees the packets of a device before ours does.
    EarlierProgram {
        /// The device.
        device: String,
        /// Name of the program.
        program: String,
        /// The kernel's number of it.
        id: u32,
    },
    /// The running kernel is older than any that is tested.
    KernelUntested {
        /// Its release.
        running: String,
        /// Version of the oldest tested one.
        oldest_tested: String,
    },
    /// Nobody can see from here whether the BPF file system is the machine's.
    ShutIn,
    /// An earlier `apply` was interrupted; this one completed or repaired it.
    Interrupted,
    /// Something that is no longer needed could not be taken away; the next `apply` tries again.
    LeftOver {
        /// What is still there.
        what: String,
        /// The kernel's answer.
        reason: String,
    },
}

impl Change {
    pub(crate) fn add(what: impl Into<String>) -> Self {
        Self {
            kind: ChangeKind::Add,
            what: what.into(),
        }
    }

    pub(crate) fn modify(what: impl Into<String>) -> Self {
        Self {
            kind: ChangeKind::Modify,
            what: what.into(),
        }
    }

    pub(crate) fn remove(what: impl Into<String>) -> Self {
        Self {
            kind: ChangeKind::Remove,
            what: what.into(),
        }
    }
}

impl Announced {
    /// Up to so many addresses are listed, more are counted.
    const LISTED_MAX: usize = 8;

    /// By device and VLAN.
    pub(crate) fn of<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for answer in answers {
            let (device, vlan) = (&answer.device, answer.vlan);
            match all.last_mut() {
                Some(last) if (&last.device, last.vlan) == (device, vlan) => {
                    last.addresses.push(answer.to_string());
                }
                _ => all.push(Self {
                    device: device.clone(),
                    vlan,
                    addresses: vec![answer.to_string()],
                }),
            }
        }
        all
    }
}

impl fmt::Display for Announced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses[..] {
            addresses if addresses.len() > Self::LISTED_MAX => {
                write!(f, "{} addresses", addresses.len())?;
            }
            addresses => f.write_str(&addresses.join(", "))?,
        }
        write!(f, " by {}", self.device)?;
        match self.vlan {
            Some(vlan) => write!(f, " (VLAN {vlan})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.kind {
            ChangeKind::Add => '+',
            ChangeKind::Modify => '~',
            ChangeKind::Remove => '-',
        };
        write!(f, "{sign} {}", self.what)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortMtu { port, mtu, fits } => write!(
                f,
                "port {port}: its device has MTU {mtu}, but only {fits} bytes fit into the underlay; larger packets \
                 are dropped as pkt_too_big"
            ),
            Self::NoRoute { remote, address } => {
                write!(
                    f,
                    "remote {remote}: no route to {address} through the uplink yet; the kernel drops packets to it, which count as encap"
                )
            }
            Self::PortDown { port, device } => write!(
                f,
                "port {port}: its device {device} is down; no packet passes until it is up"
            ),
            Self::PortMaster {
                device,
                master,
                kind,
            } => write!(
                f,
                "device {device} is a port of {kind} {master}: Overlane takes every frame from it before {master} does, \
                 and {}; take it out with `{}`",
                match kind.as_str() {
                    // The guard has a table for bridges. Another note says if the kernel refused it.
                    "bridge" => format!(
                        "the guard drops what {master} sends to it, if this kernel has nftables for bridges"
                    ),
                    _ => format!("what {master} sends to it still reaches the guest"),
                },
                take_out(device, kind)
            ),
            Self::LegDown { router, device } => write!(
                f,
                "router {router}: its leg {device} is down; packets into the physical network are lost until it is up"
            ),
            Self::NoGro { port, reason } => write!(
                f,
                "received packets to UDP port {port} are not coalesced: {reason}; everything works, with a lower receive rate"
            ),
            Self::NoDetour {
                detour: Detour::Unmarker,
                reason,
            } => write!(
                f,
                "there is no unmarker: {reason}; everything works, but TAP ports receive in segments, and remotes \
                 send UDP super-packets in segments"
            ),
            Self::NoDetour {
                detour: Detour::Coalescer,
                reason,
            } => write!(
                f,
                "there is no coalescer: {reason}; everything works, with a lower receive rate"
            ),
            Self::NoGuard { families, reason } => f.write_str(&no_guard(families, reason)),
            Self::OtherTunnel {
                device,
                port,
                coalesces,
            } => {
                write!(
                    f,
                    "device {device} has UDP port {port} too: packets of other senders than the fabric's hosts, and with other VNIs than \
                     this host's switches have, are left to it, and all others are Overlane's now; "
                )?;
                f.write_str(if *coalesces {
                    "while it is up, the kernel coalesces received tunnel packets"
                } else {
                    "received tunnel packets are not coalesced, and everything works, with a lower receive rate"
                })
            }
            Self::NoGroup {
                device,
                address,
                reason,
            } => write!(
                f,
                "the multicast group of {address} is not joined on {device}: {reason}; where the device or a switch filters \
                 multicast, nobody finds the address"
            ),
            Self::AnnouncementWaits { devices, seconds } => write!(
                f,
                "down, or made anew since `apply`: {}; announcements that need {} are made when it is up, within {seconds} seconds; later, run \
                 `overlane announce`",
                devices.join(", "),
                if devices.len() == 1 {
                    "it"
                } else {
                    "one of them"
                }
            ),
            Self::NotAnnounced { reason } => write!(
                f,
                "not all is announced ({reason}): the physical network may remember where addresses were; run \
                 `overlane announce`"
            ),
            Self::EarlierProgram {
                device,
                program,
                id,
            } => write!(
                f,
                "device {device}: program {program} (id {id}) is attached before Overlane's; Overlane does not see what it \
                 drops or redirects, and counts none of it"
            ),
            Self::KernelUntested {
                running,
                oldest_tested,
            } => write!(
                f,
                "Linux {running} is not tested; the oldest tested kernel is {oldest_tested}"
            ),
            Self::ShutIn => write!(
                f,
                "this PID namespace is not the machine's first, and from here nobody sees whether {} is the machine's; \
                 if it was mounted in this container, the datapath ends with the container: bind-mount the machine's",
                paths::BPFFS
            ),
            Self::Interrupted => {
                f.write_str("an earlier apply was interrupted; its remains were repaired")
            }
            Self::LeftOver { what, reason } => {
                write!(
                    f,
                    "{what} could not be removed ({reason}); the next apply tries again"
                )
            }
        }
    }
}

/// The command that takes a device out of its master. Open vSwitch answers only to its own.
fn take_out(device: &str, kind: &str) -> String {
    match kind {
        "openvswitch" => format!("ovs-vsctl del-port {device}"),
        _ => format!("ip link set {device} nomaster"),
    }
}

/// What is open, and what to do.
fn no_guard(families: &[String], reason: &str) -> String {
    let families = families.join(", ");
    format!(
        "there is no guard of the families {families}: {reason}; when a port's device is deleted and made again, its \
         guest reaches this host and what it forwards to, until the next apply; load the kernel module nf_tables and \
         apply again, or apply after each restart of a guest"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_master_has_its_command() {
        let note = |kind: &str| {
            let (device, master, kind) = ("tap0".into(), "up0".into(), kind.into());
            let note = Note::PortMaster {
                device,
                master,
                kind,
            };
            note.to_string()
        };
        for (kind, command) in [
            ("bridge", "`ip link set tap0 nomaster`"),
            ("bond", "`ip link set tap0 nomaster`"),
            ("openvswitch", "`ovs-vsctl del-port tap0`"),
        ] {
            let said = note(kind);
            assert!(said.contains(&format!("port of {kind} up0: ")), "{said}");
            assert!(said.ends_with(command), "{said}");
        }
    }
}
