//! Reading captured frames for the path proof: whose they are, and what is around them.
//!
//! Own and small on purpose: a proof that used the parser of the data path would share its errors.

use std::net::Ipv4Addr;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ETHERNET: u16 = 0x6558;
const PROTOCOL_UDP: u8 = 17;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
/// OVN's option (RFC 8926 §3.5 has the form): class 0x0102, type 0x80, four bytes.
const OVN_CLASS: u16 = 0x0102;
const OVN_TYPE: u8 = 0x80;

/// A frame as far as the proof needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// An IPv4 packet that is in no tunnel.
    Plain {
        source: Ipv4Addr,
        destination: Ipv4Addr,
    },
    /// An IPv4 packet in a tunnel.
    Tunnelled {
        tunnel: Tunnel,
        source: Ipv4Addr,
        destination: Ipv4Addr,
    },
    /// Anything else: ARP, or what does not add up.
    Other,
}

/// The header around an inner frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// RFC 7348 §5, with the I flag.
    Vxlan { vni: u32 },
    /// RFC 8926 §3.4; `ovn` = logical source and destination port of OVN's option.
    Geneve { vni: u32, ovn: Option<(u16, u16)> },
}

/// Reads a frame that begins with its Ethernet header.
pub(crate) fn read(frame: &[u8]) -> Frame {
    read_ethernet(frame).unwrap_or(Frame::Other)
}

fn read_ethernet(frame: &[u8]) -> Option<Frame> {
    let packet = Ipv4::of_ethernet(frame)?;
    let plain = Frame::Plain {
        source: packet.source,
        destination: packet.destination,
    };
    if packet.protocol != PROTOCOL_UDP {
        return Some(plain);
    }
    let (tunnel, inner) = match word(packet.payload, 2)? {
        VXLAN_PORT => read_vxlan(packet.payload.get(8..)?)?,
        GENEVE_PORT => read_geneve(packet.payload.get(8..)?)?,
        _ => return Some(plain),
    };
    let inner = Ipv4::of_ethernet(inner)?;
    Some(Frame::Tunnelled {
        tunnel,
        source: inner.source,
        destination: inner.destination,
    })
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

struct Ipv4<'a> {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    payload: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// The packet in an Ethernet frame without a VLAN tag; none may be on an underlay here.
    fn of_ethernet(frame: &'a [u8]) -> Option<Self> {
        let ethertype = word(frame, 12)?;
        if ethertype != ETHERTYPE_IPV4 {
            return None;
        }
        let packet = frame.get(14..)?;
        let header = packet.get(..20)?;
        let header_length = usize::from(header[0] & 0x0f) * 4;
        if header[0] >> 4 != 4 || header_length < 20 {
            return None;
        }
        let address = |at: usize| {
            Some(Ipv4Addr::from(
                <[u8; 4]>::try_from(header.get(at..at + 4)?).ok()?,
            ))
        };
        Some(Self {
            source: address(12)?,
            destination: address(16)?,
            protocol: header[9],
            payload: packet.get(header_length..)?,
        })
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

    pub(crate) const A: Ipv4Addr = Ipv4Addr::new(198, 18, 100, 1);
    pub(crate) const B: Ipv4Addr = Ipv4Addr::new(198, 18, 100, 2);

    pub(crate) fn ipv4(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut frame = vec![0x02; 12];
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend(source.octets());
        frame.extend(destination.octets());
        frame.extend(payload);
        frame
    }

    pub(crate) fn tunnelled(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
        let mut udp = vec![0xc0, 0];
        udp.extend(port.to_be_bytes());
        udp.extend([0, 0, 0, 0]);
        udp.extend(header);
        udp.extend(inner);
        ipv4([198, 18, 0, 1].into(), [198, 18, 0, 2].into(), 17, &udp)
    }

    pub(crate) const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0x13, 0x89, 0];
    pub(crate) const GENEVE: [u8; 16] = [
        0x02, 0x40, 0x65, 0x58, 0, 0x13, 0x89, 0, 0x01, 0x02, 0x80, 1, 0, 7, 0, 9,
    ];

    #[test]
    fn plain_and_tunnelled() {
        let inner = ipv4(A, B, 6, &[1, 2, 3]);
        assert_eq!(
            read(&inner),
            Frame::Plain {
                source: A,
                destination: B
            }
        );
        let tunnel = Tunnel::Vxlan { vni: 5001 };
        let expected = Frame::Tunnelled {
            tunnel,
            source: A,
            destination: B,
        };
        assert_eq!(read(&tunnelled(4789, &VXLAN, &inner)), expected);
        let tunnel = Tunnel::Geneve {
            vni: 5001,
            ovn: Some((7, 9)),
        };
        let expected = Frame::Tunnelled {
            tunnel,
            source: A,
            destination: B,
        };
        assert_eq!(read(&tunnelled(6081, &GENEVE, &inner)), expected);
        let without = [0, 0, 0x65, 0x58, 0, 0x13, 0x89, 0];
        let tunnel = Tunnel::Geneve {
            vni: 5001,
            ovn: None,
        };
        let expected = Frame::Tunnelled {
            tunnel,
            source: A,
            destination: B,
        };
        assert_eq!(read(&tunnelled(6081, &without, &inner)), expected);
    }

    #[test]
    fn what_does_not_add_up_is_other() {
        let inner = ipv4(A, B, 6, &[]);
        let no_vni_flag = [0, 0, 0, 0, 0, 0x13, 0x89, 0];
        assert_eq!(read(&tunnelled(4789, &no_vni_flag, &inner)), Frame::Other);
        let mut long_option = GENEVE;
        long_option[11] = 5;
        assert_eq!(read(&tunnelled(6081, &long_option, &inner)), Frame::Other);
        let mut tagged = inner.clone();
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        assert_eq!(read(&tagged), Frame::Other);
        for frame in [
            tunnelled(4789, &VXLAN, &inner),
            tunnelled(6081, &GENEVE, &inner),
        ] {
            for end in 0..frame.len() {
                assert_eq!(read(&frame[..end]), Frame::Other, "cut at {end}");
            }
        }
    }
}
