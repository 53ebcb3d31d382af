//! The one place with `unsafe`: what a child process does between fork and exec.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid, getppid};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the child run on `cpus` (none: anywhere), die with this process, and take signals as a
/// freshly logged-in shell's child does (this process blocks those that it waits for).
///
/// The kernel sends the death signal when the *thread* that started the child ends: start children
/// from the thread that waits for them.
pub(crate) fn prepare_child(command: &mut Command, cpus: &[usize]) {
    let mut set = CpuSet::new();
    let pin = cpus.iter().filter(|cpu| set.set(**cpu).is_ok()).count() > 0;
    let parent = getpid();
    let before_exec = move || {
        SigSet::empty().thread_set_mask()?;
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != parent {
            // The parent died before the death signal was set.
            return Err(Errno::ESRCH.into());
        }
        if pin {
            sched_setaffinity(Pid::from_raw(0), &set)?;
        }
        Ok(())
    };
    // SAFETY: Between fork and exec only async-signal-safe calls are allowed: the closure makes four
    // system calls on values that it owns; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(before_exec);
    }
}
