//! Geneve options (RFC 8926 §3.5), and OVN's as a type of its own.
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Option Class         |      Type     |R|R|R| Length  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                  Variable-Length Option Data                  ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! OVN's data (ovn-architecture(7), "Tunnel Encapsulations"):
//!
//! ```text
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |R|     logical ingress port    |      logical egress port      |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::layout;
use crate::{Emit, PortKey};

/// Longest options area: 63 words.
pub const MAX_OPTIONS_LEN: usize = 252;
/// Option class of OVN (IANA).
pub const OVN_CLASS: u16 = 0x0102;
/// Type of OVN's only option; its critical bit is set.
pub const OVN_KIND: u8 = 0x80;

const HEADER_LEN: usize = 4;
const CRITICAL: u8 = 0x80;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    class: U16,
    kind: u8,
    reserved_length: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OvnLayout {
    ingress: U16,
    egress: U16,
}

/// A checked options area: at most 252 bytes, and the options' lengths add up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// No option.
    pub const EMPTY: Self = Self(&[]);

    /// Checks that whole options fill the area exactly.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > MAX_OPTIONS_LEN || !bytes.len().is_multiple_of(4) {
            return Err(WireError::OptionsLength {
                layer: Layer::Geneve,
                found: bytes.len(),
            });
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = GeneveOption::split(rest)?.1;
        }
        Ok(Self(bytes))
    }

    /// The options one after the other.
    pub fn iter(&self) -> impl Iterator<Item = GeneveOption<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (option, after) = GeneveOption::split(rest).ok()?;
            rest = after;
            Some(option)
        })
    }

    /// The area's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Some option has its critical bit set.
    pub fn any_critical(&self) -> bool {
        self.iter().any(|option| option.is_critical())
    }

    /// Length in words of four bytes; fits six bits.
    pub(crate) fn words(&self) -> u8 {
        (self.0.len() / 4) as u8
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// Who defines the type.
    pub class: u16,
    /// Type; the high bit says "critical".
    pub kind: u8,
    /// The three reserved bits; emitted as zero.
    pub reserved: u8,
    data: &'a [u8],
}

impl<'a> GeneveOption<'a> {
    /// Checks that `data` is 0 to 124 bytes in words of four.
    pub fn new(class: u16, kind: u8, data: &'a [u8]) -> Result<Self, WireError> {
        if data.len() > 124 || !data.len().is_multiple_of(4) {
            return Err(WireError::GeneveOptionLength {
                class,
                kind,
                length: data.len(),
            });
        }
        Ok(Self {
            class,
            kind,
            reserved: 0,
            data,
        })
    }

    /// A receiver that does not know the option drops the packet.
    pub fn is_critical(&self) -> bool {
        self.kind & CRITICAL != 0
    }

    /// OVN's, whatever its length.
    pub fn is_ovn(&self) -> bool {
        self.class == OVN_CLASS && self.kind == OVN_KIND
    }

    /// The data.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The option at the front of `bytes`, and what follows it.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let (header, rest) = layout::split::<Layout>(Layer::GeneveOption, bytes)?;
        let length = usize::from(header.reserved_length & 0x1f) * 4;
        let (data, after) = rest
            .split_at_checked(length)
            .ok_or(WireError::GeneveOptions {
                option: HEADER_LEN + length,
                left: bytes.len(),
            })?;
        let option = Self {
            class: header.class.get(),
            kind: header.kind,
            reserved: header.reserved_length >> 5,
            data,
        };
        Ok((option, after))
    }
}

impl Emit for GeneveOption<'_> {
    fn emit_len(&self) -> usize {
        HEADER_LEN + self.data.len()
    }

    fn fill(&self, out: &mut [u8]) {
        let layout = Layout {
            class: U16::new(self.class),
            kind: self.kind,
            reserved_length: (self.data.len() / 4) as u8,
        };
        let (header, data) = out.split_at_mut(HEADER_LEN);
        header.copy_from_slice(layout.as_bytes());
        data.copy_from_slice(self.data);
    }
}

/// Where OVN's option says the frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Egress {
    /// 0: not decided by the sender.
    Unset,
    /// 1..=32767: one logical port.
    Port(PortKey),
    /// 32768..=65535: a flood group.
    Group(u16),
}

impl Egress {
    /// The group of every port of the logical switch (OVN's `_MC_flood`).
    pub const FLOOD: Self = Self::Group(0x8000);

    /// The 16 bits on the wire.
    pub fn get(self) -> u16 {
        match self {
            Self::Unset => 0,
            Self::Port(key) => key.get(),
            // A value below the range of groups would name a port.
            Self::Group(group) => group | 0x8000,
        }
    }
}

impl From<u16> for Egress {
    fn from(value: u16) -> Self {
        match PortKey::new(value) {
            Ok(key) => Self::Port(key),
            Err(_) if value == 0 => Self::Unset,
            Err(_) => Self::Group(value),
        }
    }
}

/// OVN's option: the logical ports a frame came from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OvnOption {
    /// Logical port the frame came from; `None` for 0, which OVN reserves for itself.
    pub ingress: Option<PortKey>,
    /// Logical port or flood group it goes to.
    pub egress: Egress,
}

impl OvnOption {
    /// Bytes on the wire, the option's header included.
    pub const LEN: usize = 8;

    /// Checks the length: exactly four bytes of data. The input port's reserved top bit is ignored.
    pub fn parse(option: &GeneveOption<'_>) -> Result<Self, WireError> {
        let data =
            OvnLayout::ref_from_bytes(option.data).map_err(|_| WireError::GeneveOptionLength {
                class: option.class,
                kind: option.kind,
                length: option.data.len(),
            })?;
        Ok(Self {
            ingress: PortKey::new(data.ingress.get() & PortKey::MAX).ok(),
            egress: Egress::from(data.egress.get()),
        })
    }
}

impl Emit for OvnOption {
    fn emit_len(&self) -> usize {
        Self::LEN
    }

    fn fill(&self, out: &mut [u8]) {
        let header = Layout {
            class: U16::new(OVN_CLASS),
            kind: OVN_KIND,
            reserved_length: 1,
        };
        let data = OvnLayout {
            ingress: U16::new(self.ingress.map_or(0, PortKey::get)),
            egress: U16::new(self.egress.get()),
        };
        out[..HEADER_LEN].copy_from_slice(header.as_bytes());
        out[HEADER_LEN..].copy_from_slice(data.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egress_ranges() {
        assert_eq!(Egress::from(0), Egress::Unset);
        assert_eq!(
            Egress::from(32767),
            Egress::Port(PortKey::new(32767).unwrap())
        );
        assert_eq!(Egress::from(0x8000), Egress::FLOOD);
        for value in [0, 1, 32767, 32768, 65535] {
            assert_eq!(Egress::from(value).get(), value);
        }
    }

    #[test]
    fn options_fill_their_area() {
        let data = [7u8; 124];
        let mut area = GeneveOption::new(0x0108, 1, &data).unwrap().to_bytes();
        GeneveOption::new(0xff00, 2, &[])
            .unwrap()
            .emit_to(&mut area);
        let options = Options::new(&area).unwrap();
        let list: Vec<_> = options.iter().collect();
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].class, list[0].data()), (0x0108, &data[..]));
        assert!(!options.any_critical());
        assert_eq!(
            Options::new(&area[..area.len() - 1]),
            Err(WireError::OptionsLength {
                layer: Layer::Geneve,
                found: 131
            })
        );
        assert_eq!(
            Options::new(&area[..124]),
            Err(WireError::GeneveOptions {
                option: 128,
                left: 124
            })
        );
        for length in [1, 3, 126, 128] {
            assert_eq!(
                GeneveOption::new(1, 2, &[0; 128][..length]),
                Err(WireError::GeneveOptionLength {
                    class: 1,
                    kind: 2,
                    length
                })
            );
        }
    }
}
