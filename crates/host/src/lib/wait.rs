//! Waiting for what a ring brings, until something ends it: shared by captures and the log of rules.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::error::HostError;

/// Why there is nothing more to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The time is over.
    Time,
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// Nobody reads the output any more.
    ReaderGone,
    /// The host was removed, or another version took over.
    HostGone,
}

/// How often a waiting session looks whether its host is still applied, and how.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Waits until the ring has something (`None`), one of the signals comes, `reader` hangs up, or a time has
/// come: the end of all, or the `next` look.
pub(crate) fn wait(
    [ring, signals]: [BorrowedFd<'_>; 2],
    reader: Option<BorrowedFd<'_>>,
    until: Option<Instant>,
    next: Instant,
) -> Result<Option<End>, HostError> {
    let now = Instant::now();
    if until.is_some_and(|until| now >= until) {
        return Ok(Some(End::Time));
    }
    let left = until
        .map_or(next, |until| until.min(next))
        .saturating_duration_since(now);
    // A millisecond more, as the rest below one is cut off.
    let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
    let mut descriptors = vec![
        PollFd::new(ring, PollFlags::POLLIN),
        PollFd::new(signals, PollFlags::POLLIN),
    ];
    descriptors.extend(reader.map(|reader| PollFd::new(reader, PollFlags::empty())));
    match poll(&mut descriptors, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(HostError::system("wait for packets")(errno)),
    }
    let raised = |index: usize| {
        let flags = descriptors.get(index).and_then(PollFd::revents);
        flags.is_some_and(|flags| !flags.is_empty())
    };
    Ok(match (raised(1), raised(2)) {
        (true, _) => Some(End::Signal),
        (_, true) => Some(End::ReaderGone),
        _ => None,
    })
}
