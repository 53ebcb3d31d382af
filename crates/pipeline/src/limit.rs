//! What happens at most so often on a whole host: answers, records in the log. The map `limits` of
//! `bpf/lib/abi.h`.

/// Counts within a window of time, which begins with the first thing in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Limit {
    since_ns: u64,
    count: u32,
}

impl Limit {
    /// Whether one more may happen now; then it is counted.
    pub(crate) fn allow(&mut self, now_ns: u64, most: u32, window_ns: u64) -> bool {
        let is_over = now_ns.saturating_sub(self.since_ns) >= window_ns;
        if self.count == 0 || is_over {
            *self = Self {
                since_ns: now_ns,
                count: 1,
            };
            return true;
        }
        let has_room = self.count < most;
        self.count += u32::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_with_its_first() {
        let mut limit = Limit::default();
        let mut allow = |now_ns| limit.allow(now_ns, 2, 10);
        assert_eq!([5, 5, 14].map(&mut allow), [true, true, false]);
        assert_eq!([15, 24, 24].map(&mut allow), [true, true, false]);
    }
}
