//! One sample: traffic, and in a window of it CPU time and the wire's counters.
//!
//! ```text
//! prepare ─ counters ─ go ─┬─ 100 ms ─┬───── window: CPU, packets, bytes, marks ─────┬─ stop, drain ─ counters
//!                          └ slow start                planned length                └ totals
//! ```
//!
//! The window leaves out the traffic's beginning and end, which would be counted as its cost. [`work`] says what a
//! workload means for the agents, [`traffic`] leads them, [`window`] reads, [`figures`] calculates,
//! [`accounting`] says where packets stayed, [`search`] looks for the highest rate.

mod accounting;
mod counters;
mod figures;
mod latency;
pub(crate) mod memory;
pub(crate) mod migration;
mod search;
mod traffic;
mod window;
pub(crate) mod work;

use crate::agents::Agents;
use crate::backends::Backend;
use crate::error::LabError;
use crate::session::Session;
use crate::topology::{Pair, Topology};
use crate::watch::Live;
use accounting::{Ends, Kind};
use counters::Counters;
use figures::{Offered, Rates};
use overlane_analysis::record::{
    Accounting, CellKey, Cpu, Discard, Memory, Sample, SearchRecord, Test,
};
use overlane_analysis::time;
use overlane_traffic::message::Reading;
use std::time::Duration;
use traffic::{Totals, Traffic};
use window::Window;

/// Between the traffic's beginning and the window: connections grow to their speed.
const RAMP: Duration = Duration::from_millis(100);

/// What to sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) cell: CellKey,
    /// 0 is the warm-up.
    pub(crate) round: u32,
    /// Length of the window.
    pub(crate) seconds: f64,
}

/// The place in which a sample is taken.
struct Place<'a> {
    session: &'a Session,
    topology: &'a Topology,
    backend: &'a dyn Backend,
}

/// What a sample came to, before anything is calculated.
struct Taken {
    started_unix_ms: u64,
    window: Window,
    totals: Totals,
    accounting: Option<Accounting>,
    memory: Memory,
    /// The agents' clocks are one.
    one_clock: bool,
    /// For each pair.
    rate_pps: Option<f64>,
}

/// Takes a sample. Where the workload asks for a search, the rate is looked for first; the warm-up does without.
pub(crate) fn sample(
    session: &Session,
    topology: &Topology,
    backend: &dyn Backend,
    agents: &mut Agents,
    request: &Request,
    live: &mut dyn FnMut(Live),
) -> Result<Sample, LabError> {
    let place = Place {
        session,
        topology,
        backend,
    };
    let workload = request.cell.group.workload;
    let preset = workload.search.filter(|_| request.round > 0);
    if let Some(preset) = preset {
        return search::sample(&place, agents, request, preset, live);
    }
    let rate_pps = workload.rate_pps.map(f64::from);
    let taken = place.take(agents, request, rate_pps, live)?;
    finish(
        &place,
        request,
        taken,
        None,
        rate_pps.map(|rate| rate * pairs(topology)),
    )
}

fn pairs(topology: &Topology) -> f64 {
    topology.pairs.len() as f64
}

impl Place<'_> {
    fn take(
        &self,
        agents: &mut Agents,
        request: &Request,
        rate_pps: Option<f64>,
        live: &mut dyn FnMut(Live),
    ) -> Result<Taken, LabError> {
        let Self {
            session, topology, ..
        } = *self;
        let cell = &request.cell;
        let test = cell.group.workload.test;
        topology.look_after_relays()?;
        let started_unix_ms = time::unix_ms();
        let one_clock = agents.one_clock;
        let mut traffic = Traffic::prepare(session, topology, agents, cell, rate_pps)?;
        let before = test.is_packets().then(|| self.counters()).transpose()?;
        traffic.go()?;
        session.interrupts.wait(RAMP)?;
        let length = Duration::from_secs_f64(request.seconds);
        let window = window::watch(session, topology, &mut traffic, test, length, live)?;
        let memory = memory::memory(&window.last)?;
        let totals = traffic.stop()?;
        topology.look_after_relays()?;
        let accounting = before.map(|before| self.account(cell, &totals, &before));
        Ok(Taken {
            started_unix_ms,
            window,
            totals,
            accounting: accounting.transpose()?,
            memory,
            one_clock,
            rate_pps,
        })
    }

    fn counters(&self) -> Result<Counters, LabError> {
        Counters::read(self.session, self.topology, self.backend)
    }

    fn account(
        &self,
        cell: &CellKey,
        totals: &Totals,
        before: &Counters,
    ) -> Result<Accounting, LabError> {
        let after = self.counters()?;
        let workload = cell.group.workload;
        let kind = match workload.test {
            Test::FrameStream => Kind::Frames,
            Test::UdpGsoStream => Kind::SuperPackets {
                datagrams: work::super_packet_datagrams(workload.bytes).into(),
            },
            _ => Kind::Datagrams,
        };
        let pairs = &self.topology.pairs;
        let side = |readings: &[Reading], guest: fn(&Pair) -> &str| {
            let counters = readings.iter().map(|reading| reading.counters);
            let places = pairs.iter().map(|pair| guest(pair).to_owned());
            places.zip(counters).collect()
        };
        let ends = Ends {
            senders: side(&totals.readings.senders, |pair| &pair.sender.node.place),
            receivers: side(&totals.readings.receivers, |pair| &pair.receiver.node.place),
        };
        let devices = counters::devices(self.topology)?;
        Ok(accounting::account(kind, &ends, &devices, before, &after))
    }
}

/// Calculates the sample. `asked_pps` is the rate that was asked of all pairs together.
fn finish(
    place: &Place<'_>,
    request: &Request,
    taken: Taken,
    search: Option<SearchRecord>,
    asked_pps: Option<f64>,
) -> Result<Sample, LabError> {
    let Taken {
        window,
        totals,
        accounting,
        ..
    } = taken;
    let cell = request.cell;
    let test = cell.group.workload.test;
    let (first, last) = (&window.first, &window.last);
    let rates = Rates::of(test, first, last);
    if rates.primary(test) <= 0.0 {
        return Err(nothing_arrived(test, accounting.as_ref()));
    }
    let offered = test
        .is_packets()
        .then(|| Offered::of(&totals, taken.rate_pps.is_some()));
    let cpu = Cpu {
        guest_sender_percent: figures::guest_percent(&first.senders, &last.senders),
        guest_receiver_percent: figures::guest_percent(&first.receivers, &last.receivers),
        ..window.cpu
    };
    let workload = cell.group.workload;
    let asked = asked_pps.map(|pps| figures::at_rate(workload, pps));
    let asked_gbps = || figures::paced_gbps(workload, place.topology.pairs.len());
    let asked = asked.or_else(asked_gbps);
    let is_tcp = matches!(test, Test::TcpRr | Test::TcpCrr) || test.is_tcp_stream();
    let latency = if test.is_packets() {
        let receivers = last.receivers.iter().filter(|_| taken.one_clock);
        latency::merge(receivers, true)
    } else if test.is_transactions() {
        latency::merge(last.senders.iter(), false)
    } else {
        None
    };
    let seconds = window.length.as_secs_f64();
    let wire = window.wire;
    Ok(Sample {
        cell,
        round: request.round,
        started_unix_ms: taken.started_unix_ms,
        window_seconds: seconds,
        discarded: (request.round == 0).then_some(Discard::WarmUp),
        goodput_gbps: rates.goodput_gbps,
        transactions_per_second: rates.transactions_per_second,
        rate_pps: rates.rate_pps,
        loss_percent: offered.and_then(|offered| offered.loss_percent()),
        timeouts: (test == Test::UdpRr)
            .then(|| figures::rise_of_all(first, last, |counters| counters.timeouts)),
        latency,
        retransmits: is_tcp
            .then(|| figures::rise_of_all(first, last, |counters| counters.retransmits)),
        tcp: figures::tcp_summary(&totals.tcp),
        accounting,
        search,
        migration: None,
        bound: figures::bound(
            rates.primary(test),
            asked,
            offered,
            &cpu,
            &place.session.cpus,
            window.foreign.disturbs(),
        ),
        foreign: Some(window.foreign),
        underlay_packets: wire.packets,
        underlay_bytes: wire.bytes,
        underlay_rate_pps: wire.packets as f64 / window.wire_length.as_secs_f64(),
        underlay_packet_bytes: (wire.packets > 0).then(|| wire.bytes as f64 / wire.packets as f64),
        cpu_percent_per_gbps: figures::cpu_per_gbps(&cpu, rates.goodput_gbps),
        cpu_us_per_transaction: figures::cpu_us_per(&cpu, rates.transactions_per_second),
        cpu_us_per_packet: figures::cpu_us_per(&cpu, rates.rate_pps),
        cpu,
        memory: taken.memory,
        intervals: window.intervals,
    })
}

fn nothing_arrived(test: Test, accounting: Option<&Accounting>) -> LabError {
    let lost = accounting.map_or_else(String::new, |accounting| {
        let sent = accounting.sent;
        let words = figures::lost_in_words(accounting);
        format!("; of {sent} packets: {words}")
    });
    LabError::Generator {
        reason: format!("nothing of {test} arrived in the window{lost}"),
    }
}
