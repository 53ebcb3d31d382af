//! One run's hold on the machine: the lock, the journal, the signals, and the CPUs of its virtual
//! hosts. Whatever is made goes through here, so that it is journalled first.

pub(crate) mod journal;
pub(crate) mod process;
pub(crate) mod undo;

use crate::error::LabError;
use crate::machine::cpus::Cpus;
use crate::machine::interrupt::Interrupts;
use crate::session::journal::{Entry, Journal, LAB_DIR, RunLock};
use crate::session::process::{Output, Process};
use crate::session::undo::CleanupReport;
use overlane_analysis::time;
use overlane_net::netns::{self, Netns};
use overlane_net::{NetError, Netlink};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::Duration;

/// The session of a run. Undoes everything when dropped.
pub(crate) struct Session {
    pub(crate) interrupts: Interrupts,
    pub(crate) cpus: Cpus,
    journal: RefCell<Journal>,
    dir: PathBuf,
    prefix: String,
    _lock: RunLock,
}

impl Session {
    /// Takes the lock, undoes what dead runs left, and opens a journal.
    pub(crate) fn begin() -> Result<Self, LabError> {
        let lab_dir = Path::new(LAB_DIR);
        let lock = RunLock::take(lab_dir)?;
        undo::cleanup()?;
        let interrupts = Interrupts::take_over()?;
        let pid = std::process::id();
        let run_id = format!("{}-{pid}", time::utc_stamp(time::unix_ms()));
        let journal = Journal::create(lab_dir, &run_id)?;
        let dir = journal.dir().to_owned();
        Ok(Self {
            interrupts,
            cpus: Cpus::of_this_machine()?,
            journal: RefCell::new(journal),
            dir,
            prefix: format!("lab{pid}"),
            _lock: lock,
        })
    }

    /// A folder for working files; goes with the run.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A name that no other run uses.
    pub(crate) fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Journals what is about to be made.
    pub(crate) fn journal(&self, entry: &Entry) -> Result<(), LabError> {
        self.journal.borrow_mut().append(entry)
    }

    /// Creates a namespace without IPv6, whose own chatter (MLD, RS, DAD) would be counted.
    pub(crate) fn create_netns(&self, name: &str) -> Result<Netns, LabError> {
        let name = self.unique(name);
        self.journal(&Entry::Namespace { name: name.clone() })?;
        if netns::exists(&name) {
            // What a topology that could not be finished left; the name says that it is this run's.
            netns::delete(&name)?;
        }
        let netns = Netns::create(&name)?;
        for scope in ["default", "all"] {
            let key = format!("net.ipv6.conf.{scope}.disable_ipv6");
            match overlane_net::sysctl::set(&netns, &key, "1") {
                Ok(()) => {}
                // A kernel without IPv6 has nothing to switch off.
                Err(_) if !Path::new("/proc/sys/net/ipv6").exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(netns)
    }

    /// Tries something in an empty namespace, which goes afterwards.
    pub(crate) fn try_in_netns<T>(
        &self,
        attempt: impl FnOnce(&Netlink) -> Result<T, NetError>,
    ) -> Result<Result<T, NetError>, LabError> {
        self.in_new_netns(|netns| Ok(attempt(&Netlink::in_netns(netns)?)))
    }

    /// Does something in a namespace of its own, which is gone afterwards.
    pub(crate) fn in_new_netns<T>(
        &self,
        attempt: impl FnOnce(&Netns) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        let netns = self.create_netns("try")?;
        let tried = attempt(&netns);
        netns::delete(netns.name())?;
        tried
    }

    /// Starts a child that goes on running.
    pub(crate) fn start(&self, command: Command, cpus: &[usize]) -> Result<Process, LabError> {
        let process = Process::start(command, cpus)?;
        self.journal_process(&process)?;
        Ok(process)
    }

    /// Starts a child that goes on running, to talk with.
    pub(crate) fn converse(
        &self,
        command: Command,
        cpus: &[usize],
    ) -> Result<(Process, ChildStdin, ChildStdout), LabError> {
        let talking = Process::converse(command, cpus)?;
        self.journal_process(&talking.0)?;
        Ok(talking)
    }

    fn journal_process(&self, process: &Process) -> Result<(), LabError> {
        let pid = process.pid();
        // Without a start time it has ended already.
        if let Some(start_time) = journal::start_time(pid) {
            let program = process.program().to_owned();
            self.journal(&Entry::Process {
                pid,
                start_time,
                program,
            })?;
        }
        Ok(())
    }

    /// Runs a command to its end and wants success.
    pub(crate) fn run(&self, command: Command, limit: Duration) -> Result<Output, LabError> {
        self.start(command, &[])?.succeed(limit, &self.interrupts)
    }

    /// Waits until `ready`, at most `limit`; `what` is named in the error.
    pub(crate) fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut ready: impl FnMut() -> Result<bool, LabError>,
    ) -> Result<(), LabError> {
        let end = std::time::Instant::now() + limit;
        while !ready()? {
            if std::time::Instant::now() >= end {
                let source = std::io::ErrorKind::TimedOut.into();
                return Err(LabError::System {
                    action: format!("waiting for {what}"),
                    source,
                });
            }
            self.interrupts.wait(Duration::from_millis(5))?;
        }
        Ok(())
    }

    /// Undoes everything that is still there; what could not be undone is told.
    pub(crate) fn end(self) -> Vec<String> {
        self.undo()
    }

    fn undo(&self) -> Vec<String> {
        self.interrupts.shield();
        let mut report = CleanupReport::default();
        // After `end` the folder is gone, and the drop that follows has nothing left to do.
        if let Ok(entries) = journal::read(&self.dir) {
            undo::undo(&self.dir, &entries, &mut report);
        }
        report.failed
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.undo();
    }
}
