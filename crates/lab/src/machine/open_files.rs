//! How many files a process may have open. Most shells and systemd allow 1 024 at first, and more to who asks: programs
//! that wait with select(2) cannot count further. So this one asks, and its children begin as it began.

use nix::libc::rlim_t;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::sync::OnceLock;

/// What this process might open before [`raise`] was called.
static AT_START: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Lets this process have as many files open as anybody allows it: a host of a thousand ports takes more than 1 024.
pub fn raise() {
    // Where it stays low, who opens one file more says so.
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        AT_START.get_or_init(|| (soft, hard));
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Undoes [`raise`] in a child. Between fork and exec: it neither allocates nor waits.
pub(crate) fn set_back() -> nix::Result<()> {
    match AT_START.get() {
        Some((soft, hard)) => setrlimit(Resource::RLIMIT_NOFILE, *soft, *hard),
        None => Ok(()),
    }
}
