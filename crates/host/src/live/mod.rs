//! One loop for work in the background: it waits for whatever happens next, and tells every duty of it.
//!
//! ```text
//!   network, files, signals, time ──► Sources ──► Event ──► Duty ──► Action ──► Executor
//!                                     (waits)              (pure)                  │
//!                                                            ▲────── Outcome ◄─────┘
//! ```
//!
//! A duty decides, and does nothing: it has no clock, no files and no sockets, so a test plays hours to it in no time.
//! Its executor acts. [`Machine`] is the only thing that waits.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use crate::HostError;

pub(crate) mod announce;
pub mod announcer;
mod files;
mod machine;
pub(crate) mod watch_mtu;

pub(crate) use machine::Machine;

/// What the loop tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first of all: from now on nothing is missed, so what there is can be looked at.
    Started,
    /// Something changed in the network namespace of the host, or the host has another one.
    Network(overlane_net::Event),
    /// This file was written, replaced or removed.
    File(PathBuf),
    /// The nftables of the namespace were changed, by whomever.
    Ruleset,
    /// A file system was mounted or unmounted.
    Mounts,
    /// Somebody calls, and waits for an answer.
    Call,
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// A time has come that some duty named.
    Timer,
}

/// A state machine. The same events at the same times give the same actions.
pub(crate) trait Duty {
    /// What its executor does for it.
    type Action;
    /// What comes of that.
    type Outcome;

    /// Something happened.
    fn on(&mut self, event: &Event, now: Instant) -> Vec<Self::Action>;

    /// An action was carried out.
    fn done(&mut self, outcome: Self::Outcome, now: Instant) -> Vec<Self::Action>;

    /// When it wants [`Event::Timer`], if nothing happens before.
    fn wakes_at(&self) -> Option<Instant>;

    /// The files that it wants to hear of.
    fn files(&self) -> Vec<PathBuf>;

    /// There is nothing left to do.
    fn is_over(&self) -> bool;
}

/// Carries out what a duty decides. An error ends the loop; what a duty can live with is an outcome.
pub(crate) trait Executor<D: Duty> {
    fn carry_out(&mut self, action: D::Action) -> Result<Option<D::Outcome>, HostError>;
}

/// A duty and its executor.
#[derive(Debug)]
pub(crate) struct Job<D, X> {
    pub(crate) duty: D,
    pub(crate) executor: X,
}

/// A job as the loop sees it, whatever its duty is.
pub(crate) trait Work {
    /// Hands an event on, and carries out what follows from it, to the end.
    fn handle(&mut self, event: &Event, clock: &dyn Fn() -> Instant) -> Result<(), HostError>;
    fn wakes_at(&self) -> Option<Instant>;
    fn files(&self) -> Vec<PathBuf>;
    fn is_over(&self) -> bool;
}

impl<D: Duty, X: Executor<D>> Work for Job<D, X> {
    fn handle(&mut self, event: &Event, clock: &dyn Fn() -> Instant) -> Result<(), HostError> {
        let mut actions = VecDeque::from(self.duty.on(event, clock()));
        while let Some(action) = actions.pop_front() {
            if let Some(outcome) = self.executor.carry_out(action)? {
                actions.extend(self.duty.done(outcome, clock()));
            }
        }
        Ok(())
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.duty.wakes_at()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.duty.files()
    }

    fn is_over(&self) -> bool {
        self.duty.is_over()
    }
}

/// Where events come from: the machine, or a test.
pub(crate) trait Sources {
    fn now(&self) -> Instant;

    /// What happens next, or nothing if it is `until` before. It hears of these files from now on; of one that was not
    /// among them before, at once.
    fn wait(
        &mut self,
        until: Option<Instant>,
        files: &BTreeSet<PathBuf>,
    ) -> Result<Vec<Event>, HostError>;
}

/// The loop.
#[derive(Debug)]
pub(crate) struct Loop<S> {
    sources: S,
    has_started: bool,
}

impl<S: Sources> Loop<S> {
    pub(crate) const fn new(sources: S) -> Self {
        Self {
            sources,
            has_started: false,
        }
    }

    /// Until every job is over.
    pub(crate) fn run(&mut self, jobs: &mut [&mut dyn Work]) -> Result<(), HostError> {
        while jobs.iter().any(|job| !job.is_over()) {
            self.turn(jobs)?;
        }
        Ok(())
    }

    /// Waits once, and tells the jobs what came.
    pub(crate) fn turn(&mut self, jobs: &mut [&mut dyn Work]) -> Result<(), HostError> {
        let open = || jobs.iter().filter(|job| !job.is_over());
        let files = open().flat_map(|job| job.files()).collect();
        let wakes_at = open().filter_map(|job| job.wakes_at()).min();
        let mut events = Vec::new();
        if self.has_started {
            events = self.sources.wait(wakes_at, &files)?;
        } else {
            // It listens before anybody looks, so that no change falls between the two. What came before is seen then.
            let now = self.sources.now();
            events.push(Event::Started);
            let before = self.sources.wait(Some(now), &files)?.into_iter();
            events.extend(before.filter(|event| *event == Event::Signal));
            self.has_started = true;
        }
        if wakes_at.is_some_and(|at| at <= self.sources.now()) {
            events.push(Event::Timer);
        }
        let clock = || self.sources.now();
        for event in &events {
            for job in jobs.iter_mut().filter(|job| !job.is_over()) {
                job.handle(event, &clock)?;
            }
        }
        Ok(())
    }
}

/// Events for tests of duties.
#[cfg(test)]
pub(crate) mod events {
    use overlane_net::Event;

    /// A device that is up, or that is gone.
    pub(crate) fn link(index: u32, name: &str, gone: bool) -> Event {
        Event::Link {
            index,
            name: name.into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: !gone,
            carrier: !gone,
            master: None,
            gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use overlane_net::Event as Change;

    use super::*;

    /// Hours in no time: what happens when.
    struct Script {
        now: Instant,
        events: BTreeMap<Instant, Vec<Event>>,
        files: Vec<BTreeSet<PathBuf>>,
    }

    impl Sources for Script {
        fn now(&self) -> Instant {
            self.now
        }

        fn wait(
            &mut self,
            until: Option<Instant>,
            files: &BTreeSet<PathBuf>,
        ) -> Result<Vec<Event>, HostError> {
            self.files.push(files.clone());
            let next = self.events.keys().next().copied();
            let at = until.into_iter().chain(next).min().expect("an end");
            self.now = self.now.max(at);
            Ok(self.events.remove(&at).unwrap_or_default())
        }
    }

    /// Beats until it has done so `left` times, or a signal comes.
    struct Beat {
        every: Duration,
        next: Instant,
        left: usize,
        file: &'static str,
    }

    impl Duty for Beat {
        type Action = &'static str;
        type Outcome = &'static str;

        fn on(&mut self, event: &Event, now: Instant) -> Vec<&'static str> {
            match event {
                Event::Started => vec!["start"],
                Event::Network(Change::Everything) => vec!["look", "look again"],
                Event::Signal => {
                    self.left = 0;
                    Vec::new()
                }
                _ if now >= self.next && self.left > 0 => {
                    self.next = now + self.every;
                    self.left -= 1;
                    vec!["beat"]
                }
                _ => Vec::new(),
            }
        }

        fn done(&mut self, outcome: &'static str, _now: Instant) -> Vec<&'static str> {
            vec![outcome]
        }

        fn wakes_at(&self) -> Option<Instant> {
            Some(self.next)
        }

        fn files(&self) -> Vec<PathBuf> {
            vec![self.file.into()]
        }

        fn is_over(&self) -> bool {
            self.left == 0
        }
    }

    /// What was done. A look leads to a repair.
    #[derive(Default)]
    struct Log(Vec<&'static str>);

    impl Executor<Beat> for Log {
        fn carry_out(&mut self, action: &'static str) -> Result<Option<&'static str>, HostError> {
            self.0.push(action);
            Ok((action == "look").then_some("repair"))
        }
    }

    fn job(begin: Instant, every_s: u64, left: usize, file: &'static str) -> Job<Beat, Log> {
        let every = Duration::from_secs(every_s);
        let duty = Beat {
            every,
            next: begin + every,
            left,
            file,
        };
        let executor = Log::default();
        Job { duty, executor }
    }

    fn script(begin: Instant, events: &[(u64, Event)]) -> Loop<Script> {
        let at = |(s, event): &(u64, Event)| (begin + Duration::from_secs(*s), vec![event.clone()]);
        Loop::new(Script {
            now: begin,
            events: events.iter().map(at).collect(),
            files: Vec::new(),
        })
    }

    #[test]
    fn every_job_has_its_own_times_and_hears_all_events() {
        let begin = Instant::now();
        let mut live = script(begin, &[(15, Event::Network(Change::Everything))]);
        let (mut slow, mut fast) = (job(begin, 3600, 1, "/a/slow"), job(begin, 10, 3, "/a/fast"));
        live.run(&mut [&mut slow, &mut fast]).unwrap();
        let looks = ["look", "look again", "repair"];
        assert_eq!(
            slow.executor.0,
            [&["start"][..], &looks, &["beat"]].concat()
        );
        let fast = fast.executor.0;
        assert_eq!(
            fast,
            [&["start", "beat"][..], &looks, &["beat", "beat"]].concat()
        );
        assert_eq!(live.sources.now, begin + Duration::from_secs(3600));
        // A job that is over hears nothing any more, and names no files.
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        assert_eq!(live.sources.files[0], files(&["/a/slow", "/a/fast"]));
        assert_eq!(live.sources.files.last(), Some(&files(&["/a/slow"])));
    }

    #[test]
    fn a_time_that_has_come_is_told_beside_what_else_happens() {
        let begin = Instant::now();
        let event = |s| (s, Event::File("/a/other".into()));
        let mut live = script(begin, &[event(1), event(2), (25, Event::Signal)]);
        let mut job = job(begin, 2, 100, "/a/b");
        live.run(&mut [&mut job]).unwrap();
        // At 2, 4 … 24.
        assert_eq!(job.executor.0.len(), 1 + 12);
        assert_eq!(live.sources.now, begin + Duration::from_secs(25));
    }

    #[test]
    fn an_error_ends_the_loop() {
        struct Fails;
        impl Executor<Beat> for Fails {
            fn carry_out(&mut self, _: &'static str) -> Result<Option<&'static str>, HostError> {
                Err(HostError::NoneApplied)
            }
        }
        let begin = Instant::now();
        let Job { duty, .. } = job(begin, 1, 1, "/a/b");
        let executor = Fails;
        let done = script(begin, &[]).run(&mut [&mut Job { duty, executor }]);
        assert!(matches!(done, Err(HostError::NoneApplied)));
    }
}
