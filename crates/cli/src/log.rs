//! `overlane log`: what rules log, packet by packet. `overlane_host::rule_log` brings the records; here they
//! become lines.

use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use overlane_host::capture::End;
use overlane_host::rule_log::{Record, Session};
use overlane_model::escaped;

use crate::args::Log;
use crate::capture::text::time_of_day;
use crate::failure::Failure;
use crate::output::{Output, json_line};
use crate::{protocol, show};

/// Records between two looks at the signals.
const BATCH: usize = 256;

pub(crate) fn run(args: &Log, output: Output) -> Result<(), Failure> {
    let host = show::host(&args.host, output)?;
    let mut session = Session::open(&host)?;
    if session.has_rules() {
        output.note(format!("log of host {host}; Ctrl-C ends it"));
    } else {
        output.note(format!(
            "no rule on host {host} has `log: true`; waiting until one has, Ctrl-C ends it"
        ));
    }
    let until = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut out = BufWriter::new(io::stdout());
    let mut shown = 0u64;
    let end = loop {
        let reader = io::stdout();
        if let Some(end) = session.wait(until, Some(reader.as_fd()))? {
            break end;
        }
        shown += take(&mut session, &mut out, args.json, output, BATCH)?;
    };
    if end != End::ReaderGone {
        // What came before the end; the ring holds no more than this.
        shown += take(&mut session, &mut out, args.json, output, usize::MAX)?;
    }
    if end == End::HostGone {
        output.note(format!(
            "host {host} was removed or applied by another version: the log ended"
        ));
    }
    output.note(format!("{shown} packets"));
    Ok(())
}

/// Writes what waits, at most `most` records; says how many.
fn take(
    session: &mut Session,
    out: &mut impl Write,
    json: bool,
    output: Output,
    most: usize,
) -> Result<u64, Failure> {
    let mut shown = 0;
    while shown < most {
        let Some(record) = session.next() else { break };
        let line = if json {
            json_line(&record)?
        } else {
            line(&record, output.colour_out())
        };
        writeln!(out, "{line}")?;
        shown += 1;
    }
    out.flush()?;
    Ok(shown as u64)
}

/// One packet in a line; what was dropped stands out.
fn line(record: &Record, colour: bool) -> String {
    let port = record.port.as_deref().unwrap_or("?");
    let rule = match (&record.rule, record.line) {
        (Some(rule), Some(line)) => format!("{rule} (line {line})"),
        (Some(rule), None) => rule.clone(),
        (None, _) => "a rule that is gone".to_owned(),
    };
    let fate = record.verdict.unwrap_or("passed");
    let fate = if colour && !record.passed {
        format!("\x1b[1;31m{fate:<18}\x1b[0m")
    } else {
        format!("{fate:<18}")
    };
    let is_from = record.direction == "from_port";
    let (from, to) = if is_from {
        (&record.local, &record.peer)
    } else {
        (&record.peer, &record.local)
    };
    format!(
        "{}  {:<9} {:<10} {fate} {}: {} {from} > {to}, {} bytes",
        time_of_day(record.time_unix_ns),
        record.direction,
        escaped(port),
        escaped(&rule),
        protocol::with_type(record.protocol, record.icmp_type),
        record.len,
    )
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use overlane_host::observe::End;

    use super::*;

    fn record() -> Record {
        let end = |last, port| End {
            address: IpAddr::from([198, 18, 1, last]),
            port,
        };
        Record {
            time_unix_ns: 0,
            rule: Some("web-http".into()),
            line: Some(12),
            port: Some("web1".into()),
            direction: "to_port",
            passed: false,
            verdict: Some("firewall_drop"),
            protocol: 6,
            local: end(1, Some(80)),
            peer: end(2, Some(40000)),
            icmp_type: None,
            len: 54,
        }
    }

    #[test]
    fn a_line_reads_from_sender_to_receiver() {
        let dropped = line(&record(), false);
        let expected = "to_port   web1       firewall_drop      web-http (line 12): \
                        tcp 198.18.1.2:40000 > 198.18.1.1:80, 54 bytes";
        assert!(dropped.ends_with(expected), "{dropped}");
        let passed = Record {
            direction: "from_port",
            passed: true,
            verdict: None,
            ..record()
        };
        let passed = line(&passed, true);
        assert!(!passed.contains('\u{1b}'), "{passed}");
        assert!(passed.contains("passed"), "{passed}");
        assert!(passed.ends_with("tcp 198.18.1.1:80 > 198.18.1.2:40000, 54 bytes"));
        assert!(line(&record(), true).contains("\x1b[1;31mfirewall_drop"));
    }
}
