//! Short-lived connections by the dozen, on one thread: each instance of a driver is a visit that begins
//! again when it ended; a server has a visit for each connection that it accepted. See `short_lived` for
//! what a visit is, `event_loop` for why edges.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::SockFlag;

use super::acceptor::place;
use super::connection::{begin_connect, bound, broken, retransmits};
use super::event_loop::{BELL, EDGES, EVENTS, epoll_refused, poller, wait};
use super::exchange::Desk;
use super::short_lived::{options, passes};
use super::{Endpoints, Sizes};
use crate::crew::Crew;
use crate::error::TrafficError;
use crate::sys;

/// The token of a listener.
const LISTENER: u64 = BELL - 1;
/// Connections accepted before those that are there get their turn.
const ACCEPT_BATCH: usize = 64;

/// One connection and how far it is.
struct Visit {
    stream: TcpStream,
    to_send: usize,
    to_receive: usize,
    begun: Instant,
}

/// Drives `instances` visits at a time until the job ends.
pub(super) fn drive_many(
    crew: &Crew,
    endpoints: Endpoints,
    instances: usize,
    desk: &Desk,
    sizes: Sizes,
) -> Result<(), TrafficError> {
    let epoll = poller(crew)?;
    let peer = endpoints.to.to_string();
    let request = vec![0x5a; sizes.request_bytes];
    let mut response = vec![0; sizes.response_bytes.max(2)];
    let mut visits = Vec::new();
    for instance in 0..instances {
        visits.push(Some(Visit::begin(&epoll, endpoints, instance, sizes)?));
    }
    let mut open = instances;
    let mut events = vec![EpollEvent::empty(); EVENTS];
    while open > 0 {
        let count = wait(&epoll, &mut events)?;
        for event in &events[..count] {
            if event.data() == BELL {
                // What has not been answered by now is no transaction.
                return Ok(());
            }
            let index = event.data() as usize;
            let Some(slot) = visits.get_mut(index) else {
                continue;
            };
            let Some(visit) = slot else { continue };
            match visit.drive(&request, &mut response) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(broken("connect and exchange messages", &peer, error)),
            }
            desk.tally.retransmits.add(retransmits(&visit.stream));
            let begun = visit.begun;
            // Closed before the next one begins, and within the transaction's time.
            *slot = None;
            desk.completed(sizes, begun, Instant::now());
            if crew.stopping() {
                open -= 1;
            } else {
                *slot = Some(Visit::begin(&epoll, endpoints, index, sizes)?);
            }
        }
    }
    Ok(())
}

/// Answers connections until the job ends.
pub(super) fn serve_many(
    crew: &Crew,
    listener: &TcpListener,
    desk: &Desk,
    sizes: Sizes,
) -> Result<(), TrafficError> {
    let epoll = poller(crew)?;
    listener
        .set_nonblocking(true)
        .map_err(|error| TrafficError::refused("listen", place(listener), error))?;
    // Only one of several loops is woken for a connection.
    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
    epoll
        .add(listener, EpollEvent::new(flags, LISTENER))
        .map_err(epoll_refused)?;
    let mut request = vec![0; sizes.request_bytes];
    let response = vec![0x5a; sizes.response_bytes];
    // By descriptor: the kernel uses the smallest that are free.
    let mut visits: Vec<Option<Visit>> = Vec::new();
    let mut events = vec![EpollEvent::empty(); EVENTS];
    loop {
        let count = wait(&epoll, &mut events)?;
        for event in &events[..count] {
            match event.data() {
                BELL => return Ok(()),
                LISTENER => accept_batch(&epoll, listener, &mut visits, sizes)?,
                token => {
                    let Some(slot) = visits.get_mut(token as usize) else {
                        continue;
                    };
                    let Some(visit) = slot else { continue };
                    match visit.serve(&mut request, &response) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        Ok(()) => desk.answered(sizes),
                        // Came and went without a request; its driver knows why.
                        Err(_) => {}
                    }
                    *slot = None;
                }
            }
        }
    }
}

fn accept_batch(
    epoll: &Epoll,
    listener: &TcpListener,
    visits: &mut Vec<Option<Visit>>,
    sizes: Sizes,
) -> Result<(), TrafficError> {
    for _ in 0..ACCEPT_BATCH {
        let stream = match sys::accept(listener, libc::SOCK_NONBLOCK) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if passes(&error) => continue,
            Err(error) => {
                let place = place(listener);
                return Err(TrafficError::refused("accept a connection", place, error));
            }
        };
        let token = stream.as_raw_fd() as usize;
        epoll
            .add(&stream, EpollEvent::new(EDGES, token as u64))
            .map_err(epoll_refused)?;
        if visits.len() <= token {
            visits.resize_with(token + 1, || None);
        }
        visits[token] = Some(Visit {
            stream,
            to_send: sizes.response_bytes,
            to_receive: sizes.request_bytes,
            begun: Instant::now(),
        });
    }
    Ok(())
}

impl Visit {
    /// Begins to connect.
    fn begin(
        epoll: &Epoll,
        endpoints: Endpoints,
        token: usize,
        sizes: Sizes,
    ) -> Result<Self, TrafficError> {
        let begun = Instant::now();
        let stream = TcpStream::from(bound(endpoints, &options(), SockFlag::SOCK_NONBLOCK)?);
        match begin_connect(&stream, endpoints) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                return Err(TrafficError::refused("connect", endpoints.place(), error));
            }
            _ => {}
        }
        epoll
            .add(&stream, EpollEvent::new(EDGES, token as u64))
            .map_err(epoll_refused)?;
        Ok(Self {
            stream,
            to_send: sizes.request_bytes,
            to_receive: sizes.response_bytes,
            begun,
        })
    }

    /// Goes on as far as it goes: WouldBlock, or the end of the visit.
    fn drive(&mut self, request: &[u8], response: &mut [u8]) -> io::Result<()> {
        if self.to_send > 0 {
            // Says WouldBlock as well while it is not connected, and why it never will be.
            send(&self.stream, &mut self.to_send, request)?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        loop {
            // One more than can come: that it does not is the end.
            let room = (self.to_receive + 1).min(response.len());
            match (&self.stream).read(&mut response[..room]) {
                Ok(0) if self.to_receive == 0 => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) if received > self.to_receive => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a longer response than agreed on: has the server the same sizes?",
                    ));
                }
                Ok(received) => self.to_receive -= received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on as far as it goes: WouldBlock, or the request is answered.
    fn serve(&mut self, request: &mut [u8], response: &[u8]) -> io::Result<()> {
        while self.to_receive > 0 {
            match (&self.stream).read(&mut request[..self.to_receive]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => self.to_receive -= received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        send(&self.stream, &mut self.to_send, response)
    }
}

fn send(mut stream: &TcpStream, left: &mut usize, message: &[u8]) -> io::Result<()> {
    while *left > 0 {
        match stream.write(&message[..*left]) {
            Ok(sent) => *left -= sent,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
