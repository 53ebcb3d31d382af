//! The order in which cells take turns: Williams' design (1949), so that neither drift nor what a cell leaves behind
//! favours one of them.
//!
//! ```text
//! round 1   A B D C      round 3   B A C D      row 0, its mirror; the mirror of row 1, row 1
//! round 2   C D B A      round 4   D C A B      each follows each other equally often
//! ```
//!
//! Rounds come in twos, a row of the square and its mirror, so that after each two rounds every cell had the same place
//! on average: drift that goes straight cancels. Every second two begin with the mirror, so that two cells do not change
//! their order in every round: then noise that lasts longer than a sample would push neighbouring rounds the same way.

/// The cells of a round in their order. `counts` are the cells of each workload that takes turns; what comes out is (workload,
/// cell in it). The cells of one workload stay together, as they are the closest compared.
pub fn order(counts: &[usize], round: u32) -> impl Iterator<Item = (usize, usize)> + '_ {
    let workloads = williams(counts.len(), round).into_iter();
    workloads.flat_map(move |workload| {
        let cells = williams(counts[workload], round).into_iter();
        cells.map(move |cell| (workload, cell))
    })
}

/// The order of `count` in a round. Round 0 is the warm-up and has the order of round 1. An even number has a square of as many
/// rows, an odd one of twice as many, among them each row's mirror.
fn williams(count: usize, round: u32) -> Vec<usize> {
    let rows = if count.is_multiple_of(2) {
        count / 2
    } else {
        count
    };
    if rows == 0 {
        return Vec::new();
    }
    let step = round.saturating_sub(1) as usize;
    let (two, second) = (step / 2, step % 2 == 1);
    let shift = two % rows;
    // 0, 1, n−1, 2, n−2 …: the steps between neighbours are all different.
    let zigzag = (0..count).map(|place| match place % 2 {
        1 => place / 2 + 1,
        _ => (count - place / 2) % count,
    });
    let mut row: Vec<usize> = zigzag.map(|cell| (cell + shift) % count).collect();
    if second != (two % 2 == 1) {
        row.reverse();
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Rounds of a whole square.
    fn square(count: usize) -> u32 {
        let rounds = if count.is_multiple_of(2) {
            count
        } else {
            2 * count
        };
        u32::try_from(rounds).unwrap()
    }

    #[test]
    fn by_hand() {
        let rounds: Vec<_> = (0..=6).map(|round| williams(4, round)).collect();
        let [first, second] = [[0, 1, 3, 2], [1, 2, 0, 3]];
        let mirror = |row: [usize; 4]| [row[3], row[2], row[1], row[0]];
        assert_eq!(rounds[0], first);
        let then = [first, mirror(first), mirror(second), second];
        assert_eq!(rounds[1..5], then);
        assert_eq!(rounds[5..], [first, mirror(first)]);
        assert!(williams(0, 3).is_empty());
        assert_eq!(williams(1, 3), [0]);
        let two: Vec<_> = (1..=4).map(|round| williams(2, round)).collect();
        assert_eq!(two, [[0, 1], [1, 0], [1, 0], [0, 1]]);
    }

    #[test]
    fn each_follows_each_other_and_has_each_place_equally_often() {
        for count in 2..=12 {
            let (mut follows, mut places) = (BTreeMap::new(), BTreeMap::new());
            for round in 1..=square(count) {
                let row = williams(count, round);
                for two in row.windows(2) {
                    *follows.entry((two[0], two[1])).or_insert(0) += 1;
                }
                for (place, cell) in row.into_iter().enumerate() {
                    *places.entry((place, cell)).or_insert(0) += 1;
                }
            }
            assert_eq!(follows.len(), count * (count - 1), "{count}");
            let often = if count.is_multiple_of(2) { 1 } else { 2 };
            assert!(
                follows.values().all(|n| *n == often),
                "{count}: {follows:?}"
            );
            assert_eq!(places.len(), count * count, "{count}");
            assert!(places.values().all(|n| *n == often), "{count}: {places:?}");
        }
    }

    #[test]
    fn drift_that_goes_straight_cancels_in_every_two_rounds() {
        for counts in [vec![2], vec![5], vec![3, 3], vec![9, 4, 1], vec![10; 4]] {
            let all: usize = counts.iter().sum();
            for first in [1, 3, 5, 11] {
                let mut places = BTreeMap::new();
                for round in [first, first + 1] {
                    for (place, cell) in order(&counts, round).enumerate() {
                        *places.entry(cell).or_insert(0) += place;
                    }
                }
                assert_eq!(places.len(), all);
                assert!(places.values().all(|sum| *sum == all - 1), "{counts:?}");
            }
        }
    }

    #[test]
    fn two_cells_do_not_change_their_order_in_every_round() {
        for count in 2..=12 {
            let rounds = 2 * square(count);
            let is_first = |round, a, b| {
                let row = williams(count, round);
                let place = |cell| row.iter().position(|one| *one == cell);
                place(a) < place(b)
            };
            let (mut changes, mut steps) = (0, 0);
            for (a, b) in (0..count).flat_map(|a| (0..a).map(move |b| (a, b))) {
                for round in 1..=rounds {
                    steps += 1;
                    changes += u32::from(is_first(round, a, b) != is_first(round + 1, a, b));
                }
            }
            let share = f64::from(changes) / f64::from(steps);
            assert!((0.5..0.84).contains(&share), "{count}: {share}");
        }
    }

    #[test]
    fn the_cells_of_a_workload_stay_together() {
        for round in 0..9 {
            let all: Vec<_> = order(&[3, 1, 2], round)
                .map(|(workload, _)| workload)
                .collect();
            let mut seen = all.clone();
            seen.dedup();
            assert_eq!((all.len(), seen.len()), (6, 3));
        }
    }
}
