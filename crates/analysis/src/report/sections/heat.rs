//! The heat map: settings down, networks across, colour by the difference from a baseline, the figure in each cell.

use crate::record::{BackendName, CellKey, Feature, GroupKey, Test};
use crate::results::{Axis, CellFigures, Compared, Metric};
use crate::stats::Verdict;

use crate::report::block::{Block, Column, Field, Row, Table};
use crate::report::names::mark;
use crate::report::numbers::{NONE, fixed, heading, name, ratio, unit, value};
use crate::report::page::Report;

/// The maps of a run: for each test the figure, then its cost.
pub(in crate::report) fn blocks(r: &Report<'_>) -> Vec<Block> {
    let maps: Vec<Block> = r
        .analysis
        .tests()
        .flat_map(|test| {
            [Metric::primary(test), Metric::cost(test)].map(|metric| map(r, test, metric))
        })
        .flatten()
        .map(Block::Table)
        .collect();
    if maps.is_empty() {
        return maps;
    }
    let hint = "The colour is the difference from the baseline of the row, ▲ better and ▼ worse than it; grey with ◆ where the \
                samples do not say, and with ≠ where the two are not comparable. Each figure leads to its cell.";
    std::iter::once(Block::Hint(hint.to_owned()))
        .chain(maps)
        .collect()
}

fn map(r: &Report<'_>, test: Test, metric: Metric) -> Option<Table> {
    let groups: Vec<GroupKey> = r
        .analysis
        .groups
        .iter()
        .copied()
        .filter(|g| g.workload.test == test)
        .collect();
    let networks = networks(r, &groups);
    let any = groups
        .iter()
        .any(|&g| r.measured(g).iter().any(|f| f.get(metric).is_some()));
    if !any || networks.is_empty() {
        return None;
    }
    let mut table = Table::new(format!("{test}: {}", heading(metric)), &["Setting"]);
    table.columns.extend(networks.iter().map(|(backend, copy)| {
        Column {
            title: groups
                .first()
                .map(|g| {
                    CellKey {
                        copy: *copy,
                        ..g.cell(*backend)
                    }
                    .network()
                })
                .unwrap_or_default(),
            number: true,
        }
    }));
    Some(
        table.with(
            groups
                .into_iter()
                .map(|group| row(r, group, metric, &networks)),
        ),
    )
}

/// The networks of some groups, in the order in which tables show them.
fn networks(r: &Report<'_>, groups: &[GroupKey]) -> Vec<(BackendName, u8)> {
    let cells = r
        .analysis
        .cells
        .iter()
        .filter(|f| groups.contains(&f.cell.key.group));
    let keys: std::collections::BTreeSet<_> = cells
        .map(|f| (f.cell.key.backend, f.cell.key.copy))
        .collect();
    keys.into_iter().collect()
}

fn row(r: &Report<'_>, group: GroupKey, metric: Metric, networks: &[(BackendName, u8)]) -> Row {
    let baseline = r.baseline(group);
    let setting = r.names.setting(&group);
    let plain = group.with_feature(Feature::Default);
    let has_plain = plain != group
        && networks
            .iter()
            .any(|of| as_it_comes(r, plain, *of).is_some());
    let against = match baseline {
        _ if has_plain => "against the same as it comes".to_owned(),
        Some(key) => format!("against {}", key.network()),
        None => String::new(),
    };
    let head = Field::text(setting).small(against);
    let cells = networks.iter().map(|&(backend, copy)| {
        let key = CellKey {
            copy,
            ..group.cell(backend)
        };
        let own = has_plain.then(|| as_it_comes(r, plain, (backend, copy)));
        match r.analysis.cell(key) {
            Some(figures) => field(r, figures, own.unwrap_or(baseline), metric),
            None => Field::text(""),
        }
    });
    Row::of(std::iter::once(head).chain(cells))
}

/// The network without the feature of a row, where it was measured: what its figure with the feature is held against.
fn as_it_comes(
    r: &Report<'_>,
    plain: GroupKey,
    (backend, copy): (BackendName, u8),
) -> Option<CellKey> {
    let key = CellKey {
        copy,
        ..plain.cell(backend)
    };
    r.figures(key).map(|_| key)
}

fn field(
    r: &Report<'_>,
    figures: &CellFigures<'_>,
    baseline: Option<CellKey>,
    metric: Metric,
) -> Field {
    let key = figures.cell.key;
    let Some(summary) = figures.get(metric).filter(|_| figures.is_measured()) else {
        let (word, _) = crate::results::status(&figures.cell.status);
        let word = if word == "ok" { NONE } else { word };
        return Field::text(word).to(r.names.anchor(&key));
    };
    let shown = Field::number(value(metric, summary.mean), summary.mean).to(r.names.anchor(&key));
    let Some(other) = baseline else {
        return shown;
    };
    let axis = match (key.backend == other.backend, key.group == other.group) {
        _ if key == other => return shown.small("baseline"),
        (_, false) => Axis::Feature,
        (true, true) => Axis::Itself,
        (false, true) => Axis::Backend,
    };
    let Some(compared) = r.compare(axis, key, other, metric) else {
        return shown;
    };
    match strength(&compared) {
        Some((heat, words)) => Field {
            heat: Some(heat),
            ..shown.small(words)
        },
        None => shown,
    }
}

/// (−5…5, `▼ −13 %`): how strong a difference is, and in which direction it is good.
pub(in crate::report) fn strength(compared: &Compared) -> Option<(i8, String)> {
    let result = &compared.result;
    let ratio_ = result.ratio?;
    let percent = 100.0 * (ratio_ - 1.0);
    let words = if (0.1..3.0).contains(&ratio_) {
        let digits = usize::from(percent.abs() < 9.95);
        let sign = if percent > 0.0 { "+" } else { "" };
        format!("{sign}{} %", fixed(percent, digits))
    } else {
        ratio(ratio_)
    };
    let far = (ratio_.max(1e-6).ln().abs() / 0.08).ceil().clamp(1.0, 5.0) as i8;
    let heat = match result.verdict {
        Verdict::Better => far,
        Verdict::Worse => -far,
        Verdict::Same | Verdict::CannotTell | Verdict::NotComparable => 0,
    };
    Some((heat, format!("{} {words}", mark(result.verdict))))
}

/// The caption of a chart or table of one metric.
pub(in crate::report) fn caption(metric: Metric) -> String {
    let unit = unit(metric);
    if unit.is_empty() {
        name(metric).to_owned()
    } else {
        format!("{}, {unit}", name(metric))
    }
}
