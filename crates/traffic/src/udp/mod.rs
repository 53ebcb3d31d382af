//! UDP jobs: numbered datagrams one way, and transactions of a datagram each way.
//!
//! ```text
//! prepare ─► send     ──datagrams──► receive     udp: a socket per instance, a thread per CPU
//!         ─► drive    ◄─exchanges──► answer      udp_rr with one instance: blocking calls
//!         ─► drive_many ◄──────────► answer      udp_rr with several: an event loop per CPU
//! ```

mod answer;
mod drive;
mod drive_many;
mod flow;
mod ready;
mod receive;
mod send;

use std::io;
use std::time::Duration;

use crate::error::{TrafficError, in_range};
use crate::job::Job;
use crate::message::{Role, SEQUENCE_BYTES, Work};
use crate::pacing;
use crate::pacing::check_rate;
use crate::sys;
use crate::workers::{Worker, Workers, shares};

use flow::{Flow, Sockets, drops, ports, sockets};

/// Longest datagram over IPv4: 65535 bytes less the IP and the UDP header.
pub(crate) const MAX_DATAGRAM_BYTES: u32 = 65507;

/// Most datagrams in a super-packet (UDP_MAX_SEGMENTS was 64 before Linux 6.9).
const MAX_SEGMENTS: u32 = 64;

/// How long a thread waits before it looks whether the job is to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sets a UDP job up.
pub(crate) fn prepare(
    instances: u32,
    work: &Work,
    role: &Role,
) -> Result<Box<dyn Job>, TrafficError> {
    match *work {
        Work::Udp {
            payload_bytes,
            rate_pps,
            segments,
            gro,
            buffer_bytes,
        } => {
            let stream = Stream::checked(payload_bytes, rate_pps, segments, gro)?;
            match sockets("udp", instances, role, buffer_bytes)? {
                Sockets::Serving(sockets) => serve_stream(stream, sockets),
                Sockets::Driving(sockets) => drive_stream(stream, instances, sockets),
            }
        }
        Work::UdpRr {
            request_bytes,
            response_bytes,
            timeout_ms,
        } => {
            let exchange = Exchange::checked(request_bytes, response_bytes, timeout_ms)?;
            match sockets("udp_rr", instances, role, None)? {
                Sockets::Serving(sockets) => serve_exchanges(exchange, sockets),
                Sockets::Driving(sockets) => drive_exchanges(exchange, sockets),
            }
        }
        _ => unreachable!("job::prepare sends other work elsewhere"),
    }
}

/// Numbered datagrams.
#[derive(Clone, Copy, Debug)]
struct Stream {
    payload_bytes: usize,
    /// Of all instances together.
    rate_pps: Option<f64>,
    /// Datagrams in a message; more than one: a super-packet.
    segments: usize,
    gro: bool,
}

impl Stream {
    fn checked(
        payload_bytes: u32,
        rate_pps: Option<f64>,
        segments: u32,
        gro: bool,
    ) -> Result<Self, TrafficError> {
        let (least, most) = (SEQUENCE_BYTES.into(), MAX_DATAGRAM_BYTES.into());
        in_range("payload_bytes", payload_bytes.into(), least, most)?;
        in_range("segments", segments.into(), 1, MAX_SEGMENTS.into())?;
        let together = u64::from(payload_bytes) * u64::from(segments);
        in_range("payload_bytes times segments", together, least, most)?;
        check_rate("rate_pps", rate_pps)?;
        Ok(Self {
            payload_bytes: payload_bytes as usize,
            rate_pps,
            segments: segments as usize,
            gro,
        })
    }

    fn sends_super_packets(self) -> bool {
        self.segments > 1
    }

    fn takes_super_packets(self) -> bool {
        self.sends_super_packets() && self.gro
    }

    /// The kernel refused an operation: of super-packets, what it means there.
    fn refused(self, operation: &'static str, flow: &Flow, error: io::Error) -> TrafficError {
        let help = match error.raw_os_error().unwrap_or(0) {
            libc::ENOPROTOOPT => "super-packets need Linux 5.0; without: `segments` 1",
            libc::EINVAL | libc::EMSGSIZE => {
                "each datagram of a super-packet has to fit the MTU of the way with its headers: make `payload_bytes` \
                 smaller, or the MTU larger"
            }
            libc::EIO => {
                "no super-packets through IPsec, nor, before Linux 6.11, by a device that computes no checksums \
                 (`ethtool -K DEVICE tx on`); without: `segments` 1"
            }
            _ => "",
        };
        if self.sends_super_packets() && !help.is_empty() {
            return TrafficError::Refused {
                operation: operation.into(),
                place: flow.place(),
                source: error,
                help: help.into(),
            };
        }
        TrafficError::refused(operation, flow.place(), error)
    }
}

/// Transactions.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    request_bytes: usize,
    response_bytes: usize,
    timeout_ns: u64,
}

impl Exchange {
    fn checked(
        request_bytes: u32,
        response_bytes: u32,
        timeout_ms: u32,
    ) -> Result<Self, TrafficError> {
        let most = MAX_DATAGRAM_BYTES.into();
        in_range("request_bytes", request_bytes.into(), 1, most)?;
        in_range("response_bytes", response_bytes.into(), 1, most)?;
        in_range("timeout_ms", timeout_ms.into(), 1, 60_000)?;
        Ok(Self {
            request_bytes: request_bytes as usize,
            response_bytes: response_bytes as usize,
            timeout_ns: u64::from(timeout_ms) * 1_000_000,
        })
    }

    /// How many bytes of its number a request carries and its response repeats.
    fn number_bytes(self) -> usize {
        self.request_bytes
            .min(self.response_bytes)
            .min(size_of::<u32>())
    }

    /// How often a driver looks whether a response should have come.
    fn review(self) -> Duration {
        PATIENCE.min(Duration::from_nanos(self.timeout_ns)) / 4
    }
}

fn serve_stream(stream: Stream, flows: Vec<Flow>) -> Result<Box<dyn Job>, TrafficError> {
    if stream.takes_super_packets() {
        for flow in &flows {
            sys::set_option(&flow.socket, libc::SOL_UDP, libc::UDP_GRO, 1)
                .map_err(|error| stream.refused("take super-packets (UDP_GRO)", flow, error))?;
        }
    }
    let (ports, drops) = (ports(&flows)?, drops(&flows));
    let workers = shares(flows)
        .into_iter()
        .map(|flows| Box::new(receive::Receiver::new(stream, flows)) as Box<dyn Worker>);
    let job = Workers::new(workers.collect())?
        .measuring_latency(stream.rate_pps.is_some())
        .serving(ports, drops)?;
    Ok(Box::new(job))
}

fn drive_stream(
    stream: Stream,
    instances: u32,
    flows: Vec<Flow>,
) -> Result<Box<dyn Job>, TrafficError> {
    if stream.sends_super_packets() {
        let bytes = stream.payload_bytes as libc::c_int;
        for flow in &flows {
            sys::set_option(&flow.socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes)
                .map_err(|error| stream.refused("send super-packets (UDP_SEGMENT)", flow, error))?;
        }
    }
    // What is paced is messages.
    let messages = stream.rate_pps.map(|rate| rate / stream.segments as f64);
    let shares = shares(flows);
    let threads = shares.len();
    let workers = shares.into_iter().enumerate().map(|(thread, flows)| {
        let rate = pacing::Rate::share(messages, flows.len(), instances, thread, threads);
        Box::new(send::Sender::new(stream, rate, flows)) as Box<dyn Worker>
    });
    Ok(Box::new(Workers::new(workers.collect())?))
}

fn serve_exchanges(exchange: Exchange, flows: Vec<Flow>) -> Result<Box<dyn Job>, TrafficError> {
    let (ports, drops) = (ports(&flows)?, drops(&flows));
    let workers = shares(flows)
        .into_iter()
        .map(|flows| Box::new(answer::Answerer::new(exchange, flows)) as Box<dyn Worker>);
    let job = Workers::new(workers.collect())?.serving(ports, drops)?;
    Ok(Box::new(job))
}

fn drive_exchanges(exchange: Exchange, flows: Vec<Flow>) -> Result<Box<dyn Job>, TrafficError> {
    let workers = shares(flows)
        .into_iter()
        .map(|mut flows| match flows.len() {
            1 => Box::new(drive::Driver::new(exchange, flows.remove(0))) as Box<dyn Worker>,
            _ => Box::new(drive_many::Drivers::new(exchange, flows)),
        });
    let job = Workers::new(workers.collect())?.measuring_latency(true);
    Ok(Box::new(job))
}

#[cfg(test)]
mod tests;
