//! The solicited-node groups of the IPv6 addresses on legs. Questions about an address go to its group, and whatever is
//! between the asker and our program may keep groups back that nobody has joined: a macvlan, a network card, a switch
//! that listens to MLD. The host has none of these addresses, so it joins for them: each is a proxy neighbour of the
//! leg. The kernel joins the group of such an entry and answers MLD for it. Our program answers before the kernel looks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_model::Tables;
use overlane_net::{Link, NetError, Netlink};
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::answers::leg_addresses;
use crate::legs::legs;
use crate::lock::Lock;
use crate::observe::in_namespace;
use crate::report::{Change, ChangeKind};
use crate::state::State;

/// The group of an address, on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) device: String,
    pub(crate) of: IpAddr,
}

impl Group {
    pub(crate) fn join(&self, netlink: &Netlink) -> Result<(), NetError> {
        netlink.add_proxy(&self.device, self.of)
    }

    pub(crate) fn leave(&self, netlink: &Netlink) -> Result<(), NetError> {
        netlink.delete_proxy(&self.device, self.of)
    }

    pub(crate) fn is_joined(&self, netlink: &Netlink) -> Result<bool, NetError> {
        netlink.has_proxy(&self.device, self.of)
    }
}

/// What there is to do about groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) join: BTreeSet<Group>,
    pub(crate) leave: BTreeSet<Group>,
    /// Those that are joined because of us from then on. Who listed an address before us keeps it.
    pub(crate) ours: BTreeSet<Group>,
}

/// Decides from what the tables want and the legs that are there, and from what we joined `before`.
pub(crate) fn decide(
    tables: &Tables,
    links: &[Link],
    before: &BTreeSet<Group>,
    netlink: &Netlink,
) -> Result<Groups, HostError> {
    let mut groups = Groups {
        leave: before.clone(),
        ..Groups::default()
    };
    for group in wanted(tables, links) {
        let was_ours = groups.leave.remove(&group);
        let is_joined = group.is_joined(netlink)?;
        if was_ours || !is_joined {
            groups.ours.insert(group.clone());
        }
        if !is_joined {
            groups.join.insert(group);
        }
    }
    Ok(groups)
}

fn wanted(tables: &Tables, links: &[Link]) -> BTreeSet<Group> {
    let mut groups = BTreeSet::new();
    let are_there =
        legs(tables).filter(|(_, device)| links.iter().any(|link| link.name == device.as_str()));
    for (router, device) in are_there {
        let addresses = leg_addresses(router).into_iter();
        groups.extend(addresses.filter(IpAddr::is_ipv6).map(|of| Group {
            device: device.to_string(),
            of,
        }));
    }
    groups
}

/// Joins again what a device forgot when somebody took it down; says what.
pub(crate) fn join_again(host: &str) -> Result<Vec<Change>, HostError> {
    // No `remove` may leave a group that is joined here a moment later.
    let _lock = Lock::acquire(host, &|_| ())?;
    let Some(state) = State::read(host)? else {
        return Ok(Vec::new());
    };
    let joined = in_namespace(&state, |netlink| {
        let mut joined = BTreeSet::new();
        for group in &state.groups {
            let again = group.is_joined(netlink).and_then(|is_joined| {
                let join = (!is_joined).then(|| group.join(netlink));
                join.transpose()
            });
            match again {
                Ok(Some(())) => drop(joined.insert(group)),
                Ok(None) => {}
                // A device that is gone has no groups.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(joined)
    })?;
    Ok(words(ChangeKind::Add, joined.into_iter().flatten()))
}

/// A line for each device.
pub(crate) fn words<'g>(
    kind: ChangeKind,
    groups: impl IntoIterator<Item = &'g Group>,
) -> Vec<Change> {
    let mut devices = BTreeMap::<&str, Vec<IpAddr>>::new();
    for group in groups {
        devices.entry(&group.device).or_default().push(group.of);
    }
    let line = |(device, addresses): (&str, Vec<IpAddr>)| Change {
        kind,
        what: match addresses[..] {
            [address] => format!("multicast group of {address} on {device}"),
            _ => {
                let count = addresses.len();
                format!("multicast groups of {count} addresses on {device}")
            }
        },
    };
    devices.into_iter().map(line).collect()
}
