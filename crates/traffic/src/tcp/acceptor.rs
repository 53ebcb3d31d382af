//! The accepting thread of a server: takes the connections that belong to the job, then watches for
//! drivers that have enough.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::connection::{Connection, Greeting};
use super::event_loop::{EVENTS, epoll_refused, poller, wait};
use crate::crew::Crew;
use crate::error::TrafficError;

/// How long a stranger that connects and says nothing keeps others waiting.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Hands each connection whose greeting is expected to `take`, until all have come or the job ends. Others
/// are closed.
pub(super) fn accept_all(
    crew: &Arc<Crew>,
    listener: &TcpListener,
    instances: u32,
    directions: &[bool],
    mut take: impl FnMut(Connection) -> Result<(), TrafficError>,
) -> Result<(), TrafficError> {
    let mut missing: BTreeSet<(bool, u16)> = (0..instances)
        .filter_map(|instance| u16::try_from(instance).ok())
        .flat_map(|instance| directions.iter().map(move |&reverse| (reverse, instance)))
        .collect();
    let refused = |error| TrafficError::refused("accept a connection", place(listener), error);
    listener.set_nonblocking(true).map_err(refused)?;
    while !missing.is_empty() && !crew.stopping() {
        readable(crew, listener.as_fd(), PollTimeout::NONE).map_err(refused)?;
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            // Gone again before it was accepted, or the job ends.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(refused(error)),
        };
        if let Some(greeting) = greet(crew, &stream)
            && missing.remove(&(greeting.reverse, greeting.instance))
            && (&stream).write_all(&greeting.to_bytes()).is_ok()
        {
            take(Connection::new(stream, peer, greeting.reverse))?;
        }
    }
    Ok(())
}

/// The greeting of whoever connected, if it is one of ours.
fn greet(crew: &Crew, stream: &TcpStream) -> Option<Greeting> {
    let patience = PollTimeout::try_from(PATIENCE).ok()?;
    readable(crew, stream.as_fd(), patience).ok()?;
    // The rest of a greeting is not far behind its beginning.
    stream.set_read_timeout(Some(PATIENCE / 10)).ok()?;
    let mut bytes = [0; Greeting::BYTES];
    (&*stream).read_exact(&mut bytes).ok()?;
    stream.set_read_timeout(None).ok()?;
    Greeting::from_bytes(bytes)
}

/// Waits until there is something to read, or the job ends.
fn readable(crew: &Crew, fd: BorrowedFd<'_>, timeout: PollTimeout) -> io::Result<()> {
    let mut both = [
        PollFd::new(fd, PollFlags::POLLIN),
        PollFd::new(crew.bell().as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut both, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Ends each connection on which this side sends when its driver has ended its own direction. A thread of its
/// own does not see that: it waits for room to send.
pub(super) fn watch(crew: &Crew, sending: &[&Connection]) -> Result<(), TrafficError> {
    let epoll = poller(crew)?;
    let once = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLONESHOT;
    for (token, connection) in sending.iter().enumerate() {
        epoll
            .add(&connection.stream, EpollEvent::new(once, token as u64))
            .map_err(epoll_refused)?;
    }
    let mut events = vec![EpollEvent::empty(); EVENTS];
    let mut left = sending.len();
    while left > 0 && !crew.stopping() {
        let count = wait(&epoll, &mut events)?;
        for event in &events[..count] {
            if let Some(connection) = sending.get(event.data() as usize) {
                connection.end_sending();
                left -= 1;
            }
        }
    }
    Ok(())
}

/// The port that a listener was given.
pub(super) fn port(listener: &TcpListener) -> Result<u16, TrafficError> {
    listener
        .local_addr()
        .map(|address| address.port())
        .map_err(|error| TrafficError::refused("listen", place(listener), error))
}

/// Where a listener is, for errors.
pub(super) fn place(listener: &TcpListener) -> String {
    listener
        .local_addr()
        .as_ref()
        .map_or_else(|_| "unknown port".to_owned(), SocketAddr::to_string)
}
