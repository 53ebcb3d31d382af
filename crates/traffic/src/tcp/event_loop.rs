//! Many connections with a transaction outstanding each, on one thread: epoll, edge-triggered, so that
//! a transaction costs one send, one receive and its share of a wait, and no context switch of its own.
//!
//! A connection is read only when the kernel said that something came, and again until it is empty
//! when a message is not complete or the other side has ended.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::Sizes;
use super::connection::{Connection, broken};
use super::exchange::Desk;
use crate::crew::Crew;
use crate::error::TrafficError;

/// The token of the bell; those of connections count from 0.
pub(super) const BELL: u64 = u64::MAX;
/// Events that one wait takes at most.
pub(super) const EVENTS: usize = 256;

/// An epoll instance that knows the bell.
pub(super) fn poller(crew: &Crew) -> Result<Epoll, TrafficError> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(epoll_refused)?;
    epoll
        .add(crew.bell(), EpollEvent::new(EpollFlags::EPOLLIN, BELL))
        .map_err(epoll_refused)?;
    Ok(epoll)
}

/// Waits for events; none after a signal.
pub(super) fn wait(epoll: &Epoll, events: &mut [EpollEvent]) -> Result<usize, TrafficError> {
    match epoll.wait(events, EpollTimeout::NONE) {
        Err(Errno::EINTR) => Ok(0),
        other => other.map_err(epoll_refused),
    }
}

pub(super) fn epoll_refused(errno: Errno) -> TrafficError {
    TrafficError::refused("wait for connections", "this agent", errno)
}

/// What connections are watched for, each change once.
pub(super) const EDGES: EpollFlags = EpollFlags::EPOLLIN
    .union(EpollFlags::EPOLLOUT)
    .union(EpollFlags::EPOLLRDHUP)
    .union(EpollFlags::EPOLLET);

/// A connection and how far its transaction is: first `to_send`, then `to_receive` for a driver; the other way
/// round for a server.
struct Exchange {
    connection: Arc<Connection>,
    to_send: usize,
    to_receive: usize,
    begun: Instant,
    ended: bool,
}

/// What all connections of a loop share.
struct Loop<'a> {
    crew: &'a Crew,
    desk: &'a Desk,
    sizes: Sizes,
    drives: bool,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

/// Drives or serves connections until all have ended.
pub(super) fn run_loop(
    crew: &Crew,
    connections: Vec<Arc<Connection>>,
    desk: &Desk,
    sizes: Sizes,
    drives: bool,
) -> Result<(), TrafficError> {
    let epoll = poller(crew)?;
    let (send_bytes, receive_bytes) = match drives {
        true => (sizes.request_bytes, sizes.response_bytes),
        false => (sizes.response_bytes, sizes.request_bytes),
    };
    let mut shared = Loop {
        crew,
        desk,
        sizes,
        drives,
        outgoing: vec![0x5a; send_bytes],
        incoming: vec![0; receive_bytes],
    };
    let mut exchanges = Vec::new();
    for (token, connection) in connections.into_iter().enumerate() {
        connection
            .stream
            .set_nonblocking(true)
            .map_err(|error| broken("use", &connection.peer, error))?;
        epoll
            .add(&connection.stream, EpollEvent::new(EDGES, token as u64))
            .map_err(epoll_refused)?;
        exchanges.push(Exchange {
            connection,
            to_send: if drives { send_bytes } else { 0 },
            to_receive: receive_bytes,
            begun: Instant::now(),
            ended: false,
        });
    }
    let mut open = exchanges.len();
    let mut events = vec![EpollEvent::empty(); EVENTS];
    // The first event of every connection says that it can be written to: drivers begin with that.
    while open > 0 {
        let count = wait(&epoll, &mut events)?;
        for event in &events[..count] {
            if event.data() == BELL {
                // From now on the end of each connection wakes it: drivers end theirs, servers see them end.
                epoll.delete(crew.bell()).map_err(epoll_refused)?;
                continue;
            }
            let Some(exchange) = exchanges.get_mut(event.data() as usize) else {
                continue;
            };
            if !exchange.ended {
                exchange.step(&mut shared, event.events())?;
                open -= usize::from(exchange.ended);
            }
        }
    }
    Ok(())
}

impl Exchange {
    /// Goes on as far as it goes.
    fn step(&mut self, shared: &mut Loop<'_>, events: EpollFlags) -> Result<(), TrafficError> {
        let outcome = match shared.drives {
            true => self.drive(shared),
            false => self.serve(shared, events),
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // Cut, because the time is over.
            Err(_) if shared.crew.stopping() => {
                self.ended = true;
                Ok(())
            }
            Err(error) => Err(broken("exchange messages", &self.connection.peer, error)),
        }
    }

    fn drive(&mut self, shared: &mut Loop<'_>) -> io::Result<()> {
        if self.to_send == 0 {
            receive(&self.connection, &mut self.to_receive, &mut shared.incoming)?;
            let now = Instant::now();
            shared.desk.completed(shared.sizes, self.begun, now);
            if shared.crew.stopping() {
                self.connection.end_sending();
                self.ended = true;
                return Ok(());
            }
            self.begun = now;
            self.to_send = shared.sizes.request_bytes;
            self.to_receive = shared.sizes.response_bytes;
        }
        // The response is still under way: its event comes.
        send(&self.connection, &mut self.to_send, &shared.outgoing)
    }

    fn serve(&mut self, shared: &mut Loop<'_>, events: EpollFlags) -> io::Result<()> {
        loop {
            if self.to_send == 0 {
                match receive(&self.connection, &mut self.to_receive, &mut shared.incoming) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        self.ended = true;
                        return Ok(());
                    }
                    other => other?,
                }
                self.to_send = shared.sizes.response_bytes;
            }
            send(&self.connection, &mut self.to_send, &shared.outgoing)?;
            shared.desk.answered(shared.sizes);
            self.to_receive = shared.sizes.request_bytes;
            // The next request announces itself, but an end that came with this one does not again.
            if !events.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP) {
                return Ok(());
            }
        }
    }
}

/// Sends what is left of a message; WouldBlock when not all of it went.
fn send(connection: &Connection, left: &mut usize, message: &[u8]) -> io::Result<()> {
    while *left > 0 {
        match (&connection.stream).write(&message[..*left]) {
            Ok(sent) => *left -= sent,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives what is left of a message; WouldBlock when not all of it came.
fn receive(connection: &Connection, left: &mut usize, buffer: &mut [u8]) -> io::Result<()> {
    while *left > 0 {
        match (&connection.stream).read(&mut buffer[..*left]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => *left -= received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
