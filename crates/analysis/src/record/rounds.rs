//! The rounds of a run: what is measured in turn has whole rounds, or none.

use super::{Cell, CellKey, CellStatus, Setting, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// A round in which some of the cells that take turns has a sample and another has none is measured anew by all: pairs are
/// taken in turn, not hours apart.
pub fn discard_broken(cells: &mut [Cell]) {
    let mut rounds = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.status == CellStatus::Open) {
        let known: BTreeSet<u32> = cell.counted().map(|sample| sample.round).collect();
        let all = rounds
            .entry(turn(&cell.key))
            .or_insert_with(|| known.clone());
        all.retain(|round| known.contains(round));
    }
    for cell in cells
        .iter_mut()
        .filter(|cell| cell.status == CellStatus::Open)
    {
        let complete = rounds.get(&turn(&cell.key));
        for sample in &mut cell.samples {
            let whole = complete.is_some_and(|rounds| rounds.contains(&sample.round));
            if sample.discarded.is_none() && !whole {
                sample.discarded = Some("the run was broken off in this round".to_owned());
            }
        }
    }
}

/// What the cells share that are sampled in turn.
fn turn(key: &CellKey) -> (Workload, Setting) {
    (key.group.workload, key.group.setting.place())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    #[test]
    fn a_round_that_not_all_have_is_measured_again_by_all() {
        let mut cells = fixture::run().cells;
        let group = cells[0].key.group;
        cells.retain(|cell| cell.key.group == group && cell.counted().count() > 3);
        assert!(cells.len() > 1);
        for cell in &mut cells {
            cell.status = CellStatus::Open;
            cell.samples.retain(|sample| sample.round <= 3);
        }
        cells[0].samples.retain(|sample| sample.round <= 2);
        discard_broken(&mut cells);
        for cell in &cells {
            let rounds: Vec<u32> = cell.counted().map(|sample| sample.round).collect();
            assert_eq!(rounds, [1, 2], "{}", cell.key);
        }
        let kept = &cells[1].samples;
        assert!(
            kept.iter()
                .any(|sample| sample.round == 3 && sample.discarded.is_some()),
            "kept in the record"
        );
    }
}
