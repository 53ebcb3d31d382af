//! The solicited-node groups of the IPv6 addresses on legs. Questions about an address go to its group, and whatever is
//! between the asker and our program may keep groups back that nobody has joined: a macvlan, a network card, a switch
//! that listens to MLD. The host has none of these addresses, so it joins for them: each is a proxy neighbour of the
//! leg. The kernel joins the group of such an entry and answers MLD for it. Our program answers before the kernel looks.

use std::net::IpAddr;

use overlane_net::Netlink;

use super::switch::{Form, Switch};
use super::target::Spot;
use crate::HostError;
use crate::lib::lock::Lock;
use crate::report::{ChangeKind, Object, Row, finding};
use crate::state::State;
use crate::state::answers::leg_addresses;

/// The kind.
pub(super) const GROUPS: Switch = Switch {
    word: "group",
    object: Object::MulticastGroup,
    purpose: None,
    wanted: |target| {
        let links = &target.resolved.links;
        let is_there = |device: &str| links.iter().any(|link| link.name == device);
        let legs = target
            .tables
            .legs()
            .filter(|(_, device)| is_there(device.as_str()));
        let groups = legs.flat_map(|(router, device)| {
            let addresses = leg_addresses(router).into_iter();
            addresses.filter(IpAddr::is_ipv6).map(|of| Spot {
                address: Some(of),
                ..Spot::on(device)
            })
        });
        groups.collect()
    },
    form: Form::Entry {
        is_on: Netlink::has_proxy,
        set: |netlink, device, of, on| match on {
            true => netlink.add_proxy(device, of),
            false => netlink.delete_proxy(device, of),
        },
        // A machine without IPv6.
        without: Some(finding::no_group),
    },
};

/// Joins again what a device forgot when somebody took it down; says what.
pub(crate) fn join_again(host: &str) -> Result<Vec<Row>, HostError> {
    // No `remove` may leave a group that is joined here a moment later.
    let _lock = Lock::acquire(host, &|_| ())?;
    let Some(state) = State::read(host)? else {
        return Ok(Vec::new());
    };
    let Some(netns) = state.namespace()? else {
        return Ok(Vec::new());
    };
    let join = || {
        let netlink = Netlink::new()?;
        let mut joined = Vec::new();
        for spot in state.ours.iter().filter_map(|thing| GROUPS.spot(thing)) {
            let again = match GROUPS.is_on(&netlink, &spot) {
                Ok(false) => GROUPS.set(&netlink, &spot, true).map(|()| true),
                other => other.map(|_| false),
            };
            match again {
                Ok(true) => joined.push(GROUPS.row(ChangeKind::Add, &spot)),
                Ok(false) => {}
                // A device that is gone has no groups.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(HostError::from(error)),
            }
        }
        Ok(joined)
    };
    netns.run(join)?
}
