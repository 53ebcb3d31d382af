//! `overlane mtu --probe`: the largest packets that really get from this host's tunnel end point to each remote, and
//! back, by packets of those sizes in the tunnel's own format. The other host's data path answers them
//! (`bpf/stage/greeting.h`).
//!
//! ```text
//!   Search (pure) ── probes ──► Talk ── UDP, DF ──► uplink ··· hops ··· the other's data path
//!        ▲                        │ ◄── answers, ICMP errors ──── packet socket on the uplink
//!        └── answered, refused ───┘
//! ```

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use overlane_ebpf::abi::Settings;
use overlane_ebpf::maps::MapSet;
use overlane_ebpf::preflight;
use overlane_ebpf::tables::Table;
use overlane_model::Remote;
use overlane_net::Netlink;
use zerocopy::FromBytes;

use crate::lib::random;
use crate::state::State;
use crate::{HostError, observe};

mod check;
mod findings;
mod format;
mod probed;
mod round;
mod search;
#[cfg(test)]
mod simulated;
mod talk;

pub use check::{Check, Checked};
pub use findings::findings;
pub use probed::{Probed, ProbedRemote, ProbedWay};
pub use round::{Answer, FLOWS, Probe, Way};
pub(in crate::mtu) use search::COMMON;
pub use search::{Found, Inquiry, Limits, Outcome, Search};
use talk::{Talk, Told};

/// Probes all remotes of an applied host, both ways.
pub fn probe(host: &str) -> Result<Probed, HostError> {
    preflight::check_rights()?;
    let state = State::applied(host)?;
    let settings = settings(&observe::maps(&state)?)?;
    let look = |netlink: &Netlink| {
        let prober = Prober::open(&state, &settings, netlink)?;
        let remotes: Vec<IpAddr> = state.tables.remotes.iter().map(|it| it.addr).collect();
        let told = prober.search(&remotes, true, None)?;
        let row = |(remote, told)| row(remote, told);
        Ok(Probed {
            host: host.to_owned(),
            uplink: state.tables.uplink.to_string(),
            uplink_mtu: settings.underlay_mtu,
            remotes: state.tables.remotes.iter().zip(told).map(row).collect(),
        })
    };
    observe::in_namespace(&state, look)?.ok_or_else(|| gone(&state))
}

/// The host's namespace is not there any more.
pub(super) fn gone(state: &State) -> HostError {
    let process = || "of this process".to_owned();
    HostError::NoNamespace(state.netns.clone().unwrap_or_else(process))
}

/// What holds for the host, of its maps.
pub(super) fn settings(maps: &MapSet) -> Result<Settings, HostError> {
    let entries = maps.entries(Table::Settings)?;
    let value = entries.values().next().map(Vec::as_slice);
    let settings = value.and_then(|value| Settings::read_from_bytes(value).ok());
    settings.ok_or_else(|| HostError::System {
        operation: "read the settings of the data path",
        source: std::io::ErrorKind::InvalidData.into(),
    })
}

/// One host, ready to ask.
#[derive(Debug)]
pub(super) struct Prober {
    talk: Talk,
    /// MTU that the data path has of the uplink.
    uplink_mtu: u16,
    ifindex: u32,
}

impl Prober {
    /// In the namespace of this thread.
    pub(super) fn open(
        state: &State,
        settings: &Settings,
        netlink: &Netlink,
    ) -> Result<Self, HostError> {
        let uplink = netlink.link(state.tables.uplink.as_str())?;
        Ok(Self {
            talk: Talk::open(&uplink, settings)?,
            uplink_mtu: u16::try_from(settings.underlay_mtu).unwrap_or(u16::MAX),
            ifindex: uplink.index,
        })
    }

    pub(super) const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    pub(super) const fn least(&self) -> u16 {
        self.talk.least()
    }

    /// Searches the sizes of these remotes, in their order.
    pub(super) fn search(
        &self,
        remotes: &[IpAddr],
        both: bool,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<Told<Outcome>>, HostError> {
        let limits = Limits {
            least: self.least(),
            uplink_mtu: self.uplink_mtu,
            both,
        };
        let search = |remote: &IpAddr| (*remote, Search::new(limits, first_id()));
        self.talk.run(remotes.iter().map(search).collect(), stop)
    }

    /// Asks other things of them.
    pub(super) fn ask<I: Inquiry>(
        &self,
        inquiries: Vec<(IpAddr, I)>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<Told<I::Outcome>>, HostError> {
        self.talk.run(inquiries, stop)
    }
}

/// Several programs may ask from one host at once, and each hears all answers.
pub(super) fn first_id() -> u32 {
    random::number() as u32
}

fn row(remote: &Remote, told: Told<Outcome>) -> ProbedRemote {
    let mut row = ProbedRemote {
        remote: remote.name.to_string(),
        address: remote.addr,
        flows: 0,
        unsent: told.refused.map(|error| error.to_string()),
        there: None,
        back: None,
        uplink_mtu: None,
        round_trip_us: told.round_trip.map(microseconds),
    };
    if let Some(Outcome::Heard {
        flows,
        there,
        back,
        uplink_mtu,
    }) = told.outcome
    {
        row.flows = flows;
        row.unsent = None;
        row.there = Some(there.into());
        row.back = back.map(ProbedWay::from);
        row.uplink_mtu = Some(uplink_mtu);
    }
    row
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
