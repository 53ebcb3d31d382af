//! Changes of the network configuration of one namespace, as the kernel multicasts them (rtnetlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use nix::errno::Errno;

use crate::error::{NetError, Place, errno_of};
use crate::netns::{self, NetnsId};
use crate::sys;

/// `enum rtnetlink_groups` of linux/rtnetlink.h.
const GROUPS: [libc::c_uint; 6] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];
/// Of a machine on which many devices come and go at once.
const QUEUE: usize = 4 << 20;
/// Longer than any message of these groups.
const LONGEST: usize = 64 << 10;
/// Datagrams of one reading, so that a storm of events does not keep the caller from its work.
const MOST: usize = 1024;
const NLMSG_ALIGN: usize = 4;

/// Something changed. `gone`: it is not there any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A device was made or changed, or it left this namespace.
    Link {
        /// Its index.
        index: u32,
        /// Its name.
        name: String,
        /// Its MAC; all zero where it has none.
        mac: [u8; 6],
        /// Its largest packet.
        mtu: u32,
        /// Somebody switched it on.
        up: bool,
        /// It is up, and the other end of the cable too.
        carrier: bool,
        /// The bridge or other master that it belongs to.
        master: Option<u32>,
        /// It is not in this namespace any more.
        gone: bool,
    },
    /// An address of a device.
    Address {
        /// Index of the device.
        index: u32,
        /// The address.
        address: IpAddr,
        /// It was taken away.
        gone: bool,
    },
    /// A route, in any table. The kernel does not tell of IPv4 routes that go because their device goes down.
    Route {
        /// Its prefix. All zeros: the default route.
        destination: (IpAddr, u8),
        /// Index of the device; none where it has several, or leads nowhere.
        index: Option<u32>,
        /// It was taken away.
        gone: bool,
    },
    /// A neighbour. Forwarding tables of bridges, which the kernel calls neighbours too, are left out.
    Neighbour {
        /// Index of the device.
        index: u32,
        /// Its address.
        address: IpAddr,
        /// It was forgotten.
        gone: bool,
    },
    /// Events were lost, or not understood: anything may have changed.
    Everything,
}

/// What changes in one namespace, from now on. It stays with the namespace it was opened in.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
    netns: NetnsId,
    buffer: Vec<u8>,
    /// Events were lost, and the kernel drops more until the queue has been read to its end.
    overrun: bool,
}

impl Events {
    /// Begins to listen in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetError> {
        Self::with_queue(QUEUE)
    }

    /// The same, with room for so many bytes of events that nobody has read yet.
    pub fn with_queue(bytes: usize) -> Result<Self, NetError> {
        let netns = netns::current_id()?;
        let socket = listen(bytes).map_err(|errno| refused("listen to events", netns, errno))?;
        Ok(Self {
            socket,
            netns,
            buffer: Vec::with_capacity(LONGEST),
            overrun: false,
        })
    }

    /// What has happened since the last time, without waiting. [`Event::Everything`] comes alone: it includes the rest.
    pub fn read(&mut self) -> Result<Vec<Event>, NetError> {
        let mut events = Vec::new();
        let mut is_empty = false;
        for _ in 0..MOST {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, libc::MSG_TRUNC) {
                // Only the kernel has port 0; another process may send to any port.
                Ok((_, from)) if from.port_number() != 0 => {}
                Ok((len, _)) if len > self.buffer.len() => events.push(Event::Everything),
                Ok(_) => decode(&self.buffer, &mut events),
                Err(error) => match errno_of(&error) {
                    Errno::EAGAIN => {
                        is_empty = true;
                        break;
                    }
                    Errno::EINTR => {}
                    Errno::ENOBUFS => self.overrun = true,
                    errno => return Err(refused("read events", self.netns, errno)),
                },
            }
        }
        if self.overrun || events.contains(&Event::Everything) {
            self.overrun &= !is_empty;
            return Ok(vec![Event::Everything]);
        }
        events.dedup();
        Ok(events)
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn listen(bytes: usize) -> Result<Socket, Errno> {
    let failed = |error: std::io::Error| errno_of(&error);
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
    socket.set_non_blocking(true).map_err(failed)?;
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)?;
    socket.bind_auto().map_err(failed)?;
    for group in GROUPS {
        socket.add_membership(group).map_err(failed)?;
    }
    Ok(socket)
}

fn refused(operation: &'static str, netns: NetnsId, errno: Errno) -> NetError {
    NetError::refused(operation, Place::new(None, netns::name_of(netns)), errno)
}

/// The events of a datagram. What makes no sense may have been about anything.
fn decode(datagram: &[u8], events: &mut Vec<Event>) {
    let mut rest = datagram;
    while !rest.is_empty() {
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) else {
            events.push(Event::Everything);
            return;
        };
        let length = message.header.length as usize;
        rest = rest
            .get(length.next_multiple_of(NLMSG_ALIGN)..)
            .unwrap_or_default();
        events.extend(match message.payload {
            NetlinkPayload::InnerMessage(message) => event_of(message),
            NetlinkPayload::Noop | NetlinkPayload::Done(_) => None,
            _ => Some(Event::Everything),
        });
    }
}

fn event_of(message: RouteNetlinkMessage) -> Option<Event> {
    match message {
        RouteNetlinkMessage::NewLink(link) => Some(link_event(link, false)),
        // A device that leaves a bridge stays where it is.
        RouteNetlinkMessage::DelLink(link) => {
            let gone = link.header.interface_family != AddressFamily::Bridge;
            Some(link_event(link, gone))
        }
        RouteNetlinkMessage::NewAddress(address) => address_event(&address, false),
        RouteNetlinkMessage::DelAddress(address) => address_event(&address, true),
        RouteNetlinkMessage::NewRoute(route) => route_event(&route, false),
        RouteNetlinkMessage::DelRoute(route) => route_event(&route, true),
        RouteNetlinkMessage::NewNeighbour(neighbour) => neighbour_event(&neighbour, false),
        RouteNetlinkMessage::DelNeighbour(neighbour) => neighbour_event(&neighbour, true),
        // The kernel asks programs to resolve a neighbour for it.
        RouteNetlinkMessage::GetNeighbour(_) => None,
        _ => Some(Event::Everything),
    }
}

fn link_event(link: LinkMessage, gone: bool) -> Event {
    let flags = link.header.flags;
    let (mut name, mut mac, mut mtu, mut master) = (None, [0; 6], 0, None);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name = Some(found),
            LinkAttribute::Address(found) => mac = found.try_into().unwrap_or_default(),
            LinkAttribute::Mtu(found) => mtu = found,
            LinkAttribute::Controller(found) => master = Some(found),
            _ => {}
        }
    }
    name.map_or(Event::Everything, |name| Event::Link {
        index: link.header.index,
        name,
        mac,
        mtu,
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        master,
        gone,
    })
}

/// `IFA_LOCAL` is the device's own; with a peer, `IFA_ADDRESS` is the peer's. IPv6 mostly has the second alone.
fn address_event(message: &AddressMessage, gone: bool) -> Option<Event> {
    let attributes = message.attributes.iter();
    let local = attributes.clone().find_map(|it| match it {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let mut others = attributes.filter_map(|it| match it {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    Some(Event::Address {
        index: message.header.index,
        address: local.or_else(|| others.next())?,
        gone,
    })
}

fn route_event(message: &RouteMessage, gone: bool) -> Option<Event> {
    let mut destination = match message.header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut index = None;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(to)) => destination = (*to).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(to)) => destination = (*to).into(),
            RouteAttribute::Oif(oif) => index = Some(*oif),
            _ => {}
        }
    }
    Some(Event::Route {
        destination: (destination, message.header.destination_prefix_length),
        index,
        gone,
    })
}

fn neighbour_event(message: &NeighbourMessage, gone: bool) -> Option<Event> {
    if message.header.family == AddressFamily::Bridge {
        return None;
    }
    let address = message.attributes.iter().find_map(|it| match it {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => {
            Some(IpAddr::V4(*address))
        }
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => {
            Some(IpAddr::V6(*address))
        }
        _ => None,
    });
    Some(Event::Neighbour {
        index: message.header.ifindex,
        address: address?,
        gone,
    })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkHeader;

    use super::*;

    fn bytes(message: RouteNetlinkMessage) -> Vec<u8> {
        let payload = NetlinkPayload::from(message);
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(NLMSG_ALIGN), 0);
        bytes
    }

    fn link(family: AddressFamily) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.interface_family = family;
        link.header.index = 7;
        link.header.flags = LinkFlags::Up | LinkFlags::LowerUp;
        link.attributes = vec![
            LinkAttribute::IfName("eth0".into()),
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1]),
            LinkAttribute::Mtu(1500),
        ];
        link
    }

    fn link_event(gone: bool) -> Event {
        Event::Link {
            index: 7,
            name: "eth0".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            carrier: true,
            master: None,
            gone,
        }
    }

    fn route(to: Option<Ipv6Addr>) -> RouteMessage {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet6;
        route.header.destination_prefix_length = if to.is_some() { 64 } else { 0 };
        route.attributes = vec![RouteAttribute::Oif(7)];
        let to = to.map(|to| RouteAttribute::Destination(RouteAddress::Inet6(to)));
        route.attributes.extend(to);
        route
    }

    fn decoded(datagram: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        decode(datagram, &mut events);
        events
    }

    fn samples() -> Vec<Vec<u8>> {
        let mut address = AddressMessage::default();
        address.header.index = 7;
        address.header.family = AddressFamily::Inet;
        let (own, peer) = ([198, 18, 0, 1], [198, 18, 0, 2]);
        address.attributes = vec![
            AddressAttribute::Address(peer.into()),
            AddressAttribute::Local(own.into()),
        ];
        let mut neighbour = NeighbourMessage::default();
        neighbour.header.ifindex = 7;
        neighbour.header.family = AddressFamily::Inet;
        neighbour.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(own.into())),
            NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 1]),
        ];
        vec![
            bytes(RouteNetlinkMessage::NewLink(link(AddressFamily::Unspec))),
            bytes(RouteNetlinkMessage::DelAddress(address)),
            bytes(RouteNetlinkMessage::NewRoute(route(Some(
                Ipv6Addr::LOCALHOST,
            )))),
            bytes(RouteNetlinkMessage::DelNeighbour(neighbour)),
        ]
    }

    fn sample_events() -> [Event; 4] {
        let address = [198, 18, 0, 1].into();
        [
            link_event(false),
            Event::Address {
                index: 7,
                address,
                gone: true,
            },
            Event::Route {
                destination: (Ipv6Addr::LOCALHOST.into(), 64),
                index: Some(7),
                gone: false,
            },
            Event::Neighbour {
                index: 7,
                address,
                gone: true,
            },
        ]
    }

    #[test]
    fn a_datagram_has_one_message_or_several() {
        for (sample, event) in samples().iter().zip(sample_events()) {
            assert_eq!(decoded(sample), [event]);
        }
        assert_eq!(decoded(&samples().concat()), sample_events());
        assert_eq!(decoded(&[]), []);
        let default = bytes(RouteNetlinkMessage::NewRoute(route(None)));
        let expected = Event::Route {
            destination: (Ipv6Addr::UNSPECIFIED.into(), 0),
            index: Some(7),
            gone: false,
        };
        assert_eq!(decoded(&default), [expected]);
    }

    #[test]
    fn a_device_that_leaves_its_bridge_is_not_gone() {
        for (family, gone) in [
            (AddressFamily::Unspec, true),
            (AddressFamily::Bridge, false),
        ] {
            let message = bytes(RouteNetlinkMessage::DelLink(link(family)));
            assert_eq!(decoded(&message), [link_event(gone)]);
        }
    }

    #[test]
    fn messages_of_other_kinds_may_be_about_anything() {
        let mut unknown = bytes(RouteNetlinkMessage::NewLink(link(AddressFamily::Unspec)));
        unknown[4..6].copy_from_slice(&999_u16.to_ne_bytes());
        assert_eq!(decoded(&unknown), [Event::Everything]);
        let rule = RouteNetlinkMessage::NewRule(Default::default());
        assert_eq!(decoded(&bytes(rule)), [Event::Everything]);
    }

    /// Nothing panics, and what cannot be read in full is never taken for nothing.
    #[test]
    fn truncated_and_broken_messages_are_everything() {
        let everything = Event::Everything;
        for sample in samples() {
            for len in 1..sample.len() {
                let events = decoded(&sample[..len]);
                assert_eq!(events.last(), Some(&everything), "{len} of {sample:?}");
            }
            // A length in the header or in an attribute that lies, and every other byte.
            for place in 0..sample.len() {
                for value in [0, 1, 3, 4, 5, 0x7f, 0xff] {
                    let mut broken = sample.clone();
                    broken[place] = value;
                    decoded(&broken);
                    broken.truncate(place + 1);
                    decoded(&broken);
                }
            }
        }
    }
}
