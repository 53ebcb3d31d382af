//! Whether a number has come before: of each sender, what came lately.

use std::collections::HashMap;
use std::net::SocketAddr;

/// So many numbers behind the highest are told apart.
const WINDOW: u64 = 1 << 16;
/// More senders than this are not told apart: a virtual machine of the laboratory has one or two.
const SENDERS: usize = 64;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Higher than all before, or the first.
    New,
    /// Lower than one that came before it, and for the first time.
    Late,
    /// It was here already.
    Again,
}

/// The numbers of all senders. One that counts from the start again does so from another port.
#[derive(Default)]
pub(crate) struct Sequences(HashMap<SocketAddr, Sequence>);

impl Sequences {
    /// Takes note of a number; `None` where there are too many senders.
    pub(crate) fn arrived(&mut self, sender: SocketAddr, number: u64) -> Option<Arrival> {
        if self.0.len() >= SENDERS && !self.0.contains_key(&sender) {
            return None;
        }
        Some(self.0.entry(sender).or_default().arrived(number))
    }
}

/// The highest number of a sender, and a bit for each in the window behind it.
#[derive(Default)]
struct Sequence {
    highest: Option<u64>,
    seen: Vec<u64>,
}

impl Sequence {
    fn arrived(&mut self, number: u64) -> Arrival {
        let Some(highest) = self.highest else {
            self.seen = vec![0; (WINDOW / 64) as usize];
            self.highest = Some(number);
            self.mark(number);
            return Arrival::New;
        };
        if number > highest {
            if number - highest >= WINDOW {
                self.seen.fill(0);
            } else {
                (highest + 1..number).for_each(|skipped| self.clear(skipped));
            }
            self.highest = Some(number);
            self.mark(number);
            return Arrival::New;
        }
        // What is older than the window has hardly been under way so long: it is a copy.
        if highest - number >= WINDOW || self.is_marked(number) {
            return Arrival::Again;
        }
        self.mark(number);
        Arrival::Late
    }

    fn place(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] &= !bit;
    }

    fn is_marked(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Again, Late, New};

    #[test]
    fn new_late_and_again() {
        let mut sequence = Sequence::default();
        let mut arrived = |numbers: &[u64]| -> Vec<Arrival> {
            numbers
                .iter()
                .map(|number| sequence.arrived(*number))
                .collect()
        };
        assert_eq!(arrived(&[5, 6, 9]), [New; 3]);
        assert_eq!(arrived(&[7, 7, 5, 8, 9]), [Late, Again, Again, Late, Again]);
        // The places of the numbers skipped were used by older ones.
        assert_eq!(arrived(&[9 + WINDOW, 8 + WINDOW, 10]), [New, Late, Late]);
        assert_eq!(
            arrived(&[9, 5 * WINDOW, 4 * WINDOW + 1]),
            [Again, New, Late]
        );
        assert_eq!(arrived(&[u64::MAX, 0, u64::MAX]), [New, Again, Again]);
    }

    #[test]
    fn senders_are_told_apart_up_to_a_limit() {
        let mut sequences = Sequences::default();
        let sender = |port: u16| SocketAddr::from(([198, 18, 0, 1], port));
        for port in 1..=64 {
            assert_eq!(sequences.arrived(sender(port), 1), Some(New));
        }
        assert_eq!(sequences.arrived(sender(65), 1), None);
        assert_eq!(sequences.arrived(sender(64), 1), Some(Again));
    }
}
