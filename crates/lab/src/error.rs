//! What can go wrong in the laboratory.

use overlane_analysis::AnalysisError;
use std::path::{Path, PathBuf};

/// An error of the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A study, a record, a result folder.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
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
    /// A virtual machine did not do what it should.
    #[error("virtual machine {name}: {reason}")]
    VirtualMachine {
        /// Which, and where: `vm1 on host2`.
        name: String,
        /// What happened, and its last words.
        reason: String,
    },
    /// Machines did not move, or not as they should.
    #[error("migration: {reason}")]
    Migration {
        /// Which, what happened, and what to do.
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
    /// For `map_err` on JSON of a file.
    pub fn json(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(serde_json::Error) -> Self + use<> {
        let error = AnalysisError::json(action, path);
        move |source| Self::Analysis(error(source))
    }

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
}
