//! In which namespace a host is applied: its state file says so, and where that is gone or makes no sense, its record.

use std::collections::BTreeSet;
use std::path::Path;

use overlane_model::Name;
use overlane_net::netns::Netns;

use super::applied::State;
use super::file;
use super::netns_id::NetnsId;
use super::record::Record;
use crate::HostError;
use crate::lib::{files, paths};

/// Where a host is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) host: String,
    /// Name of the namespace; none for the one `apply` ran in, or when nobody knows.
    pub(crate) netns: Option<String>,
    pub(crate) netns_id: NetnsId,
}

impl Place {
    /// Of one host. A state file that makes no sense is an error.
    pub(crate) fn of(host: &str) -> Result<Option<Self>, HostError> {
        match State::read(host)? {
            Some(state) => Ok(Some(Self::by_state(&state))),
            None => Self::by_record(host, Record::read(host)?.as_ref()),
        }
    }

    /// Of all hosts that are applied on this machine, whatever became of their state files.
    pub(crate) fn all() -> Result<Vec<Self>, HostError> {
        let mut places: Vec<_> = file::all()?.iter().map(Self::by_state).collect();
        for host in pinned_hosts()? {
            if !places.iter().any(|place| place.host == host) {
                places.extend(Self::by_record(&host, Record::read(&host)?.as_ref())?);
            }
        }
        Ok(places)
    }

    pub(crate) fn by_state(state: &State) -> Self {
        Self {
            host: state.host.clone(),
            netns: state.netns.clone(),
            netns_id: state.netns_id,
        }
    }

    pub(crate) fn by_record(
        host: &str,
        record: Option<&Record>,
    ) -> Result<Option<Self>, HostError> {
        let Some(record) = record else {
            return Ok(None);
        };
        Ok(Some(Self {
            host: host.to_owned(),
            netns: record.netns_id.name()?,
            netns_id: record.netns_id,
        }))
    }

    /// The namespace, if it still exists and can be found.
    pub(crate) fn namespace(&self) -> Result<Option<Netns>, HostError> {
        self.netns_id.find(self.netns.as_deref())
    }
}

/// Hosts of which there is something on this machine, by name: state files, be they of no use, and pins.
pub(crate) fn known_hosts() -> Result<BTreeSet<String>, HostError> {
    let names = files::names(Path::new(paths::RUN))?.into_iter();
    let files = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
    let mut hosts: BTreeSet<String> = files.chain(pinned_hosts()?).collect();
    hosts.retain(|host| Name::new(host).is_ok());
    Ok(hosts)
}

fn pinned_hosts() -> Result<Vec<String>, HostError> {
    let folder = Path::new(paths::PINS);
    if !files::check_pin_folder(folder)? {
        return Ok(Vec::new());
    }
    let names = files::names(folder)?.into_iter();
    Ok(names.map(|name| paths::unpin_name(&name)).collect())
}
