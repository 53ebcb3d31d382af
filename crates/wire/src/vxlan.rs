//! VXLAN (RFC 7348 §5). Comes after UDP (port 4789); an Ethernet frame follows.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |R|R|R|R|I|R|R|R|            Reserved                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                VXLAN Network Identifier (VNI) |   Reserved    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::layout;
use crate::{Emit, ReservedBits, Vni};

/// The UDP port IANA assigned.
pub const PORT: u16 = 4789;
/// Length of the header.
pub const LEN: usize = 8;

const FLAG_I: u8 = 0x08;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    flags: u8,
    reserved1: [u8; 3],
    vni: [u8; 3],
    reserved2: u8,
}

/// A checked VXLAN header: it is whole and its I flag is set.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks the length and the I flag, without which there is no VNI.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = layout::split::<Layout>(Layer::Vxlan, bytes)?;
        if header.flags & FLAG_I == 0 {
            return Err(WireError::VxlanFlags(header.flags));
        }
        Ok(Self { header, payload })
    }

    /// The network identifier as it stands on the wire, 0 included.
    pub fn vni(&self) -> u32 {
        let [a, b, c] = self.header.vni;
        u32::from_be_bytes([0, a, b, c])
    }

    /// Some bit is set that a sender must leave zero and a receiver may ignore.
    pub fn has_reserved_bits(&self) -> bool {
        self.header.flags != FLAG_I || self.header.reserved1 != [0; 3] || self.header.reserved2 != 0
    }

    /// The rules for a received header beyond its form, in this order: reserved bits of a strict
    /// tunnel, VNI 0.
    pub fn receive(&self, reserved: ReservedBits) -> Result<Vni, WireError> {
        if reserved == ReservedBits::Refuse && self.has_reserved_bits() {
            return Err(WireError::ReservedBits {
                layer: Layer::Vxlan,
            });
        }
        Vni::new(self.vni()).map_err(|_| WireError::VniZero {
            layer: Layer::Vxlan,
        })
    }

    /// The inner frame.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The values a sender chooses. Reserved bits are always emitted as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The logical switch.
    pub vni: Vni,
}

impl Header {
    /// Fails on VNI 0 only.
    pub fn parse(view: &View<'_>) -> Result<Self, WireError> {
        Ok(Self {
            vni: view.receive(ReservedBits::Ignore)?,
        })
    }
}

impl Emit for Header {
    fn emit_len(&self) -> usize {
        LEN
    }

    fn fill(&self, out: &mut [u8]) {
        let layout = Layout {
            flags: FLAG_I,
            reserved1: [0; 3],
            vni: self.vni.bytes(),
            reserved2: 0,
        };
        out.copy_from_slice(layout.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [u8; 8] = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0];

    #[test]
    fn golden_bytes() {
        let header = Header {
            vni: Vni::new(0x12_3456).unwrap(),
        };
        assert_eq!(header.to_bytes(), GOLDEN);
        let view = View::new_checked(&GOLDEN).unwrap();
        assert_eq!(view.vni(), 0x12_3456);
        assert_eq!(Header::parse(&view), Ok(header));
        assert!(view.payload().is_empty());
    }

    #[test]
    fn i_flag_is_required() {
        for flags in 0..=255u8 {
            let mut bytes = GOLDEN;
            bytes[0] = flags;
            match View::new_checked(&bytes) {
                Ok(_) => assert_ne!(flags & 0x08, 0),
                Err(error) => {
                    assert_eq!(flags & 0x08, 0);
                    assert_eq!(error, WireError::VxlanFlags(flags));
                }
            }
        }
    }

    #[test]
    fn reserved_bits_are_ignored_unless_strict() {
        for (at, bit) in [
            (0, 0x80),
            (0, 0x01),
            (1, 0x80),
            (3, 0x01),
            (7, 0x01),
            (7, 0x80),
        ] {
            let mut bytes = GOLDEN;
            bytes[at] |= bit;
            let view = View::new_checked(&bytes).unwrap();
            assert_eq!(view.receive(ReservedBits::Ignore).unwrap().get(), 0x12_3456);
            assert_eq!(
                view.receive(ReservedBits::Refuse),
                Err(WireError::ReservedBits {
                    layer: Layer::Vxlan
                })
            );
        }
    }

    #[test]
    fn vni_zero_and_short_headers() {
        let view = View::new_checked(&[8, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(
            view.receive(ReservedBits::Refuse),
            Err(WireError::VniZero {
                layer: Layer::Vxlan
            })
        );
        for have in 0..LEN {
            let error = View::new_checked(&GOLDEN[..have]).err();
            assert_eq!(
                error,
                Some(WireError::Truncated {
                    layer: Layer::Vxlan,
                    needed: 8,
                    have
                })
            );
        }
    }

    #[test]
    fn emit_needs_room() {
        let header = Header {
            vni: Vni::new(1).unwrap(),
        };
        assert_eq!(
            header.emit(&mut [0; 7]),
            Err(WireError::Buffer { needed: 8, room: 7 })
        );
    }
}
