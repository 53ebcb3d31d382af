//! IPv4 (RFC 791 §3.1). Comes after Ethernet (type 0x0800).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version|  IHL  |   DSCP    |ECN|          Total Length         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |         Identification        |Flags|      Fragment Offset    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Time to Live |    Protocol   |         Header Checksum       |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Source Address                          |
//! |                    Destination Address                        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                    Options (0 to 40 bytes)                    ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::Ipv4Addr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::error::{Layer, WireError};
use crate::layout;
use crate::{Ecn, Emit};

/// Length of the header without options.
pub const LEN: usize = 20;

const RESERVED: u16 = 0x8000;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    version_ihl: u8,
    dscp_ecn: u8,
    total_len: U16,
    identification: U16,
    flags_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

/// A checked options area: at most 40 bytes in whole words. The options inside are not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// No option.
    pub const EMPTY: Self = Self(&[]);

    /// Checks the length.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > 40 || !bytes.len().is_multiple_of(4) {
            return Err(WireError::OptionsLength {
                layer: Layer::Ipv4,
                found: bytes.len(),
            });
        }
        Ok(Self(bytes))
    }

    /// The area's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// A checked IPv4 packet: version 4, header and payload within the bytes.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    options: Options<'a>,
    header_bytes: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks, in this order: 20 bytes, version, header length, total length. The checksum is asked
    /// for with [`checksum_is_right`](Self::checksum_is_right): offloads leave it undone.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::front(bytes)?;
        let total_len = usize::from(view.total_len());
        // Bytes after the packet are the frame's padding.
        let payload = bytes
            .get(view.header_len()..total_len)
            .ok_or(WireError::Length {
                layer: Layer::Ipv4,
                claimed: total_len,
                have: bytes.len(),
            })?;
        Ok(Self { payload, ..view })
    }

    /// The front of a packet, as an ICMP error carries it: the total length is not checked, and the
    /// payload is all that follows the header.
    pub fn front(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = layout::split::<Layout>(Layer::Ipv4, bytes)?;
        let version = header.version_ihl >> 4;
        if version != 4 {
            return Err(WireError::Version {
                layer: Layer::Ipv4,
                found: version,
            });
        }
        let header_len = usize::from(header.version_ihl & 0x0f) * 4;
        if header_len < LEN {
            return Err(WireError::HeaderLength {
                layer: Layer::Ipv4,
                found: header_len,
            });
        }
        let (header_bytes, payload) = layout::take(Layer::Ipv4, bytes, header_len)?;
        let options = Options::new(&header_bytes[LEN..])?;
        Ok(Self {
            header,
            options,
            header_bytes,
            payload,
        })
    }

    /// Differentiated services code point.
    pub fn dscp(&self) -> u8 {
        self.header.dscp_ecn >> 2
    }

    /// Congestion notification.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.header.dscp_ecn)
    }

    /// Length of header and payload.
    pub fn total_len(&self) -> u16 {
        self.header.total_len.get()
    }

    /// Identification of a packet's fragments.
    pub fn identification(&self) -> u16 {
        self.header.identification.get()
    }

    /// The reserved flag is set.
    pub fn has_reserved_bits(&self) -> bool {
        self.header.flags_offset.get() & RESERVED != 0
    }

    /// DF.
    pub fn dont_fragment(&self) -> bool {
        self.header.flags_offset.get() & DONT_FRAGMENT != 0
    }

    /// MF.
    pub fn more_fragments(&self) -> bool {
        self.header.flags_offset.get() & MORE_FRAGMENTS != 0
    }

    /// Place of this fragment, in units of 8 bytes.
    pub fn fragment_offset(&self) -> u16 {
        self.header.flags_offset.get() & OFFSET
    }

    /// Not a whole packet.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.header.ttl
    }

    /// What the payload is.
    pub fn protocol(&self) -> u8 {
        self.header.protocol
    }

    /// The checksum as sent.
    pub fn checksum(&self) -> u16 {
        self.header.checksum.get()
    }

    /// The header's checksum verifies.
    pub fn checksum_is_right(&self) -> bool {
        Sum::new().bytes(self.header_bytes).verifies()
    }

    /// Sender.
    pub fn source(&self) -> Ipv4Addr {
        self.header.source.into()
    }

    /// Receiver.
    pub fn destination(&self) -> Ipv4Addr {
        self.header.destination.into()
    }

    /// The options' bytes.
    pub fn options(&self) -> Options<'a> {
        self.options
    }

    /// Length of the header with its options.
    pub fn header_len(&self) -> usize {
        self.header_bytes.len()
    }

    /// The payload, without the frame's padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The values a sender chooses; the checksum follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Differentiated services code point; six bits are emitted.
    pub dscp: u8,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Length of header and payload.
    pub total_len: u16,
    /// Identification of a packet's fragments.
    pub identification: u16,
    /// DF.
    pub dont_fragment: bool,
    /// MF.
    pub more_fragments: bool,
    /// Place of this fragment, in units of 8 bytes; 13 bits are emitted.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: u8,
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
    /// Options, emitted as they are.
    pub options: Options<'a>,
}

impl<'a> Header<'a> {
    /// Takes the values over.
    pub fn parse(view: &View<'a>) -> Self {
        Self {
            dscp: view.dscp(),
            ecn: view.ecn(),
            total_len: view.total_len(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
            options: view.options(),
        }
    }
}

impl Emit for Header<'_> {
    fn emit_len(&self) -> usize {
        LEN + self.options.0.len()
    }

    fn fill(&self, out: &mut [u8]) {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let mut layout = Layout {
            version_ihl: 0x40 | (self.emit_len() / 4) as u8,
            dscp_ecn: self.dscp << 2 | self.ecn.bits(),
            total_len: U16::new(self.total_len),
            identification: U16::new(self.identification),
            flags_offset: U16::new(
                flag(self.dont_fragment, DONT_FRAGMENT)
                    | flag(self.more_fragments, MORE_FRAGMENTS)
                    | self.fragment_offset & OFFSET,
            ),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        let checksum = Sum::new()
            .bytes(layout.as_bytes())
            .bytes(self.options.0)
            .finish();
        layout.checksum.set(checksum);
        let (fixed, options) = out.split_at_mut(LEN);
        fixed.copy_from_slice(layout.as_bytes());
        options.copy_from_slice(self.options.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that textbooks compute 0xb861 for, with a payload of 95 bytes.
    const GOLDEN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, //
        0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    fn packet() -> Vec<u8> {
        let mut bytes = GOLDEN.to_vec();
        bytes.resize(0x73, 0xaa);
        bytes
    }

    #[test]
    fn golden_bytes() {
        let bytes = packet();
        let view = View::new_checked(&bytes).unwrap();
        assert!(view.checksum_is_right() && view.dont_fragment() && !view.is_fragment());
        assert_eq!(
            (view.ttl(), view.protocol(), view.header_len()),
            (64, 17, 20)
        );
        assert_eq!(view.payload().len(), 95);
        assert_eq!(Header::parse(&view).to_bytes(), GOLDEN);
    }

    #[test]
    fn lengths() {
        let with = |at: usize, value: u8| {
            let mut bytes = packet();
            bytes[at] = value;
            View::new_checked(&bytes).err()
        };
        assert_eq!(
            with(0, 0x65),
            Some(WireError::Version {
                layer: Layer::Ipv4,
                found: 6
            })
        );
        assert_eq!(
            with(0, 0x44),
            Some(WireError::HeaderLength {
                layer: Layer::Ipv4,
                found: 16
            })
        );
        let length = |claimed| {
            Some(WireError::Length {
                layer: Layer::Ipv4,
                claimed,
                have: 0x73,
            })
        };
        assert_eq!(with(3, 0x74), length(0x74));
        assert_eq!(with(3, 19), length(19));
        assert_eq!(with(3, 20), None);
        assert_eq!(with(0, 0x4f), None);
        assert_eq!(
            View::new_checked(&GOLDEN[..19]).err(),
            Some(WireError::Truncated {
                layer: Layer::Ipv4,
                needed: 20,
                have: 19
            })
        );
    }

    #[test]
    fn padding_is_not_payload() {
        let mut bytes = packet();
        bytes.extend([0; 6]);
        assert_eq!(View::new_checked(&bytes).unwrap().payload().len(), 95);
    }

    #[test]
    fn fragments() {
        for (high, low) in [(0x20, 0x00), (0x00, 0x01), (0x1f, 0xff)] {
            let mut bytes = packet();
            (bytes[6], bytes[7]) = (high, low);
            let view = View::new_checked(&bytes).unwrap();
            assert!(view.is_fragment() && !view.checksum_is_right());
        }
    }
}
