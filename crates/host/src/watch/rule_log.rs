//! What rules log, for `overlane log`: records of the ring `rule_log` with names put to them.
//!
//! The programs write whether or not somebody reads: what is in the ring when a session begins is old and
//! thrown away. One session at a time per host, as the ring has one reader.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use overlane_ebpf::abi::firewall::{LogRecord, RULE_DEFAULT};
use overlane_ebpf::rule_log::RuleLog;
use overlane_model::Verdict;
use serde::Serialize;

use crate::HostError;
use crate::lib::clock::Clock;
use crate::lib::lock::Lock;
use crate::lib::paths;
use crate::lib::signals::Signals;
pub use crate::lib::wait::End as SessionEnd;
use crate::lib::wait::{LOOK, wait};
use crate::observe::{self, End};
use crate::state::State;

/// One packet that a rule decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// When, in ns since 1970 (UTC).
    pub time_unix_ns: u64,
    /// The rule; none: it is gone since.
    pub rule: Option<String>,
    /// Its line in the fabric file.
    pub line: Option<u32>,
    /// The logical port.
    pub port: Option<String>,
    /// `from_port` or `to_port`.
    pub direction: &'static str,
    /// It went on; else it was dropped.
    pub passed: bool,
    /// Why it was dropped.
    pub verdict: Option<&'static str>,
    /// IP protocol.
    pub protocol: u8,
    /// The port's end.
    pub local: End,
    /// The other end.
    pub peer: End,
    /// `icmp` message, where there are no ports.
    pub icmp_type: Option<u8>,
    /// Length of the frame; at most 65 535 is told.
    pub len: u16,
}

/// Reads the log of one host until dropped.
#[derive(Debug)]
pub struct Session {
    log: RuleLog,
    state: State,
    signals: Signals,
    clock: Clock,
    looked: Instant,
    lock: Option<Lock>,
}

impl Session {
    /// Begins to read.
    ///
    /// Blocks the signals that end a program for the calling thread: they end [`wait`](Self::wait).
    pub fn open(host: &str) -> Result<Self, HostError> {
        let state = State::applied(host)?;
        // Also says whether this build can read the maps.
        observe::maps(&state)?;
        let lock = Lock::of_log(host)?;
        let mut log = RuleLog::open(&paths::map_set(host, &state.map_signature))?;
        let signals = Signals::take_over()?;
        let clock = Clock::now()?;
        log.drain();
        Ok(Self {
            log,
            state,
            signals,
            clock,
            looked: Instant::now(),
            lock: Some(lock),
        })
    }

    /// Whether a rule of the host logs at all.
    pub fn has_rules(&self) -> bool {
        self.state.rules().any(|(_, rule)| rule.log)
    }

    /// Waits until there may be records to take (`None`), or until something ended the session. A hang-up of
    /// `reader` does that too.
    pub fn wait(
        &mut self,
        until: Option<Instant>,
        reader: Option<BorrowedFd<'_>>,
    ) -> Result<Option<SessionEnd>, HostError> {
        if Instant::now() >= self.looked + LOOK && !self.look()? {
            return Ok(Some(SessionEnd::HostGone));
        }
        wait(
            [self.log.as_fd(), self.signals.as_fd()],
            reader,
            until,
            self.looked + LOOK,
        )
    }

    /// The next record that waits.
    #[expect(clippy::should_implement_trait, reason = "more may come after None")]
    pub fn next(&mut self) -> Option<Record> {
        let record = self.log.next()?;
        // Rules have other numbers after an `apply`.
        let is_known = self.state.rule_numbers.contains(&record.rule);
        if !is_known && record.rule != RULE_DEFAULT {
            // A file that cannot be read now is looked at again by `wait`.
            let _ = self.look();
        }
        Some(named(&self.state, &record, &self.clock))
    }

    /// Takes over what an `apply` has changed. False when the maps of this session are nobody's any more.
    fn look(&mut self) -> Result<bool, HostError> {
        self.looked = Instant::now();
        self.clock = Clock::now()?;
        let Some(state) = State::read(&self.state.host)? else {
            return Ok(false);
        };
        if state.map_signature != self.state.map_signature {
            return Ok(false);
        }
        self.state = state;
        Ok(true)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            lock.remove_file();
        }
    }
}

fn named(state: &State, record: &LogRecord, clock: &Clock) -> Record {
    let rule = state.rules().find(|(number, _)| *number == record.rule);
    let key = &record.packet;
    let port = state.port(key.switch_id, key.key.into());
    let (local, peer, icmp_type) = observe::ends(key);
    let verdict = Verdict::from_number(record.verdict_reason.into());
    let verdict = verdict.filter(|_| record.verdict_reason != 0);
    Record {
        time_unix_ns: clock.unix_ns(record.time),
        rule: rule.map(|(_, rule)| rule.name.to_string()),
        line: rule.map(|(_, rule)| rule.line),
        port: port.map(|port| port.name.to_string()),
        direction: if record.from_port != 0 {
            "from_port"
        } else {
            "to_port"
        },
        passed: record.verdict_reason == 0,
        verdict: verdict.map(Verdict::name),
        protocol: key.protocol,
        local,
        peer,
        icmp_type,
        len: record.len,
    }
}
