//! The windows of a TCP connection: which sequence and acknowledgment numbers an end can send at all (van
//! Rooij, "Real stateful TCP packet filtering in IP Filter"; as `nf_conntrack_proto_tcp.c`, without SACK).
//!
//! ```text
//!          s.end − r.max_window          s.end         s.max_end
//! ---------------|-----------------------|---------------|------> sequence numbers of s
//!   old: no      |     sent before       |   new: yes    | more than r ever allowed: no
//! ```

use overlane_wire::tcp::Flags;

use crate::parse::Segment;

/// An acknowledgment may be this much older than what was sent, whatever the window.
const MIN_ACK_WINDOW: u32 = 66_000;

/// What is known of one end. All zero: nothing yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TcpEnd {
    /// Behind the highest sequence number that it sent.
    pub end: u32,
    /// Behind the highest that the other end ever allowed it.
    pub max_end: u32,
    /// The largest window that it ever offered.
    pub max_window: u32,
    /// The window scale option of its SYN.
    pub scale: Option<u8>,
    /// It has sent.
    pub seen: bool,
    /// It has sent FIN.
    pub fin: bool,
}

/// A packet of `s` to `r`: whether it fits; then both know of it. `is_adopted`: it always fits.
pub(super) fn pass(s: &mut TcpEnd, r: &mut TcpEnd, segment: &Segment, is_adopted: bool) -> bool {
    let sender = match s.seen {
        true => *s,
        false => TcpEnd::first(segment),
    };
    let is_blind = !s.seen && segment.is(Flags::RST) && !segment.is(Flags::ACK);
    if !is_adopted && (is_blind || !fits(&sender, r, segment)) {
        return false;
    }
    *s = sender;
    let window = match (segment.is(Flags::SYN), s.scale, r.scale) {
        (false, Some(scale), Some(_)) => u32::from(segment.window) << scale,
        _ => segment.window.into(),
    };
    s.max_window = s.max_window.max(window).max(1);
    s.end = later(s.end, segment.sequence_end());
    s.fin |= segment.is(Flags::FIN);
    if segment.is(Flags::ACK) {
        let allowed = segment.acknowledgment.wrapping_add(window.max(1));
        r.max_end = later(r.max_end, allowed);
    }
    true
}

fn fits(s: &TcpEnd, r: &TcpEnd, segment: &Segment) -> bool {
    if !r.seen {
        return true;
    }
    let (sequence, ack) = (segment.sequence, segment.acknowledgment);
    let oldest = s.end.wrapping_sub(r.max_window);
    let oldest_ack = r.end.wrapping_sub(s.max_window.max(MIN_ACK_WINDOW));
    let is_new_enough = is_at_most(oldest, segment.sequence_end());
    let is_allowed = is_at_most(sequence, s.max_end) && is_new_enough;
    let is_right_ack = is_at_most(ack, r.end) && is_at_most(oldest_ack, ack);
    is_allowed && (!segment.is(Flags::ACK) || is_right_ack)
}

impl TcpEnd {
    fn first(segment: &Segment) -> Self {
        let end = segment.sequence_end();
        Self {
            end,
            max_end: end,
            max_window: u32::from(segment.window).max(1),
            scale: segment.scale,
            seen: true,
            fin: false,
        }
    }
}

/// Sequence numbers wrap around.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

fn is_at_most(a: u32, b: u32) -> bool {
    distance(a, b) <= 0
}

fn later(a: u32, b: u32) -> u32 {
    if distance(b, a) > 0 { b } else { a }
}
