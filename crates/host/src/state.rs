//! The state file of a host: what the kernel cannot tell us. Names of ports, switches and remotes; which
//! devices and neighbour entries are ours; which programs are current. Everything else is looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use overlane_model::Tables;
use overlane_net::netns::{self, Netns};
use serde::{Deserialize, Serialize};

use crate::{HostError, paths};

const SCHEMA: u32 = 1;

/// Contents of `/run/overlane/<host>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) schema: u32,
    pub(crate) host: String,
    /// Name of the namespace; none for the one `apply` ran in.
    pub(crate) netns: Option<String>,
    /// Device and inode of the namespace: a name can be given to another one.
    pub(crate) netns_id: (u64, u64),
    /// True while `apply` works, and after it was killed.
    pub(crate) in_progress: bool,
    /// Which build of the data path is attached.
    pub(crate) object_digest: String,
    /// Which map set it uses.
    pub(crate) map_signature: String,
    /// Digest of the tables, to tell two applied fabrics apart.
    pub(crate) tables_digest: String,
    pub(crate) uplink: String,
    pub(crate) vtep: IpAddr,
    pub(crate) encapsulation: String,
    pub(crate) tunnel_port: u16,
    /// Link pin → id of its program.
    pub(crate) programs: BTreeMap<String, u32>,
    /// Why there is no GRO device, if the kernel refused it.
    pub(crate) gro_refused: Option<String>,
    /// Next hops that the kernel keeps resolved for us.
    pub(crate) neighbours: BTreeSet<NextHop>,
    pub(crate) ports: Vec<PortState>,
    pub(crate) switches: Vec<SwitchState>,
    pub(crate) remotes: Vec<RemoteState>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct NextHop {
    pub(crate) device: String,
    pub(crate) address: IpAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortState {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) vni: u32,
    pub(crate) key: u16,
    pub(crate) mac: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SwitchState {
    pub(crate) name: String,
    pub(crate) vni: u32,
    pub(crate) flood_unknown: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemoteState {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
}

/// A host that is applied on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedHost {
    /// Its name in the fabric.
    pub host: String,
    /// Its network namespace; none for the one `apply` ran in.
    pub netns: Option<String>,
    /// Its last `apply` was killed, or is at work right now.
    pub in_progress: bool,
}

/// The hosts applied on this machine, by name. State files that make no sense are left out.
pub fn applied_hosts() -> Result<Vec<AppliedHost>, HostError> {
    Ok(all()?
        .into_iter()
        .map(|state| AppliedHost {
            host: state.host,
            netns: state.netns,
            in_progress: state.in_progress,
        })
        .collect())
}

/// The applied host, when there is exactly one: what a command means that names none.
pub fn only_applied_host() -> Result<AppliedHost, HostError> {
    let mut hosts = applied_hosts()?;
    match hosts.len() {
        0 => Err(HostError::NoneApplied),
        1 => Ok(hosts.remove(0)),
        _ => Err(HostError::SeveralApplied(
            hosts.into_iter().map(|host| host.host).collect(),
        )),
    }
}

/// All states that can be read, by host.
pub(crate) fn all() -> Result<Vec<State>, HostError> {
    let folder = Path::new(paths::RUN);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(HostError::file("read", folder))?,
    };
    let mut states = Vec::new();
    for entry in entries {
        let path = entry.map_err(HostError::file("read", folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            states.extend(read_file(&path).ok().flatten());
        }
    }
    states.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(states)
}

impl State {
    /// The state of a host, if it is applied.
    pub(crate) fn read(host: &str) -> Result<Option<Self>, HostError> {
        read_file(&paths::state(host))
    }

    /// The state as it will be once `tables` are applied, without what only the machine knows.
    pub(crate) fn of(tables: &Tables) -> Self {
        Self {
            schema: SCHEMA,
            host: tables.host.to_string(),
            netns: None,
            netns_id: (0, 0),
            in_progress: false,
            object_digest: String::new(),
            map_signature: String::new(),
            tables_digest: digest(tables),
            uplink: tables.uplink.to_string(),
            vtep: tables.vtep,
            encapsulation: tables.tunnel.encapsulation.name().to_owned(),
            tunnel_port: tables.tunnel.port,
            programs: BTreeMap::new(),
            gro_refused: None,
            neighbours: BTreeSet::new(),
            ports: tables.ports.iter().map(port_state).collect(),
            switches: tables.switches.iter().map(switch_state).collect(),
            remotes: tables.remotes.iter().map(remote_state).collect(),
        }
    }

    /// The namespace the host was applied in, if it still exists and can be found.
    pub(crate) fn namespace(&self) -> Result<Option<Netns>, HostError> {
        if netns_id()? == self.netns_id {
            return Ok(Some(Netns::current()?));
        }
        // It may have been given a name after it was applied by none.
        let names = self.netns.iter().cloned().chain(netns::list()?);
        for name in names {
            if named_netns_id(&name) == Some(self.netns_id) {
                return Ok(Some(Netns::open(&name)?));
            }
        }
        Ok(None)
    }

    /// Whether that namespace can be seen to exist still: by its name, or as that of the first process.
    pub(crate) fn lives_elsewhere(&self) -> bool {
        let named = self.netns.as_deref().and_then(named_netns_id);
        let first = file_id(Path::new("/proc/1/ns/net")).ok();
        [named, first].contains(&Some(self.netns_id))
    }

    /// Writes the file in one step: a reader sees the old or the new one.
    pub(crate) fn write(&self) -> Result<(), HostError> {
        let path = paths::state(&self.host);
        let text = serde_json::to_vec_pretty(self).map_err(|source| HostError::State {
            path: path.clone(),
            source,
        })?;
        write_file(&path, &text)
    }
}

/// Writes bytes so that a reader sees all of the old or all of the new.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    let new = path.with_extension("new");
    fs::write(&new, bytes).map_err(HostError::file("write", &new))?;
    fs::rename(&new, path).map_err(HostError::file("write", path))
}

/// Identity of the namespace of this thread.
pub(crate) fn netns_id() -> Result<(u64, u64), HostError> {
    file_id(Path::new("/proc/thread-self/ns/net"))
}

/// Identity of a named namespace, if it exists.
pub(crate) fn named_netns_id(name: &str) -> Option<(u64, u64)> {
    file_id(&Path::new("/run/netns").join(name)).ok()
}

fn file_id(path: &Path) -> Result<(u64, u64), HostError> {
    let metadata = fs::metadata(path).map_err(HostError::file("look at", path))?;
    Ok((metadata.dev(), metadata.ino()))
}

fn read_file(path: &Path) -> Result<Option<State>, HostError> {
    match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HostError::file("read", path)(error)),
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| HostError::State {
                path: path.to_owned(),
                source,
            }),
    }
}

fn digest(tables: &Tables) -> String {
    use std::hash::{Hash, Hasher};
    // Only compared with digests this very machine wrote.
    let mut hasher = std::hash::DefaultHasher::new();
    tables.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn port_state(port: &overlane_model::PortTable) -> PortState {
    PortState {
        name: port.name.to_string(),
        device: port.device.to_string(),
        vni: port.vni.get(),
        key: port.key.get(),
        mac: port.mac.to_string(),
    }
}

fn switch_state(switch: &overlane_model::SwitchTable) -> SwitchState {
    SwitchState {
        name: switch.name.to_string(),
        vni: switch.vni.get(),
        flood_unknown: switch.flood_unknown,
    }
}

fn remote_state(remote: &overlane_model::Remote) -> RemoteState {
    RemoteState {
        name: remote.name.to_string(),
        address: remote.addr,
    }
}
