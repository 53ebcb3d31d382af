//! How figures of the laboratory are written for people: times, rates, and the figure of a sample.

use std::time::Duration;

use overlane_analysis::record::Sample;

/// `4:05 min`
pub(super) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}

/// `1 234 567/s`, `38.2 k/s`, … : three digits that count.
pub(super) fn per_second(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2} M/s", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k/s", v / 1e3),
        v => format!("{v:.0}/s"),
    }
}

/// `12.34 Gbit/s`
pub(super) fn gbps(value: f64) -> String {
    if value >= 1.0 {
        format!("{value:.2} Gbit/s")
    } else {
        format!("{:.1} Mbit/s", value * 1e3)
    }
}

/// The figure that a sample is about, with its unit: transactions, packets, or goodput.
pub(super) fn figure(sample: &Sample) -> Option<(f64, String)> {
    let (value, shown): (Option<f64>, fn(f64) -> String) = match sample.cell.group.workload.test {
        test if test.is_transactions() => (sample.transactions_per_second, per_second),
        test if test.is_frames() => (sample.rate_pps, per_second),
        _ => (sample.goodput_gbps, gbps),
    };
    value.map(|value| (value, shown(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_that_count() {
        assert_eq!(per_second(999.4), "999/s");
        assert_eq!(per_second(38_240.0), "38.2 k/s");
        assert_eq!(per_second(1_234_567.0), "1.23 M/s");
        assert_eq!(gbps(12.345), "12.35 Gbit/s");
        assert_eq!(gbps(0.0421), "42.1 Mbit/s");
        assert_eq!(minutes(Duration::from_secs(245)), "4:05 min");
    }
}
