//! What can go wrong in the laboratory.

use std::path::{Path, PathBuf};

/// An error of the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No study of that name ships.
    #[error("there is no study `{name}` (known: {known})")]
    UnknownStudy {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No backend, or no feature, has that name.
    #[error("there is no {what} `{name}` (known: {known})")]
    UnknownName {
        /// `backend` or `feature`.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A study says something that cannot be run.
    #[error("{}", crate::study::told(mistakes))]
    Mistakes {
        /// Every mistake that was found, in the order of their places.
        mistakes: Vec<crate::study::Mistake>,
    },
    /// A study file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file or folder could not be used.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, for example `writing`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A system call that names no file failed.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Namespaces, links, addresses.
    #[error(transparent)]
    Net(#[from] overlane_net::NetError),
    /// A program that the lab started ended badly.
    #[error("`{command}` {outcome}{}", if stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Command {
        /// The program and its arguments.
        command: String,
        /// How it ended: `exited with status 1`, `took longer than 10 s`.
        outcome: String,
        /// The last lines of what it printed on standard error.
        stderr: String,
    },
    /// The traffic tool failed, or an agent of it ended.
    #[error("the traffic tool failed: {reason}")]
    Generator {
        /// Where, what happened, and what to do.
        reason: String,
    },
    /// The relay of a virtual machine could not be started, or has ended.
    #[error("a virtual machine lost its network card: {reason}")]
    Relay {
        /// Whose, what happened, and what to do.
        reason: String,
    },
    /// A file of the kernel's does not have the expected form.
    #[error("{path} does not have the expected form: {reason}")]
    KernelFile {
        /// The file.
        path: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A result folder is there already.
    #[error("{} holds a result already; choose another folder, or go on with it: overlane lab resume {}", path.display(), path.display())]
    FolderTaken {
        /// The folder.
        path: PathBuf,
    },
    /// A folder holds no result.
    #[error("{} holds no result of the laboratory (no run.json)", path.display())]
    NoResult {
        /// The folder.
        path: PathBuf,
    },
    /// A result was written by another version.
    #[error("{} has the format `{found}`, this program reads `{}`", path.display(), crate::record::SCHEMA)]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// The format that it names.
        found: String,
    },
    /// A run has nothing left to do.
    #[error("{} is complete: there is nothing to go on with", path.display())]
    Complete {
        /// The folder.
        path: PathBuf,
    },
    /// Two results, or two networks, cannot be held against each other.
    #[error("cannot compare: {reason}")]
    NotComparable {
        /// Why, and what to give.
        reason: String,
    },
    /// JSON could not be written or read.
    #[error("{action} {}: {source}", path.display())]
    Json {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: serde_json::Error,
    },
    /// Another run is active.
    #[error(
        "another run of the laboratory is active (process {pid}); two would disturb each other"
    )]
    Busy {
        /// The process that holds the lock.
        pid: u32,
    },
    /// The machine cannot run the study.
    #[error("this machine cannot run the study: {reason}")]
    Unable {
        /// What is missing.
        reason: String,
    },
    /// A signal asked the run to end.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// For `map_err` on file operations.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// For `map_err` on system calls without a file.
    pub fn system<E: Into<std::io::Error>>(action: &str) -> impl FnOnce(E) -> Self + use<E> {
        let action = action.to_owned();
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }

    /// For `map_err` on JSON of a file.
    pub fn json(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(serde_json::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Json {
            action,
            path,
            source,
        }
    }
}
