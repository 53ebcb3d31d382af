//! Stage port_security: a guest speaks for itself only. Its MAC and addresses, also inside ARP and
//! neighbour discovery; no DHCP server (RFC 7610) and no router (RFC 6105, RFC 7113) unless the fabric
//! allows it. Between `parse` and `learn`.

mod nd;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Verdict;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Mac, arp, ethernet};

use crate::bytes::be16;
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::{Frame, Ip};
use crate::port::Source;

const STAGE: &str = "port_security";
const DHCP_SERVER: u16 = 67;
const DHCP_CLIENT: u16 = 68;
const DHCPV6_SERVER: u16 = 547;

pub(crate) fn port_security(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage {
    let port = source.port;
    if !port.security.check_mac {
        return Stage::Continue(());
    }
    if port.learning.is_none() && frame.source != port.mac {
        return refuse(cx, source, Verdict::SpoofedMac, || {
            format!(
                "the source {} is not {}, the MAC of",
                frame.source, port.mac
            )
        });
    }
    if frame.ethertype == EtherType::ARP {
        return check_arp(cx, source, frame);
    }
    let Some(ip) = frame.ip else {
        return Stage::Continue(());
    };
    if port.security.check_addresses && !is_own_source(cx, source, frame, &ip) {
        return refuse(cx, source, Verdict::SpoofedIp, || {
            format!("the source {} is no address of", ip.source)
        });
    }
    let server = match ip.source {
        IpAddr::V4(_) => DHCP_SERVER,
        IpAddr::V6(_) => DHCPV6_SERVER,
    };
    if udp_ports(frame, &ip).is_some_and(|(from, _)| from == server) {
        check_dhcp_server(cx, source)?;
    }
    match ip.source {
        IpAddr::V4(_) => Stage::Continue(()),
        IpAddr::V6(_) => nd::check_headers(cx, source, frame, &ip),
    }
}

/// RFC 826; 0.0.0.0 is the sender of a probe (RFC 5227 section 1.1).
fn check_arp(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage {
    let packet = frame.bytes.get(ethernet::LEN..).unwrap_or_default();
    let Ok(arp) = arp::View::new_checked(packet) else {
        return refuse(
            cx,
            source,
            Verdict::SpoofedArp,
            || "ARP that is not whole, or not for IPv4 over Ethernet, is refused at",
        );
    };
    if arp.sender_mac() != frame.source {
        return refuse(cx, source, Verdict::SpoofedArp, || {
            let (sender, source) = (arp.sender_mac(), frame.source);
            format!("ARP speaks for {sender} in a frame of {source}, refused at")
        });
    }
    let sender = arp.sender();
    if source.port.security.check_addresses
        && !sender.is_unspecified()
        && !owns(cx, source, sender.into())
    {
        return refuse(cx, source, Verdict::SpoofedArp, || {
            format!("ARP speaks for {sender}, which is no address of")
        });
    }
    Stage::Continue(())
}

fn is_own_source(cx: &Context<'_>, source: &Source<'_>, frame: &Frame<'_>, ip: &Ip) -> bool {
    match ip.source {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            udp_ports(frame, ip) == Some((DHCP_CLIENT, DHCP_SERVER))
        }
        IpAddr::V4(_) => owns(cx, source, ip.source),
        // Duplicate address detection, multicast listener reports.
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => ip.protocol == protocol::ICMPV6,
        IpAddr::V6(addr) => owns(cx, source, ip.source) || addr == link_local(frame.source),
    }
}

/// The fabric gave the address to the port.
fn owns(cx: &Context<'_>, source: &Source<'_>, addr: IpAddr) -> bool {
    let neighbour = cx.host.neighbour(source.port.switch, addr);
    neighbour.is_some_and(|neighbour| neighbour.key == source.port.key)
}

/// fe80::/64 and the modified EUI-64 of the MAC (RFC 4291 appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.get();
    let eui = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(u64::from_be_bytes(eui)))
}

/// Ports of a UDP header that is there: also of a first fragment.
fn udp_ports(frame: &Frame<'_>, ip: &Ip) -> Option<(u16, u16)> {
    if ip.protocol != protocol::UDP || ip.later_fragment {
        return None;
    }
    be16(&frame.bytes, ip.l4_at).zip(be16(&frame.bytes, ip.l4_at + 2))
}

fn check_dhcp_server(cx: &mut Context<'_>, source: &Source<'_>) -> Stage {
    if source.port.security.allow_dhcp_server {
        return Stage::Continue(());
    }
    refuse(
        cx,
        source,
        Verdict::DhcpServer,
        || "a DHCP server's packet needs `allow: [dhcp_server]` at",
    )
}

/// `why` goes on with the port.
fn refuse<T: Into<String>>(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    reason: Verdict,
    why: impl FnOnce() -> T,
) -> Stage {
    cx.end(STAGE, reason, || {
        let name = &source.port.name;
        Found::by_port(format!("{} port {name}", why().into()), name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_address_of_a_mac() {
        // RFC 4291 appendix A: the universal/local bit is inverted.
        let mac = Mac::new([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(link_local(mac).to_string(), "fe80::3656:78ff:fe9a:bcde");
        let mac = Mac::new([0x02, 0, 0, 0, 0, 0x11]);
        assert_eq!(link_local(mac).to_string(), "fe80::ff:fe00:11");
    }
}
