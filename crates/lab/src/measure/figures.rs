//! From readings to figures: rates, losses, costs, and what held them down. Pure arithmetic.

use super::traffic::{Readings, Totals};
use crate::machine::cpus::Cpus;
use overlane_analysis::record::{
    Accounting, Bound, Cpu, CpuPerGbps, CpuTime, TcpSummary, Test, Workload,
};
use overlane_analysis::results::Metric;
use overlane_traffic::message::{Counters, Reading, TcpState};

/// From here on a CPU is full: what is left is the grain of its clock, and moments without work.
const FULL_PERCENT: f64 = 95.0;
/// Fewer ticks say nothing of whose time it was.
const LEAST_TICKS: u64 = 50;
/// A rate that was asked for is met at this share of it.
const MET_SHARE: f64 = 0.99;
/// Above this share of packets that were due and not sent the tool did not do what it was asked.
const MISSED_SHARE: f64 = 0.01;

/// What the receivers got in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) goodput_gbps: Option<f64>,
    pub(super) transactions_per_second: Option<f64>,
    pub(super) rate_pps: Option<f64>,
}

impl Rates {
    /// Each agent's counters over its own time.
    pub(super) fn of(test: Test, first: &Readings, last: &Readings) -> Self {
        let sent_by = |of: fn(&Counters) -> u64| rate(&first.senders, &last.senders, of);
        let got_by = |of: fn(&Counters) -> u64| rate(&first.receivers, &last.receivers, of);
        let received = |counters: &Counters| counters.received_bytes;
        // Which way the payload travels is the test's affair: each side counts what it received.
        let goodput_gbps = (sent_by(received) + got_by(received)) * 8e-9;
        Self {
            goodput_gbps: (!test.is_transactions()).then_some(goodput_gbps),
            transactions_per_second: test
                .is_transactions()
                .then(|| sent_by(|counters| counters.transactions)),
            rate_pps: test
                .is_packets()
                .then(|| got_by(|counters| counters.received_packets)),
        }
    }

    /// The figure that the test is about.
    pub(super) fn primary(&self, test: Test) -> f64 {
        let figure = match Metric::primary(test) {
            Metric::Transactions => self.transactions_per_second,
            Metric::Rate => self.rate_pps,
            _ => self.goodput_gbps,
        };
        figure.unwrap_or(0.0)
    }
}

/// The figure of a workload all of whose packets arrive at this rate.
pub(super) fn at_rate(workload: Workload, rate_pps: f64) -> f64 {
    match Metric::primary(workload.test) {
        Metric::Goodput => rate_pps * f64::from(workload.bytes) * 8e-9,
        _ => rate_pps,
    }
}

/// The goodput of streams that keep their pace, in Gbit/s.
pub(super) fn paced_gbps(workload: Workload, pairs: usize) -> Option<f64> {
    let ways = match workload.test {
        Test::TcpBidirec => 2.0,
        _ => 1.0,
    };
    let rate_mbps = f64::from(workload.rate_mbps?);
    Some(rate_mbps * 1e-3 * ways * pairs as f64)
}

/// Sum of the agents' rates.
pub(super) fn rate(first: &[Reading], last: &[Reading], of: fn(&Counters) -> u64) -> f64 {
    let rates = first.iter().zip(last).map(|(first, last)| {
        let span_ns = last.at_ns.saturating_sub(first.at_ns);
        if span_ns == 0 {
            return 0.0;
        }
        rise(first, last, of) as f64 / (span_ns as f64 * 1e-9)
    });
    rates.sum()
}

fn rise(first: &Reading, last: &Reading, of: fn(&Counters) -> u64) -> u64 {
    of(&last.counters).saturating_sub(of(&first.counters))
}

/// How much a counter of both sides rose in the window.
pub(super) fn rise_of_all(first: &Readings, last: &Readings, of: fn(&Counters) -> u64) -> u64 {
    let sides = [
        (&first.senders, &last.senders),
        (&first.receivers, &last.receivers),
    ];
    sides
        .into_iter()
        .flat_map(|(first, last)| first.iter().zip(last))
        .map(|(first, last)| rise(first, last, of))
        .sum()
}

/// Sum over one side's totals.
pub(super) fn total(readings: &[Reading], of: fn(&Counters) -> u64) -> u64 {
    readings.iter().map(|reading| of(&reading.counters)).sum()
}

/// CPU time of the agents themselves, in per cent of one CPU.
pub(super) fn guest_percent(first: &[Reading], last: &[Reading]) -> Option<f64> {
    let shares = first.iter().zip(last).map(|(first, last)| {
        let span_ns = last
            .at_ns
            .checked_sub(first.at_ns)
            .filter(|span| *span > 0)?;
        let cpu_ns = last.cpu_ns.checked_sub(first.cpu_ns)?;
        Some(100.0 * cpu_ns as f64 / span_ns as f64)
    });
    let sum: Option<f64> = shares.sum();
    sum.filter(|_| !last.is_empty())
}

/// What the packets were to be, and what came of them, from the first to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offered {
    /// By the pacing; without one, what was sent.
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Due, and neither sent nor refused by the kernel: the tool's own shortfall.
    pub(super) missed: u64,
}

impl Offered {
    pub(super) fn of(totals: &Totals, is_paced: bool) -> Self {
        let senders = &totals.readings.senders;
        let sent = total(senders, |counters| counters.sent_packets);
        let refused = total(senders, |counters| counters.refused_packets);
        let due = if is_paced {
            total(senders, |counters| counters.due_packets).max(sent)
        } else {
            sent
        };
        Self {
            due,
            sent,
            received: total(&totals.readings.receivers, |counters| {
                counters.received_packets
            }),
            missed: due.saturating_sub(sent + refused),
        }
    }

    /// Share of the due packets that did not arrive.
    pub(super) fn loss_percent(&self) -> Option<f64> {
        let lost = self.due.saturating_sub(self.received);
        (self.due > 0).then(|| 100.0 * lost as f64 / self.due as f64)
    }

    fn tool_fell_short(&self) -> bool {
        self.missed as f64 > MISSED_SHARE * self.due as f64
    }
}

/// What held a figure down, by what was seen of it.
pub(super) fn bound(
    figure: f64,
    asked: Option<f64>,
    offered: Option<Offered>,
    cpu: &Cpu,
    cpus: &Cpus,
    is_disturbed: bool,
) -> Bound {
    if offered.is_some_and(|offered| offered.tool_fell_short()) {
        return Bound::Tool;
    }
    if asked.is_some_and(|asked| figure >= MET_SHARE * asked) {
        return Bound::Rate;
    }
    let full = |of: &[usize]| {
        let times = cpu.cpus.iter().filter(|time| of.contains(&time.cpu));
        let full = times.filter(|time| time.busy_percent() >= FULL_PERCENT);
        full.collect::<Vec<_>>()
    };
    let (sender, receiver) = (full(&cpus.host1), full(&cpus.host2));
    // Beside other programs the tick does not say whose code it met.
    if !is_disturbed
        && sender
            .iter()
            .chain(&receiver)
            .any(|time| is_the_tools(time))
    {
        return Bound::Tool;
    }
    match (sender.is_empty(), receiver.is_empty()) {
        (false, false) => Bound::BothCpus,
        (false, true) => Bound::SenderCpu,
        (true, false) => Bound::ReceiverCpu,
        (true, true) => Bound::Nothing,
    }
}

/// Most of a full CPU's time went to programs' own code, not to the kernel's on their behalf.
fn is_the_tools(time: &CpuTime) -> bool {
    let ticks = time.sampled;
    ticks.all() >= LEAST_TICKS && 2 * ticks.user > ticks.all()
}

/// CPU cost of a Gbit/s.
pub(super) fn cpu_per_gbps(cpu: &Cpu, goodput_gbps: Option<f64>) -> CpuPerGbps {
    let cost = |busy_percent: f64| {
        let cost = goodput_gbps.map(|goodput| busy_percent / goodput);
        cost.filter(|cost| cost.is_finite())
    };
    let host = |host: &Option<overlane_analysis::record::CpuUse>| {
        let busy = host.as_ref().map(|host| host.busy_percent);
        busy.and_then(cost)
    };
    CpuPerGbps {
        sender: host(&cpu.sender),
        receiver: host(&cpu.receiver),
        sum: cost(cpu.total.busy_percent),
    }
}

/// CPU time of all hosts for one event of `per_second`.
pub(super) fn cpu_us_per(cpu: &Cpu, per_second: Option<f64>) -> Option<f64> {
    let cost = per_second.map(|rate| cpu.total.busy_percent / 100.0 * 1e6 / rate);
    cost.filter(|cost| cost.is_finite())
}

/// Medians over the connections that sent.
pub(super) fn tcp_summary(states: &[TcpState]) -> Option<TcpSummary> {
    let of = |field: fn(&TcpState) -> u32| median(states.iter().map(field).collect());
    Some(TcpSummary {
        connections: states.len(),
        rtt_us: of(|state| state.rtt_us)?,
        rtt_min_us: of(|state| state.rtt_min_us)?,
        send_mss_bytes: of(|state| state.send_mss_bytes)?.round() as u32,
        congestion_window: of(|state| state.congestion_window)?.round() as u32,
    })
}

fn median(mut values: Vec<u32>) -> Option<f64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().checked_sub(1)? / 2)?;
    Some((f64::from(lower) + f64::from(upper)) / 2.0)
}

/// The accounting of the packets that the network itself lost, for the words of an error.
pub(super) fn lost_in_words(accounting: &Accounting) -> String {
    let mut lost: Vec<_> = accounting.lost.iter().collect();
    lost.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let words: Vec<_> = lost
        .iter()
        .take(3)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if words.is_empty() {
        "no counter on the path says where they stayed".to_owned()
    } else {
        words.join(", ")
    }
}

#[cfg(test)]
mod tests;
