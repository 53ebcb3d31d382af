//! Comparisons that cost little, for changes of which the kernel tells little or nothing.

use std::collections::BTreeSet;
use std::path::Path;

use overlane_ebpf::links;
use overlane_model::Tables;
use overlane_net::netns::Netns;

use crate::HostError;
use crate::kinds::guard;
use crate::lib::paths;
use crate::state::State;

/// Whether the guard is not as it should be.
pub(super) fn guard_differs(
    host: &str,
    netns: Option<&str>,
    tables: Option<&Tables>,
) -> Result<bool, HostError> {
    let (Some(tables), Some(state)) = (tables, State::read(host)?) else {
        return Ok(false);
    };
    let netns = match netns {
        Some(name) => Netns::open(name)?,
        None => Netns::current()?,
    };
    netns.run(|| guard::differs(host, tables, &state.refused))?
}

/// Whether what was pinned is gone.
pub(super) fn pins_differ(host: &str) -> Result<bool, HostError> {
    let Some(state) = State::read(host)? else {
        return Ok(false);
    };
    let maps = paths::map_set(host, &state.map_signature);
    Ok(!Path::new(&maps).exists() || !paths::links(host).exists())
}

/// The programs at the hooks of a host's devices, as they were after the last pass.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    known: Option<BTreeSet<(String, u32)>>,
}

impl Hooks {
    /// A pass may have changed them.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    /// Whether somebody attached or detached a program since the last time. What is first asked for differs from nothing.
    pub(super) fn differ(&mut self, host: &str) -> Result<bool, HostError> {
        let Some(state) = State::read(host)?.filter(|state| !state.in_progress) else {
            return Ok(false);
        };
        let Some(netns) = state.namespace()? else {
            return Ok(false);
        };
        let now: BTreeSet<_> = netns.run(|| {
            let devices = state.devices.iter();
            let at = |(name, device): (&String, &crate::state::DeviceState)| {
                let hooked = links::hooked(name, device.ifindex).unwrap_or_default();
                hooked
                    .into_iter()
                    .map(|at| (name.clone(), at.link_id, at.program_id))
                    .collect::<Vec<_>>()
            };
            devices
                .flat_map(at)
                .map(|(name, link, program)| (name, link ^ program.rotate_left(16)))
                .collect()
        })?;
        let before = self.known.replace(now.clone());
        Ok(before.is_some_and(|before| before != now))
    }
}
