//! The last good desired state of a host, on disk: after a reboot it makes the host whole before, or without, its source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use overlane_model::Tables;
use serde::{Deserialize, Serialize};

use crate::lib::{files, paths};
use crate::{HostError, STATE_SCHEMA};

/// Which parts a desired state came from: their names and digests.
pub(super) type Origin = BTreeMap<String, String>;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Of the tables: that of the state file.
    schema: u32,
    pub(super) host: String,
    /// Where it was applied; none: in the namespace of the agent.
    pub(super) netns: Option<String>,
    /// Counts the desired states of this host.
    pub(super) generation: u64,
    /// When it came, in seconds since the Epoch.
    pub(super) since: u64,
    pub(super) origin: Origin,
    /// What the host should carry.
    pub(super) tables: Tables,
}

impl Kept {
    pub(super) fn new(
        netns: Option<&str>,
        generation: u64,
        since: u64,
        tables: Tables,
        origin: Origin,
    ) -> Self {
        Self {
            schema: STATE_SCHEMA,
            host: tables.host.to_string(),
            netns: netns.map(str::to_owned),
            generation,
            since,
            origin,
            tables,
        }
    }

    /// What is kept of a host; none if nothing is.
    pub(super) fn read(host: &str) -> Result<Option<Self>, HostError> {
        read_file(&paths::kept(host))
    }

    /// On the disk when this returns, or as it was before.
    pub(super) fn write(&self) -> Result<(), HostError> {
        let path = paths::kept(&self.host);
        files::folder_on_disk(Path::new(paths::KEPT))?;
        let text = serde_json::to_vec(self).map_err(wrong(&path))?;
        files::write_to_disk(&path, &text)
    }
}

/// The hosts of which something is kept.
pub(super) fn hosts() -> Result<Vec<String>, HostError> {
    let names = files::names(Path::new(paths::KEPT))?.into_iter();
    Ok(names
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .collect())
}

fn read_file(path: &Path) -> Result<Option<Kept>, HostError> {
    let Some(text) = files::read(path)? else {
        return Ok(None);
    };
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    let schema = serde_json::from_slice::<Schema>(&text)
        .map_err(wrong(path))?
        .schema;
    if schema != STATE_SCHEMA {
        let what = format!(
            "another version of this program wrote it (schema {schema}, this one knows {STATE_SCHEMA})"
        );
        return Err(wrong(path)(serde::de::Error::custom(what)));
    }
    serde_json::from_slice(&text).map(Some).map_err(wrong(path))
}

fn wrong(path: &Path) -> impl FnOnce(serde_json::Error) -> HostError {
    let path = PathBuf::from(path);
    |source| HostError::State { path, source }
}
