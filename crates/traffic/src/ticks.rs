//! A signal that ends a thread's blocking calls from time to time, so that it can look whether the job is to end.
//! A time-out of each call (SO_RCVTIMEO, that of epoll_wait) costs a timer a call, and that shows in the
//! transactions of one socket; this timer is set once.

use std::time::Duration;

use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::gettid;

use crate::error::TrafficError;
use crate::sys;

const TICK: Signal = Signal::SIGALRM;

/// While it lives, no call of the thread that made it blocks for much longer than the interval: it ends with
/// `EINTR`. A tick between the look and the call is lost; the next one is not.
pub(crate) struct Ticks {
    _timer: Timer,
}

impl Ticks {
    pub(crate) fn every(interval: Duration) -> Result<Self, TrafficError> {
        let refused = |errno| TrafficError::refused("set a timer", "this agent", errno);
        sys::interrupt_calls(TICK).map_err(refused)?;
        // Whoever started us may have blocked it.
        SigSet::from(TICK).thread_unblock().map_err(refused)?;
        let to_this_thread = SigevNotify::SigevThreadId {
            signal: TICK,
            thread_id: gettid().as_raw(),
            si_value: 0,
        };
        let mut timer =
            Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(to_this_thread)).map_err(refused)?;
        let interval = interval.max(Duration::from_millis(1));
        timer
            .set(
                Expiration::Interval(interval.into()),
                TimerSetTimeFlags::empty(),
            )
            .map_err(refused)?;
        Ok(Self { _timer: timer })
    }
}
