//! How figures of the laboratory are written for people: times, rates, the figure of a sample, and sentences in lines.

use std::time::Duration;

use overlane_analysis::record::{Family, GroupKey, Migration, Moving, Sample, Test, Tuning};

/// Columns of a line.
const COLUMNS: usize = 80;

/// Columns before the text: the longest label and its space.
const LABEL: usize = 8;

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

/// `2.15 s · 74 ms · 254 ms`: the time, how long a machine stood still, and the longest gap of a flow.
pub(super) fn moved(migration: &Migration) -> String {
    format!(
        "{:.2} s · {:.0} ms · {} ms",
        migration.seconds,
        migration.downtime_ms(),
        migration.longest_gap_ms()
    )
}

/// `2 machines of 256 MiB, 1 link`, and how they move.
pub(super) fn machines(group: &GroupKey, moving: &Moving) -> (String, String) {
    let setting = &group.setting;
    let memory = setting.guest_memory_mib.unwrap_or_default();
    let offload = if setting.offload { "on" } else { "off" };
    let copying = if moving.postcopy {
        "postcopy"
    } else {
        "precopy"
    };
    let underlay = match setting.underlay {
        Family::Ipv4 => "",
        Family::Ipv6 => ", IPv6 underlay",
    };
    let tuning = match setting.tuning {
        Tuning::Alike => String::new(),
        other => format!(", {other}"),
    };
    (
        format!(
            "{} of {memory} MiB, {}",
            counted(setting.pairs, "machine"),
            counted(moving.links, "link")
        ),
        format!(
            "{copying}, offload {offload}, {} % written at {} MiB/s{underlay}{tuning}",
            moving.dirty_percent, moving.dirty_mib_per_second
        ),
    )
}

/// `2 links`
pub(super) fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Less of the figure of a test is better: it is a time.
pub(super) fn is_time(test: Test) -> bool {
    test == Test::Migration
}

/// The figure that a sample is about, with its unit: transactions, packets, goodput, or the time of a migration.
pub(super) fn figure(sample: &Sample) -> Option<(f64, String)> {
    if let Some(migration) = &sample.migration {
        return Some((migration.seconds, moved(migration)));
    }
    let (value, shown): (Option<f64>, fn(f64) -> String) = match sample.cell.group.workload.test {
        test if test.is_transactions() => (sample.transactions_per_second, per_second),
        test if test.is_frames() => (sample.rate_pps, per_second),
        _ => (sample.goodput_gbps, gbps),
    };
    value.map(|value| (value, shown(value)))
}

/// Text in lines beside its label.
pub(super) fn labelled(label: &str, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = format!("{label:LABEL$}");
    let mut first = true;
    for word in text.split(' ') {
        let room = line.chars().count() + usize::from(!first) + word.chars().count() <= COLUMNS;
        if !first && !room {
            lines.push(std::mem::replace(&mut line, " ".repeat(LABEL)));
            first = true;
        }
        if !first {
            line.push(' ');
        }
        line.push_str(word);
        first = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use overlane_analysis::record::{Flow, Moved};

    use super::*;

    #[test]
    fn a_migration_is_its_time_downtime_and_gap() {
        let moved_in = |downtime_ms, udp, tcp| Moved {
            total_ms: 2000.0,
            downtime_ms,
            switch_ms: 3.0,
            setup_ms: 0.0,
            wrong_frames: 0,
            transferred_bytes: 1,
            dirty_rounds: 3,
            pages_asked_for: 0,
            dirtied_mib_per_second: 20.0,
            udp: gap(udp),
            tcp: gap(tcp),
        };
        let migration = Migration {
            back: false,
            seconds: 2.154,
            link_bytes: vec![2],
            machines: vec![moved_in(74.4, 85, 120), moved_in(60.0, 254, 90)],
        };
        assert_eq!(moved(&migration), "2.15 s · 74 ms · 254 ms");
    }

    fn gap(longest_gap_ms: u64) -> Flow {
        Flow {
            longest_gap_ms,
            ..Flow::default()
        }
    }

    #[test]
    fn three_digits_that_count() {
        assert_eq!(per_second(999.4), "999/s");
        assert_eq!(per_second(38_240.0), "38.2 k/s");
        assert_eq!(per_second(1_234_567.0), "1.23 M/s");
        assert_eq!(gbps(12.345), "12.35 Gbit/s");
        assert_eq!(gbps(0.0421), "42.1 Mbit/s");
        assert_eq!(minutes(Duration::from_secs(245)), "4:05 min");
    }

    #[test]
    fn a_word_longer_than_a_line_has_one_of_its_own() {
        let long = "x".repeat(100);
        let got = labelled("a:", &format!("b {long} c"));
        assert_eq!(got.len(), 3);
        assert!(got[1].ends_with(&long));
    }
}
