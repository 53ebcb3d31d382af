//! One process at a time works on a host. The lock file names its holder, for whoever has to wait.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

use crate::{HostError, paths};

/// How long a second process waits for the first.
const WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id; 0 when it is not known yet.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// The lock on one host, held until dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Flock<File>,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, waiting for another holder up to [`WAIT`].
    pub(crate) fn acquire(host: &str, on_wait: &dyn Fn(&Holder)) -> Result<Self, HostError> {
        Self::acquire_within(host, on_wait, WAIT)
    }

    /// Takes the lock of those who capture packets of a host; whoever comes second is told at once.
    pub(crate) fn of_capture(host: &str) -> Result<Self, HostError> {
        Self::at_once(&paths::capture_lock(host), |holder| HostError::Capturing {
            host: host.to_owned(),
            holder,
        })
    }

    /// Takes the lock of those who read the log of rules, likewise.
    pub(crate) fn of_log(host: &str) -> Result<Self, HostError> {
        Self::at_once(&paths::log_lock(host), |holder| HostError::ReadingLog {
            host: host.to_owned(),
            holder,
        })
    }

    fn at_once(path: &Path, taken: impl FnOnce(Holder) -> HostError) -> Result<Self, HostError> {
        let started = Instant::now();
        loop {
            if let Some(lock) = Self::attempt(path)? {
                return Ok(lock);
            }
            // One that is just ending gets a moment for it.
            if started.elapsed() >= POLL * 2 {
                return Err(taken(holder(path)));
            }
            std::thread::sleep(POLL);
        }
    }

    fn acquire_within(
        host: &str,
        on_wait: &dyn Fn(&Holder),
        wait: Duration,
    ) -> Result<Self, HostError> {
        let path = paths::lock(host);
        let started = Instant::now();
        let mut told = false;
        loop {
            if let Some(lock) = Self::attempt(&path)? {
                return Ok(lock);
            }
            let holder = holder(&path);
            if started.elapsed() >= wait {
                return Err(HostError::Locked {
                    host: host.to_owned(),
                    holder,
                });
            }
            if !told && holder.pid != 0 {
                on_wait(&holder);
                told = true;
            }
            std::thread::sleep(POLL);
        }
    }

    fn attempt(path: &Path) -> Result<Option<Self>, HostError> {
        let folder = Path::new(paths::RUN);
        fs::create_dir_all(folder).map_err(HostError::file("create", folder))?;
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = match opened {
            // `remove` of the last host took the folder away in between.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(HostError::file("open", path))?,
        };
        let Ok(mut file) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            return Ok(None);
        };
        // Whoever held it before may have removed the file: then this is a lock on nothing.
        if !is_at(&file, path) {
            return Ok(None);
        }
        let write = HostError::file("write", path);
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{} {}", std::process::id(), command_line()));
        written.map_err(write)?;
        Ok(Some(Self {
            file,
            path: path.to_owned(),
        }))
    }

    /// Takes the file away with the lock: for a host of which nothing is left.
    pub(crate) fn remove_file(self) {
        // What is left is an empty file that the next one takes over. Somebody else's stays.
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
        let _ = fs::remove_dir(paths::RUN);
        drop(self.file);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => open.dev() == there.dev() && open.ino() == there.ino(),
        _ => false,
    }
}

fn holder(path: &Path) -> Holder {
    let mut text = String::new();
    if let Ok(mut file) = File::open(path) {
        let _ = file.read_to_string(&mut text);
    }
    let (pid, command) = text.trim_end().split_once(' ').unwrap_or_default();
    Holder {
        pid: pid.parse().unwrap_or(0),
        command: command.to_owned(),
    }
}

fn command_line() -> String {
    std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_waits_then_learns_who_holds_it() {
        if overlane_ebpf::preflight::check_rights().is_err() {
            // Past the capture of the test harness: a skipped test must be seen.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED lock: needs root to write {}",
                paths::RUN
            );
            return;
        }
        let host = format!("lock-test-{}", std::process::id());
        let first = Lock::acquire(&host, &|_| panic!("nobody else holds it")).unwrap();
        let told = std::cell::Cell::new(0);
        let error =
            Lock::acquire_within(&host, &|holder| told.set(holder.pid), POLL * 2).unwrap_err();
        assert_eq!(told.get(), std::process::id());
        assert!(
            matches!(error, HostError::Locked { holder, .. } if holder.pid == std::process::id())
        );
        first.remove_file();
        Lock::acquire(&host, &|_| ()).unwrap().remove_file();
        assert!(!paths::lock(&host).exists());
    }
}
