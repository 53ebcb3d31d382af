//! The machine as a source of events for the duties of one host.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use overlane_net::netns::{self, Netns};
use overlane_net::nftables::{self, RulesetEvents};
use overlane_net::{Event as Change, Events};

use super::files::Files;
use super::{Event, Sources};
use crate::lib::signals::Signals;
use crate::state::State;
use crate::{HostError, paths};

/// Waits for what happens to a host.
#[derive(Debug)]
pub(crate) struct Machine {
    place: Place,
    signals: Option<Rc<Signals>>,
    files: Files,
    /// Tell of the namespace: the state of the host, and the name of the namespace.
    of_namespace: BTreeSet<PathBuf>,
    network: Option<Network>,
    others: Vec<Other>,
}

/// Which namespace it listens in.
#[derive(Debug)]
enum Place {
    /// That of the host, while it is applied.
    OfHost(String),
    /// The one of this name, while there is one; none: that of this process.
    Named(Option<String>),
}

/// A namespace, and what tells of its changes.
#[derive(Debug)]
struct Network {
    netns: Netns,
    events: Events,
    /// None: nobody asked for it, or the kernel has no nftables.
    ruleset: Option<RulesetEvents>,
}

/// Something else to wait for.
#[derive(Debug)]
enum Other {
    /// File systems are mounted and unmounted (proc(5), `mountinfo`).
    Mounts(File),
    /// A socket on which somebody calls.
    Calls(Rc<dyn Descriptor>),
}

/// Something with a descriptor that is ready to be read.
pub(crate) trait Descriptor: AsFd + std::fmt::Debug {}

impl<T: AsFd + std::fmt::Debug> Descriptor for T {}

impl Machine {
    /// Listens in the host's namespace, while it is applied.
    pub(crate) fn of_host(host: &str, signals: Option<Rc<Signals>>) -> Result<Self, HostError> {
        Self::at(Place::OfHost(host.to_owned()), signals, Vec::new())
    }

    /// Listens in a namespace whatever is applied there, also to its nftables, to what is mounted, and to calls.
    pub(crate) fn of_namespace(
        netns: Option<&str>,
        signals: Rc<Signals>,
        calls: Rc<dyn Descriptor>,
    ) -> Result<Self, HostError> {
        let path = Path::new("/proc/self/mountinfo");
        let mounts = File::open(path).map_err(HostError::file("open", path))?;
        let others = vec![Other::Mounts(mounts), Other::Calls(calls)];
        Self::at(
            Place::Named(netns.map(str::to_owned)),
            Some(signals),
            others,
        )
    }

    fn at(
        place: Place,
        signals: Option<Rc<Signals>>,
        others: Vec<Other>,
    ) -> Result<Self, HostError> {
        let mut machine = Self {
            place,
            signals,
            files: Files::new(Instant::now()),
            of_namespace: BTreeSet::new(),
            network: None,
            others,
        };
        machine.find_namespace()?;
        Ok(machine)
    }

    /// Listens where the host is now; whether that is somewhere else than before. Who listens keeps a namespace and its
    /// devices alive: of one that was deleted it lets go.
    fn find_namespace(&mut self) -> Result<bool, HostError> {
        let named = |name: &String| Path::new(netns::RUN_DIR).join(name);
        let netns = match &self.place {
            Place::OfHost(host) => {
                let Ok(state) = State::read(host) else {
                    // It makes no sense: the duties say so, if it is their business.
                    return Ok(false);
                };
                let name = state.as_ref().and_then(|state| state.netns.as_ref());
                let name = name.map(named);
                self.of_namespace = [paths::state(host)].into_iter().chain(name).collect();
                state.map(|state| state.namespace()).transpose()?.flatten()
            }
            Place::Named(Some(name)) => {
                self.of_namespace = BTreeSet::from([named(name)]);
                // Its name may be there before it is one, and after.
                Netns::open(name).ok()
            }
            Place::Named(None) => Some(Netns::current()?),
        };
        match (&self.network, netns) {
            (Some(before), Some(netns)) if before.netns.is_same(&netns) => Ok(false),
            (_, Some(netns)) => {
                let with_ruleset = matches!(self.place, Place::Named(_));
                self.network = Some(netns.run(|| Network::listen(&netns, with_ruleset))??);
                Ok(true)
            }
            (_, None) => Ok(self.network.take().is_some()),
        }
    }

    fn poll(&self, until: Option<Instant>) -> Result<(), HostError> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            // The rest below a millisecond is cut off.
            PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        let wanted = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let signals = self.signals.as_ref().map(|signals| signals.as_fd());
        let network = self.network.iter().flat_map(Network::descriptors);
        let all = [signals, self.files.descriptor()].into_iter().flatten();
        let mut descriptors: Vec<_> = all.chain(network).map(wanted).collect();
        descriptors.extend(self.others.iter().map(Other::wanted));
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(HostError::system("wait for events")(errno)),
        }
    }
}

impl Network {
    /// From a thread in the namespace.
    fn listen(netns: &Netns, with_ruleset: bool) -> Result<Self, HostError> {
        let ruleset = match with_ruleset.then(RulesetEvents::open).transpose() {
            Err(error) if nftables::is_unsupported(&error) => None,
            other => other?,
        };
        Ok(Self {
            netns: netns.clone(),
            events: Events::open()?,
            ruleset,
        })
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let ruleset = self.ruleset.as_ref().map(|ruleset| ruleset.as_fd());
        [self.events.as_fd()].into_iter().chain(ruleset)
    }

    fn read(&mut self) -> Result<Vec<Event>, HostError> {
        let mut events: Vec<Event> = (self.events.read()?)
            .into_iter()
            .map(Event::Network)
            .collect();
        if let Some(ruleset) = &mut self.ruleset
            && ruleset.changed()?
        {
            events.push(Event::Ruleset);
        }
        Ok(events)
    }
}

impl Other {
    fn wanted(&self) -> PollFd<'_> {
        match self {
            Self::Mounts(file) => PollFd::new(file.as_fd(), PollFlags::POLLPRI),
            Self::Calls(socket) => PollFd::new(socket.as_fd(), PollFlags::POLLIN),
        }
    }

    /// What it tells of, if it has anything to tell.
    fn event(&self) -> Option<Event> {
        let event = match self {
            Self::Mounts(_) => Event::Mounts,
            Self::Calls(_) => Event::Call,
        };
        let mut wanted = [self.wanted()];
        let ready = poll(&mut wanted, PollTimeout::ZERO);
        let is_ready = ready.is_ok_and(|ready| ready > 0);
        is_ready.then_some(event)
    }
}

impl Sources for Machine {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait(
        &mut self,
        until: Option<Instant>,
        files: &BTreeSet<PathBuf>,
    ) -> Result<Vec<Event>, HostError> {
        let files = files.union(&self.of_namespace).cloned().collect();
        let look = self.files.watch(&files, self.now());
        self.poll(until.into_iter().chain(look).min())?;
        let mut events = Vec::new();
        if self
            .signals
            .as_ref()
            .is_some_and(|signals| signals.raised())
        {
            events.push(Event::Signal);
        }
        if let Some(network) = &mut self.network {
            events.extend(network.read()?);
        }
        let changed = self.files.changed(self.now())?;
        if !changed.is_disjoint(&self.of_namespace) && self.find_namespace()? {
            events.push(Event::Network(Change::Everything));
        }
        events.extend(changed.into_iter().map(Event::File));
        let others: Vec<Event> = self.others.iter().filter_map(Other::event).collect();
        // A namespace has its name a moment before it is mounted there.
        if others.contains(&Event::Mounts) && self.find_namespace()? {
            events.push(Event::Network(Change::Everything));
        }
        events.extend(others);
        Ok(events)
    }
}
