//! Names, marks and explanations that several parts of the report share.

use crate::record::{BackendName, CellKey, GroupKey, MtuClass};
use crate::results::Compared;
use crate::stats::{Method, Verdict};

/// The mark beside a verdict, so that colour is never needed to read it.
pub(super) fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::CannotTell => "◆",
    }
}

/// One comparison for each pair of cells, whatever its metric.
pub(super) fn pairs<'c>(comparisons: impl Iterator<Item = &'c Compared>) -> Vec<&'c Compared> {
    let mut out: Vec<&Compared> = Vec::new();
    for compared in comparisons {
        if !out
            .iter()
            .any(|seen| (seen.a, seen.b) == (compared.a, compared.b))
        {
            out.push(compared);
        }
    }
    out
}

/// `offload on, MTU 1500 and 4 streams`
pub(super) fn group_words(key: CellKey) -> String {
    format!(
        "{}, MTU {} and {}",
        offload(key.offload),
        mtu(key.group()),
        streams(key.streams)
    )
}

/// `MTU 1500 · 4 streams · offload on`
pub(super) fn group_title(group: GroupKey) -> String {
    format!(
        "MTU {} · {} · {}",
        mtu(group),
        streams(group.streams),
        offload(group.offload)
    )
}

/// `1500`, `8900/9000`
pub(super) fn mtu(group: GroupKey) -> &'static str {
    match group.mtu_class {
        MtuClass::Standard => "1500",
        MtuClass::Jumbo => "8900/9000",
    }
}

/// `4 streams`
pub(super) fn streams(count: u32) -> String {
    format!("{count} stream{}", if count == 1 { "" } else { "s" })
}

/// `offload on`
pub(super) fn offload(on: bool) -> &'static str {
    if on { "offload on" } else { "offload off" }
}

/// Identifier of a cell within the page.
pub(super) fn slug(key: CellKey) -> String {
    let offload = if key.offload { "on" } else { "off" };
    format!("{}-{}-{}-{offload}", key.backend, key.mtu, key.streams)
}

/// Identifier of a comparison's row; both metrics of two cells share it.
pub(super) fn anchor(compared: &Compared) -> String {
    format!("cmp-{}--{}", slug(compared.a), slug(compared.b))
}

/// How the ratio was computed, for a table.
pub(super) fn method(compared: &Compared) -> String {
    match compared.result.method {
        Method::Paired => format!("{} pairs", compared.result.pairs),
        Method::Unpaired => "unpaired".to_owned(),
    }
}

/// What a backend is, for a reader who never heard of it.
pub(super) fn describe(backend: BackendName) -> &'static str {
    match backend {
        BackendName::Direct => {
            "one virtual cable between the two guests: the limit of this machine"
        }
        BackendName::Bridge => "a plain Linux bridge on each host, no overlay",
        BackendName::KernelVxlan => "a Linux bridge and the kernel’s VXLAN device",
        BackendName::OvsVlan => "Open vSwitch in userspace, a VLAN on the underlay, no overlay",
        BackendName::OvsVxlan => "Open vSwitch in userspace, VXLAN",
        BackendName::OvsGeneve => "Open vSwitch in userspace, Geneve",
        BackendName::OverlaneVlan => {
            "Overlane’s eBPF data path, a VLAN on the underlay, no overlay"
        }
        BackendName::OverlaneVxlan => "Overlane’s eBPF data path, VXLAN",
        BackendName::OverlaneGeneve => "Overlane’s eBPF data path, Geneve with OVN’s option",
    }
}

/// The words of the page: (term, meaning).
pub(super) const GLOSSARY: [(&str, &str); 7] = [
    (
        "Goodput",
        "TCP payload that reached the receiving guest, in Gbit/s.",
    ),
    (
        "CPU %/Gbit/s",
        "Busy CPU time in per cent of one logical CPU, divided by the goodput; sender and receiver \
         host together unless one of them is named.",
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
        "95 % interval: of the mean by Student’s t; of a ratio by order statistics of the ratios \
         within each round.",
    ),
    (
        "▲ better, ▼ worse, ◆ cannot tell",
        "Verdict for the first of the two. It needs at least 6 pairs of samples (5 a side where they \
         are not pairs) and an interval that excludes ×1.",
    ),
    (
        "Path proof",
        "Before its samples, a capture on the underlay showed the packets encapsulated as declared.",
    ),
];

/// What every reader has to know before quoting a figure.
pub(super) const VIRTUAL: &str = "The hosts and the wire are virtual (network namespaces on one machine). \
    Compare the networks with each other; the absolute Gbit/s are not those of any hardware.";
