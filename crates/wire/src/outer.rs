//! A frame from the underlay, seen as a tunnel end point sees it: is it a tunnel packet of ours,
//! from whom, and which inner frame does it carry? Each check's failure is one drop reason. Which
//! VTEPs are known is the caller's to check, between [`parse`] and [`Outer::decap`].
//!
//! ```text
//! Ethernet │ IPv4 or IPv6 │ UDP │ VXLAN or Geneve │ inner Ethernet …
//! └────────────── parse ───────┘└───────────── decap ─────────────┘
//! ```

use std::net::IpAddr;

use crate::error::{Layer, WireError};
use crate::ip::protocol;
use crate::{Ecn, EtherType, OvnOption, ReservedBits, Vni};
use crate::{ethernet, geneve, ipv4, ipv6, udp, vxlan};

/// How the tunnel wraps frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
}

/// The outer headers of a tunnel packet, up to UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer<'a> {
    /// The VTEP that sent it.
    pub source: IpAddr,
    /// The VTEP it is for.
    pub destination: IpAddr,
    /// Congestion notification of the underlay.
    pub ecn: Ecn,
    /// UDP source port.
    pub source_port: u16,
    /// UDP checksum; `None`: not computed.
    pub udp_checksum: Option<u16>,
    encapsulation: Encapsulation,
    payload: &'a [u8],
}

/// What a tunnel packet carries.
#[derive(Clone, Copy)]
pub struct Inner<'a> {
    /// The logical switch.
    pub vni: Vni,
    /// OVN's option, if it is there.
    pub ovn: Option<OvnOption>,
    /// The inner frame's first header.
    pub ethernet: ethernet::View<'a>,
    /// The whole inner frame.
    pub frame: &'a [u8],
}

/// Looks for a UDP packet to `port`. `None` is a frame that is not ours.
///
/// IP and UDP lengths must agree with the frame, an IPv4 checksum must verify, and the packet must
/// be whole. A fragment other than the first has no ports; it counts as ours when it is UDP, because
/// a tunnel packet must not be fragmented and could be nothing else that we let in.
pub fn parse(
    frame: &[u8],
    encapsulation: Encapsulation,
    port: u16,
) -> Result<Option<Outer<'_>>, WireError> {
    let ethernet = ethernet::View::new_checked(frame)?;
    if !ethernet.tags().as_slice().is_empty() {
        return Ok(None);
    }
    match ethernet.ethertype() {
        EtherType::IPV4 => parse_v4(ethernet.payload(), encapsulation, port),
        EtherType::IPV6 => parse_v6(ethernet.payload(), encapsulation, port),
        _ => Ok(None),
    }
}

impl<'a> Outer<'a> {
    /// Opens the tunnel header and finds the inner frame.
    pub fn decap(&self, reserved: ReservedBits) -> Result<Inner<'a>, WireError> {
        let (vni, ovn, frame) = match self.encapsulation {
            Encapsulation::Vxlan => {
                let view = vxlan::View::new_checked(self.payload)?;
                (view.receive(reserved)?, None, view.payload())
            }
            Encapsulation::Geneve => {
                let view = geneve::View::new_checked(self.payload)?;
                let received = view.receive(reserved)?;
                (received.vni, received.ovn, view.payload())
            }
        };
        if frame.len() < ethernet::LEN {
            return Err(WireError::InnerTooSmall(frame.len()));
        }
        Ok(Inner {
            vni,
            ovn,
            ethernet: ethernet::View::new_checked(frame)?,
            frame,
        })
    }
}

fn parse_v4(
    bytes: &[u8],
    encapsulation: Encapsulation,
    port: u16,
) -> Result<Option<Outer<'_>>, WireError> {
    let ip = ipv4::View::new_checked(bytes)?;
    if ip.protocol() != protocol::UDP {
        return Ok(None);
    }
    let later = ip.fragment_offset() != 0;
    if !later && destination_port(ip.payload()) != Some(port) {
        return not_ours(ip.payload());
    }
    if !ip.checksum_is_right() {
        return Err(WireError::Checksum { layer: Layer::Ipv4 });
    }
    if ip.is_fragment() {
        let offset = usize::from(ip.fragment_offset()) * 8;
        return Err(WireError::Fragment {
            layer: Layer::Ipv4,
            offset,
        });
    }
    let addresses = (ip.source().into(), ip.destination().into());
    udp_outer(ip.payload(), addresses, ip.ecn(), encapsulation).map(Some)
}

fn parse_v6(
    bytes: &[u8],
    encapsulation: Encapsulation,
    port: u16,
) -> Result<Option<Outer<'_>>, WireError> {
    let ip = ipv6::View::new_checked(bytes)?;
    if ip.protocol() != protocol::UDP {
        return Ok(None);
    }
    let offset = ip.fragment().map_or(0, |fragment| fragment.offset);
    if offset == 0 && destination_port(ip.payload()) != Some(port) {
        return not_ours(ip.payload());
    }
    if ip.is_fragment() {
        let offset = usize::from(offset) * 8;
        return Err(WireError::Fragment {
            layer: Layer::Ipv6Extension,
            offset,
        });
    }
    let addresses = (ip.source().into(), ip.destination().into());
    udp_outer(ip.payload(), addresses, ip.ecn(), encapsulation).map(Some)
}

fn udp_outer(
    bytes: &[u8],
    (source, destination): (IpAddr, IpAddr),
    ecn: Ecn,
    encapsulation: Encapsulation,
) -> Result<Outer<'_>, WireError> {
    let udp = udp::View::new_checked(bytes)?;
    // UDP that ends before its IP packet hides bytes; a tunnel end point never sends that.
    if usize::from(udp.length()) != bytes.len() {
        let claimed = usize::from(udp.length());
        return Err(WireError::Length {
            layer: Layer::Udp,
            claimed,
            have: bytes.len(),
        });
    }
    Ok(Outer {
        source,
        destination,
        ecn,
        source_port: udp.source(),
        udp_checksum: udp.checksum(),
        encapsulation,
        payload: udp.payload(),
    })
}

/// The port, even where the datagram is cut after it.
fn destination_port(bytes: &[u8]) -> Option<u16> {
    bytes
        .get(2..4)
        .map(|port| u16::from_be_bytes([port[0], port[1]]))
}

/// UDP to another port is the host's; one too short to have ports is nobody's.
fn not_ours(bytes: &[u8]) -> Result<Option<Outer<'_>>, WireError> {
    if bytes.len() < 4 {
        let (needed, have) = (udp::LEN, bytes.len());
        return Err(WireError::Truncated {
            layer: Layer::Udp,
            needed,
            have,
        });
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Emit;

    fn frame(fragment: (bool, u16), inner: &[u8]) -> Vec<u8> {
        let length = 8 + 8 + inner.len() as u16;
        let mut out = vec![0; 12];
        out.extend([0x08, 0x00]);
        ipv4::Header {
            dscp: 0,
            ecn: Ecn::Ce,
            total_len: 20 + length,
            identification: 0,
            dont_fragment: true,
            more_fragments: fragment.0,
            fragment_offset: fragment.1,
            ttl: 64,
            protocol: protocol::UDP,
            source: [198, 18, 0, 1].into(),
            destination: [198, 18, 0, 2].into(),
            options: ipv4::Options::EMPTY,
        }
        .emit_to(&mut out);
        udp::Header {
            source: 50000,
            destination: 4789,
            length,
            checksum: 0,
        }
        .emit_to(&mut out);
        vxlan::Header {
            vni: Vni::new(5001).unwrap(),
        }
        .emit_to(&mut out);
        out.extend(inner);
        out
    }

    fn open(frame: &[u8]) -> Result<Option<Outer<'_>>, WireError> {
        parse(frame, Encapsulation::Vxlan, 4789)
    }

    #[test]
    fn a_tunnel_packet() {
        let bytes = frame((false, 0), &[7; 60]);
        let outer = open(&bytes).unwrap().unwrap();
        assert_eq!((outer.source, outer.ecn), ([198, 18, 0, 1].into(), Ecn::Ce));
        assert_eq!((outer.source_port, outer.udp_checksum), (50000, None));
        let inner = outer.decap(ReservedBits::Refuse).unwrap();
        assert_eq!((inner.vni.get(), inner.frame), (5001, &[7; 60][..]));
        assert_eq!(parse(&bytes, Encapsulation::Geneve, 6081), Ok(None));
    }

    #[test]
    fn one_error_for_each_reason() {
        let bytes = frame((false, 0), &[7; 60]);
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            open(&bytes).err()
        };
        assert_eq!(
            with(24, 0),
            Some(WireError::Checksum { layer: Layer::Ipv4 })
        );
        assert!(matches!(
            with(39, 77),
            Some(WireError::Length {
                layer: Layer::Udp,
                ..
            })
        ));
        assert!(matches!(
            with(39, 75),
            Some(WireError::Length {
                layer: Layer::Udp,
                ..
            })
        ));
        assert!(matches!(
            with(17, 97),
            Some(WireError::Length {
                layer: Layer::Ipv4,
                ..
            })
        ));
        for fragment in [(true, 0), (true, 185), (false, 185)] {
            let error = open(&frame(fragment, &[7; 60])).err();
            assert!(matches!(error, Some(WireError::Fragment { .. })));
        }
        let short = frame((false, 0), &[7; 13]);
        let error = open(&short)
            .unwrap()
            .unwrap()
            .decap(ReservedBits::Ignore)
            .err();
        assert_eq!(error, Some(WireError::InnerTooSmall(13)));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = frame((false, 0), &[7; 60]);
        for length in 0..bytes.len() {
            assert!(open(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
