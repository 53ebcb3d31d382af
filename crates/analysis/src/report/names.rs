//! What networks, settings and cells are called in a report: what varies in the run, and nothing else.

use std::collections::BTreeMap;

use crate::record::{
    CellKey, Family, FarEnd, Feature, GroupKey, GuestKind, Moving, MtuClass, Setting, Test, Tuning,
    Workload,
};
use crate::results::{Analysis, Axis, CellFigures, Compared};
use crate::stats::{Method, Verdict};

use crate::report::numbers::fixed;

/// The mark beside a verdict, so that colour is never needed to read it.
pub(in crate::report) const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::Same => "=",
        Verdict::CannotTell => "◆",
        Verdict::NotComparable => "≠",
    }
}

/// The class that colours a verdict.
pub(in crate::report) const fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "same",
        Verdict::CannotTell | Verdict::NotComparable => "cannot",
    }
}

/// Names of groups and cells that say what varies in this run and nothing else, and the anchors of the page.
pub(in crate::report) struct Names {
    varies: Vec<Dimension>,
    places: BTreeMap<CellKey, usize>,
}

/// A dimension of a group: how it is named.
type Dimension = fn(&GroupKey) -> String;

/// All but the test, which every name begins with. Where one value is the usual one, only others are named.
const DIMENSIONS: [Dimension; 21] = [
    |g| bytes(&g.workload),
    |g| {
        // A machine moves once at a time.
        unusual(g.workload.migration.is_none(), || {
            counted(g.workload.instances, "instance")
        })
    },
    |g| format!("MTU {}", mtu_of(g)),
    |g| offload(g.setting.offload).to_owned(),
    |g| unusual(g.workload.buffer_bytes.is_some(), || buffer(&g.workload)),
    |g| {
        let w = &g.workload;
        let is_news = w.test.is_packets() && w.search.is_none() || w.rate_mbps.is_some();
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
    |g| {
        let noun = if g.workload.migration.is_some() {
            "machine"
        } else {
            "pair"
        };
        unusual(g.setting.pairs != 1 || noun == "machine", || {
            counted(g.setting.pairs, noun)
        })
    },
    |g| machine_memory(&g.setting),
    |g| moving(g, |moving| format!("{} % written", moving.dirty_percent)),
    |g| {
        moving(g, |moving| {
            format!("written at {} MiB/s", moving.dirty_mib_per_second)
        })
    },
    |g| moving(g, |moving| counted(moving.links, "link")),
    |g| moving(g, |moving| copying(moving).to_owned()),
    |g| {
        unusual(g.setting.guests == GuestKind::Tap, || {
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
    |g| {
        unusual(g.setting.tuning != Tuning::Alike, || {
            g.setting.tuning.words().to_owned()
        })
    },
];

fn unusual(is: bool, name: impl FnOnce() -> String) -> String {
    if is { name() } else { String::new() }
}

impl Names {
    /// The names of a run.
    pub(in crate::report) fn of(analysis: &Analysis<'_>) -> Self {
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
    pub(in crate::report) fn group(&self, group: &GroupKey) -> String {
        let test = group.workload.test.to_string();
        let rest = self.setting(group);
        if rest.is_empty() {
            test
        } else {
            format!("{test} · {rest}")
        }
    }

    /// `tcp_stream, 131 072 bytes, 4 instances, MTU 1500, offload on`: all that there is to say, but for the kind of guests.
    pub(in crate::report) fn in_full(group: &GroupKey) -> String {
        let guests = guests(group.setting.guests);
        let parts = DIMENSIONS.iter().map(|of| of(group));
        let parts = parts.filter(|part| !part.is_empty() && part != guests);
        let test = group.workload.test.to_string();
        let all: Vec<String> = std::iter::once(test).chain(parts).collect();
        all.join(", ")
    }

    /// `64 bytes · 8 instances`: the group without its test.
    pub(in crate::report) fn setting(&self, group: &GroupKey) -> String {
        let parts: Vec<String> = self
            .varies
            .iter()
            .map(|of| of(group))
            .filter(|part| !part.is_empty())
            .collect();
        parts.join(" · ")
    }

    /// The group without the dimension of `axis`: what two cells that are compared along it have in common.
    pub(in crate::report) fn common(&self, axis: Axis, group: &GroupKey) -> String {
        let own = other_setting(axis, group);
        let parts = self
            .varies
            .iter()
            .map(|of| of(group))
            .filter(|part| *part != own && !part.is_empty());
        let parts: Vec<String> = parts.collect();
        parts.join(" · ")
    }

    /// What the groups of some cells have in common besides these axes.
    pub(in crate::report) fn without(&self, axes: &[Axis], cells: &[&CellFigures<'_>]) -> String {
        let groups = || cells.iter().map(|f| &f.cell.key.group);
        let Some(first) = groups().next() else {
            return String::new();
        };
        let parts = self.varies.iter().map(|of| of(first)).filter(|part| {
            let varied = |axis: &Axis| groups().any(|group| other_setting(*axis, group) == *part);
            !part.is_empty() && !axes.iter().any(varied)
        });
        parts.collect::<Vec<_>>().join(" · ")
    }

    /// `kernel-vxlan, tcp_rr · 64 bytes · 8 instances`
    pub(in crate::report) fn cell(&self, key: &CellKey) -> String {
        format!("{}, {}", key.network(), self.group(&key.group))
    }

    /// The anchor of a cell's row.
    pub(in crate::report) fn anchor(&self, key: &CellKey) -> String {
        anchor(self.place(key))
    }

    /// The anchor of a comparison's row; all metrics of two cells share it.
    pub(in crate::report) fn comparison(&self, c: &Compared) -> String {
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
pub(in crate::report) fn anchor(place: usize) -> String {
    format!("cell-{place}")
}

/// One comparison for each pair of cells, whatever its metric.
pub(in crate::report) fn pairs<'c>(
    comparisons: impl Iterator<Item = &'c Compared>,
) -> Vec<&'c Compared> {
    let mut seen = std::collections::BTreeSet::new();
    comparisons
        .filter(|c| seen.insert((c.axis, c.a, c.b)))
        .collect()
}

/// `MTU 1500`: where the other side of a comparison stands.
pub(in crate::report) fn other_setting(axis: Axis, b: &GroupKey) -> String {
    match axis {
        Axis::Backend | Axis::Itself => String::new(),
        Axis::Mtu => format!("MTU {}", mtu_of(b)),
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
        Axis::Tuning => b.setting.tuning.words().to_owned(),
        Axis::GuestMemory => machine_memory(&b.setting),
        Axis::DirtyShare => moving(b, |moving| format!("{} % written", moving.dirty_percent)),
        Axis::DirtyRate => moving(b, |moving| {
            format!("written at {} MiB/s", moving.dirty_mib_per_second)
        }),
        Axis::Links => moving(b, |moving| counted(moving.links, "link")),
        Axis::Postcopy => moving(b, |moving| copying(moving).to_owned()),
        Axis::FarEnd | Axis::Model => far_end(&b.setting).to_owned(),
    }
}

/// What is said of how machines move; nothing where none does.
fn moving(group: &GroupKey, words: impl FnOnce(&Moving) -> String) -> String {
    group
        .workload
        .migration
        .as_ref()
        .map_or_else(String::new, words)
}

const fn copying(moving: &Moving) -> &'static str {
    if moving.postcopy {
        "postcopy"
    } else {
        "precopy"
    }
}

fn machine_memory(setting: &Setting) -> String {
    let memory = setting.guest_memory_mib;
    memory.map_or_else(String::new, |memory| format!("machines of {memory} MiB"))
}

/// The first letter as a sentence begins.
pub(in crate::report) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// `4 pairs`
pub(in crate::report) fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", fixed(f64::from(count), 0))
}

/// `64-byte frames`
pub(in crate::report) fn bytes(workload: &Workload) -> String {
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
    let offered = |rate, unit| format!("{} {unit} offered", fixed(f64::from(rate), 0));
    match (workload.rate_pps, workload.rate_mbps) {
        (Some(rate), _) => offered(rate, "pps"),
        (None, Some(rate)) => offered(rate, "Mbit/s"),
        (None, None) => "rate unlimited".to_owned(),
    }
}

/// Of the links where machines move, else of the guests.
pub(in crate::report) fn mtu_of(group: &GroupKey) -> String {
    match group.workload.migration {
        Some(_) => group.setting.mtu_class.link_mtu().to_string(),
        None => mtu(&group.setting).to_owned(),
    }
}

/// `1500`, `8900/9000`
pub(in crate::report) const fn mtu(setting: &Setting) -> &'static str {
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

/// What the guests are, in words.
pub(in crate::report) const fn guests(kind: GuestKind) -> &'static str {
    match kind {
        GuestKind::Veth => "containers",
        GuestKind::Tap | GuestKind::Qemu => "virtual machines",
    }
}

const fn family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// How the ratio was computed, for a table.
pub(in crate::report) fn method(compared: &Compared) -> String {
    match compared.result.method {
        Method::Paired => format!("{} pairs", compared.result.pairs),
        Method::Unpaired => "unpaired".to_owned(),
    }
}
