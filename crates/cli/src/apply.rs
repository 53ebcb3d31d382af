//! `overlane apply FILE --host NAME`: `overlane_host` makes the machine carry what the file says. Here: what is printed.

use overlane_host::report::lines;
use overlane_host::{ApplyRequest, Declared, Holder, Report, RestBy, UnfitDevice, UsedAs};

use crate::args::Apply;
use crate::failure::Failure;
use crate::output::Output;
use crate::{announce, check};

pub(crate) fn run(args: &Apply, output: Output) -> Result<(), Failure> {
    let host = match &args.host {
        Some(host) => host.to_string(),
        None => overlane_host::only_applied_host()?.host,
    };
    let declared = match &args.file {
        Some(file) => Declared::File {
            path: check::path(file),
            host: &host,
        },
        None => Declared::Last { host: &host },
    };
    let say_missing = |devices: &[UnfitDevice]| {
        for device in devices {
            output.note(missing(device));
        }
    };
    let report = overlane_host::apply(&ApplyRequest {
        netns: args.netns.as_deref(),
        dry_run: args.dry_run,
        strict: args.strict,
        rest_by: RestBy::Process,
        on_warnings: &|warnings| check::say(warnings, output),
        on_wait: &|holder| wait_note(output, &host, holder),
        ..ApplyRequest::new(declared)
    })
    .inspect_err(|error| say_missing(error.missing_besides()))?;
    say_missing(&report.missing);
    for note in lines(&report.notes) {
        output.note(note);
    }
    if args.json {
        output.json(&report)?;
    } else {
        output.line(describe(&report))?;
    }
    Ok(())
}

/// What is without it until somebody makes the device.
fn missing(device: &UnfitDevice) -> String {
    if device.used_as == UsedAs::Uplink {
        return format!("no such device: {device}");
    }
    let lost = device.used_as.lost(device.by.len());
    format!("no such device: {device}; {lost} until the device is there and you apply again")
}

/// Said once, before waiting: who holds the lock.
pub(crate) fn wait_note(output: Output, host: &str, holder: &Holder) {
    output.note(format!("waiting: host {host} is locked by {holder}"));
}

/// One line per difference, then how it went.
fn describe(report: &Report) -> String {
    let mut lines = lines(&report.changes);
    let count = lines.len();
    lines.extend(announce::line(&report.announced));
    let host = &report.host;
    lines.push(match (count, report.dry_run) {
        (0, _) => format!("host {host}: nothing differs"),
        (1, true) => format!("host {host}: 1 change, nothing done (dry run)"),
        (count, true) => format!("host {host}: {count} changes, nothing done (dry run)"),
        (1, false) => format!("host {host}: applied, 1 change"),
        (count, false) => format!("host {host}: applied, {count} changes"),
    });
    lines.join("\n")
}
