//! When the packets of a rate are due, and sleeping until then. Used by udp::send, frames::send and tcp::stream.
//!
//! ```text
//!  due     │   │   │   │   │   │   │   │   │   │         packet n at start + n / rate
//!  wake-up     ▲       ▲       ▲                         whatever is due goes as one batch
//!  stall                        ├─── > 10 ms ───┤▲       what is older than 10 ms is not sent any more
//! ```
//!
//! A packet that is sent late keeps its intended time, so that its latency counts the wait.

use crate::error::TrafficError;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::time::Duration;

/// How long after its time a packet is still sent.
const STALE_NS: u64 = 10_000_000;

/// A sleep is never shorter: what becomes due meanwhile goes as a batch. Sleeping costs a few
/// microseconds of the CPU that the switch may need.
const SHORTEST_SLEEP_NS: u64 = 50_000;

/// A sleep is never longer, so that an order to stop is seen.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    // The clock exists on every Linux; there is no other reason to fail.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Lets the sleeps of the calling thread end when they should, instead of up to 50 µs later.
pub(crate) fn sharpen_sleep() {
    // Where it is refused, packets are late by that, which their latency shows.
    let _ = prctl::set_timerslack(1);
}

/// Sleeps until `deadline_ns`, within the bounds above.
pub(crate) fn sleep_until(now_ns: u64, deadline_ns: u64) {
    let until = deadline_ns.clamp(now_ns + SHORTEST_SLEEP_NS, now_ns + LONGEST_SLEEP_NS);
    let until = TimeSpec::from_duration(Duration::from_nanos(until));
    // A sleep that ends early (a signal) makes the caller look at the clock again.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        &until,
    );
}

/// Refuses a rate that is none.
pub(crate) fn check_rate(what: &'static str, rate: Option<f64>) -> Result<(), TrafficError> {
    match rate {
        Some(rate) if !(rate > 0.0 && rate <= 1e9) => Err(TrafficError::Invalid {
            what,
            value: rate.to_string(),
            wanted: "more than 0 and at most 1000000000, or null for as fast as it goes".into(),
        }),
        _ => Ok(()),
    }
}

/// What one of several threads sends of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pps: f64,
    /// The first packet, so that the threads take turns.
    offset_ns: u64,
}

impl Rate {
    /// The whole rate, of one thread.
    pub(crate) fn of(pps: f64) -> Self {
        Self { pps, offset_ns: 0 }
    }

    /// The part of a thread that has `instances` of `all`; `None` if there is no rate.
    pub(crate) fn share(
        rate_pps: Option<f64>,
        instances: usize,
        all: u32,
        thread: usize,
        threads: usize,
    ) -> Option<Self> {
        let pps = rate_pps? * instances as f64 / f64::from(all);
        Some(Self {
            pps,
            offset_ns: (1e9 / pps * thread as f64 / threads as f64) as u64,
        })
    }

    /// Its packets from now on.
    pub(crate) fn begin(self, now_ns: u64) -> Pacer {
        Pacer::new(self.pps, now_ns + self.offset_ns)
    }
}

/// The packets of one rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    start_ns: u64,
    gap_ns: f64,
    /// Number of the next packet to send.
    next: u64,
    /// Packets whose time had come when the clock was last read.
    due: u64,
}

impl Pacer {
    /// A packet at `start_ns`, then `rate_pps` a second.
    fn new(rate_pps: f64, start_ns: u64) -> Self {
        Self {
            start_ns,
            gap_ns: 1e9 / rate_pps,
            next: 0,
            due: 0,
        }
    }

    /// Reads the clock: how many packets are to be sent now. Those that are too late are given up.
    pub(crate) fn wake(&mut self, now_ns: u64) -> u64 {
        let elapsed = |until: u64| until.checked_sub(self.start_ns).map(|ns| ns as f64);
        if let Some(elapsed_ns) = elapsed(now_ns) {
            self.due = self.due.max((elapsed_ns / self.gap_ns) as u64 + 1);
        }
        if let Some(stale_ns) = elapsed(now_ns.saturating_sub(STALE_NS)) {
            let fresh = (stale_ns / self.gap_ns).ceil() as u64;
            self.next = self.next.max(fresh.min(self.due));
        }
        self.due - self.next
    }

    /// The intended time of the next packet, which is thereby sent. Only as often as [`Self::wake`] said.
    pub(crate) fn take(&mut self) -> u64 {
        let at = self.next_ns();
        self.next += 1;
        at
    }

    /// When the next packet is due.
    pub(crate) fn next_ns(&self) -> u64 {
        self.start_ns + (self.next as f64 * self.gap_ns) as u64
    }

    /// Packets that were to be sent so far, sent or given up.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// The end: what has just become due is not missing, what is too late is. Returns [`Self::due`].
    pub(crate) fn finish(&mut self, now_ns: u64) -> u64 {
        self.wake(now_ns);
        self.due = self.next;
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000_000;

    fn take_all(pacer: &mut Pacer, now_ns: u64) -> Vec<u64> {
        (0..pacer.wake(now_ns)).map(|_| pacer.take()).collect()
    }

    #[test]
    fn packets_are_due_at_start_plus_number_over_rate() {
        let mut pacer = Pacer::new(1000.0, START);
        assert_eq!(pacer.wake(START - 1), 0);
        assert_eq!(take_all(&mut pacer, START), [START]);
        assert_eq!(pacer.wake(START + 999_999), 0);
        assert_eq!(pacer.next_ns(), START + 1_000_000);
        let late = take_all(&mut pacer, START + 3_500_000);
        assert_eq!(late, [1, 2, 3].map(|ms| START + ms * 1_000_000));
        assert_eq!(pacer.due(), 4);
    }

    #[test]
    fn what_a_stall_missed_is_due_but_not_sent() {
        let mut pacer = Pacer::new(1000.0, START);
        assert_eq!(take_all(&mut pacer, START).len(), 1);
        // 100 packets became due during the stall; those of the last 10 ms are sent.
        let sent = take_all(&mut pacer, START + 100_000_000);
        assert_eq!(sent.first(), Some(&(START + 90_000_000)));
        assert_eq!(sent.len(), 11);
        assert_eq!(pacer.due(), 101);
    }

    #[test]
    fn long_runs_neither_gain_nor_lose_packets() {
        let mut pacer = Pacer::new(333_333.3, START);
        let mut sent = 0;
        for step in 0..100_000 {
            sent += take_all(&mut pacer, START + step * 100_000).len() as u64;
        }
        assert_eq!(sent, pacer.due());
        assert!(sent.abs_diff(3_333_300) <= 1, "{sent} packets");
    }

    #[test]
    fn the_end_counts_the_late_but_not_the_just_due() {
        let mut pacer = Pacer::new(1000.0, START);
        take_all(&mut pacer, START);
        assert_eq!(pacer.finish(START + 5_000_000), 1);
        assert_eq!(pacer.finish(START + 20_000_000), 10);
    }

    #[test]
    fn threads_share_a_rate_by_instances_and_take_turns() {
        assert!(Rate::share(None, 1, 3, 0, 2).is_none());
        let first = Rate::share(Some(3000.0), 2, 3, 0, 2).unwrap();
        let second = Rate::share(Some(3000.0), 1, 3, 1, 2).unwrap();
        assert_eq!(first.begin(START).next_ns(), START);
        assert_eq!(second.begin(START).next_ns(), START + 500_000);
        let (mut first, mut second) = (first.begin(START), second.begin(START));
        let later = START + 9_999_999;
        assert_eq!(take_all(&mut first, later).len(), 20);
        assert_eq!(take_all(&mut second, later).len(), 10);
    }

    #[test]
    fn the_clock_goes_on() {
        let before = now_ns();
        sleep_until(before, before);
        assert!(now_ns() > before);
    }
}
