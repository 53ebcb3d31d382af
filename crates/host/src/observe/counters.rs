//! `show counters`: what became of every packet.

use std::net::IpAddr;
use std::time::Instant;

use overlane_ebpf::abi::Counter;
use overlane_ebpf::maps::MapSet;
use overlane_model::{Hook, PortTable, Remote, Verdict};
use serde::Serialize;

use super::look::{Count, OnUnderlay, maps, switch_name};
use crate::HostError;
use crate::state::State;

/// `show counters`.
#[derive(Debug, Clone, Serialize)]
pub struct Counters {
    /// The host.
    pub host: String,
    /// When those of the verdicts were read.
    #[serde(skip)]
    pub at: Instant,
    /// All hooks × verdicts, also those that are zero (see [`Counters::without_zeros`]).
    pub verdicts: Vec<VerdictCount>,
    /// Every logical port of this host.
    pub ports: Vec<PortCount>,
    /// Every remote.
    pub remotes: Vec<RemoteCount>,
}

/// One verdict at one hook.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictCount {
    /// `from_port`, `from_underlay` or `from_segmenter`.
    pub hook: &'static str,
    /// Name of the verdict.
    pub verdict: &'static str,
    /// True when the packet ended here.
    pub drop: bool,
    /// How many.
    #[serde(flatten)]
    pub count: Count,
}

/// Counters of one logical port.
#[derive(Debug, Clone, Serialize)]
pub struct PortCount {
    /// The port's name.
    pub port: String,
    /// Its logical switch.
    pub switch: String,
    /// When its counters were read; `None`: it has none yet.
    #[serde(skip)]
    pub at: Option<Instant>,
    /// What tells the switch apart on the underlay.
    #[serde(flatten)]
    pub on_underlay: OnUnderlay,
    /// Came from the port.
    pub from_port: Count,
    /// Went to the port.
    pub to_port: Count,
    /// Came from the port and was dropped.
    pub dropped: Count,
    /// Of that, what its guest was not told of, because it had been told enough.
    pub untold: Count,
    /// Bytes of the longest IP packet that came from it, segments counted; 0: none came.
    pub longest: u64,
    /// Bytes of the longest segment of a super-packet, as an IP packet.
    pub longest_segment: u64,
}

/// Counters of one remote.
#[derive(Debug, Clone, Serialize)]
pub struct RemoteCount {
    /// The remote's name.
    pub remote: String,
    /// Its VTEP.
    pub address: IpAddr,
    /// When its counters were read; `None`: it has none yet.
    #[serde(skip)]
    pub at: Option<Instant>,
    /// Went to it.
    pub to_remote: Count,
    /// Came from it and was accepted.
    pub from_remote: Count,
    /// To or from it, and dropped.
    pub dropped: Count,
}

impl Counters {
    /// Only the verdicts that occurred.
    pub fn without_zeros(mut self) -> Self {
        self.verdicts
            .retain(|verdict| verdict.count != Count::default());
        self
    }
}

/// Reads the counters of `host`.
pub fn counters(host: &str) -> Result<Counters, HostError> {
    CounterMaps::open(host)?.read()
}

/// The maps with the counters of a host, open: to read them takes little time then.
pub(crate) struct CounterMaps {
    state: State,
    maps: MapSet,
}

impl CounterMaps {
    /// Of this host, as it is applied now.
    pub(crate) fn open(host: &str) -> Result<Self, HostError> {
        let state = State::applied(host)?;
        let maps = maps(&state)?;
        Ok(Self { state, maps })
    }

    /// The counters.
    pub(crate) fn read(&self) -> Result<Counters, HostError> {
        let read = overlane_ebpf::counters::read(&self.maps)?;
        Ok(named(&self.state, &read))
    }
}

fn named(state: &State, read: &overlane_ebpf::counters::Counters) -> Counters {
    let verdict = |(hook, verdict, counter): &(Hook, Verdict, Counter)| VerdictCount {
        hook: hook.name(),
        verdict: verdict.name(),
        drop: verdict.is_drop(),
        count: (*counter).into(),
    };
    let port = |port: &PortTable| {
        let switch = port.switch.number();
        let read = read.ports.get(&(switch, port.key.get().into()));
        let count = read.map(|read| read.value).unwrap_or_default();
        PortCount {
            port: port.name.to_string(),
            switch: switch_name(state, switch).unwrap_or_default(),
            at: read.map(|read| read.at),
            on_underlay: OnUnderlay::of(switch),
            from_port: count.from_port.into(),
            to_port: count.to_port.into(),
            dropped: count.dropped.into(),
            untold: count.untold.into(),
            longest: count.longest,
            longest_segment: count.longest_segment,
        }
    };
    let remote = |remote: &Remote| {
        let read = read.remotes.get(&remote.addr);
        let count = read.map(|read| read.value).unwrap_or_default();
        RemoteCount {
            remote: remote.name.to_string(),
            address: remote.addr,
            at: read.map(|read| read.at),
            to_remote: count.to_remote.into(),
            from_remote: count.from_remote.into(),
            dropped: count.dropped.into(),
        }
    };
    Counters {
        host: state.host.clone(),
        at: read.at,
        verdicts: read.verdicts.iter().map(verdict).collect(),
        ports: state.tables.ports.iter().map(port).collect(),
        remotes: state.tables.remotes.iter().map(remote).collect(),
    }
}
