//! What receivers of numbered packets have in common: judging the numbers, and ending only when nothing
//! comes any more. Used by udp::receive and frames::receive.

use std::mem;
use std::time::{Duration, Instant};

use crate::sequence::{Arrival, Header, Window};
use crate::tally::Tally;

/// After how long without a packet nothing is under way any more.
const QUIET: Duration = Duration::from_millis(200);
/// Longest wait for what is under way.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);

/// Judges numbered packets. Counts into itself first: a tally is written once per batch.
pub(crate) struct Judge {
    /// By stream; those that nothing came of have none.
    windows: Vec<Option<Window>>,
    first: u64,
    late: u64,
    again: u64,
    foreign: u64,
    corrupt: u64,
}

impl Judge {
    pub(crate) fn new() -> Self {
        Self {
            windows: Vec::new(),
            first: 0,
            late: 0,
            again: 0,
            foreign: 0,
            corrupt: 0,
        }
    }

    /// Takes note of a packet; `None`: of one that is not of this job. Whether it counts as received.
    #[inline]
    pub(crate) fn judge(&mut self, header: Option<Header>) -> bool {
        let Some(header) = header else {
            self.foreign += 1;
            return false;
        };
        let stream = usize::from(header.stream);
        if stream >= self.windows.len() {
            self.windows.resize_with(stream + 1, || None);
        }
        let window = self.windows[stream].get_or_insert_with(Window::new);
        match window.arrive(header.number) {
            Arrival::InOrder => self.first += 1,
            Arrival::Late => self.late += 1,
            Arrival::Again => {
                self.again += 1;
                return false;
            }
        }
        true
    }

    /// Takes note of a packet that came otherwise than it was sent.
    #[inline]
    pub(crate) fn corrupt(&mut self) {
        self.corrupt += 1;
    }

    /// Adds what was judged since the last call to a tally, and the bytes of what counts as received.
    pub(crate) fn report(&mut self, tally: &Tally, received_bytes: u64) {
        let received = self.first + self.late;
        tally.received_packets.add(received);
        tally.received_bytes.add(received_bytes);
        tally.reordered_packets.add(self.late);
        tally.duplicate_packets.add(self.again);
        tally.foreign_packets.add(self.foreign);
        tally.corrupt_packets.add(self.corrupt);
        (self.first, self.late, self.again) = (0, 0, 0);
        (self.foreign, self.corrupt) = (0, 0);
    }
}

/// When a receiver ends: it was told to, nothing has come for a moment, and a last look found nothing.
pub(crate) struct Drain {
    told: Option<Instant>,
    came: Instant,
    /// Packets came since the clock was last read.
    fresh: bool,
    /// The moment is over. On a busy machine the receiver may have slept all of it, with packets at its socket.
    last_look: bool,
}

impl Drain {
    pub(crate) fn new() -> Self {
        Self {
            told: None,
            came: Instant::now(),
            fresh: false,
            last_look: false,
        }
    }

    /// Packets came.
    #[inline]
    pub(crate) fn came(&mut self) {
        self.fresh = true;
    }

    /// Whether to look for more. Reads the clock only while the job ends.
    #[inline]
    pub(crate) fn goes_on(&mut self, stopping: bool) -> bool {
        !stopping || self.waits(Instant::now())
    }

    fn waits(&mut self, now: Instant) -> bool {
        let told = *self.told.get_or_insert(now);
        if self.fresh {
            self.fresh = false;
            self.came = now;
            self.last_look = false;
        }
        if now - told >= LONGEST_DRAIN {
            return false;
        }
        now - self.came.max(told) < QUIET || !mem::replace(&mut self.last_look, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_counted_once() {
        let mut judge = Judge::new();
        let mut received = 0;
        let header = |stream, number| {
            Some(Header {
                stream,
                number,
                intended_ns: 0,
            })
        };
        for packet in [
            header(0, 0),
            header(0, 2),
            header(0, 1),
            header(0, 1),
            header(9, 0),
            None,
        ] {
            received += u32::from(judge.judge(packet));
        }
        judge.corrupt();
        assert_eq!(received, 4);
        let tally = Tally::default();
        judge.report(&tally, 400);
        judge.report(&tally, 0);
        assert_eq!(tally.received_packets.get(), 4);
        assert_eq!(tally.received_bytes.get(), 400);
        assert_eq!(tally.reordered_packets.get(), 1);
        assert_eq!(tally.duplicate_packets.get(), 1);
        assert_eq!(tally.foreign_packets.get(), 1);
        assert_eq!(tally.corrupt_packets.get(), 1);
    }

    #[test]
    fn a_receiver_ends_when_nothing_comes_and_at_last_anyway() {
        let mut drain = Drain::new();
        assert!(drain.goes_on(false));
        let told = Instant::now();
        let after = |ms| told + Duration::from_millis(ms);
        assert!(drain.waits(told));
        assert!(drain.waits(after(199)));
        drain.came();
        assert!(drain.waits(after(199)));
        assert!(drain.waits(after(398)));
        assert!(drain.waits(after(399)), "a last look");
        drain.came();
        assert!(drain.waits(after(400)));
        assert!(drain.waits(after(900)), "it has slept: a last look");
        assert!(!drain.waits(after(900)));
        drain.came();
        assert!(drain.waits(after(1999)));
        drain.came();
        assert!(!drain.waits(after(2000)));
    }
}
