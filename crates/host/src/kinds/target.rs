//! What is wanted: the tables of a host, and what they mean on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use overlane_ebpf::DataPath;
use overlane_ebpf::tables::{Contents, Devices};
use overlane_model::Tables;
use overlane_net::Link;

use crate::lib::detour::Detour;
use crate::lib::elsewhere::Coming;
use crate::lib::error::UnfitDevice;
use crate::lib::paths;
use crate::report::Row;
use crate::state::answers::Answer;

/// The index of an uplink that is not there. The kernel gives no device this number, and drops what is sent to it.
pub(crate) const NO_DEVICE: u32 = i32::MAX as u32;

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

/// Devices of the namespace, by name.
pub(crate) type Links<'a> = BTreeMap<&'a str, &'a Link>;

/// What the tables' names mean in this namespace.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// Without the segmenter, which may not exist yet.
    pub(crate) devices: Devices,
    /// Neighbours that packets to the remotes are handed to.
    pub(crate) next_hops: BTreeSet<Spot>,
    /// `apply` makes a device for receive coalescing.
    pub(crate) coalescing: bool,
    /// The detours that frames need on this machine.
    pub(crate) detours: BTreeSet<Detour>,
    /// Devices of the fabric that are there.
    pub(crate) links: Vec<Link>,
    /// Devices of ports that another network namespace has. They are among the links, as they will be.
    pub(crate) coming: Vec<Coming>,
    /// Devices of ports and of legs that are not there.
    pub(crate) missing: Vec<UnfitDevice>,
    /// Those of them that are other names of devices, of which notes tell.
    pub(crate) other_names: BTreeSet<String>,
    pub(crate) notes: Vec<Row>,
}

impl Resolved {
    /// The devices that somebody has to make.
    pub(crate) fn to_make(&self) -> impl Iterator<Item = &UnfitDevice> {
        let is_there = |device: &str| self.other_names.contains(device);
        self.missing
            .iter()
            .filter(move |missing| !is_there(&missing.device))
    }

    pub(crate) fn is_missing(&self, device: &str) -> bool {
        self.missing.iter().any(|missing| missing.device == device)
    }

    /// The devices of ours that frames go into.
    pub(crate) fn helpers(&self) -> impl Iterator<Item = &'static str> {
        let receive = self.coalescing.then_some(paths::GRO);
        let detours = self.detours.iter().map(|detour| detour.entrance());
        [paths::SEGMENTER].into_iter().chain(receive).chain(detours)
    }
}

/// Where a switch is: a device, and of an entry its address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) device: String,
    pub(crate) address: Option<IpAddr>,
}

impl Spot {
    pub(super) fn on(device: &impl ToString) -> Self {
        Self {
            device: device.to_string(),
            address: None,
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        match self.address {
            Some(address) => write!(f, " {address}"),
            None => Ok(()),
        }
    }
}
