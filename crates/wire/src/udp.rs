//! UDP (RFC 768). Comes after IP (protocol 17); on a tunnel port VXLAN or Geneve follows.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Source Port          |       Destination Port        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Length             |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use std::net::IpAddr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Emit;
use crate::checksum::Sum;
use crate::error::{Layer, WireError};
use crate::ip::protocol;
use crate::layout;

/// Length of the header.
pub const LEN: usize = 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    source: U16,
    destination: U16,
    length: U16,
    checksum: U16,
}

/// A checked UDP datagram: header and payload within the bytes.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    datagram: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks 8 bytes, and 8 ≤ length field ≤ bytes there are.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = layout::split::<Layout>(Layer::Udp, bytes)?;
        let claimed = usize::from(header.length.get());
        match bytes.get(..claimed) {
            Some(datagram) if claimed >= LEN => Ok(Self { header, datagram }),
            _ => Err(WireError::Length {
                layer: Layer::Udp,
                claimed,
                have: bytes.len(),
            }),
        }
    }

    /// The front of a datagram, as an ICMP error carries it: the length field is not checked, and
    /// the payload is all that follows.
    pub fn front(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = layout::split::<Layout>(Layer::Udp, bytes)?;
        Ok(Self {
            header,
            datagram: bytes,
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

    /// Length of header and payload.
    pub fn length(&self) -> u16 {
        self.header.length.get()
    }

    /// The checksum as sent; `None` for 0, "not computed".
    pub fn checksum(&self) -> Option<u16> {
        Some(self.header.checksum.get()).filter(|checksum| *checksum != 0)
    }

    /// The checksum verifies, or there is none. Whether there may be none over IPv6 (RFC 6936) is
    /// the receiver's to decide.
    pub fn checksum_is_right(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.checksum().is_none()
            || Sum::new()
                .pseudo_header(source, destination, protocol::UDP, self.datagram.len())
                .bytes(self.datagram)
                .verifies()
    }

    /// The payload, as long as the length field says.
    pub fn payload(&self) -> &'a [u8] {
        &self.datagram[LEN..]
    }
}

/// The values a sender chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Sender's port.
    pub source: u16,
    /// Receiver's port.
    pub destination: u16,
    /// Length of header and payload.
    pub length: u16,
    /// Checksum; 0 says "not computed".
    pub checksum: u16,
}

impl Header {
    /// Takes the values over.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            length: view.length(),
            checksum: view.header.checksum.get(),
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
        let checksum = Sum::new()
            .pseudo_header(source, destination, protocol::UDP, LEN + payload.len())
            .bytes(blank.as_bytes())
            .bytes(payload)
            .finish_udp();
        Self { checksum, ..self }
    }

    fn layout(&self) -> Layout {
        Layout {
            source: U16::new(self.source),
            destination: U16::new(self.destination),
            length: U16::new(self.length),
            checksum: U16::new(self.checksum),
        }
    }
}

impl Emit for Header {
    fn emit_len(&self) -> usize {
        LEN
    }

    fn fill(&self, out: &mut [u8]) {
        out.copy_from_slice(self.layout().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [u8; 10] = [0xc0, 0x00, 0x12, 0xb5, 0x00, 0x0a, 0x00, 0x00, 0x12, 0x34];

    #[test]
    fn golden_bytes() {
        let view = View::new_checked(&GOLDEN).unwrap();
        assert_eq!(
            (view.source(), view.destination(), view.length()),
            (49152, 4789, 10)
        );
        assert_eq!((view.checksum(), view.payload()), (None, &[0x12, 0x34][..]));
        assert_eq!(Header::parse(&view).to_bytes(), GOLDEN[..8]);
    }

    #[test]
    fn lengths() {
        for (length, right) in [(0, false), (7, false), (8, true), (10, true), (11, false)] {
            let mut bytes = GOLDEN;
            bytes[5] = length;
            let error = WireError::Length {
                layer: Layer::Udp,
                claimed: length.into(),
                have: 10,
            };
            assert_eq!(View::new_checked(&bytes).err(), (!right).then_some(error));
        }
    }

    #[test]
    fn checksum_over_both_families() {
        let header = Header {
            source: 1,
            destination: 2,
            length: 11,
            checksum: 0,
        };
        for (source, destination) in [("198.18.0.1", "198.18.0.2"), ("2001:2::1", "2001:2::2")] {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let mut bytes = header.with_checksum(source, destination, b"odd").to_bytes();
            bytes.extend(b"odd");
            let right = |bytes: &[u8]| {
                View::new_checked(bytes)
                    .unwrap()
                    .checksum_is_right(source, destination)
            };
            assert!(right(&bytes));
            bytes[9] ^= 1;
            assert!(!right(&bytes));
            bytes[6..8].fill(0);
            assert!(right(&bytes));
        }
    }
}
