//! `overlane mtu FILE --watch`: what vanishes on the way because it is too large, as it is found.

use std::io::{self, Write};
use std::time::Duration;

use overlane_host::HostError;
use overlane_host::mtu::watch::{End, Event, Happened, Step, Watch};
use overlane_model::{Fabric, escaped};

use crate::args::Mtu;
use crate::capture::text::time_of_day;
use crate::failure::Failure;
use crate::output::{Output, json_line};

pub(super) fn run(args: &Mtu, fabric: &Fabric, output: Output) -> Result<(), Failure> {
    let mut names = super::probe::hosts(fabric, &args.hosts)?;
    let host = match names.len() {
        1 => names.remove(0),
        _ => return Err(HostError::SeveralApplied(names).into()),
    };
    let mut watch = Watch::open(&host, Duration::from_secs_f64(args.interval))?;
    let remotes = watch.remotes();
    super::probe::note_other_file(fabric, &host, &remotes, output);
    let remotes = match remotes.len() {
        1 => "1 remote".to_owned(),
        count => format!("{count} remotes"),
    };
    output.note(format!(
        "watching the ways of host {host} to {remotes}; Ctrl-C ends it"
    ));
    let end = loop {
        match watch.step()? {
            Step::End(end) => break end,
            Step::NoUplink(uplink) => output.note(format!(
                "the uplink {uplink} of host {host}, or its address, is gone; the watch goes on when it is back"
            )),
            Step::Event(event) => print(&event, args.json)?,
        }
    };
    if end == End::HostGone {
        output.note(format!(
            "host {host} was removed or applied by another version: nobody watches any more"
        ));
    }
    Ok(())
}

fn print(event: &Event, json: bool) -> io::Result<()> {
    let line = if json { json_line(event)? } else { line(event) };
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn line(event: &Event) -> String {
    let Event {
        remote,
        address,
        mtu,
        before,
        uplink_mtu,
        ..
    } = event;
    let whence = match event.hop {
        Some(hop) => format!("{hop} says so"),
        None => "nobody says so".to_owned(),
    };
    let what = match event.event {
        Happened::Lowered => {
            format!("{mtu} of {uplink_mtu} bytes get there, {whence}; guests are told from now on")
        }
        Happened::Raised if mtu >= uplink_mtu => {
            format!("{mtu} bytes get there again, all that the uplink sends")
        }
        Happened::Raised => format!("{mtu} bytes get there again, {before} did before"),
    };
    format!(
        "{}  {} ({address}): {what}",
        time_of_day(event.time_unix_ns),
        escaped(remote)
    )
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn said(event: Happened, mtu: u16, before: u16, hop: Option<IpAddr>) -> String {
        let event = Event {
            time_unix_ns: 0,
            event,
            remote: "h2".to_owned(),
            address: [198, 18, 0, 2].into(),
            mtu,
            before,
            uplink_mtu: 1500,
            hop,
        };
        let line = line(&event);
        line.split_once("  ")
            .map(|(_, what)| what.to_owned())
            .unwrap_or_default()
    }

    #[test]
    fn a_line_says_what_fits_and_who_says_so() {
        assert_eq!(
            said(Happened::Lowered, 1400, 1500, None),
            "h2 (198.18.0.2): 1400 of 1500 bytes get there, nobody says so; guests are told from now on"
        );
        let hop = Some([198, 18, 0, 254].into());
        assert!(said(Happened::Lowered, 1400, 1500, hop).contains("198.18.0.254 says so"));
        assert_eq!(
            said(Happened::Raised, 1450, 1400, None),
            "h2 (198.18.0.2): 1450 bytes get there again, 1400 did before"
        );
        assert!(said(Happened::Raised, 1500, 1400, None).ends_with("all that the uplink sends"));
    }
}
