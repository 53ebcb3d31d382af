//! Wall-clock time as results name it: ms since 1970, and UTC stamps for folders and reports.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in ms since 1970 (UTC).
pub fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `20261121T051257Z`: sorts by time and is a good file name.
pub fn utc_stamp(unix_ms: u64) -> String {
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = Civil::from(unix_ms);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// `2026-11-21 05:12:57 UTC`: for readers.
pub fn utc_text(unix_ms: u64) -> String {
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = Civil::from(unix_ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl From<u64> for Civil {
    fn from(unix_ms: u64) -> Self {
        let seconds = unix_ms / 1000;
        // Days are counted from 1 March of year 0, so that the leap day is the last of its year and
        // months follow a pattern of 153 days every five.
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_known_days() {
        for (seconds, stamp) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_600, "20250101T000000Z"),
        ] {
            assert_eq!(utc_stamp(seconds * 1000), stamp);
        }
        assert_eq!(utc_text(951_782_400_999), "2000-02-29 00:00:00 UTC");
    }
}
