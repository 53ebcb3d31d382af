//! Makes the transactions of one instance: blocking calls, for the lowest latency. Their other end is
//! [`super::answer`].

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::AsRawFd;

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
            let came = dialogue.listen(&self.flow, &mut response, hand, MsgFlags::empty())?;
            if came == Some(true) {
                dialogue.complete(now_ns(), hand);
                dialogue.ask(&self.flow, hand)?;
            } else {
                // Something else came, or nothing: the time-out goes on.
                dialogue.review(&self.flow, &mut response, hand)?;
            }
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
        flags: MsgFlags,
    ) -> Result<Option<bool>, TrafficError> {
        let received = match recv(flow.socket.as_raw_fd(), response, flags) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(errno) => {
                let refused = "receive a response";
                return Err(TrafficError::refused(refused, flow.place(), errno));
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

    /// Sends the request again if the response should have come by now. A driver that slept through the time-out takes a last
    /// look: what lies at the socket did come.
    pub(super) fn review(
        &mut self,
        flow: &Flow,
        response: &mut [u8],
        hand: &Hand,
    ) -> Result<(), TrafficError> {
        if !self.timed_out(now_ns()) {
            return Ok(());
        }
        loop {
            match self.listen(flow, response, hand, MsgFlags::MSG_DONTWAIT)? {
                Some(true) => {
                    self.complete(now_ns(), hand);
                    break;
                }
                Some(false) => {}
                None => {
                    self.lose(now_ns(), hand);
                    break;
                }
            }
        }
        self.ask(flow, hand)
    }

    /// Whether the response should have come by now.
    fn timed_out(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.asked_ns) >= self.exchange.timeout_ns
    }

    /// The response did not come: the transaction goes on, its latency with it.
    fn lose(&mut self, now_ns: u64, hand: &Hand) {
        hand.tally.timeouts.add(1);
        self.asked_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::sync::Arc;

    #[test]
    fn a_driver_that_slept_through_the_time_out_takes_what_came_meanwhile() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        let flow = Flow {
            stream: 0,
            socket: Arc::new(socket),
        };
        let exchange = Exchange::checked(4, 4, 10).unwrap();
        let hand = Hand::alone();
        let mut response = [0; 5];
        let mut dialogue = Dialogue::new(exchange, 0);
        peer.send_to(&0_u32.to_le_bytes(), flow.socket.local_addr().unwrap())
            .unwrap();
        // Its request was sent when the machine began: long ago.
        dialogue.review(&flow, &mut response, &hand).unwrap();
        let counted = crate::tally::sum([&hand.tally]);
        assert_eq!((counted.transactions, counted.timeouts), (1, 0));
        dialogue.asked_ns = 0;
        dialogue.review(&flow, &mut response, &hand).unwrap();
        let counted = crate::tally::sum([&hand.tally]);
        assert_eq!((counted.transactions, counted.timeouts), (1, 1));
    }
}
