//! One measurement of one cell: what got through, what it cost, and where the rest stayed.
//!
//! ```text
//! traffic ──┬─ ramp ─┬──────────── window: everything per second is of this ────────────┬─ stop, drain, totals
//!           └        mark                                                            mark
//! ```

use super::CellKey;
use crate::search::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of the time of a virtual host's CPUs, in per cent of one CPU (two busy CPUs are 200).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Everything but idle and waiting for a disk; stolen time is not in it.
    pub busy_percent: f64,
    /// Taken away by the hypervisor.
    pub steal_percent: f64,
}

/// Time of one CPU in the window by what it was spent on, in ticks of the kernel's accounting (proc(5),
/// `/proc/stat`). The kernel samples these at its tick: they say little of one short window, and
/// are summed over all samples of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTicks {
    /// The CPU.
    pub cpu: usize,
    /// User, with nice.
    pub user: u64,
    /// System.
    pub system: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Soft interrupts: most of the kernel's network work.
    pub softirq: u64,
    /// Idle, with waiting for a disk.
    pub idle: u64,
    /// Stolen by the hypervisor.
    pub steal: u64,
}

/// CPU of one sample: per virtual host where the hosts have CPUs of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The sending guests' host; null when the hosts share a CPU.
    pub sender: Option<CpuUse>,
    /// The receiving guests' hosts; null when the hosts share a CPU.
    pub receiver: Option<CpuUse>,
    /// The CPUs of all hosts together.
    pub total: CpuUse,
    /// The sending guests' own programs (CLOCK_PROCESS_CPUTIME_ID), in per cent of one CPU; part of `sender`.
    pub guest_sender_percent: Option<f64>,
    /// The receiving guests' own programs.
    pub guest_receiver_percent: Option<f64>,
    /// The relays of the sending guests (their CPU clocks), in per cent of one CPU; part of `sender`. Null without
    /// virtual machines.
    #[serde(default)]
    pub relay_sender_percent: Option<f64>,
    /// The relays of the receiving guests.
    #[serde(default)]
    pub relay_receiver_percent: Option<f64>,
    /// Every CPU of the laboratory.
    pub ticks: Vec<CpuTicks>,
}

/// CPU cost of a Gbit/s: busy per cent of one CPU, divided by the goodput.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPerGbps {
    /// The sending host; null when the hosts share a CPU.
    pub sender: Option<f64>,
    /// The receiving hosts; null when the hosts share a CPU.
    pub receiver: Option<f64>,
    /// All together; null without goodput.
    pub sum: Option<f64>,
}

/// Latencies of one sample: of transactions the whole round trip as it was measured, of paced packets
/// one way from the intended time of sending (so that a stall of the sender is in them).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// One way, not a round trip.
    pub one_way: bool,
    /// How many were measured.
    pub count: u64,
    /// Smallest.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Half are below.
    pub p50_us: f64,
    /// 90 % are below.
    pub p90_us: f64,
    /// 99 % are below.
    pub p99_us: f64,
    /// 99.9 % are below.
    pub p999_us: f64,
    /// Largest.
    pub max_us: f64,
    /// The curve for charts: (per cent, µs), at 0, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99 … as far as the count carries (a
    /// percentile needs 10 values beyond it), then 100.
    pub curve: Vec<(f64, f64)>,
}

/// Where the packets of a sample stayed, from its first to its last packet: sent = received + lost + unexplained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accounting {
    /// Packets that the senders' kernels took.
    pub sent: u64,
    /// Packets that reached the receivers' programs, each number once.
    pub received: u64,
    /// Packets lost by named counters on the path, `host1 uplink tx_dropped` → count; counters that stayed are left out.
    pub lost: BTreeMap<String, u64>,
    /// sent − received − lost: packets that nobody counted; negative: counted twice.
    pub unexplained: i64,
    /// Packets that the senders' kernels refused; they are not in `sent`.
    pub refused: u64,
    /// Packets that were due by the pacing and never sent.
    pub not_sent: u64,
    /// Numbers that came after a higher one of their stream.
    pub reordered: u64,
    /// Numbers that came again.
    pub duplicates: u64,
    /// Datagrams that came with another length, or without their number; they are not in `received`.
    #[serde(default)]
    pub corrupt: u64,
}

/// TCP_INFO of a sample's sending connections at its end, as medians over them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSummary {
    /// Connections.
    pub connections: usize,
    /// Smoothed round-trip time.
    pub rtt_us: f64,
    /// Smallest round-trip time.
    pub rtt_min_us: f64,
    /// Segment size in use.
    pub send_mss_bytes: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
}

/// What held a sample's figure down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The network between the guests, or the CPU that it shares with them.
    #[default]
    Network,
    /// The traffic tool: it does no better without a network between (within 5 %), or could not send what was asked.
    Tester,
    /// The rate that was asked for.
    Rate,
}

/// Memory in the window's end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Used memory of the machine (MemTotal − MemAvailable).
    pub machine_mib: f64,
    /// Resident memory of the sending guests' programs.
    pub guest_sender_mib: Option<f64>,
    /// Resident memory of the receiving guests' programs.
    pub guest_receiver_mib: Option<f64>,
}

/// A moment inside of the window, for charts over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Since the beginning of the window.
    pub at_seconds: f64,
    /// Goodput since the moment before.
    pub goodput_gbps: Option<f64>,
    /// Packets per second that left the sending host's uplink since the moment before.
    pub underlay_rate_pps: f64,
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
    /// Length of the window in which everything was counted.
    pub window_seconds: f64,
    /// Why it does not count (warm-up, disturbed, spread too wide); null when it counts.
    pub discarded: Option<String>,
    /// Payload that reached the receivers; streams and packets.
    pub goodput_gbps: Option<f64>,
    /// Completed transactions.
    pub transactions_per_second: Option<f64>,
    /// Numbered packets that reached the receivers; of a search: at the highest rate that met its first goal.
    pub rate_pps: Option<f64>,
    /// Share of the packets that were due and did not arrive.
    pub loss_percent: Option<f64>,
    /// Transactions that timed out and were sent again.
    pub timeouts: Option<u64>,
    /// Latencies.
    pub latency: Option<Latency>,
    /// TCP segments sent again; null when it is not TCP.
    pub retransmits: Option<u64>,
    /// The senders' connections.
    pub tcp: Option<TcpSummary>,
    /// Where the packets stayed; packets only.
    pub accounting: Option<Accounting>,
    /// The search of a rate: its trials and bounds.
    pub search: Option<SearchRecord>,
    /// What held the figure down.
    pub bound: Bound,
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
    /// CPU cost of the goodput; streams and packets.
    pub cpu_percent_per_gbps: CpuPerGbps,
    /// CPU time of all hosts for one transaction.
    pub cpu_us_per_transaction: Option<f64>,
    /// CPU time of all hosts for one packet that arrived.
    pub cpu_us_per_packet: Option<f64>,
    /// Memory.
    pub memory: Memory,
    /// The window in steps of about a quarter of a second.
    pub intervals: Vec<Interval>,
}

/// A search with what each of its trials cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Trials and bounds.
    pub outcome: Outcome,
    /// Busy CPU % of the sending and of the receiving host, and both, of each trial, in the order of `outcome.trials`.
    pub cpu_percent: Vec<TrialCpu>,
}

/// CPU of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialCpu {
    /// Sending host.
    pub sender: Option<f64>,
    /// Receiving hosts.
    pub receiver: Option<f64>,
    /// All.
    pub total: f64,
}
