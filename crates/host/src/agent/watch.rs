//! Comparisons that cost little, for changes of which the kernel tells little or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use overlane_ebpf::links;
use overlane_model::Tables;
use overlane_net::netns::Netns;

use crate::HostError;
use crate::kinds::guard;
use crate::lib::{files, paths};
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
    namespace(netns)?.run(|| guard::differs(host, tables, &state.refused))?
}

/// Which state file it is: nobody writes in one, so another one says something else.
pub(super) fn state_file(host: &str) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(paths::state(host)).ok()?;
    Some(files::identity(&metadata))
}

/// Whether what was pinned is gone.
pub(super) fn pins_differ(host: &str) -> Result<bool, HostError> {
    let Some(state) = State::read(host)? else {
        return Ok(false);
    };
    let maps = paths::map_set(host, &state.map_signature);
    Ok(!maps.exists() || !paths::links(host).exists())
}

/// The programs at the hooks of a host's devices, as they were after the last pass.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    known: Option<BTreeSet<(u32, Vec<(u32, u32)>)>>,
}

impl Hooks {
    /// A pass may have changed them.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    /// Whether somebody attached or detached a program since the last time. What is first asked for differs from nothing.
    pub(super) fn differ(
        &mut self,
        netns: Option<&str>,
        devices: &BTreeMap<String, u32>,
    ) -> Result<bool, HostError> {
        let now: BTreeSet<_> = namespace(netns)?.run(|| {
            let at = |(name, index): (&String, &u32)| {
                let hooked = links::hooked(name, *index).unwrap_or_default();
                let programs = hooked.into_iter().map(|at| (at.link_id, at.program_id));
                (*index, programs.collect())
            };
            devices.iter().map(at).collect()
        })?;
        let before = self.known.replace(now.clone());
        Ok(before.is_some_and(|before| before != now))
    }
}

fn namespace(name: Option<&str>) -> Result<Netns, HostError> {
    Ok(match name {
        Some(name) => Netns::open(name)?,
        None => Netns::current()?,
    })
}
