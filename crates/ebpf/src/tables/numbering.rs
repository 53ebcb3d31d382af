//! Numbers for things that packets use while they change. What is in the kernel already keeps its number,
//! and what is new gets one that nothing there has: so no entry that something refers to ever changes.

use std::collections::{BTreeMap, BTreeSet};

/// Gives numbers to contents, from 1 on.
#[derive(Debug)]
pub(super) struct Numbering<T> {
    known: BTreeMap<T, u32>,
    taken: BTreeSet<u32>,
    next: u32,
}

impl<T: Ord> Numbering<T> {
    /// Begins with what the kernel has: whole contents, which can be used again, and all numbers that
    /// occur there.
    pub(super) fn beside(
        known: impl IntoIterator<Item = (T, u32)>,
        taken: impl IntoIterator<Item = u32>,
    ) -> Self {
        Self {
            known: known.into_iter().collect(),
            taken: taken.into_iter().collect(),
            next: 1,
        }
    }

    /// Begins with contents that each have their own number.
    pub(super) fn keep(known: impl IntoIterator<Item = (T, u32)>) -> Self {
        let known: BTreeMap<T, u32> = known.into_iter().collect();
        let taken = known.values().copied().collect();
        Self {
            known,
            taken,
            next: 1,
        }
    }

    /// The number of `content`, a new one if need be.
    pub(super) fn number(&mut self, content: T) -> u32 {
        if let Some(&number) = self.known.get(&content) {
            return number;
        }
        while self.taken.contains(&self.next) {
            self.next += 1;
        }
        let number = self.next;
        self.taken.insert(number);
        self.known.insert(content, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_keeps_its_number_and_no_number_is_taken_twice() {
        let mut numbering = Numbering::beside([("b", 2), ("d", 4)], [2, 3, 4]);
        assert_eq!(numbering.number("b"), 2);
        assert_eq!(numbering.number("x"), 1);
        assert_eq!(numbering.number("y"), 5);
        assert_eq!(numbering.number("x"), 1);
        assert_eq!(numbering.number("d"), 4);
    }
}
