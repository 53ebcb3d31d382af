//! The published figures beside ours, as shapes: a ratio of two figures of one document against the
//! same ratio of two cells here. Absolute values of other hardware are never held against ours.

use crate::record::{BackendName, GroupKey, MtuClass};
use crate::results::{Analysis, Metric};
use crate::stats::Comparison;
use crate::study::PublishedRow;

/// One published ratio with ours beside it.
pub(super) struct Shape {
    /// `VXLAN, 1 stream: MTU 8900 against 1500`
    pub(super) title: String,
    /// The published ratio.
    pub(super) published: f64,
    /// The two figures behind it, in Gbit/s.
    pub(super) figures: (f64, f64),
    /// Ours, wire offload off (the published hardware's case) first.
    pub(super) ours: Vec<Ours>,
}

/// The same ratio here.
pub(super) struct Ours {
    /// `kernel-vxlan`, or `kernel-vxlan against bridge`.
    pub(super) label: String,
    /// Wire offload.
    pub(super) offload: bool,
    /// Ratio and interval.
    pub(super) result: Comparison,
}

/// Every shape that the published figures hold.
pub(super) fn shapes(analysis: &Analysis<'_>) -> Vec<Shape> {
    let mut out = Vec::new();
    for table in &analysis.run.study.published.tables {
        for top in &table.rows {
            for bottom in &table.rows {
                out.extend(title(top, bottom).and_then(|t| shape(analysis, t, top, bottom)));
            }
        }
    }
    out
}

/// The words for a pair of rows that differ on one axis, in the direction that is told.
fn title(top: &PublishedRow, bottom: &PublishedRow) -> Option<String> {
    let same_network = top.network == bottom.network;
    let same_class = class(top) == class(bottom);
    let plural = if top.streams == 1 { "" } else { "s" };
    let streams = format!("{} stream{plural}", top.streams);
    if same_network && top.streams == bottom.streams && top.mtu > bottom.mtu {
        return Some(format!(
            "{}, {streams}: MTU {} against {}",
            top.network, top.mtu, bottom.mtu
        ));
    }
    if same_class && top.streams == bottom.streams && overlay(top) && !overlay(bottom) {
        let mtu = if top.mtu == bottom.mtu {
            top.mtu.to_string()
        } else {
            format!("{}/{}", top.mtu, bottom.mtu)
        };
        return Some(format!(
            "{} against {}, MTU {mtu}, {streams}",
            top.network, bottom.network
        ));
    }
    (same_network && top.mtu == bottom.mtu && top.streams > bottom.streams).then(|| {
        format!(
            "{}, MTU {}: {streams} against {}",
            top.network, top.mtu, bottom.streams
        )
    })
}

fn shape(
    analysis: &Analysis<'_>,
    title: String,
    top: &PublishedRow,
    bottom: &PublishedRow,
) -> Option<Shape> {
    let published = top.goodput_gbps / bottom.goodput_gbps;
    let pairs: Vec<(BackendName, BackendName)> = if top.network == bottom.network {
        top.compare.iter().map(|&b| (b, b)).collect()
    } else {
        let with = |a: BackendName| bottom.compare.iter().map(move |&b| (a, b));
        top.compare.iter().flat_map(|&a| with(a)).collect()
    };
    let mut ours = Vec::new();
    for offload in [false, true] {
        for &(a, b) in &pairs {
            let (a_key, b_key) = (group(top, offload).cell(a), group(bottom, offload).cell(b));
            if let Some(compared) = analysis.comparison(a_key, b_key, Metric::Goodput) {
                let label = if a == b {
                    a.to_string()
                } else {
                    format!("{a} against {b}")
                };
                ours.push(Ours {
                    label,
                    offload,
                    result: compared.result.clone(),
                });
            }
        }
    }
    (published.is_finite() && published > 0.0).then_some(Shape {
        title,
        published,
        figures: (top.goodput_gbps, bottom.goodput_gbps),
        ours,
    })
}

fn group(row: &PublishedRow, offload: bool) -> GroupKey {
    GroupKey {
        mtu_class: class(row),
        streams: row.streams,
        offload,
    }
}

fn class(row: &PublishedRow) -> MtuClass {
    if row.mtu > 1500 {
        MtuClass::Jumbo
    } else {
        MtuClass::Standard
    }
}

fn overlay(row: &PublishedRow) -> bool {
    row.compare.iter().any(|b| b.is_overlay())
}
