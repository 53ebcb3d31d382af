//! What Linux does: `net/netfilter/nf_conntrack_proto_tcp.c` as of Linux 6.12, with `nf_conntrack_tcp_loose=1` and
//! `nf_conntrack_tcp_be_liberal=0`. Only what a packet without options meets.

use crate::wall::*;

/// Of its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinuxState {
    Nothing,
    SynSent,
    /// Both have sent a SYN.
    SynSent2,
    SynReceived,
    Established,
    FinWait,
    CloseWait,
    LastAck,
    TimeWait,
    Close,
}
use LinuxState::*;

/// What its table of states says to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    /// This state is next.
    To(LinuxState),
    /// It may be of a connection that the ends know better: it passes, and is remembered.
    Ignored,
    Invalid,
}
use Says::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Rst,
}

/// Of one end.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    end: u32,
    max_end: u32,
    /// 0: nothing came from it.
    max_window: u32,
    /// The highest that it acknowledged.
    max_ack: Option<u32>,
    /// It sent the first FIN.
    closes: bool,
}

/// The last packet that passed.
#[derive(Clone, Copy, Debug)]
struct Last {
    from: End,
    kind: Kind,
    end: u32,
    ack: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Linux {
    pub(super) state: LinuxState,
    /// It was picked up in the middle: no packet is out of its windows.
    is_liberal: bool,
    /// The end that did not begin it has sent.
    is_answered: bool,
    /// Both ends have talked.
    is_assured: bool,
    local: Seen,
    peer: Seen,
    last: Option<Last>,
}

/// `MAXACKWINCONST`.
const MIN_ACK_WINDOW: u32 = 66_000;

impl Linux {
    pub(super) fn new() -> Self {
        Self {
            state: Nothing,
            is_liberal: false,
            is_answered: false,
            is_assured: false,
            local: Seen::default(),
            peer: Seen::default(),
            last: None,
        }
    }

    /// The packet passes; otherwise it is INVALID, which rule sets drop. `Local` has begun the connection.
    pub(super) fn packet(&mut self, from: End, packet: &Tcp) -> bool {
        let Some(kind) = kind(packet) else {
            return false;
        };
        if self.state == Nothing {
            return self.begin(from, kind, packet);
        }
        let mut next = match says(from == Local, kind, self.state) {
            Invalid => return false,
            // Whoever closed it begins again.
            To(SynSent) if self.is_over(from) => {
                *self = Self::new();
                return self.begin(from, kind, packet);
            }
            To(SynSent) if matches!(self.state, TimeWait | Close) => {
                return self.ignore(from, kind, packet);
            }
            Ignored => {
                let answers = |last: &Last| {
                    kind == Kind::SynAck
                        && last.kind == Kind::Syn
                        && last.from != from
                        && packet.ack == last.end
                };
                if !self.last.as_ref().is_some_and(answers) {
                    return self.ignore(from, kind, packet);
                }
                self.answer_ignored(from);
                SynReceived
            }
            To(next) => next,
        };
        let mut looks_at_windows = true;
        if kind == Kind::Rst {
            match self.reset(from, packet) {
                Reset::Invalid => return false,
                Reset::Questioned => next = self.state,
                Reset::Known => looks_at_windows = false,
                Reset::Closes => {}
            }
        }
        if looks_at_windows && !self.is_liberal {
            match self.fits(from, packet) {
                Fits::Yes => {}
                Fits::Ignored => return true,
                Fits::No => return false,
            }
        }
        if looks_at_windows {
            self.change(from, packet);
        }
        if next == FinWait && self.state != FinWait {
            self.ends(from).0.closes = true;
        }
        let was_open = matches!(self.state, SynReceived | Established);
        self.state = next;
        if !self.is_answered && kind == Kind::Rst {
            // It lives no longer.
            *self = Self::new();
            return true;
        }
        self.is_assured |= self.is_answered && was_open && next == Established;
        self.is_answered |= from == Peer;
        self.remember(from, kind, packet);
        true
    }

    fn begin(&mut self, from: End, kind: Kind, packet: &Tcp) -> bool {
        // Whoever sends first is who began.
        match says(true, kind, Nothing) {
            To(state) => self.state = state,
            _ => return false,
        }
        self.is_liberal = kind != Kind::Syn;
        let window = u32::from(packet.window).max(1);
        let end = packet.sequence.wrapping_add(packet.sequence_len());
        let allowed = if self.is_liberal { window } else { 0 };
        *self.ends(from).0 = Seen {
            end,
            max_end: end.wrapping_add(allowed),
            max_window: window,
            max_ack: packet.is(ACK).then_some(packet.ack),
            closes: false,
        };
        self.remember(from, kind, packet);
        true
    }

    fn ends(&mut self, from: End) -> (&mut Seen, &mut Seen) {
        match from {
            Local => (&mut self.local, &mut self.peer),
            Peer => (&mut self.peer, &mut self.local),
        }
    }

    /// A SYN of `from` may begin anew.
    fn is_over(&self, from: End) -> bool {
        let was_reset = |last: &Last| last.from == from && last.kind == Kind::Rst;
        matches!(self.state, TimeWait | Close)
            && (self.local.closes || self.peer.closes || self.last.as_ref().is_some_and(was_reset))
    }

    fn ignore(&mut self, from: End, kind: Kind, packet: &Tcp) -> bool {
        self.remember(from, kind, packet);
        true
    }

    /// A SYN that was ignored has its answer: both ends know of another connection.
    fn answer_ignored(&mut self, from: End) {
        let end = self.last.map_or(0, |last| last.end);
        let (s, r) = self.ends(from);
        *s = Seen::default();
        *r = Seen {
            end,
            max_end: end,
            max_window: super::WINDOW,
            ..Seen::default()
        };
        self.state = SynSent;
    }

    fn remember(&mut self, from: End, kind: Kind, packet: &Tcp) {
        self.last = Some(Last {
            from,
            kind,
            end: packet.sequence.wrapping_add(packet.sequence_len()),
            ack: packet.ack,
        });
    }

    fn reset(&mut self, from: End, packet: &Tcp) -> Reset {
        if matches!(self.state, FinWait | CloseWait | LastAck | TimeWait | Close) {
            return Reset::Known;
        }
        let (state, is_answered, is_assured, last) =
            (self.state, self.is_answered, self.is_assured, self.last);
        let is_established = state == Established;
        let last_is =
            |kind, from| last.is_some_and(|last: Last| last.kind == kind && last.from == from);
        let last_was = |kind| last_is(kind, Local) || last_is(kind, Peer);
        let mut result = Reset::Closes;
        if let Some(max_ack) = self.ends(from).1.max_ack
            && !last_was(Kind::Syn)
        {
            if packet.sequence == 0 && !is_established {
                return Reset::Closes;
            }
            if is_before(packet.sequence, max_ack) {
                return Reset::Invalid;
            }
            let is_train =
                last_is(Kind::Ack, from) && last.is_some_and(|last| last.end == packet.sequence);
            if !is_established || packet.sequence == max_ack || is_train {
                return Reset::Closes;
            }
            result = Reset::Questioned;
        }
        let was_let_through =
            (is_answered && last_was(Kind::Syn)) || (!is_assured && last_was(Kind::Ack));
        let is_questioned = matches!(result, Reset::Questioned);
        if !is_questioned && was_let_through && last.is_some_and(|last| last.end == packet.ack) {
            return Reset::Known;
        }
        if state == SynSent
            && last_is(Kind::Ack, Peer)
            && last.is_some_and(|last| last.ack == packet.sequence)
        {
            return Reset::Known;
        }
        result
    }

    fn fits(&mut self, from: End, packet: &Tcp) -> Fits {
        let is_first_syn = self.is_first_syn(from, packet);
        let (state, (s, r)) = (self.state, self.ends(from));
        let mut end = packet.sequence.wrapping_add(packet.sequence_len());
        let mut sequence = packet.sequence;
        if is_first_syn {
            s.end = end;
            s.max_end = end;
            s.max_window = u32::from(packet.window).max(1);
            if !packet.is(ACK) {
                return Fits::Yes;
            }
        }
        if packet.is(RST) && sequence == 0 && state == SynSent {
            (sequence, end) = (s.end, s.end);
        }
        let ack = match packet.is(ACK) && !(packet.is(RST) && packet.ack == 0) {
            true => packet.ack,
            false => r.end,
        };
        let ack_window = s.max_window.max(MIN_ACK_WINDOW);
        let is_new_enough = r.max_window == 0 || !is_before(end, s.end.wrapping_sub(r.max_window));
        let is_recent_ack = !is_before(ack, r.end.wrapping_sub(ack_window));
        let is_known_ack = !is_before(r.end, ack);
        if is_before(s.max_end, sequence) {
            let over = end.wrapping_sub(s.max_end).wrapping_add(1);
            let is_little = is_new_enough && is_recent_ack && is_known_ack && over <= r.max_window;
            return if is_little { Fits::Ignored } else { Fits::No };
        }
        match () {
            () if !is_known_ack => Fits::No,
            () if !is_new_enough || !is_recent_ack => Fits::Ignored,
            () => Fits::Yes,
        }
    }

    /// The SYN that an end begins with, or another one with a higher number before the handshake is over.
    fn is_first_syn(&mut self, from: End, packet: &Tcp) -> bool {
        let is_opening = matches!(self.state, SynSent | SynReceived);
        let end = packet.sequence.wrapping_add(packet.sequence_len());
        let (s, _) = self.ends(from);
        let is_again = is_opening && is_before(s.end, end);
        packet.is(SYN) && (s.max_window == 0 || is_again)
    }

    fn change(&mut self, from: End, packet: &Tcp) {
        let (s, r) = self.ends(from);
        let end = packet.sequence.wrapping_add(packet.sequence_len());
        let window = u32::from(packet.window);
        if s.max_window == 0 {
            *s = Seen {
                end,
                max_end: end.wrapping_add(window.max(1)),
                ..*s
            };
        }
        s.max_window = s.max_window.max(window).max(1);
        if is_before(s.end, end) {
            s.end = end;
        }
        if packet.is(ACK) {
            s.max_ack = Some(match s.max_ack {
                Some(max_ack) if is_before(packet.ack, max_ack) => max_ack,
                _ => packet.ack,
            });
            let allowed = packet.ack.wrapping_add(window.max(1));
            if is_before(r.max_end, allowed) {
                r.max_end = allowed;
            }
        }
    }
}

/// What is to be done with a reset.
enum Reset {
    Invalid,
    /// It is only in the window: it passes, if it fits.
    Questioned,
    /// It closes, wherever its numbers are.
    Known,
    /// It closes, if it fits.
    Closes,
}

enum Fits {
    Yes,
    /// It passes and changes nothing.
    Ignored,
    No,
}

fn kind(packet: &Tcp) -> Option<Kind> {
    match packet.flags {
        SYN => Some(Kind::Syn),
        SYN_ACK => Some(Kind::SynAck),
        FIN_ACK => Some(Kind::Fin),
        ACK => Some(Kind::Ack),
        RST | RST_ACK => Some(Kind::Rst),
        _ => None,
    }
}

const SYN_ACK: u8 = SYN | ACK;
const FIN_ACK: u8 = FIN | ACK;
const RST_ACK: u8 = RST | ACK;

/// Its table of states; `begun`: of who began the connection.
fn says(begun: bool, kind: Kind, state: LinuxState) -> Says {
    match (kind, state) {
        (Kind::Syn, Nothing | SynSent) if begun => To(SynSent),
        (Kind::Syn, SynSent | SynSent2) => To(SynSent2),
        (Kind::Syn, TimeWait) => To(SynSent),
        (Kind::Syn, Close) if begun => To(SynSent),
        (Kind::Syn, _) if begun => Ignored,
        (Kind::SynAck, SynReceived | SynSent2) if begun => To(SynReceived),
        (Kind::SynAck, SynSent | SynSent2) if !begun => To(SynReceived),
        (Kind::SynAck, Nothing) => Invalid,
        (Kind::SynAck, _) if !begun => Ignored,
        (Kind::Fin, SynReceived | Established) => To(FinWait),
        (Kind::Fin, FinWait | CloseWait | LastAck) => To(LastAck),
        (Kind::Ack, Nothing) if begun => To(Established),
        (Kind::Ack, SynSent | SynSent2) if !begun => Ignored,
        (Kind::Ack, SynReceived) if !begun => To(SynReceived),
        (Kind::Ack, SynReceived | Established) => To(Established),
        (Kind::Ack, FinWait | CloseWait) => To(CloseWait),
        (Kind::Ack, LastAck) => To(TimeWait),
        (Kind::Fin | Kind::Ack, TimeWait) => To(TimeWait),
        (Kind::Fin | Kind::Ack, Close) => To(Close),
        (Kind::Rst, Nothing) => Invalid,
        (Kind::Rst, _) => To(Close),
        _ => Invalid,
    }
}

fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}
