//! The clock of packets.

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
