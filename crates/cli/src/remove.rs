//! `overlane remove`: takes away what `apply` made.

use overlane_host::{Holder, HostError, RemoveRequest};

use crate::apply::wait_note;
use crate::args::Remove;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &Remove, output: Output) -> Result<(), Failure> {
    let host = match &args.host.name {
        Some(name) => name.to_string(),
        None => overlane_host::only_known_host()?,
    };
    if overlane_host::calls::is_kept(&host) {
        return Err(HostError::KeptByAgent(host).into());
    }
    let on_wait = |holder: &Holder| wait_note(output, &host, holder);
    let removal = overlane_host::remove(&RemoveRequest {
        netns: args.netns.as_deref(),
        on_wait: &on_wait,
        ..RemoveRequest::new(&host)
    })?;
    if args.json {
        output.json(&removal)?;
    } else {
        for thing in &removal.removed {
            output.line(format!("- {thing}"))?;
        }
        let outcome = if removal.removed.is_empty() {
            "nothing to remove"
        } else {
            "removed"
        };
        output.line(format!("host {host}: {outcome}"))?;
    }
    Ok(())
}
