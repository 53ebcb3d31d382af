//! What probes found out.

use std::net::IpAddr;

use serde::Serialize;

use super::search::Found;

/// What probes of one host found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probed {
    /// The host.
    pub host: String,
    /// Its uplink.
    pub uplink: String,
    /// MTU that the data path has of it, since `apply`.
    pub uplink_mtu: u32,
    /// Each remote.
    pub remotes: Vec<ProbedRemote>,
}

/// What was found out of one remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbedRemote {
    /// Its name.
    pub remote: String,
    /// Its tunnel end point.
    pub address: IpAddr,
    /// On so many of [`FLOWS`](super::FLOWS) flows it answers; with 0 nothing else is known.
    pub flows: usize,
    /// Why the kernel sends it nothing.
    pub unsent: Option<String>,
    /// The largest packet that gets there.
    pub there: Option<ProbedWay>,
    /// The largest packet that comes back.
    pub back: Option<ProbedWay>,
    /// MTU of the other's uplink.
    pub uplink_mtu: Option<u16>,
    /// The fastest answer.
    pub round_trip_us: Option<u64>,
}

/// One way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProbedWay {
    /// The largest outer IP packet that passes.
    pub mtu: u16,
    /// Who said by ICMP that no more passes.
    pub hop: Option<IpAddr>,
}

impl From<Found> for ProbedWay {
    fn from(found: Found) -> Self {
        Self {
            mtu: found.mtu,
            hop: found.hop,
        }
    }
}
