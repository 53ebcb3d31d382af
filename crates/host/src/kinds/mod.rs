//! Everything that Overlane keeps on a machine, as one list of kinds. A kind compares what is wanted with what is there,
//! and adds to a plan what is to be done about each difference. `apply`, its dry run and `status` want the tables of a
//! host; `remove` wants nothing.
//!
//! ```text
//!   ORDER ──► each kind: wanted ≠ there? ──► Plan: add forwards, delete backwards, clean up when all else is done
//!                                             │ a deed: what to do, its undo, and the row that tells of it
//! ```

use std::collections::BTreeSet;

mod aliases;
mod carried;
pub(crate) mod connections;
mod current;
mod detours;
mod entries;
mod fabric;
pub(crate) mod groups;
pub(crate) mod guard;
mod held;
pub(crate) mod hooks;
pub(crate) mod inside;
mod journal;
mod kind;
mod maps;
mod next_hops;
mod not_kept;
pub(crate) mod own_devices;
mod plan;
mod programs;
mod promiscuous;
pub(crate) mod receive_helper;
pub(crate) mod segmenter;
mod switch;
mod take_in;
mod target;

pub(crate) use current::Current;
pub(crate) use fabric::same;
pub(crate) use journal::Journal;
pub use journal::Testing;
pub(crate) use kind::Look;
pub(crate) use plan::Mending;
pub(crate) use plan::Plan;
pub(crate) use target::{Links, NO_DEVICE, Resolved, Spot, Target};

use self::kind::Kind;
use crate::HostError;

/// Each after what it needs: a port's device is closed before it comes, and has a program before it is up, ports send into
/// devices of ours, and nothing comes out of the tunnel before there is somewhere to go.
pub(crate) const ORDER: [&dyn Kind; 17] = [
    &guard::Guard,
    &take_in::TakeIn,
    &segmenter::Segmenter,
    &receive_helper::ReceiveHelper,
    &detours::Detours,
    &promiscuous::PROMISCUOUS,
    &next_hops::NEXT_HOPS,
    &groups::GROUPS,
    &held::Held,
    &connections::Connections,
    &entries::MapEntries,
    &carried::Carried,
    &maps::Maps,
    &programs::Programs,
    &take_in::BringUp,
    &aliases::Aliases,
    &fabric::Fabric,
];

impl<'a> Look<'a> {
    /// Asks each kind.
    pub(crate) fn plan(&self) -> Result<Plan<'a>, HostError> {
        let mut plan = Plan::new(self.current, self.target.is_none());
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
