//! What an `apply` leaves to a process of its own.

use std::io;
use std::path::PathBuf;

use overlane_net::process;

/// The announcements that are left, for a process of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcements {
    pub(crate) host: String,
    pub(crate) file: PathBuf,
}

impl Announcements {
    /// Starts that process: this program, called by the name of the host and the number of the file.
    pub fn start(&self) -> io::Result<()> {
        let program = std::env::current_exe()?;
        let number = self.file.extension().unwrap_or_default().to_string_lossy();
        let words = ["announce", "--host", &self.host, "--rest", &number];
        process::detach(&program, &words)
    }
}
