//! [`Wish`] + fabric → the packet as the port's device hands it over. What the user left out follows
//! from the fabric (addresses, owners of addresses) or is what a guest would send. Before it:
//! [`expression`](super::expression); [`transport`](super::transport) writes what stands behind IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{Fabric, Name, Port, Router};
use overlane_pipeline::{Gso, GsoKind, Packet};
use overlane_wire::ethernet::Tag;
use overlane_wire::ip::protocol;
use overlane_wire::ipv6_extension::Extensions;
use overlane_wire::{Ecn, Emit as _, EtherType, Mac, VlanTag, arp, ethernet, ipv4, ipv6};

use super::error::{PacketError, did_you_mean};
use super::expression::{Of, Wish};
use super::fields::{Layer, Network, Takes, Transport};
use super::transport;

/// Type of a frame of which nothing but Ethernet was said: "local experimental" (IEEE 802).
const EXPERIMENTAL: EtherType = EtherType(0x88b5);
/// Payload that makes such a frame as long as Ethernet asks.
const EXPERIMENTAL_SIZE: u32 = 46;
/// A station in the physical network: locally administered, in nobody's way.
const OUTSIDE: Mac = Mac::new([0x02, 0, 0, 0xff, 0xff, 0xfe]);
const TTL: u8 = 64;
/// ND is only believed with this hop limit (RFC 4861 section 7.1).
const ND_HOP_LIMIT: u8 = 255;

/// Who sends the packet.
#[derive(Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// A logical port.
    Port(&'a Port),
    /// Somebody in the physical network, to the leg of this router: it has the router's MAC, as the file does not
    /// say the device's.
    Outside(&'a Router),
}

impl<'a> Sender<'a> {
    fn mac(self) -> Mac {
        match self {
            Self::Port(port) => port.mac,
            Self::Outside(_) => OUTSIDE,
        }
    }

    fn addresses(self) -> &'a [IpAddr] {
        match self {
            Self::Port(port) => &port.addresses,
            Self::Outside(_) => &[],
        }
    }

    fn switch(self) -> Option<&'a Name> {
        match self {
            Self::Port(port) => Some(&port.switch),
            Self::Outside(_) => None,
        }
    }

    /// Why it has no address of a family.
    fn no_address(self, family: &str) -> String {
        match self {
            Self::Port(port) => format!("port {} has no {family} address in the fabric", port.name),
            Self::Outside(_) => "the fabric does not know who sends from outside".to_owned(),
        }
    }
}

/// The packet that somebody sends.
pub(crate) fn packet(
    fabric: &Fabric,
    sender: Sender<'_>,
    wish: &Wish,
) -> Result<Packet, PacketError> {
    let build = Build {
        fabric,
        sender,
        wish,
    };
    let (destination, ethertype, payload) = match build.network()? {
        Network::Arp => build.arp()?,
        Network::Ip4 => build.ip4()?,
        Network::Raw | Network::Ip => build.raw()?,
        Network::Ip6 => build.ip6()?,
    };
    let header = ethernet::Header {
        destination,
        source: build.source_mac()?,
        tags: ethernet::Tags::NONE,
        ethertype,
    };
    let mut bytes = header.to_bytes();
    bytes.extend(payload);
    Ok(Packet {
        tag: build.tag(),
        gso: build.gso(),
        ..Packet::new(bytes)
    })
}

/// Receiver, type, and what follows the Ethernet header.
type Frame = (Mac, EtherType, Vec<u8>);

pub(super) struct Build<'a> {
    fabric: &'a Fabric,
    sender: Sender<'a>,
    pub(super) wish: &'a Wish,
}

impl<'a> Build<'a> {
    /// The header behind Ethernet, [`Network::Ip`] decided: the first family in which both ends have
    /// an address.
    fn network(&self) -> Result<Network, PacketError> {
        let network = self.wish.network().unwrap_or(Network::Raw);
        if network != Network::Ip {
            return Ok(network);
        }
        let owner = self
            .given_mac("eth.dst")?
            .and_then(|mac| self.owner_of_mac(mac));
        let Some(owner) = owner else {
            return Err(PacketError::Missing {
                field: "ip4.dst",
                why: "nothing says where the packet goes".to_owned(),
                help: "add ip4.dst, ip6.dst, or eth.dst of a port that has addresses".to_owned(),
            });
        };
        if first_ip4(self.sender.addresses()).is_some() && first_ip4(&owner.addresses).is_some() {
            return Ok(Network::Ip4);
        }
        if first_ip6(&owner.addresses).is_some() {
            return Ok(Network::Ip6);
        }
        Err(PacketError::Missing {
            field: "ip4.dst",
            why: match self.sender {
                Sender::Port(port) => {
                    format!("ports {} and {} share no family", port.name, owner.name)
                }
                Sender::Outside(_) => self.sender.no_address("IP"),
            },
            help: "add ip4.src and ip4.dst, or ip6.dst".to_owned(),
        })
    }

    fn raw(&self) -> Result<Frame, PacketError> {
        let destination = self
            .given_mac("eth.dst")?
            .ok_or_else(|| PacketError::Missing {
                field: "eth.dst",
                why: "nothing says where the frame goes".to_owned(),
                help: "add eth.dst, ip4.dst or ip6.dst: an address, or the name of a port"
                    .to_owned(),
            })?;
        let ethertype = self.wish.short("eth.type").map_or(EXPERIMENTAL, EtherType);
        let size = self.wish.number("size").unwrap_or(EXPERIMENTAL_SIZE);
        Ok((destination, ethertype, transport::payload(size)))
    }

    fn arp(&self) -> Result<Frame, PacketError> {
        let operation = self
            .wish
            .short("arp.op")
            .map_or(arp::Operation::Request, Into::into);
        let request = operation == arp::Operation::Request;
        let given = self.given_mac("eth.dst")?;
        let asked = given.and_then(|mac| self.owner_of_mac(mac));
        let target = self
            .given_ip4("arp.tpa")?
            .or_else(|| asked.and_then(|owner| first_ip4(&owner.addresses)))
            .ok_or_else(|| PacketError::Missing {
                field: "arp.tpa",
                why: "nothing says which address is asked for".to_owned(),
                help: "add arp.tpa: an IPv4 address or the name of a port".to_owned(),
            })?;
        let target_mac = match self.given_mac("arp.tha")? {
            Some(mac) => mac,
            None if request => Mac::ZERO,
            None => match given {
                Some(mac) => mac,
                None => self.mac_of(target.into())?,
            },
        };
        let sender = self
            .given_ip4("arp.spa")?
            .or_else(|| first_ip4(self.sender.addresses()));
        let header = arp::Header {
            operation,
            sender_mac: match self.given_mac("arp.sha")? {
                Some(mac) => mac,
                None => self.source_mac()?,
            },
            // Without an address of its own it can only probe (RFC 5227).
            sender: sender.unwrap_or(Ipv4Addr::UNSPECIFIED),
            target_mac,
            target,
        };
        let destination = given.unwrap_or(if request { Mac::BROADCAST } else { target_mac });
        Ok((destination, EtherType::ARP, header.to_bytes()))
    }

    fn ip4(&self) -> Result<Frame, PacketError> {
        let given = self.given_mac("eth.dst")?;
        let owner = given.and_then(|mac| self.owner_of_mac(mac));
        let destination = self
            .given_ip4("ip4.dst")?
            .or_else(|| owner.and_then(|owner| first_ip4(&owner.addresses)))
            .ok_or_else(|| no_destination("ip4.dst"))?;
        let source = self
            .given_ip4("ip4.src")?
            .or_else(|| first_ip4(self.sender.addresses()))
            .ok_or_else(|| PacketError::Missing {
                field: "ip4.src",
                why: self.sender.no_address("IPv4"),
                help: "add ip4.src".to_owned(),
            })?;
        let mac = match given {
            Some(mac) => mac,
            None => self.mac_of(destination.into())?,
        };
        let (number, body) = self.behind_ip(source.into(), destination.into())?;
        let size = self.wish.number("size").unwrap_or(0) as usize;
        let too_long = || PacketError::TooLong {
            size,
            most: (usize::from(u16::MAX) - ipv4::LEN).saturating_sub(body.len() - size),
        };
        let header = ipv4::Header {
            dscp: self.wish.octet("ip4.dscp").unwrap_or(0),
            ecn: Ecn::from_bits(self.wish.octet("ip4.ecn").unwrap_or(0)),
            total_len: u16::try_from(ipv4::LEN + body.len()).map_err(|_| too_long())?,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: self.wish.octet("ip4.ttl").unwrap_or(TTL),
            protocol: number,
            source,
            destination,
            options: ipv4::Options::EMPTY,
        };
        let mut bytes = header.to_bytes();
        bytes.extend(body);
        Ok((mac, EtherType::IPV4, bytes))
    }

    fn ip6(&self) -> Result<Frame, PacketError> {
        let given = self.given_mac("eth.dst")?;
        let owner = given.and_then(|mac| self.owner_of_mac(mac));
        let nd = self.nd_kind()?;
        let destination = match self.given_ip6("ip6.dst")? {
            Some(address) => Some(address),
            None => nd.map_or(Ok(None), |kind| self.nd_destination(kind))?,
        };
        let destination = destination
            .or_else(|| owner.and_then(|owner| first_ip6(&owner.addresses)))
            .ok_or_else(|| no_destination("ip6.dst"))?;
        let source = self.source_ip6(destination)?;
        let mac = match given {
            Some(mac) => mac,
            None => self.mac_of(destination.into())?,
        };
        let (number, body) = match nd {
            Some(kind) => (protocol::ICMPV6, self.nd(kind, source, destination)?),
            None => self.behind_ip(source.into(), destination.into())?,
        };
        let size = self.wish.number("size").unwrap_or(0) as usize;
        let too_long = || PacketError::TooLong {
            size,
            most: usize::from(u16::MAX).saturating_sub(body.len() - size),
        };
        let hop_limit = if nd.is_some() { ND_HOP_LIMIT } else { TTL };
        let header = ipv6::Header {
            dscp: self.wish.octet("ip6.dscp").unwrap_or(0),
            ecn: Ecn::from_bits(self.wish.octet("ip6.ecn").unwrap_or(0)),
            flow_label: 0,
            payload_len: u16::try_from(body.len()).map_err(|_| too_long())?,
            hop_limit: self.wish.octet("ip6.hop_limit").unwrap_or(hop_limit),
            source,
            destination,
            extensions: Extensions::none(number),
        };
        let mut bytes = header.to_bytes();
        bytes.extend(body);
        Ok((mac, EtherType::IPV6, bytes))
    }

    /// Link-local to link-local, else the port's first address.
    pub(super) fn source_ip6(&self, destination: Ipv6Addr) -> Result<Ipv6Addr, PacketError> {
        if let Some(address) = self.given_ip6("ip6.src")? {
            return Ok(address);
        }
        let link_local = self.source_mac()?.link_local();
        if destination.is_unicast_link_local() {
            return Ok(link_local);
        }
        match (first_ip6(self.sender.addresses()), self.sender) {
            (Some(address), _) => Ok(address),
            (None, Sender::Port(_)) => Ok(link_local),
            (None, Sender::Outside(_)) => Err(PacketError::Missing {
                field: "ip6.src",
                why: self.sender.no_address("IPv6"),
                help: "add ip6.src".to_owned(),
            }),
        }
    }

    /// The protocol behind IP and its bytes; a ping if none was named.
    fn behind_ip(&self, source: IpAddr, destination: IpAddr) -> Result<(u8, Vec<u8>), PacketError> {
        let ping = match source {
            IpAddr::V4(_) => Transport::Icmp4,
            IpAddr::V6(_) => Transport::Icmp6,
        };
        let transport = self.wish.transport().unwrap_or(ping);
        Ok(transport::bytes(self.wish, transport, source, destination))
    }

    /// The tag on the device: of the port if it is on a trunk, or as the user says.
    fn tag(&self) -> Option<Tag> {
        let of_port = match self.sender {
            Sender::Port(port) => port.attachment.vlan.map(|vlan| vlan.get()),
            Sender::Outside(_) => None,
        };
        let priority = self.wish.octet("vlan.pcp");
        let id = self.wish.short("vlan.id").or(of_port);
        // A priority alone is a tag with VLAN 0 (IEEE 802.1Q).
        let id = id.or(priority.map(|_| 0))?;
        let tag = VlanTag::new(id, priority.unwrap_or(0), false).ok()?;
        Some(Tag {
            service: false,
            tag,
        })
    }

    fn gso(&self) -> Option<Gso> {
        let size = self.wish.short("gso")?;
        let kind = match self.wish.transport()? {
            Transport::Tcp => GsoKind::Tcp,
            Transport::Udp => GsoKind::Udp,
            Transport::Sctp => GsoKind::Sctp,
            Transport::Icmp4 | Transport::Icmp6 | Transport::Other => return None,
        };
        let segments = self.wish.number("size")?.div_ceil(u32::from(size));
        // What fits into one segment is no super-packet.
        (segments > 1).then_some(Gso {
            kind,
            size,
            segments,
        })
    }

    pub(super) fn source_mac(&self) -> Result<Mac, PacketError> {
        Ok(self.given_mac("eth.src")?.unwrap_or(self.sender.mac()))
    }

    /// The port's first IPv6 address, or its link-local one.
    pub(super) fn own_ip6(&self) -> Ipv6Addr {
        first_ip6(self.sender.addresses()).unwrap_or(self.sender.mac().link_local())
    }

    /// Where a packet for this address goes on Ethernet.
    fn mac_of(&self, address: IpAddr) -> Result<Mac, PacketError> {
        if let Some(mac) = transport::group_mac(address) {
            return Ok(mac);
        }
        let port = match self.sender {
            Sender::Port(port) => port,
            Sender::Outside(router) => return Ok(router.mac),
        };
        let owns = |port: &&Port| {
            port.addresses.contains(&address) || IpAddr::V6(port.mac.link_local()) == address
        };
        let owner = self.neighbours().find(owns).map(|port| port.mac);
        owner
            .or_else(|| self.router_for(address))
            .ok_or_else(|| PacketError::Missing {
                field: "eth.dst",
                why: format!(
                    "no port of switch {} has {address}, and no router there leads to it",
                    port.switch
                ),
                help: "add eth.dst: the name of a port that routes, for example".to_owned(),
            })
    }

    /// The MAC of a router of the switch: the one whose address it is; else, for an address that is not
    /// on the switch itself, the first that has an address of its family there.
    fn router_for(&self, address: IpAddr) -> Option<Mac> {
        let routers = || {
            let routers = self.fabric.routers().values();
            routers.filter_map(|router| {
                let mut interfaces = router.interfaces.iter();
                let here =
                    interfaces.find(|interface| Some(&interface.switch) == self.sender.switch())?;
                Some((router, &here.addresses))
            })
        };
        let own = routers().find(|(router, networks)| {
            let mut networks = networks.iter();
            IpAddr::V6(router.link_local()) == address
                || networks.any(|network| network.addr() == address)
        });
        let is_on_the_switch = routers().any(|(_, networks)| {
            let mut networks = networks.iter();
            networks.any(|network| network.contains(&address))
        });
        let way_out = routers()
            .filter(|_| !is_on_the_switch)
            .find(|(_, networks)| {
                let mut networks = networks.iter();
                networks.any(|network| network.addr().is_ipv4() == address.is_ipv4())
            });
        own.or(way_out).map(|(router, _)| router.mac)
    }

    /// The ports of the same switch, this one included.
    fn neighbours(&self) -> impl Iterator<Item = &'a Port> {
        let switch = self.sender.switch();
        let ports = self.fabric.ports().values();
        ports.filter(move |port| Some(&port.switch) == switch)
    }

    fn owner_of_mac(&self, mac: Mac) -> Option<&'a Port> {
        self.neighbours().find(|port| port.mac == mac)
    }

    pub(super) fn given_mac(&self, field: &'static str) -> Result<Option<Mac>, PacketError> {
        self.given(field, self.wish.station(field), Takes::Station, |port| {
            Some(port.mac)
        })
    }

    fn given_ip4(&self, field: &'static str) -> Result<Option<Ipv4Addr>, PacketError> {
        self.given(field, self.wish.ip4(field), Takes::Ip4, |port| {
            first_ip4(&port.addresses)
        })
    }

    pub(super) fn given_ip6(&self, field: &'static str) -> Result<Option<Ipv6Addr>, PacketError> {
        self.given(field, self.wish.ip6(field), Takes::Ip6, |port| {
            first_ip6(&port.addresses)
        })
    }

    /// What the user gave, the name of a port replaced by what is meant of it.
    fn given<T: Copy>(
        &self,
        field: &'static str,
        value: Option<&Of<T>>,
        takes: Takes,
        of_port: impl Fn(&Port) -> Option<T>,
    ) -> Result<Option<T>, PacketError> {
        let name = match value {
            None => return Ok(None),
            Some(Of::Given(value)) => return Ok(Some(*value)),
            Some(Of::Port(name)) => name,
        };
        let ports = self.fabric.ports();
        let found = ports.get(name);
        if let Some(value) = found.and_then(of_port) {
            return Ok(Some(value));
        }
        let help = match found {
            Some(_) => Some(format!("port {name} has no such address in the fabric")),
            None => did_you_mean(name.as_str(), ports.keys().map(Name::as_str)),
        };
        Err(PacketError::Value {
            field,
            value: name.to_string(),
            allowed: takes.describe(),
            help,
        })
    }

    /// The number of the ND message that was asked for, if one was.
    fn nd_kind(&self) -> Result<Option<u8>, PacketError> {
        let by_type = self.wish.octet("icmp6.type");
        let by_kind = self.wish.octet("nd.kind");
        let nd = self.wish.has(Layer::Nd);
        match (by_type, by_kind) {
            (Some(one), Some(other)) if one != other => {
                Err(PacketError::Conflict("icmp6.type", "nd.kind"))
            }
            (Some(kind), _) if transport::ND.contains(&kind) => Ok(Some(kind)),
            (Some(_), _) if nd => Err(PacketError::Conflict("icmp6.type", "nd")),
            (None, Some(kind)) => Ok(Some(kind)),
            (None, None) if nd => Ok(Some(*transport::ND.start() + 2)),
            _ => Ok(None),
        }
    }
}

fn no_destination(field: &'static str) -> PacketError {
    PacketError::Missing {
        field,
        why: "nothing says where the packet goes".to_owned(),
        help: format!("add {field}: an address or the name of a port"),
    }
}

fn first_ip4(addresses: &[IpAddr]) -> Option<Ipv4Addr> {
    addresses.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

fn first_ip6(addresses: &[IpAddr]) -> Option<Ipv6Addr> {
    addresses.iter().find_map(|address| match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(*address),
    })
}

#[cfg(test)]
#[path = "build_test.rs"]
mod tests;
