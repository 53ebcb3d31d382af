//! Memory in use at the end of a window.

use super::traffic::Readings;
use crate::error::LabError;
use overlane_analysis::record::Memory;
use overlane_traffic::message::Reading;
use std::fs;

const PATH: &str = "/proc/meminfo";

/// The machine's, and that of the guests' programs as they read it themselves.
pub(super) fn memory(readings: &Readings) -> Result<Memory, LabError> {
    let of = |readings: &[Reading]| {
        let kib: u64 = readings.iter().map(|reading| reading.memory_kib).sum();
        (kib > 0).then(|| kib as f64 / 1024.0)
    };
    Ok(Memory {
        machine_mib: of_the_machine()?,
        guest_sender_mib: of(&readings.senders),
        guest_receiver_mib: of(&readings.receivers),
    })
}

/// Used memory of the machine, in MiB.
pub(crate) fn of_the_machine() -> Result<f64, LabError> {
    let text = fs::read_to_string(PATH).map_err(LabError::io("reading", PATH.as_ref()))?;
    Ok(used_kib(&text)? as f64 / 1024.0)
}

/// proc(5): what is not available for new programs without swapping.
fn used_kib(text: &str) -> Result<u64, LabError> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let missing = |name: &str| LabError::KernelFile {
        path: PATH,
        reason: format!("no {name} in kB"),
    };
    let total = value("MemTotal:").ok_or_else(|| missing("MemTotal"))?;
    let available = value("MemAvailable:").ok_or_else(|| missing("MemAvailable"))?;
    Ok(total.saturating_sub(available))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_is_what_is_not_available() {
        let text = "MemTotal:        1000 kB\nMemFree:  1 kB\nMemAvailable:     400 kB\n";
        assert_eq!(used_kib(text).unwrap(), 600);
        assert!(used_kib("MemTotal: 1000 kB\n").is_err());
        assert!(used_kib("").is_err());
        assert!(memory(&Readings::default()).unwrap().machine_mib > 0.0);
    }

    #[test]
    fn guests_that_told_nothing_have_no_memory() {
        let of = |memory_kib| Reading {
            memory_kib,
            ..Reading::default()
        };
        let readings = Readings {
            senders: vec![of(1024), of(2048)],
            receivers: vec![of(0)],
        };
        let memory = memory(&readings).unwrap();
        assert_eq!(memory.guest_sender_mib, Some(3.0));
        assert_eq!(memory.guest_receiver_mib, None);
    }
}
