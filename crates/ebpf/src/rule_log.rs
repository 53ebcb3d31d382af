//! The log of rules: what rules with `log: true` decided, packet by packet, from the ring `rule_log`. The ring
//! has one reader at a time and keeps what nobody read until it is full.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aya::maps::{MapData, MapError, RingBuf};
use zerocopy::FromBytes;

use crate::EbpfError;
use crate::abi::firewall::{LOG_BYTES, LogRecord};
use crate::maps;

const RULE_LOG: &str = "rule_log";

/// The reading end of the ring. Its descriptor is readable while records wait.
pub struct RuleLog {
    ring: RingBuf<MapData>,
}

impl RuleLog {
    /// Opens the ring pinned in the folder of a map set.
    pub fn open(set: &Path) -> Result<Self, EbpfError> {
        Self::new(MapData::from_pin(set.join(RULE_LOG)))
    }

    /// The ring of maps that are not pinned.
    pub(crate) fn of(ring: OwnedFd) -> Result<Self, EbpfError> {
        Self::new(MapData::from_fd(ring))
    }

    fn new(data: Result<MapData, MapError>) -> Result<Self, EbpfError> {
        let ring = maps::ring(data).map_err(EbpfError::LogRing)?;
        Ok(Self { ring })
    }

    /// Takes the oldest record, if one is there.
    #[expect(clippy::should_implement_trait, reason = "more may come after None")]
    pub fn next(&mut self) -> Option<LogRecord> {
        loop {
            let item = self.ring.next()?;
            if let Ok((record, _)) = LogRecord::read_from_prefix(&item) {
                return Some(record);
            }
            // Shorter than a record: no program of ours wrote it.
        }
    }

    /// Throws away what waits; not what comes meanwhile, which may never end.
    pub fn drain(&mut self) {
        for _ in 0..LOG_BYTES / size_of::<LogRecord>() {
            if self.ring.next().is_none() {
                return;
            }
        }
    }
}

impl AsFd for RuleLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl fmt::Debug for RuleLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleLog").finish_non_exhaustive()
    }
}
