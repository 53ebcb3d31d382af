//! Everything that Overlane keeps on a machine, as one list of kinds. A kind compares what is wanted with what is there,
//! and adds to a plan what is to be done about each difference. `apply`, its dry run and `status` want the tables of a
//! host; `remove` wants nothing.
//!
//! ```text
//!   ORDER ──► each kind: wanted ≠ there? ──► Plan: add forwards, delete backwards, clean up when all else is done
//!                                             │ a deed: what to do, its undo, and the row that tells of it
//! ```

use std::collections::BTreeSet;

use overlane_ebpf::DataPath;
use overlane_ebpf::tables::Contents;
use overlane_model::Tables;
use overlane_net::Netlink;

use crate::HostError;
use crate::answers::Answer;
use crate::apply::{Current, Resolved};
use crate::state::NetnsId;

pub(crate) mod connections;
pub mod detours;
pub(crate) mod entries;
mod fabric;
pub mod guard;
mod held;
mod maps;
pub(crate) mod own_devices;
mod plan;
pub(crate) mod programs;
pub(crate) mod receive_helper;
pub(crate) mod segmenter;
pub(crate) mod switches;

pub(crate) use plan::{Deed, Done, Mending, Plan};

/// One kind of thing.
pub(crate) trait Kind: Sync {
    /// Compares what is wanted with what is there, and plans what is to be done.
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError>;

    /// Whether the record writes things of this kind in these words.
    fn knows(&self, _thing: &str) -> bool {
        false
    }
}

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

/// What should be.
pub(crate) struct Target<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) resolved: Resolved,
    /// With the index of each device of ours that is right, else 0.
    pub(crate) contents: Contents,
    pub(crate) data_path: &'a DataPath<'a>,
    /// What is answered for here, in the physical network.
    pub(crate) answers: BTreeSet<Answer>,
}

/// What kinds compare.
pub(crate) struct Look<'a> {
    pub(crate) host: &'a str,
    /// None: nothing of the host should be there.
    pub(crate) target: Option<&'a Target<'a>>,
    pub(crate) current: &'a Current,
    pub(crate) netlink: &'a Netlink,
    pub(crate) here: NetnsId,
    /// What is ours in this namespace, in the words of the record.
    pub(crate) ours: BTreeSet<String>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(
        host: &'a str,
        target: Option<&'a Target<'a>>,
        current: &'a Current,
        netlink: &'a Netlink,
        here: NetnsId,
    ) -> Self {
        Self {
            host,
            target,
            current,
            netlink,
            here,
            ours: current.ours_in(here),
        }
    }

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
