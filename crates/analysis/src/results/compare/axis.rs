//! The dimensions of a cell along which it is compared: for each, the cell that it is held against.

use serde::Serialize;

use crate::record::{
    Family, FarEnd, Feature, GroupKey, GuestKind, Moving, MtuClass, Tuning, Workload,
};

/// What differs between the two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The network.
    #[serde(rename = "network")]
    Backend,
    /// Nothing: the second of a network that is measured against itself.
    Itself,
    /// The guests' MTU: jumbo against 1500.
    Mtu,
    /// Wire offload: on against off.
    Offload,
    /// Parallel connections: more against the fewest.
    Instances,
    /// Message or frame size: larger against the smallest.
    Bytes,
    /// Offered rate: higher against the lowest.
    OfferedRate,
    /// Socket buffers: larger against the smallest, the laboratory's own counting as the smallest.
    Buffer,
    /// Pairs of guests: more against the fewest.
    Pairs,
    /// What the guests are: virtual machines against containers.
    Guests,
    /// Logical switches: more against the fewest.
    Vnis,
    /// Virtual hosts: more against the fewest.
    Hosts,
    /// Family of the guests' addresses: IPv6 against IPv4.
    Inner,
    /// Family of the underlay: IPv6 against IPv4.
    Underlay,
    /// What the network does besides switching: changed against as it comes, and against less of the same.
    Feature,
    /// How the network is set: its own best against like for like.
    Tuning,
    /// Memory of the machines that move: more against the least.
    GuestMemory,
    /// Share of it that is written: more against the least.
    DirtyShare,
    /// How fast it is written: faster against the slowest.
    DirtyRate,
    /// Cables that it travels over: more against the fewest.
    Links,
    /// Postcopy against precopy.
    Postcopy,
    /// Overlane with a feature against the kernel's own VXLAN without it.
    Without,
    /// What the receiving guests are behind: a host against a bare tester.
    FarEnd,
    /// Study E's model B (two hosts, the overlay) against its model A (a bare tester at the far end, no overlay).
    Model,
}

impl Axis {
    /// What differs, in words for a heading.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Backend => "network",
            Self::Itself => "the same network again",
            Self::Mtu => "guest MTU",
            Self::Offload => "wire offload",
            Self::Instances => "instances",
            Self::Bytes => "message or frame size",
            Self::OfferedRate => "offered rate",
            Self::Buffer => "socket buffer",
            Self::Pairs => "guest pairs",
            Self::Guests => "kind of guests",
            Self::Vnis => "VNIs",
            Self::Hosts => "hosts",
            Self::Inner => "addresses inside",
            Self::Underlay => "addresses of the underlay",
            Self::Feature => "feature",
            Self::Tuning => "tuning",
            Self::GuestMemory => "memory of the machines",
            Self::DirtyShare => "share of the memory that is written",
            Self::DirtyRate => "how fast memory is written",
            Self::Links => "links",
            Self::Postcopy => "postcopy",
            Self::Without => "feature against a network without it",
            Self::FarEnd => "far end",
            Self::Model => "model B against model A",
        }
    }

    /// The axes on which a group stands beside other groups.
    const BETWEEN_GROUPS: [Self; 20] = [
        Self::Mtu,
        Self::Offload,
        Self::Instances,
        Self::Bytes,
        Self::OfferedRate,
        Self::Buffer,
        Self::Pairs,
        Self::Guests,
        Self::Vnis,
        Self::Hosts,
        Self::Inner,
        Self::Underlay,
        Self::Feature,
        Self::Tuning,
        Self::GuestMemory,
        Self::DirtyShare,
        Self::DirtyRate,
        Self::Links,
        Self::Postcopy,
        Self::FarEnd,
    ];

    /// The place of `group` on this axis, as a number that grows from what it is held against.
    fn place(self, group: &GroupKey) -> u64 {
        let (workload, setting) = (&group.workload, &group.setting);
        let moving = workload.migration;
        match self {
            Self::Backend | Self::Itself | Self::Without | Self::Model => 0,
            Self::Mtu => u64::from(setting.mtu_class == MtuClass::Jumbo),
            Self::Offload => u64::from(setting.offload),
            Self::Instances => workload.instances.into(),
            Self::Bytes => workload.bytes.into(),
            Self::OfferedRate => {
                let rate = workload.rate_pps.or(workload.rate_mbps);
                rate.map_or(u64::MAX, u64::from)
            }
            Self::Buffer => workload.buffer_bytes.map_or(0, u64::from),
            Self::Pairs => setting.pairs.into(),
            Self::Guests => u64::from(setting.guests != GuestKind::Veth),
            Self::Vnis => setting.vnis.into(),
            Self::Hosts => setting.hosts.into(),
            Self::Inner => u64::from(setting.inner == Family::Ipv6),
            Self::Underlay => u64::from(setting.underlay == Family::Ipv6),
            Self::Feature => u64::from(setting.feature != Feature::Default),
            Self::Tuning => u64::from(setting.tuning == Tuning::Best),
            Self::FarEnd => u64::from(setting.far_end == FarEnd::Host),
            Self::GuestMemory => setting.guest_memory_mib.map_or(0, u64::from),
            Self::DirtyShare => moving.map_or(0, |moving| moving.dirty_percent.into()),
            Self::DirtyRate => moving.map_or(0, |moving| moving.dirty_mib_per_second.into()),
            Self::Links => moving.map_or(0, |moving| moving.links.into()),
            Self::Postcopy => moving.map_or(0, |moving| moving.postcopy.into()),
        }
    }

    /// `group` with the place of `other` on this axis.
    fn moved(self, group: &GroupKey, other: &GroupKey) -> GroupKey {
        let mut moved = *group;
        let (workload, setting) = (&mut moved.workload, &mut moved.setting);
        match self {
            Self::Backend | Self::Itself | Self::Without | Self::Model => {}
            Self::Mtu => setting.mtu_class = other.setting.mtu_class,
            Self::Offload => setting.offload = other.setting.offload,
            Self::Instances => workload.instances = other.workload.instances,
            Self::Bytes => workload.bytes = other.workload.bytes,
            Self::OfferedRate => {
                workload.rate_pps = other.workload.rate_pps;
                workload.rate_mbps = other.workload.rate_mbps;
            }
            Self::Buffer => workload.buffer_bytes = other.workload.buffer_bytes,
            Self::Pairs => setting.pairs = other.setting.pairs,
            Self::Guests => setting.guests = other.setting.guests,
            Self::Vnis => setting.vnis = other.setting.vnis,
            Self::Hosts => setting.hosts = other.setting.hosts,
            Self::Inner => setting.inner = other.setting.inner,
            Self::Underlay => setting.underlay = other.setting.underlay,
            Self::Feature => setting.feature = other.setting.feature,
            Self::Tuning => setting.tuning = other.setting.tuning,
            Self::FarEnd => setting.far_end = other.setting.far_end,
            Self::GuestMemory => setting.guest_memory_mib = other.setting.guest_memory_mib,
            Self::DirtyShare => {
                moving(workload, other, |one, other| {
                    one.dirty_percent = other.dirty_percent
                });
            }
            Self::DirtyRate => moving(workload, other, |one, other| {
                one.dirty_mib_per_second = other.dirty_mib_per_second;
            }),
            Self::Links => moving(workload, other, |one, other| one.links = other.links),
            Self::Postcopy => moving(workload, other, |one, other| one.postcopy = other.postcopy),
        }
        moved
    }
}

/// Changes how the machines of a workload move, where they move in both.
fn moving(workload: &mut Workload, other: &GroupKey, set: impl Fn(&mut Moving, &Moving)) {
    if let (Some(one), Some(other)) = (&mut workload.migration, &other.workload.migration) {
        set(one, other);
    }
}

/// The groups that `group` is held against: on each axis the one with the lowest place that differs in nothing else, and the
/// feature that its own contains.
pub(in crate::results) fn neighbours(
    group: &GroupKey,
    groups: &[GroupKey],
) -> Vec<(Axis, GroupKey)> {
    let lowest = |axis: Axis| {
        groups
            .iter()
            .filter(|other| axis.moved(group, other) == **other)
            .min_by_key(|other| axis.place(other))
            .filter(|other| axis.place(other) < axis.place(group))
            .map(|other| (axis, *other))
    };
    let part = group.setting.feature.contains();
    let part = part.map(|feature| group.with_feature(feature));
    let part = part.filter(|part| groups.contains(part));
    Axis::BETWEEN_GROUPS
        .into_iter()
        .filter_map(lowest)
        .chain(part.map(|part| (Axis::Feature, part)))
        .collect()
}

/// The group of model A that `group` of model B is held against: the same frame size, or the next larger one (the
/// published tables hold 1450 against 1518).
pub(in crate::results) fn model_a(group: &GroupKey, groups: &[GroupKey]) -> Option<GroupKey> {
    if group.setting.far_end != FarEnd::Host {
        return None;
    }
    let mut tester = *group;
    tester.setting.far_end = FarEnd::Tester;
    groups
        .iter()
        .filter(|other| Axis::Bytes.moved(&tester, other) == **other)
        .filter(|other| other.workload.bytes >= group.workload.bytes)
        .min_by_key(|other| other.workload.bytes)
        .copied()
}
