//! The tables of one host as map entries: [`encode`] is pure, so the difference between what should be
//! and what is can be computed, shown and tested without the kernel. One file below for each subject.

use std::collections::BTreeMap;

use overlane_model::classifier::Classifier;
use overlane_model::{Attachment, DeviceName, Tables};
use overlane_wire::Mac;
use zerocopy::IntoBytes;

use crate::EbpfError;
use crate::abi;

mod addresses;
mod capacity;
mod nat;
mod numbering;
mod ports;
mod remotes;
mod routers;
mod rules;
mod table;

pub use capacity::check_capacity;
pub(crate) use ports::port_numbers;
pub(crate) use remotes::remote_numbers;
pub use rules::{rule_number, rules_generation};
pub use table::Table;

/// Entries of one map: key → value.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Whether the kernel's entries have this one. Of an array they have those that are not zero.
pub fn has(entries: &Entries, table: Table, key: &[u8], value: &[u8]) -> bool {
    match entries.get(key) {
        Some(there) => there == value,
        None => table.is_array() && is_zero(value),
    }
}

/// As the entries of an array are from the beginning.
pub(crate) fn is_zero(value: &[u8]) -> bool {
    const ZERO: [u8; 4096] = [0; 4096];
    let mut chunks = value.chunks(ZERO.len());
    chunks.all(|chunk| Some(chunk) == ZERO.get(..chunk.len()))
}

/// Entries of every map that `apply` writes.
pub type Contents = BTreeMap<Table, Entries>;

/// Stands for the device of a port that is not there: no device has this index, and no port is found under it.
pub(crate) const NO_DEVICE: u32 = u32::MAX;

/// What the names in the tables mean on this machine.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    /// The ports' devices, those that are there. What goes to another port ends at this host.
    pub ports: BTreeMap<DeviceName, PortDevice>,
    /// The gateways' legs, those that are there. What goes to another leg has no route.
    pub legs: BTreeMap<DeviceName, LegDevice>,
    /// The kernel's number for their network namespace (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
    /// Index of the uplink.
    pub uplink_ifindex: u32,
    /// Largest outer IP packet.
    pub underlay_mtu: u32,
    /// Index of the end of the segmenter to send into, which no other namespace has; 0: none.
    pub segmenter_ifindex: u32,
    /// Index of the end where the segments come out; 0: none.
    pub segmenter_out_ifindex: u32,
    /// Index of the end of the unmarker to send into; 0: none.
    pub unmarker_ifindex: u32,
    /// Index of the end of the coalescer to send into; 0: none.
    pub coalescer_ifindex: u32,
    /// What nobody outside may foresee is chosen with it; the host's own.
    pub secret: u32,
    /// The same of cookies.
    pub cookie_key: [u32; 2],
    /// Another device has the tunnel's port: what is not ours is left to it.
    pub port_shared: bool,
}

/// One port's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortDevice {
    /// Its index.
    pub ifindex: u32,
    /// A veth or netkit whose peer is in another namespace.
    pub peer: bool,
    /// Segments super-packets that have a tunnel's mark.
    pub takes_no_mark: bool,
    /// Largest IP packet.
    pub mtu: u32,
}

/// A gateway's device in the physical network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegDevice {
    /// Its index.
    pub ifindex: u32,
    /// Its MAC.
    pub mac: Mac,
    /// Largest IP packet.
    pub mtu: u32,
    /// The kernel segments a super-packet with a tunnel's mark before it.
    pub takes_no_mark: bool,
}

/// Compiles tables to map entries, for maps that are empty. Fails when a table does not fit into its map.
pub fn encode(tables: &Tables, devices: &Devices) -> Result<Contents, EbpfError> {
    encode_beside(tables, devices, &Contents::new())
}

/// Compiles tables to map entries for maps that have the entries `current`: what has a number keeps
/// it, and what is new gets others, so that no packet meets a mixture (`bpf/lib/abi_firewall.h`, struct rule_set).
pub fn encode_beside(
    tables: &Tables,
    devices: &Devices,
    current: &Contents,
) -> Result<Contents, EbpfError> {
    check_capacity(tables)?;
    let mut contents = Contents::new();
    let classifier = Classifier::new(&tables.firewall)?;
    let rules = rules::rules(tables, &classifier, current, &mut contents);
    ports::ports(tables, devices, &rules, current, &mut contents);
    ports::switches(tables, devices, &mut contents);
    addresses::addresses(tables, devices, &mut contents);
    addresses::allowed(tables, &mut contents);
    remotes::remotes(tables, current, &mut contents)?;
    remotes::origins(tables, &mut contents);
    routers::routers(tables, devices, current, &mut contents);
    contents.insert(Table::Settings, settings(tables, devices));
    for table in Table::ALL {
        contents.entry(table).or_default();
    }
    Ok(contents)
}

/// The one entry of the settings.
pub fn settings(tables: &Tables, devices: &Devices) -> Entries {
    let settings = remotes::settings(tables, devices);
    Entries::from([(0u32.as_bytes().to_vec(), settings.as_bytes().to_vec())])
}

/// Whether a packet would find an entry that `contents` do not have, once these are in use: one of the rules' own
/// generation, or of the list of nat rules that a router uses. It is what an interrupted run left behind.
pub fn is_in_the_way(contents: &Contents, table: Table, key: &[u8]) -> bool {
    match table {
        Table::RulePeers | Table::RuleServices => {
            rules::is_of_generation(key, rules_generation(contents))
        }
        Table::NatInsides | Table::NatEnds => nat::is_in_use(contents, table, key),
        _ => false,
    }
}

fn put<K, V>(contents: &mut Contents, table: Table, key: &K, value: &V)
where
    K: IntoBytes + zerocopy::Immutable,
    V: IntoBytes + zerocopy::Immutable,
{
    contents
        .entry(table)
        .or_default()
        .insert(key.as_bytes().to_vec(), value.as_bytes().to_vec());
}

/// Entries of one map as structs; what has another size is passed over.
pub(crate) fn read<K: zerocopy::FromBytes, V: zerocopy::FromBytes>(
    contents: &Contents,
    table: Table,
) -> impl Iterator<Item = (K, V)> {
    let entries = contents.get(&table).into_iter().flatten();
    entries.filter_map(|(key, value)| {
        Some((
            K::read_from_bytes(key).ok()?,
            V::read_from_bytes(value).ok()?,
        ))
    })
}

/// The bits that are set, of those with a condition.
fn flags<const N: usize>(bits: [(bool, u32); N]) -> u32 {
    let set = bits.iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |flags, (_, bit)| flags | bit)
}

impl Devices {
    /// Under [`NO_DEVICE`] where the device is not there.
    fn id(&self, at: &Attachment) -> abi::PortId {
        let device = self.ports.get(&at.device);
        abi::PortId {
            ifindex: device.map_or(NO_DEVICE, |device| device.ifindex),
            vlan: at.vlan.map_or(0, |vlan| vlan.get().into()),
        }
    }
}

#[cfg(test)]
mod tests;
