//! Which hosts are applied on this machine.

use serde::Serialize;

use super::file::all;
use super::place;
use crate::HostError;

/// A host that is applied on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedHost {
    /// Its name in the fabric.
    pub host: String,
    /// Its network namespace; none for the one `apply` ran in.
    pub netns: Option<String>,
    /// Its last `apply` was killed, or is at work right now.
    pub in_progress: bool,
}

/// The hosts applied on this machine, by name. State files that make no sense are left out.
pub fn applied_hosts() -> Result<Vec<AppliedHost>, HostError> {
    Ok(all()?
        .into_iter()
        .map(|state| AppliedHost {
            host: state.host,
            netns: state.netns,
            in_progress: state.in_progress,
        })
        .collect())
}

/// The applied host, when there is exactly one: what a command means that names none.
pub fn only_applied_host() -> Result<AppliedHost, HostError> {
    let mut hosts = applied_hosts()?;
    match hosts.len() {
        0 => Err(HostError::NoneApplied),
        1 => Ok(hosts.remove(0)),
        _ => Err(HostError::SeveralApplied(
            hosts.into_iter().map(|host| host.host).collect(),
        )),
    }
}

/// The host of which there is something on this machine, when there is exactly one: what `remove` means that names
/// none. A state file that makes no sense counts.
pub fn only_known_host() -> Result<String, HostError> {
    let mut hosts = place::known_hosts()?;
    match hosts.len() {
        0 => Err(HostError::NoneApplied),
        1 => hosts.pop_first().ok_or(HostError::NoneApplied),
        _ => Err(HostError::SeveralApplied(hosts.into_iter().collect())),
    }
}
