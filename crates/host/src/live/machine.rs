//! The machine as a source of events for the duties of one host.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use overlane_net::netns::{self, Netns};
use overlane_net::{Event as Change, Events};

use super::files::Files;
use super::{Event, Sources};
use crate::lib::signals::Signals;
use crate::state::State;
use crate::{HostError, paths};

/// Waits for what happens to a host.
#[derive(Debug)]
pub(crate) struct Machine {
    host: String,
    signals: Option<Rc<Signals>>,
    files: Files,
    /// Tell of the namespace: the state of the host, and the name of the namespace.
    of_namespace: BTreeSet<PathBuf>,
    network: Option<(Netns, Events)>,
}

impl Machine {
    /// Listens in the host's namespace, while it is applied.
    pub(crate) fn of_host(host: &str, signals: Option<Rc<Signals>>) -> Result<Self, HostError> {
        let mut machine = Self {
            host: host.to_owned(),
            signals,
            files: Files::new(Instant::now()),
            of_namespace: BTreeSet::new(),
            network: None,
        };
        machine.find_namespace()?;
        Ok(machine)
    }

    /// Listens where the host is now; whether that is somewhere else than before. Who listens keeps a namespace and its
    /// devices alive: of one that was deleted it lets go.
    fn find_namespace(&mut self) -> Result<bool, HostError> {
        let Ok(state) = State::read(&self.host) else {
            // It makes no sense: the duties say so, if it is their business.
            return Ok(false);
        };
        let name = state.as_ref().and_then(|state| state.netns.as_ref());
        let name = name.map(|name| Path::new(netns::RUN_DIR).join(name));
        self.of_namespace = [paths::state(&self.host)].into_iter().chain(name).collect();
        let netns = state.map(|state| state.namespace()).transpose()?.flatten();
        match (&self.network, netns) {
            (Some((before, _)), Some(netns)) if before.is_same(&netns) => Ok(false),
            (_, Some(netns)) => {
                let events = netns.run(Events::open)??;
                self.network = Some((netns, events));
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
        let network = self.network.as_ref().map(|(_, events)| events.as_fd());
        let signals = self.signals.as_ref().map(|signals| signals.as_fd());
        let all = [network, signals, self.files.descriptor()];
        let wanted = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors: Vec<PollFd<'_>> = all.into_iter().flatten().map(wanted).collect();
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(HostError::system("wait for events")(errno)),
        }
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
        if let Some((_, network)) = &mut self.network {
            events.extend(network.read()?.into_iter().map(Event::Network));
        }
        let changed = self.files.changed(self.now())?;
        if !changed.is_disjoint(&self.of_namespace) && self.find_namespace()? {
            events.push(Event::Network(Change::Everything));
        }
        events.extend(changed.into_iter().map(Event::File));
        Ok(events)
    }
}
