//! One connection: what is remembered of it, its states and their time-outs. `struct connection` of
//! `bpf/lib/abi_firewall.h`.

use std::fmt;
use std::net::IpAddr;

use overlane_model::Name;
use overlane_wire::ip::protocol;
use overlane_wire::tcp::Flags;

use super::key::{ConnectionKey, Sender};
use super::tcp::{self, TcpEnd};
use crate::parse::Segment;
use crate::state::SECOND_NS;

/// A connection of a port, or a translation of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// When its first packet passed.
    pub begun_ns: u64,
    /// When a packet last passed, with the accuracy of a second.
    pub seen_ns: u64,
    /// The rule that let it pass; `None`: the default policy, or nobody was asked.
    pub rule: Option<Name>,
    /// Of the rules that did.
    pub version: u32,
    /// Among those of the host.
    pub place: u32,
    /// How far it is.
    pub state: ConnectionState,
    /// Its first packet came from the peer.
    pub from_peer: bool,
    /// Its windows are not known: it is older than the firewall, or has gone in fragments.
    pub adopted: bool,
    /// The end that did not begin it has sent.
    pub answered: bool,
    /// Not TCP: who began it has sent again after an answer.
    pub assured: bool,
    /// Of a translation: what stands for the local end outside.
    pub outside: Option<(IpAddr, u16)>,
    /// TCP: the local end.
    pub local: TcpEnd,
    /// TCP: the peer.
    pub peer: TcpEnd,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ConnectionState {
    /// The other end has not answered, or TCP's handshake is not over.
    Opening = 0,
    /// Both ends talk.
    Established = 1,
    /// TCP: an end has sent FIN.
    Closing = 2,
    /// TCP: an end has sent RST.
    Closed = 3,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Opening => "opening",
            Self::Established => "established",
            Self::Closing => "closing",
            Self::Closed => "closed",
        })
    }
}

impl Connection {
    /// Seconds without a packet after which it is forgotten.
    pub fn timeout_s(&self, key: &ConnectionKey) -> u64 {
        match self.state {
            ConnectionState::Opening => 30,
            ConnectionState::Established if key.is_tcp() => 432_000,
            ConnectionState::Established if key.is_icmp() => 60,
            ConnectionState::Established => 180,
            ConnectionState::Closing => 120,
            ConnectionState::Closed => 10,
        }
    }

    /// It is older than its time-out.
    pub fn is_expired(&self, key: &ConnectionKey, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.seen_ns) > self.timeout_s(key) * SECOND_NS
    }

    /// It is opening, over, or a question with its answer: one of those that whoever wants to can have many of.
    pub(super) fn makes_way(&self, key: &ConnectionKey) -> bool {
        match key.protocol {
            protocol::TCP => matches!(
                self.state,
                ConnectionState::Opening | ConnectionState::Closed
            ),
            _ => key.is_icmp() || !self.assured,
        }
    }

    /// The ends of TCP: who sends, who receives.
    fn ends(&mut self, sender: Sender) -> (&mut TcpEnd, &mut TcpEnd) {
        match sender {
            Sender::Local => (&mut self.local, &mut self.peer),
            Sender::Peer => (&mut self.peer, &mut self.local),
        }
    }

    pub(super) fn is_begun_by(&self, sender: Sender) -> bool {
        self.from_peer == (sender == Sender::Peer)
    }

    /// Nothing comes any more that the windows could judge: a reset, or a FIN of both ends.
    const fn is_over(&self) -> bool {
        match self.state {
            ConnectionState::Closing => self.adopted || (self.local.fin && self.peer.fin),
            ConnectionState::Closed => true,
            _ => false,
        }
    }

    /// A SYN that nothing known stands against: the former connection of these ports is over, or never was.
    pub(super) fn gives_way(&self, sender: Sender, segment: &Segment) -> bool {
        let receiver = match sender {
            Sender::Local => &self.peer,
            Sender::Peer => &self.local,
        };
        segment.opens() && (self.is_over() || !receiver.seen)
    }

    /// A SYN for what is long established: its sender has forgotten the connection.
    pub(super) fn is_half_open(&self, sender: Sender, segment: &Segment) -> bool {
        let stands = self.state != ConnectionState::Opening && !self.adopted;
        segment.opens() && stands && self.is_begun_by(sender)
    }

    /// One packet more, the first among them. False: it does not fit, and nothing has changed.
    pub(super) fn pass(&mut self, sender: Sender, segment: Option<&Segment>, now_ns: u64) -> bool {
        let before = (self.state, self.answered, self.assured);
        let is_begun_by = self.is_begun_by(sender);
        let fits = match segment {
            Some(segment) => self.pass_tcp(sender, segment),
            None => self.pass_other(sender),
        };
        if !fits {
            return false;
        }
        self.answered |= !is_begun_by;
        let has_changed = before != (self.state, self.answered, self.assured);
        if has_changed {
            self.seen_ns = now_ns;
        }
        self.refresh(now_ns);
        true
    }

    /// From now on nobody sees how far an end is: a change of state.
    pub(super) fn adopt(&mut self, now_ns: u64) {
        if !self.adopted {
            self.adopted = true;
            self.seen_ns = now_ns;
        }
    }

    /// A packet has passed: written at most once a second.
    pub(super) fn refresh(&mut self, now_ns: u64) {
        if now_ns >= self.seen_ns.saturating_add(SECOND_NS) {
            self.seen_ns = now_ns;
        }
    }

    /// Of a protocol without windows the answer is all that is looked for.
    fn pass_other(&mut self, sender: Sender) -> bool {
        match self.is_begun_by(sender) {
            true => self.assured |= self.answered,
            false => self.state = ConnectionState::Established,
        }
        true
    }

    fn pass_tcp(&mut self, sender: Sender, segment: &Segment) -> bool {
        let adopted = self.adopted;
        let (s, r) = self.ends(sender);
        let both_were_seen = s.seen && r.seen;
        if !tcp::pass(s, r, segment, adopted) {
            return false;
        }
        let (both_are_seen, has_fin) = (s.seen && r.seen, s.fin || r.fin);
        let is_ack = segment.is(Flags::ACK) && !segment.is(Flags::SYN);
        let is_open = match adopted {
            true => both_are_seen,
            false => both_were_seen && is_ack,
        };
        self.state = match self.state {
            ConnectionState::Closed => ConnectionState::Closed,
            _ if segment.is(Flags::RST) => ConnectionState::Closed,
            _ if has_fin => ConnectionState::Closing,
            ConnectionState::Opening if is_open => ConnectionState::Established,
            state => state,
        };
        true
    }
}
