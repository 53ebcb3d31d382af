//! Orders of the laboratory, a line each, and their answers:
//!
//! | order | answer |
//! |---|---|
//! | `dirty MIB MIB_PER_SECOND` | `ok`; `0 0` lets go of the memory |
//! | `report` | `report key=value …` |
//! | `reset` | `ok`: everything is counted from 0 again, but for the memory |
//!
//! What cannot be done is answered `error …`. The first line is `up …`, without an order.

use crate::boot::Network;
use crate::counters::{Counters, Counts};
use crate::memory::{self, Memory};
use crate::sys;
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;

const TERMINAL: &str = "/dev/ttyS1";
/// It is not to become the terminal that ends us.
const O_NOCTTY: i32 = 0o400;

/// Says that the machine is up, and obeys from then on.
pub(crate) fn serve(network: Option<&Network>, counters: &Counters) -> Result<Infallible, String> {
    let failed = |error| format!("{TERMINAL}: {error}");
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(O_NOCTTY)
        .open(TERMINAL)
        .map_err(failed)?;
    sys::make_raw(&terminal).map_err(failed)?;
    let memory = Memory::start()?;
    let address = network.map_or_else(String::new, |network| {
        format!(" address={}", network.address)
    });
    say(
        &terminal,
        &format!("up uptime_ms={}{address}", uptime_ms()?),
    )?;
    let mut orders = BufReader::new(terminal.try_clone().map_err(failed)?);
    loop {
        let mut order = String::new();
        if orders.read_line(&mut order).map_err(failed)? == 0 {
            return Err(format!("{TERMINAL} has ended"));
        }
        say(&terminal, &answer(&order, &memory, counters))?;
    }
}

fn say(mut terminal: &File, line: &str) -> Result<(), String> {
    terminal
        .write_all(format!("{line}\n").as_bytes())
        .map_err(|error| format!("{TERMINAL}: {error}"))
}

fn answer(order: &str, memory: &Memory, counters: &Counters) -> String {
    let words: Vec<_> = order.split_ascii_whitespace().collect();
    let done = match words.as_slice() {
        ["dirty", mib, rate] => match (mib.parse(), rate.parse()) {
            (Ok(mib), Ok(rate)) => memory.dirty(mib, rate).map(|()| "ok".to_owned()),
            _ => Err("it is `dirty MIB MIB_PER_SECOND`".to_owned()),
        },
        ["report"] => report(memory, counters),
        ["reset"] => {
            *counters.lock() = Counts::default();
            Ok("ok".to_owned())
        }
        _ => Err(format!("no such order: {}", order.trim())),
    };
    done.unwrap_or_else(|reason| format!("error {reason}"))
}

fn report(memory: &Memory, counters: &Counters) -> Result<String, String> {
    let figures = memory.figures();
    Ok(format!(
        "report uptime_ms={} available_mib={} memory_mib={} wanted_mib_per_second={} reached_mib_per_second={:.2} \
         dirtied_mib={:.2}{}",
        uptime_ms()?,
        memory::available_mib()?,
        figures.mib,
        figures.wanted_mib_per_second,
        figures.reached_mib_per_second,
        figures.dirtied_mib,
        counters.lock().words()
    ))
}

fn uptime_ms() -> Result<u64, String> {
    let path = "/proc/uptime";
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let seconds: Option<f64> = text
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    Ok(seconds.map_or(0, |seconds| (seconds * 1000.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers() {
        let (memory, counters) = (Memory::start().unwrap(), Counters::default());
        let ask = |order: &str| answer(order, &memory, &counters);
        assert_eq!(ask("dirty 1 3\n"), "ok");
        counters.lock().tcp_connections = 4;
        let report = ask("report\n");
        for word in [
            "memory_mib=1 ",
            "wanted_mib_per_second=3 ",
            "tcp_connections=4 ",
            "uptime_ms=",
        ] {
            assert!(report.contains(word), "{report}");
        }
        assert_eq!(ask("reset"), "ok");
        assert!(ask("report").contains("tcp_connections=0"));
        assert_eq!(ask("dirty 0 0"), "ok");
        for order in ["dirty 1", "dirty x 1", "report now", "", "dirty 99999999 1"] {
            assert!(ask(order).starts_with("error "), "{order}");
        }
    }
}
