//! The list of kinds.

use std::collections::BTreeSet;

use super::kind::{Kind, Look};
use super::plan::Plan;
use super::{
    connections, detours, entries, fabric, guard, held, maps, programs, receive_helper, segmenter,
    switches,
};
use crate::HostError;

/// Each after what it needs: a port's device is closed before it has a program, ports send into devices of ours, and
/// nothing comes out of the tunnel before there is somewhere to go.
pub(crate) const ORDER: [&dyn Kind; 13] = [
    &guard::Guard,
    &segmenter::Segmenter,
    &receive_helper::ReceiveHelper,
    &detours::Detours,
    &switches::PROMISCUOUS,
    &switches::NEXT_HOPS,
    &switches::GROUPS,
    &held::Held,
    &connections::Connections,
    &entries::MapEntries,
    &maps::Maps,
    &programs::Programs,
    &fabric::Fabric,
];

impl<'a> Look<'a> {
    /// Asks each kind.
    pub(crate) fn plan(&self) -> Result<Plan<'a>, HostError> {
        let mut plan = Plan::new(self.current);
        let unknown = |thing: &&String| !ORDER.iter().any(|kind| kind.knows(thing));
        // What another version switched on stays in the record.
        plan.ours = self.ours.iter().filter(unknown).cloned().collect();
        for kind in ORDER {
            plan.begin_kind();
            kind.compare(self, &mut plan)?;
        }
        Ok(plan)
    }
}

/// The words of the record that no kind of this version knows.
pub(crate) fn unclear(ours: &BTreeSet<String>) -> impl Iterator<Item = &String> {
    let is_known = |thing: &str| ORDER.iter().any(|kind| kind.knows(thing));
    ours.iter().filter(move |thing| !is_known(thing))
}
