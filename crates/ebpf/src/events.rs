//! What the programs show of packets: map `capture` says which, the ring `events` brings them.
//!
//! The ring has one reader at a time and keeps what nobody read; who may read, and when it is switched
//! on and off, is decided one crate up.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aya::maps::{MapData, MapError, RingBuf};
use zerocopy::{FromBytes, IntoBytes};

use crate::EbpfError;
use crate::abi::{Capture, EVENT_BYTES, Event};
use crate::maps::{self, MapSet};

const CAPTURE: &str = "capture";
const EVENTS: &str = "events";
/// The only entry of map `capture`.
const ENTRY: [u8; 4] = 0u32.to_ne_bytes();

/// What is captured at the moment.
pub fn capture(maps: &MapSet) -> Result<Capture, EbpfError> {
    let value = maps
        .map(CAPTURE)?
        .get(&ENTRY)
        .map_err(EbpfError::call("BPF_MAP_LOOKUP_ELEM", CAPTURE))?;
    // An array has all of its entries.
    Ok(value
        .and_then(|value| Capture::read_from_bytes(&value).ok())
        .unwrap_or_default())
}

/// Says what to capture, from the next packet on.
pub fn set_capture(maps: &MapSet, capture: Capture) -> Result<(), EbpfError> {
    maps.map(CAPTURE)?
        .put(&ENTRY, capture.as_bytes())
        .map_err(EbpfError::call("BPF_MAP_UPDATE_ELEM", CAPTURE))
}

/// The reading end of the ring. Its descriptor is readable while events wait.
pub struct Events {
    ring: RingBuf<MapData>,
}

impl Events {
    /// Opens the ring pinned in the folder of a map set.
    pub fn open(set: &Path) -> Result<Self, EbpfError> {
        Self::new(MapData::from_pin(set.join(EVENTS)))
    }

    /// The ring of maps that are not pinned.
    pub(crate) fn of(ring: OwnedFd) -> Result<Self, EbpfError> {
        Self::new(MapData::from_fd(ring))
    }

    fn new(data: Result<MapData, MapError>) -> Result<Self, EbpfError> {
        let ring = maps::ring(data).map_err(EbpfError::Ring)?;
        Ok(Self { ring })
    }

    /// Takes the oldest event, with the bytes of its packet, if one is there.
    pub fn next<T>(&mut self, take: impl FnOnce(Event, &[u8]) -> T) -> Option<T> {
        loop {
            let item = self.ring.next()?;
            if let Some((event, bytes)) = split(&item) {
                return Some(take(event, bytes));
            }
            // Shorter than it says: no program of ours wrote it.
        }
    }

    /// Throws away what waits; not what comes meanwhile, which may never end.
    pub fn drain(&mut self) {
        for _ in 0..EVENT_BYTES / size_of::<Event>() {
            if self.ring.next().is_none() {
                return;
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// Header and captured bytes of one record, which the ring fills up to a multiple of 8.
fn split(record: &[u8]) -> Option<(Event, &[u8])> {
    let (event, bytes) = Event::read_from_prefix(record).ok()?;
    Some((event, bytes.get(..event.captured as usize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_bytes_it_says() {
        let event = Event::read_from_bytes(&[0; size_of::<Event>()]).unwrap();
        let event = Event {
            captured: 3,
            len: 60,
            ..event
        };
        let mut record = event.as_bytes().to_vec();
        record.extend([1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(split(&record), Some((event, &[1, 2, 3][..])));
        record.truncate(size_of::<Event>() + 2);
        assert_eq!(split(&record), None);
        assert_eq!(split(&[0; 8]), None);
    }
}
