//! Comparisons that cost little, for changes of which the kernel tells little or nothing.

use std::collections::BTreeMap;

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

/// The links and programs at one hook, in their order.
type Programs = Vec<(u32, u32)>;

/// The programs at the hooks of a host's devices, by index, as they were after the last pass.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    known: BTreeMap<u32, Programs>,
}

impl Hooks {
    /// Whether somebody attached or detached a program since the last time. What is first asked for differs from nothing.
    pub(super) fn differ(
        &mut self,
        netns: Option<&str>,
        devices: &BTreeMap<String, u32>,
    ) -> Result<bool, HostError> {
        let now: BTreeMap<u32, Programs> = namespace(netns)?.run(|| {
            let at = |(name, index): (&String, &u32)| {
                // A device that is gone has an event of its own.
                let hooked = links::hooked(name, *index).ok()?;
                let programs = hooked.into_iter().map(|at| (at.link_id, at.program_id));
                Some((*index, programs.collect()))
            };
            devices.iter().filter_map(at).collect()
        })?;
        let is_other =
            |(index, before): (&u32, &Programs)| now.get(index).is_some_and(|now| now != before);
        let differs = self.known.iter().any(is_other);
        self.known = now;
        Ok(differs)
    }
}

fn namespace(name: Option<&str>) -> Result<Netns, HostError> {
    Ok(match name {
        Some(name) => Netns::open(name)?,
        None => Netns::current()?,
    })
}
