//! One live migration: asked again and again how it goes, it says when the guest is to be switched over, and at last where
//! the guest runs.

use super::links::Spread;
use super::qemu::Machine;
use super::qmp::Event;
use crate::error::LabError;
use crate::session::Session;
use serde_json::{Value, json};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Until the destination runs, and the source has filled its figures in.
const SETTLE: Duration = Duration::from_secs(20);
/// Until the source runs again after a migration that failed.
const GO_ON: Duration = Duration::from_secs(20);
/// Until a destination that refuses has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Until a machine that was switched over runs at the destination, or one that was given up is let go.
const HANDED_OVER: Duration = Duration::from_secs(60);
/// The round after which post-copy may begin: the memory was sent once.
const POSTCOPY_ROUNDS: u64 = 2;

/// How a machine is to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The destination's addresses, one for each link: several share the memory's pages.
    pub(crate) addresses: Vec<IpAddr>,
    /// Channels for pages. 0 or 1 on one link: the connection for everything. On several links at least one for each.
    pub(crate) channels: u8,
    /// From the second round on the guest runs at the destination and fetches the pages that it lacks.
    pub(crate) postcopy: bool,
    /// Bytes a second, at most.
    pub(crate) bandwidth: u64,
    /// The guest is stopped when what is left takes no longer than this.
    pub(crate) downtime: Duration,
    /// A migration that has not come to the switch by then is given up.
    pub(crate) limit: Duration,
}

/// How it goes.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// It goes on.
    Running,
    /// The guest stands at the source until [`Migration::switch`].
    ReadyToSwitch,
    /// The guest runs at the destination.
    Completed(Box<Figures>),
    /// It does not.
    Failed(Box<Stopped>),
}

/// Figures of a migration under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// How often memory was gone through.
    pub(crate) rounds: u64,
    pub(crate) transferred_bytes: u64,
    pub(crate) remaining_bytes: u64,
    /// How fast the guest writes to its memory, as QEMU sees it from the second round on.
    pub(crate) dirty_bytes_per_second: u64,
}

/// Figures of a migration that is done.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// QEMU's: from begin to end, the guest stopped, and before the first page.
    pub(crate) total_ms: u64,
    pub(crate) downtime_ms: u64,
    pub(crate) setup_ms: u64,
    /// All that was sent.
    pub(crate) transferred_bytes: u64,
    pub(crate) rounds: u64,
    /// Pages that the guest waited for at the destination.
    pub(crate) postcopy_requests: u64,
    pub(crate) times: Times,
}

/// When what happened, by the clock of this machine. Events have QEMU's own note of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The order to migrate.
    pub(crate) begun: Instant,
    /// The guest stopped at the source.
    pub(crate) stopped: Option<Instant>,
    /// Ready to be switched over.
    pub(crate) pre_switchover: Option<Instant>,
    /// [`Migration::switch`].
    pub(crate) switched: Option<Instant>,
    /// The guest began to run at the destination.
    pub(crate) resumed: Option<Instant>,
    /// The source was done.
    pub(crate) completed: Option<Instant>,
}

/// A migration that did not come to its end.
#[derive(Clone, Debug)]
pub(crate) struct Stopped {
    pub(crate) reason: String,
    pub(crate) guest: Guest,
}

/// Where the guest is after a migration that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guest {
    /// It runs at the source, as was asked.
    AtSource,
    /// It runs nowhere.
    Lost,
}

/// A migration under way. The destination is of no use after it has failed, and the source of none after it is completed: drop
/// them then.
pub(crate) struct Migration<'a> {
    session: &'a Session,
    source: &'a Machine,
    destination: &'a Machine,
    options: Options,
    times: Times,
    last: Sample,
    /// After the switch, or after it was given up, it ends by then.
    until: Option<Instant>,
    phase: Phase,
    _spread: Option<Spread>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Pages are sent; post-copy has begun, or not.
    Sending {
        postcopy: bool,
    },
    Ready,
    Switched,
    /// Given up, for this reason.
    GivenUp(String),
    /// The source is done: the destination has until then to run.
    Settling(Instant),
    Done(Progress),
}

impl<'a> Migration<'a> {
    /// Begins to send the memory of a machine to one that waits for it.
    pub(crate) fn begin(
        session: &'a Session,
        source: &'a Machine,
        destination: &'a Machine,
        options: Options,
    ) -> Result<Self, LabError> {
        let Some(first) = options.addresses.first() else {
            return Err(source.failed("a migration needs an address of its destination"));
        };
        let channels = channels(&options);
        if options.postcopy && channels > 0 {
            return Err(source
                .failed("QEMU does not combine post-copy with channels for pages: use one link"));
        }
        let settings = settings(&options, channels);
        for machine in [destination, source] {
            machine.events(session)?;
            for (command, arguments) in &settings {
                machine.ask(session, command, arguments.clone())?;
            }
        }
        let port = listen(session, destination, &options.addresses)?;
        let (uri, spread) = if let [_, _, ..] = options.addresses.as_slice() {
            let netns = source
                .netns
                .clone()
                .ok_or_else(|| source.failed("it has no network"))?;
            let targets = options
                .addresses
                .iter()
                .map(|address| SocketAddr::new(*address, port));
            let path = source.files.join(format!("channels{port}"));
            let spread = Spread::start(&path, netns, &source.cpus, targets.collect())?;
            (format!("unix:{}", path.display()), Some(spread))
        } else {
            (format!("tcp:{}", SocketAddr::new(*first, port)), None)
        };
        let begun = Instant::now();
        source.ask(session, "migrate", json!({"uri": uri}))?;
        Ok(Self {
            session,
            source,
            destination,
            options,
            times: Times {
                begun,
                stopped: None,
                pre_switchover: None,
                switched: None,
                resumed: None,
                completed: None,
            },
            last: Sample::default(),
            until: None,
            phase: Phase::Sending { postcopy: false },
            _spread: spread,
        })
    }

    /// How it goes now; waits for nothing. The error is a source that has died.
    pub(crate) fn poll(&mut self) -> Result<Progress, LabError> {
        if let Phase::Done(progress) = &self.phase {
            return Ok(progress.clone());
        }
        let said = self.source.ask(self.session, "query-migrate", json!({}))?;
        self.note_times()?;
        if let Some(sample) = Sample::of(&said) {
            self.last = sample;
        }
        let progress = match said["status"].as_str().unwrap_or_default() {
            "completed" => self.settle(&said)?,
            "failed" | "cancelled" => self.fail(&said)?,
            // What the destination lacks is at the source, which has stopped for good.
            "postcopy-paused" => self.stopped(
                "the connection was lost in post-copy".to_owned(),
                Guest::Lost,
            ),
            "pre-switchover" if !matches!(self.phase, Phase::Switched | Phase::GivenUp(_)) => {
                self.phase = Phase::Ready;
                Progress::ReadyToSwitch
            }
            _ => self.go_on()?,
        };
        if matches!(progress, Progress::Completed(_) | Progress::Failed(_)) {
            self.phase = Phase::Done(progress.clone());
        }
        Ok(progress)
    }

    /// How far it was when it was asked last.
    #[cfg(test)]
    pub(super) const fn last(&self) -> Sample {
        self.last
    }

    /// Hands the guest over. Only what is [`Progress::ReadyToSwitch`] can be.
    pub(crate) fn switch(&mut self) -> Result<(), LabError> {
        if !matches!(self.phase, Phase::Ready) {
            return Err(self
                .source
                .failed("its migration is not ready to be switched over"));
        }
        self.times.switched = Some(Instant::now());
        self.source.ask(
            self.session,
            "migrate-continue",
            json!({"state": "pre-switchover"}),
        )?;
        self.phase = Phase::Switched;
        self.until = Some(Instant::now() + HANDED_OVER);
        Ok(())
    }

    /// Gives it up: polls end with a failure, for this reason.
    pub(crate) fn cancel(&mut self, reason: &str) -> Result<(), LabError> {
        if matches!(self.phase, Phase::Sending { .. } | Phase::Ready) {
            self.source.ask(self.session, "migrate_cancel", json!({}))?;
            self.phase = Phase::GivenUp(reason.to_owned());
            self.until = Some(Instant::now() + HANDED_OVER);
        }
        Ok(())
    }

    fn note_times(&mut self) -> Result<(), LabError> {
        for Event { name, data, at } in self.source.events(self.session)? {
            let times = &mut self.times;
            match (name.as_str(), data["status"].as_str()) {
                ("STOP", _) => times.stopped = Some(at),
                ("MIGRATION", Some("pre-switchover")) => times.pre_switchover = Some(at),
                ("MIGRATION", Some("completed")) => times.completed = Some(at),
                _ => {}
            }
        }
        for Event { name, at, .. } in self.destination.events(self.session)? {
            if name == "RESUME" {
                self.times.resumed = Some(at);
            }
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<Progress, LabError> {
        if let Phase::Sending { postcopy } = &mut self.phase {
            if self.options.postcopy && !*postcopy && self.last.rounds >= POSTCOPY_ROUNDS {
                self.source
                    .ask(self.session, "migrate-start-postcopy", json!({}))?;
                *postcopy = true;
            }
            if self.times.begun.elapsed() > self.options.limit {
                let seconds = self.options.limit.as_secs_f64();
                self.cancel(&format!("it did not converge within {seconds} s"))?;
            }
        } else if self.until.is_some_and(|until| Instant::now() > until) {
            let seconds = HANDED_OVER.as_secs();
            let reason = format!("QEMU came to no end within {seconds} s ({})", self.last);
            return Ok(self.stopped(reason, Guest::Lost));
        }
        Ok(Progress::Running)
    }

    /// The source is done: the guest must run at the destination.
    fn settle(&mut self, said: &Value) -> Result<Progress, LabError> {
        let end = match self.phase {
            Phase::Settling(end) => end,
            _ => Instant::now() + SETTLE,
        };
        self.phase = Phase::Settling(end);
        let status = match self.destination.status(self.session) {
            Ok(status) => status,
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => {
                let reason = format!("the source handed it over, and then: {error}");
                return Ok(self.stopped(reason, Guest::Lost));
            }
        };
        let figures = Figures::of(said, self.times);
        match figures {
            Some(figures) if status == "running" => {
                // What the destination told until now was heard before it was asked.
                self.note_times()?;
                let times = self.times;
                Ok(Progress::Completed(Box::new(Figures { times, ..figures })))
            }
            _ if Instant::now() < end => Ok(Progress::Running),
            Some(_) => {
                let reason = format!("the source handed it over, and the destination is {status}");
                Ok(self.stopped(reason, Guest::Lost))
            }
            None => Err(self
                .source
                .failed("QEMU does not tell the figures of a migration that is done")),
        }
    }

    /// The guest must go on where it was.
    fn fail(&mut self, said: &Value) -> Result<Progress, LabError> {
        let mut reason = match &self.phase {
            Phase::GivenUp(reason) => reason.clone(),
            _ => match said["error-desc"].as_str() {
                Some(reason) => reason.to_owned(),
                None => format!(
                    "QEMU says `{}`",
                    said["status"].as_str().unwrap_or_default()
                ),
            },
        };
        if !matches!(self.phase, Phase::GivenUp(_)) {
            // Why a destination refuses it says as it ends.
            let end = Instant::now() + LAST_WORDS;
            while !self.destination.has_ended() && Instant::now() < end {
                self.session.interrupts.wait(Duration::from_millis(10))?;
            }
            if let Err(error) = self.destination.look_after() {
                reason = format!("{reason}; {error}");
            }
        }
        reason = format!("{reason} ({})", self.last);
        if self.options.postcopy && matches!(self.phase, Phase::Switched) {
            // It runs at the destination already, and what it lacks is at the source: neither has all of it.
            return Ok(self.stopped(reason, Guest::Lost));
        }
        let end = Instant::now() + GO_ON;
        let mut asked = false;
        while Instant::now() < end {
            match self.source.status(self.session)?.as_str() {
                "running" => return Ok(self.stopped(reason, Guest::AtSource)),
                // It stopped for the switch, and the migration failed then.
                "paused" | "postmigrate" if !asked => {
                    asked = true;
                    self.source.resume(self.session)?;
                }
                _ => self.session.interrupts.wait(Duration::from_millis(20))?,
            }
        }
        Ok(self.stopped(reason, Guest::Lost))
    }

    fn stopped(&self, reason: String, guest: Guest) -> Progress {
        Progress::Failed(Box::new(Stopped { reason, guest }))
    }
}

/// How many channels for pages; 0: none of their own.
fn channels(options: &Options) -> u8 {
    let links = u8::try_from(options.addresses.len()).unwrap_or(u8::MAX);
    match (links, options.channels) {
        (..=1, 0 | 1) => 0,
        (links, channels) => channels.max(links),
    }
}

/// What both sides are told before.
fn settings(options: &Options, channels: u8) -> [(&'static str, Value); 2] {
    // Without the way back a migration that fails at the destination counts as done, and the guest is lost.
    let capabilities = [
        ("return-path", true),
        ("events", true),
        ("pause-before-switchover", true),
        ("multifd", channels > 0),
        ("postcopy-ram", options.postcopy),
    ];
    let capabilities: Vec<_> = capabilities
        .iter()
        .map(|(name, on)| json!({"capability": name, "state": on}))
        .collect();
    let mut parameters = json!({
        "max-bandwidth": options.bandwidth,
        "downtime-limit": u64::try_from(options.downtime.as_millis()).unwrap_or(u64::MAX),
    });
    if channels > 0 {
        parameters["multifd-channels"] = channels.into();
    }
    [
        (
            "migrate-set-capabilities",
            json!({"capabilities": capabilities}),
        ),
        ("migrate-set-parameters", parameters),
    ]
}

/// Has the destination listen, at all its addresses where there are several links; the port that it took.
fn listen(session: &Session, destination: &Machine, addresses: &[IpAddr]) -> Result<u16, LabError> {
    let address = match addresses {
        [one] => *one,
        [IpAddr::V6(_), ..] => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
    };
    let uri = format!("tcp:{}", SocketAddr::new(address, 0));
    destination.ask(session, "migrate-incoming", json!({"uri": uri}))?;
    let said = destination.ask(session, "query-migrate", json!({}))?;
    let addresses = said["socket-address"].as_array();
    addresses
        .and_then(|addresses| addresses.first()?["port"].as_str()?.parse().ok())
        .ok_or_else(|| {
            destination.failed(&format!(
                "QEMU does not tell at which port it listens: {said}"
            ))
        })
}

impl Sample {
    fn of(said: &Value) -> Option<Self> {
        let ram = said.get("ram")?;
        let number = |key: &str| ram[key].as_u64().unwrap_or(0);
        Some(Self {
            rounds: number("dirty-sync-count"),
            transferred_bytes: number("transferred"),
            remaining_bytes: number("remaining"),
            dirty_bytes_per_second: number("dirty-pages-rate")
                * ram["page-size"].as_u64().unwrap_or(4096),
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "round {}, {} MiB left",
            self.rounds,
            self.remaining_bytes >> 20
        )?;
        match self.dirty_bytes_per_second >> 20 {
            // Not known before the second round.
            0 => Ok(()),
            mib => write!(f, ", the guest writes {mib} MiB/s"),
        }
    }
}

impl Figures {
    /// How long QEMU waited to be told that everything is switched over.
    pub(crate) fn switch(&self) -> Duration {
        let Times {
            pre_switchover,
            switched,
            ..
        } = self.times;
        let waited = pre_switchover.zip(switched);
        waited.map_or(Duration::ZERO, |(from, to)| {
            to.saturating_duration_since(from)
        })
    }

    /// `None` while QEMU, which says "completed" before, has not filled them in.
    fn of(said: &Value, times: Times) -> Option<Self> {
        let ram = said.get("ram")?;
        let number = |key: &str| ram[key].as_u64().unwrap_or(0);
        Some(Self {
            total_ms: said["total-time"].as_u64().filter(|total| *total > 0)?,
            downtime_ms: said["downtime"].as_u64()?,
            setup_ms: said["setup-time"].as_u64().unwrap_or(0),
            transferred_bytes: number("transferred"),
            rounds: number("dirty-sync-count"),
            postcopy_requests: number("postcopy-requests"),
            times,
        })
    }
}
