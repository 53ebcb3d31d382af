//! Addresses of devices.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::error::NetError;
use crate::netlink::Netlink;

impl Netlink {
    /// Gives a device an address. An IPv6 one is usable at once, without duplicate address detection.
    pub fn add_address(&self, name: &str, address: IpAddr, prefix: u8) -> Result<(), NetError> {
        let mut message = AddressMessage::default();
        message.header.index = self.link(name)?.index;
        message.header.family = family_of(address);
        message.header.prefix_len = prefix;
        message.attributes = vec![
            AddressAttribute::Address(address),
            AddressAttribute::Local(address),
        ];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message
                .attributes
                .push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let operation = format!("add the address {address}/{prefix}");
        let message = RouteNetlinkMessage::NewAddress(message);
        self.call(operation, Some(name), message, NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
    }
}

pub(crate) fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
