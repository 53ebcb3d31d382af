//! The journal of a run: what it makes on the machine, written down and synced **before** it is
//! made, so that it can be undone after any kind of death.
//!
//! One JSON value a line in `/run/overlane/lab/<run>/journal`; the first line names the process.
//! Links need no entry: every link of the laboratory lives in a namespace of the laboratory.

use crate::error::LabError;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Where the laboratory keeps its journals, its lock and its working files.
pub(crate) const LAB_DIR: &str = "/run/overlane/lab";

/// One thing that has to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// The process that runs the study: always the first entry.
    Run { pid: u32, start_time: u64 },
    /// A network namespace.
    Namespace { name: String },
    /// A child; written right after its start (it dies with the run in any case).
    Process {
        pid: u32,
        start_time: u64,
        program: String,
    },
    /// An Overlane host: its pins and its state file.
    Fabric { host: String },
    /// The BPF file system, where the laboratory mounted it.
    BpfMount { path: PathBuf },
}

/// An open journal.
pub(crate) struct Journal {
    dir: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal of a new run in `lab_dir`.
    pub(crate) fn create(lab_dir: &Path, run_id: &str) -> Result<Self, LabError> {
        let dir = lab_dir.join(run_id);
        private_folder(lab_dir)?;
        private_folder(&dir)?;
        let path = dir.join("journal");
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(LabError::io("creating", &path))?;
        let mut journal = Self { dir, file };
        let pid = std::process::id();
        journal.append(&Entry::Run {
            pid,
            start_time: start_time(pid).unwrap_or(0),
        })?;
        Ok(journal)
    }

    /// The folder of the run; goes away with the journal.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes an entry and waits until it is stored.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), LabError> {
        let path = self.dir.join("journal");
        let mut line = serde_json::to_vec(entry).map_err(LabError::json("writing", &path))?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(LabError::io("writing", &path))
    }
}

/// The entries of a journal. A last line that was cut off by a crash is left out: what it announces
/// was never made.
pub(crate) fn read(dir: &Path) -> Result<Vec<Entry>, LabError> {
    let path = dir.join("journal");
    let text = fs::read_to_string(&path).map_err(LabError::io("reading", &path))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Entry> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// When a process started, in clock ticks since boot; together with the pid it names a process for
/// good. `None` when there is none (or only its body awaiting burial).
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of proc(5) stat; the program's name, field 2, may hold anything, a bracket too.
fn parse_start_time(stat: &str) -> Option<u64> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}

/// A folder for root alone, whatever the umask is and whatever an earlier version left. Who may open the lock may hold
/// it, and the journal says what root takes away.
fn private_folder(dir: &Path) -> Result<(), LabError> {
    const MODE: u32 = 0o700;
    let made = DirBuilder::new().recursive(true).mode(MODE).create(dir);
    made.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(MODE)))
        .map_err(LabError::io("creating", dir))
}

/// The lock that one run holds at a time; the kernel lets go of it with the process.
#[derive(Debug)]
pub(crate) struct RunLock(#[expect(dead_code, reason = "held, not read")] File);

impl RunLock {
    /// Takes the lock, or says who holds it.
    pub(crate) fn take(lab_dir: &Path) -> Result<Self, LabError> {
        private_folder(lab_dir)?;
        let path = lab_dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(LabError::io("opening", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder)
                    .map_err(LabError::io("reading", &path))?;
                return Err(LabError::Busy {
                    pid: holder.trim().parse().unwrap_or(0),
                });
            }
            Err(TryLockError::Error(error)) => return Err(LabError::io("locking", &path)(error)),
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()))
            .map_err(LabError::io("writing", &path))?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_the_file_and_a_torn_last_line() {
        let lab_dir = std::env::temp_dir().join(format!("overlane-journal-{}", std::process::id()));
        let mut journal = Journal::create(&lab_dir, "run").unwrap();
        let entries = [
            Entry::Namespace {
                name: "lab1-bridge-host1".into(),
            },
            Entry::Process {
                pid: 7,
                start_time: 9,
                program: "ovs-vswitchd".into(),
            },
            Entry::Fabric {
                host: "lab1-a".into(),
            },
        ];
        for entry in &entries {
            journal.append(entry).unwrap();
        }
        journal.file.write_all(b"{\"kind\":\"namesp").unwrap();
        let read = read(journal.dir()).unwrap();
        assert!(
            matches!(read[0], Entry::Run { pid, start_time } if pid == std::process::id() && start_time > 0)
        );
        assert_eq!(read[1..], entries);
        fs::remove_dir_all(lab_dir).unwrap();
    }

    #[test]
    fn start_time_is_field_22_whatever_the_name() {
        let fields = (4..=30)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(parse_start_time(&format!("12 (a) b) S {fields}")), Some(22));
        assert_eq!(parse_start_time(&format!("12 (a) Z {fields}")), None);
        assert_eq!(parse_start_time("nonsense"), None);
    }

    #[test]
    fn a_second_run_is_refused_by_pid() {
        let lab_dir = std::env::temp_dir().join(format!("overlane-lock-{}", std::process::id()));
        fs::create_dir(&lab_dir).unwrap();
        fs::set_permissions(&lab_dir, Permissions::from_mode(0o755)).unwrap();
        let first = RunLock::take(&lab_dir).unwrap();
        let mode = fs::metadata(&lab_dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let refused = RunLock::take(&lab_dir).unwrap_err();
        assert!(matches!(refused, LabError::Busy { pid } if pid == std::process::id()));
        drop(first);
        // A child that another test forked holds a copy of the descriptor until it has become its program.
        let free = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            RunLock::take(&lab_dir).is_ok()
        });
        assert!(free, "the lock outlived its holder");
        fs::remove_dir_all(lab_dir).unwrap();
    }
}
