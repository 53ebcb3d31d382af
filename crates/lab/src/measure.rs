//! One sample: traffic, and in a window of it CPU time and the wire's counters.
//!
//! ```text
//! client starts ─┬─ 100 ms ─┬───────── window: CPU, packets, bytes ─────────┬─ report
//!                └ connecting, slow start                    planned length ┘
//! ```
//!
//! The window leaves out the generator's start and end, which would be counted as cost of the traffic.

use crate::cpu_time::CpuTimes;
use crate::error::LabError;
use crate::record::{CellKey, CpuPerGbps, Sample};
use crate::session::Session;
use crate::topology::Topology;
use crate::{iperf, time};
use overlane_net::LinkStats;
use std::time::{Duration, Instant};

const RAMP: Duration = Duration::from_millis(100);

/// The counters at one end of the window.
struct Reading {
    at: Instant,
    cpu: CpuTimes,
    wire: LinkStats,
}

impl Reading {
    fn take(topology: &Topology) -> Result<Self, LabError> {
        let (node, device) = topology.wire();
        let wire = node.netlink.link(device)?.stats;
        Ok(Self {
            at: Instant::now(),
            cpu: CpuTimes::now()?,
            wire,
        })
    }
}

/// Takes a sample of `seconds`.
pub(crate) fn sample(
    session: &Session,
    topology: &Topology,
    cell: CellKey,
    round: u32,
    seconds: u32,
) -> Result<Sample, LabError> {
    let started_unix_ms = time::unix_ms();
    let transfer = iperf::start(session, topology, cell.streams, seconds)?;
    let client_started = Instant::now();
    session.interrupts.wait(RAMP)?;
    let before = Reading::take(topology)?;
    let end = client_started + Duration::from_secs(u64::from(seconds));
    session
        .interrupts
        .wait(end.saturating_duration_since(Instant::now()))?;
    let after = Reading::take(topology)?;
    let traffic = transfer.finish(session)?;
    let window = after.at - before.at;
    let cpu = after.cpu.since(&before.cpu, &session.cpus, window);
    let per_gbps = |busy: f64| Some(busy / traffic.goodput_gbps).filter(|cost| cost.is_finite());
    let cpu_percent_per_gbps = CpuPerGbps {
        sender: cpu
            .sender
            .as_ref()
            .and_then(|host| per_gbps(host.busy_percent)),
        receiver: cpu
            .receiver
            .as_ref()
            .and_then(|host| per_gbps(host.busy_percent)),
        sum: per_gbps(cpu.total.busy_percent),
    };
    let underlay_packets = after.wire.tx_packets.saturating_sub(before.wire.tx_packets);
    let underlay_bytes = after.wire.tx_bytes.saturating_sub(before.wire.tx_bytes);
    Ok(Sample {
        cell,
        round,
        started_unix_ms,
        seconds: traffic.seconds,
        discarded: (round == 0).then(|| "warm-up".to_owned()),
        goodput_gbps: traffic.goodput_gbps,
        retransmits: traffic.retransmits,
        window_seconds: window.as_secs_f64(),
        underlay_packets,
        underlay_bytes,
        underlay_rate_pps: underlay_packets as f64 / window.as_secs_f64(),
        underlay_packet_bytes: (underlay_packets > 0)
            .then(|| underlay_bytes as f64 / underlay_packets as f64),
        cpu,
        cpu_percent_per_gbps,
    })
}
