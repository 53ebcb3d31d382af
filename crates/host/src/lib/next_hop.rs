//! Through which neighbour of the uplink a remote is reached.

use std::net::IpAddr;

use overlane_net::{NetError, Netlink};

/// None: the route leads elsewhere.
pub(crate) fn next_hop(
    netlink: &Netlink,
    uplink: u32,
    remote: IpAddr,
) -> Result<Option<IpAddr>, NetError> {
    // Asked for the uplink only, the kernel would call an address without a route on-link.
    let route = netlink.route_to(remote, None)?;
    Ok((route.oif == uplink).then(|| route.gateway.unwrap_or(remote)))
}
