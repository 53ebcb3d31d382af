//! The window of a sample: everything that is counted in it, at its beginning, at its end, and every quarter of a
//! second between.

use super::traffic::{Latest, Readings, Traffic};
use crate::error::LabError;
use crate::machine::cpu_time::CpuTimes;
use crate::machine::programs::Programs;
use crate::relay::CpuTime;
use crate::session::Session;
use crate::topology::Topology;
use crate::watch::Live;
use overlane_analysis::record::{Cpu, Foreign, Interval, Test};
use overlane_traffic::message::{Counters, Reading};
use std::time::{Duration, Instant};

/// How often the window is looked into.
const STEP: Duration = Duration::from_millis(250);
/// A rest of the window below this is no step of its own.
const SHORTEST_STEP: Duration = Duration::from_millis(100);

/// What a window came to.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// By the laboratory's clock; that of the CPUs.
    pub(super) length: Duration,
    pub(super) cpu: Cpu,
    pub(super) foreign: Foreign,
    /// What left the wires' sending ends, and in what time.
    pub(super) wire: Wire,
    pub(super) wire_length: Duration,
    /// The agents' counters at both ends, each with its own time.
    pub(super) first: Readings,
    pub(super) last: Readings,
    pub(super) intervals: Vec<Interval>,
}

/// Packets and bytes that left the wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Wire {
    fn read(topology: &Topology) -> Result<Self, LabError> {
        let mut sum = Self::default();
        for (node, device) in topology.wires() {
            let stats = node.netlink.link(device)?.stats;
            sum.packets += stats.tx_packets;
            sum.bytes += stats.tx_bytes;
        }
        Ok(sum)
    }

    fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// What was read, and when: a rate is of these two.
#[derive(Clone, Copy)]
struct Timed<T> {
    at: Instant,
    value: T,
}

impl<T> Timed<T> {
    fn read(read: impl FnOnce() -> Result<T, LabError>) -> Result<Self, LabError> {
        let before = Instant::now();
        let value = read()?;
        let at = before + before.elapsed() / 2;
        Ok(Self { at, value })
    }
}

/// What the laboratory itself reads, one after the other.
struct Moment {
    cpu: CpuTimes,
    wire: Timed<Wire>,
    /// Packets that the receiving guests' devices took in.
    arrived: Timed<u64>,
    relays: Timed<CpuTime>,
}

impl Moment {
    fn read(topology: &Topology) -> Result<Self, LabError> {
        let arrived = || {
            let mut arrived = 0;
            for (node, device) in topology.arrivals() {
                arrived += node.netlink.link(device)?.stats.rx_packets;
            }
            Ok(arrived)
        };
        Ok(Self {
            wire: Timed::read(|| Wire::read(topology))?,
            arrived: Timed::read(arrived)?,
            relays: Timed::read(|| topology.relay_cpu_time())?,
            cpu: CpuTimes::now()?,
        })
    }
}

/// Opens a window now, closes it after `length`.
pub(super) fn watch(
    session: &Session,
    topology: &Topology,
    traffic: &mut Traffic<'_>,
    test: Test,
    length: Duration,
    live: &mut dyn FnMut(Live),
) -> Result<Window, LabError> {
    // The readings lie outside of the span in which CPU time counts: to write them costs the agents some.
    let programs = Programs::now()?;
    let first = traffic.mark()?;
    let begin = Moment::read(topology)?;
    let mut steps = Steps::new(test, &begin, &first);
    let end = begin.cpu.at + length;
    let mut before = Moment {
        cpu: begin.cpu.clone(),
        ..begin
    };
    loop {
        let next = before.cpu.at + STEP;
        let is_last = next + SHORTEST_STEP > end;
        let until = if is_last { end } else { next };
        let wait = until.saturating_duration_since(Instant::now());
        session.interrupts.wait(wait)?;
        let now = Moment::read(topology)?;
        if is_last {
            let last = traffic.mark()?;
            live(steps.step(session, &before, &now, &told_by(&last)));
            let (own, cpus) = (std::process::id(), session.cpus.all());
            let foreign = Programs::now()?.foreign_since(&programs, own, &cpus);
            let relays = |of: fn(&CpuTime) -> Option<Duration>| {
                let length = now.relays.at - begin.relays.at;
                share(of(&begin.relays.value), of(&now.relays.value), length)
            };
            return Ok(Window {
                length: now.cpu.at - begin.cpu.at,
                cpu: Cpu {
                    relay_sender_percent: relays(|time| time.senders),
                    relay_receiver_percent: relays(|time| time.receivers),
                    ..now.cpu.since(&begin.cpu, &session.cpus)
                },
                foreign,
                wire: now.wire.value.since(begin.wire.value),
                wire_length: now.wire.at - begin.wire.at,
                first,
                last,
                intervals: steps.intervals,
            });
        }
        live(steps.step(session, &before, &now, &traffic.latest()?));
        before = now;
    }
}

/// CPU time in per cent of one CPU.
fn share(before: Option<Duration>, now: Option<Duration>, length: Duration) -> Option<f64> {
    let spent = now?.saturating_sub(before?);
    Some(100.0 * spent.as_secs_f64() / length.as_secs_f64())
}

/// How fast a count rose between two readings of it.
fn rise_per_second<T: Copy>(before: Timed<T>, now: Timed<T>, count: fn(T) -> u64) -> f64 {
    let rise = count(now.value).saturating_sub(count(before.value));
    rise as f64 / (now.at - before.at).as_secs_f64()
}

/// The steps of a window.
struct Steps {
    test: Test,
    begin: Instant,
    before: Latest,
    intervals: Vec<Interval>,
}

impl Steps {
    fn new(test: Test, begin: &Moment, first: &Readings) -> Self {
        Self {
            test,
            begin: begin.cpu.at,
            before: told_by(first),
            intervals: Vec::new(),
        }
    }

    /// Notes an interval and says how things go.
    fn step(&mut self, session: &Session, before: &Moment, now: &Moment, told: &Latest) -> Live {
        let of_wire = |wire: Wire| wire.packets;
        let underlay_rate_pps = rise_per_second(before.wire, now.wire, of_wire);
        let receiver_rate_pps = rise_per_second(before.arrived, now.arrived, |packets| packets);
        let sent_by = |of: fn(&Counters) -> u64| rate(&self.before.senders, &told.senders, of);
        let got_by = |of: fn(&Counters) -> u64| rate(&self.before.receivers, &told.receivers, of);
        let mut moment = Live {
            underlay_rate_pps,
            elapsed_seconds: (now.cpu.at - self.begin).as_secs_f64(),
            ..Live::default()
        };
        if self.test.is_transactions() {
            moment.transactions_per_second = sent_by(|counters| counters.transactions);
        } else {
            let received = |counters: &Counters| counters.received_bytes;
            let both = sent_by(received).zip(got_by(received));
            moment.goodput_gbps = both.map(|(one, other)| (one + other) * 8e-9);
        }
        if self.test.is_packets() {
            moment.rate_pps = got_by(|counters| counters.received_packets);
        }
        let cpu = now.cpu.since(&before.cpu, &session.cpus);
        moment.cpu_sender_percent = cpu.sender.map(|cpu| cpu.busy_percent);
        moment.cpu_receiver_percent = cpu.receiver.map(|cpu| cpu.busy_percent);
        self.intervals.push(Interval {
            at_seconds: moment.elapsed_seconds,
            goodput_gbps: moment.goodput_gbps,
            underlay_rate_pps,
            receiver_rate_pps,
        });
        advance(&mut self.before.senders, &told.senders);
        advance(&mut self.before.receivers, &told.receivers);
        moment
    }
}

/// Readings that were asked for, as agents tell theirs.
fn told_by(readings: &Readings) -> Latest {
    let told = |readings: &[Reading]| {
        let readings = readings.iter();
        readings
            .map(|reading| Some((reading.at_ns, reading.counters)))
            .collect()
    };
    Latest {
        senders: told(&readings.senders),
        receivers: told(&readings.receivers),
    }
}

type Told = Option<(u64, Counters)>;

/// The agents' rates together, each over its own time; `None` when one has told nothing new.
fn rate(before: &[Told], now: &[Told], of: fn(&Counters) -> u64) -> Option<f64> {
    let rates = before.iter().zip(now).map(|(before, now)| {
        let ((then_ns, then), (now_ns, now)) = ((*before)?, (*now)?);
        let span_ns = now_ns.checked_sub(then_ns).filter(|span| *span > 0)?;
        Some(of(&now).saturating_sub(of(&then)) as f64 / (span_ns as f64 * 1e-9))
    });
    rates.sum()
}

/// Keeps the newer of both: what was told before the window began is older than its first reading.
fn advance(before: &mut [Told], now: &[Told]) {
    for (before, now) in before.iter_mut().zip(now) {
        let at = |told: &Told| told.map_or(0, |(at_ns, _)| at_ns);
        if at(now) > at(before) {
            *before = *now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at_ms: u64, received_bytes: u64) -> Told {
        let counters = Counters {
            received_bytes,
            ..Counters::default()
        };
        Some((at_ms * 1_000_000, counters))
    }

    #[test]
    fn a_count_rises_over_its_own_time() {
        let at = Instant::now();
        let read = |ms, value| Timed {
            at: at + Duration::from_millis(ms),
            value,
        };
        let same = |packets| packets;
        assert_eq!(rise_per_second(read(0, 10), read(500, 60), same), 100.0);
        assert_eq!(rise_per_second(read(40, 10), read(290, 60), same), 200.0);
        assert_eq!(rise_per_second(read(0, 10), read(500, 9), same), 0.0);
    }

    #[test]
    fn each_agents_rate_is_over_its_own_time() {
        let before = [told(1000, 0), told(1010, 500)];
        let now = [told(1250, 250), told(1510, 1500)];
        let found = rate(&before, &now, |counters| counters.received_bytes).unwrap();
        assert!((found - (1000.0 + 2000.0)).abs() < 1e-6, "{found}");
    }

    #[test]
    fn without_news_there_is_no_rate() {
        let of = |counters: &Counters| counters.received_bytes;
        let before = [told(1000, 5), told(1000, 5)];
        assert_eq!(rate(&before, &[told(1250, 9), told(1000, 5)], of), None);
        assert_eq!(rate(&before, &[told(1250, 9), told(900, 5)], of), None);
        assert_eq!(rate(&before, &[told(1250, 9), None], of), None);
        assert_eq!(rate(&[], &[], of), Some(0.0));
    }

    #[test]
    fn what_is_older_than_the_windows_beginning_is_not_taken() {
        let mut before = [told(1000, 5), told(1000, 5), None];
        let now = [told(900, 4), told(1250, 9), told(1, 1)];
        advance(&mut before, &now);
        assert_eq!(before, [told(1000, 5), told(1250, 9), told(1, 1)]);
    }
}
