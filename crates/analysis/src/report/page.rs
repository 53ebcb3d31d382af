//! The order of the report: what stands on the first page, and what follows.

use crate::record::{BackendName, CellKey, Encapsulation, GroupKey, Test};
use crate::results::{Analysis, Axis, CellFigures, Compared, Metric};
use crate::study::View;

use crate::report::answer::{Asked, screen};
use crate::report::block::{Block, Section};
use crate::report::glossary::VIRTUAL;
use crate::report::names::Names;
use crate::report::sections::{
    accounting, answers, cells, charts, comparisons, cpus, footing, heat, host, latency, published,
    searches, sizes, unmeasured,
};
use crate::report::views;

/// Settings that are shown at once; the others unfold.
const SHOWN: usize = 6;

/// A report, ready to be written.
pub(in crate::report) struct Page {
    /// The line over the title.
    pub(in crate::report) over: String,
    /// The title.
    pub(in crate::report) title: String,
    /// What comes before the first section.
    pub(in crate::report) intro: Vec<Block>,
    /// What everybody reads: the answer, and what the run says besides.
    pub(in crate::report) front: Vec<Section>,
    /// The evidence, which opens on demand; sections without data are left out.
    pub(in crate::report) appendix: Vec<Section>,
    /// The last line.
    pub(in crate::report) footer: String,
}

impl Page {
    /// The report of a run.
    pub(in crate::report) fn of(analysis: &Analysis<'_>) -> Self {
        let report = Report::of(analysis);
        let r = &report;
        let first = Asked::first(r);
        let mut front = vec![
            section("answer", "The answer", screen::blocks(r, &first)),
            section(
                "questions",
                "What the run says besides",
                answers::blocks(r, &first),
            ),
        ];
        let mut appendix = vec![section("matrix", "The matrix at a glance", heat::blocks(r))];
        appendix.extend(views::sections(r));
        appendix.extend([
            section("charts", "Figures and what they cost", charts::figures(r)),
            section("latency", "Latency", latency::blocks(r)),
            section("underlay", "Packets on the underlay", charts::underlay(r)),
            section("mtu", "MTU audit", sizes::blocks(r)),
            section("cpus", "What the CPUs did", cpus::blocks(r)),
            section(
                "accounting",
                "Where the packets stayed",
                accounting::blocks(r),
            ),
            section(
                "searches",
                "Searches of the highest rate",
                searches::blocks(r),
            ),
            section("cells", "Every cell", cells::blocks(r)),
            section("comparisons", "Every comparison", comparisons::blocks(r)),
            section(
                "published",
                "Beside the published study",
                published::blocks(r),
            ),
            section("missing", "What was not measured", unmeasured::cells(r)),
            section("warnings", "Warnings", unmeasured::warnings(r)),
            section("discarded", "Discarded samples", unmeasured::discarded(r)),
            section("method", "How it was measured", host::method(r)),
            section("footing", "On what footing", footing::blocks(r)),
            section("host", "The machine", host::blocks(r)),
            section("repeat", "Repeat it", host::repeat(r)),
        ]);
        for all in [&mut front, &mut appendix] {
            all.retain(|section| !section.blocks.is_empty());
        }
        Self {
            over: format!("Overlane laboratory · study {}", analysis.run.study.name),
            title: analysis.run.study.title.clone(),
            intro: vec![Block::Hint(analysis.run.study.question.clone())],
            front,
            appendix,
            footer: format!("Overlane {}. {VIRTUAL}", analysis.run.env.overlane_version),
        }
    }
}

/// A section.
pub(in crate::report) fn section(
    id: &'static str,
    title: &'static str,
    blocks: Vec<Block>,
) -> Section {
    Section { id, title, blocks }
}

/// A run with what all parts of its report need.
pub(in crate::report) struct Report<'a> {
    /// The run, analysed.
    pub(in crate::report) analysis: &'a Analysis<'a>,
    /// Names and anchors.
    pub(in crate::report) names: Names,
    headline: Vec<GroupKey>,
}

impl<'a> Report<'a> {
    /// What the parts of the report of a run need.
    pub(in crate::report) fn of(analysis: &'a Analysis<'a>) -> Self {
        Self {
            analysis,
            names: Names::of(analysis),
            headline: headline(analysis),
        }
    }

    /// The study's views.
    pub(in crate::report) fn views(&self) -> &'a [View] {
        &self.analysis.run.study.views
    }

    /// The cells of a group that were measured.
    pub(in crate::report) fn measured(&self, group: GroupKey) -> Vec<&CellFigures<'a>> {
        self.analysis
            .in_group(group)
            .filter(|figures| figures.is_measured())
            .collect()
    }

    /// The figures of a cell that was measured.
    pub(in crate::report) fn figures(&self, key: CellKey) -> Option<&CellFigures<'a>> {
        self.analysis
            .cell(key)
            .filter(|figures| figures.is_measured())
    }

    /// The groups of a test, those that the study puts first before the others.
    pub(in crate::report) fn groups(&self, keep: impl Fn(Test) -> bool) -> Vec<GroupKey> {
        let all = self
            .analysis
            .groups
            .iter()
            .copied()
            .filter(|g| keep(g.workload.test));
        let (mut first, rest): (Vec<_>, Vec<_>) = all.partition(|g| self.headline.contains(g));
        first.extend(rest);
        first
    }

    /// Is it one of the groups that the study puts first?
    pub(in crate::report) fn is_headline(&self, group: &GroupKey) -> bool {
        self.headline.contains(group)
    }

    /// The comparison of two cells, as it stands in `result.json` or computed in the same way.
    pub(in crate::report) fn compare(
        &self,
        axis: Axis,
        a: CellKey,
        b: CellKey,
        metric: Metric,
    ) -> Option<Compared> {
        let known = self.analysis.comparison(a, b, metric).cloned();
        known.or_else(|| self.analysis.compare(axis, a, b, metric))
    }

    /// The network that the others of a group are held against: the study's baseline, else a plain one, else the limit.
    pub(in crate::report) fn baseline(&self, group: GroupKey) -> Option<CellKey> {
        let asked = self.views().iter().filter_map(|view| match view {
            View::CpuSteps { baseline, .. } => Some(baseline.iter().copied()),
            _ => None,
        });
        let plain = BackendName::ALL.into_iter().filter(|b| {
            *b != BackendName::Direct && b.encapsulation() == Encapsulation::None
                || b.encapsulation() == Encapsulation::Vlan
        });
        let others = [
            BackendName::KernelVxlan,
            BackendName::OverlaneVxlan,
            BackendName::Direct,
        ];
        asked
            .flatten()
            .chain(plain)
            .chain(others)
            .map(|backend| group.cell(backend))
            .find(|key| self.figures(*key).is_some_and(|f| f.primary().is_some()))
    }

    /// Blocks group by group: the first at once, the rest unfolded on demand.
    pub(in crate::report) fn by_group(
        &self,
        keep: impl Fn(Test) -> bool,
        blocks: impl Fn(GroupKey) -> Vec<Block>,
    ) -> Vec<Block> {
        let made = self
            .groups(keep)
            .into_iter()
            .map(blocks)
            .filter(|made| !made.is_empty());
        let mut made: Vec<Vec<Block>> = made.collect();
        let rest = made.split_off(made.len().min(SHOWN));
        let mut out: Vec<Block> = made.into_iter().flatten().collect();
        if !rest.is_empty() {
            let title = format!("{} more settings", rest.len());
            out.push(Block::Folded(title, rest.into_iter().flatten().collect()));
        }
        out
    }
}

/// The groups that the study itself puts first (its quick matrix), where the run has them.
fn headline(analysis: &Analysis<'_>) -> Vec<GroupKey> {
    let quick = &analysis.run.study.quick.groups;
    let first = |g: &GroupKey| {
        let (w, s) = (&g.workload, &g.setting);
        quick.iter().any(|axes| {
            axes.tests.contains(&w.test)
                && axes.bytes.contains(&w.bytes)
                && axes.instances.contains(&w.instances)
                && axes.mtu.contains(&s.mtu_class)
                && axes.offload.contains(&s.offload)
                && axes.pairs.contains(&s.pairs)
                && (axes.moves() || axes.guests.contains(&s.guests))
                && axes.vnis.contains(&s.vnis)
                && axes.feature.contains(&s.feature)
                && axes.tuning.contains(&s.tuning)
        })
    };
    analysis.groups.iter().copied().filter(first).collect()
}
