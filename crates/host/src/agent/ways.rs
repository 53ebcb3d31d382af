//! The watch of path MTUs, inside the agent: on a thread of its own, because a probe waits for its answer.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::HostError;
use crate::mtu::watch::{Step, Watch};

/// Less often than `overlane mtu --watch`, which a person waits for.
const INTERVAL: Duration = Duration::from_secs(10);
/// A host that is not applied, or not by this version, is looked for again.
const AGAIN: Duration = Duration::from_secs(5);

/// Watches the ways of a host as long as this process lives. What it found is received as lines.
pub(super) fn watch(host: &str) -> Result<Receiver<String>, HostError> {
    let (said, lines) = channel();
    let host = host.to_owned();
    let thread = thread::Builder::new().name("mtu".to_owned());
    let begun = thread.spawn(move || {
        // Nobody listens any more: the process ends.
        while run(&host, &said) {
            thread::sleep(AGAIN);
        }
    });
    begun.map_err(|source| HostError::Thread {
        what: "watch path MTUs",
        source,
    })?;
    Ok(lines)
}

/// Until there is no more to watch. False: nobody listens.
fn run(host: &str, said: &Sender<String>) -> bool {
    let Ok(mut watch) = Watch::beside(host, INTERVAL) else {
        return true;
    };
    loop {
        let line = match watch.step() {
            Ok(Step::Event(event)) => format!(
                "remote {}: {} of {} bytes get there, {} did before",
                event.remote, event.mtu, event.uplink_mtu, event.before
            ),
            Ok(Step::NoUplink(uplink)) => {
                format!("uplink {uplink}: gone, or without its address; nobody watches path MTUs")
            }
            Ok(Step::End(_)) | Err(_) => return true,
        };
        if said.send(line).is_err() {
            return false;
        }
    }
}
