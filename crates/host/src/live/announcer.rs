//! Announcements: whoever remembers an address with another MAC, or a MAC behind another port, hears of what this host
//! answers for now. The stations of a switch hear of its addresses that have another MAC now. `apply` announces what is
//! new, once, when the data path has switched. Two more rounds follow, and so do devices that come up a little later: by
//! a process that outlives `apply` and that a file in `/run/overlane` tells what is left. It ends when that is done, or
//! when the file is gone: the next `apply` that changes something takes it away, and `remove` does. When what is due,
//! [`Announce`] decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use overlane_ebpf::devices::held;
use overlane_model::Tables;
use overlane_net::datagram::unfragmented;
use overlane_net::{Netlink, PacketSocket};
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::kinds::{Target, groups};
pub use crate::lib::announcements::Announcements;
use crate::lib::greeting::in_switch;
use crate::lib::{files, paths};
use crate::live::announce::{Announce, Outcome, SHARE, Send};
use crate::live::{Event, Executor, Job, Loop, Machine, Work};
use crate::observe::{in_namespace, maps};
use crate::report::{Announced, Row};
use crate::state::State;
use crate::state::answers::Answer;
use crate::state::tells::Truth;

/// How long a device that is down is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What is left to do when `apply` ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rest {
    /// Announced once.
    told: BTreeSet<Answer>,
    /// Not announced: a device is down.
    waiting: BTreeSet<Answer>,
}

impl Rest {
    /// What was not announced yet.
    pub(crate) const fn untold(&self) -> &BTreeSet<Answer> {
        &self.waiting
    }
}

/// What is to be announced: what is new, what stations of switches are told, and of what an earlier run has left what is
/// still answered for.
pub(crate) fn due(
    host: &str,
    before: Option<&State>,
    target: &Target<'_>,
    tells: BTreeSet<Answer>,
) -> Result<Rest, HostError> {
    let now = &target.answers;
    let mut due = Rest {
        waiting: new(before.map(|before| &before.answers), now),
        told: BTreeSet::new(),
    };
    due.waiting.extend(tells);
    let truth = Truth::new(now, target.tables);
    for file in files(host)? {
        let Some(rest) = read(&file) else { continue };
        let still = |all: BTreeSet<Answer>| all.into_iter().filter(|answer| truth.holds(answer));
        due.waiting.extend(still(rest.waiting));
        due.told.extend(still(rest.told));
    }
    due.told.retain(|answer| !due.waiting.contains(answer));
    Ok(due)
}

fn new(before: Option<&BTreeSet<Answer>>, now: &BTreeSet<Answer>) -> BTreeSet<Answer> {
    let is_new = |answer: &&Answer| before.is_none_or(|before| !before.contains(answer));
    now.iter().filter(is_new).cloned().collect()
}

/// The first round, from a thread in the host's namespace. What is left goes into a file, in place of an earlier one.
pub(crate) fn begin(
    host: &str,
    due: Rest,
    (tables, netlink): (&Tables, &Netlink),
) -> Result<(BTreeSet<String>, Option<Announcements>), HostError> {
    end(host)?;
    let (of_switches, mut first): (BTreeSet<Answer>, BTreeSet<Answer>) =
        (due.waiting.iter().cloned()).partition(|answer| answer.switch.is_some());
    first.extend(of_switches.into_iter().take(SHARE));
    let (sent, down) = send(&first, tables, netlink, None);
    let mut rest = due;
    rest.waiting.retain(|answer| !sent.contains(answer));
    rest.told.extend(sent);
    if rest == Rest::default() {
        return Ok((down, None));
    }
    let file = paths::announcements(host, std::process::id());
    let text = serde_json::to_vec(&rest).map_err(|source| HostError::State {
        path: file.clone(),
        source,
    })?;
    files::write(&file, &text)?;
    let host = host.to_owned();
    Ok((down, Some(Announcements { host, file })))
}

/// Ends the processes that still announce for a host.
pub(crate) fn end(host: &str) -> Result<(), HostError> {
    for file in files(host)? {
        files::remove(&file)?;
    }
    // Left by one that could not be written; the name before `.new` was shorter once.
    for name in files::names(Path::new(paths::RUN))? {
        let of = name.strip_suffix(".new").unwrap_or_default();
        if paths::is_announcements_of(host, of) || of == paths::announcements_of(host) {
            files::remove(&Path::new(paths::RUN).join(name))?;
        }
    }
    Ok(())
}

fn files(host: &str) -> Result<Vec<PathBuf>, HostError> {
    let names = files::names(Path::new(paths::RUN))?.into_iter();
    let ours = names.filter(|name| paths::is_announcements_of(host, name));
    Ok(ours.map(|name| Path::new(paths::RUN).join(name)).collect())
}

/// None: it is gone, or half written.
fn read(file: &Path) -> Option<Rest> {
    serde_json::from_slice(&files::read(file).ok()??).ok()
}

/// What [`all`] is about to do.
#[derive(Debug)]
pub struct All {
    /// What is announced.
    pub announced: Vec<Announced>,
    /// What had to be made anew: multicast groups that a device had forgotten.
    pub changes: Vec<Row>,
    rest: Rest,
    announcer: Announcer,
}

/// Announces all that a host answers for: [`All::run`] does it.
pub fn all(host: &str) -> Result<All, HostError> {
    let changes = groups::join_again(host)?;
    let state = State::applied(host)?;
    Ok(All {
        announced: Announced::of(&state.answers),
        changes,
        rest: Rest {
            told: BTreeSet::new(),
            waiting: state.answers,
        },
        announcer: Announcer::new(host, paths::state(host)),
    })
}

impl All {
    /// Three rounds. Returns the devices that were down all the time.
    pub fn run(self) -> Result<BTreeSet<String>, HostError> {
        self.announcer.run(self.rest)
    }
}

/// What `apply` left to a process of its own.
pub fn rest(host: &str, number: u32) -> Result<(), HostError> {
    let file = paths::announcements(host, number);
    let announcer = Announcer::new(host, file.clone());
    let Some(rest) = read(&file) else {
        return Ok(());
    };
    let done = announcer.run(rest);
    // It has a number that no other run's has.
    let _ = fs::remove_file(file);
    done.map(drop)
}

/// The rest of the announcements as a job of somebody's loop.
#[derive(Debug)]
pub(crate) struct Announcing(Job<Announce, Announcer>);

impl Announcing {
    /// None: nothing is left, or nobody wants it any more.
    pub(crate) fn of(left: &Announcements) -> Option<Self> {
        let rest = read(&left.file)?;
        Some(Self(
            Announcer::new(&left.host, left.file.clone()).job(rest),
        ))
    }
}

impl Work for Announcing {
    fn handle(&mut self, event: &Event, clock: &dyn Fn() -> Instant) -> Result<(), HostError> {
        // What cannot be announced is no reason to let a host go.
        if self.0.handle(event, clock).is_err() {
            self.0.duty.give_up();
        }
        if self.0.is_over() {
            self.0.executor.forget();
        }
        Ok(())
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.0.wakes_at()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.0.files()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// A file that says by its being there that there is work to do.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Watched {
    fn open(path: PathBuf) -> Self {
        let identity = Self::identity(&path);
        Self { path, identity }
    }

    fn identity(path: &Path) -> Option<(u64, u64)> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(files::identity(&metadata))
    }

    fn is_there(&self) -> bool {
        self.identity.is_some() && Self::identity(&self.path) == self.identity
    }
}

/// Sends what is due, as long as it is wanted.
#[derive(Debug)]
struct Announcer {
    host: String,
    watched: Watched,
}

impl Announcer {
    fn new(host: &str, watched: PathBuf) -> Self {
        Self {
            host: host.to_owned(),
            watched: Watched::open(watched),
        }
    }

    fn job(self, rest: Rest) -> Job<Announce, Self> {
        let files = vec![self.watched.path.clone(), paths::state(&self.host)];
        let (untold, told) = (rest.waiting, rest.told);
        Job {
            duty: Announce::new(untold, told, files, PATIENCE, Instant::now()),
            executor: self,
        }
    }

    /// Returns the devices that were down to the end.
    fn run(self, rest: Rest) -> Result<BTreeSet<String>, HostError> {
        let mut live = Loop::new(Machine::of_host(&self.host, None)?);
        let mut job = self.job(rest);
        live.run(&mut [&mut job])?;
        Ok(job.duty.into_down())
    }

    /// All is done.
    fn forget(&self) {
        if self.watched.is_there() {
            let _ = fs::remove_file(&self.watched.path);
        }
    }
}

impl Executor<Announce> for Announcer {
    fn carry_out(&mut self, Send(due): Send) -> Result<Option<Outcome>, HostError> {
        let state = State::read(&self.host)?.filter(|_| self.watched.is_there());
        let Some(state) = state else {
            return Ok(Some(Outcome::Gone));
        };
        if state.in_progress {
            return Ok(Some(Outcome::Busy));
        }
        let truth = Truth::new(&state.answers, &state.tables);
        let (due, over) = due.into_iter().partition(|answer| truth.holds(answer));
        // Another device may have the name by now.
        let held = held(&maps(&state)?)?;
        let send = |netlink: &Netlink| Ok(send(&due, &state.tables, netlink, Some(&held)));
        Ok(Some(match in_namespace(&state, send)? {
            Some((sent, down)) => Outcome::Sent { over, sent, down },
            None => Outcome::Gone,
        }))
    }
}

/// Sends the frame of each answer whose devices are there, among `held` if that is given, and have a carrier. Returns
/// what was sent, and the devices that are down or gone. A station behind a port that is down has nothing to forget: it
/// counts as told.
fn send(
    answers: &BTreeSet<Answer>,
    tables: &Tables,
    netlink: &Netlink,
    held: Option<&BTreeSet<u32>>,
) -> (BTreeSet<Answer>, BTreeSet<String>) {
    let names: BTreeSet<&str> = answers.iter().flat_map(Answer::devices).collect();
    let links = names.into_iter().filter_map(|name| netlink.link(name).ok());
    let up: BTreeMap<String, _> = links
        .filter(|link| link.carrier && held.is_none_or(|held| held.contains(&link.index)))
        .map(|link| (link.name.clone(), link))
        .collect();
    let (mut sent, mut down) = (BTreeSet::new(), BTreeSet::new());
    let mut sockets = BTreeMap::new();
    let tunnel = answers.iter().any(|it| it.remote.is_some());
    let tunnel = tunnel.then(|| Tunnelled::open(tables)).flatten();
    for answer in answers {
        if answer.remote.is_some() {
            if let Some(tunnel) = &tunnel {
                tunnel.send(answer);
            }
            sent.insert(answer.clone());
            continue;
        }
        let is_down = |name: &&str| !up.contains_key(*name);
        let missing = answer.devices().find(is_down);
        if let Some(device) = missing {
            match answer.switch {
                Some(_) => drop(sent.insert(answer.clone())),
                None => drop(down.insert(device.to_owned())),
            }
            continue;
        }
        let socket = sockets.entry(answer.device.as_str()).or_insert_with(|| {
            let link = up.get(&answer.device)?;
            PacketSocket::open(link).ok()
        });
        let frame = answer.frame();
        let done = socket
            .as_ref()
            .zip(frame)
            .map(|(it, frame)| it.send(&frame));
        match done {
            Some(Ok(())) => drop(sent.insert(answer.clone())),
            _ if answer.switch.is_some() => drop(sent.insert(answer.clone())),
            // It went down, or away, in between.
            _ => drop(down.insert(answer.device.clone())),
        }
    }
    (sent, down)
}

/// The way to peers: UDP from the host's VTEP. Nobody waits for a next hop.
struct Tunnelled<'a> {
    tables: &'a Tables,
    socket: UdpSocket,
}

impl<'a> Tunnelled<'a> {
    fn open(tables: &'a Tables) -> Option<Self> {
        let socket = unfragmented(SocketAddr::new(tables.vtep, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self { tables, socket })
    }

    fn send(&self, answer: &Answer) {
        let switches = self.tables.switches.iter();
        let mut named = switches.filter(|it| Some(it.name.as_str()) == answer.switch.as_deref());
        let vni = named.next().and_then(|switch| switch.id.vni());
        if let (Some(remote), Some(vni), Some(frame)) = (answer.remote, vni, answer.frame()) {
            let packet = [
                &in_switch(self.tables.tunnel.encapsulation, vni)[..],
                &frame,
            ]
            .concat();
            let to = SocketAddr::new(remote, self.tables.tunnel.port);
            let _ = self.socket.send_to(&packet, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(device: &str, mac: &str) -> Answer {
        Answer {
            device: device.into(),
            vlan: None,
            address: Some([198, 19, 0, 2].into()),
            mac: mac.into(),
            is_router: true,
            port: None,
            switch: None,
            remote: None,
        }
    }

    #[test]
    fn a_file_that_is_another_one_by_now_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.announce.7");
        assert!(!Watched::open(path.clone()).is_there());
        files::write(&path, b"{}").unwrap();
        let watched = Watched::open(path.clone());
        assert!(watched.is_there());
        files::write(&path, b"{}").unwrap();
        assert!(!watched.is_there());
    }

    #[test]
    fn an_address_is_due_where_its_mac_or_its_device_is_new() {
        let (first, second) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let now = BTreeSet::from([answer("phys0", first), answer("phys1", first)]);
        let due = |before: &[Answer]| {
            let before = before.iter().cloned().collect();
            new(Some(&before), &now).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(new(None, &now), now);
        assert_eq!(due(&[answer("phys0", first)]), [answer("phys1", first)]);
        let other = [answer("phys0", second), answer("phys1", first)];
        assert_eq!(due(&other), [answer("phys0", first)]);
        assert!(due(&Vec::from_iter(now.clone())).is_empty());
    }
}
