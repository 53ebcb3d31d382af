//! TCP options (RFC 9293 §3.2, RFC 7323, RFC 2018): kind, and for all but two of them length and
//! data.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Emit;
use crate::error::{Layer, WireError};

const END: u8 = 0;
const NOP: u8 = 1;
const MAX_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// A checked options area: at most 40 bytes in whole words, and each option within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// No option.
    pub const EMPTY: Self = Self(&[]);

    /// Checks the area's length and walks it. Known options must have the length their RFC gives.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > 40 || !bytes.len().is_multiple_of(4) {
            return Err(WireError::OptionsLength {
                layer: Layer::Tcp,
                found: bytes.len(),
            });
        }
        let mut rest = bytes;
        while let Some((_, after)) = TcpOption::split(rest)? {
            rest = after;
        }
        Ok(Self(bytes))
    }

    /// The options one after the other, up to the end-of-list option.
    pub fn iter(&self) -> impl Iterator<Item = TcpOption<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (option, after) = TcpOption::split(rest).ok().flatten()?;
            rest = after;
            Some(option)
        })
    }

    /// The area's bytes, padding included.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options.
    Nop,
    /// Maximum segment size.
    MaxSegmentSize(u16),
    /// Window scale.
    WindowScale(u8),
    /// Selective acknowledgment permitted.
    SackPermitted,
    /// Selective acknowledgment: one to four blocks.
    Sack(&'a [SackBlock]),
    /// Timestamps.
    Timestamps {
        /// Sender's clock.
        value: u32,
        /// Echo of the receiver's.
        echo: u32,
    },
    /// Any other kind, at least 6.
    Other {
        /// Kind.
        kind: u8,
        /// Data after kind and length, at most 38 bytes.
        data: &'a [u8],
    },
}

/// One block of a selective acknowledgment.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: U32,
    /// Sequence number after the block.
    pub right: U32,
}

impl<'a> TcpOption<'a> {
    /// The option at the front and what follows it; `None` at the end of the list.
    fn split(bytes: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, WireError> {
        let (kind, rest) = match *bytes {
            [] | [END, ..] => return Ok(None),
            [NOP, ref rest @ ..] => return Ok(Some((Self::Nop, rest))),
            [kind, ref rest @ ..] => (kind, rest),
        };
        let length = usize::from(rest.first().copied().unwrap_or(0));
        let wrong = WireError::OptionLength {
            layer: Layer::Tcp,
            kind,
            length,
        };
        let Some(data) = bytes.get(2..length) else {
            return Err(wrong);
        };
        let option = match (kind, data) {
            (MAX_SEGMENT_SIZE, &[a, b]) => Self::MaxSegmentSize(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => Self::WindowScale(shift),
            (SACK_PERMITTED, &[]) => Self::SackPermitted,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => Self::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            (SACK, &[_, ..]) => match <[SackBlock]>::ref_from_bytes(data) {
                Ok(blocks) => Self::Sack(blocks),
                Err(_) => return Err(wrong),
            },
            (MAX_SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => {
                return Err(wrong);
            }
            (kind, data) => Self::Other { kind, data },
        };
        Ok(Some((option, &bytes[length..])))
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Nop => NOP,
            Self::MaxSegmentSize(_) => MAX_SEGMENT_SIZE,
            Self::WindowScale(_) => WINDOW_SCALE,
            Self::SackPermitted => SACK_PERMITTED,
            Self::Sack(_) => SACK,
            Self::Timestamps { .. } => TIMESTAMPS,
            Self::Other { kind, .. } => *kind,
        }
    }
}

impl Emit for TcpOption<'_> {
    fn emit_len(&self) -> usize {
        match self {
            Self::Nop => 1,
            Self::MaxSegmentSize(_) => 4,
            Self::WindowScale(_) => 3,
            Self::SackPermitted => 2,
            Self::Sack(blocks) => 2 + size_of_val(*blocks),
            Self::Timestamps { .. } => 10,
            Self::Other { data, .. } => 2 + data.len(),
        }
    }

    fn fill(&self, out: &mut [u8]) {
        out[0] = self.kind();
        let length = self.emit_len();
        let Some(data) = out.get_mut(2..) else { return };
        match self {
            Self::Nop | Self::SackPermitted => {}
            Self::MaxSegmentSize(size) => data.copy_from_slice(&size.to_be_bytes()),
            Self::WindowScale(shift) => data[0] = *shift,
            Self::Sack(blocks) => data.copy_from_slice(blocks.as_bytes()),
            Self::Timestamps { value, echo } => {
                data[..4].copy_from_slice(&value.to_be_bytes());
                data[4..].copy_from_slice(&echo.to_be_bytes());
            }
            Self::Other { data: bytes, .. } => data.copy_from_slice(bytes),
        }
        out[1] = length as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_and_the_end() {
        let blocks = [SackBlock {
            left: U32::new(1),
            right: U32::new(2),
        }];
        let options = [
            TcpOption::MaxSegmentSize(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 7, echo: 8 },
            TcpOption::Nop,
            TcpOption::WindowScale(9),
            TcpOption::Sack(&blocks),
            TcpOption::Other {
                kind: 254,
                data: &[1, 2],
            },
        ];
        let mut area = Vec::new();
        options.iter().for_each(|option| option.emit_to(&mut area));
        area.extend([0, 0xff]); // end of list; what follows is not looked at
        assert_eq!(area.len(), 36);
        let checked = Options::new(&area).unwrap();
        assert_eq!(checked.iter().collect::<Vec<_>>(), options);
    }

    #[test]
    fn lengths() {
        let wrong = |bytes: &[u8], kind, length| {
            assert_eq!(
                Options::new(bytes),
                Err(WireError::OptionLength {
                    layer: Layer::Tcp,
                    kind,
                    length
                })
            );
        };
        wrong(&[254, 0, 0, 0], 254, 0);
        wrong(&[254, 1, 0, 0], 254, 1);
        wrong(&[254, 5, 0, 0], 254, 5);
        wrong(&[1, 1, 1, 254], 254, 0); // no room for the length
        wrong(&[2, 3, 0, 0], 2, 3);
        wrong(&[5, 2, 0, 0], 5, 2);
        wrong(&[5, 4, 0, 0], 5, 4);
        wrong(&[8, 4, 0, 0], 8, 4);
        for found in [3, 41, 44] {
            assert_eq!(
                Options::new(&[1; 44][..found]),
                Err(WireError::OptionsLength {
                    layer: Layer::Tcp,
                    found
                })
            );
        }
    }
}
