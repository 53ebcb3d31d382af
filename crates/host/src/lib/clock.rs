//! The clock of the programs (`bpf_ktime_get_ns`) and the one on the wall. In a time namespace the monotonic clock of
//! this process is another one than that of the programs: the kernel adds an offset to it (time_namespaces(7)).

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::error::HostError;

/// How the kernel's clock of events relates to the one on the wall.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: u64,
}

impl Clock {
    /// Both clocks at this moment.
    pub(crate) fn now() -> Result<Self, HostError> {
        let nanoseconds = |clock| -> Result<u64, HostError> {
            let time = clock_gettime(clock).map_err(HostError::system("read the clock"))?;
            let time = Duration::from(time);
            Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Ok(Self {
            monotonic_ns: without(offset_ns()?, nanoseconds(ClockId::CLOCK_MONOTONIC)?),
            unix_ns: nanoseconds(ClockId::CLOCK_REALTIME)?,
        })
    }

    /// The programs' clock in seconds, as entries have it that last for long.
    pub(crate) const fn monotonic_s(&self) -> u32 {
        (self.monotonic_ns / 1_000_000_000) as u32
    }

    /// When that was, in ns since 1970 (UTC).
    pub(crate) const fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        self.unix_ns
            .wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns))
    }
}

const OFFSETS: &str = "/proc/self/timens_offsets";

/// What is added to the monotonic clock of this process. A kernel without time namespaces has no such file.
fn offset_ns() -> Result<i128, HostError> {
    let path = Path::new(OFFSETS);
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(HostError::file("read", path)(error)),
        Ok(text) => parse(&text).ok_or_else(|| HostError::TimeNamespace { text }),
    }
}

/// A line for each clock: its name, seconds, nanoseconds.
fn parse(text: &str) -> Option<i128> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let mut words = lines.find_map(|mut words| (words.next()? == "monotonic").then_some(words))?;
    let mut number = || words.next()?.parse::<i64>().ok();
    let (seconds, nanoseconds) = (number()?, number()?);
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds))
}

fn without(offset_ns: i128, clock_ns: u64) -> u64 {
    u64::try_from(i128::from(clock_ns) - offset_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_taken_off() {
        let text = |line: &str| format!("{line}\nboottime            7         0\n");
        for (line, offset) in [
            ("monotonic           0         0", 0),
            ("monotonic      864000 500000000", 864_000_500_000_000),
            ("monotonic         -10 999999999", -9_000_000_001),
        ] {
            assert_eq!(parse(&text(line)), Some(offset), "{line}");
        }
        for wrong in ["", "monotonic", "monotonic 1", "monotonic 1 x"] {
            assert_eq!(parse(&text(wrong)), None, "{wrong}");
        }
        assert_eq!(without(-5, 10), 15);
        assert_eq!(without(5, 10), 5);
        assert_eq!(without(11, 10), 0);
    }

    #[test]
    fn the_clock_here_is_the_monotonic_one_without_its_offset() {
        let now = || Clock::now().unwrap().monotonic_ns;
        let uptime = || {
            let time = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
            without(
                offset_ns().unwrap(),
                u64::try_from(time.as_nanos()).unwrap(),
            )
        };
        let (before, between, after) = (uptime(), now(), uptime());
        assert!((before..=after).contains(&between));
    }
}
