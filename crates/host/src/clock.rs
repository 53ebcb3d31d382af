//! The clock of the programs (`bpf_ktime_get_ns`) and the one on the wall.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::HostError;

/// How the kernel's clock of events relates to the one on the wall.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: u64,
}

impl Clock {
    /// Both clocks at this moment.
    pub(crate) fn now() -> Result<Self, HostError> {
        let nanoseconds = |clock| -> Result<u64, HostError> {
            let time = clock_gettime(clock).map_err(HostError::system("read the clock"))?;
            let time = Duration::from(time);
            Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Ok(Self {
            monotonic_ns: nanoseconds(ClockId::CLOCK_MONOTONIC)?,
            unix_ns: nanoseconds(ClockId::CLOCK_REALTIME)?,
        })
    }

    /// The programs' clock in seconds, as entries have it that last for long.
    pub(crate) const fn monotonic_s(&self) -> u32 {
        (self.monotonic_ns / 1_000_000_000) as u32
    }

    /// When that was, in ns since 1970 (UTC).
    pub(crate) const fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        self.unix_ns
            .wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns))
    }
}
