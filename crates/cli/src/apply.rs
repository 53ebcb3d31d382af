//! `overlane apply FILE --host NAME`: `overlane_host` makes the machine carry what the file says. Here: what is printed.

use std::path::Path;

use overlane_host::agent::{CONFIG, Config};
use overlane_host::calls::{self, Answer, Call};
use overlane_host::report::lines;
use overlane_host::{
    ApplyRequest, Declared, Holder, HostError, Report, RestBy, UnfitDevice, UsedAs,
};

use crate::args::Apply;
use crate::failure::Failure;
use crate::output::Output;
use crate::{agent, announce, check};

pub(crate) fn run(args: &Apply, output: Output) -> Result<(), Failure> {
    let config = Config::read(Path::new(CONFIG))?;
    let host = match &args.host {
        Some(host) => host.to_string(),
        None if args.last && config.host.is_none() => overlane_host::only_applied_host()?.host,
        // Who names a file says for which host, here or in the settings.
        None if args.file.is_some() => config.host.clone().ok_or(HostError::WhichHost)?,
        None => config.host()?,
    };
    if let Some(answer) = by_agent(args, &host)? {
        return agent::print(answer, args.json, output);
    }
    let file = args.file.as_deref().map(check::path);
    let defaults = config.host.as_ref().is_none_or(|its| *its == host);
    let file = file.or(config.fabric.as_deref().filter(|_| defaults && !args.last));
    let declared = match file {
        Some(path) => Declared::File { path, host: &host },
        None if args.last => Declared::Last { host: &host },
        None => return Err(Failure::NothingToApply),
    };
    let say_missing = |devices: &[UnfitDevice]| {
        for device in devices {
            output.note(missing(device));
        }
    };
    let netns = config.netns.as_deref().filter(|_| defaults && !args.last);
    let report = overlane_host::apply(&ApplyRequest {
        netns: args.netns.as_deref().or(netns),
        dry_run: args.dry_run,
        strict: args.strict,
        rest_by: RestBy::Process,
        on_warnings: &|warnings| check::say(warnings, output),
        on_wait: &|holder| wait_note(output, &host, holder),
        ..ApplyRequest::new(declared)
    })
    .inspect_err(|error| say_missing(error.missing_besides()))?;
    let (lines, notes) = rendered(&report);
    for note in notes {
        output.note(note);
    }
    if args.json {
        output.json(&report)?;
    } else {
        output.line(lines.join("\n"))?;
    }
    Ok(())
}

/// Where an agent keeps the host, it applies. None: nobody keeps it, or the fabric is on standard input and the agent
/// has no other: it takes up what is applied.
fn by_agent(args: &Apply, host: &str) -> Result<Option<Answer>, Failure> {
    let is_input = args.file.as_deref() == Some(Path::new("-"));
    if is_input
        && let Some(Answer::Status(view)) = calls::ask(host, &Call::Status)?
        && view.source.is_none()
    {
        return Ok(None);
    }
    let file = args
        .file
        .as_deref()
        .map(check::path)
        .map(std::path::absolute);
    let file = file.transpose().map_err(|source| Failure::Input {
        name: "the current directory".to_owned(),
        source,
    })?;
    let call = Call::Apply {
        file,
        netns: args.netns.as_deref().map(str::to_owned),
        dry_run: args.dry_run,
        strict: args.strict,
    };
    Ok(calls::ask(host, &call)?)
}

/// What changed with the outcome, and what deserves a look.
pub(crate) fn rendered(report: &Report) -> (Vec<String>, Vec<String>) {
    let missing = report.missing.iter().map(missing);
    let notes = missing.chain(lines(&report.notes)).collect();
    (describe(report), notes)
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
fn describe(report: &Report) -> Vec<String> {
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
    lines
}
