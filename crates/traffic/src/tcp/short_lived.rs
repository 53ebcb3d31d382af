//! Transactions with a connection each: connect, request, response, close.
//!
//! ```text
//! driver ── connect, request ──► server
//!        ◄── response, FIN ────           the server closes first: the port that waits (TIME_WAIT) is
//!        ── FIN ──►                       its own, and the driver does not run out of ports
//! ```
//!
//! A transaction lasts until the driver has seen the server's end. One instance is a thread with blocking
//! calls; several are states of an event loop (`visits`).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nix::sys::socket::{self, SockFlag};

use super::acceptor::{place, port};
use super::connection::{Options, begin_connect, bound, broken, listen_on, open, retransmits};
use super::exchange::{Desk, desks, take_latencies};
use super::visits::{drive_many, serve_many};
use super::{Endpoints, Side, Sizes};
use crate::crew::{Crew, lock};
use crate::error::TrafficError;
use crate::job::Job;
use crate::latency::Histogram;
use crate::message::{Counters, TcpState};
use crate::sys;
use crate::tally::sum;

/// Sets a side of the job up.
pub(super) fn prepare(
    instances: u32,
    sizes: Sizes,
    side: Side,
) -> Result<Box<dyn Job>, TrafficError> {
    let job = match side {
        Side::Serve(address) => {
            ShortLived::serve(instances, sizes, listen_on(address, &options())?)?
        }
        Side::Drive(endpoints) => {
            // Says at once if nobody is there. The server sees a connection without a request.
            drop(open(endpoints, &options())?);
            ShortLived {
                crew: Crew::new()?,
                desks: desks(instances),
                current: Arc::default(),
                role: Part::Drive(endpoints),
                instances,
                sizes,
            }
        }
    };
    Ok(Box::new(job))
}

/// How every connection is set up.
pub(super) fn options() -> Options {
    Options {
        no_delay: true,
        ..Options::default()
    }
}

/// The connection that a blocking thread is busy with, for `stop` to cut.
type Current = Arc<Mutex<Option<Arc<TcpStream>>>>;

enum Part {
    Serve(Arc<TcpListener>, u16),
    Drive(Endpoints),
}

struct ShortLived {
    crew: Arc<Crew>,
    desks: Vec<Arc<Desk>>,
    current: Current,
    role: Part,
    instances: u32,
    sizes: Sizes,
}

impl ShortLived {
    fn serve(instances: u32, sizes: Sizes, listener: TcpListener) -> Result<Self, TrafficError> {
        let port = port(&listener)?;
        let listener = Arc::new(listener);
        let job = Self {
            crew: Crew::new()?,
            desks: desks(instances),
            current: Arc::default(),
            role: Part::Serve(Arc::clone(&listener), port),
            instances,
            sizes,
        };
        for desk in &job.desks {
            let (listener, desk) = (Arc::clone(&listener), Arc::clone(desk));
            let current = Arc::clone(&job.current);
            job.crew.spawn(move |crew| match instances {
                1 => serve_one(crew, &listener, &current, &desk, sizes),
                _ => serve_many(crew, &listener, &desk, sizes),
            })?;
        }
        Ok(job)
    }

    fn cut(&self) {
        self.crew.ring();
        if let Part::Serve(listener, _) = &self.role {
            // Wakes a thread in accept(2). Not listening any more: as good.
            let _ = socket::shutdown(listener.as_raw_fd(), socket::Shutdown::Both);
        }
        if let Some(stream) = &*lock(&self.current) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.crew.join();
    }
}

/// Makes a connection known to `stop` while it is worked on, and closes it after that.
fn with_current<T>(
    crew: &Crew,
    current: &Current,
    stream: TcpStream,
    work: impl FnOnce(&TcpStream) -> T,
) -> T {
    let stream = Arc::new(stream);
    *lock(current) = Some(Arc::clone(&stream));
    // `stop` may have looked before it was there.
    if crew.stopping() {
        let _ = stream.shutdown(Shutdown::Both);
    }
    let result = work(&stream);
    *lock(current) = None;
    result
}

/// One transaction after the other.
fn drive_one(
    crew: &Crew,
    endpoints: Endpoints,
    current: &Current,
    desk: &Desk,
    sizes: Sizes,
) -> Result<(), TrafficError> {
    let peer = endpoints.to.to_string();
    let options = options();
    let request = vec![0x5a; sizes.request_bytes];
    let mut response = vec![0; sizes.response_bytes];
    while !crew.stopping() {
        let begun = Instant::now();
        let stream = TcpStream::from(bound(endpoints, &options, SockFlag::empty())?);
        with_current(crew, current, stream, |mut stream| {
            begin_connect(stream, endpoints)
                .map_err(|error| TrafficError::refused("connect", endpoints.place(), error))?;
            stream
                .write_all(&request)
                .and_then(|()| stream.read_exact(&mut response))
                .and_then(|()| end_of(stream))
                .map_err(|error| broken("exchange messages", &peer, error))?;
            desk.tally.retransmits.add(retransmits(stream));
            Ok(())
        })?;
        desk.completed(sizes, begun, Instant::now());
    }
    Ok(())
}

/// Waits for the server to close.
fn end_of(mut stream: &TcpStream) -> io::Result<()> {
    match stream.read(&mut [0; 1])? {
        0 => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a longer response than agreed on: has the server the same sizes?",
        )),
    }
}

/// Answers one connection after the other.
fn serve_one(
    crew: &Crew,
    listener: &TcpListener,
    current: &Current,
    desk: &Desk,
    sizes: Sizes,
) -> Result<(), TrafficError> {
    let mut request = vec![0; sizes.request_bytes];
    let response = vec![0x5a; sizes.response_bytes];
    while !crew.stopping() {
        let stream = match sys::accept(listener, 0) {
            Ok(stream) => stream,
            Err(error) if passes(&error) => continue,
            Err(error) => {
                let place = place(listener);
                return Err(TrafficError::refused("accept a connection", place, error));
            }
        };
        let answered = with_current(crew, current, stream, |mut stream| {
            stream.read_exact(&mut request)?;
            stream.write_all(&response)
        });
        // Who connects and goes away again is no transaction; its driver knows why.
        if answered.is_ok() {
            desk.answered(sizes);
        }
    }
    Ok(())
}

/// Errors of accept(2) that concern one connection only.
pub(super) fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

impl Job for ShortLived {
    fn ports(&self) -> Vec<u16> {
        match self.role {
            Part::Serve(_, port) => vec![port],
            Part::Drive(_) => Vec::new(),
        }
    }

    fn go(&mut self) -> Result<(), TrafficError> {
        let Part::Drive(endpoints) = self.role else {
            return Ok(());
        };
        let (instances, sizes) = (self.instances, self.sizes);
        for (index, desk) in self.desks.iter().enumerate() {
            let (desk, current) = (Arc::clone(desk), Arc::clone(&self.current));
            let share = (index..instances as usize)
                .step_by(self.desks.len())
                .count();
            self.crew.spawn(move |crew| match instances {
                1 => drive_one(crew, endpoints, &current, &desk, sizes),
                _ => drive_many(crew, endpoints, share, &desk, sizes),
            })?;
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        sum(self.desks.iter().map(|desk| &desk.tally))
    }

    fn take_latencies(&mut self) -> Option<Histogram> {
        matches!(self.role, Part::Drive(_)).then(|| take_latencies(&self.desks))
    }

    fn failure(&self) -> Option<String> {
        self.crew.failure()
    }

    /// No TCP_INFO: its connections are gone.
    fn stop(&mut self) -> Vec<TcpState> {
        self.crew.ring();
        if matches!(self.role, Part::Drive(_)) {
            self.crew
                .wind_down(|| sum(self.desks.iter().map(|desk| &desk.tally)).transactions);
        }
        self.cut();
        Vec::new()
    }
}

impl Drop for ShortLived {
    fn drop(&mut self) {
        self.cut();
    }
}
