//! A frame from the underlay, seen as a tunnel end point sees it: is it a tunnel packet of ours,
//! from whom, and which inner frame does it carry? The rules and their order are those of
//! `docs/semantics.md`, stages `vtep_check` and `tunnel`; each failure is one drop reason. Which
//! VTEPs are known is the caller's to check, between [`parse`] and [`Outer::decap`].
//!
//! ```text
//! Ethernet │ IPv4 or IPv6 │ UDP │ VXLAN or Geneve │ inner Ethernet …
//! └────────── parse ───────────┘└───────────── decap ─────────────┘
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// A tunnel end point: what it listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EndPoint {
    /// Its address; the underlay is of the same family.
    pub vtep: IpAddr,
    /// What the packets are wrapped in.
    pub encapsulation: Encapsulation,
    /// UDP destination port.
    pub port: u16,
}

/// The outer headers of a tunnel packet, up to UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer<'a> {
    /// The VTEP that sent it.
    pub source: IpAddr,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner<'a> {
    /// The logical switch.
    pub vni: Vni,
    /// OVN's option, if it is there.
    pub ovn: Option<OvnOption>,
    /// The inner frame, at least an Ethernet header long.
    pub frame: &'a [u8],
}

/// Looks for a tunnel packet to `end_point`. `None` is a frame that is not ours, which includes one
/// whose headers are cut before they could say that it is.
///
/// One that is ours must be whole, have the right IPv4 checksum, and its IP and UDP lengths must
/// agree with each other and with the frame, in this order.
pub fn parse<'a>(frame: &'a [u8], end_point: &EndPoint) -> Result<Option<Outer<'a>>, WireError> {
    let Ok(ethernet) = ethernet::View::new_checked(frame) else {
        return Ok(None);
    };
    if !ethernet.tags().as_slice().is_empty() {
        return Ok(None);
    }
    match (end_point.vtep, ethernet.ethertype()) {
        (IpAddr::V4(vtep), EtherType::IPV4) => parse_v4(ethernet.payload(), vtep, end_point),
        (IpAddr::V6(vtep), EtherType::IPV6) => parse_v6(ethernet.payload(), vtep, end_point),
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
                let (received, frame) = geneve::receive(self.payload, reserved)?;
                (received.vni, received.ovn, frame)
            }
        };
        if frame.len() < ethernet::LEN {
            return Err(WireError::InnerTooSmall(frame.len()));
        }
        Ok(Inner { vni, ovn, frame })
    }
}

fn parse_v4<'a>(
    bytes: &'a [u8],
    vtep: Ipv4Addr,
    end_point: &EndPoint,
) -> Result<Option<Outer<'a>>, WireError> {
    let Ok(ip) = ipv4::View::front(bytes) else {
        return Ok(None);
    };
    // A later fragment has no ports. It stays with the host, which never completes the packet.
    if ip.protocol() != protocol::UDP || ip.fragment_offset() != 0 || ip.destination() != vtep {
        return Ok(None);
    }
    let Some(udp) = udp_to(ip.payload(), end_point.port) else {
        return Ok(None);
    };
    if ip.more_fragments() {
        return Err(WireError::Fragment {
            layer: Layer::Ipv4,
            offset: 0,
        });
    }
    if ip.options().bytes().is_empty() && !ip.checksum_is_right() {
        return Err(WireError::Checksum { layer: Layer::Ipv4 });
    }
    let total_len = usize::from(ip.total_len());
    let ip_payload_len = total_len
        .checked_sub(ip.header_len())
        .ok_or(WireError::Length {
            layer: Layer::Ipv4,
            claimed: total_len,
            have: bytes.len(),
        })?;
    check_length(&udp, ip.payload(), ip_payload_len)?;
    Outer::new(ip.source().into(), ip.ecn(), ip.payload(), end_point).map(Some)
}

fn parse_v6<'a>(
    bytes: &'a [u8],
    vtep: Ipv6Addr,
    end_point: &EndPoint,
) -> Result<Option<Outer<'a>>, WireError> {
    let Ok(ip) = ipv6::View::front(bytes) else {
        return Ok(None);
    };
    let extensions = ip.extensions();
    let plain = extensions.bytes().is_empty();
    let first_fragment = extensions.first() == protocol::FRAGMENT
        && extensions.iter().count() == 1
        && ip.fragment().is_some_and(|fragment| fragment.offset == 0);
    let candidate = plain || first_fragment;
    if !candidate || ip.protocol() != protocol::UDP || ip.destination() != vtep {
        return Ok(None);
    }
    let Some(udp) = udp_to(ip.payload(), end_point.port) else {
        return Ok(None);
    };
    if first_fragment {
        return Err(WireError::Fragment {
            layer: Layer::Ipv6Extension,
            offset: 0,
        });
    }
    check_length(&udp, ip.payload(), usize::from(ip.payload_len()))?;
    Outer::new(ip.source().into(), ip.ecn(), ip.payload(), end_point).map(Some)
}

impl<'a> Outer<'a> {
    fn new(
        source: IpAddr,
        ecn: Ecn,
        bytes: &'a [u8],
        end_point: &EndPoint,
    ) -> Result<Self, WireError> {
        let udp = udp::View::new_checked(bytes)?;
        Ok(Self {
            source,
            ecn,
            source_port: udp.source(),
            udp_checksum: udp.checksum(),
            encapsulation: end_point.encapsulation,
            payload: udp.payload(),
        })
    }
}

/// The UDP header, if it is whole and to `port`.
fn udp_to(bytes: &[u8], port: u16) -> Option<udp::View<'_>> {
    udp::View::front(bytes)
        .ok()
        .filter(|udp| udp.destination() == port)
}

/// UDP that ends before its IP packet would hide bytes; a tunnel end point never sends that. That it
/// ends within the frame is for `udp::View::new_checked` to see.
fn check_length(udp: &udp::View<'_>, bytes: &[u8], ip_payload_len: usize) -> Result<(), WireError> {
    let claimed = usize::from(udp.length());
    if claimed != ip_payload_len {
        return Err(WireError::Length {
            layer: Layer::Udp,
            claimed,
            have: bytes.len(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Emit;
    use crate::ipv6_extension::{Extensions, Fragment};

    const V4: EndPoint = EndPoint {
        vtep: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)),
        encapsulation: Encapsulation::Vxlan,
        port: 4789,
    };
    const V6: EndPoint = EndPoint {
        vtep: IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2)),
        encapsulation: Encapsulation::Vxlan,
        port: 4789,
    };

    fn udp_vxlan(inner: &[u8]) -> Vec<u8> {
        let length = 16 + inner.len() as u16;
        let udp = udp::Header {
            source: 50000,
            destination: 4789,
            length,
            checksum: 0,
        };
        let mut out = udp.to_bytes();
        vxlan::Header {
            vni: Vni::new(5001).unwrap(),
        }
        .emit_to(&mut out);
        out.extend(inner);
        out
    }

    fn v4_frame(more_fragments: bool, fragment_offset: u16, inner: &[u8]) -> Vec<u8> {
        let payload = udp_vxlan(inner);
        let mut out = vec![0; 12];
        out.extend([0x08, 0x00]);
        ipv4::Header {
            dscp: 0,
            ecn: Ecn::Ce,
            total_len: 20 + payload.len() as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments,
            fragment_offset,
            ttl: 64,
            protocol: protocol::UDP,
            source: [198, 18, 0, 1].into(),
            destination: [198, 18, 0, 2].into(),
            options: ipv4::Options::EMPTY,
        }
        .emit_to(&mut out);
        out.extend(payload);
        out
    }

    fn v6_frame(extensions: Extensions<'_>, inner: &[u8]) -> Vec<u8> {
        let payload = udp_vxlan(inner);
        let mut out = vec![0; 12];
        out.extend([0x86, 0xdd]);
        ipv6::Header {
            dscp: 0,
            ecn: Ecn::NotEct,
            flow_label: 0,
            payload_len: (extensions.bytes().len() + payload.len()) as u16,
            hop_limit: 64,
            source: "2001:2::1".parse().unwrap(),
            destination: "2001:2::2".parse().unwrap(),
            extensions,
        }
        .emit_to(&mut out);
        out.extend(payload);
        out
    }

    #[test]
    fn a_tunnel_packet_of_both_families() {
        let bytes = v4_frame(false, 0, &[7; 60]);
        let outer = parse(&bytes, &V4).unwrap().unwrap();
        assert_eq!((outer.source, outer.ecn), ([198, 18, 0, 1].into(), Ecn::Ce));
        assert_eq!((outer.source_port, outer.udp_checksum), (50000, None));
        let inner = outer.decap(ReservedBits::Refuse).unwrap();
        assert_eq!(
            (inner.vni.get(), inner.ovn, inner.frame),
            (5001, None, &[7; 60][..])
        );

        let mut bytes = v6_frame(Extensions::none(protocol::UDP), &[7; 60]);
        bytes.extend([0; 5]); // padding of the frame
        let inner = parse(&bytes, &V6)
            .unwrap()
            .unwrap()
            .decap(ReservedBits::Refuse)
            .unwrap();
        assert_eq!(inner.frame, [7; 60]);
    }

    #[test]
    fn what_is_not_ours() {
        let v4 = v4_frame(false, 0, &[7; 60]);
        assert_eq!(parse(&v4, &V6), Ok(None));
        assert_eq!(parse(&v4, &EndPoint { port: 6081, ..V4 }), Ok(None));
        assert_eq!(
            parse(
                &v4,
                &EndPoint {
                    vtep: [198, 18, 0, 3].into(),
                    ..V4
                }
            ),
            Ok(None)
        );
        assert_eq!(parse(&v4_frame(true, 185, &[7; 60]), &V4), Ok(None));
        let options = [protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
        let hop_by_hop = Extensions::new(protocol::HOP_BY_HOP, &options).unwrap();
        assert_eq!(parse(&v6_frame(hop_by_hop, &[7; 60]), &V6), Ok(None));
        let mut tagged = v4[..12].to_vec();
        tagged.extend([0x81, 0x00, 0, 1]);
        tagged.extend(&v4[12..]);
        assert_eq!(parse(&tagged, &V4), Ok(None));
    }

    #[test]
    fn one_error_for_each_reason() {
        let bytes = v4_frame(false, 0, &[7; 60]);
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            parse(&bytes, &V4).err()
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
        let first = WireError::Fragment {
            layer: Layer::Ipv4,
            offset: 0,
        };
        assert_eq!(parse(&v4_frame(true, 0, &[7; 60]), &V4), Err(first));
        let fragment = Fragment {
            next_header: protocol::UDP,
            offset: 0,
            more: true,
            identification: 1,
        };
        let fragment = fragment.to_bytes();
        let extensions = Extensions::new(protocol::FRAGMENT, &fragment).unwrap();
        let first = WireError::Fragment {
            layer: Layer::Ipv6Extension,
            offset: 0,
        };
        assert_eq!(parse(&v6_frame(extensions, &[7; 60]), &V6), Err(first));
        let short = v4_frame(false, 0, &[7; 13]);
        let error = parse(&short, &V4)
            .unwrap()
            .unwrap()
            .decap(ReservedBits::Ignore)
            .err();
        assert_eq!(error, Some(WireError::InnerTooSmall(13)));
    }

    #[test]
    fn every_truncation_is_refused() {
        for (bytes, end_point, headers) in [
            (v4_frame(false, 0, &[7; 60]), V4, 42),
            (v6_frame(Extensions::none(protocol::UDP), &[7; 60]), V6, 62),
        ] {
            for length in 0..bytes.len() {
                let result = parse(&bytes[..length], &end_point);
                if length < headers {
                    assert_eq!(result, Ok(None), "{length} bytes");
                } else {
                    let error = result.err();
                    assert!(
                        matches!(
                            error,
                            Some(WireError::Length {
                                layer: Layer::Udp,
                                ..
                            })
                        ),
                        "{length} bytes: {error:?}"
                    );
                }
            }
        }
    }
}
