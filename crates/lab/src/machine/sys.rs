//! The one place with `unsafe`: what a child process does between fork and exec, and a socket option
//! that no wrapper has.

use super::open_files;
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpid, getppid};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the child run on `cpus` (none: anywhere), die with this process, and have the signals and the open files of a
/// freshly logged-in shell's child (this process blocks the signals that it waits for, and opens more files).
///
/// The kernel sends the death signal when the *thread* that started the child ends: start children
/// from the thread that waits for them.
pub(crate) fn prepare_child(command: &mut Command, cpus: &[usize]) {
    let mut set = CpuSet::new();
    let pin = cpus.iter().filter(|cpu| set.set(**cpu).is_ok()).count() > 0;
    let parent = getpid();
    let before_exec = move || {
        SigSet::empty().thread_set_mask()?;
        open_files::set_back()?;
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
    // SAFETY: Between fork and exec only async-signal-safe calls are allowed: the closure makes five
    // system calls on values that it owns; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Has a packet socket say of each frame what the kernel keeps beside its bytes: the VLAN tag
/// (`PACKET_AUXDATA`, packet(7)).
pub(crate) fn tell_tags(socket: BorrowedFd<'_>) -> nix::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: The descriptor is open as long as it is borrowed; the option is an int, and its address and
    // size are those of `on`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_AUXDATA,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    Errno::result(done).map(drop)
}

/// Has a packet socket send by one device and hear that one alone (packet(7)).
pub(crate) fn bind_to_device(socket: BorrowedFd<'_>, index: u32) -> nix::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::sa_family_t,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: The descriptor is open as long as it is borrowed; the address outlives the call, and the
    // size is its own.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    Errno::result(done).map(drop)
}
