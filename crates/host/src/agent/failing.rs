//! Objects that could not be applied. Each is tried again after a pause that grows, until it works or the file forgets
//! it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::calls::Failed;
use crate::report::{Object, Row};

/// After the first try.
const FIRST: Duration = Duration::from_secs(1);
/// It grows no further.
const LONGEST: Duration = Duration::from_secs(300);

/// What does not work, by what it is.
#[derive(Debug, Default)]
pub(super) struct Failing {
    things: BTreeMap<(Object, String), Tried>,
}

#[derive(Debug)]
struct Tried {
    since: Instant,
    tries: u32,
    again: Instant,
    reason: String,
}

impl Failing {
    /// What a pass came to. Whatever is not among the rows works, or is wanted no more.
    pub(super) fn after_pass<'a>(&mut self, rows: impl Iterator<Item = &'a Row>, now: Instant) {
        let mut before = std::mem::take(&mut self.things);
        for row in rows {
            let thing = (row.object, row.name.clone());
            let reason = row.sentence();
            let mut tried = before.remove(&thing).unwrap_or(Tried {
                since: now,
                tries: 0,
                again: now,
                reason: String::new(),
            });
            // Another reason may need another time.
            if tried.reason != reason {
                tried.tries = 0;
            }
            // A pass for another object's sake is a try, but not one that was due.
            if tried.again <= now {
                tried.tries += 1;
                tried.again = now + pause(tried.tries);
            }
            self.things.insert(thing, Tried { reason, ..tried });
        }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.things.values().map(|tried| tried.again).min()
    }

    /// For who asks.
    pub(super) fn told(&self, now: Instant, wall_s: u64) -> Vec<Failed> {
        let told = |((object, name), tried): (&(Object, String), &Tried)| Failed {
            object: *object,
            name: name.clone(),
            reason: tried.reason.clone(),
            tries: tried.tries,
            since: wall_s.saturating_sub(now.saturating_duration_since(tried.since).as_secs()),
            again_in_s: tried.again.saturating_duration_since(now).as_secs(),
        };
        self.things.iter().map(told).collect()
    }
}

fn pause(tries: u32) -> Duration {
    let doubled = 1u32
        .checked_shl(tries.saturating_sub(1))
        .unwrap_or(u32::MAX);
    FIRST.saturating_mul(doubled).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, why: &str) -> Row {
        Row::finding("failed", Object::Port, name).means(why)
    }

    #[test]
    fn pauses_grow_and_end_when_it_works_or_is_forgotten() {
        let begin = Instant::now();
        let mut failing = Failing::default();
        let (one, two) = (row("one", "no room"), row("two", "no room"));
        let mut now = begin;
        for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            failing.after_pass([&one].into_iter(), now);
            assert_eq!(failing.next(), Some(now + Duration::from_secs(pause)));
            now += Duration::from_secs(pause);
        }
        failing.after_pass([&one, &two].into_iter(), now);
        assert_eq!(failing.next(), Some(now + FIRST));
        let told = failing.told(now, 10_000);
        assert_eq!((told[0].tries, told[1].tries), (12, 1));
        assert_eq!(told[0].since, 10_000 - (now - begin).as_secs());
        failing.after_pass([&one].into_iter(), now);
        assert_eq!(failing.next(), Some(now + LONGEST));
        failing.after_pass([].into_iter(), now);
        assert_eq!(failing.next(), None);
    }

    #[test]
    fn a_pass_for_another_reason_neither_hurries_nor_delays() {
        let begin = Instant::now();
        let mut failing = Failing::default();
        let at = |ms| begin + Duration::from_millis(ms);
        failing.after_pass([&row("one", "a")].into_iter(), begin);
        failing.after_pass([&row("one", "a")].into_iter(), at(500));
        assert_eq!(failing.next(), Some(at(1000)));
        failing.after_pass([&row("one", "a")].into_iter(), at(1000));
        assert_eq!(failing.next(), Some(at(3000)));
        // With another reason it begins anew.
        failing.after_pass([&row("one", "b")].into_iter(), at(3000));
        assert_eq!(failing.next(), Some(at(4000)));
    }
}
