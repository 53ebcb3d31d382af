//! A fabric beside the facts of its hosts.

use std::collections::BTreeMap;
use std::fmt;

use overlane_model::mtu::{self, Direction, SwitchRoom};
use overlane_model::{Fabric, Name};

use super::super::facts::HostFacts;

/// The fabric, what is known of its hosts, and what follows from both.
pub(super) struct View<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) hosts: BTreeMap<&'a str, &'a HostFacts>,
    pub(super) underlay: Option<u32>,
    pub(super) directions: Vec<Direction>,
    pub(super) rooms: Vec<SwitchRoom>,
}

impl<'a> View<'a> {
    pub(super) fn new(fabric: &'a Fabric, facts: &'a [HostFacts], underlay: Option<u32>) -> Self {
        let known = facts.iter().map(|host| (host.host.as_str(), host));
        let mut view = Self {
            fabric,
            hosts: known.collect(),
            underlay,
            directions: mtu::directions(fabric),
            rooms: Vec::new(),
        };
        // A host of which nothing is known does not make a path smaller.
        let uplink = |host: &Name| view.uplink(host.as_str()).unwrap_or(u32::MAX);
        view.rooms = mtu::switch_rooms(fabric, &uplink);
        view
    }

    /// The largest packet that a host sends into the underlay; none: nothing is known of it.
    pub(super) fn uplink(&self, host: &str) -> Option<u32> {
        let uplink = self.hosts.get(host).and_then(|host| host.uplink.as_ref());
        let mtu = uplink.map(|uplink| uplink.mtu.min(mtu::IP_MOST));
        let at_apply = uplink.and_then(|uplink| uplink.mtu_at_apply);
        [mtu, at_apply, self.underlay].into_iter().flatten().min()
    }

    /// The largest packet of a switch's guests; none: it stays on one host, or nothing is known of its hosts.
    pub(super) fn room(&self, switch: &str) -> Option<(&SwitchRoom, u32)> {
        let mut rooms = self.rooms.iter();
        let room = rooms.find(|room| room.switch.as_str() == switch)?;
        let fits = room.guest_mtu.filter(|mtu| *mtu <= mtu::IP_MOST)?;
        Some((room, fits))
    }

    /// Whether two hosts speak to each other in tunnels.
    pub(super) fn are_joined(&self, from: &str, to: &str) -> bool {
        let mut directions = self.directions.iter();
        directions.any(|it| it.from.as_str() == from && it.to.as_str() == to)
    }

    /// Whether guests of a switch have IPv6 addresses of their own.
    pub(super) fn has_ipv6(&self, switch: &str) -> bool {
        let ports = self.fabric.ports().values();
        let mut addresses = ports
            .filter(|port| port.switch.as_str() == switch)
            .flat_map(|port| &port.addresses);
        let routers = self.fabric.routers().values();
        let mut networks = routers
            .flat_map(|router| &router.interfaces)
            .filter(|interface| interface.switch.as_str() == switch)
            .flat_map(|interface| &interface.addresses);
        addresses.any(|address| mtu::is_routed_ipv6(*address))
            || networks.any(|network| mtu::is_routed_ipv6(network.addr()))
    }
}

impl HostFacts {
    /// How to give a device an MTU, from this host's shell.
    pub(super) fn set_mtu(&self, device: &str, mtu: u32) -> String {
        let host = &self.host;
        match &self.netns {
            Some(netns) => format!("on {host}: ip -n {netns} link set {device} mtu {mtu}"),
            None => format!("on {host}: ip link set {device} mtu {mtu}"),
        }
    }
}

/// `web1, web2 and 5 more`
pub(super) fn listed<T: fmt::Display>(names: &[T]) -> String {
    const NAMED: usize = 3;
    let named = names.iter().take(NAMED).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
