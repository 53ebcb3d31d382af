//! Receives numbered datagrams and judges their numbers; their other end is [`super::send`].

use crate::error::TrafficError;
use crate::incoming::{Drain, Judge};
use crate::pacing::now_ns;
use crate::sequence::Header;
use crate::sys::ReceiveBatch;
use crate::ticks::Ticks;
use crate::workers::{Hand, Worker};

use super::ready::Ready;
use super::{Flow, MAX_DATAGRAM_BYTES, PATIENCE, Stream};

/// Datagrams that one call takes at most.
const BATCH_DATAGRAMS: usize = 64;
/// Bytes of a batch of single datagrams.
const BATCH_BYTES: usize = 256 * 1024;
/// Super-packets that one call takes at most.
const BATCH_SUPER_PACKETS: usize = 8;

/// One thread's sockets.
pub(super) struct Receiver {
    stream: Stream,
    flows: Vec<Flow>,
}

impl Receiver {
    pub(super) fn new(stream: Stream, flows: Vec<Flow>) -> Self {
        Self { stream, flows }
    }
}

impl Worker for Receiver {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        let mut receiving = Receiving {
            payload_bytes: self.stream.payload_bytes,
            judge: Judge::new(),
            batch: batch(self.stream),
            hand,
        };
        let mut drain = Drain::new();
        match &self.flows[..] {
            [flow] => {
                let _ticks = Ticks::every(PATIENCE)?;
                while drain.goes_on(hand.stopping()) {
                    if receiving.take(flow, libc::MSG_WAITFORONE)? > 0 {
                        drain.came();
                    }
                }
                Ok(())
            }
            flows => receiving.take_from_many(flows, &mut drain),
        }
    }
}

/// A byte more than a datagram should have, so that a longer one is noticed.
fn batch(stream: Stream) -> ReceiveBatch {
    if stream.takes_super_packets() {
        return ReceiveBatch::new(BATCH_SUPER_PACKETS, MAX_DATAGRAM_BYTES as usize);
    }
    let slot_bytes = stream.payload_bytes + 1;
    ReceiveBatch::new(
        (BATCH_BYTES / slot_bytes).clamp(4, BATCH_DATAGRAMS),
        slot_bytes,
    )
}

struct Receiving<'a> {
    payload_bytes: usize,
    judge: Judge,
    batch: ReceiveBatch,
    hand: &'a Hand,
}

impl Receiving<'_> {
    fn take_from_many(&mut self, flows: &[Flow], drain: &mut Drain) -> Result<(), TrafficError> {
        let mut ready = Ready::new(flows, PATIENCE)?;
        while drain.goes_on(self.hand.stopping()) {
            for position in ready.wait()? {
                if self.take(&flows[position], libc::MSG_DONTWAIT)? > 0 {
                    drain.came();
                }
            }
        }
        Ok(())
    }

    /// Takes what has come for a flow; returns how many calls' worth of datagrams.
    fn take(&mut self, flow: &Flow, flags: libc::c_int) -> Result<usize, TrafficError> {
        let messages = match self.batch.receive(&flow.socket, flags) {
            Ok(messages) => messages,
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                libc::EAGAIN | libc::EINTR => return Ok(0),
                _ => {
                    return Err(TrafficError::refused(
                        "receive datagrams",
                        flow.place(),
                        error,
                    ));
                }
            },
        };
        let hand = self.hand;
        let mut latency = hand.latency();
        let now_ns = if latency.is_some() { now_ns() } else { 0 };
        let mut received = 0;
        for message in 0..messages {
            let (bytes, segment_bytes) = self.batch.datagram(message);
            for datagram in bytes.chunks(segment_bytes.unwrap_or(bytes.len()).max(1)) {
                let whole = datagram.len() == self.payload_bytes;
                let Some(header) = Header::read(datagram).filter(|_| whole) else {
                    self.judge.corrupt();
                    continue;
                };
                let header = Some(header).filter(|header| header.stream == flow.stream);
                received += u64::from(self.judge.judge(header));
                if let (Some(latency), Some(header)) = (&mut latency, header) {
                    latency.record(now_ns.saturating_sub(header.intended_ns));
                }
            }
        }
        self.judge
            .report(&hand.tally, received * self.payload_bytes as u64);
        Ok(messages)
    }
}
