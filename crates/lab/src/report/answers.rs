//! The answers of a run: which comparisons the reader is told first, and the sentences made from them.
//!
//! The same sentences go to the page, to Markdown and to the terminal.

use crate::record::{BackendName, CellKey, Encapsulation, GroupKey};
use crate::results::{Analysis, Axis, Compared, Metric};
use crate::stats::Verdict;

use super::numbers::{mean, ratio, ratio_interval};
use super::words::{anchor, group_words, mark, offload, pairs, streams};

/// One question that a run answers.
pub(super) struct Answer {
    /// The question.
    pub(super) question: &'static str,
    /// How to read the findings; may be empty.
    pub(super) note: &'static str,
    /// The findings by the setting that they hold for.
    pub(super) settings: Vec<Setting>,
}

/// Findings under one setting.
pub(super) struct Setting {
    /// `With offload on, MTU 1500 and 4 streams`
    pub(super) with: String,
    /// The findings.
    pub(super) findings: Vec<Finding>,
}

/// One sentence: two cells compared by goodput and by CPU.
pub(super) struct Finding {
    /// The network that it is about.
    pub(super) backend: BackendName,
    /// ` at MTU 8900`, where that is what differs.
    pub(super) at: String,
    /// The clauses: goodput, CPU.
    pub(super) clauses: Vec<Clause>,
    /// What explains it; may be empty.
    pub(super) why: String,
    /// The row of the comparison table.
    pub(super) anchor: String,
}

/// A part of a sentence with its verdict.
pub(super) struct Clause {
    /// `carries`
    pub(super) verb: &'static str,
    /// `×1.42 [1.38, 1.45]`
    pub(super) figure: String,
    /// `the goodput of kernel-vxlan`
    pub(super) object: String,
    /// The verdict.
    pub(super) verdict: Verdict,
}

impl Setting {
    /// One whole sentence for each finding, as plain text.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        self.findings.iter().map(|finding| {
            let Finding {
                backend,
                at,
                clauses,
                why,
                ..
            } = finding;
            let clause = |c: &Clause| {
                let Clause {
                    verb,
                    figure,
                    object,
                    verdict,
                } = c;
                format!(
                    "{verb} {figure} {object}: {} {}",
                    mark(*verdict),
                    verdict.words()
                )
            };
            let clauses: Vec<_> = clauses.iter().map(clause).collect();
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(" ({why})")
            };
            format!("{}, {backend}{at} {}{why}.", self.with, clauses.join("; "))
        })
    }
}

/// The answers of a run.
pub(super) fn answers(analysis: &Analysis<'_>) -> Vec<Answer> {
    let groups = headline(analysis);
    let between = |a: fn(BackendName) -> bool, b: fn(BackendName) -> bool| {
        settings(analysis, |c| {
            c.axis == Axis::Backend
                && a(c.a.backend)
                && b(c.b.backend)
                && groups.contains(&c.a.group())
        })
    };
    let mut answers = vec![
        Answer {
            question: "Does Overlane beat the kernel’s own VXLAN?",
            note: "",
            settings: between(is_ours, |b| b == BackendName::KernelVxlan),
        },
        Answer {
            question: "What does an overlay cost against a plain bridge without one?",
            note: "×1.00 would be an overlay that costs nothing.",
            settings: between(
                |a| a.is_overlay() && !is_ovs(a),
                |b| b == BackendName::Bridge,
            ),
        },
        Answer {
            question: "What does the tunnel cost against a VLAN on the same switch?",
            note: "The same program, with an 802.1Q tag in place of the tunnel's headers.",
            settings: between(
                |a| a.is_overlay(),
                |b| b.encapsulation() == Encapsulation::Vlan,
            ),
        },
        Answer {
            question: "Does a jumbo MTU pay?",
            note: "8900 bytes in an overlay, 9000 without one, against 1500. With offload on, \
                   super-packets cross the wire whole and hide the MTU; so this is the wire that segments.",
            settings: settings(analysis, |c| c.axis == Axis::Mtu && !c.a.offload),
        },
        Answer {
            question: "Geneve or VXLAN?",
            note: "The same switch with the other encapsulation.",
            settings: between(
                |a| a.encapsulation() == Encapsulation::Geneve,
                |b| b.is_overlay() && b != BackendName::KernelVxlan,
            ),
        },
        Answer {
            question: "And Open vSwitch in userspace?",
            note: "",
            settings: between(is_ovs, |b| b == BackendName::KernelVxlan),
        },
    ];
    answers.retain(|answer| !answer.settings.is_empty());
    answers
}

fn is_ours(backend: BackendName) -> bool {
    matches!(
        backend,
        BackendName::OverlaneVxlan | BackendName::OverlaneGeneve
    )
}

fn is_ovs(backend: BackendName) -> bool {
    matches!(backend, BackendName::OvsVxlan | BackendName::OvsGeneve)
}

/// The answer in one sentence: how often each overlay of ours carries more than the kernel's.
pub(super) fn in_short(analysis: &Analysis<'_>) -> Option<String> {
    let counts: Vec<String> = analysis
        .backends()
        .filter(|&backend| is_ours(backend))
        .filter_map(|backend| count_against(analysis, backend, BackendName::KernelVxlan))
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
    let unclear = count(Verdict::CannotTell);
    let total = better + worse + unclear;
    let mut rest = Vec::new();
    if worse > 0 {
        rest.push(format!("less in {worse}"));
    }
    if unclear > 0 {
        rest.push(format!("in {unclear} one cannot tell"));
    }
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!(" ({})", rest.join(", "))
    };
    let settings = if total == 1 { "setting" } else { "settings" };
    (total > 0)
        .then(|| format!("{a} carries more than {b} in {better} of {total} {settings}{rest}"))
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

fn settings(analysis: &Analysis<'_>, keep: impl Fn(&Compared) -> bool) -> Vec<Setting> {
    let mut out: Vec<Setting> = Vec::new();
    for compared in pairs(analysis.comparisons.iter().filter(|c| keep(c))) {
        let (a, mtu) = (compared.a, compared.axis == Axis::Mtu);
        let with = if mtu {
            format!("With {} and {}", offload(a.offload), streams(a.streams))
        } else {
            format!("With {}", group_words(a))
        };
        let finding = finding(analysis, compared);
        match out.iter_mut().find(|setting| setting.with == with) {
            Some(setting) => setting.findings.push(finding),
            None => out.push(Setting {
                with,
                findings: vec![finding],
            }),
        }
    }
    out
}

fn finding(analysis: &Analysis<'_>, c: &Compared) -> Finding {
    let (a, b) = (c.a, c.b);
    let (at, other, why) = if c.axis == Axis::Mtu {
        (
            format!(" at MTU {}", a.mtu),
            format!("MTU {}", b.mtu),
            packets(analysis, b, a),
        )
    } else {
        (String::new(), b.backend.to_string(), String::new())
    };
    let clause = |metric, verb, object| {
        let result = &analysis.comparison(a, b, metric)?.result;
        let figure = format!("{} {}", ratio(result.ratio?), ratio_interval(result.ci95));
        Some(Clause {
            verb,
            figure: figure.trim_end().to_owned(),
            object,
            verdict: result.verdict,
        })
    };
    let goodput = clause(
        Metric::Goodput,
        "carries",
        format!("the goodput of {other}"),
    );
    let cpu = clause(Metric::CpuPerGbps, "costs", "its CPU per Gbit/s".to_owned());
    let clauses = [goodput, cpu].into_iter().flatten().collect();
    Finding {
        backend: a.backend,
        at,
        clauses,
        why,
        anchor: anchor(c),
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
