//! IPv6 extension headers (RFC 8200 §4): the chain between the fixed header and the upper layer.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |  Hdr Ext Len  |  ...  (8 + 8 × len bytes)     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The fragment header (RFC 8200 §4.5) is always 8 bytes:
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |   Reserved    |      Fragment Offset    |Res|M|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         Identification                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Emit;
use crate::error::{Layer, WireError};
use crate::ip::protocol;
use crate::layout;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    next_header: u8,
    length: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FragmentLayout {
    next_header: u8,
    reserved: u8,
    offset_more: U16,
    identification: U32,
}

/// A checked chain of extension headers. It ends at the first header that is not one, or at a
/// fragment header of a later fragment, behind which no header starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extensions<'a> {
    first: u8,
    bytes: &'a [u8],
    protocol: u8,
    fragment: Option<Fragment>,
}

/// One extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its own protocol number.
    pub kind: u8,
    /// Protocol number of what follows.
    pub next_header: u8,
    /// The whole header.
    pub bytes: &'a [u8],
}

/// The values of a fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// What the fragmentable part starts with.
    pub next_header: u8,
    /// Place of this fragment, in units of 8 bytes; 13 bits are emitted.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification of a packet's fragments.
    pub identification: u32,
}

impl<'a> Extensions<'a> {
    /// No extension header: `protocol` follows the fixed header.
    pub fn none(protocol: u8) -> Self {
        Self {
            first: protocol,
            bytes: &[],
            protocol,
            fragment: None,
        }
    }

    /// Checks that a chain that starts with header `first` fills `bytes` exactly.
    pub fn new(first: u8, bytes: &'a [u8]) -> Result<Self, WireError> {
        let (extensions, rest) = Self::split(first, bytes)?;
        if rest.is_empty() {
            Ok(extensions)
        } else {
            Err(WireError::OptionsLength {
                layer: Layer::Ipv6Extension,
                found: bytes.len(),
            })
        }
    }

    /// Walks the chain at the front of `bytes`; returns it and what follows it.
    pub fn split(first: u8, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let mut kind = first;
        let mut rest = bytes;
        let mut fragment = None;
        while is_extension(kind) {
            let (extension, after) = Extension::split(kind, rest)?;
            rest = after;
            kind = extension.next_header;
            if extension.kind == protocol::FRAGMENT {
                let found = Fragment::parse(extension.bytes)?;
                fragment = Some(found);
                if found.offset != 0 {
                    break;
                }
            }
        }
        let bytes = &bytes[..bytes.len() - rest.len()];
        Ok((
            Self {
                first,
                bytes,
                protocol: kind,
                fragment,
            },
            rest,
        ))
    }

    /// The headers one after the other.
    pub fn iter(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        let mut kind = self.first;
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (extension, after) = Extension::split(kind, rest).ok()?;
            kind = extension.next_header;
            rest = after;
            Some(extension)
        })
    }

    /// Protocol number in the fixed header.
    pub fn first(&self) -> u8 {
        self.first
    }

    /// Protocol number after the last header.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The (last) fragment header.
    pub fn fragment(&self) -> Option<Fragment> {
        self.fragment
    }

    /// The chain's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Extension<'a> {
    fn split(kind: u8, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let (header, _) = layout::split::<Layout>(Layer::Ipv6Extension, bytes)?;
        let length = usize::from(header.length);
        let length = match kind {
            protocol::FRAGMENT => 8,
            // RFC 4302 §2.2: in words of four bytes, minus 2.
            protocol::AUTHENTICATION => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
        let (bytes, rest) = layout::take(Layer::Ipv6Extension, bytes, length)?;
        Ok((
            Self {
                kind,
                next_header: header.next_header,
                bytes,
            },
            rest,
        ))
    }
}

impl Fragment {
    fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let (header, _) = layout::split::<FragmentLayout>(Layer::Ipv6Extension, bytes)?;
        let offset_more = header.offset_more.get();
        Ok(Self {
            next_header: header.next_header,
            offset: offset_more >> 3,
            more: offset_more & 1 != 0,
            identification: header.identification.get(),
        })
    }
}

impl Emit for Fragment {
    fn emit_len(&self) -> usize {
        8
    }

    fn fill(&self, out: &mut [u8]) {
        let layout = FragmentLayout {
            next_header: self.next_header,
            reserved: 0,
            offset_more: U16::new(self.offset << 3 | u16::from(self.more)),
            identification: U32::new(self.identification),
        };
        out.copy_from_slice(layout.as_bytes());
    }
}

fn is_extension(kind: u8) -> bool {
    matches!(
        kind,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HOST_IDENTITY
            | protocol::SHIM6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_parsed_behind_a_later_fragment() {
        let fragment = Fragment {
            next_header: protocol::HOP_BY_HOP,
            offset: 185,
            more: false,
            identification: 0xdead_beef,
        };
        let mut bytes = fragment.to_bytes();
        assert_eq!(bytes, [0, 0, 0x05, 0xc8, 0xde, 0xad, 0xbe, 0xef]);
        bytes.extend([0xff; 3]);
        let (extensions, rest) = Extensions::split(protocol::FRAGMENT, &bytes).unwrap();
        assert_eq!(extensions.fragment(), Some(fragment));
        assert_eq!(extensions.protocol(), protocol::HOP_BY_HOP);
        assert_eq!(rest, [0xff; 3]);
    }

    #[test]
    fn every_kind_has_its_length() {
        let mut bytes = vec![protocol::ROUTING, 1]; // hop-by-hop, 16 bytes
        bytes.resize(16, 0);
        bytes.extend([protocol::AUTHENTICATION, 0, 0, 0, 0, 0, 0, 0]); // routing, 8
        bytes.extend([protocol::DESTINATION_OPTIONS, 4]); // authentication, 24
        bytes.resize(48, 0);
        bytes.extend([protocol::TCP, 0, 1, 4, 0, 0, 0, 0]); // destination options, 8
        let extensions = Extensions::new(protocol::HOP_BY_HOP, &bytes).unwrap();
        let list: Vec<_> = extensions.iter().map(|e| (e.kind, e.bytes.len())).collect();
        assert_eq!(list, [(0, 16), (43, 8), (51, 24), (60, 8)]);
        assert_eq!(extensions.protocol(), protocol::TCP);
        bytes.push(0);
        assert_eq!(
            Extensions::new(protocol::HOP_BY_HOP, &bytes),
            Err(WireError::OptionsLength {
                layer: Layer::Ipv6Extension,
                found: 57
            })
        );
    }
}
