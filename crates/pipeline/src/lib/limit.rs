//! What a sender causes at most so often: answers, records in the log, copies of flooded frames, questions. The map `limits` of
//! `bpf/lib/abi_firewall.h`.

use crate::lib::time::SECOND_NS;

/// What there is only so much of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Limited {
    /// ICMP errors and resets.
    Answers,
    /// Records in the log of the firewall.
    Log,
    /// Copies of flooded frames.
    Flood,
    /// Questions of routers for neighbours.
    Asks,
    /// Answers to probes of a size.
    Sizes,
    /// Answers to greetings.
    Abilities,
    /// What confirms answers to greetings.
    Confirmed,
}

impl Limited {
    pub(crate) const ANSWERS: u32 = 100;
    pub(crate) const LOG: u32 = 100;
    pub(crate) const ASKS: u32 = 10;
    /// Bytes.
    pub(crate) const SIZES: u32 = 520_000;
    pub(crate) const ABILITIES: u32 = 10;

    /// The window of time that it is counted in.
    const fn window_ns(self) -> u64 {
        match self {
            Self::Log => SECOND_NS,
            _ => SECOND_NS / 10,
        }
    }
}

/// Counts within a window of time, which begins with the first thing in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Limit {
    since_ns: u64,
    count: u32,
}

impl Limit {
    /// Whether one more may happen now, which counts for `weight`; then it is counted. The last one may go beyond `most`.
    pub(crate) fn allow(&mut self, now_ns: u64, what: Limited, weight: u32, most: u32) -> bool {
        let is_over = now_ns.saturating_sub(self.since_ns) >= what.window_ns();
        if self.count == 0 || is_over {
            *self = Self {
                since_ns: now_ns,
                count: 0,
            };
        }
        let has_room = self.count < most;
        if has_room {
            self.count = self.count.wrapping_add(weight);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_its_first() {
        let mut limit = Limit::default();
        let mut allow = |ms: u64| limit.allow(ms * 1_000_000, Limited::Answers, 1, 2);
        assert_eq!([5, 5, 104].map(&mut allow), [true, true, false]);
        assert_eq!([105, 204, 204].map(&mut allow), [true, true, false]);
    }

    #[test]
    fn the_last_may_go_beyond() {
        let mut limit = Limit::default();
        let mut allow = |weight| limit.allow(0, Limited::Flood, weight, 10);
        assert_eq!([9, 1000, 1].map(&mut allow), [true, true, false]);
    }
}
