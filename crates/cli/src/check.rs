//! `overlane check FILE`: everything that is wrong with a fabric file, at once.

use std::path::Path;

use overlane_model::{Diagnostic, Fabric, FabricErrors, Report, Severity};
use serde::Serialize;

use crate::args::Check;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &Check, output: Output) -> Result<(), Failure> {
    let result = load(&args.file);
    if args.json {
        output.json(&Verdict::of(&result))?;
        return result.map(|_| ()).map_err(|_| Failure::Reported);
    }
    let fabric = result?;
    warn(&fabric, output);
    output.line(format!("{}: ok, {}", args.file.display(), summary(&fabric)))?;
    Ok(())
}

/// Says on standard error what may work, but hardly as it was meant.
pub(crate) fn warn(fabric: &Fabric, output: Output) {
    if let Some(warnings) = fabric.warnings() {
        say(warnings, output);
    }
}

pub(crate) fn say(warnings: &Report, output: Output) {
    output.err_raw(warnings.render(output.colour_err()));
}

/// The fabric in a file, or on standard input for `-`.
pub(crate) fn load(file: &Path) -> Result<Fabric, FabricErrors> {
    Fabric::load(path(file))
}

/// Where a file is that the command line names.
pub(crate) fn path(file: &Path) -> &Path {
    match file == Path::new("-") {
        true => Path::new("/dev/stdin"),
        false => file,
    }
}

/// `geneve over IPv4, 2 hosts, 1 logical switch, 4 logical ports`
fn summary(fabric: &Fabric) -> String {
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!(
            "{count} {what}{}",
            if what.ends_with("ch") { "es" } else { "s" }
        ),
    };
    let family = match fabric.hosts().values().next() {
        Some(host) if host.underlay.is_ipv6() => " over IPv6",
        Some(_) => " over IPv4",
        None => "",
    };
    format!(
        "{}{family}, {}, {}, {}",
        fabric.tunnel().encapsulation,
        plural(fabric.hosts().len(), "host"),
        plural(fabric.switches().len(), "logical switch"),
        plural(fabric.ports().len(), "logical port"),
    )
}

/// What `--json` prints.
#[derive(Serialize)]
struct Verdict<'a> {
    ok: bool,
    errors: Vec<Mistake<'a>>,
    warnings: Vec<Mistake<'a>>,
}

/// One mistake; without a place when the file could not be read.
#[derive(Serialize)]
struct Mistake<'a> {
    severity: String,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    length: Option<u32>,
    message: String,
    help: Option<&'a str>,
    related: Option<Related<'a>>,
}

/// Another place that a mistake has to do with.
#[derive(Serialize)]
struct Related<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    message: &'a str,
}

impl<'a> Verdict<'a> {
    fn of(result: &'a Result<Fabric, FabricErrors>) -> Self {
        let report = match result {
            Ok(fabric) => fabric.warnings(),
            Err(errors) => errors.report(),
        };
        let found = report.iter().flat_map(|report| &report.diagnostics);
        let (errors, warnings): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
            found.partition(|found| found.severity == Severity::Error);
        let mistake = |found| Some(Mistake::of(found, report?));
        let list = |found: Vec<&'a Diagnostic>| found.into_iter().filter_map(mistake).collect();
        let mut errors: Vec<Mistake<'_>> = list(errors);
        if let Err(unreadable) = result
            && errors.is_empty()
        {
            errors.push(Mistake::without_place(unreadable));
        }
        Self {
            ok: result.is_ok(),
            errors,
            warnings: list(warnings),
        }
    }
}

impl<'a> Mistake<'a> {
    fn of(found: &'a Diagnostic, report: &'a Report) -> Self {
        let related = found.related.as_ref();
        Self {
            severity: found.severity.to_string(),
            file: Some(report.part(found.part)),
            line: Some(found.line),
            column: Some(found.column),
            length: Some(found.length),
            message: found.message.clone(),
            help: found.help.as_deref(),
            related: related.map(|related| Related {
                file: report.part(related.part),
                line: related.line,
                column: related.column,
                message: &related.message,
            }),
        }
    }

    fn without_place(errors: &FabricErrors) -> Self {
        Self {
            severity: Severity::Error.to_string(),
            file: None,
            line: None,
            column: None,
            length: None,
            message: errors.to_string(),
            help: None,
            related: None,
        }
    }
}
