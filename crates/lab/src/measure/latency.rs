//! Latencies of a sample: those of all pairs as one distribution.

use overlane_analysis::record::Latency;
use overlane_traffic::Histogram;
use overlane_traffic::message::Reading;

/// Points of the curve before further nines, in per cent.
const POINTS: [f64; 9] = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
/// A percentile that fewer values lie beyond says little.
const BEYOND: f64 = 10.0;

/// Merges the latencies of several readings; `None` where nothing was measured.
pub(super) fn merge<'a>(
    readings: impl Iterator<Item = &'a Reading>,
    one_way: bool,
) -> Option<Latency> {
    let mut all = Histogram::new();
    for latencies in readings.filter_map(|reading| reading.latency.as_ref()) {
        all.merge(&Histogram::from_latencies(latencies));
    }
    summary(&all, one_way)
}

fn summary(all: &Histogram, one_way: bool) -> Option<Latency> {
    let us = |ns: u64| ns as f64 / 1000.0;
    let at = |per_cent| all.percentile(per_cent).map(us);
    let mut curve = Vec::new();
    for per_cent in percentiles(all.count()) {
        curve.push((per_cent, at(per_cent)?));
    }
    Some(Latency {
        one_way,
        count: all.count(),
        min_us: us(all.min()?),
        mean_us: all.mean()? / 1000.0,
        p50_us: at(50.0)?,
        p90_us: at(90.0)?,
        p99_us: at(99.0)?,
        p999_us: at(99.9)?,
        max_us: us(all.max()?),
        curve,
    })
}

/// The percentiles that so many values carry, then 100.
fn percentiles(count: u64) -> Vec<f64> {
    let carried = |per_cent: &f64| {
        // 0 has everything beyond it; rounding must not cost the last point.
        count as f64 * (100.0 - per_cent) / 100.0 >= BEYOND * (1.0 - 1e-9)
    };
    let nines = (0..).map(|more| {
        let beyond_percent = 0.01 / 10_f64.powi(more);
        100.0 - beyond_percent
    });
    let mut points: Vec<f64> = POINTS
        .into_iter()
        .chain(nines.take(6))
        .take_while(carried)
        .collect();
    if points.is_empty() && count > 0 {
        points.push(0.0);
    }
    points.push(100.0);
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlane_traffic::message::Latencies;

    fn reading(values_us: impl Iterator<Item = u64>) -> Reading {
        let mut histogram = Histogram::new();
        values_us.for_each(|us| histogram.record(us * 1000));
        Reading {
            latency: Some(histogram.to_latencies()),
            ..Reading::default()
        }
    }

    #[test]
    fn pairs_are_one_distribution() {
        let readings = [reading(1..=500), reading(501..=1000), Reading::default()];
        let latency = merge(readings.iter(), false).unwrap();
        assert_eq!(latency.count, 1000);
        for (found, expected) in [
            (latency.min_us, 1.0),
            (latency.mean_us, 500.5),
            (latency.p50_us, 500.0),
            (latency.p90_us, 900.0),
            (latency.p99_us, 990.0),
            (latency.p999_us, 999.0),
            (latency.max_us, 1000.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.002, "{found} {expected}");
        }
        assert_eq!(latency.curve.first().unwrap().0, 0.0);
        assert!(latency.curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn the_curve_goes_as_far_as_the_count_carries() {
        let last = |count| {
            let points = percentiles(count);
            (points[points.len() - 2], points[points.len() - 1])
        };
        assert_eq!(last(5), (0.0, 100.0));
        assert_eq!(last(100), (90.0, 100.0));
        assert_eq!(last(999), (95.0, 100.0));
        assert_eq!(last(1000), (99.0, 100.0));
        assert_eq!(last(10_000), (99.9, 100.0));
        assert!((last(100_000).0 - 99.99).abs() < 1e-9);
        assert!((last(1_000_000).0 - 99.999).abs() < 1e-9);
    }

    #[test]
    fn nothing_measured_is_none() {
        assert_eq!(merge([Reading::default()].iter(), true), None);
        let empty = Reading {
            latency: Some(Latencies::default()),
            ..Reading::default()
        };
        assert_eq!(merge([empty].iter(), true), None);
    }
}
