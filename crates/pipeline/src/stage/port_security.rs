//! Stage port_security: a guest speaks for itself only. Its MAC and addresses, also inside ARP and
//! neighbour discovery; no DHCP server (RFC 7610) and no router (RFC 6105, RFC 7113) unless the fabric
//! allows it. Between `parse` and `learn`.

mod nd;
mod owner;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Verdict;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, arp, ethernet};

use crate::lib::bytes::{array, be16};
use crate::lib::context::{Context, Stage};
use crate::lib::frame::Frame;
use crate::lib::ip::Ip;
use crate::lib::source::Source;
use crate::lib::upkeep::{is_igmp_report, is_mld_report};
use owner::{
    Owner, may_claim, may_probe, owner, refuse, refuse_claim, refuse_vtep, speaks_for_mac,
};

const DHCP_SERVER: u16 = 67;
const DHCP_CLIENT: u16 = 68;
const DHCPV6_CLIENT: u16 = 546;
const DHCPV6_SERVER: u16 = 547;

pub(crate) fn port_security(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage {
    let port = source.port;
    if !port.security.check_mac {
        return Stage::Continue(());
    }
    let is_own_mac = frame.source == port.mac || port.allowed_macs.contains(&frame.source);
    if port.learning.is_none() && !is_own_mac {
        return refuse(cx, source, Verdict::SpoofedMac, || {
            let (found, own) = (frame.source, port.mac);
            match port.allowed_macs.is_empty() {
                true => format!("the source {found} is not {own}, the MAC of"),
                false => format!("the source {found} is not {own}, and none of `allowed_macs` of"),
            }
        });
    }
    if frame.ethertype == EtherType::ARP {
        return check_arp(cx, source, frame);
    }
    let Some(ip) = frame.ip else {
        return check_snap(cx, source, frame);
    };
    if port.security.check_addresses && !is_own_source(cx, source, frame, &ip) {
        return refuse(cx, source, Verdict::SpoofedIp, || {
            format!("the source {} is no address of", ip.source)
        });
    }
    if let Some(vtep) = cx.host.vtep_among(&[ip.source, ip.destination]) {
        return refuse_vtep(cx, source, "a packet from or to", vtep);
    }
    check_dhcp(cx, source, &ip, udp_ports(frame, &ip))?;
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
    if !speaks_for_mac(source, frame, arp.sender_mac()) {
        return refuse(cx, source, Verdict::SpoofedArp, || {
            let (sender, source) = (arp.sender_mac(), frame.source);
            format!("ARP speaks for {sender} in a frame of {source}, refused at")
        });
    }
    let sender = IpAddr::V4(arp.sender());
    if let Some(vtep) = cx.host.vtep_among(&[sender]) {
        return refuse_vtep(cx, source, "ARP speaks for", vtep);
    }
    if sender.is_unspecified() {
        return check_probe(cx, source, frame, &arp);
    }
    let owner = owner(cx, source, frame, sender);
    if may_claim(source, &owner) {
        return Stage::Continue(());
    }
    let what = "ARP speaks for";
    refuse_claim(cx, source, Verdict::SpoofedArp, what, sender, &owner)
}

/// Whether an address is free asks only who may use it: for another's, the answer says that it is taken.
fn check_probe(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    arp: &arp::View<'_>,
) -> Stage {
    if arp.operation() != arp::Operation::Request {
        return refuse(
            cx,
            source,
            Verdict::SpoofedArp,
            || "ARP from 0.0.0.0 that is no request is refused at",
        );
    }
    let target = arp.target();
    let owner = owner(cx, source, frame, target.into());
    if may_probe(source, &owner) {
        return Stage::Continue(());
    }
    let what = "ARP probes for";
    refuse_claim(cx, source, Verdict::SpoofedArp, what, target.into(), &owner)
}

/// Behind a length: Ethernet's types in another coat (RFC 1042, IEEE 802.1H), which some stacks take off.
fn check_snap(cx: &mut Context<'_>, source: &Source<'_>, frame: &Frame<'_>) -> Stage {
    let header = array::<6>(&frame.bytes, ethernet::LEN);
    let is_snap = matches!(header, Some([0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8]));
    if !frame.ethertype.is_length() || !is_snap {
        return Stage::Continue(());
    }
    refuse(
        cx,
        source,
        Verdict::HiddenHeader,
        || "a SNAP header could hide ARP and IP, refused at",
    )
}

/// Its addresses; of nobody, what a host sends that has none yet.
fn is_own_source(cx: &Context<'_>, source: &Source<'_>, frame: &Frame<'_>, ip: &Ip) -> bool {
    match ip.source {
        addr if matches!(owner(cx, source, frame, addr), Owner::Port) => true,
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
            is_dhcp_clients(frame, ip) || is_igmp_report(frame, ip)
        }
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            nd::is_detection(frame, ip) || is_mld_report(frame, ip)
        }
        _ => false,
    }
}

/// RFC 2131 section 4.1: to everybody, and whole.
fn is_dhcp_clients(frame: &Frame<'_>, ip: &Ip) -> bool {
    udp_ports(frame, ip) == Some((DHCP_CLIENT, DHCP_SERVER))
        && !ip.is_fragment()
        && ip.destination == IpAddr::V4(Ipv4Addr::BROADCAST)
        && frame.destination.is_broadcast()
}

/// Ports of a UDP header that is there: also of a first fragment.
fn udp_ports(frame: &Frame<'_>, ip: &Ip) -> Option<(u16, u16)> {
    if ip.protocol != protocol::UDP || ip.is_later_fragment() || !frame.has_ports_inside(ip) {
        return None;
    }
    be16(&frame.bytes, ip.l4_at).zip(be16(&frame.bytes, ip.l4_at + 2))
}

/// A server speaks from its port, or to the port of clients: no client listens to anybody else.
fn check_dhcp(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    ip: &Ip,
    ports: Option<(u16, u16)>,
) -> Stage {
    let (server, client) = match ip.source {
        IpAddr::V4(_) => (DHCP_SERVER, DHCP_CLIENT),
        IpAddr::V6(_) => (DHCPV6_SERVER, DHCPV6_CLIENT),
    };
    let is_servers = ports.is_some_and(|(from, to)| from == server || to == client);
    if !is_servers || source.port.security.allow_dhcp_server {
        return Stage::Continue(());
    }
    refuse(
        cx,
        source,
        Verdict::DhcpServer,
        || "a DHCP server's packet needs `allow: [dhcp_server]` at",
    )
}
