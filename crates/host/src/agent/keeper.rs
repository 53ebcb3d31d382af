//! Carries out what the agent decides: reads the source, keeps what is wanted on disk, applies it, and answers who calls.
//! No failure ends the agent: it is a trouble that `status` shows, and that is tried again.

mod answers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use overlane_model::{Diagnostic, Severity, Tables};

use super::failing::Failing;
use super::hold::Loss;
use super::keep::{Action, Interest, Outcome, Passed, What};
use super::kept::{Kept, Origin};
use super::memory::{Memory, Troubles};
use super::server::Server;
use super::source::{Reading, Source};
use super::voice::Voice;
use super::watch;
use crate::apply::{ApplyRequest, apply};
use crate::lib::allocator;
use crate::lib::announcements::Announcements;
use crate::lib::error::chain;
use crate::lib::paths;
use crate::lib::stamp::Stamp;
use crate::live::Executor;
use crate::report::{Report, Row};
use crate::state::State;
use crate::status;
use crate::{HostError, UnfitDevice};

/// So many passes that mended something are remembered.
const MENDED: usize = 32;

/// Acts for the agent of a host.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    host: String,
    netns: Option<String>,
    source: Box<dyn Source>,
    server: Rc<Server>,
    voice: Voice<'a>,
    started: Instant,
    /// What the host should carry.
    kept: Option<Kept>,
    is_on_disk: bool,
    /// The desired state that the last pass reached, and when that was first so.
    applied: Option<(u64, Instant)>,
    held: Option<Hold>,
    troubles: Troubles,
    failing: Failing,
    memory: Memory,
    /// What the last look found that a pass would change.
    planned: BTreeSet<String>,
    mended: VecDeque<(Instant, Vec<String>)>,
    hooks: watch::Hooks,
    /// The devices as the last pass found them.
    devices: BTreeMap<String, u32>,
    /// The neighbours that the kernel keeps resolved.
    next_hops: BTreeSet<IpAddr>,
    /// How many are awaited in other namespaces.
    awaited: u32,
    /// The state file as the last pass left it.
    state_file: Option<Stamp>,
    is_ready: bool,
    /// What passes left to announce.
    pub(super) announcements: Vec<Announcements>,
}

/// Who wants a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Something happened.
    Never,
    /// A person.
    Plainly,
    /// A person who wants all devices to be there.
    Strictly,
}

/// A desired state that waits for a person.
#[derive(Debug)]
struct Hold {
    /// None: nothing of the host is left.
    tables: Option<Box<Tables>>,
    origin: Origin,
    loss: Loss,
    why: &'static str,
    since: Instant,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(
        (host, netns): (&str, Option<&str>),
        source: Box<dyn Source>,
        server: Rc<Server>,
        voice: Voice<'a>,
    ) -> Self {
        let now = Instant::now();
        let mut keeper = Self {
            host: host.to_owned(),
            netns: netns.map(str::to_owned),
            source,
            server,
            voice,
            started: now,
            kept: None,
            is_on_disk: true,
            applied: None,
            held: None,
            troubles: Troubles::default(),
            failing: Failing::default(),
            memory: Memory::default(),
            planned: BTreeSet::new(),
            mended: VecDeque::new(),
            hooks: watch::Hooks::default(),
            devices: BTreeMap::new(),
            next_hops: BTreeSet::new(),
            awaited: 0,
            state_file: None,
            is_ready: false,
            announcements: Vec::new(),
        };
        match Kept::read(host) {
            Ok(kept) => keeper.kept = kept,
            // The source says it again.
            Err(error) => voice.say(&format!(
                "what was kept of host {host} is of no use: {}",
                chain(&error)
            )),
        }
        keeper
    }

    /// What concerns the host, as it should be now.
    pub(super) fn interest(&self) -> Interest {
        let tables = self.kept.as_ref().map(|kept| &kept.tables);
        let ports = tables.iter().flat_map(|tables| &tables.ports);
        let mut interest = Interest {
            ports: ports
                .map(|port| port.attachment.device.to_string())
                .collect(),
            indices: self.devices.clone(),
            next_hops: self.next_hops.clone(),
            files: self.source.files(),
            state: paths::state(&self.host),
            ..Interest::default()
        };
        if let Some(tables) = tables {
            interest.others.insert(tables.uplink.to_string());
            interest
                .others
                .extend(tables.legs().map(|(_, leg)| leg.to_string()));
            interest
                .others
                .extend(crate::detours::own_devices().map(str::to_owned));
            interest.remotes = tables.remotes.iter().map(|remote| remote.addr).collect();
        }
        interest
    }

    /// Reads the source. True: there is another desired state.
    fn read(&mut self) -> bool {
        let reading = self.source.read(&self.host);
        let result = match reading {
            Ok(Reading::Same) => return false,
            Ok(Reading::Nothing) => {
                let loss = self
                    .kept
                    .as_ref()
                    .map(|kept| Loss::between(&kept.tables, None));
                match loss {
                    // Nothing is kept, and nothing is wanted.
                    None => {
                        let text = "there is no fabric file in it yet".to_owned();
                        Err((text.clone(), text))
                    }
                    Some(loss) => {
                        self.hold(
                            None,
                            Origin::new(),
                            loss,
                            "the folder has no fabric file any more",
                        );
                        Ok(false)
                    }
                }
            }
            Ok(Reading::State {
                tables,
                origin,
                warnings,
            }) => {
                if let Some(warnings) = warnings {
                    self.voice.say(&warnings.render(false));
                }
                Ok(self.weigh(tables, origin))
            }
            Err(error) => Err((in_short(&error), chain(&error))),
        };
        // The parts and the fabric that they made are gone.
        allocator::give_back();
        let name = self.source.name().unwrap_or_default();
        match result {
            Ok(is_other) => {
                self.troubles.mistakes.end();
                is_other
            }
            Err((short, error)) => {
                if self.troubles.mistakes.begin(&short, None) {
                    let goes_on = match self.kept {
                        Some(_) => "; the last good state stays",
                        None => "",
                    };
                    self.voice
                        .say(&format!("{name} cannot be used{goes_on}:\n{error}"));
                }
                false
            }
        }
    }

    /// Takes a desired state, or holds it.
    fn weigh(&mut self, tables: Box<Tables>, origin: Origin) -> bool {
        let Some(kept) = &mut self.kept else {
            self.held = None;
            self.adopt(*tables, origin);
            return true;
        };
        if kept.tables == *tables {
            self.held = None;
            if kept.origin != origin {
                kept.origin = origin;
                self.is_on_disk = false;
                self.keep();
            }
            return false;
        }
        let loss = Loss::between(&kept.tables, Some(&tables));
        // A part that is new, or says something else than before, was written by somebody.
        let is_written = |(name, digest): (&String, &String)| kept.origin.get(name) != Some(digest);
        let by_person = self.source.name().is_none() || origin.iter().any(is_written);
        if loss.is_large() && !by_person {
            self.hold(
                Some(tables),
                origin,
                loss,
                "files of the folder are gone, and none was written",
            );
            return false;
        }
        self.held = None;
        self.adopt(*tables, origin);
        true
    }

    fn hold(&mut self, tables: Option<Box<Tables>>, origin: Origin, loss: Loss, why: &'static str) {
        if self.held.as_ref().is_none_or(|held| held.loss != loss) {
            let (what, help) = self.held_words(loss, why);
            self.voice.say(&format!("{what}; {help}"));
        }
        let since = self
            .held
            .take()
            .map_or_else(Instant::now, |held| held.since);
        self.held = Some(Hold {
            tables,
            origin,
            loss,
            why,
            since,
        });
    }

    /// What is held, and what does it.
    fn held_words(&self, loss: Loss, why: &str) -> (String, String) {
        let Loss { ports, of } = loss;
        (
            format!("held: {ports} of {of} ports would go, and {why}"),
            format!("`overlane agent accept --host {}` does it", self.host),
        )
    }

    /// On disk first: whoever starts after a crash does what was begun.
    fn adopt(&mut self, tables: Tables, origin: Origin) {
        let generation = self.kept.as_ref().map_or(0, |kept| kept.generation) + 1;
        let netns = self.netns.as_deref();
        self.kept = Some(Kept::new(netns, generation, wall_s(), tables, origin));
        self.is_on_disk = false;
        self.keep();
    }

    fn keep(&mut self) {
        let Some(kept) = self.kept.as_ref().filter(|_| !self.is_on_disk) else {
            return;
        };
        match kept.write() {
            Ok(()) => {
                self.is_on_disk = true;
                self.troubles.not_kept.end();
            }
            Err(error) => {
                let help = "after a reboot the host needs its source until this is mended";
                if self.troubles.not_kept.begin(&chain(&error), Some(help)) {
                    self.voice
                        .say(&format!("cannot keep what is wanted: {}", chain(&error)));
                }
            }
        }
    }

    /// Makes the host as it should be.
    fn pass(&mut self, asked: Asked) -> (Passed, Option<Result<Report, HostError>>) {
        self.keep();
        let result = self.kept.as_ref().map(|kept| {
            apply(&ApplyRequest {
                netns: self.netns.as_deref(),
                strict: asked == Asked::Strictly,
                each_alone: asked != Asked::Strictly,
                unasked: asked == Asked::Never,
                ..ApplyRequest::new(&kept.tables)
            })
        });
        let result = result.map(|done| done.inspect(|report| self.applied(report)));
        let has_failed = matches!(result, Some(Err(_)));
        if let Some(Err(error)) = &result
            && self
                .troubles
                .failed
                .begin(&chain(error), error.help().as_deref())
        {
            self.voice.say(&format!(
                "host {} could not be applied: {}",
                self.host,
                chain(error)
            ));
        }
        self.hooks = watch::Hooks::default();
        // What the pass left is what there should be.
        let _ = self.hooks.differ(self.netns.as_deref(), &self.devices);
        self.state_file = Stamp::of(&paths::state(&self.host));
        let passed = Passed {
            interest: self.interest(),
            has_failed,
            has_changed: matches!(&result, Some(Ok(report)) if !report.changes.is_empty()),
            again: self.failing.next(),
            awaited: self.awaited,
        };
        (passed, result)
    }

    fn applied(&mut self, report: &Report) {
        let now = Instant::now();
        self.troubles.failed.end();
        let generation = self.kept.as_ref().map_or(0, |kept| kept.generation);
        if self.applied.is_none_or(|(before, _)| before != generation) {
            self.applied = Some((generation, now));
        }
        let failed = report.notes.iter().filter(|row| is_failure(row));
        self.failing.after_pass(failed, now);
        self.announcements.extend(report.announcements.clone());
        self.devices.clone_from(&report.devices);
        self.next_hops.clone_from(&report.next_hops);
        let is_elsewhere = |device: &&UnfitDevice| device.elsewhere.is_some();
        let awaited = report.missing.iter().filter(is_elsewhere).count();
        self.awaited = u32::try_from(awaited).unwrap_or(u32::MAX);
        if !report.changes.is_empty() || report.is_silent {
            let mut lines = (self.voice.render)(report).lines;
            if report.is_silent {
                lines = vec![format!("~ host {}: entries in the maps", self.host)];
            }
            for line in &lines {
                self.voice.say(line);
            }
            self.mended.push_back((now, lines));
            if self.mended.len() > MENDED {
                self.mended.pop_front();
            }
        }
    }

    fn compare(&mut self, what: What) -> Option<Outcome> {
        let kept = self.kept.as_ref();
        // What cannot be compared is looked at as a whole.
        let differs = match what {
            What::Guard => {
                watch::guard_differs(&self.host, self.netns.as_deref(), kept.map(|it| &it.tables))
            }
            What::Pins => watch::pins_differ(&self.host),
            What::Applied if self.source.name().is_none() => {
                return Some(Outcome::Again(Action::Read));
            }
            What::Applied if self.state_file == Stamp::of(&paths::state(&self.host)) => {
                return None;
            }
            What::Applied => match State::read(&self.host) {
                Ok(Some(state)) if state.in_progress => return Some(Outcome::Later),
                // Somebody else wrote it.
                _ => Ok(kept.is_some()),
            },
            What::Elsewhere => match kept {
                Some(kept) => watch::has_come(self.netns.as_deref(), &kept.tables, &self.devices),
                None => Ok(false),
            },
            What::Hooks => {
                let began = Instant::now();
                let differs = self.hooks.differ(self.netns.as_deref(), &self.devices);
                return Some(Outcome::Hooks {
                    took: began.elapsed(),
                    differs: differs.unwrap_or(true),
                });
            }
        };
        differs.unwrap_or(true).then_some(Outcome::Differs)
    }

    fn look(&mut self) -> Outcome {
        let rows = status::look(&self.host, None)
            .map(|found| found.rows)
            .unwrap_or_default();
        self.memory.seen(rows.iter(), Instant::now());
        let planned = rows.iter().filter(|row| row.change.is_some());
        let planned: BTreeSet<String> = planned.map(Row::key).collect();
        // What a pass could not put right the next one cannot either.
        let differs = !planned.is_subset(&self.planned);
        self.planned = planned;
        // A look needs much itself, and follows what did: another state, a pass that changed something.
        allocator::give_back();
        Outcome::Looked { differs }
    }

    /// After the first pass, whatever came of it: who waits for this service needs no better one.
    fn ready(&mut self) {
        if !self.is_ready {
            self.is_ready = true;
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            self.voice.say(&format!(
                "agent: keeps host {} by {}",
                self.host,
                self.source.name().as_deref().unwrap_or("what is applied")
            ));
        }
    }
}

impl Executor<super::keep::Keep> for Keeper<'_> {
    fn carry_out(&mut self, action: Action) -> Result<Option<Outcome>, HostError> {
        Ok(match action {
            Action::Read => self.read().then_some(Outcome::Wanted).or_else(|| {
                // Its files may be others than before.
                Some(Outcome::Files(self.source.files()))
            }),
            Action::Pass => Some(Outcome::Passed(self.pass(Asked::Never).0)),
            Action::Compare(what) => self.compare(what),
            Action::Look => {
                self.ready();
                Some(self.look())
            }
            Action::Answer => self.answer(),
            Action::Beat => {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
                None
            }
        })
    }
}

fn is_failure(row: &Row) -> bool {
    row.note == Some("failed")
}

/// The mistakes of a file, each with its place; of other errors all.
fn in_short(error: &HostError) -> String {
    const SHOWN: usize = 5;
    let HostError::Fabric(errors) = error else {
        return chain(error);
    };
    let Some(report) = errors.report() else {
        return chain(error);
    };
    let is_error = |found: &&Diagnostic| found.severity == Severity::Error;
    let errors: Vec<&Diagnostic> = report.diagnostics.iter().filter(is_error).collect();
    let shown = errors.iter().take(SHOWN).map(|found| {
        let part = report.part(found.part);
        format!("{part}:{}:{}: {}", found.line, found.column, found.message)
    });
    let mut shown: Vec<String> = shown.collect();
    let more = errors.len().saturating_sub(SHOWN) + report.omitted_errors;
    shown.extend((more > 0).then(|| format!("and {more} more")));
    shown.join("; ")
}

/// Seconds since the Epoch.
pub(super) fn wall_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
