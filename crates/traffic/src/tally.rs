//! Counting without a cost to the traffic: each thread has totals of its own on cache lines of its
//! own; whoever wants a reading adds them up ([`sum`]).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::message::Counters;

/// A total that one thread writes and any may read.
#[derive(Debug, Default)]
pub(crate) struct Total(AtomicU64);

impl Total {
    /// Adds; for the one thread that owns it, hence no locked instruction.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0
            .store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// What it is.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What one thread counted; the fields are those of [`Counters`].
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub(crate) sent_bytes: Total,
    pub(crate) received_bytes: Total,
    pub(crate) sent_packets: Total,
    pub(crate) received_packets: Total,
    pub(crate) refused_packets: Total,
    pub(crate) due_packets: Total,
    pub(crate) reordered_packets: Total,
    pub(crate) duplicate_packets: Total,
    pub(crate) foreign_packets: Total,
    pub(crate) corrupt_packets: Total,
    pub(crate) transactions: Total,
    pub(crate) timeouts: Total,
    pub(crate) retransmits: Total,
}

/// Adds up what several threads counted.
pub(crate) fn sum<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> Counters {
    let mut total = Counters::default();
    for tally in tallies {
        total.sent_bytes += tally.sent_bytes.get();
        total.received_bytes += tally.received_bytes.get();
        total.sent_packets += tally.sent_packets.get();
        total.received_packets += tally.received_packets.get();
        total.refused_packets += tally.refused_packets.get();
        total.due_packets += tally.due_packets.get();
        total.reordered_packets += tally.reordered_packets.get();
        total.duplicate_packets += tally.duplicate_packets.get();
        total.foreign_packets += tally.foreign_packets.get();
        total.corrupt_packets += tally.corrupt_packets.get();
        total.transactions += tally.transactions.get();
        total.timeouts += tally.timeouts.get();
        total.retransmits += tally.retransmits.get();
    }
    total
}
