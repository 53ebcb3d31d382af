//! Comparisons that cost little, for changes of which the kernel tells little or nothing.

use std::collections::{BTreeMap, BTreeSet};

use overlane_ebpf::links;
use overlane_model::Tables;
use overlane_net::Link;
use overlane_net::netns::Netns;

use crate::HostError;
use crate::kinds::guard;
use crate::lib::elsewhere::{Elsewhere, NotTaken};
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
    namespace(netns)?.run(|| guard::differs(host, tables, &state.refused))?
}

/// Whether a device that a port waits for is in the namespace that the file names. `devices`: those that the host has.
pub(super) fn has_come(
    netns: Option<&str>,
    tables: &Tables,
    devices: &BTreeMap<String, u32>,
) -> Result<bool, HostError> {
    let link = |(name, index): (&String, &u32)| Link {
        name: name.clone(),
        index: *index,
        ..Link::default()
    };
    let links: Vec<Link> = devices.iter().map(link).collect();
    let look = || Elsewhere::look(tables, &links, &NotTaken::default());
    let elsewhere = namespace(netns)?.run(look)??;
    Ok(!elsewhere.coming.is_empty())
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
