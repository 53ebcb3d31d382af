//! What is counted, and the line that tells it.

use crate::boot::Mac;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared by all threads. One lock for all: they count a few thousand things a second.
#[derive(Default)]
pub(crate) struct Counters(Mutex<Counts>);

/// What has happened since the machine booted, or since the order `reset`.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) udp_received: u64,
    pub(crate) udp_duplicates: u64,
    pub(crate) udp_reordered: u64,
    /// Too short for a sequence number, or of one sender too many.
    pub(crate) udp_uncounted: u64,
    pub(crate) tcp_connections: u64,
    pub(crate) tcp_bytes: u64,
    pub(crate) wrong_frames: u64,
    pub(crate) wrong_mac: Option<Mac>,
    pub(crate) duplicate_frames: u64,
    last_datagram: Option<Instant>,
    longest_gap: Duration,
}

impl Counters {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        // Numbers are whole whoever left the lock how.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Notes that a datagram came now. The clock of a virtual machine stands while it is stopped.
    pub(crate) fn datagram_at(&mut self, now: Instant) {
        if let Some(last) = self.last_datagram.replace(now) {
            self.longest_gap = self.longest_gap.max(now.saturating_duration_since(last));
        }
    }

    /// `key=value` words, each with a blank before it.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        let numbers = [
            ("udp_received", self.udp_received),
            ("udp_duplicates", self.udp_duplicates),
            ("udp_reordered", self.udp_reordered),
            ("udp_uncounted", self.udp_uncounted),
            (
                "udp_longest_gap_us",
                u64::try_from(self.longest_gap.as_micros()).unwrap_or(u64::MAX),
            ),
            ("tcp_connections", self.tcp_connections),
            ("tcp_bytes", self.tcp_bytes),
            ("wrong_frames", self.wrong_frames),
            ("duplicate_frames", self.duplicate_frames),
        ];
        for (key, number) in numbers {
            // Writing to a string does not fail.
            let _ = write!(words, " {key}={number}");
        }
        if let Some(mac) = self.wrong_mac {
            let _ = write!(words, " wrong_mac={mac}");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_lies_between_two_datagrams() {
        let (mut counts, start) = (Counts::default(), Instant::now());
        for ms in [900, 910, 1000, 1005] {
            counts.datagram_at(start + Duration::from_millis(ms));
        }
        counts.wrong_mac = Some(Mac([2; 6]));
        let words = counts.words();
        assert!(words.contains(" udp_longest_gap_us=90000 "), "{words}");
        assert!(words.ends_with(" wrong_mac=02:02:02:02:02:02"), "{words}");
        assert!(!Counts::default().words().contains("wrong_mac"));
    }
}
