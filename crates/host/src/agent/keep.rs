//! When the agent reads its source, looks at the host, and applies. It decides; [`Keeper`](super::keeper) acts.
//!
//! Events are coalesced: many devices that come at once take one pass. A device that goes is given a moment to come back,
//! because a container that restarts is two events. Whatever events say, all is looked at again from time to time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use overlane_net::Event as Change;

use crate::live::{Duty, Event};

/// The quiet that ends a burst of events.
const QUIET: Duration = Duration::from_millis(4);
/// A burst is waited for so much longer with each device in it,
const PER_DEVICE: Duration = Duration::from_millis(2);
/// and no longer than this.
const LONGEST_BURST: Duration = Duration::from_millis(500);
/// A device that goes may be about to be made again.
const PARTING: Duration = Duration::from_millis(100);
/// A full table of neighbours forgets some all the time; who sends to one asks for it again.
const NEIGHBOURS: Duration = Duration::from_secs(5);
/// Who writes a file may not be done.
const WRITING: Duration = Duration::from_millis(50);
/// After a change, what people should know of is looked at, but not more often than this.
const CALM: Duration = Duration::from_secs(2);
/// Whatever happens, all is looked at after so long.
const FULL_LOOK: Duration = Duration::from_secs(120);
/// No event says that somebody attached a program.
const HOOKS: Duration = Duration::from_secs(1);
/// What takes long on a large host is done less often: it costs this part of a CPU.
const COST: u32 = 1000;
/// Who listens in a namespace keeps it alive, so one in which a device is awaited is looked into, so often for one device.
const ELSEWHERE: Duration = Duration::from_millis(50);
/// A pass that failed as a whole is tried again after this, then twice as long, and so on.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// What an agent has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Read the source.
    Read,
    /// Make the host as it should be.
    Pass,
    /// Compare this with what it should be.
    Compare(What),
    /// Look at what people should know of.
    Look,
    /// Answer who calls.
    Answer,
    /// Tell the service manager that all goes on.
    Beat,
}

/// Something that is compared by itself, because that is cheap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The tables of nftables.
    Guard,
    /// The pins in the BPF file system.
    Pins,
    /// What somebody applied last.
    Applied,
    /// Whether somebody's program is in front of ours.
    Hooks,
    /// The namespaces in which devices of ports are awaited.
    Elsewhere,
}

/// What came of an action.
#[derive(Debug)]
pub(super) enum Outcome {
    /// There is another desired state.
    Wanted,
    /// What was compared differs.
    Differs,
    /// The programs at the hooks were compared.
    Hooks {
        /// So long.
        took: Duration,
        /// Somebody attached or detached one.
        differs: bool,
    },
    /// Somebody else is at work on the host.
    Later,
    /// The source is made of these files.
    Files(BTreeSet<PathBuf>),
    /// A pass was made.
    Passed(Passed),
    /// All was looked at.
    Looked {
        /// A pass would change something.
        differs: bool,
    },
    /// Who called wants the source to be read, or something to be done that is decided now.
    Again(Action),
}

/// What a pass came to.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// What events may be about.
    pub(super) interest: Interest,
    /// It could not be made at all.
    pub(super) has_failed: bool,
    /// It changed something.
    pub(super) has_changed: bool,
    /// When an object that could not be applied is tried again.
    pub(super) again: Option<Instant>,
    /// So many devices are awaited in namespaces that the file names.
    pub(super) awaited: u32,
}

/// What of a namespace concerns a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// The indices of devices as the last pass found them.
    pub(super) indices: BTreeMap<String, u32>,
    /// The devices of ports.
    pub(super) ports: BTreeSet<String>,
    /// The uplink, legs, and devices of ours. The kernel forgets things of those when they go down.
    pub(super) others: BTreeSet<String>,
    /// The neighbours that the kernel keeps resolved for it.
    pub(super) next_hops: BTreeSet<IpAddr>,
    /// The tunnel end points of the remotes.
    pub(super) remotes: Vec<IpAddr>,
    /// What the source is made of.
    pub(super) files: BTreeSet<PathBuf>,
    /// Written by whoever applies.
    pub(super) state: PathBuf,
}

/// A device as its last event told it, as far as a pass depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    index: u32,
    mac: [u8; 6],
    mtu: u32,
    master: Option<u32>,
    up: bool,
}

/// Keeps a host.
#[derive(Debug)]
pub(super) struct Keep {
    interest: Interest,
    devices: BTreeMap<String, Device>,
    /// A pass is due.
    pass_at: Option<Instant>,
    burst: Option<Burst>,
    read_at: Option<Instant>,
    retry_at: Option<Instant>,
    retries: u32,
    look_at: Instant,
    full_at: Instant,
    /// When the one began that is at work.
    full_began: Option<Instant>,
    full_every: Duration,
    hooks_at: Instant,
    hooks_every: Duration,
    elsewhere: Option<(Instant, Duration)>,
    beat: Option<(Instant, Duration)>,
    has_read: bool,
    is_over: bool,
}

/// Events that come one after the other.
#[derive(Debug)]
struct Burst {
    began: Instant,
    devices: u32,
}

impl Keep {
    /// `has_kept`: there is a desired state to begin with. `beat`: how often the service manager wants to hear.
    pub(super) fn new(interest: Interest, beat: Option<Duration>, now: Instant) -> Self {
        Self {
            interest,
            devices: BTreeMap::new(),
            pass_at: None,
            burst: None,
            read_at: None,
            retry_at: None,
            retries: 0,
            look_at: now + FULL_LOOK,
            full_at: now + FULL_LOOK,
            full_began: None,
            full_every: FULL_LOOK,
            hooks_at: now + HOOKS,
            hooks_every: HOOKS,
            elsewhere: None,
            beat: beat.map(|every| (now, every)),
            has_read: false,
            is_over: false,
        }
    }

    /// Soon, but not before this has been quiet.
    fn burst(&mut self, now: Instant) {
        let burst = self.burst.get_or_insert(Burst {
            began: now,
            devices: 0,
        });
        burst.devices = burst.devices.saturating_add(1);
        let longest = (PER_DEVICE.saturating_mul(burst.devices)).clamp(QUIET, LONGEST_BURST);
        self.pass_at = Some((now + QUIET).min(burst.began + longest));
    }

    /// At this time, if none is due before.
    fn pass_by(&mut self, at: Instant) {
        self.pass_at = Some(self.pass_at.map_or(at, |before| before.min(at)));
    }

    fn network(&mut self, change: &Change, now: Instant) {
        match change {
            Change::Everything => {
                self.devices.clear();
                self.burst(now);
            }
            Change::Link { name, .. } => {
                let is_renamed = |(known, device): (&String, &Device)| {
                    matches!(change, Change::Link { index, .. } if *index == device.index)
                        && known != name
                };
                // It has another name now: its port has lost it.
                let renamed = self
                    .devices
                    .iter()
                    .find(|it| is_renamed(*it))
                    .map(|(known, _)| known.clone());
                if let Some(known) = renamed {
                    self.devices.remove(&known);
                    self.pass_by(now + PARTING);
                }
                self.link(change, now);
            }
            Change::Address { index, address, .. } => {
                // Each device that comes up gets one of these.
                let is_own = address.is_ipv6() && is_link_local(*address);
                if !is_own || self.is_of_others(*index) {
                    self.pass_by(now + PARTING);
                }
            }
            Change::Route {
                destination: (address, len),
                index,
                ..
            } => {
                let net = IpNet::new(*address, *len).ok();
                let leads_to = |remote: &IpAddr| net.is_some_and(|net| net.contains(remote));
                if index.is_some_and(|index| self.is_of_others(index))
                    || self.interest.remotes.iter().any(leads_to)
                {
                    self.pass_by(now + PARTING);
                }
            }
            Change::Neighbour {
                index,
                address,
                gone,
            } => {
                let is_kept = self.interest.next_hops.contains(address);
                if *gone && is_kept && self.is_of_others(*index) {
                    self.pass_by(now + NEIGHBOURS);
                }
            }
        }
    }

    /// Whether the uplink, a leg or a device of ours has this index.
    fn is_of_others(&self, index: u32) -> bool {
        let told = |name: &String| Some(self.devices.get(name)?.index);
        let found = |name: &String| self.interest.indices.get(name).copied();
        let mut others = self.interest.others.iter();
        others.any(|name| told(name).or_else(|| found(name)) == Some(index))
    }

    fn link(&mut self, change: &Change, now: Instant) {
        let Change::Link {
            index,
            name,
            mac,
            mtu,
            up,
            master,
            gone,
            ..
        } = change
        else {
            return;
        };
        let is_other = self.interest.others.contains(name);
        if !is_other && !self.interest.ports.contains(name) {
            return;
        }
        if *gone {
            // Another one may have the name already.
            let was = self.devices.get(name).map(|device| device.index);
            if was.is_none_or(|was| was == *index) {
                self.devices.remove(name);
                self.pass_by(now + PARTING);
            }
            return;
        }
        let device = Device {
            index: *index,
            mac: *mac,
            mtu: *mtu,
            master: *master,
            // A port whose guest comes and goes loses nothing by it.
            up: *up || !is_other,
        };
        if self.devices.insert(name.clone(), device.clone()).as_ref() != Some(&device) {
            self.burst(now);
        }
        self.look_at = self.look_at.min(now + CALM);
    }

    fn due(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let Some((at, every)) = &mut self.beat
            && *at <= now
        {
            *at = now + *every;
            actions.push(Action::Beat);
        }
        if is_due(self.read_at) {
            self.read_at = None;
            actions.push(Action::Read);
        }
        if is_due(self.pass_at) || is_due(self.retry_at) || self.full_at <= now {
            self.pass_at = None;
            self.retry_at = None;
            self.burst = None;
            actions.push(Action::Pass);
        }
        if self.full_at <= now {
            self.full_at = now + self.full_every;
            self.full_began = Some(now);
            self.read_at = None;
            self.look_at = now;
            // No event may have told of the source either.
            actions.insert(0, Action::Read);
        }
        if self.look_at <= now {
            self.look_at = self.full_at;
            actions.push(Action::Look);
        }
        if let Some((at, every)) = &mut self.elsewhere
            && *at <= now
        {
            *at = now + *every;
            actions.push(Action::Compare(What::Elsewhere));
        }
        if self.hooks_at <= now {
            self.hooks_at = now + self.hooks_every;
            actions.push(Action::Compare(What::Hooks));
        }
        actions
    }
}

impl Duty for Keep {
    type Action = Action;
    type Outcome = Outcome;

    fn on(&mut self, event: &Event, now: Instant) -> Vec<Action> {
        match event {
            // What is kept first: the source may be slow, or away.
            Event::Started => return vec![Action::Pass, Action::Read],
            Event::Signal => {
                self.is_over = true;
                return Vec::new();
            }
            Event::Network(change) => self.network(change, now),
            Event::Ruleset => return vec![Action::Compare(What::Guard)],
            Event::Mounts => return vec![Action::Compare(What::Pins)],
            Event::Call => return vec![Action::Answer],
            Event::File(path) if *path == self.interest.state => {
                return vec![Action::Compare(What::Applied)];
            }
            Event::File(path) if self.interest.files.contains(path) => {
                self.read_at = Some(now + WRITING);
            }
            Event::File(_) | Event::Timer => {}
        }
        self.due(now)
    }

    fn done(&mut self, outcome: Outcome, now: Instant) -> Vec<Action> {
        match outcome {
            Outcome::Wanted => {
                self.has_read = true;
                return vec![Action::Pass, Action::Look];
            }
            Outcome::Differs => return vec![Action::Pass],
            Outcome::Hooks { took, differs } => {
                self.hooks_every = HOOKS.max(took.saturating_mul(COST));
                self.hooks_at = now + self.hooks_every;
                if differs {
                    return vec![Action::Pass];
                }
            }
            Outcome::Again(action) => return vec![action],
            Outcome::Later => self.pass_by(now + RETRY),
            Outcome::Files(files) => {
                self.interest.files = files;
                if !std::mem::replace(&mut self.has_read, true) {
                    return vec![Action::Look];
                }
            }
            Outcome::Passed(passed) => {
                let every = ELSEWHERE.saturating_mul(passed.awaited);
                self.elsewhere = (passed.awaited > 0).then(|| (now + every, every));
                self.interest = passed.interest;
                if passed.has_changed {
                    self.look_at = self.look_at.min(now + CALM);
                }
                self.retries = match passed.has_failed {
                    true => self.retries.saturating_add(1),
                    false => 0,
                };
                let doubled = 1u32
                    .checked_shl(self.retries.saturating_sub(1))
                    .unwrap_or(u32::MAX);
                let pause = RETRY.saturating_mul(doubled).min(LONGEST_RETRY);
                let whole = passed.has_failed.then(|| now + pause);
                self.retry_at = whole.into_iter().chain(passed.again).min();
            }
            Outcome::Looked { differs } => {
                // The source was read and a pass made before.
                if let Some(began) = self.full_began.take() {
                    self.full_every = FULL_LOOK.max((now - began).saturating_mul(COST));
                    self.full_at = now + self.full_every;
                    self.look_at = self.full_at;
                }
                // No event told of it.
                if differs {
                    return vec![Action::Pass];
                }
            }
        }
        Vec::new()
    }

    fn wakes_at(&self) -> Option<Instant> {
        let beat = self.beat.map(|(at, _)| at);
        let elsewhere = self.elsewhere.map(|(at, _)| at);
        let times = [self.pass_at, self.read_at, self.retry_at, beat, elsewhere];
        let always = [self.look_at, self.full_at, self.hooks_at];
        times.into_iter().flatten().chain(always).min()
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = self.interest.files.iter().cloned();
        files.chain([self.interest.state.clone()]).collect()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

const fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests;
