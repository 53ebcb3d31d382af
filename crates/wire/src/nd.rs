//! IPv6 neighbour discovery (RFC 4861 §4): solicitations and advertisements of routers and
//! neighbours. They are ICMPv6 messages, type 133 to 136, followed by options (`nd_option.rs`).
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Type      |   Code (0)    |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | RS, NS: reserved                                              |
//! | RA: hop limit | flags         |        router lifetime        |
//! | NA: |R|S|O|  reserved                                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | RA: reachable time, retransmission timer (4 + 4)              |
//! | NS, NA: target address (16)                                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~ options                                                       ~
//! ```

use std::net::{IpAddr, Ipv6Addr};

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Emit;
use crate::error::{Layer, WireError};
use crate::icmp::pseudo_header;
use crate::ip::IpVersion;
use crate::layout;
use crate::nd_option::Options;

/// ICMPv6 type of a router solicitation.
pub const ROUTER_SOLICITATION: u8 = 133;
/// ICMPv6 type of a router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// ICMPv6 type of a neighbour solicitation.
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: [u8; 4],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Timers {
    reachable_ms: U32,
    retransmit_ms: U32,
}

/// A checked message: type known, code 0, body and options whole, target not multicast. What
/// RFC 4861 §7.1 asks beyond the message itself (hop limit 255, checksum) is the caller's to check.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    message: Message,
    options: Options<'a>,
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks, in this order: 8 bytes, type, code, the body's length, target, each option.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = layout::split::<Layout>(Layer::Nd, bytes)?;
        let (body_len, options_at) = match header.kind {
            ROUTER_SOLICITATION => (0, 8),
            ROUTER_ADVERTISEMENT => (8, 16),
            NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => (16, 24),
            kind => return Err(WireError::NdType(kind)),
        };
        if header.code != 0 {
            return Err(WireError::NdCode(header.code));
        }
        let (body, options) = rest
            .split_at_checked(body_len)
            .ok_or(WireError::Truncated {
                layer: Layer::Nd,
                needed: options_at,
                have: bytes.len(),
            })?;
        let message = Message::new(header, body)?;
        Ok(Self {
            header,
            message,
            options: Options::new(options)?,
            bytes,
        })
    }

    /// What the message says.
    pub fn message(&self) -> Message {
        self.message
    }

    /// The checksum as sent.
    pub fn checksum(&self) -> u16 {
        self.header.checksum.get()
    }

    /// The checksum verifies.
    pub fn checksum_is_right(&self, source: Ipv6Addr, destination: Ipv6Addr) -> bool {
        sum(source, destination, self.bytes.len())
            .bytes(self.bytes)
            .verifies()
    }

    /// Some bit is set that a sender must leave zero and a receiver ignores.
    pub fn has_reserved_bits(&self) -> bool {
        let rest = self.header.rest;
        match self.message {
            Message::RouterSolicitation | Message::NeighbourSolicitation { .. } => rest != [0; 4],
            Message::RouterAdvertisement { .. } => false,
            Message::NeighbourAdvertisement { .. } => {
                rest[0] & !(ROUTER | SOLICITED | OVERRIDE) != 0 || rest[1..] != [0; 3]
            }
        }
    }

    /// The options.
    pub fn options(&self) -> Options<'a> {
        self.options
    }
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Which routers are there?
    RouterSolicitation,
    /// A router, and what it wants hosts to use.
    RouterAdvertisement {
        /// Hop limit for hosts; 0: unspecified.
        hop_limit: u8,
        /// Managed, other, preference and further flags, as on the wire.
        flags: u8,
        /// Seconds this router may be the default one.
        lifetime_s: u16,
        /// Milliseconds a neighbour counts as reachable.
        reachable_ms: u32,
        /// Milliseconds between solicitations.
        retransmit_ms: u32,
    },
    /// Who has the target?
    NeighbourSolicitation {
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// The sender has it.
    NeighbourAdvertisement {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// The receiver replaces what it knew.
        replace: bool,
        /// The address that is spoken about.
        target: Ipv6Addr,
    },
}

impl Message {
    fn new(header: &Layout, body: &[u8]) -> Result<Self, WireError> {
        let [a, b, c, d] = header.rest;
        Ok(match header.kind {
            ROUTER_SOLICITATION => Self::RouterSolicitation,
            ROUTER_ADVERTISEMENT => {
                let (timers, _) = layout::split::<Timers>(Layer::Nd, body)?;
                Self::RouterAdvertisement {
                    hop_limit: a,
                    flags: b,
                    lifetime_s: u16::from_be_bytes([c, d]),
                    reachable_ms: timers.reachable_ms.get(),
                    retransmit_ms: timers.retransmit_ms.get(),
                }
            }
            NEIGHBOUR_SOLICITATION => Self::NeighbourSolicitation {
                target: target(body)?,
            },
            _ => Self::NeighbourAdvertisement {
                router: a & ROUTER != 0,
                solicited: a & SOLICITED != 0,
                replace: a & OVERRIDE != 0,
                target: target(body)?,
            },
        })
    }

    fn body_len(&self) -> usize {
        match self {
            Self::RouterSolicitation => 0,
            Self::RouterAdvertisement { .. } => size_of::<Timers>(),
            Self::NeighbourSolicitation { .. } | Self::NeighbourAdvertisement { .. } => 16,
        }
    }
}

/// The values a sender chooses. Reserved bits are emitted as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// What the message says.
    pub message: Message,
    /// Checksum.
    pub checksum: u16,
    /// Options, emitted as they are.
    pub options: Options<'a>,
}

impl<'a> Header<'a> {
    /// Takes the values over.
    pub fn parse(view: &View<'a>) -> Self {
        Self {
            message: view.message,
            checksum: view.checksum(),
            options: view.options,
        }
    }

    /// The same message with its checksum.
    #[must_use]
    pub fn with_checksum(self, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        let bytes = Self {
            checksum: 0,
            ..self
        }
        .to_bytes();
        let checksum = sum(source, destination, bytes.len()).bytes(&bytes).finish();
        Self { checksum, ..self }
    }
}

impl Emit for Header<'_> {
    fn emit_len(&self) -> usize {
        size_of::<Layout>() + self.message.body_len() + self.options.bytes().len()
    }

    fn fill(&self, out: &mut [u8]) {
        let (fixed, rest) = out.split_at_mut(size_of::<Layout>());
        let (body, options) = rest.split_at_mut(self.message.body_len());
        let mut layout = Layout {
            kind: 0,
            code: 0,
            checksum: U16::new(self.checksum),
            rest: [0; 4],
        };
        match self.message {
            Message::RouterSolicitation => layout.kind = ROUTER_SOLICITATION,
            Message::RouterAdvertisement {
                hop_limit,
                flags,
                lifetime_s,
                reachable_ms,
                retransmit_ms,
            } => {
                let [high, low] = lifetime_s.to_be_bytes();
                layout.kind = ROUTER_ADVERTISEMENT;
                layout.rest = [hop_limit, flags, high, low];
                let timers = Timers {
                    reachable_ms: U32::new(reachable_ms),
                    retransmit_ms: U32::new(retransmit_ms),
                };
                body.copy_from_slice(timers.as_bytes());
            }
            Message::NeighbourSolicitation { target } => {
                layout.kind = NEIGHBOUR_SOLICITATION;
                body.copy_from_slice(&target.octets());
            }
            Message::NeighbourAdvertisement {
                router,
                solicited,
                replace,
                target,
            } => {
                let flag = |set: bool, bit: u8| if set { bit } else { 0 };
                layout.kind = NEIGHBOUR_ADVERTISEMENT;
                layout.rest[0] =
                    flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(replace, OVERRIDE);
                body.copy_from_slice(&target.octets());
            }
        }
        fixed.copy_from_slice(layout.as_bytes());
        options.copy_from_slice(self.options.bytes());
    }
}

fn target(body: &[u8]) -> Result<Ipv6Addr, WireError> {
    let (octets, _) = layout::split::<[u8; 16]>(Layer::Nd, body)?;
    let target = Ipv6Addr::from(*octets);
    if target.is_multicast() {
        return Err(WireError::NdTarget(target));
    }
    Ok(target)
}

fn sum(source: Ipv6Addr, destination: Ipv6Addr, length: usize) -> crate::checksum::Sum {
    pseudo_header(
        IpVersion::V6,
        IpAddr::V6(source),
        IpAddr::V6(destination),
        length,
    )
}

/// The group of everybody whose address may be this one (RFC 4291 section 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;
    use crate::nd_option::NdOption;

    fn solicitation() -> Vec<u8> {
        let mut bytes = vec![135, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend("2001:2::2".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend([1, 1, 2, 0, 0, 0, 0, 1]);
        bytes
    }

    #[test]
    fn solicitation_golden_bytes() {
        let bytes = solicitation();
        let view = View::new_checked(&bytes).unwrap();
        let target = "2001:2::2".parse().unwrap();
        assert_eq!(view.message(), Message::NeighbourSolicitation { target });
        let options: Vec<_> = view.options().iter().collect();
        assert_eq!(
            options,
            [NdOption::SourceLinkLayer(Mac::new([2, 0, 0, 0, 0, 1]))]
        );
        assert_eq!(Header::parse(&view).to_bytes(), bytes);
        let (source, destination) = (
            "2001:2::1".parse().unwrap(),
            "ff02::1:ff00:2".parse().unwrap(),
        );
        let bytes = Header::parse(&view)
            .with_checksum(source, destination)
            .to_bytes();
        let view = View::new_checked(&bytes).unwrap();
        assert!(view.checksum_is_right(source, destination));
        assert!(!view.checksum_is_right(source, target));
    }

    #[test]
    fn advertisements() {
        let target = "2001:2::2".parse().unwrap();
        for message in [
            Message::NeighbourAdvertisement {
                router: false,
                solicited: true,
                replace: true,
                target,
            },
            Message::NeighbourAdvertisement {
                router: true,
                solicited: false,
                replace: false,
                target,
            },
            Message::RouterAdvertisement {
                hop_limit: 64,
                flags: 0xc0,
                lifetime_s: 1800,
                reachable_ms: 30_000,
                retransmit_ms: 1000,
            },
            Message::RouterSolicitation,
        ] {
            let bytes = Header {
                message,
                checksum: 0x1234,
                options: Options::EMPTY,
            }
            .to_bytes();
            let view = View::new_checked(&bytes).unwrap();
            assert_eq!((view.message(), view.checksum()), (message, 0x1234));
            assert!(!view.has_reserved_bits());
        }
    }

    #[test]
    fn rules_of_rfc_4861_section_7_1() {
        let with = |at: usize, value: u8| {
            let mut bytes = solicitation();
            bytes[at] = value;
            View::new_checked(&bytes).err()
        };
        assert_eq!(with(0, 137), Some(WireError::NdType(137)));
        assert_eq!(with(1, 1), Some(WireError::NdCode(1)));
        assert_eq!(
            with(8, 0xff),
            Some(WireError::NdTarget("ff01:2::2".parse().unwrap()))
        );
        assert_eq!(
            with(25, 0),
            Some(WireError::OptionLength {
                layer: Layer::Nd,
                kind: 1,
                length: 0
            })
        );
        assert_eq!(
            View::new_checked(&solicitation()[..23]).err(),
            Some(WireError::Truncated {
                layer: Layer::Nd,
                needed: 24,
                have: 23
            })
        );
        let mut bytes = solicitation();
        bytes[7] = 1;
        assert!(View::new_checked(&bytes).unwrap().has_reserved_bits());
    }
}
