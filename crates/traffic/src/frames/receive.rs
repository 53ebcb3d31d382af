//! Receives numbered frames from the rings of devices and judges their numbers; their other end is
//! [`super::send`].
//!
//! One thread is enough: the kernel copies the frames in the context of whoever delivers them, what is left is
//! to read the headers in passing. So a frame that comes at two devices is seen to be a duplicate.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

use crate::error::TrafficError;
use crate::incoming::{Drain, Judge};
use crate::pacing::now_ns;
use crate::sequence::Header;
use crate::sys::{bind_device, option, set_filter, set_option};
use crate::workers::{Drops, Hand, Worker};

use super::sys::{Ring, RingFrame, count_drops};
use super::template::headers_bytes;
use super::{FCS_BYTES, filter, index, packet_socket};

/// Memory of all rings together, as far as each gets its least.
const ALL_RINGS_BYTES: usize = 32 << 20;
const LEAST_RING_BYTES: usize = 512 << 10;
const MOST_RING_BYTES: usize = 8 << 20;

/// How long a wait takes before the receiver looks whether the job is to end.
const PATIENCE_MS: u16 = 100;

/// A ring, and its socket once more for the counter of drops.
pub(super) type CountedRing = (Ring, OwnedFd);

/// Receives at all devices.
pub(super) struct Receiver {
    frame_bytes: usize,
    rings: Vec<Ring>,
}

impl Receiver {
    pub(super) fn new(frame_bytes: usize, rings: Vec<Ring>) -> Self {
        Self { frame_bytes, rings }
    }
}

impl Worker for Receiver {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        let Self {
            frame_bytes,
            mut rings,
        } = *self;
        let mut reading = Reading {
            frame_bytes: frame_bytes - FCS_BYTES,
            judge: Judge::new(),
            hand,
        };
        let mut drain = Drain::new();
        while drain.goes_on(hand.stopping()) {
            let mut came = false;
            for ring in &mut rings {
                came |= reading.take(ring);
            }
            if came {
                drain.came();
            } else {
                wait(&rings)?;
            }
        }
        Ok(())
    }
}

struct Reading<'a> {
    /// Without FCS.
    frame_bytes: usize,
    judge: Judge,
    hand: &'a Hand,
}

impl Reading<'_> {
    /// Reads a block of a ring, if there is one.
    fn take(&mut self, ring: &mut Ring) -> bool {
        let mut latency = self.hand.latency();
        // The kernel's stamps are of the other clock.
        let ahead_ns = if latency.is_some() { ahead_ns() } else { 0 };
        let (mut received_bytes, judge) = (0, &mut self.judge);
        let came = ring.take(|frame| {
            let payload = payload(&frame, self.frame_bytes);
            let header = payload.and_then(|payload| Header::read(payload.bytes));
            if judge.judge(header) {
                received_bytes += payload.map_or(0, |payload| payload.length as u64);
            }
            if let (Some(latency), Some(header)) = (&mut latency, header) {
                let at_ns = frame.at_ns.saturating_sub(ahead_ns);
                latency.record(at_ns.saturating_sub(header.intended_ns));
            }
        });
        judge.report(&self.hand.tally, received_bytes);
        came
    }
}

/// The UDP payload of a frame: as much as was kept, and its length.
#[derive(Clone, Copy)]
struct Payload<'a> {
    bytes: &'a [u8],
    length: usize,
}

/// The payload of a frame that passed the filter; `None`: its length is not that of this job's frames.
fn payload<'a>(frame: &RingFrame<'a>, frame_bytes: usize) -> Option<Payload<'a>> {
    if frame.length != frame_bytes {
        return None;
    }
    let headers = headers_bytes(*frame.bytes.get(12..14)? == [0x08, 0x00]);
    Some(Payload {
        bytes: frame.bytes.get(headers..)?,
        length: frame_bytes.checked_sub(headers)?,
    })
}

/// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
fn ahead_ns() -> u64 {
    let real_ns = clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |time| {
        u64::try_from(std::time::Duration::from(time).as_nanos()).unwrap_or(u64::MAX)
    });
    real_ns.saturating_sub(now_ns())
}

fn wait(rings: &[Ring]) -> Result<(), TrafficError> {
    let mut sockets: Vec<PollFd<'_>> = rings
        .iter()
        .map(|ring| PollFd::new(ring.as_fd(), PollFlags::POLLIN))
        .collect();
    match poll(&mut sockets, PollTimeout::from(PATIENCE_MS)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => {
            return Err(TrafficError::refused(
                "wait for frames",
                "poll, this agent",
                errno,
            ));
        }
    }
    // A device that went down or away says so once, and poll would not wait any more.
    for ring in rings {
        let error = option(ring, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        if error != 0 {
            let error = Errno::from_raw(error);
            return Err(TrafficError::refused("receive frames", "AF_PACKET", error));
        }
    }
    Ok(())
}

/// Opens a ring at each device.
pub(super) fn rings(devices: &[String]) -> Result<Vec<CountedRing>, TrafficError> {
    let bytes = (ALL_RINGS_BYTES / devices.len()).clamp(LEAST_RING_BYTES, MOST_RING_BYTES);
    devices.iter().map(|device| open(device, bytes)).collect()
}

fn open(device: &str, bytes: usize) -> Result<CountedRing, TrafficError> {
    let refused =
        |operation: &'static str| move |error| TrafficError::refused(operation, device, error);
    // It receives nothing until it is bound, and by then the filter is in place.
    let socket = packet_socket().map_err(refused("open a packet socket"))?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
        .map_err(refused("ignore outgoing frames"))?;
    set_filter(&socket, &filter::program()).map_err(refused("filter frames"))?;
    let counter = socket
        .try_clone()
        .map_err(refused("keep the counter of a packet socket"))?;
    let ring = Ring::new(socket, bytes).map_err(refused("make a receive ring"))?;
    bind_device(&ring, index(device)?).map_err(refused("receive frames"))?;
    Ok((ring, counter))
}

/// Frames that the rings had no room for.
pub(super) fn drops(counters: Vec<OwnedFd>) -> Drops {
    let counters: Vec<_> = counters
        .into_iter()
        .map(|socket| (socket, AtomicU64::new(0)))
        .collect();
    Box::new(move || {
        counters
            .iter()
            .map(|(socket, total)| count_drops(socket, total))
            .sum()
    })
}
