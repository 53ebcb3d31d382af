//! Streams: as many bytes as go through, a thread per connection with blocking calls.
//!
//! ```text
//! forward   driver ── bytes ──► server              ends: driver's FIN, the server reads up to it
//! reverse   driver ── 1 byte: begin ──► server      ends: driver's FIN, the server stops sending and
//!           driver ◄── bytes ── server                    ends too, the driver reads up to it
//! both      a connection of each per instance
//! ```

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::acceptor::{accept_all, port, watch};
use super::connection::{Connection, Greeting, Options, broken, listen_on};
use super::{Endpoints, Side};
use crate::crew::{Crew, lock};
use crate::error::TrafficError;
use crate::job::Job;
use crate::message::{Counters, Direction, TcpState};
use crate::pacing::{Rate, now_ns, sharpen_sleep, sleep_until};
use crate::tally::{Tally, sum};

/// What a receiver takes at once, at least: fewer calls for small messages; still in the cache.
const RECEIVE_BYTES: usize = 128 << 10;

/// What a connection sends: how much a call, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    bytes: usize,
    /// Of each connection; `None`: as often as it goes.
    each_pps: Option<f64>,
}

impl Messages {
    /// `rate_mbps` is of all instances together.
    pub(super) fn new(bytes: usize, rate_mbps: Option<f64>, instances: u32) -> Self {
        let each_pps = rate_mbps.map(|mbps| mbps * 1e6 / 8.0 / bytes as f64 / f64::from(instances));
        Self { bytes, each_pps }
    }
}

/// Sets a side of a stream job up.
pub(super) fn prepare(
    instances: u32,
    messages: Messages,
    direction: Direction,
    options: &Options,
    side: Side,
) -> Result<Box<dyn Job>, TrafficError> {
    let job = match side {
        Side::Serve(address) => {
            let listener = listen_on(address, options)?;
            StreamJob::serve(instances, messages, direction, listener)?
        }
        Side::Drive(endpoints) => {
            StreamJob::drive(instances, messages, direction, options, endpoints)?
        }
    };
    Ok(Box::new(job))
}

/// Whether the server sends, for each connection of an instance.
fn reverses(direction: Direction) -> &'static [bool] {
    match direction {
        Direction::Forward => &[false],
        Direction::Reverse => &[true],
        Direction::Both => &[false, true],
    }
}

/// A connection, and what passed.
#[derive(Debug)]
struct Flow {
    connection: Connection,
    tally: Tally,
}

type Flows = Arc<Mutex<Vec<Arc<Flow>>>>;

struct StreamJob {
    crew: Arc<Crew>,
    flows: Flows,
    messages: Messages,
    /// Where a server listens.
    port: Option<u16>,
}

impl StreamJob {
    fn serve(
        instances: u32,
        messages: Messages,
        direction: Direction,
        listener: TcpListener,
    ) -> Result<Self, TrafficError> {
        let port = port(&listener)?;
        let job = Self {
            crew: Crew::new()?,
            flows: Flows::default(),
            messages,
            port: Some(port),
        };
        let flows = Arc::clone(&job.flows);
        job.crew.spawn(move |crew| {
            accept_all(
                crew,
                &listener,
                instances,
                reverses(direction),
                |connection| begin_serving(crew, &flows, connection, messages),
            )?;
            drop(listener);
            let flows: Vec<Arc<Flow>> = lock(&flows).clone();
            let connections = flows.iter().map(|flow| &flow.connection);
            let sending: Vec<&Connection> = connections.filter(|one| one.sends).collect();
            watch(crew, &sending)
        })?;
        Ok(job)
    }

    fn drive(
        instances: u32,
        messages: Messages,
        direction: Direction,
        options: &Options,
        endpoints: Endpoints,
    ) -> Result<Self, TrafficError> {
        let mut flows = Vec::new();
        for instance in 0..u16::try_from(instances).unwrap_or(u16::MAX) {
            for &reverse in reverses(direction) {
                let greeting = Greeting { instance, reverse };
                flows.push(Arc::new(Flow {
                    connection: Connection::drive(endpoints, options, greeting)?,
                    tally: Tally::default(),
                }));
            }
        }
        Ok(Self {
            crew: Crew::new()?,
            flows: Arc::new(Mutex::new(flows)),
            messages,
            port: None,
        })
    }

    fn drives(&self) -> bool {
        self.port.is_none()
    }

    fn flows(&self) -> Vec<Arc<Flow>> {
        lock(&self.flows).clone()
    }
}

/// Starts the thread of a connection that a server accepted.
fn begin_serving(
    crew: &Arc<Crew>,
    flows: &Flows,
    connection: Connection,
    messages: Messages,
) -> Result<(), TrafficError> {
    let flow = Arc::new(Flow {
        connection,
        tally: Tally::default(),
    });
    lock(flows).push(Arc::clone(&flow));
    // `stop` cuts what is on the list; this one may have come after that.
    if crew.stopping() {
        flow.connection.cut();
    }
    crew.spawn(move |_| {
        if flow.connection.sends {
            match wait_for_begin(&flow) {
                true => flow.send(messages),
                false => Ok(()),
            }
        } else {
            // The driver's end is the end, whatever its reason: the driver's agent knows it.
            flow.receive(messages.bytes).map(drop)
        }
    })
}

/// Whether the driver said so; it may end before.
fn wait_for_begin(flow: &Flow) -> bool {
    let mut begin = [0; 1];
    (&flow.connection.stream).read_exact(&mut begin).is_ok()
}

impl Flow {
    /// Sends until it shall not any more.
    fn send(&self, messages: Messages) -> Result<(), TrafficError> {
        let message = vec![0x5a; messages.bytes];
        let mut stream = &self.connection.stream;
        let mut pacer = messages.each_pps.map(|pps| Rate::of(pps).begin(now_ns()));
        if pacer.is_some() {
            sharpen_sleep();
        }
        while !self.connection.ending() {
            if let Some(pacer) = &mut pacer {
                let now = now_ns();
                // A stream that was held up does not run to make up for it.
                if pacer.wake(now) == 0 {
                    sleep_until(now, pacer.next_ns());
                    continue;
                }
                pacer.take();
            }
            match stream.write(&message) {
                Ok(sent) => self.tally.sent_bytes.add(sent as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Told to end while it waited.
                Err(_) if self.connection.ending() => break,
                Err(error) => return Err(broken("send", &self.connection.peer, error)),
            }
        }
        Ok(())
    }

    /// Receives until the other side ends.
    fn receive(&self, message_bytes: usize) -> Result<(), TrafficError> {
        let mut buffer = vec![0; message_bytes.max(RECEIVE_BYTES)];
        let mut stream = &self.connection.stream;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(received) => self.tally.received_bytes.add(received as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken("receive", &self.connection.peer, error)),
            }
        }
    }

    /// A driver's part.
    fn drive(&self, crew: &Crew, messages: Messages) -> Result<(), TrafficError> {
        if self.connection.sends {
            return self.send(messages);
        }
        (&self.connection.stream)
            .write_all(&[1])
            .map_err(|error| broken("begin", &self.connection.peer, error))?;
        self.receive(messages.bytes)?;
        if crew.stopping() {
            return Ok(());
        }
        Err(TrafficError::PeerEnded {
            peer: self.connection.peer.clone(),
        })
    }
}

impl Job for StreamJob {
    fn ports(&self) -> Vec<u16> {
        self.port.into_iter().collect()
    }

    fn go(&mut self) -> Result<(), TrafficError> {
        for flow in self.flows() {
            let messages = self.messages;
            self.crew.spawn(move |crew| flow.drive(crew, messages))?;
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let flows = self.flows();
        let mut counters = sum(flows.iter().map(|flow| &flow.tally));
        let connections = flows.iter().map(|flow| &flow.connection);
        counters.retransmits = connections.map(Connection::retransmits).sum();
        counters
    }

    fn failure(&self) -> Option<String> {
        self.crew.failure()
    }

    fn stop(&mut self) -> Vec<TcpState> {
        let flows = self.flows();
        let states = if self.drives() {
            let connections = flows.iter().map(|flow| &flow.connection);
            connections.filter_map(Connection::state).collect()
        } else {
            Vec::new()
        };
        self.crew.ring();
        for flow in &flows {
            // With a driver that receives, this asks the server to end.
            if flow.connection.sends || self.drives() {
                flow.connection.end_sending();
            }
        }
        self.crew.wind_down(|| {
            let counters = sum(flows.iter().map(|flow| &flow.tally));
            counters.received_bytes + counters.sent_bytes
        });
        self.cut();
        states
    }
}

impl StreamJob {
    fn cut(&self) {
        self.crew.ring();
        for flow in self.flows() {
            flow.connection.cut();
        }
        self.crew.join();
    }
}

impl Drop for StreamJob {
    fn drop(&mut self) {
        self.cut();
    }
}
