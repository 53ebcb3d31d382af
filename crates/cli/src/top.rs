//! `overlane top`: what passes per second. `overlane_host::rates` measures; here it is a table once, a
//! line of JSON per interval, or a screen ([`screen`]).

mod screen;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use overlane_host::rates::{Rate, Rates, Reading};
use overlane_host::signals::Signals;

use crate::args::Top;
use crate::failure::Failure;
use crate::output::{Output, json_line, state, text};
use crate::show;

/// How long a signal may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Top, output: Output) -> Result<(), Failure> {
    let host = show::host(&args.host, output)?;
    let interval = Duration::from_secs_f64(args.interval);
    if args.once || args.json {
        return lines(args, &host, interval, output);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::NoTerminal);
    }
    screen::run(&host, interval, output.colour_out())
}

/// One reading after the other, without a screen.
fn lines(args: &Top, host: &str, interval: Duration, output: Output) -> Result<(), Failure> {
    let signals = Signals::take_over()?;
    let mut before = Reading::now(host)?;
    while sleep(interval, &signals) {
        let now = Reading::now(host)?;
        let rates = now.since(&before);
        match (args.json, args.once) {
            (true, true) => output.json(&rates)?,
            (true, false) => output.painted(json_line(&rates)?)?,
            (false, _) => table(&rates, output)?,
        }
        if args.once {
            break;
        }
        before = now;
    }
    Ok(())
}

/// False when a signal came meanwhile.
fn sleep(time: Duration, signals: &Signals) -> bool {
    let end = Instant::now() + time;
    loop {
        if signals.raised() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NOTICE));
    }
}

/// Headings of the rates in one direction.
const RATE_COLUMNS: [&str; 3] = ["#PACKETS/S", "#SEGMENTS/S", "#BIT/S"];

fn table(rates: &Rates, output: Output) -> io::Result<()> {
    let columns = |name, place| {
        let mut columns = vec![name, place, ""];
        columns.extend(RATE_COLUMNS);
        output.table(&columns)
    };
    let mut rows = columns("PORT", "SWITCH");
    for port in &rates.ports {
        for (way, rate) in [
            ("from port", &port.from_port),
            ("to port", &port.to_port),
            ("dropped", &port.dropped),
        ] {
            let mut cells = vec![text(&port.port), text(&port.switch), text(way)];
            cells.extend(shown(rate).map(text));
            rows.push(cells);
        }
    }
    let heading = format!(
        "host {}: per second, over {:.1} s",
        rates.host, rates.interval_s
    );
    output.section(&heading, &rows, "no logical ports")?;

    let mut rows = columns("REMOTE", "ADDRESS");
    for remote in &rates.remotes {
        for (way, rate) in [
            ("to remote", &remote.to_remote),
            ("from remote", &remote.from_remote),
            ("dropped", &remote.dropped),
        ] {
            let mut cells = vec![text(&remote.remote), text(remote.address), text(way)];
            cells.extend(shown(rate).map(text));
            rows.push(cells);
        }
    }
    output.line("")?;
    output.section("remotes", &rows, "no remotes")?;

    let mut rows = output.table(&[
        "HOOK",
        "REASON",
        RATE_COLUMNS[0],
        RATE_COLUMNS[1],
        RATE_COLUMNS[2],
    ]);
    for drop in &rates.drops {
        let mut cells = vec![text(drop.hook), state(drop.reason, false)];
        cells.extend(shown(&drop.rate).map(text));
        rows.push(cells);
    }
    output.line("")?;
    output.section("drops", &rows, "nothing was dropped")?;

    let mut rows = output.table(&[
        "#CPU",
        "#SOFTIRQ %",
        "#SYSTEM %",
        "#USER %",
        "#STEAL %",
        "#IDLE %",
    ]);
    for cpu in &rates.cpus {
        let parts = [
            cpu.softirq_percent,
            cpu.system_percent,
            cpu.user_percent,
            cpu.steal_percent,
            cpu.idle_percent,
        ];
        let mut cells = vec![text(cpu.cpu)];
        cells.extend(parts.map(|part| text(format!("{part:.0}"))));
        rows.push(cells);
    }
    output.line("")?;
    output.section("CPUs of this machine", &rows, "not measured")
}

/// Packets, segments and bits per second.
fn shown(rate: &Rate) -> [String; 3] {
    [rate.packets_pps, rate.segments_pps, rate.rate_bps].map(scaled)
}

/// Three digits and a decimal prefix: `9.41 G`. Below one nothing but `0` stands for nothing.
fn scaled(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, prefix) = PREFIXES
        .into_iter()
        // What would be rounded to 1000 gets the next prefix.
        .find(|(scale, _)| value >= scale * 0.9995)
        .unwrap_or((1.0, ""));
    let value = value / scale;
    let digits = match value {
        0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (1234.0, "1.23 k"),
            (9_413_000_000.0, "9.41 G"),
            (45e9, "45.0 G"),
            (2.5e12, "2.50 T"),
        ] {
            assert_eq!(scaled(value), expected, "{value}");
        }
    }
}
