//! When what is announced: each answer three times, a second apart, and as soon as its devices are up. Of what stations of
//! switches are told there may be much: it leaves a share at a time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use overlane_net::Event as Change;

use super::{Duty, Event};
use crate::state::answers::Answer;

/// MAX_NEIGHBOR_ADVERTISEMENT (RFC 4861 section 10).
const ROUNDS: u8 = 3;
/// RETRANS_TIMER.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);
/// What could not be sent is tried again when its device changes, and in any case after so long.
const RETRY: Duration = Duration::from_secs(1);
/// A device that flaps does not make it try more often.
const PAUSE: Duration = Duration::from_millis(50);

/// So much is told to stations at once,
pub(crate) const SHARE: usize = 1000;
/// and the next share follows then.
const BETWEEN_SHARES: Duration = Duration::from_millis(250);

/// Announces answers, for some time.
#[derive(Debug)]
pub(crate) struct Announce {
    turns: Vec<Turn>,
    files: Vec<PathBuf>,
    end: Instant,
    /// What was asked for last, and when.
    asked: BTreeSet<Answer>,
    tried: Instant,
    down: BTreeSet<String>,
    is_over: bool,
}

/// An answer and its rounds.
#[derive(Debug)]
struct Turn {
    answer: Answer,
    left: u8,
    at: Instant,
    /// It could not be sent when its time had come.
    waits: bool,
}

/// To announce these answers, if that is still wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Send(pub(crate) BTreeSet<Answer>);

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There is nobody to announce for any more.
    Gone,
    /// While `apply` works nobody knows what holds.
    Busy,
    Sent {
        /// What the host does not answer for any more.
        over: BTreeSet<Answer>,
        sent: BTreeSet<Answer>,
        /// Devices that are down, or gone.
        down: BTreeSet<String>,
    },
}

impl Announce {
    /// Nothing of `untold` was announced yet; of `told`, the first round was, just now. It ends when one of the files
    /// says so, or after `patience`.
    pub(crate) fn new(
        untold: BTreeSet<Answer>,
        told: BTreeSet<Answer>,
        files: Vec<PathBuf>,
        patience: Duration,
        now: Instant,
    ) -> Self {
        let turn = |left, at| {
            move |answer| Turn {
                answer,
                left,
                at,
                waits: false,
            }
        };
        let (of_switches, untold): (Vec<_>, Vec<_>) = untold
            .into_iter()
            .partition(|answer| answer.switch.is_some());
        let shares = (0..).map(|number| now + BETWEEN_SHARES * number);
        let in_turn = of_switches.chunks(SHARE).zip(shares);
        let in_turn = in_turn.flat_map(|(share, at)| share.iter().cloned().map(turn(ROUNDS, at)));
        let in_turn: Vec<Turn> = in_turn.collect();
        let untold = untold.into_iter().map(turn(ROUNDS, now));
        let told = told.into_iter().map(turn(ROUNDS - 1, now + BETWEEN_ROUNDS));
        Self {
            turns: told.chain(untold).chain(in_turn).collect(),
            files,
            end: now + patience,
            asked: BTreeSet::new(),
            tried: now,
            down: BTreeSet::new(),
            is_over: false,
        }
    }

    /// The devices that were down to the end; none where all was announced, or nobody wants it any more.
    pub(crate) fn into_down(self) -> BTreeSet<String> {
        self.down
    }

    /// What waits for something that may have happened now is due again.
    fn hurry(&mut self, now: Instant, is_it: impl Fn(&Answer) -> bool) {
        let soon = now.max(self.tried + PAUSE);
        for turn in &mut self.turns {
            if turn.waits && is_it(&turn.answer) {
                turn.at = turn.at.min(soon);
            }
        }
    }

    fn send_due(&mut self, now: Instant) -> Vec<Send> {
        let due = self.turns.iter().filter(|turn| turn.at <= now);
        self.asked = due.map(|turn| turn.answer.clone()).collect();
        self.tried = now;
        vec![Send(self.asked.clone())]
    }

    fn wait(&mut self, now: Instant) {
        for turn in &mut self.turns {
            if self.asked.contains(&turn.answer) {
                turn.at = now + RETRY;
                turn.waits = true;
            }
        }
    }

    /// What is not announced yet is not.
    pub(crate) fn give_up(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.is_over = true;
        self.down.clear();
    }
}

impl Duty for Announce {
    type Action = Send;
    type Outcome = Outcome;

    fn on(&mut self, event: &Event, now: Instant) -> Vec<Send> {
        match event {
            Event::Started => return self.send_due(now),
            Event::File(_) => {
                // `apply` is done, maybe. Whether the work is still wanted is to be found out, also if nothing is due.
                self.hurry(now, |_| true);
                return self.send_due(now);
            }
            Event::Network(Change::Everything) => self.hurry(now, |_| true),
            Event::Network(Change::Link { name, .. }) => {
                self.hurry(now, |answer| answer.devices().any(|device| device == name));
            }
            Event::Signal => {
                self.end();
                return Vec::new();
            }
            Event::Network(_) | Event::Ruleset | Event::Mounts | Event::Call | Event::Timer => {}
        }
        if self.turns.iter().any(|turn| turn.at <= now) {
            return self.send_due(now);
        }
        self.is_over |= now >= self.end;
        Vec::new()
    }

    fn done(&mut self, outcome: Outcome, now: Instant) -> Vec<Send> {
        match outcome {
            Outcome::Gone => self.end(),
            Outcome::Busy => self.wait(now),
            Outcome::Sent { over, sent, down } => {
                if !self.asked.is_empty() {
                    self.down = down;
                }
                self.wait(now);
                for turn in &mut self.turns {
                    if sent.contains(&turn.answer) {
                        turn.left -= 1;
                        turn.at = now + BETWEEN_ROUNDS;
                        turn.waits = false;
                    }
                }
                self.turns
                    .retain(|turn| turn.left > 0 && !over.contains(&turn.answer));
                if self.turns.is_empty() {
                    self.end();
                }
            }
        }
        self.is_over |= now >= self.end;
        Vec::new()
    }

    fn wakes_at(&self) -> Option<Instant> {
        let turns = self.turns.iter().map(|turn| turn.at);
        turns.chain([self.end]).min()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn is_over(&self) -> bool {
        self.is_over || self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::events;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn answer(device: &str, last: u8) -> Answer {
        Answer {
            device: device.into(),
            vlan: None,
            address: Some([198, 19, 0, last].into()),
            mac: "02:00:00:00:00:01".into(),
            is_router: true,
            port: None,
            switch: None,
            remote: None,
        }
    }

    fn link(name: &str) -> Event {
        Event::Network(events::link(1, name, false))
    }

    /// The duty, and a machine that is as a test says: which devices are up, whether `apply` works.
    struct Played {
        duty: Announce,
        begin: Instant,
        now: Instant,
        answered: BTreeSet<Answer>,
        down: BTreeSet<String>,
        is_busy: bool,
        /// Milliseconds and last byte of the address.
        heard: Vec<(u128, u8)>,
        tries: usize,
    }

    impl Played {
        fn new(untold: &[Answer], told: &[Answer]) -> Self {
            let begin = Instant::now();
            let set = |answers: &[Answer]| answers.iter().cloned().collect();
            let (untold, told): (BTreeSet<_>, BTreeSet<_>) = (set(untold), set(told));
            let mut played = Self {
                answered: untold.union(&told).cloned().collect(),
                duty: Announce::new(untold, told, Vec::new(), PATIENCE, begin),
                begin,
                now: begin,
                down: BTreeSet::new(),
                is_busy: false,
                heard: Vec::new(),
                tries: 0,
            };
            played.tell(&Event::Started);
            played
        }

        fn down(mut self, device: &str) -> Self {
            self.down.insert(device.into());
            self
        }

        fn tell(&mut self, event: &Event) {
            for Send(due) in self.duty.on(event, self.now) {
                let outcome = self.send(due);
                assert_eq!(self.duty.done(outcome, self.now), []);
            }
        }

        fn send(&mut self, due: BTreeSet<Answer>) -> Outcome {
            self.tries += 1;
            if self.is_busy {
                return Outcome::Busy;
            }
            let over = due.difference(&self.answered).cloned().collect();
            let due = due.intersection(&self.answered).cloned();
            let is_down = |it: &Answer| self.down.contains(&it.device);
            let (down, sent): (BTreeSet<Answer>, BTreeSet<_>) = due.partition(is_down);
            for answer in &sent {
                let Some(std::net::IpAddr::V4(address)) = answer.address else {
                    continue;
                };
                let ms = (self.now - self.begin).as_millis();
                self.heard.push((ms, address.octets()[3]));
            }
            Outcome::Sent {
                over,
                sent,
                down: down.into_iter().map(|answer| answer.device).collect(),
            }
        }

        /// Lets time pass, until the duty is over or so many milliseconds after the beginning.
        fn until(&mut self, ms: u64) {
            let end = self.begin + Duration::from_millis(ms);
            while let Some(at) = self.duty.wakes_at()
                && at <= end
                && !self.duty.is_over()
            {
                self.now = self.now.max(at);
                self.tell(&Event::Timer);
            }
            self.now = end;
        }

        fn end(mut self) -> (Vec<(u128, u8)>, Vec<String>, Duration) {
            let mut last = self.now;
            while !self.duty.is_over() {
                last = self.duty.wakes_at().unwrap();
                self.until(u64::try_from((last - self.begin).as_millis()).unwrap());
            }
            let down = self.duty.into_down().into_iter().collect();
            (self.heard, down, last - self.begin)
        }
    }

    #[test]
    fn three_rounds_a_second_apart_of_what_was_told_two() {
        let (untold, told) = (answer("phys0", 1), answer("phys0", 2));
        let (heard, down, took) = Played::new(&[untold], &[told]).end();
        assert_eq!(heard, [(0, 1), (1000, 1), (1000, 2), (2000, 1), (2000, 2)]);
        assert!(down.is_empty());
        assert_eq!(took, Duration::from_secs(2));
        assert!(Played::new(&[], &[]).duty.is_over());
    }

    #[test]
    fn what_stations_are_told_goes_in_shares() {
        let tell = |n: usize| Answer {
            address: Some(std::net::Ipv4Addr::from_bits(n as u32).into()),
            switch: Some("blue".into()),
            ..answer("tap0", 1)
        };
        let tells: Vec<Answer> = (0..2 * SHARE + 1).map(tell).collect();
        let (heard, down, took) = Played::new(&tells, &[]).end();
        assert_eq!(heard.len(), 3 * tells.len());
        for (at, count) in [(0, SHARE), (250, SHARE), (500, 1), (1000, SHARE), (2500, 1)] {
            let then = heard.iter().filter(|(ms, _)| *ms == at);
            assert_eq!(then.count(), count, "{at}");
        }
        assert!(down.is_empty());
        assert_eq!(took, Duration::from_millis(2500));
    }

    #[test]
    fn a_device_that_comes_up_is_announced_at_once() {
        let mut played = Played::new(&[], &[answer("phys0", 1)]).down("phys0");
        played.until(5300);
        let tries = played.tries;
        // Another device is none of its business, and one that flaps does not make it try all the time.
        played.tell(&link("phys1"));
        assert_eq!(played.tries, tries);
        played.until(5310);
        for _ in 0..100 {
            played.tell(&link("phys0"));
        }
        assert_eq!(played.tries, tries + 1);
        played.down.clear();
        played.until(5400);
        let (heard, down, _) = played.end();
        assert_eq!(heard, [(5360, 1), (6360, 1)]);
        assert!(down.is_empty());
    }

    #[test]
    fn lost_events_are_as_good_as_any_and_without_them_it_tries_again() {
        for (event, at) in [
            (Some(Event::Network(Change::Everything)), 3500),
            (Some(Event::File("/run/h1.json".into())), 3500),
            (None, 4000),
        ] {
            let mut played = Played::new(&[], &[answer("phys0", 1)]).down("phys0");
            played.until(3500);
            played.down.clear();
            if let Some(event) = event {
                played.tell(&event);
            }
            assert_eq!(played.end().0, [(at, 1), (at + 1000, 1)]);
        }
    }

    #[test]
    fn it_names_what_stayed_down_for_a_minute() {
        let all = [answer("phys0", 1), answer("phys1", 2)];
        let (heard, down, took) = Played::new(&[], &all).down("phys1").end();
        assert_eq!(heard, [(1000, 1), (2000, 1)]);
        assert_eq!(down, ["phys1"]);
        assert_eq!(took, PATIENCE);
    }

    #[test]
    fn it_waits_for_apply_and_follows_it() {
        let mut played = Played::new(&[], &[answer("phys0", 1), answer("phys0", 2)]);
        played.is_busy = true;
        played.until(1200);
        played.is_busy = false;
        played.answered.remove(&answer("phys0", 2));
        played.tell(&Event::File("/run/h1.json".into()));
        // What the host does not answer for any more is not said again.
        let (heard, ..) = played.end();
        assert_eq!(heard, [(1200, 1), (2200, 1)]);
    }

    #[test]
    fn it_ends_when_nobody_wants_it_any_more() {
        let begin = Instant::now();
        let new = || {
            let untold = BTreeSet::from([answer("phys0", 1)]);
            Announce::new(untold, BTreeSet::new(), Vec::new(), PATIENCE, begin)
        };
        let mut duty = new();
        let sent = duty.on(&Event::Started, begin);
        assert_eq!(sent, [Send(BTreeSet::from([answer("phys0", 1)]))]);
        duty.done(Outcome::Gone, begin);
        assert!(duty.is_over() && duty.into_down().is_empty());
        let mut duty = new();
        assert_eq!(duty.on(&Event::Signal, begin).len(), 0);
        assert!(duty.is_over());
    }
}
