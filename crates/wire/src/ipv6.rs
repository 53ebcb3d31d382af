//! IPv6 (RFC 8200 §3). Comes after Ethernet (type 0x86dd); extension headers may follow before the
//! upper layer (`ipv6_extension.rs`).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version|   DSCP    |ECN|           Flow Label                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                   Source Address (16 bytes)                   |
//! |                 Destination Address (16 bytes)                |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::Ipv6Addr;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::ipv6_extension::{Extensions, Fragment};
use crate::layout;
use crate::{Ecn, Emit};

/// Length of the fixed header.
pub const LEN: usize = 40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    version_class_flow: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

/// A checked IPv6 packet: version 6, extension headers and payload within the bytes.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    extensions: Extensions<'a>,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks, in this order: 40 bytes, version, payload length, each extension header.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = Self::fixed(bytes)?;
        let payload_len = usize::from(header.payload_len.get());
        // Bytes after the packet are the frame's padding. Jumbograms (RFC 2675) are not supported.
        let payload = rest.get(..payload_len).ok_or(WireError::Length {
            layer: Layer::Ipv6,
            claimed: payload_len,
            have: rest.len(),
        })?;
        let (extensions, payload) = Extensions::split(header.next_header, payload)?;
        Ok(Self {
            header,
            extensions,
            payload,
        })
    }

    /// The front of a packet, as an ICMPv6 error carries it: the payload length is not checked, and
    /// the payload is all that follows the extension headers.
    pub fn front(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = Self::fixed(bytes)?;
        let (extensions, payload) = Extensions::split(header.next_header, rest)?;
        Ok(Self {
            header,
            extensions,
            payload,
        })
    }

    fn fixed(bytes: &'a [u8]) -> Result<(&'a Layout, &'a [u8]), WireError> {
        let (header, rest) = layout::split::<Layout>(Layer::Ipv6, bytes)?;
        let version = (header.version_class_flow.get() >> 28) as u8;
        if version != 6 {
            return Err(WireError::Version {
                layer: Layer::Ipv6,
                found: version,
            });
        }
        Ok((header, rest))
    }

    /// Differentiated services code point.
    pub fn dscp(&self) -> u8 {
        (self.header.version_class_flow.get() >> 22) as u8 & 0x3f
    }

    /// Congestion notification.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits((self.header.version_class_flow.get() >> 20) as u8)
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.header.version_class_flow.get() & 0x000f_ffff
    }

    /// Length of extension headers and payload.
    pub fn payload_len(&self) -> u16 {
        self.header.payload_len.get()
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.header.hop_limit
    }

    /// Sender.
    pub fn source(&self) -> Ipv6Addr {
        self.header.source.into()
    }

    /// Receiver.
    pub fn destination(&self) -> Ipv6Addr {
        self.header.destination.into()
    }

    /// The extension headers.
    pub fn extensions(&self) -> Extensions<'a> {
        self.extensions
    }

    /// What the payload is, after all extension headers. In a later fragment it is what the whole
    /// packet's fragmentable part starts with.
    pub fn protocol(&self) -> u8 {
        self.extensions.protocol()
    }

    /// The fragment header, if there is one.
    pub fn fragment(&self) -> Option<Fragment> {
        self.extensions.fragment()
    }

    /// Not a whole packet. An "atomic fragment" (RFC 6946) is a whole one.
    pub fn is_fragment(&self) -> bool {
        self.fragment()
            .is_some_and(|fragment| fragment.more || fragment.offset != 0)
    }

    /// Length of fixed header and extension headers.
    pub fn header_len(&self) -> usize {
        LEN + self.extensions.bytes().len()
    }

    /// The payload, without the frame's padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The values a sender chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Differentiated services code point; six bits are emitted.
    pub dscp: u8,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Flow label; 20 bits are emitted.
    pub flow_label: u32,
    /// Length of extension headers and payload.
    pub payload_len: u16,
    /// Hop limit.
    pub hop_limit: u8,
    /// Sender.
    pub source: Ipv6Addr,
    /// Receiver.
    pub destination: Ipv6Addr,
    /// Extension headers, emitted as they are, and the protocol after them.
    pub extensions: Extensions<'a>,
}

impl<'a> Header<'a> {
    /// Takes the values over.
    pub fn parse(view: &View<'a>) -> Self {
        Self {
            dscp: view.dscp(),
            ecn: view.ecn(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
            hop_limit: view.hop_limit(),
            source: view.source(),
            destination: view.destination(),
            extensions: view.extensions(),
        }
    }
}

impl Emit for Header<'_> {
    fn emit_len(&self) -> usize {
        LEN + self.extensions.bytes().len()
    }

    fn fill(&self, out: &mut [u8]) {
        let class = self.dscp << 2 | self.ecn.bits();
        let layout = Layout {
            version_class_flow: U32::new(
                6 << 28 | u32::from(class) << 20 | self.flow_label & 0x000f_ffff,
            ),
            payload_len: U16::new(self.payload_len),
            next_header: self.extensions.first(),
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        let (fixed, extensions) = out.split_at_mut(LEN);
        fixed.copy_from_slice(layout.as_bytes());
        extensions.copy_from_slice(self.extensions.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::protocol;

    fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![
            0x6b,
            0x8a,
            0xbc,
            0xde,
            0,
            payload.len() as u8,
            next_header,
            64,
        ];
        bytes.extend("2001:2::1".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend("2001:2::2".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn golden_bytes() {
        let bytes = packet(protocol::UDP, &[1, 2, 3]);
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(
            (view.dscp(), view.ecn(), view.flow_label()),
            (46, Ecn::NotEct, 0xa_bcde)
        );
        assert_eq!(
            (view.protocol(), view.hop_limit(), view.payload_len()),
            (17, 64, 3)
        );
        assert_eq!(view.payload(), [1, 2, 3]);
        assert_eq!(Header::parse(&view).to_bytes(), bytes[..40]);
    }

    #[test]
    fn extension_headers_are_walked() {
        let mut payload = vec![protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0]; // hop-by-hop, PadN
        payload.extend([protocol::UDP, 0, 0, 1, 0, 0, 0, 7]); // first fragment, more follow
        payload.extend([9; 8]);
        let bytes = packet(protocol::HOP_BY_HOP, &payload);
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.protocol(), protocol::UDP);
        assert_eq!(view.payload(), [9; 8]);
        assert_eq!(view.header_len(), 56);
        assert!(view.is_fragment());
        assert_eq!(view.fragment().unwrap().identification, 7);
        assert_eq!(Header::parse(&view).to_bytes(), bytes[..56]);
        // Cut inside the second extension header.
        let mut cut = bytes[..52].to_vec();
        cut[5] = 12;
        assert_eq!(
            View::new_checked(&cut).err(),
            Some(WireError::Truncated {
                layer: Layer::Ipv6Extension,
                needed: 8,
                have: 4
            })
        );
    }

    #[test]
    fn lengths() {
        let bytes = packet(protocol::UDP, &[1, 2, 3]);
        assert_eq!(
            View::new_checked(&bytes[..42]).err(),
            Some(WireError::Length {
                layer: Layer::Ipv6,
                claimed: 3,
                have: 2
            })
        );
        assert_eq!(
            View::new_checked(&bytes[..39]).err(),
            Some(WireError::Truncated {
                layer: Layer::Ipv6,
                needed: 40,
                have: 39
            })
        );
        let mut wrong = bytes.clone();
        wrong[0] = 0x45;
        assert_eq!(
            View::new_checked(&wrong).err(),
            Some(WireError::Version {
                layer: Layer::Ipv6,
                found: 4
            })
        );
    }
}
