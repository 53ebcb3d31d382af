//! [`Wish`] + fabric → the packet as the port's device hands it over. What the user left out follows
//! from the fabric ([`stations`](super::stations)) or is what a guest would send. Before it:
//! [`expression`](super::expression); [`transport`](super::transport) writes what stands behind IP.

use std::net::{IpAddr, Ipv4Addr};

use overlane_model::Fabric;
use overlane_pipeline::{Gso, GsoKind, Packet};
use overlane_wire::ethernet::Tag;
use overlane_wire::ip::protocol;
use overlane_wire::ipv6_extension::Extensions;
use overlane_wire::{Ecn, Emit as _, EtherType, Mac, VlanTag, arp, ethernet, ipv4, ipv6};

use super::error::PacketError;
use super::expression::Wish;
use super::fields::{Layer, Network, Transport};
use super::stations::{Sender, first_ip4, first_ip6};
use super::transport;

/// Type of a frame of which nothing but Ethernet was said: "local experimental" (IEEE 802).
const EXPERIMENTAL: EtherType = EtherType(0x88b5);
/// Payload that makes such a frame as long as Ethernet asks.
const EXPERIMENTAL_SIZE: u32 = 46;
const TTL: u8 = 64;
/// ND is only believed with this hop limit (RFC 4861 section 7.1).
const ND_HOP_LIMIT: u8 = 255;

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
    pub(super) fabric: &'a Fabric,
    pub(super) sender: Sender<'a>,
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

#[cfg(test)]
#[path = "build_test.rs"]
mod tests;
