//! The messages between a controller and an agent: one JSON object a line, orders in, answers out.
//!
//! ```text
//! controller                                   agent
//!    │  ◄──────────────── hello ───────────────  │
//!    │  ── prepare (serve) ──► ◄── ready(ports)  │   in the receiving guest
//!    │  ── prepare (drive) ──► ◄── ready ──────  │   in the sending guest: connected, silent
//!    │  ── go ──►                                │   the drivers begin
//!    │  ── mark ──► ◄────────── mark ──────────  │   counters at one moment; twice = a window
//!    │  ── stop ──► ◄────────── done ──────────  │   totals; the job is gone
//!    │  ── quit, or the end of its input ──►     │
//! ```
//!
//! Answers come in the order of the orders of a job, `interval` and `failed` at any time. A job that
//! failed answers every later order but `stop` with `failed` again. Documented in docs/traffic.md.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Version of the messages; in [`Answer::Hello`].
pub const VERSION: u32 = 2;

/// Most instances of a job.
pub const MAX_INSTANCES: u32 = 256;
/// Largest message of a stream or a transaction.
pub const MAX_MESSAGE_BYTES: u32 = 1 << 20;
/// What a paced packet carries in front of its payload: mark, stream, sequence number, time.
pub const SEQUENCE_BYTES: u32 = 16;

/// UDP destination port of raw frames (discard). A driver of [`Work::Udp`] that is told this port can be served by
/// [`Role::ServeFrames`]: where datagrams arrive with a VLAN tag that no socket behind it would take.
pub const FRAME_PORT: u16 = 9;

/// What a controller wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Sets a job up; answered by [`Answer::Ready`].
    Prepare {
        /// The controller's name for it; each number once per agent until it is stopped.
        job: u32,
        /// Parallel connections, flows or senders: 1 to [`MAX_INSTANCES`].
        instances: u32,
        /// What the job does.
        work: Work,
        /// Which side of it this agent plays.
        role: Role,
    },
    /// Begins a driving job. Not answered.
    Go {
        /// The job.
        job: u32,
    },
    /// Reads the counters; answered by [`Answer::Mark`]. Latencies count from one mark to the next.
    Mark {
        /// The job.
        job: u32,
    },
    /// Ends a job; answered by [`Answer::Done`].
    Stop {
        /// The job.
        job: u32,
    },
    /// Ends the agent.
    Quit,
}

/// Which side of a job an agent plays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "side", rename_all = "snake_case", deny_unknown_fields)]
pub enum Role {
    /// Listens, receives, answers.
    Serve {
        /// The address to listen on.
        address: IpAddr,
    },
    /// Connects and sends.
    Drive {
        /// The address to send from.
        from: IpAddr,
        /// The serving agent's address.
        to: IpAddr,
        /// The ports that the serving agent said it listens on.
        ports: Vec<u16>,
    },
    /// Receives raw frames from devices.
    ServeFrames {
        /// The devices; tagged and untagged frames of every one count.
        devices: Vec<String>,
    },
    /// Sends raw frames, rotating over all lanes and their tags.
    DriveFrames {
        /// Where the frames leave.
        lanes: Vec<Lane>,
    },
}

/// One device that raw frames leave by, and how they look: Ethernet, IP, UDP, payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// The device.
    pub device: String,
    /// VLAN identifiers that the frames rotate over; empty: untagged.
    pub vlans: Vec<u16>,
    /// Source MAC, `02:00:00:00:00:01`.
    pub source_mac: String,
    /// Destination MAC.
    pub destination_mac: String,
    /// Source address; the family decides over the IP header.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
}

/// Which way a stream's payload travels, seen from the driving side.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the driver to the server.
    #[default]
    Forward,
    /// From the server to the driver.
    Reverse,
    /// Both at once: each instance is a pair of connections, one each way.
    Both,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "test", rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// TCP, paced or as fast as it goes.
    TcpStream {
        /// Bytes a `write`: 1 to [`MAX_MESSAGE_BYTES`].
        message_bytes: u32,
        /// SO_SNDBUF and SO_RCVBUF of every connection; null: the kernel tunes them.
        buffer_bytes: Option<u32>,
        /// TCP_CONGESTION; null: the machine's own.
        congestion: Option<String>,
        /// Which way.
        direction: Direction,
        /// Payload of all connections of one way together, in Mbit/s; null: as fast as it goes.
        #[serde(default)]
        rate_mbps: Option<f64>,
    },
    /// Transactions on open connections, one outstanding each (TCP_NODELAY).
    TcpRr {
        /// Bytes of a request.
        request_bytes: u32,
        /// Bytes of a response.
        response_bytes: u32,
        /// As with streams.
        buffer_bytes: Option<u32>,
        /// As with streams.
        congestion: Option<String>,
    },
    /// Transactions with a connection each: connect, request, response, close.
    TcpCrr {
        /// Bytes of a request.
        request_bytes: u32,
        /// Bytes of a response.
        response_bytes: u32,
    },
    /// Transactions of a datagram each way, one outstanding per instance. A request without a
    /// response is sent again after the time-out and counted.
    UdpRr {
        /// Bytes of a request: 1 to 65507.
        request_bytes: u32,
        /// Bytes of a response.
        response_bytes: u32,
        /// After how long a transaction counts as lost.
        timeout_ms: u32,
    },
    /// Numbered datagrams one way, paced or as fast as it goes.
    Udp {
        /// Bytes of a datagram: [`SEQUENCE_BYTES`] to 65507.
        payload_bytes: u32,
        /// Datagrams per second of all instances together; null: as fast as it goes.
        rate_pps: Option<f64>,
        /// Datagrams that one call hands to the kernel as one super-packet (UDP_SEGMENT, udp(7)), never fewer; 1: each
        /// is a packet from the start.
        segments: u32,
        /// The server takes super-packets as they come (UDP_GRO). False: its kernel cuts them and hands it single
        /// datagrams, as to a program that does not know of them. Without a meaning where `segments` is 1.
        #[serde(default = "yes")]
        gro: bool,
        /// SO_RCVBUF of the server and SO_SNDBUF of the driver.
        buffer_bytes: Option<u32>,
    },
    /// Numbered raw frames one way, paced or as fast as it goes.
    Frames {
        /// Bytes of a frame as on a wire: without preamble, with the 4 bytes of FCS that no virtual device has,
        /// without a VLAN tag.
        frame_bytes: u32,
        /// Frames per second of all instances together; null: as fast as it goes.
        rate_pps: Option<f64>,
    },
}

fn yes() -> bool {
    true
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The agent is there.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Its process.
        pid: u32,
        /// `/proc/sys/kernel/random/boot_id`: agents with the same one share a clock, so that one-way
        /// latencies mean something.
        boot_id: String,
    },
    /// A job is set up: a server listens, a driver is connected.
    Ready {
        /// The job.
        job: u32,
        /// Where a server listens; empty for drivers and raw frames.
        ports: Vec<u16>,
    },
    /// The counters at one moment.
    Mark {
        /// The job.
        job: u32,
        /// The reading.
        #[serde(flatten)]
        reading: Reading,
    },
    /// A job ended; the counters are its totals.
    Done {
        /// The job.
        job: u32,
        /// The last reading; for receivers after the last packet that was under way.
        #[serde(flatten)]
        reading: Reading,
        /// TCP_INFO of every connection of a driver at the end.
        tcp: Vec<TcpState>,
    },
    /// How a job goes, four times a second, for those who watch.
    Interval {
        /// The job.
        job: u32,
        /// CLOCK_MONOTONIC when they were read.
        at_ns: u64,
        /// Counters so far.
        counters: Counters,
    },
    /// A job, or the agent itself, cannot do what it should.
    Failed {
        /// The job; null: the order could not be read.
        job: Option<u32>,
        /// What, where and what to do.
        reason: String,
    },
}

/// What an agent knows of a job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// CLOCK_MONOTONIC of the agent's machine.
    pub at_ns: u64,
    /// CPU time of the agent's whole process (CLOCK_PROCESS_CPUTIME_ID).
    pub cpu_ns: u64,
    /// Resident memory of the agent.
    pub memory_kib: u64,
    /// Totals since the job began.
    pub counters: Counters,
    /// Latencies since the last mark: whole transactions for drivers of transactions, one way from the
    /// intended time of sending for receivers of paced packets; null: this side measures none.
    pub latency: Option<Latencies>,
}

/// Totals of a job. What a side cannot know stays 0 with the side that can: `sent` with senders,
/// `received` with receivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Payload bytes that were handed to the kernel.
    pub sent_bytes: u64,
    /// Payload bytes that came.
    pub received_bytes: u64,
    /// Datagrams or frames that the kernel took.
    pub sent_packets: u64,
    /// Datagrams or frames that came, each number once.
    pub received_packets: u64,
    /// Datagrams or frames that the kernel refused (ENOBUFS, EAGAIN at the end of the time), and that were not sent again.
    pub refused_packets: u64,
    /// Datagrams that the pacing wanted sent by now.
    pub due_packets: u64,
    /// Numbers that came after a higher one.
    pub reordered_packets: u64,
    /// Numbers that came again.
    pub duplicate_packets: u64,
    /// Datagrams that are not of this job; frames and requests of another length too.
    pub foreign_packets: u64,
    /// Numbered datagrams of another length than they were sent with, or without the mark in front.
    pub corrupt_packets: u64,
    /// Datagrams or frames that came, but that the receiver's own socket had no room for (SO_MEMINFO,
    /// PACKET_STATISTICS): the receiving guest's shortfall, not the network's.
    pub receiver_dropped_packets: u64,
    /// Transactions that were completed.
    pub transactions: u64,
    /// Transactions that timed out and were sent again.
    pub timeouts: u64,
    /// TCP segments that were sent again.
    pub retransmits: u64,
}

/// A histogram of latencies: as recorded, not smoothed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// (upper end of the bucket in ns, count), rising; HdrHistogram with 3 significant digits.
    pub buckets: Vec<(u64, u64)>,
}

/// TCP_INFO of one connection (include/uapi/linux/tcp.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpState {
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Its mean deviation.
    pub rtt_deviation_us: u32,
    /// Smallest round-trip time seen.
    pub rtt_min_us: u32,
    /// Segment size in use for sending.
    pub send_mss_bytes: u32,
    /// Congestion window in segments.
    pub congestion_window: u32,
    /// Segments sent again.
    pub retransmits: u32,
}
