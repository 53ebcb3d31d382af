//! One measurement of one cell: what got through, what it cost, and where the rest stayed.
//!
//! ```text
//! traffic ──┬─ ramp ─┬──────────── window: everything per second is of this ────────────┬─ stop, drain, totals
//!           └        mark                                                            mark
//! ```

use super::{CellKey, Cpu, CpuPerGbps, Discard, Foreign, Migration, TrialCpu};
use crate::search::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// What held a sample's figure down, by what was seen of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// No CPU was full: latency, a window, or waiting for each other.
    #[default]
    Nothing,
    /// A CPU of the sending host was full.
    SenderCpu,
    /// A CPU of the receiving hosts was full.
    ReceiverCpu,
    /// A CPU of either side was full.
    BothCpus,
    /// The traffic tool's own code filled a CPU, or it did not send what was asked.
    Tool,
    /// The rate that was asked for.
    Rate,
}

impl Bound {
    /// Every bound.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Rate,
        Self::SenderCpu,
        Self::ReceiverCpu,
        Self::BothCpus,
        Self::Tool,
    ];

    /// What it was.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing: latency or window",
            Self::SenderCpu => "the sender's CPU",
            Self::ReceiverCpu => "the receiver's CPU",
            Self::BothCpus => "both CPUs",
            Self::Tool => "the traffic tool",
            Self::Rate => "the rate asked for",
        }
    }

    /// A CPU was full: what the network costs and what it carries are one figure.
    pub const fn is_cpu(self) -> bool {
        matches!(self, Self::SenderCpu | Self::ReceiverCpu | Self::BothCpus)
    }
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
    /// Packets per second that arrived at the receiving guests' devices since the moment before: after whatever joined segments.
    pub receiver_rate_pps: f64,
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
    /// Why it does not count; null when it counts.
    pub discarded: Option<Discard>,
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
    /// The machines that moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
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
    /// CPU of programs that are not the laboratory's; null where the kernel does not show them.
    pub foreign: Option<Foreign>,
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

impl Sample {
    /// Other programs used enough CPU beside it to disturb it.
    pub fn is_disturbed(&self) -> bool {
        self.foreign.as_ref().is_some_and(Foreign::disturbs)
    }
}

/// A search with what each of its trials cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Trials and bounds.
    pub outcome: Outcome,
    /// Busy CPU % of the sending and of the receiving host, and both, of each trial, in the order of `outcome.trials`.
    pub cpu_percent: Vec<TrialCpu>,
}
