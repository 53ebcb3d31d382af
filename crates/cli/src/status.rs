//! `overlane status [FILE]`, and `overlane show` without more: is this host as it was declared, and if not, what differs
//! and what helps? Exit codes: 0 as declared, 1 something differs, 2 nobody can tell.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_host::calls::View;
use overlane_host::{Row, Status, Thing, Verdict, status};
use overlane_model::Tables;

use crate::args::{HostChoice, Status as Arguments};
use crate::check;
use crate::failure::Failure;
use crate::output::{Output, state, text};

/// So many passes of the agent that mended something are shown.
const MENDED: usize = 5;

pub(crate) fn run(args: &Arguments, output: Output) -> Result<(), Failure> {
    show(args.file.as_deref(), &args.host, args.json, output)
}

pub(crate) fn show(
    file: Option<&Path>,
    host: &HostChoice,
    json: bool,
    output: Output,
) -> Result<(), Failure> {
    let unknown = |failure| match failure {
        Failure::Host(error) => Failure::CannotTell(error),
        other => other,
    };
    let host = host.resolve().map_err(unknown)?;
    let declared = file.map(|file| declared(file, &host)).transpose()?;
    let found = status(&host, declared.as_ref()).map_err(Failure::CannotTell)?;
    if json {
        output.json(&found)?;
    } else {
        print(&found, output)?;
    }
    match found.verdict {
        Verdict::AsDeclared => Ok(()),
        Verdict::Differs => Err(Failure::Negative),
        Verdict::Unknown => Err(Failure::Unclear),
    }
}

fn declared(file: &Path, host: &str) -> Result<Tables, Failure> {
    Ok(check::load(file)?.compile(host)?)
}

fn print(found: &Status, output: Output) -> std::io::Result<()> {
    let mut rows = output.table(&["THING", "NAME", "STATE"]);
    for thing in &found.things {
        let words = match (thing.verdict, thing.rows.is_empty()) {
            (Verdict::AsDeclared, true) => "ok",
            (Verdict::AsDeclared, false) => "ok, see below",
            (Verdict::Differs, _) => "differs",
            (Verdict::Unknown, _) => "unknown",
        };
        rows.push(vec![
            text(thing.object.word()),
            text(&thing.name),
            state(words, thing.verdict == Verdict::AsDeclared),
        ]);
    }
    let heading = match &found.netns {
        Some(netns) => format!("host {} (namespace {netns})", found.host),
        None => format!("host {}", found.host),
    };
    output.section(&heading, &rows, "nothing")?;
    for row in &found.rows {
        output.line("")?;
        output.line(told(row, output))?;
    }
    if let Some(view) = &found.agent {
        output.line("")?;
        for line in agent(view) {
            output.line(line)?;
        }
    }
    output.line("")?;
    let (words, is_well) = verdict(found);
    output.outcome(words, is_well)
}

/// Who keeps the host, by what, and what it mended lately.
fn agent(view: &View) -> Vec<String> {
    let source = view.source.as_deref().unwrap_or("what is applied");
    let since = lasts(now().saturating_sub(view.since));
    let mut lines = vec![format!(
        "agent (process {}): keeps the host by {source} for {since}",
        view.pid
    )];
    let (attempted, applied) = (view.attempted.number, view.applied.map(|it| it.number));
    if applied != Some(attempted) {
        let applied = applied.map_or("none".to_owned(), |number| format!("number {number}"));
        lines.push(format!(
            "  wanted: state number {attempted}; applied: {applied}"
        ));
    }
    let lately = view.mended.iter().rev().take(MENDED);
    for mended in lately {
        let ago = lasts(now().saturating_sub(mended.at));
        let first = mended.lines.first().map(String::as_str);
        // The last line says how many there were.
        let more = match mended.lines.len() {
            0..=2 => String::new(),
            count => format!(", and {} more", count - 2),
        };
        lines.push(format!("  {ago} ago: {}{more}", first.unwrap_or_default()));
    }
    lines
}

/// Seconds since the Epoch.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// What it is, how it is, and what helps.
fn told(row: &Row, output: Output) -> String {
    let mut condition = row.condition();
    if let Some(since) = row.since {
        let seconds = now().saturating_sub(since);
        condition.push_str(&format!(" (for {})", lasts(seconds)));
    }
    let mut lines = vec![output.wrapped(&format!("{}: ", row.subject()), &condition)];
    if let Some(remedy) = &row.remedy {
        lines.push(output.wrapped("  help: ", &remedy.words()));
    }
    lines.join("\n")
}

/// Of seconds, in the largest unit that there are two of.
fn lasts(seconds: u64) -> String {
    let units = [(86400, "days"), (3600, "hours"), (60, "minutes")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= 2 * unit);
    let (unit, name) = unit.unwrap_or((1, "seconds"));
    format!("{} {name}", seconds / unit)
}

fn verdict(found: &Status) -> (String, bool) {
    let host = &found.host;
    let all = found.things.len();
    match found.verdict {
        Verdict::AsDeclared => (format!("host {host}: as declared"), true),
        Verdict::Differs => {
            let differs = |it: &&Thing| it.verdict == Verdict::Differs;
            let differ = found.things.iter().filter(differs).count();
            let s = if differ == 1 { "s" } else { "" };
            (
                format!("host {host}: {differ} of {all} things differ{s}"),
                false,
            )
        }
        Verdict::Unknown => (format!("host {host}: not all could be looked at"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::lasts;

    #[test]
    fn a_time_has_a_unit_that_says_enough() {
        for (seconds, said) in [
            (0, "0 seconds"),
            (119, "119 seconds"),
            (120, "2 minutes"),
            (7199, "119 minutes"),
            (7200, "2 hours"),
            (172_800, "2 days"),
        ] {
            assert_eq!(lasts(seconds), said);
        }
    }
}
