//! The answers in words: sentences made from comparisons, and the explanations around them.
//!
//! The same sentences go to the page, to Markdown and to the terminal.

use crate::record::{BackendName, CellKey, GroupKey, MtuClass};
use crate::results::{Analysis, Axis, Compared, Metric};
use crate::stats::{Method, Verdict};

use super::numbers::{mean, ratio, ratio_interval};

/// What a run answers: questions with their findings, the most important first.
pub(super) struct Answer {
    /// The question.
    pub(super) question: &'static str,
    /// How to read the findings; may be empty.
    pub(super) note: &'static str,
    /// The findings.
    pub(super) findings: Vec<Finding>,
}

/// One sentence: two cells compared by goodput and by CPU.
pub(super) struct Finding {
    /// `With offload on, MTU 1500 and 4 streams, overlane-vxlan against kernel-vxlan`
    pub(super) setting: String,
    /// `carries ×1.42 [1.38, 1.45] the goodput`, and what that says.
    pub(super) goodput: Option<Clause>,
    /// `costs ×0.70 [0.68, 0.72] the CPU per Gbit/s`, and what that says.
    pub(super) cpu: Option<Clause>,
    /// What explains it; may be empty.
    pub(super) why: String,
    /// The row of the comparison table.
    pub(super) anchor: String,
}

/// Half a sentence with its verdict.
pub(super) struct Clause {
    /// The words.
    pub(super) text: String,
    /// The verdict.
    pub(super) verdict: Verdict,
}

impl Finding {
    /// The whole sentence as plain text.
    pub(super) fn sentence(&self) -> String {
        let clause = |c: &Clause| format!("{}: {} {}", c.text, mark(c.verdict), c.verdict.words());
        let clauses: Vec<_> = [&self.goodput, &self.cpu]
            .into_iter()
            .flatten()
            .map(clause)
            .collect();
        let why = if self.why.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.why)
        };
        format!("{} {}{why}.", self.setting, clauses.join("; "))
    }
}

/// The mark beside a verdict, so that colour is never needed to read it.
pub(super) fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::CannotTell => "◆",
    }
}

/// The answers of a run.
pub(super) fn answers(analysis: &Analysis<'_>) -> Vec<Answer> {
    let groups = headline(analysis);
    let against = |b: BackendName, keep: fn(BackendName) -> bool| {
        let axis = |c: &&Compared| c.axis == Axis::Backend && c.b.backend == b;
        findings(analysis, |c| {
            axis(&c) && keep(c.a.backend) && groups.contains(&c.a.group())
        })
    };
    let overlay = |b: BackendName| b.is_overlay();
    let mut answers = vec![
        Answer {
            question: "Does it beat the kernel’s own VXLAN?",
            note: "",
            findings: against(BackendName::KernelVxlan, overlay),
        },
        Answer {
            question: "What does the overlay cost against a plain bridge without one?",
            note: "×1.00 would be an overlay that costs nothing.",
            findings: against(BackendName::Bridge, overlay),
        },
        Answer {
            question: "Does a jumbo MTU pay?",
            note: "8900 bytes in an overlay, 9000 without one, against 1500. With offload on, \
                   super-packets cross the wire whole and hide the MTU; so this is the wire that segments.",
            findings: findings(analysis, |c| c.axis == Axis::Mtu && !c.a.offload),
        },
        Answer {
            question: "Geneve or VXLAN?",
            note: "The same switch with the other encapsulation.",
            findings: findings(analysis, |c| {
                c.axis == Axis::Backend
                    && c.a.backend.is_overlay()
                    && c.b.backend.is_overlay()
                    && c.b.backend != BackendName::KernelVxlan
                    && groups.contains(&c.a.group())
            }),
        },
    ];
    answers.retain(|answer| !answer.findings.is_empty());
    answers
}

/// One sentence for the top: how often each overlay of ours beat the kernel's.
pub(super) fn in_short(analysis: &Analysis<'_>) -> Option<String> {
    let counts: Vec<String> = [BackendName::OverlaneVxlan, BackendName::OverlaneGeneve]
        .into_iter()
        .filter_map(|a| count_against(analysis, a, BackendName::KernelVxlan))
        .collect();
    (!counts.is_empty()).then(|| format!("{}.", counts.join("; ")))
}

fn count_against(analysis: &Analysis<'_>, a: BackendName, b: BackendName) -> Option<String> {
    let count = |verdict: Verdict| {
        let hit = |c: &&Compared| {
            c.axis == Axis::Backend
                && (c.a.backend, c.b.backend, c.metric) == (a, b, Metric::Goodput)
                && c.result.verdict == verdict
        };
        analysis.comparisons.iter().filter(hit).count()
    };
    let (better, worse) = (count(Verdict::Better), count(Verdict::Worse));
    let total = better + worse + count(Verdict::CannotTell);
    let settings = if total == 1 { "setting" } else { "settings" };
    (total > 0).then(|| {
        format!(
            "{a} carries more than {b} in {better} of {total} {settings}, less in {worse}, and in {} one \
             cannot tell",
            total - better - worse
        )
    })
}

/// The settings that the study itself puts first (its quick matrix), where the run has them.
fn headline(analysis: &Analysis<'_>) -> Vec<GroupKey> {
    let quick = &analysis.run.study.quick.groups;
    let first = |g: &GroupKey| {
        quick.iter().any(|axes| {
            axes.mtu.contains(&g.mtu_class)
                && axes.streams.contains(&g.streams)
                && axes.offload.contains(&g.offload)
        })
    };
    let headline: Vec<_> = analysis.groups.iter().copied().filter(first).collect();
    if headline.is_empty() {
        analysis.groups.clone()
    } else {
        headline
    }
}

fn findings(analysis: &Analysis<'_>, keep: impl Fn(&Compared) -> bool) -> Vec<Finding> {
    let mut out: Vec<Finding> = Vec::new();
    for compared in analysis.comparisons.iter().filter(|c| keep(c)) {
        let anchor = anchor(compared);
        if !out.iter().any(|f| f.anchor == anchor) {
            out.push(finding(analysis, compared, anchor));
        }
    }
    out
}

fn finding(analysis: &Analysis<'_>, c: &Compared, anchor: String) -> Finding {
    let (a, b) = (c.a, c.b);
    let setting = if c.axis == Axis::Mtu {
        let (streams, offload) = (streams(a.streams), offload(a.offload));
        format!(
            "With {offload} and {streams}, {} at MTU {} against {}",
            a.backend, a.mtu, b.mtu
        )
    } else {
        format!(
            "With {}, {} against {}",
            group_words(a),
            a.backend,
            b.backend
        )
    };
    let why = if c.axis == Axis::Mtu {
        packets(analysis, b, a)
    } else {
        String::new()
    };
    let clause = |metric, verb: &str, what: &str| {
        let result = &analysis.comparison(a, b, metric)?.result;
        let interval = ratio_interval(result.ci95);
        let space = if interval.is_empty() { "" } else { " " };
        let text = format!("{verb} {}{space}{interval} {what}", ratio(result.ratio?));
        Some(Clause {
            text,
            verdict: result.verdict,
        })
    };
    Finding {
        setting,
        goodput: clause(Metric::Goodput, "carries", "the goodput"),
        cpu: clause(Metric::CpuPerGbps, "costs", "the CPU per Gbit/s"),
        why,
        anchor,
    }
}

/// Study A's explanation: how many packets, and how large.
fn packets(analysis: &Analysis<'_>, from: CellKey, to: CellKey) -> String {
    let figure = |key, metric| analysis.cell(key).and_then(|f| f.get(metric));
    let text = |metric| {
        let (x, y) = (figure(from, metric)?, figure(to, metric)?);
        Some((mean(metric, Some(x)), mean(metric, Some(y))))
    };
    match (text(Metric::UnderlayPacket), text(Metric::UnderlayRate)) {
        (Some((b, b2)), Some((r, r2))) => {
            format!("mean packet on the underlay {b} → {b2} B, {r} → {r2} thousand packets/s")
        }
        _ => String::new(),
    }
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

fn streams(count: u32) -> String {
    format!("{count} stream{}", if count == 1 { "" } else { "s" })
}

fn offload(on: bool) -> &'static str {
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
        BackendName::OvsVxlan => "Open vSwitch in userspace, VXLAN",
        BackendName::OvsGeneve => "Open vSwitch in userspace, Geneve",
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
