//! TCP (RFC 9293 §3.1). Comes after IP (protocol 6).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Source Port          |       Destination Port        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Sequence Number                        |
//! |                     Acknowledgment Number                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Data |       |C|E|U|A|P|R|S|F|                               |
//! | Offset| Rsrvd |W|C|R|C|S|S|Y|I|            Window             |
//! |       |       |R|E|G|K|H|T|N|N|                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Checksum            |         Urgent Pointer        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                    Options (0 to 40 bytes)                    ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::IpAddr;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Emit;
use crate::checksum::Sum;
use crate::error::{Layer, WireError};
use crate::ip::protocol;
use crate::layout;
use crate::tcp_option::Options;

/// Length of the header without options.
pub const LEN: usize = 20;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    source: U16,
    destination: U16,
    sequence: U32,
    acknowledgment: U32,
    offset_reserved: u8,
    flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

/// The eight control bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// All bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A checked TCP segment: header and options are there, and the options can be walked.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    options: Options<'a>,
    segment: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks, in this order: 20 bytes, data offset, each option.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = layout::split::<Layout>(Layer::Tcp, bytes)?;
        let header_len = usize::from(header.offset_reserved >> 4) * 4;
        if header_len < LEN {
            return Err(WireError::HeaderLength {
                layer: Layer::Tcp,
                found: header_len,
            });
        }
        let (header_bytes, _) = layout::take(Layer::Tcp, bytes, header_len)?;
        let options = Options::new(&header_bytes[LEN..])?;
        Ok(Self {
            header,
            options,
            segment: bytes,
        })
    }

    /// Sender's port.
    pub fn source(&self) -> u16 {
        self.header.source.get()
    }

    /// Receiver's port.
    pub fn destination(&self) -> u16 {
        self.header.destination.get()
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        self.header.sequence.get()
    }

    /// Acknowledgment number.
    pub fn acknowledgment(&self) -> u32 {
        self.header.acknowledgment.get()
    }

    /// Control bits.
    pub fn flags(&self) -> Flags {
        Flags(self.header.flags)
    }

    /// Some of the four reserved bits is set.
    pub fn has_reserved_bits(&self) -> bool {
        self.header.offset_reserved & 0x0f != 0
    }

    /// Window.
    pub fn window(&self) -> u16 {
        self.header.window.get()
    }

    /// The checksum as sent.
    pub fn checksum(&self) -> u16 {
        self.header.checksum.get()
    }

    /// The checksum verifies.
    pub fn checksum_is_right(&self, source: IpAddr, destination: IpAddr) -> bool {
        Sum::new()
            .pseudo_header(source, destination, protocol::TCP, self.segment.len())
            .bytes(self.segment)
            .verifies()
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        self.header.urgent.get()
    }

    /// The options.
    pub fn options(&self) -> Options<'a> {
        self.options
    }

    /// Length of the header with its options.
    pub fn header_len(&self) -> usize {
        LEN + self.options.bytes().len()
    }

    /// The payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.segment[self.header_len()..]
    }
}

/// The values a sender chooses. Reserved bits are emitted as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Sender's port.
    pub source: u16,
    /// Receiver's port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window.
    pub window: u16,
    /// Checksum.
    pub checksum: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options, emitted as they are.
    pub options: Options<'a>,
}

impl<'a> Header<'a> {
    /// Takes the values over.
    pub fn parse(view: &View<'a>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            checksum: view.checksum(),
            urgent: view.urgent(),
            options: view.options(),
        }
    }

    /// The same header with the checksum over itself and `payload`.
    #[must_use]
    pub fn with_checksum(self, source: IpAddr, destination: IpAddr, payload: &[u8]) -> Self {
        let blank = Self {
            checksum: 0,
            ..self
        }
        .layout();
        let length = self.emit_len() + payload.len();
        let checksum = Sum::new()
            .pseudo_header(source, destination, protocol::TCP, length)
            .bytes(blank.as_bytes())
            .bytes(self.options.bytes())
            .bytes(payload)
            .finish();
        Self { checksum, ..self }
    }

    fn layout(&self) -> Layout {
        Layout {
            source: U16::new(self.source),
            destination: U16::new(self.destination),
            sequence: U32::new(self.sequence),
            acknowledgment: U32::new(self.acknowledgment),
            offset_reserved: ((self.emit_len() / 4) as u8) << 4,
            flags: self.flags.0,
            window: U16::new(self.window),
            checksum: U16::new(self.checksum),
            urgent: U16::new(self.urgent),
        }
    }
}

impl Emit for Header<'_> {
    fn emit_len(&self) -> usize {
        LEN + self.options.bytes().len()
    }

    fn fill(&self, out: &mut [u8]) {
        let (fixed, options) = out.split_at_mut(LEN);
        fixed.copy_from_slice(self.layout().as_bytes());
        options.copy_from_slice(self.options.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp_option::TcpOption;

    const SYN: [u8; 28] = [
        0x13, 0x89, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 0, // ports, sequence, acknowledgment
        0x70, 0x02, 0xfa, 0xf0, 0, 0, 0, 0, // 28 bytes, SYN, window
        2, 4, 0x05, 0xb4, 1, 3, 3, 7, // MSS 1460, NOP, window scale 7
    ];

    #[test]
    fn golden_bytes() {
        let view = View::new_checked(&SYN).unwrap();
        assert_eq!(
            (view.source(), view.destination(), view.window()),
            (5001, 5201, 64240)
        );
        assert!(view.flags().contains(Flags::SYN) && !view.flags().contains(Flags::ACK));
        let options: Vec<_> = view.options().iter().collect();
        assert_eq!(
            options,
            [
                TcpOption::MaxSegmentSize(1460),
                TcpOption::Nop,
                TcpOption::WindowScale(7)
            ]
        );
        assert!(view.payload().is_empty());
        assert_eq!(Header::parse(&view).to_bytes(), SYN);
    }

    #[test]
    fn lengths() {
        let with = |at: usize, value: u8| {
            let mut bytes = SYN;
            bytes[at] = value;
            View::new_checked(&bytes).err()
        };
        assert_eq!(
            with(12, 0x40),
            Some(WireError::HeaderLength {
                layer: Layer::Tcp,
                found: 16
            })
        );
        assert_eq!(
            with(12, 0x80),
            Some(WireError::Truncated {
                layer: Layer::Tcp,
                needed: 32,
                have: 28
            })
        );
        assert_eq!(
            with(26, 4),
            Some(WireError::OptionLength {
                layer: Layer::Tcp,
                kind: 3,
                length: 4
            })
        );
        assert_eq!(with(12, 0x50), None);
    }

    #[test]
    fn checksum() {
        let view = View::new_checked(&SYN).unwrap();
        let (source, destination) = ([198, 18, 0, 1].into(), [198, 18, 0, 2].into());
        let header = Header::parse(&view).with_checksum(source, destination, b"abc");
        let mut bytes = header.to_bytes();
        bytes.extend(b"abc");
        assert!(
            View::new_checked(&bytes)
                .unwrap()
                .checksum_is_right(source, destination)
        );
        bytes[30] ^= 0x40;
        assert!(
            !View::new_checked(&bytes)
                .unwrap()
                .checksum_is_right(source, destination)
        );
    }
}
