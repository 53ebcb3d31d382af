//! The routers as one host sees them, and which logical switches they bring to it.
//!
//! A router is distributed: the host where a packet enters routes it, so it has to know every switch that
//! the packet may come out on, through other routers too.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::fabric::{Fabric, GatewayHost, Host, Interface, Policy, ReversePath, Router};
use crate::names::{DeviceName, Name};
use crate::prefixes::Prefixes;
use crate::special;
use crate::tables::{
    FdbEntry, Gateway, GatewayPlace, Neighbour, NextHop, Place, Route, RouterInterface,
    RouterTable, Side, SwitchId, Timeouts, Way,
};

/// The logical switches in **areas**: those that routers join, whatever number of them lies between. A host knows
/// the areas in which it has a port, or the gateway of a router.
pub(super) struct Areas<'f> {
    /// By switch.
    areas: BTreeMap<&'f Name, usize>,
    /// By host.
    known: BTreeMap<&'f Name, BTreeSet<usize>>,
}

impl Fabric {
    /// The host that alone sends by a router's leg, and alone onto VLANs for it: that of its `gateway`. Of a router
    /// without one, the first of the file that has a port on one of its switches; if none has, the first that knows it.
    /// `None`: it has neither a `gateway` nor a VLAN, or no host knows it.
    pub fn acting_host(&self, router: &Router) -> Option<&Host> {
        if let Some(gateway) = &router.gateway {
            return self.hosts.get(&gateway.host);
        }
        let is_on_vlan = |name: &Name| {
            let switch = self.switches.get(name);
            switch.is_some_and(|switch| switch.id.vlan().is_some())
        };
        if !switches(router).any(is_on_vlan) {
            return None;
        }
        let own: BTreeSet<&Name> = switches(router).collect();
        let ports = self.ports.values();
        let on_own = ports.filter(|port| own.contains(&port.switch));
        let hosts = on_own.filter_map(|port| self.hosts.get(&port.host));
        hosts.min_by_key(|host| host.order).or_else(|| {
            let areas = Areas::new(self);
            let hosts = self.hosts.values();
            let knowing = hosts.filter(|host| own.iter().any(|switch| areas.reaches(host, switch)));
            knowing.min_by_key(|host| host.order)
        })
    }
}

impl<'f> Areas<'f> {
    pub(super) fn new(fabric: &'f Fabric) -> Self {
        let areas = areas(fabric);
        let mut known: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
        let ports = fabric.ports.values().map(|port| (&port.host, &port.switch));
        let gateways = fabric.routers.values().filter_map(|router| {
            let first = switches(router).next()?;
            Some((&router.gateway.as_ref()?.host, first))
        });
        for (host, switch) in ports.chain(gateways) {
            known.entry(host).or_default().extend(areas.get(switch));
        }
        Self { areas, known }
    }

    /// The areas that each host knows.
    pub(super) const fn known(&self) -> &BTreeMap<&'f Name, BTreeSet<usize>> {
        &self.known
    }

    /// The area of a switch.
    pub(super) fn area(&self, switch: &Name) -> Option<usize> {
        self.areas.get(switch).copied()
    }

    /// All switches of the areas that a host knows, by name.
    pub(super) fn reached(&self, host: &Host) -> impl Iterator<Item = &'f Name> {
        let known = self.known.get(&host.name);
        let areas = self.areas.iter();
        let reached =
            areas.filter(move |(_, area)| known.is_some_and(|known| known.contains(area)));
        reached.map(|(switch, _)| *switch)
    }

    /// Whether a switch is in such an area.
    pub(super) fn reaches(&self, host: &Host, switch: &Name) -> bool {
        let known = self.known.get(&host.name);
        let area = self.areas.get(switch);
        known
            .zip(area)
            .is_some_and(|(known, area)| known.contains(area))
    }
}

fn areas(fabric: &Fabric) -> BTreeMap<&Name, usize> {
    let mut routers: BTreeMap<&Name, Vec<&Router>> = BTreeMap::new();
    for router in fabric.routers.values() {
        for switch in switches(router) {
            routers.entry(switch).or_default().push(router);
        }
    }
    let (mut areas, mut seen) = (BTreeMap::new(), BTreeSet::new());
    for (area, first) in fabric.switches.keys().enumerate() {
        let mut next = vec![first];
        while let Some(switch) = next.pop() {
            if !areas.contains_key(switch) {
                areas.insert(switch, area);
                let joined = routers.remove(switch).unwrap_or_default().into_iter();
                // Each router once: its switches need no second look.
                let new = joined.filter(|router| seen.insert(&router.name));
                next.extend(new.flat_map(switches));
            }
        }
    }
    areas
}

fn switches(router: &Router) -> impl Iterator<Item = &Name> {
    router.interfaces.iter().map(|interface| &interface.switch)
}

/// An interface and its router, on a switch that the host knows.
pub(super) struct Attached<'f> {
    router: &'f Router,
    interface: &'f Interface,
}

/// By switch.
pub(super) fn attached<'f>(routers: &[&'f Router]) -> BTreeMap<&'f Name, Vec<Attached<'f>>> {
    let mut attached: BTreeMap<&Name, Vec<Attached<'f>>> = BTreeMap::new();
    for &router in routers {
        for interface in &router.interfaces {
            let list = attached.entry(&interface.switch).or_default();
            list.push(Attached { router, interface });
        }
    }
    attached
}

impl Attached<'_> {
    pub(super) fn fdb(&self, switch: SwitchId) -> FdbEntry {
        FdbEntry {
            switch,
            mac: self.router.mac,
            key: self.interface.key,
            port: self.router.name.clone(),
            place: Place::Router(self.router.id),
            roams: false,
        }
    }

    /// Of each of its addresses, the one made from the MAC included.
    pub(super) fn neighbours(&self, switch: SwitchId) -> impl Iterator<Item = Neighbour> {
        let declared = self.interface.addresses.iter().map(IpNet::addr);
        let link_local = link_local(self.router, self.interface).map(Into::into);
        declared.chain(link_local).map(move |addr| Neighbour {
            switch,
            addr,
            mac: self.router.mac,
            key: self.interface.key,
            is_router: true,
            router: Some(self.router.id),
            port: self.router.name.clone(),
        })
    }
}

fn link_local(router: &Router, interface: &Interface) -> Option<std::net::Ipv6Addr> {
    let mut addresses = interface.addresses.iter();
    let any = addresses.any(|address| address.addr().is_ipv6());
    any.then(|| router.link_local())
}

/// The table of a router.
pub(super) fn table(fabric: &Fabric, host: &Host, router: &Router) -> Option<RouterTable> {
    let id = |switch: &Name| Some(fabric.switches.get(switch)?.id);
    let interfaces = router.interfaces.iter().map(|interface| {
        Some(RouterInterface {
            switch: id(&interface.switch)?,
            key: interface.key,
            addresses: interface.addresses.clone(),
            link_local: link_local(router, interface),
        })
    });
    let gateway = match &router.gateway {
        None => without_leg(fabric, host, router),
        Some(gateway) => Some(self::gateway(fabric, host, gateway)?),
    };
    Some(RouterTable {
        name: router.name.clone(),
        id: router.id,
        mac: router.mac,
        interfaces: interfaces.collect::<Option<_>>()?,
        routes: routes(fabric, router)?,
        reverse_path: router.reverse_path == ReversePath::Strict,
        mss_clamp: router.mss_clamp,
        gateway,
    })
}

/// Where a router acts that has no `gateway`.
fn without_leg(fabric: &Fabric, host: &Host, router: &Router) -> Option<Gateway> {
    let acting = fabric.acting_host(router)?;
    Some(Gateway {
        host: acting.name.clone(),
        place: place(host, acting, None),
        addresses: Vec::new(),
        nat: Vec::new(),
        drop_untranslated: false,
        connections: Gateway::CONNECTIONS,
        timeouts: Timeouts::default(),
    })
}

fn place(host: &Host, acting: &Host, leg: Option<DeviceName>) -> GatewayPlace {
    if acting.name == host.name {
        GatewayPlace::Here { leg }
    } else {
        GatewayPlace::Remote(acting.underlay)
    }
}

fn gateway(fabric: &Fabric, host: &Host, gateway: &GatewayHost) -> Option<Gateway> {
    let here = gateway.host == host.name;
    let acting = fabric.hosts.get(&gateway.host)?;
    let place = place(host, acting, gateway.device.clone());
    Some(Gateway {
        host: gateway.host.clone(),
        place,
        addresses: gateway.addresses.clone(),
        nat: if here {
            gateway.nat.clone()
        } else {
            Vec::new()
        },
        drop_untranslated: here && gateway.untranslated == Policy::Drop,
        connections: gateway.connections.unwrap_or(Gateway::CONNECTIONS),
        timeouts: gateway.timeouts,
    })
}

/// Each prefix once: of its own addresses and a network that is only one address, the address counts.
fn routes(fabric: &Fabric, router: &Router) -> Option<Vec<Route>> {
    let mut sides: Vec<(IpNet, Side, u32)> = Vec::new();
    for interface in &router.interfaces {
        let side = Side::Switch(fabric.switches.get(&interface.switch)?.id);
        let addresses = interface.addresses.iter();
        sides.extend(addresses.map(|&address| (address, side, interface.line)));
    }
    let gateway = router.gateway.as_ref();
    if let Some(gateway) = gateway {
        let addresses = gateway.addresses.iter();
        sides.extend(addresses.map(|&address| (address, Side::Leg, gateway.line)));
    }
    let own = sides
        .iter()
        .map(|&(address, _, line)| (address.addr(), line));
    let nat = gateway.map(|gateway| &gateway.nat).into_iter().flatten();
    let own = own.chain(nat.map(|rule| (rule.kind.outside(), rule.line)));
    let mut routes = BTreeMap::new();
    for (addr, line) in own {
        let to = IpNet::from(addr);
        routes.entry(to).or_insert(route(to, Way::Own, line));
    }
    let mut connected = Prefixes::new();
    for &(address, side, line) in &sides {
        connected.insert(address, side);
        let to = address.trunc();
        let way = Way::Connected(side);
        routes.entry(to).or_insert(route(to, way, line));
    }
    for declared in &router.routes {
        let hops = declared.via.iter().map(|&addr| {
            let side = *connected.find(addr)?;
            Some(NextHop { addr, side })
        });
        let (to, line) = (declared.to, declared.line);
        let way = Way::Via(hops.collect::<Option<_>>()?);
        routes.entry(to).or_insert(route(to, way, line));
    }
    Some(routes.into_values().collect())
}

fn route(to: IpNet, way: Way, line: u32) -> Route {
    let names_special = special::names_special(to);
    Route {
        to,
        way,
        names_special,
        line,
    }
}
