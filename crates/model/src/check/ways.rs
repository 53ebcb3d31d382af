//! Where a router sends what is for an address: as [`compile`](crate::compile) decides it, from the draft.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::routers::{Side, sides};
use crate::decode::{RouteDraft, RouterDraft};
use crate::prefixes::Prefixes;

pub(super) struct Ways<'d> {
    pub(super) router: &'d RouterDraft<'d>,
    pub(super) sides: Vec<Side<'d>>,
    connected: Prefixes<Side<'d>>,
    all: Prefixes<Way<'d>>,
    /// The networks of its switches, and those that its routes lead to over a switch.
    inside: BTreeSet<IpNet>,
}

#[derive(Clone, Copy)]
pub(super) enum Way<'d> {
    Connected(Side<'d>),
    Route(&'d RouteDraft),
}

impl<'d> Ways<'d> {
    pub(super) fn new(router: &'d RouterDraft<'d>) -> Self {
        let mut ways = Self {
            router,
            sides: sides(router),
            connected: Prefixes::new(),
            all: Prefixes::new(),
            inside: BTreeSet::new(),
        };
        for &side in &ways.sides {
            ways.connected.insert(side.address, side);
            ways.all.insert(side.address, Way::Connected(side));
            if side.switch.is_some() {
                ways.inside.insert(side.address.trunc());
            }
        }
        for route in &router.routes {
            let Some(to) = route.to else { continue };
            ways.all.insert(to.value, Way::Route(route));
            if ways.leads_to_a_switch(Way::Route(route)) {
                ways.inside.insert(to.value);
            }
        }
        ways
    }

    /// The network of the router in which an address is.
    pub(super) fn side(&self, addr: IpAddr) -> Option<Side<'d>> {
        self.connected.find(addr).copied()
    }

    pub(super) fn find(&self, addr: IpAddr) -> Option<Way<'d>> {
        self.all.find(addr).copied()
    }

    pub(super) fn is_own(&self, addr: IpAddr) -> bool {
        self.sides.iter().any(|side| side.address.addr() == addr)
    }

    /// Whether an address is on a switch of the router, or behind a next hop there.
    pub(super) fn is_inside(&self, addr: IpAddr) -> bool {
        let connected = self.side(addr).map(Way::Connected);
        let mut ways = connected.into_iter().chain(self.find(addr));
        ways.any(|way| self.leads_to_a_switch(way))
    }

    /// Whether any address of a network is.
    pub(super) fn touches_inside(&self, network: IpNet) -> bool {
        let Ok(first) = IpNet::new(network.addr(), 0) else {
            return false;
        };
        // Networks are in the order of their first address.
        let mut behind = self.inside.range(first..);
        let within = behind
            .next()
            .is_some_and(|net| network.contains(&net.addr()));
        within || self.is_inside(network.addr())
    }

    fn leads_to_a_switch(&self, way: Way<'d>) -> bool {
        match way {
            Way::Connected(side) => side.switch.is_some(),
            Way::Route(route) => {
                let mut hops = route.via.iter();
                hops.any(|hop| (self.side(hop.value)).is_some_and(|side| side.switch.is_some()))
            }
        }
    }
}
