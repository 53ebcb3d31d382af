//! Statistics of the laboratory: from raw samples to an interval, from two rows of samples to a verdict.
//!
//! Stands between the measurement (which only collects samples) and the results and reports (which
//! only print). Pure functions: no IO, no clock, no randomness (where permutations are drawn, always the same ones). What cannot
//! be computed is `None`, never NaN and never 0. Definitions in words: `docs/lab-method.md`.

mod outliers;
mod permutation;
mod ratio;
pub mod repeat;
mod summary;
mod verdict;

#[cfg(test)]
mod simulation;

pub use outliers::{OUTLIER_SCORE, outliers};
pub use permutation::sign_flip;
pub use ratio::{Better, Comparison, MIN_PAIRS, MIN_SIDE, Method, compare, paired, unpaired};
pub use summary::{
    STDDEV_LIMIT_PERCENT, Summary, mean, median, population_stddev_percent, t_interval,
};
pub use verdict::{SAME_WITHIN, SIGNIFICANCE, Verdict, Why, judge};
