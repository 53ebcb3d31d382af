//! Numbered packets: what stands in front of the payload, and what a receiver concludes from the numbers.
//!
//! ```text
//!  0        2        4                 8                                   16
//!  ┌────────┬────────┬─────────────────┬───────────────────────────────────┐
//!  │  mark  │ stream │ sequence number │ intended time, CLOCK_MONOTONIC ns │  big endian
//!  └────────┴────────┴─────────────────┴───────────────────────────────────┘
//! ```
//!
//! Written by udp::send and frames::send, read by udp::receive and frames::receive.

use crate::message::SEQUENCE_BYTES;

/// Length of the header.
pub(crate) const HEADER: usize = SEQUENCE_BYTES as usize;

/// What every numbered packet begins with.
pub(crate) const MARK: u16 = 0x4f6c;

/// Numbers that a window remembers. What comes later than that many numbers after its turn counts as a
/// duplicate, since nothing shows that it is not one.
pub(crate) const WINDOW: u32 = 1 << 16;

/// What a numbered packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Which of the job's flows it belongs to.
    pub(crate) stream: u16,
    /// Its number in the stream, from 0; goes on with 0 after 2^32 packets.
    pub(crate) number: u32,
    /// When it should have been sent.
    pub(crate) intended_ns: u64,
}

impl Header {
    /// The header in front of `bytes`; `None`: too short or without the mark.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (mark, rest) = bytes.split_first_chunk::<2>()?;
        let (stream, rest) = rest.split_first_chunk::<2>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (intended, _) = rest.split_first_chunk::<8>()?;
        (u16::from_be_bytes(*mark) == MARK).then_some(Self {
            stream: u16::from_be_bytes(*stream),
            number: u32::from_be_bytes(*number),
            intended_ns: u64::from_be_bytes(*intended),
        })
    }

    /// The bytes of it.
    pub(crate) fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..2].copy_from_slice(&MARK.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.stream.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.intended_ns.to_be_bytes());
        bytes
    }
}

/// What the number of a packet means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Higher than every number before.
    InOrder,
    /// After a higher one, for the first time.
    Late,
    /// Seen before, or too old to tell.
    Again,
}

/// The newest [`WINDOW`] numbers of one stream.
pub(crate) struct Window {
    /// One more than the highest number so far.
    next: u32,
    /// A bit for each number below `next`, at the number modulo [`WINDOW`].
    seen: Box<[u64]>,
}

impl Window {
    /// Before the first packet.
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            seen: vec![0; (WINDOW / u64::BITS) as usize].into_boxed_slice(),
        }
    }

    /// Takes note of a packet.
    pub(crate) fn arrive(&mut self, number: u32) -> Arrival {
        let ahead = number.wrapping_sub(self.next);
        // Numbers wrap: the half of the circle in front is new, the half behind is old.
        if ahead < 1 << 31 {
            self.forget(ahead);
            self.next = number.wrapping_add(1);
            self.remember(number);
            return Arrival::InOrder;
        }
        let behind = self.next.wrapping_sub(number);
        if behind > WINDOW || !self.remember(number) {
            return Arrival::Again;
        }
        Arrival::Late
    }

    /// Clears the bits of the numbers that are jumped over.
    fn forget(&mut self, jumped: u32) {
        if jumped >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for number in 0..=jumped {
            let (word, bit) = place(self.next.wrapping_add(number));
            self.seen[word] &= !bit;
        }
    }

    /// Sets the bit of a number; whether it was clear.
    fn remember(&mut self, number: u32) -> bool {
        let (word, bit) = place(number);
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }
}

/// Word and bit of a number.
fn place(number: u32) -> (usize, u64) {
    let slot = number % WINDOW;
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn header_is_read_as_written_and_refused_without_mark() {
        let header = Header {
            stream: 0x0102,
            number: 0x0304_0506,
            intended_ns: 0x0708_090a_0b0c_0d0e,
        };
        let bytes = header.bytes();
        assert_eq!(bytes[2..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(Header::read(&bytes), Some(header));
        assert_eq!(Header::read(&bytes[..15]), None);
        let mut damaged = bytes;
        damaged[0] ^= 1;
        assert_eq!(Header::read(&damaged), None);
    }

    #[test]
    fn first_late_and_repeated_numbers_are_told_apart() {
        let mut window = Window::new();
        let arrivals = [0, 1, 3, 2, 2, 3, 0, 4].map(|number| window.arrive(number));
        use Arrival::{Again, InOrder, Late};
        assert_eq!(
            arrivals,
            [
                InOrder, InOrder, InOrder, Late, Again, Again, Again, InOrder
            ]
        );
    }

    #[test]
    fn a_jump_longer_than_the_window_forgets_everything() {
        let mut window = Window::new();
        window.arrive(5);
        assert_eq!(window.arrive(5 + 2 * WINDOW), Arrival::InOrder);
        // The bit of 5 is that of 5 + WINDOW too.
        assert_eq!(window.arrive(5 + WINDOW), Arrival::Again);
        assert_eq!(window.arrive(6 + WINDOW), Arrival::Late);
        assert_eq!(window.arrive(6), Arrival::Again);
    }

    #[test]
    fn numbers_go_on_after_the_largest() {
        let mut window = Window::new();
        for step in [0x7000_0000_u32, 0xe000_0000, u32::MAX - 1, u32::MAX] {
            assert_eq!(window.arrive(step), Arrival::InOrder);
        }
        assert_eq!(window.arrive(1), Arrival::InOrder);
        assert_eq!(window.arrive(0), Arrival::Late);
        assert_eq!(window.arrive(u32::MAX), Arrival::Again);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_all_numbers(steps in prop::collection::vec(-300_i64..300, 1..2000)) {
            let mut window = Window::new();
            let (mut seen, mut highest, mut at) = (HashSet::new(), -1_i64, 0_i64);
            for step in steps {
                at = (at + step).max(0);
                let expected = if at > highest {
                    Arrival::InOrder
                } else if seen.contains(&at) {
                    Arrival::Again
                } else {
                    Arrival::Late
                };
                highest = highest.max(at);
                seen.insert(at);
                // The highest number stays below the window here, so that nothing is too old.
                prop_assume!(highest < i64::from(WINDOW));
                prop_assert_eq!(window.arrive(at as u32), expected);
            }
        }
    }
}
