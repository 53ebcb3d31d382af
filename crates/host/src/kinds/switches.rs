//! Switches of others: a mode of a device, or an entry in a list of the kernel, that its user may have set too. What we
//! switch on we switch off; what was on before us stays. Nothing of the kernel shows which is which, so the record and
//! the state file say what is ours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use overlane_net::{NetError, Netlink};

use super::kind::{Kind, Look};
use super::plan::unless_gone;
use super::plan::{Deed, Done, Plan};
use super::target::{Spot, Target};
use crate::HostError;
use crate::lib::lock::Lock;
use crate::report::finding;
use crate::report::{ChangeKind, Object, Row};
use crate::state::State;
use crate::state::answers::leg_addresses;

/// One kind of switch.
#[derive(Clone, Copy)]
pub(crate) struct Switch {
    /// The first word of its things in the record.
    word: &'static str,
    object: Object,
    wanted: fn(&Target<'_>) -> BTreeSet<Spot>,
    is_on: fn(&Netlink, &Spot) -> Result<bool, NetError>,
    set: fn(&Netlink, &Spot, bool) -> Result<(), NetError>,
    /// What a host goes without where the kernel refuses it; none: it is needed.
    without: Option<fn(&Spot, &str) -> Row>,
}

/// Promiscuous mode of the uplink. A switch on a VLAN brings frames to the guests' MACs, which the network card would
/// refuse; and cards that sort by VLAN take every VLAN in that mode.
pub(crate) const PROMISCUOUS: Switch = Switch {
    word: "promiscuous",
    object: Object::Promiscuous,
    wanted: |target| {
        let mut switches = target.tables.switches.iter();
        let on_vlan = switches.any(|switch| switch.id.vlan().is_some());
        let uplink = on_vlan.then(|| Spot::on(&target.tables.uplink));
        uplink.into_iter().collect()
    },
    is_on: |netlink, spot| Ok(netlink.link(&spot.device)?.promiscuous),
    set: |netlink, spot, on| netlink.set_promiscuous(&spot.device, on),
    without: None,
};

/// Neighbours that packets to the remotes are handed to: the kernel keeps them resolved.
pub(crate) const NEXT_HOPS: Switch = Switch {
    word: "managed",
    object: Object::NextHop,
    wanted: |target| target.resolved.next_hops.clone(),
    is_on: |netlink, spot| match spot.address {
        Some(address) => {
            let known = netlink.neighbour(&spot.device, address)?;
            Ok(known.is_some_and(|known| known.managed))
        }
        None => Ok(false),
    },
    set: |netlink, spot, on| match (spot.address, on) {
        (Some(address), true) => netlink.manage_neighbour(&spot.device, address),
        (Some(address), false) => netlink.delete_neighbour(&spot.device, address),
        (None, _) => Ok(()),
    },
    without: None,
};

/// The solicited-node groups of the IPv6 addresses on legs. Questions about an address go to its group, and whatever is
/// between the asker and our program may keep groups back that nobody has joined: a macvlan, a network card, a switch
/// that listens to MLD. The host has none of these addresses, so it joins for them: each is a proxy neighbour of the
/// leg. The kernel joins the group of such an entry and answers MLD for it. Our program answers before the kernel looks.
pub(crate) const GROUPS: Switch = Switch {
    word: "group",
    object: Object::MulticastGroup,
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
    is_on: |netlink, spot| match spot.address {
        Some(of) => netlink.has_proxy(&spot.device, of),
        None => Ok(false),
    },
    set: |netlink, spot, on| match (spot.address, on) {
        (Some(of), true) => netlink.add_proxy(&spot.device, of),
        (Some(of), false) => netlink.delete_proxy(&spot.device, of),
        (None, _) => Ok(()),
    },
    // A machine without IPv6.
    without: Some(|spot, reason| match spot.address {
        Some(of) => finding::no_group(&spot.device, of, reason),
        None => Row::add(Object::MulticastGroup, ""),
    }),
};

impl Switch {
    fn thing(self, spot: &Spot) -> String {
        format!("{} {spot}", self.word)
    }

    fn spot(self, thing: &str) -> Option<Spot> {
        let (word, rest) = thing.split_once(' ')?;
        let (device, address) = match rest.split_once(' ') {
            Some((device, address)) => (device, Some(address.parse().ok()?)),
            None => (rest, None),
        };
        // Only promiscuous mode is a device's own.
        let is_whole = address.is_some() != (self.object == Object::Promiscuous);
        (word == self.word && is_whole).then(|| Spot {
            device: device.to_owned(),
            address,
        })
    }

    fn row(self, change: ChangeKind, spot: &Spot) -> Row {
        match spot.address {
            Some(address) => {
                Row::new(change, self.object, address).of(Object::Device, &spot.device)
            }
            None => Row::new(change, self.object, &spot.device),
        }
    }

    fn switch_on<'a>(self, spot: Spot) -> Deed<'a> {
        let thing = self.thing(&spot);
        let refused = spot.clone();
        let deed = Deed::new(self.row(ChangeKind::Add, &spot), move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            match (self.set)(netlink, &spot, true) {
                Ok(()) => {
                    let undo = move || unless_gone((self.set)(netlink, &spot, false));
                    mending.journal.push(undo);
                    Ok(Done::Yes)
                }
                Err(error) if self.without.is_some() && !error.is_not_found() => {
                    Ok(Done::Refused(error.to_string()))
                }
                Err(error) => Err(error.into()),
            }
        });
        match self.without {
            Some(without) => deed.or_without(thing, move |reason| without(&refused, reason)),
            None => deed,
        }
    }

    /// A device that is gone has taken its switches along.
    fn switch_off<'a>(self, spot: Spot) -> Deed<'a> {
        Deed::new(self.row(ChangeKind::Remove, &spot), move |mending| {
            mending.journal.before()?;
            let netlink = mending.netlink;
            match (self.is_on)(netlink, &spot) {
                Ok(true) => {}
                Ok(false) => return Ok(Done::Nothing),
                Err(error) if error.is_not_found() => return Ok(Done::Nothing),
                Err(error) => return Err(error.into()),
            }
            unless_gone((self.set)(netlink, &spot, false))?;
            let undo = move || unless_gone((self.set)(netlink, &spot, true));
            mending.journal.push(undo);
            Ok(Done::Yes)
        })
    }
}

impl Kind for Switch {
    fn compare<'a>(&self, look: &Look<'a>, plan: &mut Plan<'a>) -> Result<(), HostError> {
        let switch = *self;
        let mut before: BTreeSet<Spot> = (look.ours.iter())
            .filter_map(|thing| switch.spot(thing))
            .collect();
        let wanted = look.target.map(switch.wanted).unwrap_or_default();
        for spot in wanted {
            let was_ours = before.remove(&spot);
            let is_on = (switch.is_on)(look.netlink, &spot)?;
            if was_ours || !is_on {
                plan.ours.insert(switch.thing(&spot));
            }
            if !is_on {
                plan.add(switch.switch_on(spot));
            }
        }
        for spot in before {
            plan.delete(switch.switch_off(spot));
        }
        Ok(())
    }

    fn knows(&self, thing: &str) -> bool {
        self.spot(thing).is_some()
    }
}

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
            let again = match (GROUPS.is_on)(&netlink, &spot) {
                Ok(false) => (GROUPS.set)(&netlink, &spot, true).map(|()| true),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_says_what_is_ours_in_words_of_its_kind() {
        for (switch, thing) in [
            (&PROMISCUOUS, "promiscuous eth1"),
            (&NEXT_HOPS, "managed eth1.5 198.18.0.2"),
            (&GROUPS, "group phys0 2001:2::1"),
        ] {
            assert_eq!(switch.thing(&switch.spot(thing).unwrap()), thing);
        }
        for wrong in [
            "altname eth1",
            "managed eth1",
            "group x 1.2.3",
            "promiscuous eth1 198.18.0.2",
            "x",
        ] {
            for switch in [&PROMISCUOUS, &NEXT_HOPS, &GROUPS] {
                assert_eq!(switch.spot(wrong), None, "{wrong}");
            }
        }
    }
}
