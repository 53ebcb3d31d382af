//! Names, marks and explanations that several parts of the report share.

use std::collections::BTreeMap;

use crate::record::{
    BackendName, CellKey, Family, FarEnd, Feature, GroupKey, GuestKind, MtuClass, Setting, Test,
    Workload,
};
use crate::results::{Analysis, Axis, Compared};
use crate::stats::{Method, Verdict};

use super::numbers::fixed;

/// The mark beside a verdict, so that colour is never needed to read it.
pub(super) const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::CannotTell => "◆",
    }
}

/// Names of groups and cells that say what varies in this run and nothing else, and the anchors of the page.
pub(super) struct Names {
    varies: Vec<Dimension>,
    places: BTreeMap<CellKey, usize>,
}

/// A dimension of a group: how it is named.
type Dimension = fn(&GroupKey) -> String;

/// All but the test, which every name begins with. Where one value is the usual one, only others are named.
const DIMENSIONS: [Dimension; 15] = [
    |g| bytes(&g.workload),
    |g| counted(g.workload.instances, "instance"),
    |g| format!("MTU {}", mtu(&g.setting)),
    |g| offload(g.setting.offload).to_owned(),
    |g| unusual(g.workload.buffer_bytes.is_some(), || buffer(&g.workload)),
    |g| {
        let is_news = g.workload.test.is_packets() && g.workload.search.is_none();
        unusual(is_news, || rate(&g.workload))
    },
    |g| {
        let preset = g.workload.search;
        preset.map_or_else(String::new, |preset| format!("search {preset}"))
    },
    |g| {
        unusual(g.setting.far_end != FarEnd::Host, || {
            far_end(&g.setting).to_owned()
        })
    },
    |g| unusual(g.setting.hosts != 2, || counted(g.setting.hosts, "host")),
    |g| unusual(g.setting.pairs != 1, || counted(g.setting.pairs, "pair")),
    |g| {
        unusual(g.setting.guests != GuestKind::Veth, || {
            guests(g.setting.guests).to_owned()
        })
    },
    |g| unusual(g.setting.vnis != 1, || counted(g.setting.vnis, "VNI")),
    |g| unusual(g.setting.inner != Family::Ipv4, || "IPv6 inside".to_owned()),
    |g| {
        unusual(g.setting.underlay != Family::Ipv4, || {
            "IPv6 underlay".to_owned()
        })
    },
    |g| {
        unusual(g.setting.feature != Feature::Default, || {
            g.setting.feature.words().to_owned()
        })
    },
];

fn unusual(is: bool, name: impl FnOnce() -> String) -> String {
    if is { name() } else { String::new() }
}

impl Names {
    /// The names of a run.
    pub(super) fn of(analysis: &Analysis<'_>) -> Self {
        let groups = &analysis.groups;
        // A size that only follows from the test (1 MB streams, 64 B transactions) is no news.
        let differs = |of: &Dimension| {
            let twice =
                |a: &GroupKey, b: &GroupKey| a.workload.test == b.workload.test && of(a) != of(b);
            groups.iter().any(|a| groups.iter().any(|b| twice(a, b)))
        };
        let mut varies: Vec<Dimension> = DIMENSIONS.into_iter().filter(differs).collect();
        if varies.is_empty() {
            varies.extend(DIMENSIONS.into_iter().take(2));
        }
        let keys = analysis.cells.iter().enumerate();
        let mut places = BTreeMap::new();
        for (place, figures) in keys {
            places.entry(figures.cell.key).or_insert(place);
        }
        Self { varies, places }
    }

    /// `tcp_rr · 64 bytes · 8 instances`
    pub(super) fn group(&self, group: &GroupKey) -> String {
        let test = group.workload.test.to_string();
        let rest = self.setting(group);
        if rest.is_empty() {
            test
        } else {
            format!("{test} · {rest}")
        }
    }

    /// `64 bytes · 8 instances`: the group without its test.
    pub(super) fn setting(&self, group: &GroupKey) -> String {
        let parts: Vec<String> = self
            .varies
            .iter()
            .map(|of| of(group))
            .filter(|part| !part.is_empty())
            .collect();
        parts.join(" · ")
    }

    /// The group without the dimension of `axis`: what two cells that are compared along it have in common.
    pub(super) fn common(&self, axis: Axis, group: &GroupKey) -> String {
        let own = other_setting(axis, group);
        let parts = self
            .varies
            .iter()
            .map(|of| of(group))
            .filter(|part| *part != own && !part.is_empty());
        let parts: Vec<String> = parts.collect();
        parts.join(" · ")
    }

    /// `kernel-vxlan, tcp_rr · 64 bytes · 8 instances`
    pub(super) fn cell(&self, key: &CellKey) -> String {
        format!("{}, {}", key.network(), self.group(&key.group))
    }

    /// The anchor of a cell's row.
    pub(super) fn anchor(&self, key: &CellKey) -> String {
        anchor(self.place(key))
    }

    /// The anchor of a comparison's row; all metrics of two cells share it.
    pub(super) fn comparison(&self, c: &Compared) -> String {
        format!(
            "cmp-{}-{}-{}",
            c.axis as u8,
            self.place(&c.a),
            self.place(&c.b)
        )
    }

    fn place(&self, key: &CellKey) -> usize {
        self.places.get(key).copied().unwrap_or_default()
    }
}

/// The anchor of the cell at `place` in the run.
pub(super) fn anchor(place: usize) -> String {
    format!("cell-{place}")
}

/// One comparison for each pair of cells, whatever its metric.
pub(super) fn pairs<'c>(comparisons: impl Iterator<Item = &'c Compared>) -> Vec<&'c Compared> {
    let mut seen = std::collections::BTreeSet::new();
    comparisons
        .filter(|c| seen.insert((c.axis, c.a, c.b)))
        .collect()
}

/// `MTU 1500`: where the other side of a comparison stands.
pub(super) fn other_setting(axis: Axis, b: &GroupKey) -> String {
    match axis {
        Axis::Backend | Axis::Itself => String::new(),
        Axis::Mtu => format!("MTU {}", mtu(&b.setting)),
        Axis::Offload => offload(b.setting.offload).to_owned(),
        Axis::Instances => counted(b.workload.instances, "instance"),
        Axis::Bytes => bytes(&b.workload),
        Axis::OfferedRate => rate(&b.workload),
        Axis::Buffer => buffer(&b.workload),
        Axis::Pairs => counted(b.setting.pairs, "pair"),
        Axis::Guests => guests(b.setting.guests).to_owned(),
        Axis::Vnis => counted(b.setting.vnis, "VNI"),
        Axis::Hosts => counted(b.setting.hosts, "host"),
        Axis::Inner => format!("{} inside", family(b.setting.inner)),
        Axis::Underlay => format!("{} underlay", family(b.setting.underlay)),
        Axis::Feature | Axis::Without => b.setting.feature.words().to_owned(),
        Axis::FarEnd | Axis::Model => far_end(&b.setting).to_owned(),
    }
}

/// `4 pairs`
pub(super) fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", fixed(f64::from(count), 0))
}

/// `64-byte frames`
pub(super) fn bytes(workload: &Workload) -> String {
    let size = fixed(f64::from(workload.bytes), 0);
    match workload.test {
        Test::UdpStream | Test::FrameStream => format!("{size}-byte frames"),
        Test::UdpGsoStream => format!("{size}-byte datagrams"),
        _ => format!("{size} bytes"),
    }
}

fn buffer(workload: &Workload) -> String {
    workload.buffer_bytes.map_or_else(
        || "buffers as they come".to_owned(),
        |bytes| format!("buffers of {} kB", fixed(f64::from(bytes) / 1000.0, 0)),
    )
}

fn rate(workload: &Workload) -> String {
    workload.rate_pps.map_or_else(
        || "rate unlimited".to_owned(),
        |rate| format!("{} pps offered", fixed(f64::from(rate), 0)),
    )
}

/// `1500`, `8900/9000`
pub(super) const fn mtu(setting: &Setting) -> &'static str {
    match setting.mtu_class {
        MtuClass::Standard => "1500",
        MtuClass::Jumbo => "8900/9000",
    }
}

const fn offload(on: bool) -> &'static str {
    if on { "offload on" } else { "offload off" }
}

const fn far_end(setting: &Setting) -> &'static str {
    match setting.far_end {
        FarEnd::Host => "two hosts",
        FarEnd::Tester => "tester at the far end",
    }
}

const fn guests(kind: GuestKind) -> &'static str {
    match kind {
        GuestKind::Veth => "containers",
        GuestKind::Tap => "virtual machines",
    }
}

const fn family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// How the ratio was computed, for a table.
pub(super) fn method(compared: &Compared) -> String {
    match compared.result.method {
        Method::Paired => format!("{} pairs", compared.result.pairs),
        Method::Unpaired => "unpaired".to_owned(),
    }
}

/// What a backend is, for a reader who never heard of it.
pub(super) const fn describe(backend: BackendName) -> &'static str {
    match backend {
        BackendName::Direct => {
            "one virtual cable between the two guests: the limit of this machine"
        }
        BackendName::Bridge => "a plain Linux bridge on each host, no overlay",
        BackendName::KernelVlan => {
            "a Linux bridge and the kernel’s 802.1Q device: a VLAN on the underlay, no overlay"
        }
        BackendName::KernelVxlan => "a Linux bridge and the kernel’s VXLAN device",
        BackendName::KernelGeneve => "a Linux bridge and the kernel’s Geneve device",
        BackendName::OvsVlan => "Open vSwitch in userspace, a VLAN on the underlay, no overlay",
        BackendName::OvsVxlan => "Open vSwitch in userspace, VXLAN",
        BackendName::OvsGeneve => "Open vSwitch in userspace, Geneve",
        BackendName::OvsKernelVlan => {
            "Open vSwitch with the kernel’s datapath, a VLAN on the underlay, no overlay"
        }
        BackendName::OvsKernelVxlan => "Open vSwitch with the kernel’s datapath, VXLAN",
        BackendName::OvsKernelGeneve => "Open vSwitch with the kernel’s datapath, Geneve",
        BackendName::OverlaneVlan => {
            "Overlane’s eBPF data path, a VLAN on the underlay, no overlay"
        }
        BackendName::OverlaneVxlan => "Overlane’s eBPF data path, VXLAN",
        BackendName::OverlaneGeneve => "Overlane’s eBPF data path, Geneve with OVN’s option",
    }
}

/// The words of the page: (term, meaning).
pub(super) const GLOSSARY: [(&str, &str); 11] = [
    (
        "Goodput",
        "Payload that reached the receiving programs, in Gbit/s.",
    ),
    (
        "Transaction",
        "A request and its response. Thousand/s: thousands of them per second.",
    ),
    ("kpps", "Thousand packets per second."),
    (
        "CPU %",
        "Busy time in per cent of one logical CPU: two busy CPUs are 200 %. Per Gbit/s, per transaction and per packet: \
         of all hosts together, divided by what got through.",
    ),
    (
        "Guest, host",
        "Guest: the traffic programs’ own CPU time. Host: everything on the virtual host’s CPUs, the guest’s share included.",
    ),
    (
        "Offload on / off",
        "On: TCP super-packets of up to 64 kB cross the underlay whole, as with a NIC that segments \
         tunnelled TCP. Off: every one is cut into MTU-sized packets on the wire.",
    ),
    (
        "Underlay",
        "The network between the two hosts; the overlay’s packets travel on it.",
    ),
    (
        "[low, high]",
        "95 % interval: of the mean by Student’s t; of a ratio or difference by order statistics over \
         the rounds. –: not measured.",
    ),
    (
        "▲ better, ▼ worse",
        "The interval excludes “no difference” and a permutation test gives p ≤ 0.05.",
    ),
    (
        "◆ cannot tell",
        "The samples do not say; at least 6 pairs, or 5 samples a side, are needed to say anything.",
    ),
    (
        "Tester bound",
        "The traffic tool does no better without a network between: the network’s own limit may be higher.",
    ),
];

/// What a reader must know where guests are virtual machines.
pub(super) const VIRTUAL_MACHINES: &str = "Virtual machines: such a guest’s network card and its port on the host are TAP devices, as under vhost-net. In the \
    place of vhost-net the laboratory’s own relay moves the frames between them. The relay’s CPU time is the guest’s own: it is \
    part of the host’s figures, and stands by itself in the tables of every cell.";

/// What a reader must know of every run of this laboratory.
pub(super) const VIRTUAL: &str = "Virtual laboratory: all hosts are network namespaces of one machine, all cables are \
    virtual. Compare shapes and ratios with hardware, not absolute values.";
