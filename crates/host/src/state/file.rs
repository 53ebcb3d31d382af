//! The state file: read and written whole.

use std::fs;
use std::path::Path;

use overlane_model::Name;
use overlane_net::netns;
use serde::Deserialize;

use super::applied::{SCHEMA, State};
use super::earlier;
use crate::HostError;
use crate::lib::{files, paths};

impl State {
    /// The state of a host, if it is applied.
    pub(crate) fn read(host: &str) -> Result<Option<Self>, HostError> {
        read_file(&paths::state(host))
    }

    /// The state of a host that is applied.
    pub(crate) fn applied(host: &str) -> Result<Self, HostError> {
        Self::read(host)?.ok_or_else(|| HostError::NotApplied(host.to_owned()))
    }

    /// Writes the file in one step: a reader sees the old or the new one.
    pub(crate) fn write(&self) -> Result<(), HostError> {
        let path = paths::state(&self.host);
        let state = Self {
            schema: SCHEMA,
            ..self.clone()
        };
        let text = serde_json::to_vec_pretty(&state).map_err(|source| HostError::State {
            path: path.clone(),
            source,
        })?;
        files::write(&path, &text)
    }
}

/// All states that can be read, by host.
pub(crate) fn all() -> Result<Vec<State>, HostError> {
    let folder = Path::new(paths::RUN);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(HostError::file("read", folder))?,
    };
    let mut states = Vec::new();
    for entry in entries {
        let path = entry.map_err(HostError::file("read", folder))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            states.extend(read_file(&path).ok().flatten());
        }
    }
    states.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(states)
}

fn read_file(path: &Path) -> Result<Option<State>, HostError> {
    let Some(text) = files::read(path)? else {
        return Ok(None);
    };
    decode(&text).map(Some).map_err(|source| HostError::State {
        path: path.to_owned(),
        source,
    })
}

pub(super) fn decode(text: &[u8]) -> Result<State, serde_json::Error> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    let state: State = match serde_json::from_slice::<Schema>(text)?.schema {
        earlier if earlier < SCHEMA => earlier::decode(text)?,
        SCHEMA => serde_json::from_slice(text)?,
        newer => {
            let what = format!(
                "a newer version of this program wrote it (schema {newer}, this one knows {SCHEMA})"
            );
            return Err(serde::de::Error::custom(what));
        }
    };
    // These become parts of paths.
    let is_signature = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_namespace = |name: &String| netns::is_name(name);
    if Name::new(&state.host).is_err() || !state.netns.iter().all(is_namespace) {
        let (host, netns) = (&state.host, &state.netns);
        let what = format!("host {host:?} in namespace {netns:?} has a name that cannot be");
        return Err(serde::de::Error::custom(what));
    }
    if !is_signature(&state.map_signature) {
        let what = format!("no map set is called {:?}", state.map_signature);
        return Err(serde::de::Error::custom(what));
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_newer_version_is_refused() {
        let newer = earlier::FIRST.replace("\"schema\": 1", "\"schema\": 5");
        let error = decode(newer.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("a newer version of this program wrote it"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_would_lead_elsewhere_is_refused() {
        for (right, wrong) in [
            ("\"h1\"", "\"../../h1\""),
            ("\"netns\": null", "\"netns\": \"../x\""),
            ("\"11\"", "\"/../../other\""),
        ] {
            let state = decode(earlier::FIRST.as_bytes()).unwrap();
            let now = serde_json::to_string(&state).unwrap();
            for text in [earlier::FIRST, &now] {
                let compact = right.replace(": ", ":");
                let spoilt = text.replace(right, wrong).replace(&compact, wrong);
                assert_ne!(text, spoilt);
                decode(spoilt.as_bytes()).unwrap_err();
            }
        }
    }
}
