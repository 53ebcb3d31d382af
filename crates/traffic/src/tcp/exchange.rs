//! Transactions on open connections: a request, a response, one outstanding per connection. One
//! connection is a thread with blocking calls, which has the lowest latency; several are served by event
//! loops (`event_loop`), as many as CPUs are allowed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::acceptor::{accept_all, port};
use super::connection::{Connection, Greeting, Options, broken, listen_on};
use super::event_loop::run_loop;
use super::{Endpoints, Side, Sizes};
use crate::crew::{Crew, lock};
use crate::error::TrafficError;
use crate::job::Job;
use crate::latency::Histogram;
use crate::message::{Counters, TcpState};
use crate::tally::{Tally, sum};

/// What one thread counts and measures.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) tally: Tally,
    /// Its thread's, but for the moment of a reading.
    pub(super) latency: Mutex<Histogram>,
}

impl Desk {
    /// Counts a transaction that a driver completed.
    #[inline]
    pub(super) fn completed(&self, sizes: Sizes, begun: Instant, ended: Instant) {
        let latency = ended.duration_since(begun).as_nanos();
        lock(&self.latency).record(u64::try_from(latency).unwrap_or(u64::MAX));
        self.tally.sent_bytes.add(sizes.request_bytes as u64);
        self.tally.received_bytes.add(sizes.response_bytes as u64);
        self.tally.transactions.add(1);
    }

    /// Counts a transaction that a server answered.
    #[inline]
    pub(super) fn answered(&self, sizes: Sizes) {
        self.tally.received_bytes.add(sizes.request_bytes as u64);
        self.tally.sent_bytes.add(sizes.response_bytes as u64);
        self.tally.transactions.add(1);
    }
}

/// Desks for a job: one for each CPU that may be used, but not more than instances.
pub(super) fn desks(instances: u32) -> Vec<Arc<Desk>> {
    let cpus = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).map_or(1, |set| {
        (0..nix::sched::CpuSet::count())
            .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
            .count()
    });
    let count = cpus.clamp(1, instances.max(1) as usize);
    (0..count).map(|_| Arc::default()).collect()
}

/// All latencies of several desks since the last call.
pub(super) fn take_latencies(desks: &[Arc<Desk>]) -> Histogram {
    let mut all = Histogram::new();
    for desk in desks {
        // Made before the lock is taken, which keeps the traffic waiting.
        let empty = Histogram::new();
        let taken = std::mem::replace(&mut *lock(&desk.latency), empty);
        all.merge(&taken);
    }
    all
}

/// Sets a side of a transaction job up.
pub(super) fn prepare(
    instances: u32,
    sizes: Sizes,
    options: &Options,
    side: Side,
) -> Result<Box<dyn Job>, TrafficError> {
    let job = match side {
        Side::Serve(address) => ExchangeJob::serve(instances, sizes, listen_on(address, options)?)?,
        Side::Drive(endpoints) => ExchangeJob::drive(instances, sizes, options, endpoints)?,
    };
    Ok(Box::new(job))
}

type Connections = Arc<Mutex<Vec<Arc<Connection>>>>;

struct ExchangeJob {
    crew: Arc<Crew>,
    connections: Connections,
    desks: Vec<Arc<Desk>>,
    sizes: Sizes,
    /// Where a server listens.
    port: Option<u16>,
}

impl ExchangeJob {
    fn serve(instances: u32, sizes: Sizes, listener: TcpListener) -> Result<Self, TrafficError> {
        let port = port(&listener)?;
        let job = Self {
            crew: Crew::new()?,
            connections: Connections::default(),
            desks: desks(instances),
            sizes,
            port: Some(port),
        };
        let (connections, desks) = (Arc::clone(&job.connections), job.desks.clone());
        job.crew.spawn(move |crew| {
            accept_all(crew, &listener, instances, &[false], |connection| {
                let mut connections = lock(&connections);
                // `stop` cuts what is on the list; this one may come after that.
                if crew.stopping() {
                    connection.cut();
                }
                connections.push(Arc::new(connection));
                Ok(())
            })?;
            drop(listener);
            let connections = lock(&connections).clone();
            begin(crew, &connections, &desks, sizes, false)
        })?;
        Ok(job)
    }

    fn drive(
        instances: u32,
        sizes: Sizes,
        options: &Options,
        endpoints: Endpoints,
    ) -> Result<Self, TrafficError> {
        let connections: Result<Vec<_>, TrafficError> = (0..instances)
            .map(|instance| {
                let greeting = Greeting {
                    instance: u16::try_from(instance).unwrap_or(u16::MAX),
                    reverse: false,
                };
                Connection::drive(endpoints, options, greeting).map(Arc::new)
            })
            .collect();
        Ok(Self {
            crew: Crew::new()?,
            connections: Arc::new(Mutex::new(connections?)),
            desks: desks(instances),
            sizes,
            port: None,
        })
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).clone()
    }

    fn cut(&self) {
        self.crew.ring();
        for connection in self.connections() {
            connection.cut();
        }
        self.crew.join();
    }
}

/// Starts the threads that send requests, or answer them.
fn begin(
    crew: &Arc<Crew>,
    connections: &[Arc<Connection>],
    desks: &[Arc<Desk>],
    sizes: Sizes,
    drives: bool,
) -> Result<(), TrafficError> {
    if let ([connection], [desk]) = (connections, desks) {
        let (connection, desk) = (Arc::clone(connection), Arc::clone(desk));
        return crew.spawn(move |crew| match drives {
            true => drive_one(crew, &connection, &desk, sizes),
            false => serve_one(&connection, &desk, sizes),
        });
    }
    for (index, desk) in desks.iter().enumerate() {
        let share = connections.iter().skip(index).step_by(desks.len());
        let (share, desk) = (share.cloned().collect(), Arc::clone(desk));
        crew.spawn(move |crew| run_loop(crew, share, &desk, sizes, drives))?;
    }
    Ok(())
}

/// One transaction after the other.
fn drive_one(
    crew: &Crew,
    connection: &Connection,
    desk: &Desk,
    sizes: Sizes,
) -> Result<(), TrafficError> {
    let request = vec![0x5a; sizes.request_bytes];
    let mut response = vec![0; sizes.response_bytes];
    let mut stream = &connection.stream;
    let mut begun = Instant::now();
    while !crew.stopping() {
        stream
            .write_all(&request)
            .map_err(|error| broken("send a request", &connection.peer, error))?;
        stream
            .read_exact(&mut response)
            .map_err(|error| broken("receive a response", &connection.peer, error))?;
        let ended = Instant::now();
        desk.completed(sizes, begun, ended);
        begun = ended;
    }
    connection.end_sending();
    Ok(())
}

/// Answers until the driver ends.
fn serve_one(connection: &Connection, desk: &Desk, sizes: Sizes) -> Result<(), TrafficError> {
    let mut request = vec![0; sizes.request_bytes];
    let response = vec![0x5a; sizes.response_bytes];
    let mut stream = &connection.stream;
    loop {
        match stream.read_exact(&mut request) {
            Ok(()) => {}
            // A driver that is told to end may be in the middle of a request.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(broken("receive a request", &connection.peer, error)),
        }
        stream
            .write_all(&response)
            .map_err(|error| broken("send a response", &connection.peer, error))?;
        desk.answered(sizes);
    }
}

impl Job for ExchangeJob {
    fn ports(&self) -> Vec<u16> {
        self.port.into_iter().collect()
    }

    fn go(&mut self) -> Result<(), TrafficError> {
        begin(
            &self.crew,
            &self.connections(),
            &self.desks,
            self.sizes,
            true,
        )
    }

    fn counters(&self) -> Counters {
        let mut counters = sum(self.desks.iter().map(|desk| &desk.tally));
        let connections = self.connections();
        counters.retransmits = connections.iter().map(|one| one.retransmits()).sum();
        counters
    }

    fn take_latencies(&mut self) -> Option<Histogram> {
        self.port.is_none().then(|| take_latencies(&self.desks))
    }

    fn failure(&self) -> Option<String> {
        self.crew.failure()
    }

    fn stop(&mut self) -> Vec<TcpState> {
        let states = match self.port {
            None => self
                .connections()
                .iter()
                .filter_map(|one| one.state())
                .collect(),
            Some(_) => Vec::new(),
        };
        self.crew.ring();
        self.crew
            .wind_down(|| sum(self.desks.iter().map(|desk| &desk.tally)).transactions);
        self.cut();
        states
    }
}

impl Drop for ExchangeJob {
    fn drop(&mut self) {
        self.cut();
    }
}
