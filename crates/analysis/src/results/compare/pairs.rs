//! Which cells of the two sides belong together.

use super::network::Network;
use crate::record::{Cell, CellKey, Feature, Run};

/// Two cells that belong together; `None` where a plan does not have it.
pub(super) struct Pair<'a> {
    pub(super) name: String,
    pub(super) a: Option<&'a Cell>,
    pub(super) b: Option<&'a Cell>,
}

/// The cells of both sides, in the order of the baseline's plan, then what the candidate has besides.
pub(super) fn pairs<'a>(
    baseline: &'a Run,
    candidate: Option<&'a Run>,
    networks: Option<(Network, Network)>,
) -> Vec<Pair<'a>> {
    let other = candidate.unwrap_or(baseline);
    let is_of = |network: Option<Network>| {
        move |cell: &&Cell| network.is_none_or(|n| n.has(&cell.key) && cell.key.copy == 0)
    };
    // What both sides share: not the network, nor its feature where the sides name theirs.
    let name = |key: CellKey| match networks {
        Some((a, _)) => {
            let mut group = key.group;
            if a.feature.is_some() {
                group.setting.feature = Feature::Default;
            }
            group.to_string()
        }
        None => key.to_string(),
    };
    let find = |run: &'a Run, key: CellKey| run.cells.iter().find(|cell| cell.key == key);
    let counterpart =
        |key: CellKey, network: Option<Network>| network.map_or(key, |n| n.counterpart(key));
    let (to_a, to_b) = networks.unzip();
    // A network against itself within one run: its second copy stands for the candidate.
    let copy = u8::from(candidate.is_none() && to_a == to_b);
    let mut out: Vec<Pair<'a>> = baseline
        .cells
        .iter()
        .filter(is_of(to_a))
        .map(|cell| Pair {
            name: name(cell.key),
            a: Some(cell),
            b: find(
                other,
                CellKey {
                    copy: cell.key.copy + copy,
                    ..counterpart(cell.key, to_b)
                },
            ),
        })
        .collect();
    if copy == 0 {
        let missing = other
            .cells
            .iter()
            .filter(is_of(to_b))
            .filter(|cell| find(baseline, counterpart(cell.key, to_a)).is_none());
        out.extend(missing.map(|cell| Pair {
            name: name(cell.key),
            a: None,
            b: Some(cell),
        }));
    }
    // Groups that a study measures with one of the networks only are not missing with the other.
    out.retain(|pair| candidate.is_some() || (pair.a.is_some() && pair.b.is_some()));
    out
}
