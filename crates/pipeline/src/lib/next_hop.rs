//! Where a router sends what is for an address: the look-up of stage `route`, which `leg_in` and an answer to somebody
//! behind a router need too.

use std::net::IpAddr;

use overlane_model::{
    NextHop, Place, Route, RouterInterface, RouterTable, Side, Special, SwitchId, Way, is_end_of,
    special, special_described,
};

use crate::lib::flow_hash::remix;
use crate::lib::host::Host;

/// By the route with the longest prefix, of an address that it forwards to. No next hop: the address is the router's own.
pub(crate) fn find(
    router: &RouterTable,
    destination: IpAddr,
    flow_hash: u32,
) -> Option<(&Route, Option<NextHop>)> {
    let route = longest(router, destination).filter(|it| !is_refused(destination, Some(it)))?;
    let next = match &route.way {
        Way::Own => None,
        Way::Connected(side) => Some(NextHop {
            addr: destination,
            side: *side,
        }),
        // Equal-cost routes share flows.
        Way::Via(hops) => {
            // Not by the hash that chose the tunnel's source port, which the underlay spreads packets by.
            let number = (u64::from(remix(flow_hash)) * hops.len() as u64) >> 32;
            Some(hops.get(number as usize)?.clone())
        }
    };
    Some((route, next))
}

/// Whether a router forwards nothing from or to the address, whose longest route this is (ROUTE-19).
pub(crate) fn is_refused(addr: IpAddr, route: Option<&Route>) -> bool {
    is_end(addr, route)
        || match special(addr) {
            Special::Never => true,
            Special::UnlessNamed => !route.is_some_and(|route| route.names_special),
            Special::Not => false,
        }
}

/// The first or the last address of a connected IPv4 network, whose route this is.
pub(crate) fn is_end(addr: IpAddr, route: Option<&Route>) -> bool {
    route.is_some_and(|route| matches!(route.way, Way::Connected(_)) && is_end_of(route.to, addr))
}

/// Why, in words.
pub(crate) fn why_refused(addr: IpAddr, route: Option<&Route>) -> String {
    match (special_described(addr), route) {
        (Some(what), _) if special(addr) == Special::Never => format!("it is {what}"),
        (Some(what), _) if special(addr) == Special::UnlessNamed => {
            format!("it is {what}, and no route names it")
        }
        (_, Some(route)) if addr == route.to.network() => {
            format!("it is the address of the network {}", route.to)
        }
        (_, route) => {
            let network = route.map_or_else(String::new, |route| format!(" of {}", route.to));
            format!("it is the broadcast address{network}")
        }
    }
}

/// The VTEP of the router's acting host, where only that one sends there, and it is elsewhere: by the leg, or onto a
/// VLAN, where nobody else may show the router's MAC.
pub(crate) fn acting_host(host: &Host, router: &RouterTable, next: &NextHop) -> Option<IpAddr> {
    let acting = router.acting_elsewhere()?;
    let is_reached = match next.side {
        Side::Leg => false,
        Side::Switch(SwitchId::Vni(_)) => true,
        Side::Switch(switch) => is_here(host, switch, next.addr),
    };
    (!is_reached).then_some(acting)
}

/// Whether a port of this host has the address, by the fabric.
fn is_here(host: &Host, switch: SwitchId, addr: IpAddr) -> bool {
    let neighbour = host.neighbour(switch, addr);
    let entry = neighbour.and_then(|neighbour| host.fdb_entry(switch, neighbour.mac));
    entry.is_some_and(|entry| matches!(entry.place, Place::Local(_)))
}

/// The route with the longest prefix, whatever its way.
pub(crate) fn longest(router: &RouterTable, addr: IpAddr) -> Option<&Route> {
    let routes = router.routes.iter();
    let matching = routes.filter(|route| route.to.contains(&addr));
    matching.max_by_key(|route| route.to.prefix_len())
}

pub(crate) fn interface_on(router: &RouterTable, switch: SwitchId) -> Option<&RouterInterface> {
    let mut interfaces = router.interfaces.iter();
    interfaces.find(|interface| interface.switch == switch)
}

/// Key of a router's interface on a switch; 0: it has none.
pub(crate) fn interface_key(router: &RouterTable, switch: SwitchId) -> u16 {
    interface_on(router, switch).map_or(0, |interface| interface.key.get())
}

/// Where a side of a router is, in words.
pub(crate) fn place(host: &Host, side: Side) -> String {
    match side {
        Side::Leg => "in the physical network".to_owned(),
        Side::Switch(id) => match host.switch(id) {
            Some(switch) => format!("on switch {}", switch.name),
            None => format!("on {id}"),
        },
    }
}
