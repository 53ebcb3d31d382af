//! Sends numbered datagrams, paced or as fast as it goes; their other end is [`super::receive`].
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
        self.batch.len() * self.stream.segments
    }

    /// Sends a flow's datagrams; the next flow's turn is next.
    fn send(
        &mut self,
        count: usize,
        mut intended_ns: impl FnMut() -> u64,
        hand: &Hand,
    ) -> Result<(), TrafficError> {
        let (payload, segments) = (self.stream.payload_bytes, self.stream.segments);
        let flow = &self.flows[self.turn];
        let number = &mut self.numbers[self.turn];
        self.turn = (self.turn + 1) % self.flows.len();
        for packet in 0..count {
            let header = Header {
                stream: flow.stream,
                number: *number,
                intended_ns: intended_ns(),
            };
            *number = number.wrapping_add(1);
            let at = packet % segments * payload;
            self.batch.slot(packet / segments)[at..at + HEADER].copy_from_slice(&header.bytes());
        }
        let messages = count.div_ceil(segments);
        let of_message = |message: usize| segments.min(count - message * segments);
        for message in 0..messages {
            self.batch
                .set_length(message, of_message(message) * payload);
        }
        let mut refused = 0;
        send_all(
            &mut self.batch,
            &flow.socket,
            0..messages,
            hand,
            |message| refused += of_message(message),
        )
        .map_err(|(_, error)| TrafficError::refused("send a datagram", flow.place(), error))?;
        let tally = &hand.tally;
        tally.refused_packets.add(refused as u64);
        tally.sent_packets.add((count - refused) as u64);
        tally.sent_bytes.add(((count - refused) * payload) as u64);
        Ok(())
    }
}
