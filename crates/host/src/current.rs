//! What is on the machine of one host, as the kernel says: pins, maps' contents, links, devices. The plan
//! is the difference to this, never to what some earlier run believed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use overlane_ebpf::devices::held;
use overlane_ebpf::links::Link as BpfLink;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::{Contents, Table};
use overlane_ebpf::{DataPath, LinkInfo, abi};
use overlane_net::{Link, Netlink, netns};
use zerocopy::FromBytes as _;

use crate::detours::Detour;
use crate::record::{Ours, Record};
use crate::state::{NetnsId, State};
use crate::{HostError, detours, files, guard, paths, random};

/// A look at the machine.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) state: Option<State>,
    /// What is ours by the record, which outlives the state file.
    pub(crate) record: Option<Record>,
    /// The pinned set, if it fits the data path to apply.
    pub(crate) maps: Option<MapSet>,
    /// Its entries; empty without it.
    pub(crate) contents: Contents,
    /// The devices that it holds.
    pub(crate) held: BTreeSet<u32>,
    /// Folders of map sets that cannot be used (another build's, or half made).
    pub(crate) stale_sets: Vec<PathBuf>,
    /// Link pins by file name; what is no tcx link, or detached, has no info or no device.
    pub(crate) links: BTreeMap<String, Option<LinkInfo>>,
    /// Devices of ours by name, also those put aside by an interrupted run.
    pub(crate) devices: BTreeMap<String, Link>,
    /// The tables of nftables that drop what comes in by ports' devices.
    pub(crate) guard: guard::Found,
    /// The unmarker's namespace is there.
    pub(crate) unmarker_namespace: bool,
}

impl Current {
    /// Looks at the machine from a thread in the host's namespace.
    pub(crate) fn read(
        host: &str,
        data_path: &DataPath<'_>,
        netlink: &Netlink,
    ) -> Result<Self, HostError> {
        files::check_pins(host)?;
        let own = paths::map_set(host, data_path.signature());
        let maps = if own.exists() {
            MapSet::open(&own, data_path.layouts())?
        } else {
            None
        };
        let mut stale_sets = map_sets(host)?;
        if maps.is_some() {
            stale_sets.retain(|set| *set != own);
        }
        Ok(Self {
            state: State::read(host)?,
            record: Record::read(host)?,
            contents: maps
                .as_ref()
                .map(MapSet::contents)
                .transpose()?
                .unwrap_or_default(),
            held: (maps.as_ref().map(held).transpose()?).unwrap_or_default(),
            maps,
            stale_sets,
            links: links(host)?,
            devices: with_inside(host, own_devices(netlink)?)?,
            guard: guard::read(host)?,
            unmarker_namespace: netns::exists(&detours::namespace_of(host)),
        })
    }

    /// What is ours in this namespace.
    pub(crate) fn ours_in(&self, here: NetnsId) -> Ours {
        Record::ours_in(here, self.record.as_ref(), self.state.as_ref())
    }

    /// The devices of this namespace that the maps hold. Who held others, in a namespace that had the same indices, has to
    /// hold anew.
    pub(crate) fn held_in(&self, here: NetnsId) -> BTreeSet<u32> {
        let of_state = self.state.as_ref().map(|state| state.netns_id);
        let of_record = self.record.as_ref().map(|record| record.netns_id);
        match of_state.or(of_record) {
            Some(of_maps) if of_maps == here => self.held.clone(),
            _ => BTreeSet::new(),
        }
    }

    /// What the data path here chooses with what nobody outside may foresee; a new one where there is none.
    pub(crate) fn secret(&self) -> u32 {
        let mut secrets = self.settings().map(|settings| settings.secret);
        secrets
            .find(|secret| *secret != 0)
            .unwrap_or_else(|| random::number() as u32)
    }

    /// The same of cookies.
    pub(crate) fn cookie_key(&self) -> [u32; 2] {
        let mut keys = self.settings().map(|settings| settings.cookie_key);
        keys.find(|key| *key != [0, 0]).unwrap_or_else(|| {
            let random = random::number();
            [random as u32, (random >> 32) as u32]
        })
    }

    fn settings(&self) -> impl Iterator<Item = abi::Settings> {
        let settings = self.contents.get(&Table::Settings).into_iter().flatten();
        settings.filter_map(|(_, value)| abi::Settings::read_from_bytes(value).ok())
    }
}

/// Folders of all map sets of a host.
pub(crate) fn map_sets(host: &str) -> Result<Vec<PathBuf>, HostError> {
    let is_set = |name: &str| name.starts_with(paths::MAP_SET);
    let names = names(&paths::pins(host))?
        .into_iter()
        .filter(|name| is_set(name));
    Ok(names.map(|name| paths::pins(host).join(name)).collect())
}

/// Pinned links of a host.
pub(crate) fn links(host: &str) -> Result<BTreeMap<String, Option<LinkInfo>>, HostError> {
    files::check_pins(host)?;
    let folder = paths::links(host);
    let mut links = BTreeMap::new();
    for name in names(&folder)? {
        let info = BpfLink::open(&folder.join(&name))?
            .map(|link| link.info())
            .transpose()?
            .flatten();
        links.insert(name, info);
    }
    Ok(links)
}

/// Devices with our names in the namespace of this thread.
pub(crate) fn own_devices(netlink: &Netlink) -> Result<BTreeMap<String, Link>, HostError> {
    let ours = |name: &str| {
        paths::ASIDE
            .iter()
            .any(|(own, aside)| name == *own || name == *aside)
            || Detour::ALL
                .iter()
                .any(|detour| detour.devices().contains(&name))
    };
    let links = netlink.links()?.into_iter().filter(|link| ours(&link.name));
    Ok(links.map(|link| (link.name.clone(), link)).collect())
}

/// And those in the unmarker's namespace. No name is in both.
fn with_inside(
    host: &str,
    mut devices: BTreeMap<String, Link>,
) -> Result<BTreeMap<String, Link>, HostError> {
    let inside = detours::inside(host)?.into_iter();
    devices.extend(inside.map(|link| (link.name.clone(), link)));
    Ok(devices)
}

/// Sorted names in a folder; none when it does not exist.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, HostError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(HostError::file("read", folder))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names
        .collect::<Result<Vec<_>, _>>()
        .map_err(HostError::file("read", folder))?;
    names.sort();
    Ok(names)
}
