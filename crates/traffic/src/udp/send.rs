//! Sends numbered datagrams, paced or as fast as it goes; their other end is [`super::receive`]. With more than one
//! datagram in it a message is a super-packet, and what is paced: it leaves whole.
//!
//! ```text
//!  message 0                    message 1                     one sendmmsg
//! ┌────────┬────────┬────────┐ ┌────────┬────────┬────────┐
//! │ 0 …    │ 1 …    │ 2 …    │ │ 3 …    │ 4 …    │ 5 …    │   `segments` datagrams a message
//! └────────┴────────┴────────┘ └────────┴────────┴────────┘
//! ```

use crate::error::TrafficError;
use crate::outgoing::{self, MOST_MESSAGES, Outgoing, send_all};
use crate::pacing::Rate;
use crate::sequence::{HEADER, Header};
use crate::sys::SendBatch;
use crate::workers::{Hand, Worker};

use super::{Flow, Stream};

/// Bytes of a batch: what is sent should still be in the CPU's cache when the kernel copies it.
const BATCH_BYTES: usize = 256 * 1024;

/// One thread's sockets, which it serves in turn.
pub(super) struct Sender {
    stream: Stream,
    rate: Option<Rate>,
    flows: Vec<Flow>,
}

impl Sender {
    pub(super) fn new(stream: Stream, rate: Option<Rate>, flows: Vec<Flow>) -> Self {
        Self {
            stream,
            rate,
            flows,
        }
    }
}

impl Worker for Sender {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        outgoing::run(&mut Sending::new(self.stream, &self.flows), self.rate, hand)
    }
}

struct Sending<'a> {
    stream: Stream,
    flows: &'a [Flow],
    /// Number of the next datagram of each flow.
    numbers: Vec<u32>,
    /// The flow whose turn it is.
    turn: usize,
    batch: SendBatch,
}

impl<'a> Sending<'a> {
    fn new(stream: Stream, flows: &'a [Flow]) -> Self {
        let message_bytes = stream.payload_bytes * stream.segments;
        let messages = (BATCH_BYTES / message_bytes).clamp(1, MOST_MESSAGES);
        Self {
            stream,
            flows,
            numbers: vec![0; flows.len()],
            turn: 0,
            batch: SendBatch::new(messages, message_bytes, 0),
        }
    }
}

impl Outgoing for Sending<'_> {
    fn most(&self) -> usize {
        self.batch.len()
    }

    fn packets_each(&self) -> u64 {
        self.stream.segments as u64
    }

    /// Sends messages of a flow; the next flow's turn is next.
    fn send(
        &mut self,
        count: usize,
        mut intended_ns: impl FnMut() -> u64,
        hand: &Hand,
    ) -> Result<(), TrafficError> {
        let flow = &self.flows[self.turn];
        let number = &mut self.numbers[self.turn];
        self.turn = (self.turn + 1) % self.flows.len();
        for message in 0..count {
            let intended_ns = intended_ns();
            let datagrams = self.batch.slot(message);
            for datagram in datagrams.chunks_exact_mut(self.stream.payload_bytes) {
                let header = Header {
                    stream: flow.stream,
                    number: *number,
                    intended_ns,
                };
                *number = number.wrapping_add(1);
                datagram[..HEADER].copy_from_slice(&header.bytes());
            }
        }
        let mut refused = 0;
        send_all(&mut self.batch, &flow.socket, 0..count, hand, |_| {
            refused += 1;
        })
        .map_err(|(_, error)| self.stream.refused("send a datagram", flow, error))?;
        let tally = &hand.tally;
        let (refused, sent) = (
            refused * self.stream.segments,
            (count - refused) * self.stream.segments,
        );
        tally.refused_packets.add(refused as u64);
        tally.sent_packets.add(sent as u64);
        tally
            .sent_bytes
            .add((sent * self.stream.payload_bytes) as u64);
        Ok(())
    }
}
