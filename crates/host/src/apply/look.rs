//! A look at the machine of one host: pins, maps' contents, links, devices.

use std::path::PathBuf;

use overlane_ebpf::DataPath;
use overlane_ebpf::carry::secret_in;
use overlane_ebpf::devices::held;
use overlane_ebpf::maps::MapSet;
use overlane_net::{Link, netns};

use crate::HostError;
use crate::kinds::{Current, guard, hooks, own_devices};
use crate::lib::{detour, files, paths};
use crate::state::{Record, State};

impl Current {
    /// Looks at the machine from a thread in the host's namespace, which has these devices.
    pub(crate) fn read(
        host: &str,
        data_path: &DataPath<'_>,
        links: Vec<Link>,
    ) -> Result<Self, HostError> {
        let state = State::read(host)?;
        let own = paths::map_set(host, data_path.signature());
        files::check_pins(host)?;
        let maps = match own.exists() {
            true => MapSet::open(&own, data_path.layouts())?,
            false => None,
        };
        let mut current = Self {
            contents: maps
                .as_ref()
                .map(MapSet::contents)
                .transpose()?
                .unwrap_or_default(),
            held: maps.as_ref().map(held).transpose()?.unwrap_or_default(),
            state,
            maps,
            ..Self::pinned(host)?
        };
        if current.maps.is_some() {
            current.stale_sets.retain(|set| *set != own);
        } else if let Some(state) = &current.state {
            let before = paths::map_set(host, &state.map_signature);
            if current.stale_sets.contains(&before) {
                current.secret_before = secret_in(&before)?;
            }
        }
        current.look_in_namespace(host, links)?;
        Ok(current)
    }

    /// What is there of a host wherever it was applied, and whoever wrote its state file. No set of maps is of use.
    pub(crate) fn pinned(host: &str) -> Result<Self, HostError> {
        files::check_pins(host)?;
        Ok(Self {
            record: Record::read(host)?,
            stale_sets: map_sets(host)?,
            links: hooks::links(host)?,
            unmarker_namespace: netns::exists(&detour::namespace_of(host)),
            ..Self::default()
        })
    }

    /// What is there of a host in its namespace, which this thread is in, and which has these devices.
    pub(crate) fn look_in_namespace(
        &mut self,
        host: &str,
        links: Vec<Link>,
    ) -> Result<(), HostError> {
        self.devices = own_devices::find_all(host, &links)?;
        self.in_namespace = links;
        self.guard = guard::read(host)?;
        Ok(())
    }
}

/// Folders of all map sets of a host.
fn map_sets(host: &str) -> Result<Vec<PathBuf>, HostError> {
    let is_set = |name: &str| name.starts_with(paths::MAP_SET);
    let names = files::names(&paths::pins(host))?
        .into_iter()
        .filter(|name| is_set(name));
    Ok(names.map(|name| paths::pins(host).join(name)).collect())
}
