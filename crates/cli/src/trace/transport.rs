//! What stands behind the IP header of a packet that [`build`](super::build) makes: TCP, UDP, SCTP,
//! ICMP and neighbour discovery, with right checksums; and the addresses that follow from others.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use overlane_wire::ip::protocol;
use overlane_wire::{Emit as _, IpVersion, Mac, icmp, nd, tcp, udp};

use super::build::Build;
use super::error::PacketError;
use super::expression::Wish;
use super::fields::Transport;

/// Types of ND messages, redirect included (RFC 4861 section 4).
pub(super) const ND: RangeInclusive<u8> = nd::ROUTER_SOLICITATION..=REDIRECT;
const REDIRECT: u8 = 137;
const SOURCE_PORT: u16 = 40_000;
const HTTP: u16 = 80;
const DISCARD: u16 = 9;
/// As `ping` sends.
const PING_SIZE: u32 = 56;

/// Protocol and bytes behind the IP header.
pub(super) fn bytes(
    wish: &Wish,
    transport: Transport,
    source: IpAddr,
    destination: IpAddr,
) -> (u8, Vec<u8>) {
    let size = wish.number("size");
    match transport {
        Transport::Tcp => (protocol::TCP, tcp_bytes(wish, source, destination)),
        Transport::Udp => (protocol::UDP, udp_bytes(wish, source, destination)),
        Transport::Sctp => (protocol::SCTP, sctp_bytes(wish)),
        Transport::Icmp4 | Transport::Icmp6 => {
            let (version, name, echo, number) = match transport {
                Transport::Icmp4 => (IpVersion::V4, "icmp4", 8, protocol::ICMP),
                _ => (IpVersion::V6, "icmp6", 128, protocol::ICMPV6),
            };
            let field = |field: &str| wish.octet(&format!("{name}.{field}"));
            let kind = field("type").unwrap_or(echo);
            let code = field("code").unwrap_or(0);
            let payload = payload(size.unwrap_or(PING_SIZE));
            let rest = [0, 1, 0, 1];
            let message = icmp::Message::Other { kind, code, rest };
            (
                number,
                icmp_bytes(version, message, source, destination, &payload),
            )
        }
        Transport::Other => {
            let number = wish.octet("ip4.proto").or(wish.octet("ip6.proto"));
            (
                number.unwrap_or(protocol::NO_NEXT_HEADER),
                payload(size.unwrap_or(0)),
            )
        }
    }
}

/// Bytes that tell where they were.
pub(super) fn payload(size: u32) -> Vec<u8> {
    (0..size).map(|at| at.to_le_bytes()[0]).collect()
}

fn tcp_bytes(wish: &Wish, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let payload = payload(wish.number("size").unwrap_or(0));
    let usual = if payload.is_empty() {
        tcp::Flags::SYN.0
    } else {
        tcp::Flags::ACK.0 | tcp::Flags::PSH.0
    };
    let header = tcp::Header {
        source: wish.short("tcp.sport").unwrap_or(SOURCE_PORT),
        destination: wish.short("tcp.dport").unwrap_or(HTTP),
        sequence: 1,
        acknowledgment: 0,
        flags: tcp::Flags(wish.octet("tcp.flags").unwrap_or(usual)),
        window: u16::MAX,
        checksum: 0,
        urgent: 0,
        options: overlane_wire::tcp_option::Options::EMPTY,
    };
    let mut bytes = header
        .with_checksum(source, destination, &payload)
        .to_bytes();
    bytes.extend(payload);
    bytes
}

fn udp_bytes(wish: &Wish, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let payload = payload(wish.number("size").unwrap_or(0));
    let header = udp::Header {
        source: wish.short("udp.sport").unwrap_or(SOURCE_PORT),
        destination: wish.short("udp.dport").unwrap_or(DISCARD),
        // More than IP can carry is refused where the IP header is made.
        length: u16::try_from(udp::LEN + payload.len()).unwrap_or(0),
        checksum: 0,
    };
    let mut bytes = header
        .with_checksum(source, destination, &payload)
        .to_bytes();
    bytes.extend(payload);
    bytes
}

/// The common header (RFC 9260 section 3.1) without its CRC, which no switch reads.
fn sctp_bytes(wish: &Wish) -> Vec<u8> {
    let source = wish.short("sctp.sport").unwrap_or(SOURCE_PORT);
    let destination = wish.short("sctp.dport").unwrap_or(DISCARD);
    let mut bytes = Vec::new();
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(payload(wish.number("size").unwrap_or(0)));
    bytes
}

fn icmp_bytes(
    version: IpVersion,
    message: icmp::Message,
    source: IpAddr,
    destination: IpAddr,
    payload: &[u8],
) -> Vec<u8> {
    let header = icmp::Header {
        version,
        message,
        checksum: 0,
    };
    let mut bytes = header
        .with_checksum(source, destination, payload)
        .to_bytes();
    bytes.extend(payload);
    bytes
}

impl Build<'_> {
    /// Where a message goes of which the user did not say it.
    pub(super) fn nd_destination(&self, kind: u8) -> Result<Option<Ipv6Addr>, PacketError> {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
        Ok(match kind {
            nd::ROUTER_SOLICITATION => Some(ALL_ROUTERS),
            nd::ROUTER_ADVERTISEMENT | nd::NEIGHBOUR_ADVERTISEMENT => Some(ALL_NODES),
            nd::NEIGHBOUR_SOLICITATION => Some(nd::solicited_node(self.solicited()?)),
            _ => None,
        })
    }

    fn solicited(&self) -> Result<Ipv6Addr, PacketError> {
        let unicast = self
            .given_ip6("ip6.dst")?
            .filter(|address| !address.is_multicast());
        let target = self.given_ip6("nd.target")?.or(unicast);
        target.ok_or_else(|| PacketError::Missing {
            field: "nd.target",
            why: "nothing says which address is asked for".to_owned(),
            help: "add nd.target: an IPv6 address or the name of a port".to_owned(),
        })
    }

    /// A message with the options it usually has.
    pub(super) fn nd(
        &self,
        kind: u8,
        source: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Result<Vec<u8>, PacketError> {
        const SOLICITED: u8 = 0x40;
        const OVERRIDE: u8 = 0x20;
        let own = self.source_mac()?;
        // Whoever has no address yet has nothing to be answered at (RFC 4861 section 4.3).
        let known = (!source.is_unspecified()).then_some(own);
        let mut rest = [0; 4];
        let mut body = Vec::new();
        let (mut source_mac, mut target_mac) = (None, None);
        match kind {
            nd::ROUTER_SOLICITATION => source_mac = known,
            nd::ROUTER_ADVERTISEMENT => {
                // Hop limit 64, no flags, for half an hour; no timers.
                rest = [64, 0, 0x07, 0x08];
                body.extend([0; 8]);
                source_mac = Some(own);
            }
            nd::NEIGHBOUR_SOLICITATION => {
                body.extend(self.solicited()?.octets());
                source_mac = known;
            }
            nd::NEIGHBOUR_ADVERTISEMENT => {
                let answer = if destination.is_multicast() {
                    0
                } else {
                    SOLICITED
                };
                rest = [answer | OVERRIDE, 0, 0, 0];
                let target = self.given_ip6("nd.target")?.unwrap_or(self.own_ip6());
                body.extend(target.octets());
                target_mac = Some(own);
            }
            _ => {
                let target = self.given_ip6("nd.target")?.unwrap_or(self.own_ip6());
                body.extend(target.octets());
                body.extend(destination.octets());
            }
        }
        let source_mac = self.given_mac("nd.sll")?.or(source_mac);
        let target_mac = self.given_mac("nd.tll")?.or(target_mac);
        for (option, mac) in [(1, source_mac), (2, target_mac)] {
            if let Some(mac) = mac {
                body.extend([option, 1]);
                body.extend(mac.get());
            }
        }
        let code = self.wish.octet("icmp6.code").unwrap_or(0);
        let message = icmp::Message::Other { kind, code, rest };
        let (source, destination) = (source.into(), destination.into());
        Ok(icmp_bytes(
            IpVersion::V6,
            message,
            source,
            destination,
            &body,
        ))
    }
}

/// The MAC of a group (RFC 1112 section 6.4, RFC 2464 section 7) or of everybody.
pub(super) fn group_mac(address: IpAddr) -> Option<Mac> {
    match address {
        IpAddr::V4(address) if address.is_broadcast() => Some(Mac::BROADCAST),
        IpAddr::V4(address) if address.is_multicast() => {
            let [_, b, c, d] = address.octets();
            Some(Mac::new([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
        }
        IpAddr::V6(address) if address.is_multicast() => Some(Mac::of_ipv6_group(address)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_follow_from_others() {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let mac = |text: &str| text.parse::<Mac>().unwrap();
        assert_eq!(
            mac("02:00:00:00:00:01").link_local(),
            address("fe80::ff:fe00:1")
        );
        assert_eq!(
            nd::solicited_node(address("2001:2::12:3456")),
            address("ff02::1:ff12:3456")
        );
        for (group, expected) in [
            ("224.128.0.251", Some("01:00:5e:00:00:fb")),
            ("255.255.255.255", Some("ff:ff:ff:ff:ff:ff")),
            ("ff02::1:ff12:3456", Some("33:33:ff:12:34:56")),
            ("198.18.0.1", None),
            ("2001:2::1", None),
        ] {
            assert_eq!(group_mac(group.parse().unwrap()), expected.map(mac));
        }
    }
}
