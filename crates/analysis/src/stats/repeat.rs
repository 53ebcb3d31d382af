//! When a cell has enough samples: the rules that studies may ask for, as pure functions of its samples.
//!
//! Asked by the bench after each planned round ([`decide`]), and by the results for what they print of the rule
//! ([`sets`], [`widths_percent`]). Both rules look at one cell alone and never at what it is compared with: a run that
//! went on until a difference showed would find one.

use serde::Serialize;

use super::summary::{mean, population_stddev_percent, t_interval};
use crate::record::{Cell, Test};
use crate::results::Metric;
use crate::study::Repeat;

/// Fewest samples of the rule `confidence`, as netperf's.
pub const MIN_CONFIDENCE: usize = 3;

/// Whether a cell has enough samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It has, or the rule gives up.
    Enough,
    /// So many more, then ask again.
    More(u32),
}

/// How a set of samples stands under the rule `within`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SetState {
    /// The first whose spread is within the limit: the result by the rule.
    Accepted,
    /// Spread too wide: kept, shown, and not the result by the rule.
    Discarded,
    /// Taken after the accepted one, because other cells of the round went on.
    Further,
    /// Fewer samples than a set has.
    Incomplete,
}

/// Samples in a row, as the rule `within` takes them together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleSet {
    /// 1 for the first.
    pub number: u32,
    /// Rounds of its samples.
    pub rounds: Vec<u32>,
    /// The figure in each round.
    pub samples: Vec<f64>,
    /// Mean of the figure.
    pub mean: Option<f64>,
    /// Population standard deviation in per cent of the mean.
    pub spread_percent: Option<f64>,
    /// How it stands.
    pub state: SetState,
}

/// The quantities that the rules look at: the test's figure first, then the CPU of both hosts, as netperf does.
pub const fn ruled_by(test: Test) -> [Metric; 3] {
    [
        Metric::primary(test),
        Metric::CpuSender,
        Metric::CpuReceiver,
    ]
}

/// Whether `cell` has enough samples by `rule`. Its discarded samples do not count.
pub fn decide(rule: Repeat, cell: &Cell) -> Decision {
    let rows = ruled_by(cell.key.group.workload.test).map(|metric| metric.row(cell));
    match rule {
        Repeat::Within {
            set,
            percent,
            attempts,
        } => within(&rows[0], set, percent, attempts),
        Repeat::Confidence {
            width_percent,
            most,
        } => {
            let values =
                rows.map(|row| row.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
            confidence(cell.counted().count(), &values, width_percent, most)
        }
    }
}

/// Study B's rule: a set within the limit, or as many sets as are allowed.
pub fn within(row: &[(u32, f64)], set: u32, percent: f64, attempts: u32) -> Decision {
    let set = set.max(1);
    let sets = sets(row, set, percent);
    let whole = sets.iter().filter(|s| s.state != SetState::Incomplete);
    let accepted = sets.iter().any(|s| s.state == SetState::Accepted);
    if accepted || whole.count() >= attempts as usize {
        return Decision::Enough;
    }
    let begun = (row.len() % set as usize) as u32;
    Decision::More(set - begun)
}

/// A row of (round, value) cut into sets of `set`, in the order of the rounds.
pub fn sets(row: &[(u32, f64)], set: u32, percent: f64) -> Vec<SampleSet> {
    let size = set.max(1) as usize;
    let mut accepted = false;
    let mut out = Vec::new();
    for (number, part) in (1..).zip(row.chunks(size)) {
        let (rounds, samples): (Vec<u32>, Vec<f64>) = part.iter().copied().unzip();
        let spread_percent = population_stddev_percent(&samples);
        // A single sample has no spread, and so nothing to refuse.
        let holds = samples.len() == 1 || spread_percent.is_some_and(|spread| spread <= percent);
        let state = match () {
            () if samples.len() < size => SetState::Incomplete,
            () if accepted => SetState::Further,
            () if holds => SetState::Accepted,
            () => SetState::Discarded,
        };
        accepted |= state == SetState::Accepted;
        out.push(SampleSet {
            number,
            rounds,
            mean: mean(&samples),
            samples,
            spread_percent,
            state,
        });
    }
    out
}

/// netperf's rule: the interval of every row is narrow enough, or there are as many samples as are allowed.
///
/// Rows without a value (CPU of hosts that share one) decide nothing.
pub fn confidence(taken: usize, rows: &[Vec<f64>], width_percent: f64, most: u32) -> Decision {
    let most = most as usize;
    if taken >= most {
        return Decision::Enough;
    }
    let wanted = rows
        .iter()
        .filter(|row| !row.is_empty())
        .map(|row| samples_for(row, width_percent))
        .max()
        .unwrap_or(0)
        .max(MIN_CONFIDENCE);
    if wanted <= taken {
        return Decision::Enough;
    }
    // An estimate from few samples may be far off: no more than double before it is made anew.
    let step = (wanted - taken)
        .min(taken.max(MIN_CONFIDENCE))
        .min(most - taken);
    Decision::More(u32::try_from(step).unwrap_or(u32::MAX))
}

/// Whole width of the 95 % interval of the mean, in per cent of the mean; 0 for a row of equal values.
pub fn width_percent(row: &[f64]) -> Option<f64> {
    let [low, high] = t_interval(row)?;
    let width = high - low;
    let percent = if width == 0.0 {
        0.0
    } else {
        100.0 * width / mean(row)?.abs()
    };
    percent.is_finite().then_some(percent)
}

/// How many samples a row needs, its spread being what it was: the width falls with the root of their number.
fn samples_for(row: &[f64], wanted_percent: f64) -> usize {
    match width_percent(row) {
        Some(width) if width <= wanted_percent => row.len(),
        Some(width) => {
            let factor = (width / wanted_percent).powi(2).min(1e6);
            (row.len() as f64 * factor).ceil() as usize
        }
        None => row.len() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f64]) -> Vec<(u32, f64)> {
        (1..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn the_first_steady_set_is_enough() {
        // Population deviation of 9, 10, 11: √(2/3) = 8.2 % of 10. Of 9.9, 10, 10.1: 0.8 %.
        let wild = [9.0, 10.0, 11.0];
        let calm = [9.9, 10.0, 10.1];
        assert_eq!(within(&row(&[]), 3, 5.0, 6), Decision::More(3));
        assert_eq!(within(&row(&calm[..2]), 3, 5.0, 6), Decision::More(1));
        assert_eq!(within(&row(&calm), 3, 5.0, 6), Decision::Enough);
        assert_eq!(within(&row(&wild), 3, 5.0, 6), Decision::More(3));
        assert_eq!(
            within(&row(&[wild, calm].concat()), 3, 5.0, 6),
            Decision::Enough
        );
        let states: Vec<_> = sets(&row(&[wild, calm, wild].concat()), 3, 5.0)
            .iter()
            .map(|set| set.state)
            .collect();
        assert_eq!(
            states,
            [SetState::Discarded, SetState::Accepted, SetState::Further]
        );
    }

    #[test]
    fn a_restless_cell_is_given_up_after_the_allowed_sets() {
        let wild = [5.0, 10.0, 15.0];
        assert_eq!(within(&row(&wild.repeat(5)), 3, 5.0, 6), Decision::More(3));
        assert_eq!(within(&row(&wild.repeat(6)), 3, 5.0, 6), Decision::Enough);
    }

    #[test]
    fn the_spread_is_the_populations_and_its_limit_is_in() {
        // Deviations −5 and +5 about 100: population 5 %, sample 7.07 %.
        assert_eq!(within(&row(&[95.0, 105.0]), 2, 5.0, 6), Decision::Enough);
        assert_eq!(within(&row(&[94.9, 105.1]), 2, 5.0, 6), Decision::More(2));
    }

    #[test]
    fn sets_keep_their_rounds() {
        let row = [(1, 10.0), (2, 10.0), (4, 10.0), (5, 10.0)];
        let sets = sets(&row, 3, 5.0);
        assert_eq!(sets[0].rounds, [1, 2, 4]);
        assert_eq!((sets[1].number, sets[1].state), (2, SetState::Incomplete));
        assert_eq!(sets[0].spread_percent, Some(0.0));
    }

    #[test]
    fn width_by_hand() {
        // s = √2.5, n = 5, t = 2.7764: half 1.9632, whole 3.9264 of 10.
        let width = width_percent(&[8.0, 9.0, 10.0, 11.0, 12.0]).unwrap();
        assert!((width - 39.264).abs() < 0.01, "{width}");
        assert_eq!(width_percent(&[0.0, 0.0, 0.0]), Some(0.0));
        assert_eq!(width_percent(&[-1.0, 1.0]), None);
        assert_eq!(width_percent(&[1.0]), None);
    }

    #[test]
    fn confidence_wants_figure_and_cpu() {
        let calm = vec![100.0, 100.5, 99.5, 100.2];
        let wild = vec![100.0, 120.0, 80.0, 105.0];
        let ask = |rows: &[Vec<f64>], most| confidence(4, rows, 5.0, most);
        assert_eq!(ask(&[calm.clone(), calm.clone()], 30), Decision::Enough);
        // 51 % wide: hundreds are needed, at most doubled at once.
        assert_eq!(ask(&[calm.clone(), wild.clone()], 30), Decision::More(4));
        assert_eq!(ask(std::slice::from_ref(&wild), 6), Decision::More(2));
        assert_eq!(ask(&[wild], 4), Decision::Enough);
        // CPU that nobody measured decides nothing.
        assert_eq!(ask(&[calm, Vec::new()], 30), Decision::Enough);
    }

    #[test]
    fn confidence_needs_three() {
        assert_eq!(confidence(0, &[Vec::new()], 5.0, 10), Decision::More(3));
        assert_eq!(confidence(2, &[vec![1.0, 1.0]], 5.0, 10), Decision::More(1));
        assert_eq!(confidence(3, &[vec![1.0; 3]], 5.0, 10), Decision::Enough);
    }

    #[test]
    fn steps_end_near_what_the_spread_needs() {
        // Noise of ±2 about 100 at a wanted width of 2 %: follow the rule's own advice.
        let noise = |i: usize| 100.0 + [2.0, -1.0, 0.5, -2.0, 1.5, -1.0][i % 6];
        let mut values: Vec<f64> = (0..3).map(noise).collect();
        let mut asked = 0;
        while let Decision::More(n) =
            confidence(values.len(), std::slice::from_ref(&values), 2.0, 60)
        {
            let begun = values.len();
            values.extend((begun..begun + n as usize).map(noise));
            asked += 1;
            assert!(asked < 20);
        }
        assert!(width_percent(&values).unwrap() <= 2.0 && values.len() < 30);
    }
}
