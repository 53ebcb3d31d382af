//! Latencies: an HdrHistogram from 1 ns to 60 s with 3 significant digits, and the form in which it
//! crosses between agent and controller ([`Latencies`]).

use crate::message::Latencies;

/// Longest latency that is told apart; longer ones count as this one.
const LONGEST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// A histogram of latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one. Allocates about 200 kB.
    #[must_use]
    pub fn new() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .unwrap_or_else(|_| unreachable!("the bounds are constants"));
        Self { counts }
    }

    /// Counts one latency. Does not allocate.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.record_many(latency_ns, 1);
    }

    /// Counts one latency several times.
    #[inline]
    pub fn record_many(&mut self, latency_ns: u64, count: u64) {
        self.counts
            .saturating_record_n(latency_ns.clamp(1, LONGEST_NS), count);
    }

    /// Counts all of another one.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so that this cannot fail.
        let added = self.counts.add(&other.counts);
        debug_assert!(added.is_ok());
    }

    /// Takes what was recorded and leaves it empty.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// How many latencies were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The latency that this share of all does not exceed, in per cent; none recorded: `None`.
    #[must_use]
    pub fn percentile(&self, per_cent: f64) -> Option<u64> {
        (!self.counts.is_empty()).then(|| self.counts.value_at_percentile(per_cent))
    }

    /// The smallest, to the resolution.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (!self.counts.is_empty()).then(|| self.counts.min())
    }

    /// The largest, to the resolution.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (!self.counts.is_empty()).then(|| self.counts.max())
    }

    /// The mean, to the resolution.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.counts.is_empty()).then(|| self.counts.mean())
    }

    /// For a message: upper ends of the buckets that are not empty, and their counts.
    #[must_use]
    pub fn to_latencies(&self) -> Latencies {
        let buckets = self
            .counts
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect();
        Latencies { buckets }
    }

    /// From a message.
    #[must_use]
    pub fn from_latencies(latencies: &Latencies) -> Self {
        let mut histogram = Self::new();
        for &(upper_ns, count) in &latencies.buckets {
            histogram.record_many(upper_ns, count);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_one_has_no_values() {
        let empty = Histogram::new();
        assert_eq!(empty.count(), 0);
        assert_eq!(
            (empty.min(), empty.max(), empty.percentile(50.0)),
            (None, None, None)
        );
        assert_eq!(empty.mean(), None);
        assert_eq!(empty.to_latencies(), Latencies::default());
    }

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let mut histogram = Histogram::new();
        for microseconds in 1..=1000 {
            histogram.record(microseconds * 1000);
        }
        for (per_cent, expected_ns) in [(50.0, 500_000.0), (99.0, 990_000.0), (100.0, 1_000_000.0)]
        {
            let found = histogram.percentile(per_cent).unwrap() as f64;
            assert!((found / expected_ns - 1.0).abs() < 0.001, "{found}");
        }
        assert!((histogram.mean().unwrap() / 500_500.0 - 1.0).abs() < 0.001);
        assert!(histogram.min().unwrap() <= 1000);
    }

    #[test]
    fn a_message_carries_it_whole() {
        let mut histogram = Histogram::new();
        for latency_ns in [0, 1, 1_000, 52_345, 52_345, 999_999_999, u64::MAX] {
            histogram.record(latency_ns);
        }
        let latencies = histogram.to_latencies();
        let uppers: Vec<u64> = latencies.buckets.iter().map(|bucket| bucket.0).collect();
        assert!(uppers.is_sorted_by(|a, b| a < b), "{uppers:?}");
        let again = Histogram::from_latencies(&latencies);
        assert_eq!(again.count(), 7);
        assert_eq!(again.to_latencies(), latencies);
        for per_cent in [0.0, 30.0, 60.0, 90.0, 100.0] {
            assert_eq!(again.percentile(per_cent), histogram.percentile(per_cent));
        }
    }

    #[test]
    fn merging_adds_and_taking_empties() {
        let (mut left, mut right) = (Histogram::new(), Histogram::new());
        left.record(10);
        right.record_many(20, 3);
        left.merge(&right);
        assert_eq!(left.to_latencies().buckets, [(10, 1), (20, 3)]);
        assert_eq!(left.take().count(), 4);
        assert_eq!(left.count(), 0);
    }
}
