//! What a sample of moving machines came to: how long, how much, and what the flows of the machines noticed.

use serde::{Deserialize, Serialize};

/// Machines that moved to the other host at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Migration {
    /// From the second host to the first; else there.
    pub back: bool,
    /// From the first machine's beginning until the last one ran at the other host.
    pub seconds: f64,
    /// Bytes that left the source on each cable, as its counters say.
    pub link_bytes: Vec<u64>,
    /// Each machine.
    pub machines: Vec<Moved>,
}

/// One machine that moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// The whole time, as QEMU says.
    pub total_ms: f64,
    /// How long the machine stood still, as QEMU says.
    pub downtime_ms: f64,
    /// How much of that the network's switching took.
    pub switch_ms: f64,
    /// Before the first page was sent, as QEMU says.
    pub setup_ms: f64,
    /// Memory and state that was sent, as QEMU says.
    pub transferred_bytes: u64,
    /// How often QEMU went through the memory for what had changed.
    pub dirty_rounds: u64,
    /// Pages that the machine asked for after it had moved; postcopy alone.
    pub pages_asked_for: u64,
    /// How fast its program wrote memory meanwhile.
    pub dirtied_mib_per_second: f64,
    /// Frames to other machines that came to this one: a switch that learns floods what it knows no place for.
    pub wrong_frames: u64,
    /// Datagrams to the machine and back.
    pub udp: Flow,
    /// Messages over one TCP connection to the machine and back.
    pub tcp: Flow,
}

/// A flow that ran meanwhile, paced: each message goes to the machine and comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that came back. Those that came back twice, or otherwise than they were sent, end the sample with an error.
    pub returned: u64,
    /// The longest time in which none came back, in ms.
    pub longest_gap_ms: u64,
}

impl Flow {
    /// Messages that did not come back.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.returned)
    }
}

impl Migration {
    /// The longest time that a machine stood still.
    pub fn downtime_ms(&self) -> f64 {
        let all = self.machines.iter().map(|moved| moved.downtime_ms);
        all.fold(0.0, f64::max)
    }

    /// The longest gap in a flow.
    pub fn longest_gap_ms(&self) -> u64 {
        let of = |moved: &Moved| moved.udp.longest_gap_ms.max(moved.tcp.longest_gap_ms);
        self.machines.iter().map(of).max().unwrap_or_default()
    }

    /// Datagrams that were lost.
    pub fn lost(&self) -> u64 {
        self.machines.iter().map(|moved| moved.udp.lost()).sum()
    }

    /// Bytes of all machines.
    pub fn transferred_bytes(&self) -> u64 {
        let all = self.machines.iter();
        all.map(|moved| moved.transferred_bytes).sum()
    }

    /// Rounds of dirty pages, of the machine that took the most.
    pub fn dirty_rounds(&self) -> u64 {
        let all = self.machines.iter().map(|moved| moved.dirty_rounds);
        all.max().unwrap_or_default()
    }
}
