//! `show remotes`: the other hosts, how the underlay reaches them, and what is known of the way.

use std::net::IpAddr;

use overlane_ebpf::{abi, abilities, path_mtus};
use overlane_model::Remote;
use overlane_net::Netlink;
use serde::Serialize;

use super::look::{in_namespace, maps};
use crate::HostError;
use crate::lib::clock::Clock;
use crate::lib::next_hop::next_hop;
use crate::state::State;

/// So long is it known what fits on the way to a remote (RFC 8201 §4, `PATH_MTU_SECONDS` in `bpf/lib/`).
pub(crate) const PATH_MTU_SECONDS: u32 = 600;

/// `show remotes`.
#[derive(Debug, Clone, Serialize)]
pub struct Remotes {
    /// The host.
    pub host: String,
    /// Every remote.
    pub remotes: Vec<RemoteRow>,
}

/// One remote and how it is reached.
#[derive(Debug, Clone, Serialize)]
pub struct RemoteRow {
    /// The remote's name.
    pub remote: String,
    /// Its VTEP.
    pub address: IpAddr,
    /// The neighbour packets are handed to; none without a route.
    pub next_hop: Option<IpAddr>,
    /// State of that neighbour in the kernel: `reachable`, `stale`, … or `none`.
    pub neighbour: String,
    /// The uplink.
    pub device: String,
    /// It takes UDP super-packets whole, as it said when it was asked.
    pub takes_whole_udp: bool,
    /// What is known of the way there; none: nothing below the uplink's MTU.
    pub path_mtu: Option<PathMtuRow>,
}

/// What is known of the way to a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathMtuRow {
    /// The largest outer IP packet that gets there.
    pub mtu: u32,
    /// Who said so by ICMP; none: probes found it (`overlane mtu --watch`).
    pub hop: Option<IpAddr>,
    /// Since when, in seconds.
    pub age_s: u32,
    /// In so many seconds it is forgotten.
    pub left_s: u32,
}

/// Looks at the remotes of `host`.
pub fn remotes(host: &str) -> Result<Remotes, HostError> {
    let state = State::applied(host)?;
    let now_s = Clock::now()?.monotonic_s();
    let (whole_udp, known) = match maps(&state) {
        Err(HostError::OtherVersion(_)) => Default::default(),
        other => {
            let maps = other?;
            (abilities::take_whole_udp(&maps)?, path_mtus::all(&maps)?)
        }
    };
    let rows = in_namespace(&state, |netlink| {
        let remotes = state.tables.remotes.iter();
        let rows = remotes.map(|remote| remote_row(&state, remote, netlink));
        rows.collect::<Result<Vec<_>, _>>()
    })?;
    let gone = || {
        let remotes = state.tables.remotes.iter();
        let rows = remotes.map(|remote| unreachable_row(&state, remote));
        rows.collect()
    };
    let mut remotes = rows.unwrap_or_else(gone);
    for remote in &mut remotes {
        remote.takes_whole_udp = whole_udp.contains(&remote.address);
        let entry = known.get(&remote.address);
        let entry = entry.filter(|entry| path_mtus::is_live(entry, now_s));
        remote.path_mtu = entry.map(|entry| PathMtuRow::of(entry, now_s));
    }
    Ok(Remotes {
        host: host.to_owned(),
        remotes,
    })
}

impl PathMtuRow {
    fn of(entry: &abi::PathMtu, now_s: u32) -> Self {
        let left_s = entry.until.saturating_sub(now_s);
        Self {
            mtu: entry.mtu,
            hop: (entry.hop != abi::Addr::default()).then(|| entry.hop.into()),
            age_s: PATH_MTU_SECONDS.saturating_sub(left_s),
            left_s,
        }
    }
}

fn remote_row(state: &State, remote: &Remote, netlink: &Netlink) -> Result<RemoteRow, HostError> {
    let mut row = unreachable_row(state, remote);
    let Ok(uplink) = netlink.link(state.tables.uplink.as_str()) else {
        return Ok(row);
    };
    if let Ok(Some(next_hop)) = next_hop(netlink, uplink.index, remote.addr) {
        row.next_hop = Some(next_hop);
        if let Some(neighbour) = netlink.neighbour(state.tables.uplink.as_str(), next_hop)? {
            row.neighbour = neighbour.state.name().to_owned();
        }
    }
    Ok(row)
}

fn unreachable_row(state: &State, remote: &Remote) -> RemoteRow {
    RemoteRow {
        remote: remote.name.to_string(),
        address: remote.addr,
        next_hop: None,
        neighbour: "none".to_owned(),
        device: state.tables.uplink.to_string(),
        takes_whole_udp: false,
        path_mtu: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_what_is_gone_of_the_time_that_it_lasts() {
        let entry = |hop: abi::Addr| abi::PathMtu {
            mtu: 1400,
            until: 1000,
            hop,
        };
        let hop = IpAddr::from([198, 18, 0, 254]);
        let told = PathMtuRow::of(&entry(hop.into()), 412);
        assert_eq!((told.hop, told.age_s, told.left_s), (Some(hop), 12, 588));
        assert_eq!(PathMtuRow::of(&entry(abi::Addr::default()), 412).hop, None);
    }
}
