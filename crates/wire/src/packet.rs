//! A whole frame as a list of headers, for tests and for showing packets: Ethernet, ARP or IP,
//! transport, and through one tunnel also the inner frame's. The walk never fails: it stops where
//! the bytes stop making sense and says why.

use crate::error::WireError;
use crate::ip::{IpVersion, protocol};
use crate::{EtherType, arp, ethernet, geneve, icmp, ipv4, ipv6, nd, tcp, udp, vxlan};

/// One header of a frame.
#[derive(Clone, Copy)]
pub enum Header<'a> {
    /// Ethernet with its VLAN tags.
    Ethernet(ethernet::View<'a>),
    /// ARP.
    Arp(arp::View<'a>),
    /// IPv4.
    Ipv4(ipv4::View<'a>),
    /// IPv6 with its extension headers.
    Ipv6(ipv6::View<'a>),
    /// UDP.
    Udp(udp::View<'a>),
    /// TCP.
    Tcp(tcp::View<'a>),
    /// ICMP or ICMPv6.
    Icmp(icmp::View<'a>),
    /// Neighbour discovery.
    Nd(nd::View<'a>),
    /// VXLAN.
    Vxlan(vxlan::View<'a>),
    /// Geneve.
    Geneve(geneve::View<'a>),
}

/// UDP destination ports behind which a tunnel header is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelPorts {
    /// Of VXLAN.
    pub vxlan: u16,
    /// Of Geneve.
    pub geneve: u16,
}

impl Default for TunnelPorts {
    fn default() -> Self {
        Self {
            vxlan: vxlan::PORT,
            geneve: geneve::PORT,
        }
    }
}

/// What a walk found.
#[derive(Clone)]
pub struct Packet<'a> {
    /// The headers, outermost first.
    pub headers: Vec<Header<'a>>,
    /// What follows the last of them.
    pub payload: &'a [u8],
    /// Why the walk stopped early.
    pub error: Option<WireError>,
}

/// What to look for next.
enum Next {
    Ethernet,
    EtherType(EtherType),
    Ip(IpVersion, u8),
    Tunnel(u16),
    Nothing,
}

/// Walks `frame`. Inside a tunnel no second tunnel is looked for: that would be a guest's own.
pub fn walk(frame: &[u8], ports: TunnelPorts) -> Packet<'_> {
    let mut packet = Packet {
        headers: Vec::new(),
        payload: frame,
        error: None,
    };
    let mut next = Next::Ethernet;
    loop {
        match step(&packet, &next, ports) {
            Ok(Some((header, payload, after))) => {
                packet.headers.push(header);
                packet.payload = payload;
                next = after;
            }
            Ok(None) => return packet,
            Err(error) => {
                packet.error = Some(error);
                return packet;
            }
        }
    }
}

type Step<'a> = Option<(Header<'a>, &'a [u8], Next)>;

fn step<'a>(packet: &Packet<'a>, next: &Next, ports: TunnelPorts) -> Result<Step<'a>, WireError> {
    let bytes = packet.payload;
    Ok(match *next {
        Next::Ethernet => {
            let view = ethernet::View::new_checked(bytes)?;
            Some((
                Header::Ethernet(view),
                view.payload(),
                Next::EtherType(view.ethertype()),
            ))
        }
        Next::EtherType(EtherType::ARP) => {
            let view = arp::View::new_checked(bytes)?;
            Some((Header::Arp(view), &bytes[arp::LEN..], Next::Nothing))
        }
        Next::EtherType(EtherType::IPV4) => {
            let view = ipv4::View::new_checked(bytes)?;
            let next = after_ip(IpVersion::V4, view.protocol(), view.is_fragment());
            Some((Header::Ipv4(view), view.payload(), next))
        }
        Next::EtherType(EtherType::IPV6) => {
            let view = ipv6::View::new_checked(bytes)?;
            let next = after_ip(IpVersion::V6, view.protocol(), view.is_fragment());
            Some((Header::Ipv6(view), view.payload(), next))
        }
        Next::Ip(version, number) => transport(version, number, bytes)?,
        Next::Tunnel(port) => {
            let inside = packet
                .headers
                .iter()
                .any(|header| matches!(header, Header::Vxlan(_) | Header::Geneve(_)));
            if inside {
                None
            } else {
                tunnel(port, ports, bytes)?
            }
        }
        Next::EtherType(_) | Next::Nothing => None,
    })
}

/// A fragment's payload is a piece of something: no header is read from it.
fn after_ip(version: IpVersion, number: u8, is_fragment: bool) -> Next {
    if is_fragment {
        Next::Nothing
    } else {
        Next::Ip(version, number)
    }
}

fn transport(version: IpVersion, number: u8, bytes: &[u8]) -> Result<Step<'_>, WireError> {
    Ok(match (version, number) {
        (_, protocol::UDP) => {
            let view = udp::View::new_checked(bytes)?;
            Some((
                Header::Udp(view),
                view.payload(),
                Next::Tunnel(view.destination()),
            ))
        }
        (_, protocol::TCP) => {
            let view = tcp::View::new_checked(bytes)?;
            Some((Header::Tcp(view), view.payload(), Next::Nothing))
        }
        (IpVersion::V6, protocol::ICMPV6)
            if bytes.first().is_some_and(|kind| {
                (nd::ROUTER_SOLICITATION..=nd::NEIGHBOUR_ADVERTISEMENT).contains(kind)
            }) =>
        {
            Some((
                Header::Nd(nd::View::new_checked(bytes)?),
                &[],
                Next::Nothing,
            ))
        }
        (IpVersion::V4, protocol::ICMP) | (IpVersion::V6, protocol::ICMPV6) => {
            let view = icmp::View::new_checked(version, bytes)?;
            Some((Header::Icmp(view), view.payload(), Next::Nothing))
        }
        _ => None,
    })
}

fn tunnel(port: u16, ports: TunnelPorts, bytes: &[u8]) -> Result<Step<'_>, WireError> {
    Ok(if port == ports.vxlan {
        let view = vxlan::View::new_checked(bytes)?;
        Some((Header::Vxlan(view), view.payload(), Next::Ethernet))
    } else if port == ports.geneve {
        let view = geneve::View::new_checked(bytes)?;
        let data = view.protocol() == EtherType::TEB && !view.control();
        let next = if data { Next::Ethernet } else { Next::Nothing };
        Some((Header::Geneve(view), view.payload(), next))
    } else {
        None
    })
}

impl Header<'_> {
    /// Appends the header, emitted from its value. Fails on a tunnel header with VNI 0, which has
    /// no value.
    pub fn emit_to(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        use crate::Emit as _;
        match self {
            Self::Ethernet(view) => ethernet::Header::parse(view).emit_to(out),
            Self::Arp(view) => arp::Header::parse(view).emit_to(out),
            Self::Ipv4(view) => ipv4::Header::parse(view).emit_to(out),
            Self::Ipv6(view) => ipv6::Header::parse(view).emit_to(out),
            Self::Udp(view) => udp::Header::parse(view).emit_to(out),
            Self::Tcp(view) => tcp::Header::parse(view).emit_to(out),
            Self::Icmp(view) => icmp::Header::parse(view).emit_to(out),
            Self::Nd(view) => nd::Header::parse(view).emit_to(out),
            Self::Vxlan(view) => vxlan::Header::parse(view)?.emit_to(out),
            Self::Geneve(view) => geneve::Header::parse(view)?.emit_to(out),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_cut_says_where() {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 20]);
        let packet = walk(&frame, TunnelPorts::default());
        assert_eq!(packet.headers.len(), 1);
        assert_eq!(packet.payload.len(), 4);
        assert!(matches!(
            packet.error,
            Some(WireError::Truncated {
                needed: 20,
                have: 4,
                ..
            })
        ));
        assert!(walk(&[], TunnelPorts::default()).headers.is_empty());
    }
}
