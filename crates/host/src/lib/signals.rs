//! SIGINT, SIGTERM and SIGHUP as something to wait for, so that what a command switched on is switched
//! off before it ends.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::error::HostError;

/// The signals that end a program, taken over from the calling thread and those it starts.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// From here on they do not end the program.
    pub fn take_over() -> Result<Self, HostError> {
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let taken = mask
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&mask, flags));
        let descriptor = taken.map_err(HostError::system("take over signals"))?;
        Ok(Self { descriptor })
    }

    /// Whether one has come since the last time.
    pub fn raised(&self) -> bool {
        let mut raised = false;
        while let Ok(Some(_)) = self.descriptor.read_signal() {
            raised = true;
        }
        raised
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
