//! What a run of a study records: plain data, written once by the measurement and read by the
//! statistics, the result folder and the report.
//!
//! Everything that was not measured is `None`, never 0. Units stand last in the names.

use crate::error::LabError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use crate::study::{Matrix, Published, PublishedTable, Source, Study};

/// Version of the result folder's format; `Run::schema` holds it.
pub const SCHEMA: &str = "overlane-lab/1";

/// One way of joining two guests: the thing that a study compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendName {
    /// One veth cable between the guests: the limit of this machine.
    Direct,
    /// A Linux bridge on each host, the uplink in it: no overlay.
    Bridge,
    /// A Linux bridge and the kernel's VXLAN device.
    KernelVxlan,
    /// Open vSwitch in userspace, a VLAN on the underlay: no overlay.
    OvsVlan,
    /// Open vSwitch in userspace, VXLAN.
    OvsVxlan,
    /// Open vSwitch in userspace, Geneve.
    OvsGeneve,
    /// Overlane's eBPF data path, a VLAN on the underlay: no overlay.
    OverlaneVlan,
    /// Overlane's eBPF data path, VXLAN.
    OverlaneVxlan,
    /// Overlane's eBPF data path, Geneve with OVN's option.
    OverlaneGeneve,
}

impl BackendName {
    /// Every backend, in the order in which tables show them.
    pub const ALL: [Self; 9] = [
        Self::Direct,
        Self::Bridge,
        Self::KernelVxlan,
        Self::OvsVlan,
        Self::OvsVxlan,
        Self::OvsGeneve,
        Self::OverlaneVlan,
        Self::OverlaneVxlan,
        Self::OverlaneGeneve,
    ];

    /// The name used in study files, results and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Bridge => "bridge",
            Self::KernelVxlan => "kernel-vxlan",
            Self::OvsVlan => "ovs-vlan",
            Self::OvsVxlan => "ovs-vxlan",
            Self::OvsGeneve => "ovs-geneve",
            Self::OverlaneVlan => "overlane-vlan",
            Self::OverlaneVxlan => "overlane-vxlan",
            Self::OverlaneGeneve => "overlane-geneve",
        }
    }

    /// What carries the guests' frames over the underlay.
    pub fn encapsulation(self) -> Encapsulation {
        match self {
            Self::Direct | Self::Bridge => Encapsulation::None,
            Self::OvsVlan | Self::OverlaneVlan => Encapsulation::Vlan,
            Self::KernelVxlan | Self::OvsVxlan | Self::OverlaneVxlan => Encapsulation::Vxlan,
            Self::OvsGeneve | Self::OverlaneGeneve => Encapsulation::Geneve,
        }
    }

    /// True when the guests' frames travel in a tunnel: a VLAN tag is none, and takes nothing of the
    /// guests' MTU (IEEE 802.3: the tag lies outside of the frame's largest payload).
    pub fn is_overlay(self) -> bool {
        match self.encapsulation() {
            Encapsulation::None | Encapsulation::Vlan => false,
            Encapsulation::Vxlan | Encapsulation::Geneve => true,
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for BackendName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == text);
        found.ok_or_else(|| LabError::UnknownBackend {
            name: text.to_owned(),
            known: Self::ALL.map(Self::as_str).join(", "),
        })
    }
}

/// What surrounds the guests' frames on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// Nothing: the frames travel as the guests sent them.
    None,
    /// An 802.1Q tag.
    Vlan,
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
}

/// The size class of the guests' MTU: groups of cells that are compared share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtuClass {
    /// Guest MTU 1500 everywhere.
    Standard,
    /// Guest MTU 9000 without an overlay, 8900 in one.
    Jumbo,
}

impl MtuClass {
    /// The guest's MTU on `backend` in this class.
    pub fn guest_mtu(self, backend: BackendName) -> u32 {
        match (self, backend.is_overlay()) {
            (Self::Standard, _) => 1500,
            (Self::Jumbo, true) => 8900,
            (Self::Jumbo, false) => 9000,
        }
    }

    /// The underlay's MTU in this class: the guest's frame and the widest tunnel header fit.
    pub fn underlay_mtu(self) -> u32 {
        match self {
            Self::Standard => 1600,
            Self::Jumbo => 9000,
        }
    }
}

/// The dimensions of one cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// The thing that is measured.
    pub backend: BackendName,
    /// MTU of the guests' devices: 1500, 8900 (overlay) or 9000 (plain).
    pub mtu: u32,
    /// Parallel TCP streams.
    pub streams: u32,
    /// Wire offload: true = super-packets cross the underlay whole, false = the wire segments.
    pub offload: bool,
}

impl CellKey {
    /// The group of cells that this one is interleaved and compared with.
    pub fn group(&self) -> GroupKey {
        let mtu_class = if self.mtu > 1500 {
            MtuClass::Jumbo
        } else {
            MtuClass::Standard
        };
        GroupKey {
            mtu_class,
            streams: self.streams,
            offload: self.offload,
        }
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offload = if self.offload { "on" } else { "off" };
        let Self {
            backend,
            mtu,
            streams,
            ..
        } = self;
        write!(f, "{backend} mtu {mtu} streams {streams} offload {offload}")
    }
}

/// What the cells of one comparison share; its cells differ in the backend alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKey {
    /// The size class of the guests' MTU.
    pub mtu_class: MtuClass,
    /// Parallel TCP streams.
    pub streams: u32,
    /// Wire offload.
    pub offload: bool,
}

impl GroupKey {
    /// The cell of `backend` in this group.
    pub fn cell(&self, backend: BackendName) -> CellKey {
        CellKey {
            backend,
            mtu: self.mtu_class.guest_mtu(backend),
            streams: self.streams,
            offload: self.offload,
        }
    }
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum CellStatus {
    /// Its samples were taken.
    Ok,
    /// This machine cannot run it.
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// It was tried and did not work, or was interrupted.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// Share of the time of a virtual host's CPUs, in per cent of one CPU (two busy CPUs are 200).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Everything but idle and waiting for a disk; stolen time is not in it.
    pub busy_percent: f64,
    /// Taken away by the hypervisor.
    pub steal_percent: f64,
    /// Null in windows under 4 s: the kernel samples the split at its tick.
    pub user_percent: Option<f64>,
    /// Null in windows under 4 s.
    pub system_percent: Option<f64>,
    /// Null in windows under 4 s.
    pub softirq_percent: Option<f64>,
}

/// CPU of one sample: per virtual host where the hosts have CPUs of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The sending guest's host; null when the hosts share a CPU.
    pub sender: Option<CpuUse>,
    /// The receiving guest's host; null when the hosts share a CPU.
    pub receiver: Option<CpuUse>,
    /// The CPUs of both hosts together.
    pub total: CpuUse,
}

/// CPU cost of a Gbit/s: busy per cent of one CPU, divided by the goodput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuPerGbps {
    /// The sending host; null when the hosts share a CPU.
    pub sender: Option<f64>,
    /// The receiving host; null when the hosts share a CPU.
    pub receiver: Option<f64>,
    /// Both together; null without goodput.
    pub sum: Option<f64>,
}

/// One measurement of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The cell it belongs to.
    pub cell: CellKey,
    /// Round of the interleaving: samples of a group with the same round are a pair. The warm-up
    /// is round 0.
    pub round: u32,
    /// When it began, in ms since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Length of the transfer that the goodput is of.
    pub seconds: f64,
    /// Why it does not count (warm-up, disturbed); null when it counts.
    pub discarded: Option<String>,
    /// TCP payload that reached the receiver.
    pub goodput_gbps: f64,
    /// TCP segments sent again; null when the generator did not say.
    pub retransmits: Option<u64>,
    /// Length of the window inside the transfer in which CPU and packets were counted.
    pub window_seconds: f64,
    /// Packets that left the sending host's uplink (`direct`: the sending guest's device).
    pub underlay_packets: u64,
    /// Bytes that left it.
    pub underlay_bytes: u64,
    /// Packets per second.
    pub underlay_rate_pps: f64,
    /// Mean size of a packet on the wire; null without packets.
    pub underlay_packet_bytes: Option<f64>,
    /// CPU in the window.
    pub cpu: Cpu,
    /// CPU cost of the goodput.
    pub cpu_percent_per_gbps: CpuPerGbps,
}

/// One cell of the matrix with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its dimensions.
    #[serde(flatten)]
    pub key: CellKey,
    /// How it ended.
    #[serde(flatten)]
    pub status: CellStatus,
    /// A capture on the underlay showed the packets encapsulated as declared.
    pub path_proof: bool,
    /// What the capture showed.
    pub proof_detail: String,
    /// What a reader of this cell has to know (settings that differ from the other backends).
    pub notes: Vec<String>,
    /// Every sample, the discarded ones among them, in the order of time.
    pub samples: Vec<Sample>,
}

impl Cell {
    /// A cell that was not measured, for `status`.
    pub fn empty(key: CellKey, status: CellStatus) -> Self {
        let (proof_detail, notes, samples) = (String::new(), Vec::new(), Vec::new());
        Self {
            key,
            status,
            path_proof: false,
            proof_detail,
            notes,
            samples,
        }
    }

    /// The samples that count.
    pub fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(|sample| sample.discarded.is_none())
    }
}

/// One device on the path, as the lab had set it up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// The cell's group and backend, for example `bridge offload off`.
    pub topology: String,
    /// Where the device is: `guest1`, `host1`, `host2`, `guest2`.
    pub place: String,
    /// The device.
    pub device: String,
    /// Its MTU.
    pub mtu: u32,
    /// CPUs that receive packet steering sends its packets to.
    pub rps_cpus: Vec<usize>,
    /// `ethtool -k`, the features that bear on the path.
    pub features: BTreeMap<String, bool>,
    /// `ethtool -a`; null where the device has no flow control.
    pub pause: Option<String>,
}

/// Steadiness of the machine: a fixed piece of work, timed repeatedly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseProbe {
    /// `before` or `after` the run.
    pub when: String,
    /// The CPU it ran on.
    pub cpu: usize,
    /// Median time of the work.
    pub median_us: f64,
    /// (90th percentile − median) / median, in per cent.
    pub spread_percent: f64,
    /// (slowest − median) / median, in per cent.
    pub worst_percent: f64,
}

/// The machine and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Kernel release and version (`uname -rv`).
    pub kernel: String,
    /// Distribution (`/etc/os-release`).
    pub os: String,
    /// `/proc/cmdline`.
    pub cmdline: String,
    /// Model of the CPU.
    pub cpu_model: String,
    /// Number of online CPUs.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Frequency governor; null where the machine has none.
    pub governor: Option<String>,
    /// `/sys/devices/system/cpu/smt/control`.
    pub smt: Option<String>,
    /// Hypervisor, where the CPU says that it is virtual.
    pub virtualised: bool,
    /// CPU vulnerabilities and what the kernel does about them.
    pub mitigations: BTreeMap<String, String>,
    /// `net.*` settings that bear on TCP and on the receive path.
    pub sysctl: BTreeMap<String, String>,
    /// Program → version.
    pub tools: BTreeMap<String, String>,
    /// How the kernel accounts CPU time (`tick sampled at 250 Hz`, `precise`).
    pub cpu_accounting: String,
    /// CPUs of the first virtual host.
    pub host1_cpus: Vec<usize>,
    /// CPUs of the second virtual host.
    pub host2_cpus: Vec<usize>,
    /// The two virtual hosts share a CPU: figures per host are null.
    pub shared_cpus: bool,
    /// Settings of every device on every path.
    pub hops: Vec<Hop>,
    /// Steadiness of the machine before and after.
    pub noise: Vec<NoiseProbe>,
    /// Version of the program, with its source revision when the build knew it.
    pub overlane_version: String,
    /// The command that repeats the run.
    pub command: String,
}

/// A whole run: the content of `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// The study with its published figures.
    pub study: Study,
    /// The quick matrix was measured, not the whole one.
    pub quick: bool,
    /// The run was broken off; what had been measured is kept.
    pub interrupted: bool,
    /// Samples per cell that were planned (without the warm-up).
    pub planned_samples: u32,
    /// Length of one sample that was planned.
    pub planned_seconds: f64,
    /// The machine.
    pub env: Environment,
    /// One entry per cell of the matrix, in the order of the plan.
    pub cells: Vec<Cell>,
    /// Start, in ms since 1970 (UTC).
    pub started_unix_ms: u64,
    /// End, in ms since 1970 (UTC).
    pub finished_unix_ms: u64,
    /// What a reader has to know before believing the figures.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_tables_keep_one_order() {
        for name in BackendName::ALL {
            assert_eq!(name.as_str().parse::<BackendName>().unwrap(), name);
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(json, format!("\"{name}\""));
        }
        assert!(BackendName::ALL.is_sorted());
        let unknown = "ovs".parse::<BackendName>().unwrap_err().to_string();
        assert!(unknown.contains("ovs-vlan"), "{unknown}");
    }

    #[test]
    fn only_a_tunnel_takes_from_the_guests_mtu() {
        for name in BackendName::ALL {
            let tunnel = name.as_str().ends_with("vxlan") || name.as_str().ends_with("geneve");
            assert_eq!(name.is_overlay(), tunnel, "{name}");
            let jumbo = if tunnel { 8900 } else { 9000 };
            assert_eq!(MtuClass::Jumbo.guest_mtu(name), jumbo, "{name}");
            assert_eq!(MtuClass::Standard.guest_mtu(name), 1500, "{name}");
        }
    }
}
