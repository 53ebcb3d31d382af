//! What the data path itself has written: addresses learned, and how many each learning port has. The
//! maps `learned` and `learning` of `bpf/abi.h`. Everything else is in the tables.

use std::collections::BTreeMap;
use std::net::IpAddr;

use overlane_model::{Attachment, SwitchId};
use overlane_wire::Mac;

/// State of one host's data path, from packet to packet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct State {
    pub(crate) learned: BTreeMap<(SwitchId, Mac), Learned>,
    pub(crate) learning: BTreeMap<(SwitchId, u16), PortLearning>,
}

/// Where a learned address was last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learned {
    /// Where.
    pub place: LearnedPlace,
    /// Key of the port; 0: behind a remote that did not say.
    pub key: u16,
    /// Seconds it is remembered.
    pub age_s: u32,
    /// When, with the accuracy of a second.
    pub seen_ns: u64,
}

/// A place that packets came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LearnedPlace {
    /// A learning port of this host.
    Port(Attachment),
    /// This VTEP.
    Remote(IpAddr),
    /// The VLAN on the uplink.
    Vlan,
}

/// What one learning port has learned.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortLearning {
    /// Addresses, those that nobody has forgotten yet among them.
    pub macs: u32,
    /// Not before then are old addresses looked for again.
    pub next_sweep_ns: u64,
}

impl State {
    /// Most addresses that are learned: `MAX_LEARNED`.
    pub const MAX_LEARNED: usize = 65_536;

    /// Nothing learned.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every learned address, old ones included.
    pub fn learned(&self) -> &BTreeMap<(SwitchId, Mac), Learned> {
        &self.learned
    }

    /// The learning ports that packets have come from, by switch and key.
    pub fn learning(&self) -> &BTreeMap<(SwitchId, u16), PortLearning> {
        &self.learning
    }
}

impl Learned {
    /// Nobody has seen it for its age.
    pub fn is_old(&self, now_ns: u64) -> bool {
        let age_ns = u64::from(self.age_s) * SECOND_NS;
        now_ns > self.seen_ns.saturating_add(age_ns)
    }
}

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
