//! Numbers for readers: as many digits as mean something, one format per quantity.

use crate::results::Metric;
use crate::stats::Summary;

/// What stands where nothing was measured.
pub(in crate::report) const NONE: &str = "–";

/// A number with three significant digits, never fewer than all of its whole ones.
pub(in crate::report) fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.0995 || v == 0.0 => 2,
        _ => 3,
    };
    fixed(value, digits)
}

/// A number with `digits` decimals and thin spaces between thousands.
pub(in crate::report) fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("−", w));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && whole.len() > 4 && (whole.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out + rest
}

/// One value of a metric, without its unit.
pub(in crate::report) fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::UnderlayRate | Metric::Rate | Metric::Transactions => short(value / 1000.0),
        Metric::UnderlayPacket
        | Metric::UnderlayBytes
        | Metric::Memory
        | Metric::GuestSenderMemory
        | Metric::GuestReceiverMemory => fixed(value, 0),
        Metric::MigrationTime => fixed(value, 2),
        Metric::Switching | Metric::Dirtied => fixed(value, usize::from(value < 9.95)),
        Metric::Downtime
        | Metric::FlowGap
        | Metric::UdpGap
        | Metric::TcpGap
        | Metric::Transferred => fixed(value, 0),
        Metric::Retransmits | Metric::Timeouts | Metric::DirtyRounds | Metric::FlowLost => {
            fixed(value, usize::from(value.fract() != 0.0 && value < 99.95))
        }
        Metric::Loss => loss(value),
        Metric::CpuSender
        | Metric::CpuReceiver
        | Metric::CpuTotal
        | Metric::GuestSender
        | Metric::GuestReceiver
        | Metric::RelaySender
        | Metric::RelayReceiver => fixed(value, 0),
        Metric::CpuMean => fixed(value, 1),
        _ => short(value),
    }
}

/// A share of lost packets in per cent: small ones keep their digits, none is a plain 0.
pub(in crate::report) fn loss(percent: f64) -> String {
    match percent.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.000_1 => "< 0.0001".to_owned(),
        v if v < 0.01 => fixed(percent, 4),
        v if v < 1.0 => fixed(percent, 3),
        _ => fixed(percent, 1),
    }
}

/// The quantity in words.
pub(in crate::report) const fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput => "Goodput",
        Metric::Transactions => "Transactions",
        Metric::Rate => "Packets received",
        Metric::Loss => "Loss",
        Metric::Timeouts => "Time-outs",
        Metric::LatencyMean => "Latency, mean",
        Metric::LatencyP50 => "Latency, median",
        Metric::LatencyP90 => "Latency, 90th percentile",
        Metric::LatencyP99 => "Latency, 99th percentile",
        Metric::LatencyP999 => "Latency, 99.9th percentile",
        Metric::CpuPerGbps => "CPU per Gbit/s",
        Metric::CpuPerGbpsSender => "CPU per Gbit/s, sender",
        Metric::CpuPerGbpsReceiver => "CPU per Gbit/s, receiver",
        Metric::CpuPerTransaction => "CPU per transaction",
        Metric::CpuPerPacket => "CPU per packet",
        Metric::CpuSender => "CPU of the sending host",
        Metric::CpuReceiver => "CPU of the receiving host",
        Metric::CpuTotal => "CPU of all hosts",
        Metric::CpuMean => "CPU, mean of both hosts",
        Metric::GuestSender => "CPU of the sending guest",
        Metric::GuestReceiver => "CPU of the receiving guest",
        Metric::RelaySender => "CPU of the sending guest’s relay",
        Metric::RelayReceiver => "CPU of the receiving guest’s relay",
        Metric::UnderlayRate => "Packets on the underlay",
        Metric::UnderlayPacket => "Mean packet on the underlay",
        Metric::UnderlayPackets => "Packets on the underlay per transaction",
        Metric::UnderlayBytes => "Bytes on the underlay per transaction",
        Metric::Retransmits => "Retransmits",
        Metric::TcpRtt => "TCP round-trip time",
        Metric::MigrationTime => "Migration time",
        Metric::Downtime => "Downtime",
        Metric::Switching => "The network’s share of the downtime",
        Metric::DirtyRounds => "Rounds of dirty pages",
        Metric::Transferred => "Memory sent",
        Metric::Dirtied => "Memory really written",
        Metric::FlowGap => "Longest gap of a flow",
        Metric::UdpGap => "Longest gap of the datagrams",
        Metric::TcpGap => "Longest gap of the TCP connection",
        Metric::FlowLost => "Datagrams lost",
        Metric::Memory => "Memory of the machine",
        Metric::GuestSenderMemory => "Memory of the sending guest",
        Metric::GuestReceiverMemory => "Memory of the receiving guest",
    }
}

/// The unit in which [`value`] writes it; empty for a count.
pub(in crate::report) const fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::Goodput => "Gbit/s",
        Metric::Transactions => "thousand/s",
        Metric::Rate | Metric::UnderlayRate => "kpps",
        Metric::Timeouts
        | Metric::Retransmits
        | Metric::UnderlayPackets
        | Metric::DirtyRounds
        | Metric::FlowLost => "",
        Metric::MigrationTime => "s",
        Metric::Downtime
        | Metric::Switching
        | Metric::FlowGap
        | Metric::UdpGap
        | Metric::TcpGap => "ms",
        Metric::Dirtied => "MiB/s",
        Metric::CpuPerTransaction
        | Metric::CpuPerPacket
        | Metric::LatencyMean
        | Metric::LatencyP50
        | Metric::LatencyP90
        | Metric::LatencyP99
        | Metric::LatencyP999
        | Metric::TcpRtt => "µs",
        Metric::UnderlayPacket | Metric::UnderlayBytes => "bytes",
        Metric::Memory
        | Metric::GuestSenderMemory
        | Metric::GuestReceiverMemory
        | Metric::Transferred => "MiB",
        _ => "%",
    }
}

/// `Goodput Gbit/s`: the head of a column.
pub(in crate::report) fn heading(metric: Metric) -> String {
    format!("{} {}", name(metric), unit(metric))
        .trim_end()
        .to_owned()
}

/// (`3.0 %`, `[2.0, 4.0]`) or (`×2.10`, `[2.00, 2.20]`): how much a ratio differs from 1, as one says it. What is not
/// proven, and what is far from 1, stays a ratio.
pub(in crate::report) fn amount(value: f64, ci95: Option<[f64; 2]>) -> (String, String) {
    let proven = ci95.filter(|[low, high]| *low > 1.0 || *high < 1.0);
    let Some([low, high]) = proven.filter(|_| (0.5..1.95).contains(&value)) else {
        return (ratio(value), ratio_interval(ci95));
    };
    let percent = |v: f64| 100.0 * (v - 1.0).abs();
    let (near, far) = (
        percent(low).min(percent(high)),
        percent(low).max(percent(high)),
    );
    let digits = usize::from(near < 9.95);
    let text = |v: f64| fixed(v, digits);
    (
        format!("{} %", text(percent(value))),
        format!("[{}, {}]", text(near), text(far)),
    )
}

/// `+3.2`, `−0.4`: a number with its sign.
pub(in crate::report) fn signed(value: f64, digits: usize) -> String {
    let text = fixed(value, digits);
    if value > 0.0 && text.chars().any(|c| ('1'..='9').contains(&c)) {
        format!("+{text}")
    } else {
        text
    }
}

/// `[−4.1, −2.2]`; empty without an interval.
pub(in crate::report) fn signed_interval(ci95: Option<[f64; 2]>, digits: usize) -> String {
    ci95.map_or_else(String::new, |[low, high]| {
        format!("[{}, {}]", signed(low, digits), signed(high, digits))
    })
}

/// `14.2`, or the dash.
pub(in crate::report) fn mean(metric: Metric, summary: Option<&Summary>) -> String {
    summary.map_or_else(|| NONE.to_owned(), |s| value(metric, s.mean))
}

/// `[13.9, 14.5]`; empty without an interval.
pub(in crate::report) fn interval(metric: Metric, summary: Option<&Summary>) -> String {
    summary
        .and_then(|s| s.ci95)
        .map_or_else(String::new, |[low, high]| {
            format!("[{}, {}]", value(metric, low), value(metric, high))
        })
}

/// `×1.42`, or `×0.043`: a ratio with at least two significant digits.
pub(in crate::report) fn ratio(value: f64) -> String {
    let digits = if value >= 9.995 {
        1
    } else if value >= 0.0995 {
        2
    } else {
        3
    };
    format!("×{}", fixed(value, digits))
}

/// `[1.38, 1.45]`; empty without an interval. An end that would read as 1 without being 1 gets a
/// third decimal, because on which side of 1 it lies is what the verdict hangs on.
pub(in crate::report) fn ratio_interval(ci95: Option<[f64; 2]>) -> String {
    let plain = |v: f64| {
        if v != 1.0 && (v - 1.0).abs() < 0.005 {
            return fixed(v, 3);
        }
        ratio(v).trim_start_matches('×').to_owned()
    };
    ci95.map_or_else(String::new, |[low, high]| {
        format!("[{}, {}]", plain(low), plain(high))
    })
}

/// `2026-11-21 05:12 UTC` of ms since 1970.
pub(in crate::report) fn utc(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil(minutes / 1440);
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// `4 min 12 s`
pub(in crate::report) fn duration(ms: u64) -> String {
    match (ms / 60_000, ms / 1000 % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// Proleptic Gregorian date of a day since 1970-01-01 (H. Hinnant, "chrono-compatible low-level
/// date algorithms"): years counted from March, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits() {
        for (v, text) in [
            (0.853, "0.85"),
            (9.99, "9.99"),
            (9.996, "10.0"),
            (14.23, "14.2"),
            (208.4, "208"),
        ] {
            assert_eq!(short(v), text);
        }
        assert_eq!(fixed(1_234_567.0, 0), "1\u{202f}234\u{202f}567");
        assert_eq!(fixed(-1234.5, 1), "−1234.5");
        assert_eq!(ratio(0.0432), "×0.043");
        assert_eq!(ratio(1.4234), "×1.42");
        assert_eq!(ratio_interval(Some([0.9712, 0.9981])), "[0.97, 0.998]");
        assert_eq!(value(Metric::UnderlayRate, 394_120.0), "394");
        assert_eq!(value(Metric::UnderlayRate, 65_432.0), "65.4");
        assert_eq!(value(Metric::Transactions, 241_900.0), "242");
        for (percent, text) in [
            (0.0, "0"),
            (0.00001, "< 0.0001"),
            (0.0012, "0.0012"),
            (0.5, "0.500"),
            (2.04, "2.0"),
        ] {
            assert_eq!(loss(percent), text);
        }
        assert_eq!(
            (signed(3.96, 1), signed(-3.96, 1), signed(0.0, 1)),
            ("+4.0".into(), "−4.0".into(), "0.0".into())
        );
    }

    #[test]
    fn a_change_is_said_as_people_say_it() {
        let said = |value, ci95| {
            let (much, range) = amount(value, ci95);
            format!("{much} {range}").trim_end().to_owned()
        };
        assert_eq!(said(0.97, Some([0.96, 0.98])), "3.0 % [2.0, 4.0]");
        assert_eq!(said(1.12, Some([1.1, 1.14])), "12 % [10, 14]");
        assert_eq!(said(2.1, Some([2.0, 2.2])), "×2.10 [2.00, 2.20]");
        assert_eq!(
            said(1.01, Some([0.97, 1.04])),
            "×1.01 [0.97, 1.04]",
            "not proven"
        );
        assert_eq!(said(1.01, None), "×1.01");
    }

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_795_237_920_000), "2026-11-21 05:12 UTC");
        assert_eq!(duration(252_000), "4 min 12 s");
    }
}
