//! A network namespace as the fabric file names it: where whoever makes a port's device leaves it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The folder in which `ip netns` has its names.
const NAMES: &str = "/run/netns";
/// The kernel takes no longer path, a zero behind it included (PATH_MAX).
const LONGEST_PATH: usize = 4095;
/// The kernel takes no longer name of a file.
const LONGEST_NAME: usize = 255;

/// A network namespace. Not yet known to exist on the machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Netns {
    /// As `ip netns` has it.
    Name(Box<str>),
    /// The absolute path of its file.
    Path(Box<str>),
    /// That of the process with this number.
    Process(u32),
}

/// Why a value names no network namespace. Each has what was written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// Neither a name nor an absolute path.
    #[error("`{0}` is not a network namespace")]
    Text(String),
    /// No process has this number.
    #[error("{0} is not the number of a process")]
    Process(u32),
}

impl NetnsError {
    /// What would be right.
    pub const HELP: &'static str = "write a name as `ip netns` has it (c1), the absolute path of a \
        namespace's file without `..` (/proc/4711/ns/net), or the number of a process (4711)";
}

impl Netns {
    /// Names and paths as a regular expression, for the JSON Schema.
    pub const PATTERN: &'static str = r"^([^/.][^/]{0,254}|/.+)$";
    /// The kernel numbers no more processes (PID_MAX_LIMIT).
    pub const MOST_PROCESSES: u32 = 1 << 22;

    /// A name, or an absolute path.
    pub fn new(text: &str) -> Result<Self, NetnsError> {
        let is_path = text.starts_with('/');
        let is_right = match is_path {
            true => text.len() <= LONGEST_PATH && is_plain_path(text),
            false => text.len() <= LONGEST_NAME && !text.starts_with('.') && !text.contains('/'),
        };
        if text.is_empty() || text.chars().any(char::is_control) || !is_right {
            return Err(NetnsError::Text(text.to_owned()));
        }
        Ok(match is_path {
            true => Self::Path(text.into()),
            false => Self::Name(text.into()),
        })
    }

    /// The namespace of a process.
    pub const fn of_process(number: u32) -> Result<Self, NetnsError> {
        match number {
            1..=Self::MOST_PROCESSES => Ok(Self::Process(number)),
            _ => Err(NetnsError::Process(number)),
        }
    }

    /// The file that it is found by. It is there as long as the namespace has this name, or the process lives.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Name(name) => PathBuf::from(format!("{NAMES}/{name}")),
            Self::Path(path) => PathBuf::from(&**path),
            Self::Process(number) => PathBuf::from(format!("/proc/{number}/ns/net")),
        }
    }
}

/// It leads to a file, and not up again.
fn is_plain_path(path: &str) -> bool {
    !path.ends_with('/') && path.split('/').all(|part| part != "..")
}

/// `c1`, `/proc/4711/ns/net`, `of process 4711`: what stands behind "network namespace".
impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) | Self::Path(text) => f.write_str(text),
            Self::Process(number) => write!(f, "of process {number}"),
        }
    }
}

/// As in the fabric file: a number or a text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Process(u32),
    Text(String),
}

impl TryFrom<Written> for Netns {
    type Error = NetnsError;

    fn try_from(written: Written) -> Result<Self, NetnsError> {
        match written {
            Written::Process(number) => Self::of_process(number),
            Written::Text(text) => Self::new(&text),
        }
    }
}

impl From<Netns> for Written {
    fn from(netns: Netns) -> Self {
        match netns {
            Netns::Name(text) | Netns::Path(text) => Self::Text(text.into()),
            Netns::Process(number) => Self::Process(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        let name = Netns::new("c1").unwrap();
        let path = Netns::new("/run/docker/netns/abc").unwrap();
        let process = Netns::of_process(4711).unwrap();
        let all = [
            (&name, "c1", "/run/netns/c1", r#""c1""#),
            (
                &path,
                "/run/docker/netns/abc",
                "/run/docker/netns/abc",
                r#""/run/docker/netns/abc""#,
            ),
            (&process, "of process 4711", "/proc/4711/ns/net", "4711"),
        ];
        for (netns, said, path, written) in all {
            assert_eq!(netns.to_string(), said);
            assert_eq!(netns.path().to_str(), Some(path));
            assert_eq!(serde_json::to_string(netns).unwrap(), written);
            assert_eq!(&serde_json::from_str::<Netns>(written).unwrap(), netns);
        }
        // Only a number is a process; a name may have digits.
        assert_eq!(Netns::new("4711").unwrap().path(), *"/run/netns/4711");
    }

    #[test]
    fn what_names_no_namespace() {
        let (name, path) = ("x".repeat(256), format!("/{}", "x".repeat(4095)));
        for wrong in [
            "", ".", "..", ".c1", "a/b", "../c1", "./c1", "/", "/a/", "/a/../b", "/..", "a\nb",
            "/a\0", &name, &path,
        ] {
            assert_eq!(Netns::new(wrong), Err(NetnsError::Text(wrong.to_owned())));
        }
        for wrong in [0, Netns::MOST_PROCESSES + 1] {
            assert_eq!(Netns::of_process(wrong), Err(NetnsError::Process(wrong)));
        }
        for wrong in ["0", "-1", "1.5", "\"\"", "\"a/b\"", "true"] {
            assert!(serde_json::from_str::<Netns>(wrong).is_err(), "{wrong}");
        }
    }
}
