//! Makes the transactions of several instances in one event loop. Their other end is [`super::answer`].

use nix::sys::socket::MsgFlags;

use crate::error::TrafficError;
use crate::pacing::now_ns;
use crate::workers::{Hand, Worker};

use super::drive::Dialogue;
use super::ready::Ready;
use super::{Exchange, Flow};

/// One thread's sockets.
pub(super) struct Drivers {
    exchange: Exchange,
    flows: Vec<Flow>,
}

impl Drivers {
    pub(super) fn new(exchange: Exchange, flows: Vec<Flow>) -> Self {
        Self { exchange, flows }
    }
}

impl Worker for Drivers {
    fn run(self: Box<Self>, hand: &Hand) -> Result<(), TrafficError> {
        let review = self.exchange.review();
        let mut ready = Ready::new(&self.flows, review)?;
        let mut dialogues: Vec<_> = (self.flows.iter())
            .map(|_| Dialogue::new(self.exchange, now_ns()))
            .collect();
        for (dialogue, flow) in dialogues.iter_mut().zip(&self.flows) {
            dialogue.ask(flow, hand)?;
        }
        let mut response = vec![0; self.exchange.response_bytes + 1];
        let review_ns = u64::try_from(review.as_nanos()).unwrap_or(u64::MAX);
        let mut next_review_ns = now_ns() + review_ns;
        while !hand.stopping() {
            for position in ready.wait()? {
                let (dialogue, flow) = (&mut dialogues[position], &self.flows[position]);
                if dialogue.listen(flow, &mut response, hand, MsgFlags::empty())? == Some(true) {
                    dialogue.complete(now_ns(), hand);
                    dialogue.ask(flow, hand)?;
                }
            }
            let now_ns = now_ns();
            if now_ns >= next_review_ns {
                next_review_ns += review_ns;
                for (dialogue, flow) in dialogues.iter_mut().zip(&self.flows) {
                    dialogue.review(flow, &mut response, hand)?;
                }
            }
        }
        Ok(())
    }
}
