//! On what footing networks are compared: how their devices were set, as read back from them, and where one stands on
//! another footing than the next for a reason that is not its own.
//!
//! ```text
//! devices, packets, kernel ──► Hop (every device as it was)  ──► rows, unlike    what a reader sees
//!                         └──► Asymmetry (of a cell)         ──► unequal        whether two cells are compared
//! ```

use super::{Cell, Encapsulation, Hop, MtuClass, Tuning, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a network stands on another footing than others may. It is decided from what was read or seen, never from the
/// network's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Asymmetry {
    /// The wire segments, the receiving device joins, and the kernel knows no device of this encapsulation that would tell
    /// it how to join what is inside.
    NoGro {
        /// What the kernel does not join.
        encapsulation: Encapsulation,
    },
    /// Packets on the underlay had an outer UDP checksum.
    OuterChecksum,
    /// A bridge hands its packets to the hooks of the IP firewall.
    BridgeNetfilter,
    /// Relays stand in for the hypervisor.
    Relay {
        /// How many a packet passes.
        count: u32,
    },
    /// The guests' devices hand over no super-packets.
    NoSegmentationOffload,
    /// The receiving host's uplink joins no packets.
    NoReceiveOffload,
}

/// Whose an asymmetry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel of this machine lacks something.
    Kernel,
    /// The laboratory set it so.
    Laboratory,
    /// The network needs it so: what it costs is what the network costs.
    Network,
}

/// Bytes of IPv4 and TCP headers, without options.
const TCP_HEADERS: u32 = 40;

impl Asymmetry {
    /// Whose it is.
    pub const fn cause(self) -> Cause {
        match self {
            Self::NoGro { .. } => Cause::Kernel,
            Self::OuterChecksum | Self::BridgeNetfilter | Self::Relay { .. } => Cause::Laboratory,
            Self::NoSegmentationOffload | Self::NoReceiveOffload => Cause::Network,
        }
    }

    /// What it is and why, in a sentence.
    pub fn words(self) -> String {
        match self {
            Self::NoGro { encapsulation } => format!(
                "This kernel has no {0} devices, so it does not itself join the segments of {0} packets when it receives them (GRO).",
                encapsulation.words()
            ),
            Self::OuterChecksum => {
                "Its packets carry an outer UDP checksum, which somebody has to compute.".to_owned()
            }
            Self::BridgeNetfilter => {
                "Its bridge hands every packet to the IP firewall’s hooks (br_netfilter), though there are no rules."
                    .to_owned()
            }
            Self::Relay { count: 1 } => {
                "Its packets pass one relay in userspace, which stands in for vhost-net.".to_owned()
            }
            Self::Relay { count } => format!(
                "Its packets pass {count} relays in userspace, which stand in for vhost-net."
            ),
            Self::NoSegmentationOffload => {
                "The guests hand over no super-packets: this network cannot take them.".to_owned()
            }
            Self::NoReceiveOffload => {
                "The receiving uplink joins no packets: this network cannot take super-packets.".to_owned()
            }
        }
    }

    /// The same in a few words, of a pair in which one has it and the other does not.
    pub const fn short(self) -> &'static str {
        match self {
            Self::NoGro { .. } => "the kernel joins no packets of one",
            Self::OuterChecksum => "one has outer checksums",
            Self::BridgeNetfilter => "one passes br_netfilter",
            Self::Relay { .. } => "they pass unlike numbers of relays",
            Self::NoSegmentationOffload => "one takes no super-packets",
            Self::NoReceiveOffload => "one joins no packets",
        }
    }

    /// It changes the figure of such a cell.
    fn bears_on(self, cell: &Cell) -> bool {
        let group = &cell.key.group;
        match self {
            Self::NoGro { .. } => has_segments(&group.workload, group.setting.mtu_class),
            // A network at its best may choose it.
            Self::OuterChecksum | Self::BridgeNetfilter => group.setting.tuning == Tuning::Alike,
            _ => true,
        }
    }
}

/// A message is more than one packet: there is something to join.
fn has_segments(workload: &Workload, mtu: MtuClass) -> bool {
    let most = match mtu {
        MtuClass::Standard => 1500,
        MtuClass::Jumbo => 9000,
    } - TCP_HEADERS;
    match workload.test {
        test if test.is_frames() => false,
        test if test.is_transactions() => workload.bytes > most,
        _ => true,
    }
}

/// Why two cells do not stand on equal footing; `None` when they do.
///
/// What the kernel lacks and what the laboratory set counts; what a network itself needs is what it costs, and a verdict.
pub fn unequal(a: &Cell, b: &Cell) -> Option<String> {
    let reasons = [(a, b), (b, a)].map(|(of, other)| {
        let words: Vec<String> = own(of, other).map(Asymmetry::words).collect();
        (!words.is_empty()).then(|| format!("{}: {}", of.key.network(), words.join(" ")))
    });
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join(" "))
}

/// The same in a few words: the first reason.
pub fn unequal_short(a: &Cell, b: &Cell) -> Option<&'static str> {
    own(a, b).chain(own(b, a)).map(Asymmetry::short).next()
}

/// What one cell has, and the other has not.
fn own(of: &Cell, other: &Cell) -> impl Iterator<Item = Asymmetry> {
    let all = of.asymmetries.iter().copied();
    all.filter(|one| one.cause() != Cause::Network && one.bears_on(of))
        .filter(|one| !other.asymmetries.contains(one))
}

/// Devices of a topology that are set alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// The network and its setting.
    pub topology: &'a str,
    /// Their place and name without numbers: `host uplink`, `guest eth`.
    pub kind: String,
    /// Where they are: `host1 uplink`, `host2 uplink`.
    pub devices: Vec<String>,
    /// One of them.
    pub hop: &'a Hop,
}

/// The devices of every topology, those that are set alike in one row.
pub fn rows(hops: &[Hop]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for hop in hops {
        let (kind, device) = (kind(hop), format!("{} {}", hop.place, hop.device));
        let same = rows.iter_mut().find(|row| {
            row.topology == hop.topology && row.kind == kind && settings(row.hop) == settings(hop)
        });
        match same {
            Some(row) => row.devices.push(device),
            None => rows.push(Row {
                topology: &hop.topology,
                kind,
                devices: vec![device],
                hop,
            }),
        }
    }
    rows
}

/// Where the laboratory's own devices differ between the networks of one setting: a line for each kind of
/// device; none when all are set alike.
/// A cable without hosts is left out: its guests' devices are the wire.
pub fn unlike(hops: &[Hop]) -> Vec<String> {
    let mut first: BTreeMap<(&str, String), &Row<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    let rows = rows(hops);
    let on_host = |topology: &str| {
        let mut places = hops.iter().filter(|hop| hop.topology == topology);
        places.any(|hop| hop.place.starts_with("host"))
    };
    for row in rows
        .iter()
        .filter(|row| !row.hop.own && on_host(row.topology))
    {
        // `kernel-vxlan, standard mtu, offload on`
        let (network, setting) = row.topology.split_once(", ").unwrap_or((row.topology, ""));
        let known = *first.entry((setting, row.kind.clone())).or_insert(row);
        let theirs = settings(known.hop);
        let other = known
            .topology
            .split_once(", ")
            .map_or(known.topology, |of| of.0);
        let differences: Vec<String> = settings(row.hop)
            .into_iter()
            .filter_map(|(name, value)| {
                let theirs = theirs.get(name).filter(|theirs| **theirs != value)?;
                Some(format!("{name} {value} (there {theirs})"))
            })
            .collect();
        if !differences.is_empty() {
            let (kind, differences) = (&row.kind, differences.join(", "));
            found.push(format!(
                "{network}, unlike {other}, {setting}: {kind}: {differences}"
            ));
        }
    }
    found
}

/// Everything of a device that a figure may depend on, but for the MTU, which goes by the encapsulation, and for which CPUs
/// are its host's.
fn settings(hop: &Hop) -> BTreeMap<&str, String> {
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let mut all: BTreeMap<&str, String> = hop
        .features
        .iter()
        .map(|(name, value)| (name.as_str(), on(*value)))
        .collect();
    let [tx, rx] = hop.queues;
    all.insert("queues", format!("{tx} + {rx}"));
    all.insert("queueing discipline", hop.qdisc.clone());
    all.insert("largest super-packet", hop.gso_max_size.to_string());
    all.insert("receive packet steering", on(!hop.rps_cpus.is_empty()));
    let some = [
        ("outer checksum", hop.outer_checksum),
        ("learning", hop.learning),
        ("bridge netfilter", hop.bridge_netfilter),
    ];
    all.extend(
        some.into_iter()
            .filter_map(|(name, is)| Some((name, on(is?)))),
    );
    all
}

/// `host uplink`: what tells devices of one kind from another's.
fn kind(hop: &Hop) -> String {
    let bare = |name: &str| {
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        if bare.is_empty() { name } else { bare }.to_owned()
    };
    format!("{} {}", bare(&hop.place), bare(&hop.device))
}

#[cfg(test)]
mod tests;
