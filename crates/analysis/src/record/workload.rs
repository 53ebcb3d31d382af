//! What the guests of a cell do to the network between them.

use crate::search::Preset;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The tests of the traffic tool, named as netperf and uperf name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// TCP from guest1 to guest2.
    TcpStream,
    /// TCP from guest2 to guest1 (netperf's MAERTS).
    TcpReverse,
    /// TCP both ways at once; the goodput is the sum.
    TcpBidirec,
    /// Transactions on open TCP connections.
    TcpRr,
    /// Transactions with a TCP connection each.
    TcpCrr,
    /// Transactions of a UDP datagram each way.
    UdpRr,
    /// Numbered UDP datagrams from guest1 to guest2.
    UdpStream,
    /// The same in super-packets of many datagrams (UDP_SEGMENT, UDP_GRO).
    UdpGsoStream,
    /// Numbered raw frames from guest1 to guest2; tagged where the guests' port is a trunk.
    FrameStream,
    /// Virtual machines move to the other host while they run.
    Migration,
}

impl Test {
    /// Every test.
    pub const ALL: [Self; 10] = [
        Self::TcpStream,
        Self::TcpReverse,
        Self::TcpBidirec,
        Self::TcpRr,
        Self::TcpCrr,
        Self::UdpRr,
        Self::UdpStream,
        Self::UdpGsoStream,
        Self::FrameStream,
        Self::Migration,
    ];

    /// The name used in study files and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp_stream",
            Self::TcpReverse => "tcp_reverse",
            Self::TcpBidirec => "tcp_bidirec",
            Self::TcpRr => "tcp_rr",
            Self::TcpCrr => "tcp_crr",
            Self::UdpRr => "udp_rr",
            Self::UdpStream => "udp_stream",
            Self::UdpGsoStream => "udp_gso_stream",
            Self::FrameStream => "frame_stream",
            Self::Migration => "migration",
        }
    }

    /// TCP as fast as it goes; goodput is its figure.
    pub fn is_tcp_stream(self) -> bool {
        matches!(self, Self::TcpStream | Self::TcpReverse | Self::TcpBidirec)
    }

    /// Transactions per second are its figure.
    pub fn is_transactions(self) -> bool {
        matches!(self, Self::TcpRr | Self::TcpCrr | Self::UdpRr)
    }

    /// Its packets are numbered: it may have a rate, and its loss is known.
    pub fn is_packets(self) -> bool {
        self.is_frames() || self == Self::UdpGsoStream
    }

    /// Numbered packets per second are its figure; `bytes` is a frame's.
    pub fn is_frames(self) -> bool {
        matches!(self, Self::UdpStream | Self::FrameStream)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One workload: a test with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// What is done.
    pub test: Test,
    /// Streams: bytes of a write. Transactions: bytes of a request, and of its response. Packets: bytes of a
    /// frame as on a wire, with its 4 bytes of FCS (RFC 2544 §9.1). Super-packets: payload of each datagram.
    /// Migrations: payload of each message of the flows that run meanwhile.
    pub bytes: u32,
    /// Parallel connections, flows or senders of each pair of guests.
    pub instances: u32,
    /// Socket buffers (iperf's `-w`); null: the laboratory's own, 1 MB for streams, else the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u32>,
    /// Packets: offered rate of each pair of guests; null: as fast as the sender can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<u32>,
    /// Streams: payload of each pair of guests, each way, in Mbit/s; null: as fast as the sender can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<u32>,
    /// Packets: the highest rate that meets a goal is searched; the sample holds the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Preset>,
    /// Migrations: what the machines' memory does, and what it travels over; null: nothing moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Moving>,
}

/// How a machine's memory changes while it moves, and how it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moving {
    /// Share of the machine's memory that its program writes, page by page, round and round.
    pub dirty_percent: u32,
    /// How much of it the program writes in a second.
    pub dirty_mib_per_second: u32,
    /// Cables that the memory travels over.
    pub links: u32,
    /// The machine goes on at the other host before all of its memory is there.
    pub postcopy: bool,
}

/// `40 % dirtied at 20 MiB/s, 2 links`
impl fmt::Display for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dirty_percent,
            dirty_mib_per_second,
            links,
            postcopy,
        } = self;
        let plural = if *links == 1 { "" } else { "s" };
        write!(
            f,
            "{dirty_percent} % dirtied at {dirty_mib_per_second} MiB/s, {links} link{plural}"
        )?;
        if *postcopy {
            f.write_str(", postcopy")?;
        }
        Ok(())
    }
}

/// `tcp_rr-1024B-8i`, as study B writes its scenarios.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            test,
            bytes,
            instances,
            ..
        } = self;
        write!(f, "{test}-{bytes}B-{instances}i")?;
        if let Some(bytes) = self.buffer_bytes {
            write!(f, "-w{bytes}")?;
        }
        if let Some(rate) = self.rate_pps {
            write!(f, "-{rate}pps")?;
        }
        if let Some(rate) = self.rate_mbps {
            write!(f, "-{rate}mbps")?;
        }
        if let Some(preset) = self.search {
            write!(f, "-{preset}")?;
        }
        if let Some(moving) = self.migration {
            write!(f, ", {moving}")?;
        }
        Ok(())
    }
}
