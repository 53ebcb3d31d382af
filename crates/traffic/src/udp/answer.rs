//! Answers requests; their other end is [`super::drive`] or [`super::drive_many`].

use std::io;

use crate::error::TrafficError;
use crate::ticks::Ticks;
use crate::workers::{Hand, Worker};

use super::ready::Ready;
use super::{Exchange, Flow, PATIENCE};

/// One thread's sockets.
pub(super) struct Answerer {
    exchange: Exchange,
    flows: Vec<Flow>,
}

impl Answerer {
    pub(super) fn new(exchange: Exchange, flows: Vec<Flow>) -> Self {
        Self { exchange, flows }
    }
}

impl Worker for Answerer {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        let mut answering = Answering {
            number_bytes: self.exchange.number_bytes(),
            request: vec![0; self.exchange.request_bytes + 1],
            response: vec![0; self.exchange.response_bytes],
            known: vec![false; self.flows.len()],
            hand,
        };
        if let [flow] = &self.flows[..] {
            let _ticks = Ticks::every(PATIENCE)?;
            while !hand.stopping() {
                answering.answer(0, flow)?;
            }
            return Ok(());
        }
        answering.answer_many(&self.flows)
    }
}

struct Answering<'a> {
    number_bytes: usize,
    /// A byte more than a request should have, so that a longer one is noticed.
    request: Vec<u8>,
    response: Vec<u8>,
    /// The flows that are connected to their driver.
    known: Vec<bool>,
    hand: &'a Hand,
}

impl Answering<'_> {
    fn answer_many(&mut self, flows: &[Flow]) -> Result<(), TrafficError> {
        let mut ready = Ready::new(flows, PATIENCE)?;
        while !self.hand.stopping() {
            for position in ready.wait()? {
                self.answer(position, &flows[position])?;
            }
        }
        Ok(())
    }

    /// Waits for a request and answers it.
    fn answer(&mut self, position: usize, flow: &Flow) -> Result<(), TrafficError> {
        let received = if self.known[position] {
            flow.socket.recv(&mut self.request)
        } else {
            self.meet(position, flow)
        };
        let outcome = received.and_then(|bytes| {
            if bytes + 1 != self.request.len() {
                self.hand.tally.foreign_packets.add(1);
                return Ok(());
            }
            let number = &self.request[..self.number_bytes];
            self.response[..self.number_bytes].copy_from_slice(number);
            flow.socket.send(&self.response)?;
            let tally = &self.hand.tally;
            tally.transactions.add(1);
            tally.received_packets.add(1);
            tally.received_bytes.add(bytes as u64);
            tally.sent_packets.add(1);
            tally.sent_bytes.add(self.response.len() as u64);
            Ok(())
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(error) if passes(&error) => Ok(()),
            Err(error) => Err(TrafficError::refused(
                "answer a request",
                flow.place(),
                error,
            )),
        }
    }

    /// Receives the first request of a flow and connects to where it came from: the kernel finds the way
    /// there once instead of with each response.
    fn meet(&mut self, position: usize, flow: &Flow) -> io::Result<usize> {
        let (bytes, driver) = flow.socket.recv_from(&mut self.request)?;
        if bytes + 1 == self.request.len() {
            flow.socket.connect(driver)?;
            self.known[position] = true;
        }
        Ok(bytes)
    }
}

/// Whether a request may still come: nothing came yet, the response had no room, or the driver is gone.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().unwrap_or(0),
        libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM | libc::ECONNREFUSED
    )
}
