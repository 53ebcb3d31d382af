//! Who holds a lock.

use std::fmt;

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A process that runs.
    Process {
        /// Its number.
        pid: u32,
        /// Its command line.
        command: String,
    },
    /// No process that can be seen from here: it has just ended, or lives in another namespace of processes.
    Unseen,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, command } => write!(f, "process {pid} ({command})"),
            Self::Unseen => f.write_str("a process that cannot be seen from here"),
        }
    }
}
