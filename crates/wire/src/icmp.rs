//! ICMP (RFC 792) and ICMPv6 (RFC 4443): echo and errors. Comes after IP (protocol 1 or 58). One
//! file for both, because they share their form; neighbour discovery is in `nd.rs`.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |     Code      |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  rest: identifier and sequence | unused and MTU | pointer     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~  echo data, or as much of the offending packet as fits        ~
//! ```

use std::net::IpAddr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Emit;
use crate::checksum::Sum;
use crate::error::{Layer, WireError};
use crate::ip::{IpVersion, protocol};
use crate::layout;

/// Length of the header.
pub const LEN: usize = 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: [u8; 4],
}

/// A checked ICMP or ICMPv6 message: its header is there.
#[derive(Clone, Copy)]
pub struct View<'a> {
    version: IpVersion,
    header: &'a Layout,
    message: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks 8 bytes. The IP version says how to read the type.
    pub fn new_checked(version: IpVersion, bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = layout::split::<Layout>(Layer::Icmp, bytes)?;
        Ok(Self {
            version,
            header,
            message: bytes,
        })
    }

    /// Whether this is ICMP or ICMPv6.
    pub fn version(&self) -> IpVersion {
        self.version
    }

    /// The type field.
    pub fn kind(&self) -> u8 {
        self.header.kind
    }

    /// The code field.
    pub fn code(&self) -> u8 {
        self.header.code
    }

    /// The checksum as sent.
    pub fn checksum(&self) -> u16 {
        self.header.checksum.get()
    }

    /// The checksum verifies; the addresses count only in ICMPv6.
    pub fn checksum_is_right(&self, source: IpAddr, destination: IpAddr) -> bool {
        pseudo_header(self.version, source, destination, self.message.len())
            .bytes(self.message)
            .verifies()
    }

    /// Type, code and the rest of the header as one value.
    pub fn message(&self) -> Message {
        Message::new(self.version, self.header)
    }

    /// Echo data, or the front of the offending packet.
    pub fn payload(&self) -> &'a [u8] {
        &self.message[LEN..]
    }
}

/// What an ICMP or ICMPv6 header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Ping.
    EchoRequest {
        /// Identifier.
        identifier: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// Its answer.
    EchoReply {
        /// Identifier.
        identifier: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// ICMP 3/4: a link's MTU is too small and DF is set (RFC 1191 §4).
    FragmentationNeeded {
        /// MTU of that link.
        mtu: u16,
    },
    /// ICMPv6 2: a link's MTU is too small (RFC 4443 §3.2).
    PacketTooBig {
        /// MTU of that link.
        mtu: u32,
    },
    /// ICMP 3, ICMPv6 1; never ICMP code 4.
    Unreachable {
        /// Why.
        code: u8,
    },
    /// ICMP 11, ICMPv6 3.
    TimeExceeded {
        /// In transit (0) or in reassembly (1).
        code: u8,
    },
    /// ICMP 12, ICMPv6 4.
    ParameterProblem {
        /// Why.
        code: u8,
        /// Byte of the offending packet; at most 255 in ICMP.
        pointer: u32,
    },
    /// Any other type, and echo with a code other than 0.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The rest of the header.
        rest: [u8; 4],
    },
}

impl Message {
    fn new(version: IpVersion, header: &Layout) -> Self {
        let [a, b, c, d] = header.rest;
        let (identifier, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let code = header.code;
        match (version, header.kind, code) {
            (IpVersion::V4, 8, 0) | (IpVersion::V6, 128, 0) => Self::EchoRequest {
                identifier,
                sequence,
            },
            (IpVersion::V4, 0, 0) | (IpVersion::V6, 129, 0) => Self::EchoReply {
                identifier,
                sequence,
            },
            (IpVersion::V4, 3, 4) => Self::FragmentationNeeded { mtu: sequence },
            // The code is 0, and ignored by the receiver.
            (IpVersion::V6, 2, _) => Self::PacketTooBig {
                mtu: u32::from_be_bytes(header.rest),
            },
            (IpVersion::V4, 3, _) | (IpVersion::V6, 1, _) => Self::Unreachable { code },
            (IpVersion::V4, 11, _) | (IpVersion::V6, 3, _) => Self::TimeExceeded { code },
            (IpVersion::V4, 12, _) => Self::ParameterProblem {
                code,
                pointer: u32::from(a),
            },
            (IpVersion::V6, 4, _) => Self::ParameterProblem {
                code,
                pointer: u32::from_be_bytes(header.rest),
            },
            (_, kind, _) => Self::Other {
                kind,
                code,
                rest: header.rest,
            },
        }
    }

    /// An error, which carries the front of the offending packet.
    pub fn is_error(&self) -> bool {
        matches!(
            self,
            Self::FragmentationNeeded { .. }
                | Self::PacketTooBig { .. }
                | Self::Unreachable { .. }
                | Self::TimeExceeded { .. }
                | Self::ParameterProblem { .. }
        )
    }

    /// Type, code and rest of the header.
    fn fields(&self, version: IpVersion) -> (u8, u8, [u8; 4]) {
        let kind = |v4: u8, v6: u8| match version {
            IpVersion::V4 => v4,
            IpVersion::V6 => v6,
        };
        let words = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        match *self {
            Self::EchoRequest {
                identifier,
                sequence,
            } => (kind(8, 128), 0, words(identifier, sequence)),
            Self::EchoReply {
                identifier,
                sequence,
            } => (kind(0, 129), 0, words(identifier, sequence)),
            Self::FragmentationNeeded { mtu } => (3, 4, words(0, mtu)),
            Self::PacketTooBig { mtu } => (2, 0, mtu.to_be_bytes()),
            Self::Unreachable { code } => (kind(3, 1), code, [0; 4]),
            Self::TimeExceeded { code } => (kind(11, 3), code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                let rest = match version {
                    IpVersion::V4 => [u8::try_from(pointer).unwrap_or(u8::MAX), 0, 0, 0],
                    IpVersion::V6 => pointer.to_be_bytes(),
                };
                (kind(12, 4), code, rest)
            }
            Self::Other { kind, code, rest } => (kind, code, rest),
        }
    }
}

/// The values a sender chooses. Unused bytes are emitted as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// ICMP or ICMPv6. A message that only the other one has is emitted with its own number.
    pub version: IpVersion,
    /// Type, code and rest of the header.
    pub message: Message,
    /// Checksum.
    pub checksum: u16,
}

impl Header {
    /// Takes the values over.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            version: view.version,
            message: view.message(),
            checksum: view.checksum(),
        }
    }

    /// The same header with the checksum over itself and `payload`; the addresses count only in
    /// ICMPv6.
    #[must_use]
    pub fn with_checksum(self, source: IpAddr, destination: IpAddr, payload: &[u8]) -> Self {
        let blank = Self {
            checksum: 0,
            ..self
        }
        .layout();
        let checksum = pseudo_header(self.version, source, destination, LEN + payload.len())
            .bytes(blank.as_bytes())
            .bytes(payload)
            .finish();
        Self { checksum, ..self }
    }

    fn layout(&self) -> Layout {
        let (kind, code, rest) = self.message.fields(self.version);
        Layout {
            kind,
            code,
            checksum: U16::new(self.checksum),
            rest,
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

/// ICMPv6 sums its pseudo header (RFC 4443 §2.3), ICMP does not.
pub(crate) fn pseudo_header(
    version: IpVersion,
    source: IpAddr,
    destination: IpAddr,
    length: usize,
) -> Sum {
    match version {
        IpVersion::V4 => Sum::new(),
        IpVersion::V6 => Sum::new().pseudo_header(source, destination, protocol::ICMPV6, length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const UNUSED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    #[test]
    fn echo_golden_bytes() {
        let message = Message::EchoRequest {
            identifier: 0x1234,
            sequence: 1,
        };
        let header = Header {
            version: IpVersion::V4,
            message,
            checksum: 0,
        };
        let header = header.with_checksum(UNUSED, UNUSED, b"ab");
        let mut bytes = header.to_bytes();
        assert_eq!(bytes, [8, 0, 0x84, 0x68, 0x12, 0x34, 0, 1]);
        bytes.extend(b"ab");
        let view = View::new_checked(IpVersion::V4, &bytes).unwrap();
        assert!(view.checksum_is_right(UNUSED, UNUSED));
        assert_eq!(Header::parse(&view), header);
        assert_eq!(view.payload(), b"ab");
    }

    #[test]
    fn errors_of_both_versions() {
        let cases = [
            (
                IpVersion::V4,
                [3, 4, 0, 0, 0, 0, 5, 170],
                Message::FragmentationNeeded { mtu: 1450 },
            ),
            (
                IpVersion::V4,
                [3, 3, 0, 0, 0, 0, 0, 0],
                Message::Unreachable { code: 3 },
            ),
            (
                IpVersion::V4,
                [11, 0, 0, 0, 0, 0, 0, 0],
                Message::TimeExceeded { code: 0 },
            ),
            (
                IpVersion::V4,
                [12, 0, 0, 0, 9, 0, 0, 0],
                Message::ParameterProblem {
                    code: 0,
                    pointer: 9,
                },
            ),
            (
                IpVersion::V6,
                [2, 0, 0, 0, 0, 0, 5, 150],
                Message::PacketTooBig { mtu: 1430 },
            ),
            (
                IpVersion::V6,
                [1, 4, 0, 0, 0, 0, 0, 0],
                Message::Unreachable { code: 4 },
            ),
            (
                IpVersion::V6,
                [3, 1, 0, 0, 0, 0, 0, 0],
                Message::TimeExceeded { code: 1 },
            ),
            (
                IpVersion::V6,
                [4, 1, 0, 0, 0, 0, 0, 40],
                Message::ParameterProblem {
                    code: 1,
                    pointer: 40,
                },
            ),
        ];
        for (version, bytes, message) in cases {
            let view = View::new_checked(version, &bytes).unwrap();
            assert_eq!(view.message(), message);
            assert!(message.is_error());
            assert_eq!(Header::parse(&view).to_bytes(), bytes);
        }
    }

    #[test]
    fn the_type_is_read_by_version() {
        let bytes = [128, 0, 0, 0, 1, 2, 3, 4];
        let message = |version| View::new_checked(version, &bytes).unwrap().message();
        assert!(matches!(
            message(IpVersion::V6),
            Message::EchoRequest {
                identifier: 0x0102,
                ..
            }
        ));
        assert!(matches!(
            message(IpVersion::V4),
            Message::Other { kind: 128, .. }
        ));
        assert_eq!(
            View::new_checked(IpVersion::V4, &bytes[..7]).err(),
            Some(WireError::Truncated {
                layer: Layer::Icmp,
                needed: 8,
                have: 7
            })
        );
    }
}
