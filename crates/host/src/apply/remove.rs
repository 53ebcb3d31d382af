//! `remove`: takes away everything `apply` made for one host. Idempotent, and content with what is there:
//! the namespace, devices, pins or the state file may be gone already.

use std::fs;
use std::path::{Path, PathBuf};

use overlane_ebpf::{Program, preflight};
use overlane_net::Netlink;
use overlane_net::netns::{self, Netns};

use crate::HostError;
use crate::kinds::{self, Current, Journal, Look, Mending, Testing};
use crate::lib::detour::namespace_of;
use crate::lib::holder::Holder;
use crate::lib::lock::Lock;
use crate::lib::{files, paths};
use crate::live::announcer as announce;
use crate::report::{Object, Removal, Report, Row};
use crate::state::{self, Place, Record, State};

/// What to remove.
pub struct RemoveRequest<'a> {
    /// The host; see [`crate::only_applied_host`] when the user named none.
    pub host: &'a str,
    /// Its network namespace; none: the one recorded by `apply`.
    pub netns: Option<&'a str>,
    /// Called once if another process holds the host's lock, before waiting for it.
    pub on_wait: &'a dyn Fn(&Holder),
}

impl<'a> RemoveRequest<'a> {
    /// A request for `host`, with the namespace that `apply` recorded.
    pub fn new(host: &'a str) -> Self {
        Self {
            host,
            netns: None,
            on_wait: &|_| (),
        }
    }
}

/// Takes away the host's links, maps, devices, managed neighbours and state. Works when the namespace
/// or some devices are gone already, and whatever became of the state file.
pub fn remove(request: &RemoveRequest<'_>) -> Result<Removal, HostError> {
    preflight::check_rights()?;
    let host = request.host;
    if request.netns.is_none() && !is_known(host) {
        return Ok(Removal::of(host, Vec::new()));
    }
    let lock = Lock::acquire(host, request.on_wait)?;
    let removal = remove_locked(request);
    if !files::is_there(&paths::state(host)) {
        lock.remove_file();
    }
    removal
}

fn remove_locked(request: &RemoveRequest<'_>) -> Result<Removal, HostError> {
    let host = request.host;
    files::check_pins(host)?;
    let known = Known::read(host)?;
    let netns = known.namespace(request.netns)?;
    announce::end(host)?;
    if let Some(state) = &known.state {
        // A killed removal is an interrupted one: `status` warns, the next one goes on.
        State {
            in_progress: true,
            ..state.clone()
        }
        .write()?;
    }
    let mut current = Current::pinned(host)?;
    let links: Vec<String> = current.links.keys().cloned().collect();
    current.state.clone_from(&known.state);
    let take_away = || take_away(host, &known, current, netns.is_some());
    let mut rows = match &netns {
        Some(netns) => netns.run(take_away)??,
        // Its devices went with it.
        None => take_away()?,
    };
    rows.extend(remove_files(host)?);
    let unclear = known.unclear(&links);
    if !unclear.is_empty() {
        return Err(HostError::LeftUnknown {
            host: host.to_owned(),
            things: unclear,
        });
    }
    Ok(Removal::of(host, rows))
}

/// Wants nothing of each kind, and does all that is planned for it: links first, since with the last of them the data
/// path stops, and the maps are nobody's.
fn take_away(
    host: &str,
    known: &Known,
    mut current: Current,
    is_in_namespace: bool,
) -> Result<Vec<Row>, HostError> {
    let netlink = Netlink::new()?;
    let here = state::netns_id()?;
    if is_in_namespace {
        current.look_in_namespace(host, netlink.links()?)?;
        // Where this host was not, the devices may be another one's that is applied here.
        let is_own = known
            .place
            .as_ref()
            .is_some_and(|place| place.netns_id == here);
        let is_others = |other: &Place| other.host != host && other.netns_id == here;
        if !is_own && Place::all()?.iter().any(is_others) {
            current.devices.clear();
        }
    }
    let mut look = Look::new(host, None, &current, &netlink, here);
    if !is_in_namespace {
        look.ours.clear();
    }
    let plan = look.plan()?;
    let mut report = Report::new(host);
    let mut mending = Mending::new(&netlink, Journal::new(Testing::default()));
    mending.for_good = true;
    let left = plan.run(&mut mending, &mut report)?;
    mending.take_away(left, &mut report)?;
    Ok(report.changes)
}

/// What is known of a host.
struct Known {
    state: Option<State>,
    /// There is a state file of no use.
    is_broken: bool,
    record: Option<Record>,
    place: Option<Place>,
}

impl Known {
    /// A state file that makes no sense must not keep the host on the machine.
    fn read(host: &str) -> Result<Self, HostError> {
        let (state, is_broken) = match State::read(host) {
            Err(HostError::State { .. }) => (None, true),
            other => (other?, false),
        };
        let record = Record::read(host)?;
        let by_state = state.as_ref().map(Place::by_state);
        let place = match by_state {
            None => Place::by_record(host, record.as_ref())?,
            known => known,
        };
        Ok(Self {
            state,
            is_broken,
            record,
            place,
        })
    }

    /// Where the devices are: where `apply` was, if that still exists, else where the user says.
    fn namespace(&self, asked: Option<&str>) -> Result<Option<Netns>, HostError> {
        let known = match &self.place {
            Some(place) => place.namespace()?,
            None if asked.is_none() => Some(Netns::current()?),
            None => None,
        };
        match (known, asked) {
            (None, Some(name)) if netns::exists(name) => Ok(Some(Netns::open(name)?)),
            // Where the host was is gone, and all that it had there.
            (None, Some(name)) if self.place.is_none() => {
                Err(HostError::NoNamespace(name.to_owned()))
            }
            (known, _) => Ok(known),
        }
    }

    /// What may be left, since nothing says what `apply` switched on, or not in words of this version.
    fn unclear(&self, links: &[String]) -> Vec<String> {
        let record = self.record.iter();
        let unclear = record.flat_map(|it| kinds::unclear(&it.ours));
        let mut things: Vec<String> = unclear.cloned().collect();
        let is_told = self.state.is_some() || self.record.is_some();
        let was_applied = self.is_broken || !links.is_empty();
        if is_told || !was_applied {
            return things;
        }
        let devices = |program: Program| {
            let prefix = paths::link(program, "");
            let names = links
                .iter()
                .filter_map(move |link| link.strip_prefix(&prefix));
            names.map(paths::unpin_name).collect::<Vec<_>>()
        };
        let uplinks = devices(Program::FromUnderlay);
        for uplink in &uplinks {
            things.push(format!("promiscuous mode of {uplink}"));
            things.push(format!("managed neighbours on {uplink}"));
        }
        let legs = devices(Program::FromLeg).into_iter();
        things.extend(legs.map(|leg| format!("multicast groups of addresses on {leg}")));
        if uplinks.is_empty() {
            things.push("promiscuous mode and managed neighbours of its uplink".to_owned());
        }
        things
    }
}

/// Files beside the state, and what an attempt to write one left. The name before `.new` was shorter once.
fn other_files(host: &str) -> Vec<PathBuf> {
    let state = paths::state(host);
    vec![
        files::unfinished(&state),
        state.with_extension("new"),
        paths::verifier_log(host),
        files::unfinished(&paths::verifier_log(host)),
        // Left by a capture that was killed; one that runs ends by itself.
        paths::capture_lock(host),
        paths::log_lock(host),
        // No agent runs: it would make the host anew.
        paths::kept(host),
    ]
}

fn is_known(host: &str) -> bool {
    let mut known = other_files(host);
    known.extend([paths::state(host), paths::lock(host), paths::pins(host)]);
    known.iter().any(|path| files::is_there(path)) || netns::exists(&namespace_of(host))
}

/// The record last of all that is pinned: it says what is still to be done.
fn remove_files(host: &str) -> Result<Option<Row>, HostError> {
    Record::remove(host)?;
    for folder in [paths::links(host), paths::pins(host)] {
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(HostError::file("remove", &folder)(error));
            }
            _ => {}
        }
    }
    // Other hosts may still have theirs.
    let _ = fs::remove_dir(Path::new(paths::PINS));
    let path = paths::state(host);
    let was_there = files::remove(&path)?;
    for path in other_files(host) {
        files::remove(&path)?;
    }
    Ok(was_there.then(|| Row::remove(Object::State, path.display())))
}
