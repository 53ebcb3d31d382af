//! What the end of a TCP connection does with a packet: RFC 9293 section 3.10.7, with RFC 5961 sections 3 to 5.

use crate::wall::*;

/// Of RFC 9293 section 3.3.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndState {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    TimeWait,
}

/// What it does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Does {
    /// It acts on it.
    Accepts,
    /// It answers with what it knows, and changes nothing (RFC 5961: a challenge ACK).
    Challenges,
    /// It answers with a reset, and changes nothing.
    Resets,
    /// It drops it and says nothing.
    Ignores,
}

/// An end. Its receive window and what it may send are both [`WINDOW`](super::WINDOW).
#[derive(Clone, Copy, Debug)]
pub(super) struct EndPoint {
    pub(super) state: EndState,
    /// SND.UNA, SND.NXT and RCV.NXT.
    pub(super) unacknowledged: u32,
    pub(super) next: u32,
    pub(super) received: u32,
}

impl EndPoint {
    pub(super) fn receive(&self, packet: &Tcp) -> Does {
        match self.state {
            EndState::Closed => self.is_closed(packet),
            EndState::Listen => self.listens(packet),
            EndState::SynSent => self.has_sent_syn(packet),
            _ => self.is_synchronized(packet),
        }
    }

    /// Section 3.10.7.1.
    fn is_closed(&self, packet: &Tcp) -> Does {
        match packet.is(RST) {
            true => Does::Ignores,
            false => Does::Resets,
        }
    }

    /// Section 3.10.7.2.
    fn listens(&self, packet: &Tcp) -> Does {
        match packet {
            _ if packet.is(RST) => Does::Ignores,
            _ if packet.is(ACK) => Does::Resets,
            _ if packet.is(SYN) => Does::Accepts,
            _ => Does::Ignores,
        }
    }

    /// Section 3.10.7.3.
    fn has_sent_syn(&self, packet: &Tcp) -> Does {
        let acknowledges = self.acknowledges_new(packet);
        match packet {
            _ if packet.is(ACK) && !acknowledges && packet.is(RST) => Does::Ignores,
            _ if packet.is(ACK) && !acknowledges => Does::Resets,
            _ if packet.is(RST) && packet.is(ACK) => Does::Accepts,
            _ if packet.is(RST) => Does::Ignores,
            _ if packet.is(SYN) => Does::Accepts,
            _ => Does::Ignores,
        }
    }

    /// Section 3.10.7.4, its steps in their order.
    fn is_synchronized(&self, packet: &Tcp) -> Does {
        if !self.is_in_window(packet) {
            return match packet.is(RST) {
                true => Does::Ignores,
                false => Does::Challenges,
            };
        }
        if packet.is(RST) {
            // RFC 5961 section 3.2.
            return match packet.sequence == self.received {
                true => Does::Accepts,
                false => Does::Challenges,
            };
        }
        if packet.is(SYN) {
            // RFC 5961 section 4.2. Who listened before listens again.
            return match self.state {
                EndState::SynReceived => Does::Accepts,
                _ => Does::Challenges,
            };
        }
        if !packet.is(ACK) {
            return Does::Ignores;
        }
        // RFC 5961 section 5.2.
        let oldest = self.unacknowledged.wrapping_sub(super::WINDOW);
        if !is_between(oldest, packet.ack, self.next) {
            return Does::Challenges;
        }
        if self.state == EndState::SynReceived && !self.acknowledges_new(packet) {
            return Does::Resets;
        }
        Does::Accepts
    }

    /// Section 3.10.7.4, first: what the packet occupies must begin or end in the window.
    fn is_in_window(&self, packet: &Tcp) -> bool {
        let len = packet.sequence_len();
        let is_in = |number: u32| number.wrapping_sub(self.received) < super::WINDOW;
        let last = packet.sequence.wrapping_add(len).wrapping_sub(1);
        is_in(packet.sequence) || (len > 0 && is_in(last))
    }

    /// SND.UNA < SEG.ACK =< SND.NXT.
    fn acknowledges_new(&self, packet: &Tcp) -> bool {
        packet.is(ACK) && is_between(self.unacknowledged.wrapping_add(1), packet.ack, self.next)
    }
}

fn is_between(first: u32, number: u32, last: u32) -> bool {
    number.wrapping_sub(first) <= last.wrapping_sub(first)
}
