//! `overlane apply FILE --host NAME`: the fabric file becomes tables, and `overlane_host` makes the
//! machine carry them. Here: which errors come first, and what is printed.

use overlane_host::report::lines;
use overlane_host::{ApplyRequest, Holder, HostError, Report, UnfitDevice, UsedAs};
use overlane_model::Tables;

use crate::args::Apply;
use crate::failure::Failure;
use crate::output::Output;
use crate::{announce, check};

pub(crate) fn run(args: &Apply, output: Output) -> Result<(), Failure> {
    // First of all: on an old kernel nothing else is worth mending.
    overlane_ebpf::preflight::check_kernel().map_err(HostError::from)?;
    let (tables, netns) = wanted(args, output)?;
    let host = tables.host.as_str();
    let on_wait = |holder: &Holder| wait_note(output, host, holder);
    let say_missing = |devices: &[UnfitDevice]| {
        for device in devices {
            output.note(missing(device));
        }
    };
    let report = overlane_host::apply(&ApplyRequest {
        netns: netns.as_deref(),
        dry_run: args.dry_run,
        strict: args.strict,
        on_wait: &on_wait,
        ..ApplyRequest::new(&tables)
    })
    .inspect_err(|error| say_missing(error.missing_besides()))?;
    say_missing(&report.missing);
    if let Some(announcements) = &report.announcements {
        announce::start(announcements, output);
    }
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

/// The tables of the host, and its network namespace: by the file, or as they were applied last.
fn wanted(args: &Apply, output: Output) -> Result<(Tables, Option<String>), Failure> {
    let asked = args.netns.as_deref().map(str::to_owned);
    let (Some(file), Some(host)) = (&args.file, &args.host) else {
        let host = match &args.host {
            Some(host) => host.to_string(),
            None => overlane_host::only_applied_host()?.host,
        };
        let (tables, netns) = overlane_host::last_applied(&host)?;
        return Ok((tables, asked.or(netns)));
    };
    let fabric = check::load(file)?;
    check::warn(&fabric, output);
    Ok((fabric.compile(host.as_str())?, asked))
}

/// What is without it until somebody makes the device.
fn missing(device: &UnfitDevice) -> String {
    let without = match (device.used_as, device.by.len()) {
        (UsedAs::Uplink, _) => return format!("no such device: {device}"),
        (UsedAs::Port, 1) => "the port has no network",
        (UsedAs::Port, _) => "the ports have no network",
        (UsedAs::Leg, _) => "the router reaches no physical network",
    };
    format!("no such device: {device}; {without} until the device is there and you apply again")
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
