//! Undoing journals: at the end of a run, and after a run died (`lab cleanup`).
//!
//! Only what a journal names is touched, and a process only if it still is the one that was
//! journalled. Undoing twice is harmless: what is gone counts as undone.

use crate::error::LabError;
use crate::session::journal::{self, Entry, LAB_DIR};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use overlane_net::netns;
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Parent of the pins of Overlane's hosts, one folder a host.
const PINS: &str = "/sys/fs/bpf/overlane";
/// State of Overlane's hosts, one file a host.
const STATE: &str = "/run/overlane";

/// What `lab cleanup` removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CleanupReport {
    /// Dead runs whose journals were undone.
    pub runs: Vec<String>,
    /// What was removed, one line a thing.
    pub removed: Vec<String>,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
    /// A run that is alive and was left alone.
    pub active: Option<u32>,
}

/// Undoes what dead runs left behind.
pub(crate) fn cleanup() -> Result<CleanupReport, LabError> {
    let mut report = CleanupReport::default();
    let lab_dir = Path::new(LAB_DIR);
    let folders = match fs::read_dir(lab_dir) {
        Ok(folders) => folders,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(report),
        Err(error) => return Err(LabError::io("reading", lab_dir)(error)),
    };
    for dir in folders
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        // A folder without a journal: the run died before it made anything.
        let entries = journal::read(&dir).unwrap_or_default();
        match entries.first() {
            Some(Entry::Run { pid, start_time }) if is_alive(*pid, *start_time) => {
                if *pid != std::process::id() {
                    report.active = Some(*pid);
                }
            }
            _ => undo(&dir, &entries, &mut report),
        }
    }
    Ok(report)
}

/// Undoes one run and forgets its journal; the journal stays while something could not be undone.
pub(crate) fn undo(dir: &Path, entries: &[Entry], report: &mut CleanupReport) {
    let run = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let failed_before = report.failed.len();
    for entry in entries.iter().rev() {
        match undo_entry(entry) {
            Ok(Some(removed)) => report.removed.push(removed),
            Ok(None) => {}
            Err(error) => report.failed.push(error.to_string()),
        }
    }
    if report.failed.len() == failed_before
        && let Err(error) = fs::remove_dir_all(dir)
    {
        report
            .failed
            .push(LabError::io("removing", dir)(error).to_string());
    }
    report.runs.push(run);
}

fn is_alive(pid: u32, start_time: u64) -> bool {
    journal::start_time(pid) == Some(start_time)
}

/// What was removed, in words; `None` when it was gone already.
fn undo_entry(entry: &Entry) -> Result<Option<String>, LabError> {
    match entry {
        Entry::Run { .. } => Ok(None),
        Entry::Process {
            pid,
            start_time,
            program,
        } => {
            if !is_alive(*pid, *start_time) {
                return Ok(None);
            }
            stop(*pid, *start_time)?;
            Ok(Some(format!("process {pid} ({program})")))
        }
        Entry::Namespace { name } => {
            if !netns::exists(name) {
                return Ok(None);
            }
            netns::delete(name)?;
            Ok(Some(format!("namespace {name}")))
        }
        Entry::Fabric { host } => forget_fabric(host),
        Entry::BpfMount { path } => unmount_if_empty(path),
    }
}

/// Kills a process for good and waits until it is gone, so that its namespace can go.
fn stop(pid: u32, start_time: u64) -> Result<(), LabError> {
    let target = Pid::from_raw(pid.cast_signed());
    match kill(target, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => return Err(LabError::system(&format!("stopping process {pid}"))(errno)),
    }
    let end = Instant::now() + Duration::from_secs(2);
    while is_alive(pid, start_time) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Unpinned, the programs and maps of a host are gone with their last user. The unmarker's namespace has a name, too.
fn forget_fabric(host: &str) -> Result<Option<String>, LabError> {
    let pins = Path::new(PINS).join(host);
    let mut found = remove_tree(&pins)?;
    let unmarker = format!("overlane.{host}.unmarker");
    if netns::exists(&unmarker) {
        netns::delete(&unmarker)?;
        found = true;
    }
    for ending in ["json", "lock", "verifier"] {
        let path = PathBuf::from(STATE).join(format!("{host}.{ending}"));
        match fs::remove_file(&path) {
            Ok(()) => found = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(LabError::io("removing", &path)(error)),
        }
    }
    // Goes only when no other host has pins.
    let _ = fs::remove_dir(PINS);
    Ok(found.then(|| format!("pins and state of host {host}")))
}

fn remove_tree(path: &Path) -> Result<bool, LabError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(LabError::io("removing", path)(error)),
    }
}

/// The mount goes only if nobody has pinned anything there since.
fn unmount_if_empty(path: &Path) -> Result<Option<String>, LabError> {
    let mut entries = fs::read_dir(path).map_err(LabError::io("reading", path))?;
    if entries.next().is_some() {
        return Ok(None);
    }
    match umount2(path, MntFlags::empty()) {
        Ok(()) => Ok(Some(format!("mount {}", path.display()))),
        Err(Errno::EINVAL | Errno::ENOENT | Errno::EBUSY) => Ok(None),
        Err(errno) => Err(LabError::io("unmounting", path)(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_undone_and_the_folder_goes() {
        let dir = std::env::temp_dir().join(format!("overlane-undo-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let own = journal::start_time(std::process::id()).unwrap();
        let entries = [
            Entry::Run {
                pid: 1,
                start_time: 0,
            },
            // This very process, but of another start time: must be left alone.
            Entry::Process {
                pid: std::process::id(),
                start_time: own + 1,
                program: "x".into(),
            },
            Entry::Namespace {
                name: "lab0-never-made".into(),
            },
        ];
        let mut report = CleanupReport::default();
        undo(&dir, &entries, &mut report);
        assert_eq!(report.removed, Vec::<String>::new());
        assert_eq!(report.failed, Vec::<String>::new());
        assert!(!dir.exists());
    }

    #[test]
    fn a_journalled_process_is_stopped() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let start_time = journal::start_time(pid).unwrap();
        let entry = Entry::Process {
            pid,
            start_time,
            program: "sleep".into(),
        };
        assert!(undo_entry(&entry).unwrap().is_some());
        assert!(!child.wait().unwrap().success());
    }
}
