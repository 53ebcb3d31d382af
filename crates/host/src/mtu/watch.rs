//! `overlane mtu --watch`: finds where packets vanish on the way to a remote because they are too large and nobody says
//! so (RFC 8899), and tells the data path what fits. The data path tells the guests.
//!
//! Each remote is checked with the size that is used now, and with larger ones. If the first fails, a search finds what
//! fits. What is found stands in the map `path_mtus`, where it ages if nobody watches any more. When to look, [`WatchMtu`]
//! decides.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use overlane_ebpf::abi::{Addr, PathMtu, Settings};
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::{path_mtus, preflight};
use serde::Serialize;

use super::probe::{self, Outcome, ProbedWay, Prober};
use super::way::Way;
use crate::HostError;
use crate::lib::clock::Clock;
use crate::lib::paths;
use crate::lib::signals::Signals;
use crate::lib::stamp::Stamp;
pub use crate::live::watch_mtu::End;
use crate::live::watch_mtu::{Action, Looked, WatchMtu};
use crate::live::{Executor, Job, Loop, Machine};
use crate::observe::{self, PATH_MTU_SECONDS};
use crate::state::State;

/// What happened to the way to a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// Less fits than before.
    Lowered,
    /// More fits than before.
    Raised,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in ns since 1970 (UTC).
    pub time_unix_ns: u64,
    /// What.
    pub event: Happened,
    /// The remote's name.
    pub remote: String,
    /// Its tunnel end point.
    pub address: IpAddr,
    /// The largest outer IP packet that gets there, from now on.
    pub mtu: u16,
    /// What was sent before.
    pub before: u16,
    /// MTU of the own uplink.
    pub uplink_mtu: u16,
    /// Who said so by ICMP; none: nobody.
    pub hop: Option<IpAddr>,
}

/// What the watch brought.
#[derive(Debug)]
pub enum Step {
    /// A change.
    Event(Event),
    /// There is no uplink, or it lacks the host's address: the first look that finds it so says it.
    NoUplink(String),
    /// The end.
    End(End),
}

/// Watches the ways of one host.
#[derive(Debug)]
pub struct Watch {
    live: Loop<Machine>,
    job: Job<WatchMtu, Watcher>,
}

/// Looks, probes, and writes what was found.
#[derive(Debug)]
struct Watcher {
    view: View,
    signals: Option<Rc<Signals>>,
    said: VecDeque<Step>,
}

/// The host as it was applied last.
#[derive(Debug)]
struct View {
    state: State,
    /// The file that it was read from.
    file: Option<Stamp>,
    maps: MapSet,
    settings: Settings,
    prober: Prober,
}

impl Watch {
    /// Begins.
    ///
    /// Blocks the signals that end a program for the calling thread: they end [`step`](Self::step).
    pub fn open(host: &str, interval: Duration) -> Result<Self, HostError> {
        Self::begin(host, interval, Some(Rc::new(Signals::take_over()?)))
    }

    /// The same in a process that ends by itself when a signal comes.
    pub(crate) fn beside(host: &str, interval: Duration) -> Result<Self, HostError> {
        Self::begin(host, interval, None)
    }

    fn begin(
        host: &str,
        interval: Duration,
        signals: Option<Rc<Signals>>,
    ) -> Result<Self, HostError> {
        preflight::check_rights()?;
        let file = Stamp::of(&paths::state(host));
        let view = View::open(State::applied(host)?, file)?;
        let live = Loop::new(Machine::of_host(host, signals.clone())?);
        let duty = WatchMtu::new(host, interval, Instant::now());
        let executor = Watcher {
            view,
            signals,
            said: VecDeque::new(),
        };
        let job = Job { duty, executor };
        Ok(Self { live, job })
    }

    /// The host's remotes, as they are applied: names and tunnel end points.
    pub fn remotes(&self) -> Vec<(String, IpAddr)> {
        let remotes = self.job.executor.view.state.tables.remotes.iter();
        remotes.map(|it| (it.name.to_string(), it.addr)).collect()
    }

    /// Watches until there is something to say.
    pub fn step(&mut self) -> Result<Step, HostError> {
        loop {
            if let Some(step) = self.job.executor.said.pop_front() {
                return Ok(step);
            }
            if let Some(end) = self.job.duty.end() {
                return Ok(Step::End(end));
            }
            self.live.turn(&mut [&mut self.job])?;
        }
    }
}

impl Executor<WatchMtu> for Watcher {
    fn carry_out(&mut self, action: Action) -> Result<Option<Looked>, HostError> {
        match action {
            Action::Look => return self.look().map(Some),
            Action::Search(ways) => return self.search(ways).map(Some),
            Action::Refresh(way) => self.view.set(way.address, way.current().into())?,
            Action::Take(way, found) => {
                let event = self.view.take(&way, found)?;
                self.said.extend(event.map(Step::Event));
            }
            Action::SayNoUplink => {
                let uplink = self.view.state.tables.uplink.to_string();
                self.said.push_back(Step::NoUplink(uplink));
            }
        }
        Ok(None)
    }
}

impl Watcher {
    /// Checks all ways, until a signal comes.
    fn look(&mut self) -> Result<Looked, HostError> {
        if let Some(nothing) = self.view.renew()? {
            return Ok(nothing);
        }
        let View { state, prober, .. } = &self.view;
        let ways = self.view.ways()?;
        let check = |way: &Way| (way.address, way.check(prober.least()));
        let stop = self.signals.as_ref().map(|signals| signals.as_fd());
        let checked = prober.ask(ways.iter().map(check).collect(), stop)?;
        let checked = ways
            .into_iter()
            .zip(checked)
            .filter_map(|(way, told)| Some((way, told.outcome?)));
        Ok(Looked::Checked {
            uplink: (state.tables.uplink.to_string(), prober.ifindex()),
            ways: checked.collect(),
            now_s: Clock::now()?.monotonic_s(),
        })
    }

    fn search(&self, ways: Vec<Way>) -> Result<Looked, HostError> {
        let addresses: Vec<IpAddr> = ways.iter().map(|way| way.address).collect();
        let stop = self.signals.as_ref().map(|signals| signals.as_fd());
        let found = self.view.prober.search(&addresses, false, stop)?;
        let found = ways
            .into_iter()
            .zip(found)
            .map(|(way, told)| match told.outcome {
                Some(Outcome::Heard { there, .. }) => (way, Some(there.into())),
                _ => (way, None),
            });
        Ok(Looked::Found(found.collect()))
    }
}

/// The uplink is there again, and nobody has given it its address yet.
fn is_without_address(error: &HostError) -> bool {
    let missing = Errno::EADDRNOTAVAIL as i32;
    matches!(error, HostError::Net(error) if error.errno() == Some(missing))
}

impl View {
    fn open(state: State, file: Option<Stamp>) -> Result<Self, HostError> {
        let maps = observe::maps(&state)?;
        let settings = probe::settings(&maps)?;
        let open = |netlink: &_| Prober::open(&state, &settings, netlink);
        let prober = observe::in_namespace(&state, open)?.ok_or_else(|| probe::gone(&state))?;
        Ok(Self {
            state,
            file,
            maps,
            settings,
            prober,
        })
    }

    /// Takes over what an `apply` has changed. Returns why there is nothing to look at: a host that is gone, or not for
    /// this version, or its uplink.
    fn renew(&mut self) -> Result<Option<Looked>, HostError> {
        // The state of a large host takes long to read.
        let file = Stamp::of(&paths::state(&self.state.host));
        let read = match file.is_some() && file == self.file {
            true => None,
            false => match State::read(&self.state.host)? {
                Some(state) => Some(state),
                None => return Ok(Some(Looked::HostGone)),
            },
        };
        let state = read.as_ref().unwrap_or(&self.state);
        let uplink = observe::in_namespace(state, |netlink| {
            Ok(netlink.link(state.tables.uplink.as_str())?.index)
        });
        let is_same = uplink.is_ok_and(|index| index == Some(self.prober.ifindex()));
        let settings = probe::settings(&self.maps);
        let is_same = is_same && settings.is_ok_and(|settings| settings == self.settings);
        if is_same && read.as_ref().is_none_or(|read| *read == self.state) {
            self.file = file;
            return Ok(None);
        }
        // An `apply` is at work, or the uplink is being made anew: what there was is looked at once more.
        if state.in_progress {
            return Ok(None);
        }
        match Self::open(state.clone(), file) {
            Ok(view) => *self = view,
            Err(HostError::OtherVersion(_) | HostError::NoNamespace(_)) => {
                return Ok(Some(Looked::HostGone));
            }
            Err(error) if error.is_device_gone() || is_without_address(&error) => {
                return Ok(Some(Looked::NoUplink));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    fn ways(&self) -> Result<Vec<Way>, HostError> {
        let known = path_mtus::all(&self.maps)?;
        let now_s = Clock::now()?.monotonic_s();
        let uplink_mtu = u16::try_from(self.settings.underlay_mtu).unwrap_or(u16::MAX);
        let way = |address: IpAddr| {
            let entry = known.get(&address).copied();
            Way {
                address,
                entry: entry.filter(|entry| path_mtus::is_live(entry, now_s)),
                uplink_mtu,
            }
        };
        Ok(self
            .state
            .tables
            .remotes
            .iter()
            .map(|it| way(it.addr))
            .collect())
    }

    fn set(&self, remote: IpAddr, mtu: u32) -> Result<(), HostError> {
        let now_s = Clock::now()?.monotonic_s();
        path_mtus::set(&self.maps, remote, mtu, now_s + PATH_MTU_SECONDS)?;
        Ok(())
    }

    /// Takes over what is known of a way now.
    fn take(
        &self,
        way: &Way,
        ProbedWay { mtu, hop }: ProbedWay,
    ) -> Result<Option<Event>, HostError> {
        if mtu >= way.uplink_mtu {
            path_mtus::forget(&self.maps, way.address)?;
        } else {
            let known = path_mtus::all(&self.maps)?;
            let is_told =
                |entry: &PathMtu| entry.mtu == u32::from(mtu) && entry.hop != Addr::default();
            // The data path has heard the same answer to the probes, and knows who told it.
            if !known.get(&way.address).is_some_and(is_told) {
                self.set(way.address, mtu.into())?;
            }
        }
        let before = way.current();
        let event = match mtu.cmp(&before) {
            Ordering::Less => Happened::Lowered,
            Ordering::Equal => return Ok(None),
            Ordering::Greater => Happened::Raised,
        };
        let name = self
            .state
            .tables
            .remotes
            .iter()
            .find(|it| it.addr == way.address);
        Ok(Some(Event {
            time_unix_ns: Clock::now()?.unix_ns,
            event,
            remote: name.map(|it| it.name.to_string()).unwrap_or_default(),
            address: way.address,
            mtu,
            before,
            uplink_mtu: way.uplink_mtu,
            hop,
        }))
    }
}
