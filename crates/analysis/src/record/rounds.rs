//! The rounds of a run: what is measured in turn has whole rounds, or none.

use super::{Cell, CellKey, CellStatus, Discard, Sample};
use std::collections::BTreeSet;

/// The round of a sample that will not be taken again: it counts, or another round stands for it.
pub fn settled(sample: &Sample) -> Option<u32> {
    let is_settled = matches!(sample.discarded, None | Some(Discard::OtherPrograms { .. }));
    is_settled.then_some(sample.round)
}

/// A round in which some of the cells that take turns has a sample and another has none is measured anew by all: pairs are
/// taken in turn, not hours apart. `turns` are the cells that take turns, as the plan has them.
pub fn discard_broken(cells: &mut [Cell], turns: &[Vec<CellKey>]) {
    for turn in turns {
        let is_open =
            |cell: &&mut Cell| cell.status == CellStatus::Open && turn.contains(&cell.key);
        let mut complete: Option<BTreeSet<u32>> = None;
        for cell in cells.iter_mut().filter(is_open) {
            let known: BTreeSet<u32> = cell.samples.iter().filter_map(settled).collect();
            match &mut complete {
                Some(all) => all.retain(|round| known.contains(round)),
                None => complete = Some(known),
            }
        }
        let complete = complete.unwrap_or_default();
        for sample in cells
            .iter_mut()
            .filter(is_open)
            .flat_map(|cell| &mut cell.samples)
        {
            if sample.discarded.is_none() && !complete.contains(&sample.round) {
                sample.discarded = Some(Discard::BrokenOff);
            }
        }
    }
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
        let turn = cells.iter().map(|cell| cell.key).collect();
        discard_broken(&mut cells, &[turn]);
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

    #[test]
    fn what_was_not_begun_breaks_no_other_turn() {
        let mut cells = fixture::run().cells;
        cells.retain(|cell| cell.counted().count() > 3);
        for cell in &mut cells {
            cell.status = CellStatus::Open;
        }
        cells[1].samples.clear();
        let turns = [vec![cells[0].key], vec![cells[1].key]];
        let before = cells[0].counted().count();
        discard_broken(&mut cells, &turns);
        assert_eq!(cells[0].counted().count(), before);
        // One that has all its samples is out of the turn.
        cells[1].status = CellStatus::Ok;
        let turns = [vec![cells[0].key, cells[1].key]];
        discard_broken(&mut cells, &turns);
        assert_eq!(cells[0].counted().count(), before);
        cells[1].status = CellStatus::Open;
        discard_broken(&mut cells, &turns);
        assert_eq!(cells[0].counted().count(), 0);
    }

    #[test]
    fn a_round_that_was_taken_again_in_one_workload_breaks_no_other() {
        let mut cells = fixture::run().cells;
        cells.retain(|cell| cell.counted().count() > 3);
        cells.truncate(2);
        for cell in &mut cells {
            cell.status = CellStatus::Open;
        }
        for sample in cells[0].samples.iter_mut().filter(|s| s.round == 2) {
            sample.discarded = Some(Discard::OtherPrograms {
                words: "other programs".to_owned(),
            });
        }
        let before = cells[1].counted().count();
        let turn = cells.iter().map(|cell| cell.key).collect();
        discard_broken(&mut cells, &[turn]);
        assert_eq!(cells[1].counted().count(), before);
    }
}
