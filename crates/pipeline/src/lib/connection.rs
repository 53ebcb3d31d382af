//! One connection: what is remembered of it, its states and their time-outs. `struct connection` of
//! `bpf/lib/abi_firewall.h`.

use std::fmt;

use overlane_model::{FirewallTable, Name, Timeouts};
use overlane_wire::ip::protocol;
use overlane_wire::tcp::Flags;

use crate::lib::key::{ConnectionKey, Sender};
use crate::lib::segment::Segment;
use crate::lib::tcp_state::{self, TcpEnd};
use crate::lib::time::SECOND_NS;

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
    /// Of a port: whose it was when the connection began ([`overlane_model::PortTable::owner`]).
    pub owner: u32,
    /// Among those of the host.
    pub place: u32,
    /// How far it is.
    pub state: ConnectionState,
    /// Seconds that it lives without a packet: written with `seen_ns`.
    pub life_s: u32,
    /// Its first packet came from the peer.
    pub from_peer: bool,
    /// So was the first of all, before the other end began it anew.
    pub made_by_peer: bool,
    /// Its windows are not known: it is older than the firewall, or has gone in fragments.
    pub adopted: bool,
    /// Packets of it may have passed unseen: what is known of an end that is not `seen` is older than these.
    pub picked_up: bool,
    /// The end that did not begin it has sent.
    pub answered: bool,
    /// Not TCP: who began it has sent again after an answer.
    pub assured: bool,
    /// Of a translation: its key outside.
    pub outside: Option<ConnectionKey>,
    /// TCP: a SYN that came into it. It begins anew where the other end acknowledges that.
    pub again: Option<SynSeen>,
    /// TCP: the local end.
    pub local: TcpEnd,
    /// TCP: the peer.
    pub peer: TcpEnd,
}

/// A SYN into a connection that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynSeen {
    /// The lowest sequence number that its answer acknowledges: none of its data.
    pub acked: u32,
    /// The sequence number behind it, the highest.
    pub end: u32,
    /// Its window.
    pub window: u16,
    /// Its window scale option.
    pub scale: Option<u8>,
    /// The peer sent it.
    pub from_peer: bool,
}

/// What a packet is to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passed {
    /// It goes on with it.
    Follows,
    /// It passes and changes nothing: the end that gets it knows what it is worth.
    Unheeded,
    /// It cannot be.
    Refused,
}

/// When a packet of a connection passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ns: u64,
    /// Of the connection.
    pub(crate) key: ConnectionKey,
    /// Of whose it is, as the tables say it now.
    pub(crate) timeouts: Timeouts,
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

impl ConnectionState {
    /// Seconds without a packet after which a connection is forgotten.
    pub(crate) fn life_s(self, key: &ConnectionKey, timeouts: &Timeouts) -> u32 {
        if key.is_tcp() {
            return match self {
                Self::Opening => timeouts.tcp_opening,
                Self::Established => timeouts.tcp_established,
                Self::Closing => timeouts.tcp_closing,
                Self::Closed => timeouts.tcp_closed,
            };
        }
        let is_answered = self != Self::Opening;
        match key.protocol {
            _ if key.is_icmp() => timeouts.icmp,
            protocol::UDP if is_answered => timeouts.udp,
            protocol::UDP => timeouts.udp_unanswered,
            _ if is_answered => timeouts.other,
            _ => timeouts.other_unanswered,
        }
    }
}

impl Connection {
    /// It is older than its time-out.
    pub fn is_expired(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.seen_ns) > u64::from(self.life_s) * SECOND_NS
    }

    /// A packet passed: so long it lives now without another.
    pub(crate) fn keep_alive(&mut self, now: &Moment) {
        self.seen_ns = now.ns;
        self.life_s = self.state.life_s(&now.key, &now.timeouts);
    }

    /// It is opening, over, or a question with its answer: one of those that whoever wants to can have many of.
    pub(crate) fn makes_way(&self, key: &ConnectionKey) -> bool {
        match key.protocol {
            protocol::TCP => self.state == ConnectionState::Opening || self.is_over(),
            _ => key.is_icmp() || !self.assured,
        }
    }

    /// Nobody outside has answered it, or it is over, and it was silent for a while: a new translation may have its port.
    pub(crate) fn gives_way(&self, key: &ConnectionKey, now_ns: u64) -> bool {
        const SILENCE_NS: u64 = 2_000_000_000;
        let is_of_use = self.answered && !(key.protocol == protocol::TCP && self.is_over());
        !is_of_use && now_ns > self.seen_ns.saturating_add(SILENCE_NS)
    }

    /// The ends of TCP: who sends, who receives.
    fn ends(&mut self, sender: Sender) -> (&mut TcpEnd, &mut TcpEnd) {
        match sender {
            Sender::Local => (&mut self.local, &mut self.peer),
            Sender::Peer => (&mut self.peer, &mut self.local),
        }
    }

    pub(crate) fn is_begun_by(&self, sender: Sender) -> bool {
        self.from_peer == (sender == Sender::Peer)
    }

    /// Nothing comes any more that matters: a reset, or a FIN of both ends.
    fn is_over(&self) -> bool {
        let are_closed = self.local.is_closed() && self.peer.is_closed();
        self.state == ConnectionState::Closed || are_closed
    }

    /// TCP: packets may pass unseen, so the ends have to be seen anew.
    pub(crate) fn pick_up(&mut self) {
        self.picked_up = true;
        self.local.pick_up();
        self.peer.pick_up();
    }

    /// TCP: nobody knows how far both ends are.
    const fn is_unknown(&self) -> bool {
        self.adopted || (self.picked_up && !(self.local.seen && self.peer.seen))
    }

    /// TCP: the end that sends has not been seen, only the SYN that it answers.
    fn awaits_answer_of(&mut self, sender: Sender) -> bool {
        let is_new = self.state == ConnectionState::Opening && !self.adopted && !self.picked_up;
        let (s, r) = self.ends(sender);
        is_new && !s.seen && r.seen
    }

    /// A SYN that asks for a connection of its own, and is no half of a simultaneous open (RFC 9293 section 3.5).
    pub(crate) fn is_asked_for_another(&mut self, sender: Sender, segment: &Segment) -> bool {
        segment.opens() && !self.awaits_answer_of(sender)
    }

    /// A SYN passed that asks for another connection; one that repeats its own keeps it alive.
    pub(crate) fn remember_syn(&mut self, sender: Sender, segment: &Segment, now: &Moment) {
        let end = segment.sequence_end();
        let is_opening = self.state == ConnectionState::Opening;
        let (s, _) = self.ends(sender);
        let is_own = is_opening && s.seen && s.end == end;
        if !is_own {
            self.again = Some(SynSeen {
                acked: segment.sequence.wrapping_add(1),
                end,
                window: segment.window,
                scale: segment.scale,
                from_peer: sender == Sender::Peer,
            });
        }
        self.keep_alive(now);
    }

    /// The SYN that this packet acknowledges, of those that asked for another connection: who takes it some of its
    /// data, or none (RFC 7413), and who refuses it all.
    fn acknowledged_syn(&self, sender: Sender, segment: &Segment) -> Option<SynSeen> {
        let ack = segment.acknowledgment;
        let is_of_other = |syn: &SynSeen| syn.from_peer == (sender == Sender::Local);
        let is_acked = |syn: &SynSeen| {
            let least = if segment.is(Flags::SYN) {
                syn.acked
            } else {
                syn.end
            };
            ack.wrapping_sub(least) <= syn.end.wrapping_sub(least)
        };
        let syn = self.again.filter(|_| segment.is(Flags::ACK));
        syn.filter(|syn| is_of_other(syn) && is_acked(syn))
    }

    /// The other end has taken a SYN for a new connection.
    fn begin_again(&mut self, syn: SynSeen, now: &Moment) {
        let sender = TcpEnd {
            end: syn.end,
            max_end: syn.end,
            max_window: u32::from(syn.window).max(1),
            acked: syn.acked,
            scale: syn.scale,
            seen: true,
            fin: false,
        };
        let (local, peer) = match syn.from_peer {
            false => (sender, TcpEnd::default()),
            true => (TcpEnd::default(), sender),
        };
        *self = Self {
            begun_ns: now.ns,
            version: FirewallTable::NO_VERSION,
            state: ConnectionState::Opening,
            from_peer: syn.from_peer,
            adopted: false,
            picked_up: false,
            answered: false,
            assured: false,
            again: None,
            local,
            peer,
            rule: None,
            ..*self
        };
        self.keep_alive(now);
    }

    /// The packet may change more than the windows and the time.
    pub(crate) fn may_change(&mut self, sender: Sender, segment: Option<&Segment>) -> bool {
        let (state, answers) = (self.state, !self.is_begun_by(sender));
        let Some(segment) = segment else {
            return match answers {
                true => state == ConnectionState::Opening,
                false => self.answered && !self.assured,
            };
        };
        let (s, r) = self.ends(sender);
        let flags = [Flags::SYN, Flags::FIN, Flags::RST];
        flags.iter().any(|flag| segment.is(*flag))
            || state == ConnectionState::Opening
            || !(s.seen && r.seen)
            || (r.fin && state == ConnectionState::Established)
    }

    /// One packet more, the first among them. What does not follow changes nothing.
    pub(crate) fn pass(
        &mut self,
        sender: Sender,
        segment: Option<&Segment>,
        now: &Moment,
    ) -> Passed {
        let before = (self.state, self.answered, self.assured, self.adopted);
        let passed = match segment {
            Some(segment) => self.pass_tcp(sender, segment, now),
            None => self.pass_other(sender),
        };
        if passed != Passed::Follows {
            return passed;
        }
        self.answered |= !self.is_begun_by(sender);
        let has_changed = before != (self.state, self.answered, self.assured, self.adopted);
        if has_changed {
            self.keep_alive(now);
        }
        self.refresh(now);
        passed
    }

    /// From now on nobody sees how far an end is: a change of state.
    pub(crate) fn adopt(&mut self, now: &Moment) {
        if !self.adopted {
            self.adopted = true;
            self.keep_alive(now);
        }
    }

    /// A packet has passed: written at most once a second.
    pub(crate) fn refresh(&mut self, now: &Moment) {
        if now.ns >= self.seen_ns.saturating_add(SECOND_NS) {
            self.keep_alive(now);
        }
    }

    /// Of a protocol without windows the answer is all that is looked for.
    fn pass_other(&mut self, sender: Sender) -> Passed {
        match self.is_begun_by(sender) {
            true => self.assured |= self.answered,
            false => self.state = ConnectionState::Established,
        }
        Passed::Follows
    }

    fn pass_tcp(&mut self, sender: Sender, segment: &Segment, now: &Moment) -> Passed {
        if let Some(syn) = self.acknowledged_syn(sender, segment) {
            if segment.is(Flags::RST) {
                self.again = None;
                return Passed::Unheeded;
            }
            if segment.is(Flags::SYN) {
                self.begin_again(syn, now);
            }
        }
        if segment.is(Flags::RST) {
            return self.reset(sender, segment);
        }
        let (state, look, is_unknown) = (self.state, self.look(), self.is_unknown());
        let awaits_answer = self.awaits_answer_of(sender);
        let (adopted, has_missed) = (self.adopted, self.picked_up);
        let (s, r) = self.ends(sender);
        let both_were_seen = s.seen && r.seen;
        let (is_syn, is_ack) = (segment.is(Flags::SYN), segment.is(Flags::ACK));
        if awaits_answer && is_ack && !is_syn {
            return Passed::Unheeded;
        }
        if awaits_answer && is_ack && !r.awaits(segment) {
            return Passed::Refused;
        }
        if look.is_opening && s.seen && !r.seen {
            // Before it has an answer, who began has nothing to say.
            return Passed::Unheeded;
        }
        if !is_unknown && !tcp_state::fits(s, r, segment, look) {
            let is_other_answer = state == ConnectionState::Opening && is_syn && is_ack;
            if is_other_answer && s.seen && r.has_sent(segment.acknowledgment) {
                // Which of two answers it takes, the other end says with its acknowledgment.
                *s = TcpEnd {
                    acked: s.acked,
                    ..TcpEnd::default()
                };
                self.adopted = true;
                return Passed::Follows;
            }
            return Passed::Refused;
        }
        if is_syn && is_ack && state != ConnectionState::Opening {
            return Passed::Unheeded;
        }
        tcp_state::change(s, r, segment, has_missed);
        let (both_are_seen, is_closed) = (s.seen && r.seen, s.is_closed() || r.is_closed());
        let is_open = match adopted {
            true => both_are_seen,
            false => both_were_seen && is_ack && !is_syn,
        };
        self.state = match state {
            ConnectionState::Closed => ConnectionState::Closed,
            _ if is_closed => ConnectionState::Closing,
            ConnectionState::Opening if is_open => ConnectionState::Established,
            state => state,
        };
        Passed::Follows
    }

    /// A RST ends the connection if it has the number that its receiver waits for (RFC 5961 section 3.2). What is
    /// only in the window the receiver questions.
    fn reset(&mut self, sender: Sender, segment: &Segment) -> Passed {
        let (look, is_unknown) = (self.look(), self.is_unknown());
        let (has_begun, awaits_answer) = (self.is_begun_by(sender), self.awaits_answer_of(sender));
        let is_early = self.state == ConnectionState::Opening;
        let (s, r) = self.ends(sender);
        let sequence = segment.sequence;
        let is_exact = match awaits_answer {
            true => r.awaits(segment),
            false => {
                // Where anybody may have sent what was seen of an end, only what the other end has acknowledged counts.
                let is_checked = !is_unknown && !look.has_missed;
                let is_known = if look.has_missed { !is_unknown } else { r.seen };
                let is_acked = is_known && !is_early && sequence == s.acked;
                (is_checked && s.seen && sequence == s.end) || is_acked
            }
        };
        if is_exact {
            return self.close();
        }
        let wide = tcp_state::Look {
            is_opening: false,
            ..look
        };
        let fits = is_unknown || tcp_state::fits(s, r, segment, wide);
        let refuses_answer = look.is_opening && has_begun;
        match !awaits_answer && (refuses_answer || fits) {
            true => Passed::Unheeded,
            false => Passed::Refused,
        }
    }

    fn close(&mut self) -> Passed {
        self.state = ConnectionState::Closed;
        Passed::Follows
    }

    fn look(&self) -> tcp_state::Look {
        tcp_state::Look {
            is_opening: self.state == ConnectionState::Opening && !self.adopted && !self.picked_up,
            has_missed: self.picked_up,
        }
    }
}
