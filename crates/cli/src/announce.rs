//! `overlane announce`: tells the physical network where addresses are. By hand for all of them; `apply` starts
//! it for what it has left to announce, and then it says nothing.

use overlane_host::announce;
use overlane_host::report::lines;
use overlane_host::{Announced, Row};
use serde::Serialize;

use crate::args::Announce;
use crate::failure::Failure;
use crate::output::Output;

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    host: &'a str,
    changes: &'a [Row],
    announced: &'a [Announced],
    /// Devices that were down all the time.
    down: Vec<String>,
}

pub(crate) fn run(args: &Announce, output: Output) -> Result<(), Failure> {
    let host = args.host.resolve()?;
    if let Some(number) = args.rest {
        return Ok(announce::rest(&host, number)?);
    }
    let all = announce::all(&host)?;
    let (changes, announced) = (all.changes.clone(), all.announced.clone());
    if !args.json {
        for line in lines(&changes) {
            output.line(line)?;
        }
        if let Some(line) = line(&announced) {
            output.line(line)?;
        }
    }
    let down: Vec<String> = all.run()?.into_iter().collect();
    if !down.is_empty() {
        let down = down.join(", ");
        output.note(format!(
            "down, or made anew since `apply`: {down}; what needs these devices was not announced"
        ));
    }
    if args.json {
        output.json(&Answer {
            host: &host,
            changes: &changes,
            announced: &announced,
            down,
        })?;
    } else if announced.is_empty() {
        output.line(format!("host {host}: nothing to announce"))?;
    } else {
        output.line(format!("host {host}: announced"))?;
    }
    Ok(())
}

/// What is announced, in one line; none if nothing is.
pub(crate) fn line(announced: &[Announced]) -> Option<String> {
    let parts: Vec<String> = announced.iter().map(ToString::to_string).collect();
    (!parts.is_empty()).then(|| format!("announces {}", parts.join("; ")))
}
