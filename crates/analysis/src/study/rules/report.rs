//! Rules of views and published figures: they have to find their cells.

use crate::plan::Plan;
use crate::record::{BackendName, CellKey, Feature};
use crate::results::Metric;
use crate::study::check::Found;
use crate::study::{Published, PublishedRatio, Selector, Study, View, near, tree};

pub(super) fn look(study: &Study, found: &mut Vec<Found>) {
    let matrices = [&study.matrix, &study.quick];
    let cells: Vec<CellKey> = matrices
        .into_iter()
        .flat_map(|matrix| Plan::new(matrix).cells().collect::<Vec<_>>())
        .collect();
    for (index, view) in study.views.iter().enumerate() {
        let path = format!("views[{index}]");
        if study.views[..index].contains(view) {
            found.push(Found::of(
                path.as_str(),
                "the same view stands before",
                "remove one of them",
            ));
        }
        look_at_view(&path, view, &cells, found);
    }
    look_at_published(&study.published, &cells, found);
}

fn look_at_view(path: &str, view: &View, cells: &[CellKey], found: &mut Vec<Found>) {
    let any = |wanted: fn(&CellKey) -> bool| cells.iter().any(wanted);
    match view {
        View::PacketRate | View::GuestCpu => {}
        View::Migrations => {
            if !any(|cell| cell.group.workload.migration.is_some()) {
                let help = "add migration, or remove the view";
                found.push(Found::of(
                    path,
                    "no test of the matrix moves machines",
                    help,
                ));
            }
        }
        View::Difference { pairs } => look_at_pairs(path, pairs, cells, found),
        View::FrameTable { pairs } => {
            look_at_pairs(path, pairs, cells, found);
            if !any(|cell| cell.group.workload.test.is_frames()) {
                let help = "add udp_stream or frame_stream, or remove the view";
                found.push(Found::of(path, "no test of the matrix sends frames", help));
            }
        }
        View::CpuSteps {
            baseline,
            steps,
            features,
            at_gbps,
            cores,
        } => {
            look_at_backends(&format!("{path}.baseline"), baseline, cells, found);
            look_at_backends(&format!("{path}.steps"), steps, cells, found);
            look_at_features(&format!("{path}.features"), features, cells, found);
            if !(at_gbps.is_finite() && *at_gbps > 0.0) {
                let message = format!("`{at_gbps}` is no rate");
                found.push(Found::of(
                    format!("{path}.at_gbps"),
                    message,
                    "write more than 0",
                ));
            }
            if *cores == 0 {
                found.push(Found::of(
                    format!("{path}.cores"),
                    "a host has no 0 cores",
                    "write 1 or more",
                ));
            }
            if !any(|cell| cell.group.workload.test.is_tcp_stream()) {
                let help = "add tcp_stream, or remove the view";
                found.push(Found::of(
                    path,
                    "no test of the matrix is a TCP stream",
                    help,
                ));
            }
        }
        View::Vnis => {
            let first = cells.first().map(|cell| cell.group.setting.vnis);
            if cells
                .iter()
                .all(|cell| Some(cell.group.setting.vnis) == first)
            {
                let help = "name several under `vnis`, or remove the view";
                found.push(Found::of(
                    path,
                    "the matrix has one number of switches only",
                    help,
                ));
            }
        }
    }
}

fn look_at_pairs(
    path: &str,
    pairs: &[(BackendName, BackendName)],
    cells: &[CellKey],
    found: &mut Vec<Found>,
) {
    if pairs.is_empty() {
        let message = "the list is empty: nothing would be compared";
        found.push(Found::of(
            format!("{path}.pairs"),
            message,
            "write `[[a, b]]`",
        ));
    }
    for (index, (a, b)) in pairs.iter().enumerate() {
        let path = format!("{path}.pairs[{index}]");
        if a == b {
            let message = format!("`{a}` is compared with itself");
            found.push(Found::of(
                path.as_str(),
                message,
                "name two networks, or use `against_itself` in the matrix",
            ));
        }
        look_at_backends(&path, &[*a, *b], cells, found);
    }
}

/// Backends that are to be found in the matrix.
fn look_at_backends(
    path: &str,
    backends: &[BackendName],
    cells: &[CellKey],
    found: &mut Vec<Found>,
) {
    if backends.is_empty() {
        found.push(Found::of(
            path,
            "the list is empty",
            "name at least one network",
        ));
    }
    for (index, name) in backends.iter().enumerate() {
        if !cells.iter().any(|cell| cell.backend == *name) {
            let message = format!("no cell of the matrix measures `{name}`");
            let help = "add it to the networks, or remove it here";
            found.push(Found::of(format!("{path}[{index}]"), message, help));
        }
    }
}

/// Features of TCP streams that are to be found in the matrix, beside the same network as it comes.
fn look_at_features(path: &str, features: &[Feature], cells: &[CellKey], found: &mut Vec<Found>) {
    for (index, &feature) in features.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if feature == Feature::Default {
            let message = "`default` is what each feature is held against";
            found.push(Found::of(path, message, "remove it here"));
            continue;
        }
        let has_step = |base: &CellKey| {
            let group = base.group.with_feature(feature);
            base.group.workload.test.is_tcp_stream() && cells.contains(&group.cell(base.backend))
        };
        let mut bases = cells.iter();
        if !bases.any(|cell| cell.group.setting.feature == Feature::Default && has_step(cell)) {
            let message = format!(
                "no network of the matrix has a TCP stream with `{feature}` and the same as it comes"
            );
            let help = "add it under `feature` to a group, or remove it here";
            found.push(Found::of(path, message, help));
        }
    }
}

fn look_at_published(published: &Published, cells: &[CellKey], found: &mut Vec<Found>) {
    for (index, table) in published.tables.iter().enumerate() {
        for (row_index, row) in table.rows.iter().enumerate() {
            let (values, columns) = (row.values.len(), table.columns.len());
            if values + 1 != columns {
                found.push(Found::of(
                    format!("published.tables[{index}].rows[{row_index}].values"),
                    format!("{values} values for {columns} columns"),
                    "one for each column but the first, which is the row's name; `null` where the document has none",
                ));
            }
        }
    }
    for (index, ratio) in published.ratios.iter().enumerate() {
        look_at_ratio(&format!("published.ratios[{index}]"), ratio, cells, found);
    }
}

fn look_at_ratio(path: &str, ratio: &PublishedRatio, cells: &[CellKey], found: &mut Vec<Found>) {
    let known = Metric::ALL.map(Metric::key);
    if !known.contains(&ratio.metric.as_str()) {
        let message = format!("there is no quantity `{}`", tree::shown(&ratio.metric));
        found.push(Found::of(
            format!("{path}.metric"),
            message,
            near::help(&ratio.metric, &known),
        ));
    }
    let (a, b) = ratio.published;
    if ![a, b]
        .iter()
        .all(|figure| figure.is_finite() && *figure > 0.0)
    {
        let message = format!("{a} / {b} is no ratio");
        found.push(Found::of(
            format!("{path}.published"),
            message,
            "write two figures above 0",
        ));
    }
    if ratio.a.backends.len() != ratio.b.backends.len() {
        let message = "its networks pair with those of `a`, and are not as many";
        let help = "name a partner for each, in the same order";
        found.push(Found::of(format!("{path}.b.networks"), message, help));
    }
    for (side, selector) in [("a", &ratio.a), ("b", &ratio.b)] {
        let path = format!("{path}.{side}");
        if selector.backends.is_empty() {
            found.push(Found::of(
                format!("{path}.networks"),
                "the list is empty",
                "name at least one network",
            ));
        } else if let Some(name) = selector.without_cell(cells) {
            let message = format!("no cell of the matrix is what this selects with `{name}`");
            found.push(Found::of(
                path,
                message,
                "`overlane lab plan` prints all cells",
            ));
        }
    }
}

impl Selector {
    /// The first of its backends of which no cell is selected.
    fn without_cell(&self, cells: &[CellKey]) -> Option<BackendName> {
        let selected = |name: &BackendName| {
            let mut cells = cells.iter();
            cells.any(|cell| cell.backend == *name && self.selects(cell))
        };
        self.backends.iter().copied().find(|name| !selected(name))
    }
}
