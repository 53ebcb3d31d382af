//! `remove`: takes away everything `apply` made for one host. Idempotent, and content with what is there:
//! the namespace, devices, pins or the state file may be gone already.

use std::fs;
use std::path::Path;

use overlane_ebpf::links::unpin;
use overlane_ebpf::{maps, preflight};
use overlane_net::netns::{self, Netns};
use overlane_net::{NetError, Netlink};

use crate::lock::Lock;
use crate::report::ChangeKind;
use crate::state::{self, State};
use crate::{Holder, HostError, Removal, announce, current, detours, groups, guard, paths};

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
/// or some devices are gone already.
pub fn remove(request: &RemoveRequest<'_>) -> Result<Removal, HostError> {
    preflight::check_rights()?;
    let host = request.host;
    let mut removal = Removal {
        host: host.to_owned(),
        removed: Vec::new(),
    };
    if request.netns.is_none() && !is_known(host) {
        return Ok(removal);
    }
    let lock = Lock::acquire(host, request.on_wait)?;
    announce::end(host)?;
    // A state file that makes no sense must not keep the host on the machine.
    let state = State::read(host).unwrap_or(None);
    if let Some(state) = &state {
        // A killed removal is an interrupted one: `show` warns, the next one goes on.
        State {
            in_progress: true,
            ..state.clone()
        }
        .write()?;
    }
    remove_pins(host, &mut removal.removed)?;
    if let Some(netns) = namespace(request.netns, state.as_ref())? {
        let removed = netns.run(|| remove_devices(host, state.as_ref()))??;
        removal.removed.extend(removed);
        let guard = netns.run(|| guard::remove(host))??;
        removal.removed.extend(guard);
    }
    let inside = detours::namespace_of(host);
    if netns::exists(&inside) {
        netns::delete(&inside)?;
        removal.removed.push(format!("namespace {inside}"));
    }
    let path = paths::state(host);
    if path.exists() {
        fs::remove_file(&path).map_err(HostError::file("remove", &path))?;
        removal.removed.push(format!("state {}", path.display()));
    }
    // Left by a capture that was killed; one that runs ends by itself.
    let _ = fs::remove_file(paths::capture_lock(host));
    let _ = fs::remove_file(paths::log_lock(host));
    let _ = fs::remove_file(paths::verifier_log(host));
    lock.remove_file();
    Ok(removal)
}

fn is_known(host: &str) -> bool {
    let known = [
        paths::state(host),
        paths::lock(host),
        paths::pins(host),
        paths::verifier_log(host),
    ];
    known.iter().any(|path| path.exists()) || netns::exists(&detours::namespace_of(host))
}

/// Links first: with the last of them the data path stops, and the maps are nobody's.
fn remove_pins(host: &str, removed: &mut Vec<String>) -> Result<(), HostError> {
    let folder = paths::links(host);
    for name in current::links(host)?.into_keys() {
        unpin(&folder.join(&name))?;
        removed.push(format!("link {name}"));
    }
    for set in current::map_sets(host)? {
        maps::unpin_folder(&set)?;
        removed.push(format!("maps {}", set.display()));
    }
    for folder in [&folder, &paths::pins(host)] {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(HostError::file("remove", folder)(error));
            }
            _ => {}
        }
    }
    // Other hosts may still have theirs.
    let _ = fs::remove_dir(Path::new(paths::PINS));
    Ok(())
}

/// Where the devices are: where the user says, else where `apply` was, if that still exists.
fn namespace(asked: Option<&str>, state: Option<&State>) -> Result<Option<Netns>, HostError> {
    match (asked, state) {
        (_, Some(state)) => state.namespace(),
        (Some(name), None) if netns::exists(name) => Ok(Some(Netns::open(name)?)),
        (Some(name), None) => Err(HostError::NoNamespace(name.to_owned())),
        (None, None) => Ok(Some(Netns::current()?)),
    }
}

/// Runs in the host's namespace.
fn remove_devices(host: &str, state: Option<&State>) -> Result<Vec<String>, HostError> {
    let mut removed = Vec::new();
    let netlink = Netlink::new()?;
    for next_hop in state.iter().flat_map(|state| &state.neighbours) {
        let known = netlink
            .neighbour(&next_hop.device, next_hop.address)
            .ok()
            .flatten();
        if known.is_some_and(|known| known.managed) {
            gone_or(netlink.delete_neighbour(&next_hop.device, next_hop.address))?;
            removed.push(format!(
                "next hop {} on {}",
                next_hop.address, next_hop.device
            ));
        }
    }
    for device in state.iter().flat_map(|state| &state.promiscuous) {
        let is_on = netlink.link(device).is_ok_and(|link| link.promiscuous);
        if is_on && gone_or(netlink.set_promiscuous(device, false))? {
            removed.push(format!("promiscuous mode of {device}"));
        }
    }
    let mut left = Vec::new();
    for group in state.iter().flat_map(|state| &state.groups) {
        if gone_or(group.leave(&netlink))? {
            left.push(group);
        }
    }
    let left = groups::words(ChangeKind::Remove, left);
    removed.extend(left.into_iter().map(|change| change.what));
    // Without a state file the devices may be another host's that is applied here.
    let here = state::netns_id()?;
    if state.is_none()
        && state::all()?
            .iter()
            .any(|other| other.host != host && other.netns_id == here)
    {
        return Ok(removed);
    }
    for name in current::own_devices(&netlink)?.into_keys() {
        // The second end of a pair goes with the first.
        if gone_or(netlink.delete(&name))? {
            removed.push(format!("device {name}"));
        }
    }
    Ok(removed)
}

/// Whether it was there; that it was not is no error.
fn gone_or(result: Result<(), NetError>) -> Result<bool, NetError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
