//! Waiting for several sockets at once, without an end of its own: a tick ends it. Used by the loops of
//! receivers, answerers and drivers.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::error::TrafficError;
use crate::ticks::Ticks;

use super::Flow;

/// The sockets of one thread. Their calls do not block any more.
pub(super) struct Ready {
    epoll: Epoll,
    events: Vec<EpollEvent>,
    _ticks: Ticks,
}

impl Ready {
    /// Waits for these sockets from now on, in the thread that makes it, each time for about `patience` at most.
    pub(super) fn new(flows: &[Flow], patience: Duration) -> Result<Self, TrafficError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(refused)?;
        for (position, flow) in flows.iter().enumerate() {
            flow.socket.set_nonblocking(true).map_err(|error| {
                TrafficError::refused("make a socket non-blocking", flow.place(), error)
            })?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, position as u64);
            epoll.add(flow.socket.as_fd(), event).map_err(refused)?;
        }
        Ok(Self {
            epoll,
            events: vec![EpollEvent::empty(); flows.len()],
            _ticks: Ticks::every(patience)?,
        })
    }

    /// The positions of the sockets that have something; none after a while.
    pub(super) fn wait(&mut self) -> Result<impl Iterator<Item = usize> + '_, TrafficError> {
        let ready = match self.epoll.wait(&mut self.events, EpollTimeout::NONE) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(refused(errno)),
        };
        Ok(self.events[..ready]
            .iter()
            .map(|event| event.data() as usize))
    }
}

fn refused(errno: Errno) -> TrafficError {
    TrafficError::refused("wait for datagrams", "epoll, this agent", errno)
}
