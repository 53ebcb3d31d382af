//! The machine that a run was measured on, and how its devices were set.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// The network made it; else the laboratory did, for every network.
    #[serde(default)]
    pub own: bool,
    /// Its queueing discipline.
    #[serde(default)]
    pub qdisc: String,
    /// Queues that send and that receive.
    #[serde(default)]
    pub queues: [u32; 2],
    /// Largest super-packet that it is given.
    #[serde(default)]
    pub gso_max_size: u32,
    /// A tunnel device: whether it sends an outer UDP checksum over the underlay's family; null for others.
    #[serde(default)]
    pub outer_checksum: Option<bool>,
    /// A VXLAN device: whether it learns from what arrives; null for others.
    #[serde(default)]
    pub learning: Option<bool>,
    /// A bridge: whether it hands its packets to the hooks of the IP firewall; null for others, and where the kernel
    /// cannot.
    #[serde(default)]
    pub bridge_netfilter: Option<bool>,
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
    /// Clock of the CPU as the kernel told it at the beginning; null where it tells none.
    #[serde(default)]
    pub cpu_mhz: Option<f64>,
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
