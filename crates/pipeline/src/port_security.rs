//! Stage port_security: a guest speaks for itself only. Its MAC and addresses, also inside ARP and
//! neighbour discovery; no DHCP server (RFC 7610) and no router (RFC 6105, RFC 7113) unless the fabric
//! allows it. Between `parse` and `learn`.

mod nd;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use overlane_model::{Name, Place, PortTable, Verdict};
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Mac, arp, ethernet};

use crate::bytes::{array, be16};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::learn::sharers;
use crate::link_upkeep::{is_igmp_report, is_mld_report};
use crate::parse::{Frame, Ip};
use crate::port::Source;

const STAGE: &str = "port_security";
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
    if arp.sender_mac() != frame.source {
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

/// Whose an address is.
enum Owner<'a> {
    /// The port's; or the link-local address that its guest made itself.
    Port,
    /// The fabric gave it to this other one.
    Other(Other<'a>),
    Nobody,
}

enum Other<'a> {
    Port(&'a Name),
    Router(&'a Name),
    /// It floats among these.
    Sharers(&'a [Name]),
}

impl fmt::Display for Other<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(name) => write!(f, "port {name}"),
            Self::Router(name) => write!(f, "router {name}"),
            Self::Sharers(ports) => f.write_str(&sharers(ports)),
        }
    }
}

fn owner<'a>(cx: &Context<'a>, source: &Source<'_>, frame: &Frame<'_>, addr: IpAddr) -> Owner<'a> {
    if addr == frame.source.link_local() || is_link_local_of(source.port, addr) {
        return Owner::Port;
    }
    match cx.host.neighbour(source.port.switch, addr) {
        Some(neighbour) if neighbour.key == source.port.key => Owner::Port,
        Some(neighbour) => Owner::Other(match neighbour.router {
            Some(_) => Other::Router(&neighbour.port),
            None => Other::Port(&neighbour.port),
        }),
        None => floating_owner(cx, source, addr),
    }
}

/// Of an address that the fabric gave to nobody for itself: several ports may share it, or the port may use what is
/// nobody's.
fn floating_owner<'a>(cx: &Context<'a>, source: &Source<'_>, addr: IpAddr) -> Owner<'a> {
    if matches!(addr, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Owner::Nobody;
    }
    let allowed = &source.port.allowed_addresses;
    let is_free = || link_local_owner(cx, source, addr).is_none();
    match cx.host.floating_address(source.port.switch, addr) {
        Some(_) if allowed.contains(&IpNet::from(addr)) && is_free() => Owner::Port,
        Some(floating) => Owner::Other(Other::Sharers(&floating.ports)),
        None if allowed.iter().any(|it| it.contains(&addr)) && is_free() => Owner::Port,
        None => Owner::Nobody,
    }
}

/// At a port that has several MACs, the address made from any of them is its own, whichever the frame is from.
fn is_link_local_of(port: &PortTable, addr: IpAddr) -> bool {
    let mut allowed = port.allowed_macs.iter();
    let is_of_allowed = allowed.any(|mac| addr == mac.link_local());
    is_of_allowed || (!port.allowed_macs.is_empty() && addr == port.mac.link_local())
}

/// The same in neighbour discovery, where the link-local address made from another's MAC is the other's.
fn owner_on_link<'a>(
    cx: &Context<'a>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    addr: Ipv6Addr,
) -> Owner<'a> {
    match owner(cx, source, frame, addr.into()) {
        Owner::Nobody => {
            let other = link_local_owner(cx, source, addr.into());
            other.map_or(Owner::Nobody, Owner::Other)
        }
        owner => owner,
    }
}

/// From whose MAC a link-local address is made, if it is another's.
fn link_local_owner<'a>(cx: &Context<'a>, source: &Source<'_>, addr: IpAddr) -> Option<Other<'a>> {
    let IpAddr::V6(addr) = addr else { return None };
    let [.., a, b, c, _, _, d, e, f] = addr.octets();
    let mac = Mac::new([a ^ 2, b, c, d, e, f]);
    if mac.link_local() != addr {
        return None;
    }
    if let Some(floating) = cx.host.floating_mac(source.port.switch, mac) {
        return Some(Other::Sharers(&floating.ports));
    }
    let entry = cx.host.fdb_entry(source.port.switch, mac)?;
    (entry.key != source.port.key).then_some(match entry.place {
        Place::Router(_) => Other::Router(&entry.port),
        _ => Other::Port(&entry.port),
    })
}

/// Whether the port may speak of an address as its own: never of another's, and of nobody's where the
/// fabric does not know the port's.
fn may_claim(source: &Source<'_>, owner: &Owner<'_>) -> bool {
    match owner {
        Owner::Port => true,
        Owner::Other(_) => false,
        Owner::Nobody => !source.port.security.check_addresses,
    }
}

/// Whether the port may ask from nowhere for an address. For what one port has, an answer from here defends it; a new
/// owner of what floats would take the question for a conflict.
fn may_probe(source: &Source<'_>, owner: &Owner<'_>) -> bool {
    match owner {
        Owner::Other(Other::Sharers(_)) => false,
        Owner::Port | Owner::Other(_) => true,
        Owner::Nobody => !source.port.security.check_addresses,
    }
}

/// `what` goes on with the address.
fn refuse_claim(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    reason: Verdict,
    what: &str,
    addr: IpAddr,
    owner: &Owner<'_>,
) -> Stage {
    refuse(cx, source, reason, || match owner {
        Owner::Other(other) => format!("{what} {addr}, an address of {other}, refused at"),
        Owner::Port | Owner::Nobody => format!("{what} {addr}, which is no address of"),
    })
}

/// The underlay is nobody's in a logical network. `what` goes on with the address.
fn refuse_vtep(cx: &mut Context<'_>, source: &Source<'_>, what: &str, vtep: IpAddr) -> Stage {
    refuse(cx, source, Verdict::VtepAddress, || {
        format!("{what} {vtep}, the address of a VTEP, refused at")
    })
}

/// Ports of a UDP header that is there: also of a first fragment.
fn udp_ports(frame: &Frame<'_>, ip: &Ip) -> Option<(u16, u16)> {
    if ip.protocol != protocol::UDP || ip.is_later_fragment() || !ip.has_ports_inside(frame) {
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
