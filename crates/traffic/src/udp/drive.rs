//! Makes the transactions of one instance: blocking calls, for the lowest latency. Their other end is
//! [`super::answer`].

use crate::error::TrafficError;
use crate::pacing::now_ns;
use crate::ticks::Ticks;
use crate::workers::{Hand, Worker};

use super::{Exchange, Flow};

/// The transactions of one socket.
pub(super) struct Driver {
    exchange: Exchange,
    flow: Flow,
}

impl Driver {
    pub(super) fn new(exchange: Exchange, flow: Flow) -> Self {
        Self { exchange, flow }
    }
}

impl Worker for Driver {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        let _ticks = Ticks::every(self.exchange.review())?;
        let mut dialogue = Dialogue::new(self.exchange, now_ns());
        let mut response = vec![0; self.exchange.response_bytes + 1];
        dialogue.ask(&self.flow, hand)?;
        while !hand.stopping() {
            let came = dialogue.listen(&self.flow, &mut response, hand)?;
            let now_ns = now_ns();
            match came {
                Some(true) => dialogue.complete(now_ns, hand),
                // Something else came: the time-out goes on.
                Some(false) | None if !dialogue.timed_out(now_ns) => continue,
                Some(false) | None => dialogue.lose(now_ns, hand),
            }
            dialogue.ask(&self.flow, hand)?;
        }
        Ok(())
    }
}

/// The transaction that a socket has under way.
pub(super) struct Dialogue {
    exchange: Exchange,
    request: Vec<u8>,
    number: u32,
    /// When the transaction began.
    begun_ns: u64,
    /// When its last request was sent.
    asked_ns: u64,
}

impl Dialogue {
    pub(super) fn new(exchange: Exchange, now_ns: u64) -> Self {
        Self {
            exchange,
            request: vec![0; exchange.request_bytes],
            number: 0,
            begun_ns: now_ns,
            asked_ns: now_ns,
        }
    }

    /// Sends the request.
    pub(super) fn ask(&mut self, flow: &Flow, hand: &Hand) -> Result<(), TrafficError> {
        let bytes = self.exchange.number_bytes();
        let number = self.number.to_le_bytes();
        self.request[..bytes].copy_from_slice(&number[..bytes]);
        match flow.socket.send(&self.request) {
            Ok(sent) => {
                hand.tally.sent_packets.add(1);
                hand.tally.sent_bytes.add(sent as u64);
                Ok(())
            }
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                // The time-out sends it again.
                libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN | libc::EINTR => {
                    hand.tally.refused_packets.add(1);
                    Ok(())
                }
                _ => Err(TrafficError::refused("send a request", flow.place(), error)),
            },
        }
    }

    /// Receives: whether it is the response; `None`: nothing came.
    pub(super) fn listen(
        &self,
        flow: &Flow,
        response: &mut [u8],
        hand: &Hand,
    ) -> Result<Option<bool>, TrafficError> {
        let received = match flow.socket.recv(response) {
            Ok(received) => received,
            Err(error) => {
                return match error.raw_os_error().unwrap_or(0) {
                    libc::EAGAIN | libc::EINTR => Ok(None),
                    _ => Err(TrafficError::refused(
                        "receive a response",
                        flow.place(),
                        error,
                    )),
                };
            }
        };
        let bytes = self.exchange.number_bytes();
        if received != self.exchange.response_bytes {
            hand.tally.foreign_packets.add(1);
            return Ok(Some(false));
        }
        if response[..bytes] != self.number.to_le_bytes()[..bytes] {
            hand.tally.duplicate_packets.add(1);
            return Ok(Some(false));
        }
        hand.tally.received_packets.add(1);
        hand.tally.received_bytes.add(received as u64);
        Ok(Some(true))
    }

    /// The response came: the next transaction begins.
    pub(super) fn complete(&mut self, now_ns: u64, hand: &Hand) {
        hand.tally.transactions.add(1);
        if let Some(mut latency) = hand.latency() {
            latency.record(now_ns.saturating_sub(self.begun_ns));
        }
        self.number = self.number.wrapping_add(1);
        self.begun_ns = now_ns;
        self.asked_ns = now_ns;
    }

    /// Whether the response should have come by now.
    pub(super) fn timed_out(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.asked_ns) >= self.exchange.timeout_ns
    }

    /// The response did not come: the transaction goes on, its latency with it.
    pub(super) fn lose(&mut self, now_ns: u64, hand: &Hand) {
        hand.tally.timeouts.add(1);
        self.asked_ns = now_ns;
    }
}
