//! A router must not take what is for its host: on a leg, packets to the router's addresses and to the networks
//! inside are the router's, so an address that the host has too would be lost to it, and with it, maybe, its SSH.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use overlane_model::{DeviceName, Neighbour, RouterTable, Side, Tables, Way};

use crate::HostError;
use crate::lib::error::{TakenAddress, TakenBy};

/// An address of a device of this namespace.
#[derive(Debug)]
pub(crate) struct HostAddress {
    pub(crate) device: String,
    is_loopback: bool,
    pub(crate) address: IpAddr,
}

/// All addresses of this namespace.
pub(crate) fn all() -> Result<Vec<HostAddress>, HostError> {
    let entries = getifaddrs().map_err(HostError::Addresses)?;
    let addresses = entries.filter_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let address = v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))?;
        // An IPv4 address may have a label, which begins with its device.
        let device = entry.interface_name.split(':').next()?.to_owned();
        let is_loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        Some(HostAddress {
            device,
            is_loopback,
            address,
        })
    });
    Ok(addresses.collect())
}

/// No router with a leg here takes packets that are for the host.
pub(crate) fn check(
    tables: &Tables,
    own: &[HostAddress],
    namespace: Option<&str>,
) -> Result<(), HostError> {
    let addresses = taken(tables, own);
    if addresses.is_empty() {
        return Ok(());
    }
    Err(HostError::TakenAddresses {
        addresses,
        namespace: namespace.map(str::to_owned),
    })
}

/// Addresses of the host that a router with a leg here would take packets for.
pub(crate) fn taken(tables: &Tables, own: &[HostAddress]) -> Vec<TakenAddress> {
    let mut addresses = Vec::new();
    for (router, leg) in tables.legs() {
        let taken = own.iter().filter_map(|own| {
            Some(TakenAddress {
                address: own.address,
                device: own.device.clone(),
                router: router.name.to_string(),
                by: takes(tables, router, leg, own)?,
            })
        });
        addresses.extend(taken);
    }
    addresses
}

/// Why packets to this address, by the router's leg, would be the router's.
///
/// The leg's own device is where they are sure to come. To an address of another device they come another way, but
/// for two: one that the router answers for, and one of a loopback device, which has no way of its own.
fn takes(
    tables: &Tables,
    router: &RouterTable,
    leg: &DeviceName,
    own: &HostAddress,
) -> Option<TakenBy> {
    let is_leg = own.device == leg.as_str();
    if is_link_local(own.address) {
        return None;
    }
    let routes = router.routes.iter();
    let routes = routes.filter(|route| route.to.contains(&own.address));
    let route = routes.max_by_key(|route| route.to.prefix_len());
    match route {
        Some(route) if route.way == Way::Own => Some(TakenBy::Own { line: route.line }),
        Some(route) if is_leg && leads_inside(&route.way) => Some(TakenBy::Network {
            network: route.to,
            line: route.line,
        }),
        _ if own.is_loopback => {
            let port = port_with(tables, router, own.address)?;
            Some(TakenBy::Port(port.port.to_string()))
        }
        _ => None,
    }
}

/// Each device has one by itself, no file gives a router one, and neighbour discovery with them is the host's.
const fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// As semantics.md says of packets from a leg: by the first next hop.
fn leads_inside(way: &Way) -> bool {
    let is_inside = |side: &Side| matches!(side, Side::Switch(_));
    match way {
        Way::Own => true,
        Way::Connected(side) => is_inside(side),
        Way::Via(hops) => hops.first().is_some_and(|hop| is_inside(&hop.side)),
    }
}

/// The port with this address on one of the router's switches.
fn port_with<'t>(
    tables: &'t Tables,
    router: &RouterTable,
    address: IpAddr,
) -> Option<&'t Neighbour> {
    let is_joined = |neighbour: &Neighbour| {
        let mut interfaces = router.interfaces.iter();
        interfaces.any(|interface| interface.switch == neighbour.switch)
    };
    let mut neighbours = tables.neighbours.iter();
    neighbours.find(|it| it.addr == address && it.router.is_none() && is_joined(it))
}
