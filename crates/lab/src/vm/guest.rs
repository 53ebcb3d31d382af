//! What the program in a virtual machine (`crates/guest`) says.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a guest reports of itself, since it booted or since its counters were reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GuestReport {
    pub(crate) uptime: Duration,
    pub(crate) available_mib: u64,
    /// The memory that it writes to, and how fast it wants to.
    pub(crate) memory_mib: u64,
    pub(crate) wanted_mib_per_second: u64,
    /// Since the order, by the guest's own clock, which stands while the machine is stopped.
    pub(crate) reached_mib_per_second: f64,
    pub(crate) dirtied_mib: f64,
    pub(crate) udp_received: u64,
    /// The same number of the same sender again.
    pub(crate) udp_duplicates: u64,
    pub(crate) udp_reordered: u64,
    /// Between two datagrams, by the guest's clock: a machine that is stopped does not notice. The sender does.
    pub(crate) udp_longest_gap: Duration,
    pub(crate) tcp_connections: u64,
    pub(crate) tcp_bytes: u64,
    /// Frames to somebody else, and to whom the first of them was.
    pub(crate) wrong_frames: u64,
    pub(crate) wrong_mac: Option<String>,
    /// Frames to itself that were there twice within half a second.
    pub(crate) duplicate_frames: u64,
}

impl GuestReport {
    /// Reads `report key=value …`; the error names what is missing.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let words: BTreeMap<_, _> = line
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='))
            .collect();
        let number = |key: &str| -> Result<u64, String> {
            words
                .get(key)
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| format!("its report has no {key}: {line}"))
        };
        let fraction = |key: &str| -> Result<f64, String> {
            words
                .get(key)
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| format!("its report has no {key}: {line}"))
        };
        Ok(Self {
            uptime: Duration::from_millis(number("uptime_ms")?),
            available_mib: number("available_mib")?,
            memory_mib: number("memory_mib")?,
            wanted_mib_per_second: number("wanted_mib_per_second")?,
            reached_mib_per_second: fraction("reached_mib_per_second")?,
            dirtied_mib: fraction("dirtied_mib")?,
            udp_received: number("udp_received")?,
            udp_duplicates: number("udp_duplicates")?,
            udp_reordered: number("udp_reordered")?,
            udp_longest_gap: Duration::from_micros(number("udp_longest_gap_us")?),
            tcp_connections: number("tcp_connections")?,
            tcp_bytes: number("tcp_bytes")?,
            wrong_frames: number("wrong_frames")?,
            wrong_mac: words.get("wrong_mac").map(|mac| (*mac).to_owned()),
            duplicate_frames: number("duplicate_frames")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "report uptime_ms=4210 available_mib=180 memory_mib=96 wanted_mib_per_second=20 \
        reached_mib_per_second=19.87 dirtied_mib=40.25 udp_received=7 udp_duplicates=1 udp_reordered=2 udp_uncounted=0 \
        udp_longest_gap_us=90000 tcp_connections=3 tcp_bytes=4 wrong_frames=5 duplicate_frames=6 \
        wrong_mac=02:00:00:00:00:01";

    #[test]
    fn a_report_is_read_whole_or_not() {
        let report = GuestReport::parse(LINE).unwrap();
        assert_eq!(report.uptime, Duration::from_millis(4210));
        assert_eq!(
            (report.reached_mib_per_second, report.dirtied_mib),
            (19.87, 40.25)
        );
        assert_eq!(
            (
                report.udp_received,
                report.udp_duplicates,
                report.udp_reordered
            ),
            (7, 1, 2)
        );
        assert_eq!(report.udp_longest_gap, Duration::from_millis(90));
        assert_eq!(report.wrong_mac.as_deref(), Some("02:00:00:00:00:01"));
        assert_eq!((report.wrong_frames, report.duplicate_frames), (5, 6));
        let error = GuestReport::parse(&LINE.replace("tcp_bytes", "x")).unwrap_err();
        assert!(error.contains("no tcp_bytes"), "{error}");
        let none = GuestReport::parse(&LINE.replace(" wrong_mac", " x")).unwrap();
        assert_eq!(none.wrong_mac, None);
    }
}
