//! Options of neighbour discovery (RFC 4861 §4.6): type, length in units of 8 bytes, data.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |    Length     |              ...              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::Ipv6Addr;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::{Emit, Mac};

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PrefixLayout {
    prefix_len: u8,
    flags: u8,
    valid_s: U32,
    preferred_s: U32,
    reserved: [u8; 4],
    prefix: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MtuLayout {
    reserved: U16,
    mtu: U32,
}

/// A checked options area: whole options of non-zero length fill it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// No option.
    pub const EMPTY: Self = Self(&[]);

    /// Walks the area. Known options must have the length that RFC 4861 §4.6 and Ethernet
    /// (RFC 2464 §6) give.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = NdOption::split(rest)?.1;
        }
        Ok(Self(bytes))
    }

    /// The options one after the other.
    pub fn iter(&self) -> impl Iterator<Item = NdOption<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (option, after) = NdOption::split(rest).ok()?;
            rest = after;
            Some(option)
        })
    }

    /// The area's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// MAC of the sender.
    SourceLinkLayer(Mac),
    /// MAC of the target.
    TargetLinkLayer(Mac),
    /// A prefix of the link.
    Prefix {
        /// Bits of the prefix that count.
        prefix_len: u8,
        /// On-link, autonomous and further flags, as on the wire.
        flags: u8,
        /// Seconds the prefix is valid.
        valid_s: u32,
        /// Seconds addresses from it are preferred.
        preferred_s: u32,
        /// The prefix.
        prefix: Ipv6Addr,
    },
    /// MTU of the link.
    Mtu(u32),
    /// Any other type; not 0 bytes long.
    Other {
        /// Type.
        kind: u8,
        /// Data after type and length: 6 bytes, or 8 more each time.
        data: &'a [u8],
    },
}

impl<'a> NdOption<'a> {
    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let kind = bytes.first().copied().unwrap_or(0);
        let length = usize::from(bytes.get(1).copied().unwrap_or(0));
        let wrong = WireError::OptionLength {
            layer: Layer::Nd,
            kind,
            length,
        };
        let Some(data) = bytes.get(2..length * 8) else {
            return Err(wrong);
        };
        let mac = || {
            <[u8; 6]>::try_from(data)
                .map(Mac::new)
                .map_err(|_| wrong.clone())
        };
        let option = match kind {
            SOURCE_LINK_LAYER => Self::SourceLinkLayer(mac()?),
            TARGET_LINK_LAYER => Self::TargetLinkLayer(mac()?),
            PREFIX => {
                let prefix = PrefixLayout::ref_from_bytes(data).map_err(|_| wrong)?;
                Self::Prefix {
                    prefix_len: prefix.prefix_len,
                    flags: prefix.flags,
                    valid_s: prefix.valid_s.get(),
                    preferred_s: prefix.preferred_s.get(),
                    prefix: prefix.prefix.into(),
                }
            }
            MTU => Self::Mtu(
                MtuLayout::ref_from_bytes(data)
                    .map_err(|_| wrong)?
                    .mtu
                    .get(),
            ),
            kind => Self::Other { kind, data },
        };
        Ok((option, &bytes[length * 8..]))
    }

    fn kind(&self) -> u8 {
        match self {
            Self::SourceLinkLayer(_) => SOURCE_LINK_LAYER,
            Self::TargetLinkLayer(_) => TARGET_LINK_LAYER,
            Self::Prefix { .. } => PREFIX,
            Self::Mtu(_) => MTU,
            Self::Other { kind, .. } => *kind,
        }
    }
}

impl Emit for NdOption<'_> {
    fn emit_len(&self) -> usize {
        match self {
            Self::SourceLinkLayer(_) | Self::TargetLinkLayer(_) | Self::Mtu(_) => 8,
            Self::Prefix { .. } => 2 + size_of::<PrefixLayout>(),
            Self::Other { data, .. } => 2 + data.len(),
        }
    }

    fn fill(&self, out: &mut [u8]) {
        let length = (self.emit_len() / 8) as u8;
        let (header, data) = out.split_at_mut(2);
        header.copy_from_slice(&[self.kind(), length]);
        match *self {
            Self::SourceLinkLayer(mac) | Self::TargetLinkLayer(mac) => {
                data.copy_from_slice(mac.bytes());
            }
            Self::Prefix {
                prefix_len,
                flags,
                valid_s,
                preferred_s,
                prefix,
            } => {
                let layout = PrefixLayout {
                    prefix_len,
                    flags,
                    valid_s: U32::new(valid_s),
                    preferred_s: U32::new(preferred_s),
                    reserved: [0; 4],
                    prefix: prefix.octets(),
                };
                data.copy_from_slice(layout.as_bytes());
            }
            Self::Mtu(mtu) => {
                let layout = MtuLayout {
                    reserved: U16::ZERO,
                    mtu: U32::new(mtu),
                };
                data.copy_from_slice(layout.as_bytes());
            }
            Self::Other { data: bytes, .. } => data.copy_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option() {
        let options = [
            NdOption::SourceLinkLayer(Mac::new([2, 0, 0, 0, 0, 1])),
            NdOption::TargetLinkLayer(Mac::new([2, 0, 0, 0, 0, 2])),
            NdOption::Prefix {
                prefix_len: 64,
                flags: 0xc0,
                valid_s: 86_400,
                preferred_s: 14_400,
                prefix: "2001:2::".parse().unwrap(),
            },
            NdOption::Mtu(1450),
            NdOption::Other {
                kind: 14,
                data: &[1, 2, 3, 4, 5, 6],
            },
        ];
        let mut area = Vec::new();
        options.iter().for_each(|option| option.emit_to(&mut area));
        assert_eq!(area.len(), 8 + 8 + 32 + 8 + 8);
        assert_eq!(
            Options::new(&area).unwrap().iter().collect::<Vec<_>>(),
            options
        );
    }

    #[test]
    fn lengths() {
        for (kind, length, bytes) in [(14, 0, 8), (1, 2, 16), (3, 1, 8), (5, 2, 16), (14, 2, 8)] {
            let mut area = vec![0; bytes];
            (area[0], area[1]) = (kind, length);
            assert_eq!(
                Options::new(&area),
                Err(WireError::OptionLength {
                    layer: Layer::Nd,
                    kind,
                    length: length.into()
                })
            );
        }
        assert!(Options::new(&[1]).is_err());
    }
}
