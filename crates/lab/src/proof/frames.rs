//! Reading captured frames for the path proof: whose they are, and what is around them.
//!
//! Own and small on purpose: a proof that used the parser of the data path would share its errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_ETHERNET: u16 = 0x6558;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// The identifier within a tag (IEEE 802.1Q §9.6); above it stand priority and DEI.
const VLAN_ID: u16 = 0x0fff;
const PROTOCOL_UDP: u8 = 17;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
/// OVN's option (RFC 8926 §3.5 has the form): class 0x0102, type 0x80, four bytes.
const OVN_CLASS: u16 = 0x0102;
const OVN_TYPE: u8 = 0x80;

/// A guest's packet as a device has it: whose it is, and what is around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The VLAN of an 802.1Q tag in the outermost header.
    pub(crate) vlan: Option<u16>,
    pub(crate) tunnel: Option<Tunnel>,
    /// The UDP header around a tunnel has a checksum (RFC 768: 0 is none).
    pub(crate) outer_checksum: Option<bool>,
    /// Bytes from the outer IP header to the guest's: what the tunnel takes of the underlay's MTU. 0 without one.
    pub(crate) around: u32,
    /// The VLAN of a tag that the guest's frame has within the tunnel.
    pub(crate) inner_vlan: Option<u16>,
    /// The addresses of the innermost IP header.
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The source port of the guest's packet, where it is UDP.
    pub(crate) udp_source: Option<u16>,
}

/// The header around an inner frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// RFC 7348 §5, with the I flag.
    Vxlan { vni: u32 },
    /// RFC 8926 §3.4; `ovn` = logical source and destination port of OVN's option.
    Geneve { vni: u32, ovn: Option<(u16, u16)> },
}

/// Reads a frame that begins with its Ethernet header, its tag in the bytes; `None` is anything but
/// IP, and what does not add up.
pub(crate) fn read(frame: &[u8]) -> Option<Frame> {
    let (vlan, outer) = Packet::of_ethernet(frame)?;
    if outer.protocol != PROTOCOL_UDP {
        return Some(outer.framed(vlan, None, None));
    }
    let (tunnel, inner) = match word(outer.payload, 2)? {
        VXLAN_PORT => read_vxlan(outer.payload.get(8..)?)?,
        GENEVE_PORT => read_geneve(outer.payload.get(8..)?)?,
        _ => return Some(outer.framed(vlan, None, None)),
    };
    let inner_at = frame.len() - inner.len();
    let (inner_vlan, inner) = Packet::of_ethernet(inner)?;
    let headers = inner_at + ip_at(inner_vlan) - ip_at(vlan);
    Some(Frame {
        around: u32::try_from(headers).unwrap_or(u32::MAX),
        outer_checksum: Some(word(outer.payload, 6)? != 0),
        ..inner.framed(vlan, Some(tunnel), inner_vlan)
    })
}

/// Where the IP header is in an Ethernet frame.
const fn ip_at(vlan: Option<u16>) -> usize {
    if vlan.is_some() { 18 } else { 14 }
}

/// Flags (I = 0x08), 3 reserved bytes, VNI, 1 reserved byte.
fn read_vxlan(bytes: &[u8]) -> Option<(Tunnel, &[u8])> {
    let has_vni = bytes.first()? & 0x08 != 0;
    let vni = vni(bytes)?;
    has_vni.then_some((Tunnel::Vxlan { vni }, bytes.get(8..)?))
}

/// Version and length of the options in words, O and C, protocol, VNI, 1 reserved byte, options.
fn read_geneve(bytes: &[u8]) -> Option<(Tunnel, &[u8])> {
    let first = *bytes.first()?;
    let options_end = 8 + usize::from(first & 0x3f) * 4;
    let mut options = bytes.get(8..options_end)?;
    if first >> 6 != 0 || word(bytes, 2)? != ETHERTYPE_ETHERNET {
        return None;
    }
    let mut ovn = None;
    while !options.is_empty() {
        let length = 4 + usize::from(options.get(3)? & 0x1f) * 4;
        let option = options.get(..length)?;
        if word(option, 0)? == OVN_CLASS && option[2] == OVN_TYPE && length == 8 {
            ovn = Some((word(option, 4)? & 0x7fff, word(option, 6)?));
        }
        options = &options[length..];
    }
    Some((
        Tunnel::Geneve {
            vni: vni(bytes)?,
            ovn,
        },
        &bytes[options_end..],
    ))
}

/// An IP packet.
struct Packet<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The packet in an Ethernet frame, and the VLAN that the frame is tagged with.
    fn of_ethernet(frame: &'a [u8]) -> Option<(Option<u16>, Self)> {
        let (vlan, at) = match word(frame, 12)? {
            ETHERTYPE_VLAN => (Some(word(frame, 14)? & VLAN_ID), 16),
            _ => (None, 12),
        };
        let packet = frame.get(at + 2..)?;
        let packet = match word(frame, at)? {
            ETHERTYPE_IPV4 => Self::of_ipv4(packet)?,
            ETHERTYPE_IPV6 => Self::of_ipv6(packet)?,
            _ => return None,
        };
        Some((vlan, packet))
    }

    fn of_ipv4(packet: &'a [u8]) -> Option<Self> {
        let header = packet.get(..20)?;
        let header_length = usize::from(header[0] & 0x0f) * 4;
        if header[0] >> 4 != 4 || header_length < 20 {
            return None;
        }
        let address = |at: usize| {
            let octets: [u8; 4] = header.get(at..at + 4)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        };
        Some(Self {
            source: address(12)?,
            destination: address(16)?,
            protocol: header[9],
            payload: packet.get(header_length..)?,
        })
    }

    /// Extension headers are no part of what the laboratory sends: with one the packet has no ports.
    fn of_ipv6(packet: &'a [u8]) -> Option<Self> {
        let header = packet.get(..40)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let address = |at: usize| {
            let octets: [u8; 16] = header.get(at..at + 16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        };
        Some(Self {
            source: address(8)?,
            destination: address(24)?,
            protocol: header[6],
            payload: &packet[40..],
        })
    }

    fn framed(&self, vlan: Option<u16>, tunnel: Option<Tunnel>, inner_vlan: Option<u16>) -> Frame {
        let is_udp = self.protocol == PROTOCOL_UDP;
        Frame {
            vlan,
            tunnel,
            outer_checksum: None,
            around: 0,
            inner_vlan,
            source: self.source,
            destination: self.destination,
            udp_source: is_udp.then(|| word(self.payload, 0)).flatten(),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// 24 bits at the fifth byte, in both headers.
fn vni(bytes: &[u8]) -> Option<u32> {
    let bytes = bytes.get(4..8)?;
    Some(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const A: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 100, 1));
    pub(crate) const B: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 100, 2));

    pub(crate) fn ip(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x02; 12];
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            _ => panic!("one family"),
        }
        frame.extend(payload);
        frame
    }

    pub(crate) fn tunnelled(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
        tunnelled_between(
            [198, 18, 0, 1].into(),
            [198, 18, 0, 2].into(),
            port,
            header,
            inner,
        )
    }

    fn tunnelled_between(
        source: IpAddr,
        destination: IpAddr,
        port: u16,
        header: &[u8],
        inner: &[u8],
    ) -> Vec<u8> {
        let mut udp = vec![0xc0, 0];
        udp.extend(port.to_be_bytes());
        udp.extend([0, 0, 0, 0]);
        udp.extend(header);
        udp.extend(inner);
        ip(source, destination, 17, &udp)
    }

    pub(crate) const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0x13, 0x89, 0];
    pub(crate) const GENEVE: [u8; 16] = [
        0x02, 0x40, 0x65, 0x58, 0, 0x13, 0x89, 0, 0x01, 0x02, 0x80, 1, 0, 7, 0, 9,
    ];

    /// `frame` with a tag, priority 5 in it.
    pub(crate) fn tagged(vlan: u16, frame: &[u8]) -> Vec<u8> {
        let mut tagged = frame[..12].to_vec();
        tagged.extend([0x81, 0]);
        tagged.extend((0xa000 | vlan).to_be_bytes());
        tagged.extend(&frame[12..]);
        tagged
    }

    fn from_a_to_b(vlan: Option<u16>, tunnel: Option<Tunnel>) -> Frame {
        Frame {
            vlan,
            tunnel,
            outer_checksum: tunnel.map(|_| false),
            around: match tunnel {
                None => 0,
                Some(Tunnel::Vxlan { .. } | Tunnel::Geneve { ovn: None, .. }) => 50,
                Some(Tunnel::Geneve { ovn: Some(_), .. }) => 58,
            },
            inner_vlan: None,
            source: A,
            destination: B,
            udp_source: None,
        }
    }

    #[test]
    fn plain_tagged_and_tunnelled() {
        let inner = ip(A, B, 6, &[1, 2, 3]);
        assert_eq!(read(&inner), Some(from_a_to_b(None, None)));
        assert_eq!(
            read(&tagged(100, &inner)),
            Some(from_a_to_b(Some(100), None))
        );
        let vxlan = tunnelled(4789, &VXLAN, &inner);
        let tunnel = Some(Tunnel::Vxlan { vni: 5001 });
        assert_eq!(read(&vxlan), Some(from_a_to_b(None, tunnel)));
        assert_eq!(read(&tagged(7, &vxlan)), Some(from_a_to_b(Some(7), tunnel)));
        let tunnel = Tunnel::Geneve {
            vni: 5001,
            ovn: Some((7, 9)),
        };
        let geneve = tunnelled(6081, &GENEVE, &inner);
        assert_eq!(read(&geneve), Some(from_a_to_b(None, Some(tunnel))));
        let without = [0, 0, 0x65, 0x58, 0, 0x13, 0x89, 0];
        let tunnel = Tunnel::Geneve {
            vni: 5001,
            ovn: None,
        };
        let geneve = tunnelled(6081, &without, &inner);
        assert_eq!(read(&geneve), Some(from_a_to_b(None, Some(tunnel))));
    }

    #[test]
    fn an_outer_checksum_is_told() {
        let mut vxlan = tunnelled(4789, &VXLAN, &ip(A, B, 6, &[]));
        assert_eq!(read(&vxlan).unwrap().outer_checksum, Some(false));
        // Behind Ethernet and IPv4, the last two bytes of the UDP header.
        vxlan[14 + 20 + 7] = 1;
        assert_eq!(read(&vxlan).unwrap().outer_checksum, Some(true));
        assert_eq!(read(&ip(A, B, 6, &[])).unwrap().outer_checksum, None);
    }

    #[test]
    fn a_tag_within_a_tunnel_is_told() {
        let inner = ip(A, B, 6, &[]);
        let frame = read(&tunnelled(4789, &VXLAN, &tagged(3, &inner))).unwrap();
        assert_eq!((frame.vlan, frame.inner_vlan), (None, Some(3)));
        // The tag travels inside, and takes its bytes.
        assert_eq!(frame.around, 54);
    }

    #[test]
    fn both_families_inside_and_outside() {
        let address = |last| IpAddr::from([0x2001, 2, 0, 0x100, 0, 0, 0, last]);
        let inner = ip(address(1), address(2), 17, &[0x27, 0x11, 0, 9, 0, 8, 0, 0]);
        let outer = |last| IpAddr::from([0x2001, 2, 0, 0, 0, 0, 0, last]);
        for (bytes, around) in [
            (tunnelled(4789, &VXLAN, &inner), 50),
            (
                tunnelled_between(outer(1), outer(2), 4789, &VXLAN, &inner),
                70,
            ),
        ] {
            let frame = read(&bytes).unwrap();
            assert_eq!(frame.around, around);
            assert_eq!(
                (frame.source, frame.destination, frame.udp_source),
                (address(1), address(2), Some(10_001))
            );
            assert_eq!(frame.tunnel, Some(Tunnel::Vxlan { vni: 5001 }));
        }
    }

    #[test]
    fn what_does_not_add_up_is_nobodys() {
        let inner = ip(A, B, 6, &[]);
        let no_vni_flag = [0, 0, 0, 0, 0, 0x13, 0x89, 0];
        assert_eq!(read(&tunnelled(4789, &no_vni_flag, &inner)), None);
        let mut long_option = GENEVE;
        long_option[11] = 5;
        assert_eq!(read(&tunnelled(6081, &long_option, &inner)), None);
        assert_eq!(read(&tagged(1, &tagged(2, &inner))), None, "tagged twice");
        for frame in [
            tagged(100, &inner),
            tunnelled(4789, &VXLAN, &inner),
            tunnelled(6081, &GENEVE, &inner),
        ] {
            for end in 0..frame.len() {
                assert_eq!(read(&frame[..end]), None, "cut at {end}");
            }
        }
    }
}
