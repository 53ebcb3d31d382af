//! `overlane agent`: `overlane_host::agent` keeps the host. Here: what it says, and how it is asked.

use std::path::Path;

use overlane_host::agent::{self, CONFIG, Config, Rendered, Voice};
use overlane_host::calls::{self, Answer, Applied, Call};
use overlane_model::escaped;

use crate::apply::rendered;
use crate::args::{Agent, AgentAccept, AgentWhat};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &Agent, output: Output) -> Result<(), Failure> {
    if let Some(AgentWhat::Accept(args)) = &args.what {
        return accept(args, output);
    }
    let file = args.config.as_deref();
    // A file that was named has to be there.
    if let Some(file) = file {
        std::fs::metadata(file).map_err(|source| Failure::Input {
            name: file.display().to_string(),
            source,
        })?;
    }
    let mut config = Config::read(file.unwrap_or(Path::new(CONFIG)))?;
    config.host = args.host.as_ref().map(ToString::to_string).or(config.host);
    config.netns = args.netns.as_deref().map(str::to_owned).or(config.netns);
    config.fabric = args.fabric.clone().or(config.fabric);
    let render = |report: &overlane_host::Report| {
        let (lines, notes) = rendered(report);
        Rendered { lines, notes }
    };
    let voice = Voice {
        say: &|text| output.err_raw(escaped(text)),
        render: &render,
    };
    Ok(agent::run(&config, voice)?)
}

fn accept(args: &AgentAccept, output: Output) -> Result<(), Failure> {
    let host = args.host.resolve()?;
    match calls::ask(&host, &Call::Accept)? {
        Some(answer) => print(answer, args.json, output),
        None => Err(overlane_host::HostError::NoAgent(host).into()),
    }
}

/// What an agent answered to a call that changes the host.
pub(crate) fn print(answer: Answer, json: bool, output: Output) -> Result<(), Failure> {
    let applied = match answer {
        Answer::Applied(applied) => applied,
        Answer::Refused(refused) => return Err(Failure::Refused(refused)),
        Answer::Status(_) => return Ok(()),
    };
    let Applied {
        report,
        lines,
        notes,
        failed,
    } = applied;
    for note in notes {
        output.note(note);
    }
    if json {
        output.json(&report)?;
    } else {
        for line in lines {
            output.line(line)?;
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Negative),
    }
}
