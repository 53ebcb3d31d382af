//! What is on the machine of one host, as the kernel says: pins, maps' contents, links, devices. The plan is the
//! difference to this, never to what some earlier run believed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use overlane_ebpf::maps::MapSet;
use overlane_ebpf::tables::{Contents, Table};
use overlane_ebpf::{LinkInfo, abi};
use overlane_net::Link;
use overlane_net::nftables::{DropTable, Family};
use zerocopy::FromBytes as _;

use crate::lib::random;
use crate::state::{NetnsId, Record, State};

/// A look at the machine.
#[derive(Debug, Default)]
pub(crate) struct Current {
    pub(crate) state: Option<State>,
    /// What is ours by the record, which outlives the state file.
    pub(crate) record: Option<Record>,
    /// The pinned set, if it fits the data path to apply.
    pub(crate) maps: Option<MapSet>,
    /// Its entries; empty without it.
    pub(crate) contents: Contents,
    /// The secret of the set that it takes the place of, where it is new.
    pub(crate) secret_before: Option<u32>,
    /// The devices that it holds.
    pub(crate) held: BTreeSet<u32>,
    /// Folders of map sets that cannot be used: another build's, or half made.
    pub(crate) stale_sets: Vec<PathBuf>,
    /// Link pins by file name; what is no tcx link, or detached, has no info or no device.
    pub(crate) links: BTreeMap<String, Option<LinkInfo>>,
    /// Devices of ours by name, also those put aside by an interrupted run.
    pub(crate) devices: BTreeMap<String, Link>,
    /// All devices of the namespace.
    pub(crate) in_namespace: Vec<Link>,
    /// The tables of nftables that drop what comes in by ports' devices.
    pub(crate) guard: BTreeMap<Family, DropTable>,
    /// The unmarker's namespace is there.
    pub(crate) unmarker_namespace: bool,
}

impl Current {
    /// What is ours in this namespace, in the words of the record.
    pub(crate) fn ours_in(&self, here: NetnsId) -> BTreeSet<String> {
        Record::ours_in(here, self.record.as_ref(), self.state.as_ref())
    }

    /// The state, if it speaks of this namespace: another one has other neighbours and other indices.
    pub(crate) fn state_in(&self, here: NetnsId) -> Option<&State> {
        self.state.as_ref().filter(|state| state.netns_id == here)
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
            .or(self.secret_before.filter(|secret| *secret != 0))
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
