//! How much each host needs in its tables, counted from the fabric for all hosts at once: it takes no longer than the
//! file is long. [`Tables::counts`](crate::Tables::counts) of a compiled host says the same, and a test compares them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ipnet::IpNet;

use super::routers::Areas;
use crate::fabric::{Fabric, Host, Neighbours, Router, Switch, single};
use crate::names::Name;
use crate::sizes::{Counts, MAX_FLOOD_MEMBERS, Size};
use crate::tables::{Encapsulation, GeneveOptions};

/// A switch whose flooded frames have too many receivers at a host.
pub(crate) struct Crowded<'f> {
    pub(crate) switch: &'f Switch,
    pub(crate) host: &'f Host,
    pub(crate) count: usize,
}

/// What all hosts need.
pub(crate) struct Needs<'f> {
    /// By host.
    pub(crate) counts: BTreeMap<&'f Name, Counts>,
    pub(crate) crowded: Vec<Crowded<'f>>,
}

/// The ports of a switch, counted.
#[derive(Default)]
struct Members<'f> {
    /// Of each host.
    hosts: HashMap<&'f Name, usize>,
    macs: usize,
    addresses: usize,
    floating: HashSet<std::net::IpAddr>,
    floating_macs: HashSet<overlane_wire::Mac>,
    interfaces: usize,
}

/// The switches that a host knows together.
#[derive(Default)]
struct Area<'f> {
    hosts: HashSet<&'f Name>,
    /// Of those, the ones that are told what is said to routers.
    routing: usize,
    switches: Vec<&'f Switch>,
    /// What each host that knows the area needs for it, in the tables that are the same for all of them.
    counts: Counts,
}

impl Fabric {
    /// How much each host needs in its tables, by host.
    pub fn counts(&self) -> BTreeMap<&Name, Counts> {
        needs(self).counts
    }
}

pub(crate) fn needs(fabric: &Fabric) -> Needs<'_> {
    let areas = Areas::new(fabric);
    let mut needs = Needs {
        counts: of_hosts(fabric),
        crowded: Vec::new(),
    };
    let members = members(fabric);
    for area in all_areas(fabric, &areas, &members).values() {
        for host in &area.hosts {
            if let Some(counts) = needs.counts.get_mut(*host) {
                counts.add_all(&area.counts);
            }
        }
        flood(fabric, area, &members, &mut needs);
    }
    needs
}

/// What the file says of a host itself, its ports and its gateways.
fn of_hosts(fabric: &Fabric) -> BTreeMap<&Name, Counts> {
    let hosts = fabric.hosts.keys();
    let mut all: BTreeMap<&Name, Counts> = hosts.map(|host| (host, Counts::default())).collect();
    let remotes = fabric.hosts.len().saturating_sub(1);
    for counts in all.values_mut() {
        counts.add(Size::Remotes, remotes);
    }
    for port in fabric.ports.values() {
        if let Some(counts) = all.get_mut(&port.host) {
            counts.add(Size::Ports, 1);
            counts.add(Size::AllowedAddresses, port.allowed_addresses.len());
            counts.add(Size::AllowedMacs, port.allowed_macs.len());
        }
    }
    let gateways = fabric.routers.values();
    for gateway in gateways.filter_map(|router| router.gateway.as_ref()) {
        if let Some(counts) = all.get_mut(&gateway.host) {
            counts.add(Size::NatRules, gateway.nat.len());
            if gateway.device.is_some() {
                let addresses = gateway.addresses.len() + gateway.nat.len();
                counts.add(Size::LegAddresses, addresses);
            }
        }
    }
    all
}

fn members(fabric: &Fabric) -> HashMap<&Name, Members<'_>> {
    let mut all: HashMap<&Name, Members<'_>> = HashMap::new();
    for port in fabric.ports.values() {
        let members = all.entry(&port.switch).or_default();
        *members.hosts.entry(&port.host).or_default() += 1;
        members.macs += 1;
        members.addresses += port.addresses.len();
        let floating = port.allowed_addresses.iter().copied().filter_map(single);
        members.floating.extend(floating);
        members.floating_macs.extend(&port.allowed_macs);
    }
    let interfaces = fabric.routers.values().flat_map(|it| &it.interfaces);
    for interface in interfaces {
        let members = all.entry(&interface.switch).or_default();
        let has_ipv6 = interface.addresses.iter().any(|it| it.addr().is_ipv6());
        members.interfaces += 1;
        members.macs += 1;
        // And the link-local one.
        members.addresses += interface.addresses.len() + usize::from(has_ipv6);
    }
    all
}

fn all_areas<'f>(
    fabric: &'f Fabric,
    areas: &Areas<'f>,
    members: &HashMap<&'f Name, Members<'f>>,
) -> HashMap<usize, Area<'f>> {
    let mut all: HashMap<usize, Area<'f>> = HashMap::new();
    for (host, known) in areas.known() {
        for area in known {
            all.entry(*area).or_default().hosts.insert(host);
        }
    }
    for switch in fabric.switches.values() {
        let area = areas.area(&switch.name);
        let Some(area) = area.and_then(|area| all.get_mut(&area)) else {
            continue;
        };
        area.switches.push(switch);
        area.counts.add(Size::Switches, 1);
        if is_tunnelled(switch) {
            area.counts.add(Size::Origins, area.hosts.len() - 1);
        }
        if let Some(members) = members.get(&switch.name) {
            let macs = members.macs + members.floating_macs.len();
            area.counts.add(Size::Fdb, macs);
            let addresses = members.addresses + members.floating.len();
            area.counts.add(Size::Neighbours, addresses);
        }
    }
    for router in fabric.routers.values() {
        let first = router.interfaces.first();
        let area = first.and_then(|interface| areas.area(&interface.switch));
        let Some(area) = area.and_then(|area| all.get_mut(&area)) else {
            continue;
        };
        let (routes, hops) = routes(router);
        area.counts.add(Size::Routers, 1);
        area.counts
            .add(Size::RouterInterfaces, router.interfaces.len());
        area.counts.add(Size::Routes, routes);
        area.counts.add(Size::NextHops, hops);
    }
    for area in all.values_mut() {
        let hosts = area.hosts.iter();
        let routing = hosts.filter(|host| routes_itself(fabric, host));
        area.routing = routing.count();
    }
    all
}

/// How many routes a router has, its own addresses and its networks among them, and how many next hops these.
fn routes(router: &Router) -> (usize, usize) {
    let gateway = router.gateway.as_ref();
    let on_leg = gateway.into_iter().flat_map(|it| &it.addresses);
    let interfaces = router.interfaces.iter();
    let addresses = interfaces.flat_map(|it| &it.addresses).chain(on_leg);
    let nat = gateway.into_iter().flat_map(|it| &it.nat);
    let mut networks: HashSet<IpNet> = nat.map(|it| it.kind.outside().into()).collect();
    for address in addresses {
        networks.extend([IpNet::from(address.addr()), address.trunc()]);
    }
    let declared = router.routes.iter();
    let hops = declared.filter(|route| networks.insert(route.to));
    let hops = hops.map(|route| route.via.len()).sum();
    (networks.len(), hops)
}

fn is_tunnelled(switch: &Switch) -> bool {
    switch.id.vni().is_some()
}

/// Peers without options do not route.
fn routes_itself(fabric: &Fabric, host: &Name) -> bool {
    let host = fabric.hosts.get(host);
    fabric.tunnel.encapsulation != Encapsulation::Geneve
        || host.is_some_and(|host| host.options == GeneveOptions::Ovn)
}

/// Receivers of flooded frames: ports of the host, other hosts with a port, and other hosts that only hear what is said
/// to routers. A host without a port of a switch has no more of them than there are other hosts.
fn flood<'f>(
    fabric: &'f Fabric,
    area: &Area<'f>,
    members: &HashMap<&'f Name, Members<'f>>,
    needs: &mut Needs<'f>,
) {
    let nothing = Members::default();
    // What a host without a port needs, one that routes and one that does not.
    let (mut router, mut peer) = (0, 0);
    let mut own: BTreeMap<&Name, (usize, usize)> = BTreeMap::new();
    for switch in &area.switches {
        let members = members.get(&switch.name).unwrap_or(&nothing);
        let tunnelled = is_tunnelled(switch);
        let asks = tunnelled && members.interfaces > 0 && switch.neighbours == Neighbours::Asked;
        let with_ports = match tunnelled {
            true => members.hosts.len(),
            false => 0,
        };
        let hear = match asks {
            true => {
                let hosts = members.hosts.keys();
                area.routing - hosts.filter(|host| routes_itself(fabric, host)).count()
            }
            false => 0,
        };
        let of_router = with_ports + hear - usize::from(asks && hear > 0);
        let of_peer = with_ports + hear;
        router += of_router;
        peer += of_peer;
        for (&name, &ports) in &members.hosts {
            let count = ports + with_ports - usize::from(tunnelled) + hear;
            let without_port = match routes_itself(fabric, name) {
                true => of_router,
                false => of_peer,
            };
            let sums = own.entry(name).or_default();
            sums.0 += count;
            sums.1 += without_port;
            if let Some(host) = fabric.hosts.get(name).filter(|_| count > MAX_FLOOD_MEMBERS) {
                needs.crowded.push(Crowded {
                    switch,
                    host,
                    count,
                });
            }
        }
    }
    let hosts: BTreeSet<&Name> = area.hosts.iter().copied().collect();
    for host in hosts {
        let all = match routes_itself(fabric, host) {
            true => router,
            false => peer,
        };
        let (with, without) = own.get(host).copied().unwrap_or_default();
        if let Some(counts) = needs.counts.get_mut(host) {
            counts.add(Size::Flood, all + with - without);
        }
    }
}
