//! SIGINT and SIGTERM as something to wait for, so that a run ends in order: children stopped, what
//! was measured written, the machine as it was.

use crate::error::LabError;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Blocks the signals for the calling thread and those it starts, and takes them over.
pub(crate) struct Interrupts {
    mask: SigSet,
    signals: SignalFd,
    raised: Cell<bool>,
    shielded: Cell<bool>,
}

impl Interrupts {
    pub(crate) fn take_over() -> Result<Self, LabError> {
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        mask.thread_block()
            .map_err(LabError::system("blocking signals"))?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(LabError::system("opening a signal descriptor"))?;
        Ok(Self {
            mask,
            signals,
            raised: Cell::new(false),
            shielded: Cell::new(false),
        })
    }

    /// True once a signal has come.
    pub(crate) fn raised(&self) -> bool {
        while let Ok(Some(_)) = self.signals.read_signal() {
            self.raised.set(true);
        }
        self.raised.get()
    }

    /// From here on waits are not cut short: tidying up is under way.
    pub(crate) fn shield(&self) {
        self.shielded.set(true);
    }

    /// Waits; a signal ends it early with [`LabError::Interrupted`].
    pub(crate) fn wait(&self, time: Duration) -> Result<(), LabError> {
        let end = Instant::now() + time;
        loop {
            if self.shielded.get() {
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
                return Ok(());
            }
            if self.raised() {
                return Err(LabError::Interrupted);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let mut descriptors = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // A millisecond more, as the rest below one is cut off.
            let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
            match poll(&mut descriptors, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(LabError::system("waiting for a signal")(errno)),
            }
        }
    }
}

impl Interrupts {
    /// Waits until `descriptor` can be read or has ended, at most `time`; false: neither. A signal ends it early, as
    /// with [`Self::wait`].
    pub(crate) fn wait_for(
        &self,
        descriptor: BorrowedFd<'_>,
        time: Duration,
    ) -> Result<bool, LabError> {
        let end = Instant::now() + time;
        loop {
            if !self.shielded.get() && self.raised() {
                return Err(LabError::Interrupted);
            }
            let left = end.saturating_duration_since(Instant::now());
            let mut descriptors = [
                PollFd::new(descriptor, PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            // Behind a shield a signal that came stays readable, and is not to be woken for.
            let watched = if self.shielded.get() { 1 } else { 2 };
            let timeout = PollTimeout::try_from(left.as_micros().div_ceil(1000));
            match poll(
                &mut descriptors[..watched],
                timeout.unwrap_or(PollTimeout::MAX),
            ) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(LabError::system("waiting for an answer")(errno)),
            }
            // Readable, ended or broken: reading tells which.
            if descriptors[0].any().unwrap_or(true) {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        // What came while the run was ending has been answered by the end.
        self.raised();
        let _ = self.mask.thread_unblock();
    }
}
