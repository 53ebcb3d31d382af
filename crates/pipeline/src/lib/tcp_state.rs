//! The windows of a TCP connection: which sequence and acknowledgment numbers an end can send at all (van
//! Rooij, "Real stateful TCP packet filtering in IP Filter"; as `nf_conntrack_proto_tcp.c`, without SACK).
//!
//! ```text
//!          s.end − r.max_window          s.end         s.max_end
//! ---------------|-----------------------|---------------|------> sequence numbers of s
//!   old: no      |     sent before       |   new: yes    | more than r ever allowed: no
//! ```

use overlane_wire::tcp::Flags;

use crate::lib::segment::{MAX_SCALE, Segment};

/// An acknowledgment may be this much older than what was sent, whatever the window.
const MIN_ACK_WINDOW: u32 = 66_000;
/// The largest window that a packet says, without scale.
const MAX_WINDOW: u32 = 65_535;

/// What is known of one end. All zero: nothing yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpEnd {
    /// Behind the highest sequence number that it sent.
    pub end: u32,
    /// Behind the highest that the other end ever allowed it.
    pub max_end: u32,
    /// The largest window that it ever offered.
    pub max_window: u32,
    /// The highest that the other end acknowledged; before that, the lowest that it can.
    pub acked: u32,
    /// The window scale option of its SYN.
    pub scale: Option<u8>,
    /// It has sent.
    pub seen: bool,
    /// The last that it sent is a FIN.
    pub fin: bool,
}

/// How a packet's numbers are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// The handshake is not over: what is acknowledged is known exactly.
    pub(crate) is_opening: bool,
    /// Packets were missed: the end knows better what it sent.
    pub(crate) has_missed: bool,
}

/// A packet of `s` to `r`: whether it can be.
pub(crate) fn fits(s: &TcpEnd, r: &TcpEnd, segment: &Segment, look: Look) -> bool {
    if !r.seen {
        return true;
    }
    // What an end sends first is in its window.
    (!s.seen || is_in_window(s, r, segment)) && is_right_ack(s, r, segment, look)
}

pub(crate) fn is_in_window(s: &TcpEnd, r: &TcpEnd, segment: &Segment) -> bool {
    let oldest = s.allowed_end().wrapping_sub(r.max_window);
    is_at_most(segment.sequence, s.max_end) && is_at_most(oldest, segment.sequence_end())
}

fn is_right_ack(s: &TcpEnd, r: &TcpEnd, segment: &Segment, look: Look) -> bool {
    let ack = segment.acknowledgment;
    let oldest = match look.is_opening {
        true => r.acked,
        false => r
            .allowed_end()
            .wrapping_sub(s.max_window.max(MIN_ACK_WINDOW)),
    };
    let newest = if look.has_missed { r.max_end } else { r.end };
    !segment.is(Flags::ACK) || (is_at_most(ack, newest) && is_at_most(oldest, ack))
}

/// Both know of a packet of `s` to `r`.
pub(crate) fn change(s: &mut TcpEnd, r: &mut TcpEnd, segment: &Segment, has_missed: bool) {
    let end = segment.sequence_end();
    if !s.seen {
        *s = match has_missed {
            true => {
                let is_near = s.is_near(r, segment);
                let anew = s.seen_anew(r, segment);
                let look = Look {
                    is_opening: false,
                    has_missed,
                };
                // Else this packet, or what was seen of the other end, was somebody else's.
                r.seen &= is_near && is_right_ack(&anew, r, segment, look);
                let acked = if r.seen { s.acked } else { anew.acked };
                TcpEnd { acked, ..anew }
            }
            false => {
                let first = TcpEnd::first(segment);
                // What the other SYN offered, the answer may use.
                let max_end = first
                    .end
                    .wrapping_add(if r.seen { r.max_window } else { 0 });
                TcpEnd { max_end, ..first }
            }
        };
    }
    let window = match (segment.is(Flags::SYN), s.scale, r.scale) {
        (false, Some(scale), Some(_)) => u32::from(segment.window) << scale,
        _ => segment.window.into(),
    };
    s.max_window = s.max_window.max(window).max(1);
    let is_acknowledged = is_at_most(end, s.acked);
    if end == s.end {
        // Its place may be known before it: from an acknowledgment that was sent behind it.
        s.fin |= segment.is(Flags::FIN) && !is_acknowledged;
    } else if later(s.end, end) == end && !s.is_closed() {
        s.end = end;
        s.fin = segment.is(Flags::FIN);
    }
    if segment.is(Flags::ACK) {
        let ack = segment.acknowledgment;
        let allowed = ack.wrapping_add(window.max(1));
        r.max_end = if r.seen {
            later(r.max_end, allowed)
        } else {
            allowed
        };
        r.acked = if r.seen { later(r.acked, ack) } else { ack };
    }
}

impl TcpEnd {
    fn first(segment: &Segment) -> Self {
        let end = segment.sequence_end();
        Self {
            end,
            max_end: end,
            max_window: u32::from(segment.window).max(1),
            acked: segment
                .sequence
                .wrapping_add(u32::from(segment.is(Flags::SYN))),
            scale: segment.scale,
            seen: true,
            fin: segment.is(Flags::FIN),
        }
    }

    /// After packets that nobody here saw: this one may repeat an old one, and both ends may have offered any window
    /// that their scales can express.
    fn seen_anew(&self, other: &Self, segment: &Segment) -> Self {
        let end = segment.sequence_end();
        Self {
            end,
            // A keep-alive ends one before what is acknowledged.
            max_end: end.wrapping_add(other.largest_window(self) + 1),
            max_window: self.largest_window(other),
            acked: segment.sequence,
            scale: if segment.is(Flags::SYN) {
                segment.scale
            } else {
                self.scale
            },
            seen: true,
            fin: segment.is(Flags::FIN),
        }
    }

    /// A packet of it is within a window of what the other end acknowledged.
    fn is_near(&self, other: &Self, segment: &Segment) -> bool {
        let reach = other.largest_window(self) + 1;
        let (oldest, newest) = (
            self.acked.wrapping_sub(reach),
            self.acked.wrapping_add(reach),
        );
        is_at_most(segment.sequence, newest) && is_at_most(oldest, segment.sequence_end())
    }

    /// From now on its packets may pass unseen. Where nobody has seen its SYN, that may have any scale.
    pub(crate) fn pick_up(&mut self) {
        self.seen = false;
        if self.max_window == 0 {
            self.scale = Some(MAX_SCALE);
        }
    }

    fn largest_window(&self, other: &Self) -> u32 {
        match (self.scale, other.scale) {
            (Some(scale), Some(_)) => MAX_WINDOW << scale,
            _ => MAX_WINDOW,
        }
    }

    /// What it sent, and was allowed to: a packet may end behind that, though it begins before it.
    pub(crate) fn allowed_end(&self) -> u32 {
        match is_at_most(self.end, self.max_end) {
            true => self.end,
            false => self.max_end,
        }
    }

    /// The other end has acknowledged its FIN.
    pub(crate) fn is_closed(&self) -> bool {
        self.fin && is_at_most(self.end, self.acked)
    }

    /// Sent and not acknowledged before, or the last that was.
    pub(crate) fn has_sent(&self, ack: u32) -> bool {
        is_at_most(self.acked, ack) && is_at_most(ack, self.end)
    }

    /// Of one that nobody has answered: whether this is the answer to its SYN.
    pub(crate) fn awaits(&self, segment: &Segment) -> bool {
        let ack = segment.acknowledgment;
        segment.is(Flags::ACK) && self.has_sent(ack)
    }
}

/// Sequence numbers wrap around.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

pub(crate) fn is_at_most(a: u32, b: u32) -> bool {
    distance(a, b) <= 0
}

fn later(a: u32, b: u32) -> u32 {
    if distance(b, a) > 0 { b } else { a }
}
