//! Whose an address is, and whether a port may speak of it as its own.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use overlane_model::{Name, Place, PortTable, Verdict};
use overlane_wire::Mac;

use crate::lib::context::{Context, Stage};
use crate::lib::explain::{Found, sharers};
use crate::lib::frame::Frame;
use crate::lib::source::Source;

pub(super) const STAGE: &str = "port_security";

/// Whose an address is.
pub(super) enum Owner<'a> {
    /// The port's; or the link-local address that its guest made itself.
    Port,
    /// The fabric gave it to this other one.
    Other(Other<'a>),
    Nobody,
}

pub(super) enum Other<'a> {
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

pub(super) fn owner<'a>(
    cx: &Context<'a>,
    source: &Source<'_>,
    frame: &Frame<'_>,
    addr: IpAddr,
) -> Owner<'a> {
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
pub(super) fn owner_on_link<'a>(
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

/// Whether the port may say in ARP and neighbour discovery that an address is at this MAC: the frame's source, or its own.
pub(super) fn speaks_for_mac(source: &Source<'_>, frame: &Frame<'_>, mac: Mac) -> bool {
    let port = source.port;
    mac == frame.source || mac == port.mac || port.allowed_macs.contains(&mac)
}

/// Whether the port may speak of an address as its own: never of another's, and of nobody's where the
/// fabric does not know the port's.
pub(super) fn may_claim(source: &Source<'_>, owner: &Owner<'_>) -> bool {
    match owner {
        Owner::Port => true,
        Owner::Other(_) => false,
        Owner::Nobody => !source.port.security.check_addresses,
    }
}

/// Whether the port may ask from nowhere for an address. For what one port has, an answer from here defends it; a new
/// owner of what floats would take the question for a conflict.
pub(super) fn may_probe(source: &Source<'_>, owner: &Owner<'_>) -> bool {
    match owner {
        Owner::Other(Other::Sharers(_)) => false,
        Owner::Port | Owner::Other(_) => true,
        Owner::Nobody => !source.port.security.check_addresses,
    }
}

/// `what` goes on with the address.
pub(super) fn refuse_claim(
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
pub(super) fn refuse_vtep(
    cx: &mut Context<'_>,
    source: &Source<'_>,
    what: &str,
    vtep: IpAddr,
) -> Stage {
    refuse(cx, source, Verdict::VtepAddress, || {
        format!("{what} {vtep}, the address of a VTEP, refused at")
    })
}

/// `why` goes on with the port.
pub(super) fn refuse<T: Into<String>>(
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
