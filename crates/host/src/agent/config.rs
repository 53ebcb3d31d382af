//! What an agent keeps, and how: `/etc/overlane/agent.yaml`. The command line says more than the file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use overlane_model::{Name, printable};
use overlane_net::netns;
use serde::Deserialize;

use super::kept;
use crate::HostError;
use crate::state::only_applied_host;

/// Where it lies.
pub const CONFIG: &str = "/etc/overlane/agent.yaml";

/// The settings of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Which host of the fabric this machine is.
    pub host: Option<String>,
    /// The fabric: a file, or a folder.
    pub fabric: Option<PathBuf>,
    /// The network namespace of the host's devices; none: that of the agent.
    pub netns: Option<String>,
    /// Find where packets vanish on the way because they are too large.
    pub watch_mtu: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host: None,
            fabric: None,
            netns: None,
            watch_mtu: true,
        }
    }
}

impl Config {
    /// What the file says. One that is not there says nothing.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(HostError::file("read", path))?,
        };
        Self::parse(&text).map_err(|what| HostError::Config {
            path: path.to_owned(),
            what,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text
            .lines()
            .all(|line| line.trim_start().starts_with('#') || line.trim().is_empty())
        {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(text)
            .map_err(|error| printable(&error.without_snippet().to_string()))?;
        if let Some(host) = &config.host {
            Name::new(host).map_err(|error| printable(&format!("host: {error}")))?;
        }
        match &config.netns {
            Some(name) if !netns::is_name(name) => Err(format!(
                "netns: no namespace is called `{}`",
                printable(name)
            )),
            _ => Ok(config),
        }
    }

    /// The host: what was said, else the only one that is known here, else the one that the machine is called.
    pub fn host(&self) -> Result<String, HostError> {
        if let Some(host) = &self.host {
            return Ok(host.clone());
        }
        if let [host] = &kept::hosts()?[..] {
            return Ok(host.clone());
        }
        if let Ok(applied) = only_applied_host() {
            return Ok(applied.host);
        }
        let name = nix::unistd::gethostname()
            .map_err(HostError::system("read the name of this machine"))?;
        let name = name.to_string_lossy().into_owned();
        Name::new(&name)
            .map(|_| name)
            .map_err(|_| HostError::WhichHost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_a_default_and_a_wrong_key_a_line() {
        for text in ["", "# host: h1\n\n"] {
            assert_eq!(Config::parse(text).unwrap(), Config::default());
        }
        let config = Config::parse("host: h1\nfabric: /etc/overlane/fabric.yaml\n").unwrap();
        assert_eq!(config.host.as_deref(), Some("h1"));
        assert_eq!(config.fabric, Some("/etc/overlane/fabric.yaml".into()));
        for (text, part) in [
            ("host: h1\nfabrik: /x\n", "line 2"),
            ("host: ../h1\n", "host: "),
            ("netns: a/b\n", "netns: "),
            ("- a\n", "line 1"),
            ("host: \"a\\nb\\e[2J\"\n", "host: "),
            ("netns: \"a/\\nb\\e[2J\"\n", "netns: "),
            ("\"a\\nb\\e[2J\": 1\n", "unknown field"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.chars().all(overlane_model::is_printable), "{error:?}");
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
