//! Routes: adding one, and asking the kernel which way a packet would go.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric,
    RouteProtocol, RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::address::family_of;
use crate::error::NetError;
use crate::netlink::Netlink;

/// The way to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteTo {
    /// Index of the device it leaves by.
    pub oif: u32,
    /// The next hop, if it is not the address itself.
    pub gateway: Option<IpAddr>,
    /// Path MTU, where the route has one of its own.
    pub mtu: Option<u32>,
    /// The kernel was told that MTU, and forgets it again; else the route was made with it.
    pub mtu_learned: bool,
}

impl Netlink {
    /// Adds a route to the main table: to a prefix, or the default route if `dst` is none; through a
    /// gateway, or on the link if `via` is none. The family of a default route is its gateway's, else IPv4.
    pub fn add_route(
        &self,
        dst: Option<(IpAddr, u8)>,
        via: Option<IpAddr>,
        dev: &str,
    ) -> Result<(), NetError> {
        let family = dst
            .map(|(address, _)| address)
            .or(via)
            .map_or(AddressFamily::Inet, family_of);
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope = if via.is_some() {
            RouteScope::Universe
        } else {
            RouteScope::Link
        };
        message
            .attributes
            .push(RouteAttribute::Oif(self.link(dev)?.index));
        if let Some((address, prefix)) = dst {
            message.header.destination_prefix_length = prefix;
            message
                .attributes
                .push(RouteAttribute::Destination(address.into()));
        }
        message.attributes.extend(via.map(|gateway| {
            if family_of(gateway) == family {
                RouteAttribute::Gateway(gateway.into())
            } else {
                RouteAttribute::Via(match gateway {
                    IpAddr::V4(gateway) => RouteVia::Inet(gateway),
                    IpAddr::V6(gateway) => RouteVia::Inet6(gateway),
                })
            }
        }));
        let operation = match dst {
            Some((address, prefix)) => format!("add the route to {address}/{prefix}"),
            None => String::from("add the default route"),
        };
        let message = RouteNetlinkMessage::NewRoute(message);
        self.call(operation, Some(dev), message, NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
    }

    /// The way a packet to `address` would go now, if need be only by the device `oif`.
    pub fn route_to(&self, address: IpAddr, oif: Option<u32>) -> Result<RouteTo, NetError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(address);
        message.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        message.header.flags = RouteFlags::LookupTable;
        message
            .attributes
            .push(RouteAttribute::Destination(address.into()));
        message.attributes.extend(oif.map(RouteAttribute::Oif));
        let operation = format!("find the route to {address}");
        let replies = self.call(
            operation.clone(),
            None,
            RouteNetlinkMessage::GetRoute(message),
            0,
        )?;
        replies
            .into_iter()
            .find_map(route_of)
            .ok_or_else(|| NetError::NoAnswer {
                operation: operation.into(),
                place: self.place(None),
            })
    }
}

fn route_of(message: RouteNetlinkMessage) -> Option<RouteTo> {
    let RouteNetlinkMessage::NewRoute(message) = message else {
        return None;
    };
    let mut route = RouteTo {
        oif: 0,
        gateway: None,
        mtu: None,
        mtu_learned: false,
    };
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => route.oif = index,
            RouteAttribute::Gateway(RouteAddress::Inet(gateway))
            | RouteAttribute::Via(RouteVia::Inet(gateway)) => route.gateway = Some(gateway.into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(gateway))
            | RouteAttribute::Via(RouteVia::Inet6(gateway)) => route.gateway = Some(gateway.into()),
            RouteAttribute::CacheInfo(info) => route.mtu_learned = info.expires != 0,
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Some(route)
}
