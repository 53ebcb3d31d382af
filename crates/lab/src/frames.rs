//! Reading captured frames for the path proof: whose they are, and what is around them.
//!
//! Own and small on purpose: a proof that used the parser of the data path would share its errors.

use std::net::Ipv4Addr;

const ETHERTYPE_IPV4: u16 = 0x0800;
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

/// A guest's packet as the underlay has it: whose it is, and what is around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The VLAN of an 802.1Q tag in the outermost header.
    pub(crate) vlan: Option<u16>,
    pub(crate) tunnel: Option<Tunnel>,
    /// The addresses of the innermost IPv4 header.
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
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
/// IPv4, and what does not add up.
pub(crate) fn read(frame: &[u8]) -> Option<Frame> {
    let (vlan, outer) = Ipv4::of_ethernet(frame)?;
    let plain = Frame {
        vlan,
        tunnel: None,
        source: outer.source,
        destination: outer.destination,
    };
    if outer.protocol != PROTOCOL_UDP {
        return Some(plain);
    }
    let (tunnel, inner) = match word(outer.payload, 2)? {
        VXLAN_PORT => read_vxlan(outer.payload.get(8..)?)?,
        GENEVE_PORT => read_geneve(outer.payload.get(8..)?)?,
        _ => return Some(plain),
    };
    let (None, inner) = Ipv4::of_ethernet(inner)? else {
        return None; // no guest here sends tags
    };
    Some(Frame {
        vlan,
        tunnel: Some(tunnel),
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
    /// The packet in an Ethernet frame, and the VLAN that the frame is tagged with.
    fn of_ethernet(frame: &'a [u8]) -> Option<(Option<u16>, Self)> {
        let (vlan, at) = match word(frame, 12)? {
            ETHERTYPE_VLAN => (Some(word(frame, 14)? & VLAN_ID), 16),
            _ => (None, 12),
        };
        if word(frame, at)? != ETHERTYPE_IPV4 {
            return None;
        }
        let packet = frame.get(at + 2..)?;
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
        let packet = Self {
            source: address(12)?,
            destination: address(16)?,
            protocol: header[9],
            payload: packet.get(header_length..)?,
        };
        Some((vlan, packet))
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

    /// `frame` with a tag, priority 5 in it.
    pub(crate) fn tagged(vlan: u16, frame: &[u8]) -> Vec<u8> {
        let mut tagged = frame[..12].to_vec();
        tagged.extend([0x81, 0]);
        tagged.extend((0xa000 | vlan).to_be_bytes());
        tagged.extend(&frame[12..]);
        tagged
    }

    fn from_a_to_b(vlan: Option<u16>, tunnel: Option<Tunnel>) -> Option<Frame> {
        Some(Frame {
            vlan,
            tunnel,
            source: A,
            destination: B,
        })
    }

    #[test]
    fn plain_tagged_and_tunnelled() {
        let inner = ipv4(A, B, 6, &[1, 2, 3]);
        assert_eq!(read(&inner), from_a_to_b(None, None));
        assert_eq!(read(&tagged(100, &inner)), from_a_to_b(Some(100), None));
        let vxlan = tunnelled(4789, &VXLAN, &inner);
        let tunnel = Some(Tunnel::Vxlan { vni: 5001 });
        assert_eq!(read(&vxlan), from_a_to_b(None, tunnel));
        assert_eq!(read(&tagged(7, &vxlan)), from_a_to_b(Some(7), tunnel));
        let tunnel = Tunnel::Geneve {
            vni: 5001,
            ovn: Some((7, 9)),
        };
        let geneve = tunnelled(6081, &GENEVE, &inner);
        assert_eq!(read(&geneve), from_a_to_b(None, Some(tunnel)));
        let without = [0, 0, 0x65, 0x58, 0, 0x13, 0x89, 0];
        let tunnel = Tunnel::Geneve {
            vni: 5001,
            ovn: None,
        };
        let geneve = tunnelled(6081, &without, &inner);
        assert_eq!(read(&geneve), from_a_to_b(None, Some(tunnel)));
    }

    #[test]
    fn what_does_not_add_up_is_nobodys() {
        let inner = ipv4(A, B, 6, &[]);
        let no_vni_flag = [0, 0, 0, 0, 0, 0x13, 0x89, 0];
        assert_eq!(read(&tunnelled(4789, &no_vni_flag, &inner)), None);
        let mut long_option = GENEVE;
        long_option[11] = 5;
        assert_eq!(read(&tunnelled(6081, &long_option, &inner)), None);
        let tagged_twice = tagged(1, &tagged(2, &inner));
        let tag_inside = tunnelled(4789, &VXLAN, &tagged(3, &inner));
        assert_eq!([read(&tagged_twice), read(&tag_inside)], [None, None]);
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
