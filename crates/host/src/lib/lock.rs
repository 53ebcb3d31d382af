//! One process at a time works on a host. Who has to wait is told whom for: the process that holds the file open and
//! locked, as the kernel says. What nobody holds any more names nobody.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use overlane_model::escaped;

use super::error::HostError;
use super::files::{self, identity};
use super::holder::Holder;
use super::paths;

/// How long a second process waits for the first.
const WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

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

    /// The process that works on a host right now, as far as it can be seen from here.
    pub(crate) fn holder(host: &str) -> Option<Holder> {
        let holder = holder(&paths::lock(host));
        (holder != Holder::Unseen).then_some(holder)
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

    /// Takes the lock of the agent of a host, likewise.
    pub(crate) fn of_agent(host: &str) -> Result<Self, HostError> {
        Self::at_once(&paths::agent_lock(host), |holder| HostError::AgentRuns {
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
            let waited = started.elapsed();
            if waited >= wait {
                return Err(HostError::Locked {
                    host: host.to_owned(),
                    holder: holder(&path),
                });
            }
            // One that is just ending is nobody to wait for.
            if !told && waited >= POLL {
                on_wait(&holder(&path));
                told = true;
            }
            std::thread::sleep(POLL);
        }
    }

    fn attempt(path: &Path) -> Result<Option<Self>, HostError> {
        files::run_folder()?;
        let file = match files::open_lock(path) {
            // `remove` of the last host took the folder away in between.
            Err(error) if error.is_missing_file() => return Ok(None),
            other => other?,
        };
        let Ok(file) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            return Ok(None);
        };
        // Whoever held it before may have removed the file: then this is a lock on nothing.
        if !is_at(&file, path) {
            return Ok(None);
        }
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
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => identity(&open) == identity(&there),
        _ => false,
    }
}

/// The process that has this file open, and the lock by it.
fn holder(path: &Path) -> Holder {
    let holds = |pid: &u32| {
        let wanted = fs::symlink_metadata(path).ok()?;
        has_locked(*pid, identity(&wanted)).then_some(())
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pid = pids.find(|pid| holds(pid).is_some());
    pid.map_or(Holder::Unseen, |pid| Holder::Process {
        pid,
        command: command_of(pid),
    })
}

fn has_locked(pid: u32, wanted: (u64, u64)) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    open.flatten().any(|descriptor| {
        let is_it = fs::metadata(descriptor.path()).is_ok_and(|it| identity(&it) == wanted);
        // A line for each lock that was taken by this very descriptor (fs/locks.c, `show_fd_locks`).
        let about = || process.join("fdinfo").join(descriptor.file_name());
        is_it && fs::read_to_string(about()).is_ok_and(|text| text.contains("FLOCK"))
    })
}

/// In one line, whatever the process calls itself.
fn command_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let line = words.trim_end_matches('\0').replace(['\0', '\n'], " ");
    escaped(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write as _;

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
        let told = RefCell::new(Vec::new());
        let tell = |holder: &Holder| told.borrow_mut().push(holder.clone());
        let error = Lock::acquire_within(&host, &tell, POLL * 3).unwrap_err();
        let is_me = |holder: &Holder| matches!(holder, Holder::Process { pid, .. } if *pid == std::process::id());
        let told = told.into_inner();
        assert!(told.len() == 1 && told.iter().all(is_me), "{told:?}");
        assert!(matches!(error, HostError::Locked { holder, .. } if is_me(&holder)));
        first.remove_file();
        Lock::acquire(&host, &|_| ()).unwrap().remove_file();
        assert!(!paths::lock(&host).exists());
    }

    #[test]
    fn a_file_that_is_only_open_or_that_nobody_holds_names_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.lock");
        // What an earlier version wrote there.
        fs::write(&path, "1 a process that ended long ago").unwrap();
        let open = File::open(&path).unwrap();
        assert_eq!(holder(&path), Holder::Unseen);
        let locked = Flock::lock(open, FlockArg::LockExclusiveNonblock).unwrap();
        let pid = std::process::id();
        assert!(matches!(holder(&path), Holder::Process { pid: found, .. } if found == pid));
        drop(locked);
        assert_eq!(holder(&path), Holder::Unseen);
        assert_eq!(holder(&folder.path().join("none")), Holder::Unseen);
    }
}
