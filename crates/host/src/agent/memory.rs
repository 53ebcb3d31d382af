//! Since when what is wrong is wrong. Times are monotonic: a clock that jumps changes none.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::calls::{Seen, Trouble};
use crate::report::Row;

/// Since when each row of `status` is one.
#[derive(Debug, Default)]
pub(super) struct Memory {
    rows: BTreeMap<String, Instant>,
}

impl Memory {
    /// All rows that there are now.
    pub(super) fn seen<'a>(&mut self, rows: impl Iterator<Item = &'a Row>, now: Instant) {
        let before = std::mem::take(&mut self.rows);
        let since = |key: &String| before.get(key).copied().unwrap_or(now);
        self.rows = rows
            .map(Row::key)
            .map(|key| {
                let at = since(&key);
                (key, at)
            })
            .collect();
    }

    pub(super) fn told(&self, at: impl Fn(Instant) -> u64) -> Vec<Seen> {
        let seen = |(key, since): (&String, &Instant)| Seen {
            key: key.clone(),
            since: at(*since),
        };
        self.rows.iter().map(seen).collect()
    }
}

/// What does not work as a whole.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    pub(super) mistakes: Lasting,
    pub(super) failed: Lasting,
    pub(super) not_kept: Lasting,
}

/// A trouble that lasts until it ends.
#[derive(Debug, Default)]
pub(super) struct Lasting(Option<Begun>);

#[derive(Debug)]
pub(super) struct Begun {
    pub(super) error: String,
    help: Option<String>,
    since: Instant,
}

impl Lasting {
    /// True: it is another one than before, so that people want to hear of it.
    pub(super) fn begin(&mut self, error: &str, help: Option<&str>) -> bool {
        let since = self
            .0
            .as_ref()
            .map_or_else(Instant::now, |begun| begun.since);
        let is_other = self.0.as_ref().is_none_or(|begun| begun.error != error);
        self.0 = Some(Begun {
            error: error.to_owned(),
            help: help.map(str::to_owned),
            since,
        });
        is_other
    }

    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    pub(super) const fn current(&self) -> Option<&Begun> {
        self.0.as_ref()
    }

    pub(super) fn told(&self, at: impl Fn(Instant) -> u64) -> Option<Trouble> {
        self.0.as_ref().map(|begun| Trouble {
            error: begun.error.clone(),
            help: begun.help.clone(),
            since: at(begun.since),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::Object;

    #[test]
    fn a_row_is_as_old_as_its_first_look() {
        let begin = Instant::now();
        let at = |s| begin + Duration::from_secs(s);
        let row = |name: &str| Row::finding("port_down", Object::Port, name).means("it is down");
        let mut memory = Memory::default();
        let told = |memory: &Memory| {
            let told = memory.told(|at| (at - begin).as_secs());
            told.into_iter().map(|seen| seen.since).collect::<Vec<_>>()
        };
        memory.seen([&row("a")].into_iter(), at(1));
        memory.seen([&row("a"), &row("b")].into_iter(), at(5));
        assert_eq!(told(&memory), [1, 5]);
        memory.seen([&row("b")].into_iter(), at(7));
        memory.seen([&row("a"), &row("b")].into_iter(), at(9));
        assert_eq!(told(&memory), [9, 5]);
    }

    #[test]
    fn a_trouble_is_said_when_it_is_new() {
        let mut trouble = Lasting::default();
        assert!(trouble.begin("no room", None));
        assert!(!trouble.begin("no room", None));
        assert!(trouble.begin("no rights", None));
        trouble.end();
        assert!(trouble.begin("no rights", None));
    }
}
