//! Geneve (RFC 8926 §3.4, §3.5) with OVN's option. Comes after UDP (port 6081); for us an Ethernet
//! frame follows.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Ver|  Opt Len  |O|C|    Rsvd.  |          Protocol Type        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Virtual Network Identifier (VNI)       |    Reserved   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~                    Variable-Length Options                    ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::geneve_option::{GeneveOption, Options, OvnOption};
use crate::layout;
use crate::{Emit, EtherType, ReservedBits, Vni};

/// The UDP port IANA assigned.
pub const PORT: u16 = 6081;
/// Length of the header without options.
pub const BASE_LEN: usize = 8;

const CONTROL: u8 = 0x80;
const CRITICAL: u8 = 0x40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    version_opt_len: u8,
    flags: u8,
    protocol: U16,
    vni: [u8; 3],
    reserved: u8,
}

/// A checked Geneve header: version 0, the options are there and their lengths add up.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    options: Options<'a>,
    payload: &'a [u8],
}

/// What the receiver of a data packet needs of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The logical switch.
    pub vni: Vni,
    /// OVN's option, if it is there.
    pub ovn: Option<OvnOption>,
}

/// The parts of a packet: base header, options area, payload.
type Parts<'a> = (&'a Layout, &'a [u8], &'a [u8]);

impl<'a> View<'a> {
    /// Checks, in this order: base header, version, options within the bytes, sum of their lengths.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, options, payload) = split(bytes)?;
        Ok(Self {
            header,
            options: Options::new(options)?,
            payload,
        })
    }

    /// The O bit: control packet.
    pub fn control(&self) -> bool {
        self.header.flags & CONTROL != 0
    }

    /// The C bit: some option is critical.
    pub fn critical(&self) -> bool {
        self.header.flags & CRITICAL != 0
    }

    /// What the payload is.
    pub fn protocol(&self) -> EtherType {
        EtherType(self.header.protocol.get())
    }

    /// The network identifier as it stands on the wire, 0 included.
    pub fn vni(&self) -> u32 {
        self.header.vni()
    }

    /// The options, in the order sent.
    pub fn options(&self) -> Options<'a> {
        self.options
    }

    /// Some bit of the base header is set that a sender must leave zero and a receiver ignores.
    pub fn has_reserved_bits(&self) -> bool {
        self.header.has_reserved_bits()
    }

    /// Length of base header and options.
    pub fn header_len(&self) -> usize {
        BASE_LEN + self.options.bytes().len()
    }

    /// The inner frame.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The receiver's rules, as [`receive`] applies them.
    pub fn receive(&self, reserved: ReservedBits) -> Result<Received, WireError> {
        accept(self.header, self.options.bytes(), reserved)
    }
}

/// Opens a received packet and returns its payload too. Every rule has its place, so that a packet
/// with several faults is dropped for one reason everywhere: base header, version, options within
/// the bytes, control packet, payload protocol, reserved bits of a strict tunnel, the options in
/// turn (whole, the known one's length, critical and unknown), VNI 0.
pub fn receive(bytes: &[u8], reserved: ReservedBits) -> Result<(Received, &[u8]), WireError> {
    let (header, options, payload) = split(bytes)?;
    Ok((accept(header, options, reserved)?, payload))
}

/// The values a sender chooses. The C bit follows from the options, reserved bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The O bit: control packet.
    pub control: bool,
    /// What the payload is.
    pub protocol: EtherType,
    /// The logical switch.
    pub vni: Vni,
    /// The options, emitted as they are.
    pub options: Options<'a>,
}

impl<'a> Header<'a> {
    /// A data packet with an Ethernet frame inside.
    pub fn ethernet(vni: Vni, options: Options<'a>) -> Self {
        Self {
            control: false,
            protocol: EtherType::TEB,
            vni,
            options,
        }
    }

    /// Fails on VNI 0 only.
    pub fn parse(view: &View<'a>) -> Result<Self, WireError> {
        Ok(Self {
            control: view.control(),
            protocol: view.protocol(),
            vni: Vni::new(view.vni()).map_err(|_| WireError::VniZero {
                layer: Layer::Geneve,
            })?,
            options: view.options(),
        })
    }
}

impl Emit for Header<'_> {
    fn emit_len(&self) -> usize {
        BASE_LEN + self.options.bytes().len()
    }

    fn fill(&self, out: &mut [u8]) {
        let mut flags = 0;
        if self.control {
            flags |= CONTROL;
        }
        if self.options.any_critical() {
            flags |= CRITICAL;
        }
        let layout = Layout {
            version_opt_len: self.options.words(),
            flags,
            protocol: U16::new(self.protocol.get()),
            vni: self.vni.bytes(),
            reserved: 0,
        };
        let (base, options) = out.split_at_mut(BASE_LEN);
        base.copy_from_slice(layout.as_bytes());
        options.copy_from_slice(self.options.bytes());
    }
}

impl Layout {
    fn has_reserved_bits(&self) -> bool {
        self.flags & !(CONTROL | CRITICAL) != 0 || self.reserved != 0
    }

    fn vni(&self) -> u32 {
        let [a, b, c] = self.vni;
        u32::from_be_bytes([0, a, b, c])
    }
}

fn split(bytes: &[u8]) -> Result<Parts<'_>, WireError> {
    let (header, rest) = layout::split::<Layout>(Layer::Geneve, bytes)?;
    let version = header.version_opt_len >> 6;
    if version != 0 {
        return Err(WireError::GeneveVersion(version));
    }
    let options_len = usize::from(header.version_opt_len & 0x3f) * 4;
    let (options, payload) =
        rest.split_at_checked(options_len)
            .ok_or_else(|| WireError::Truncated {
                layer: Layer::Geneve,
                needed: BASE_LEN + options_len,
                have: bytes.len(),
            })?;
    Ok((header, options, payload))
}

/// An option's own critical bit decides; the C bit only announces it, and a sender that forgot it
/// must not get a critical option past us.
fn accept(header: &Layout, options: &[u8], reserved: ReservedBits) -> Result<Received, WireError> {
    if header.flags & CONTROL != 0 {
        return Err(WireError::GeneveControl);
    }
    let protocol = header.protocol.get();
    if protocol != EtherType::TEB.get() {
        return Err(WireError::GeneveProtocol(protocol));
    }
    if reserved == ReservedBits::Refuse && header.has_reserved_bits() {
        return Err(WireError::ReservedBits {
            layer: Layer::Geneve,
        });
    }
    let mut ovn = None;
    let mut rest = options;
    while !rest.is_empty() {
        let (option, after) = GeneveOption::split(rest)?;
        if option.is_ovn() {
            ovn = Some(OvnOption::parse(&option)?);
        } else if option.is_critical() {
            return Err(WireError::GeneveCritical {
                class: option.class,
                kind: option.kind,
            });
        }
        rest = after;
    }
    let vni = Vni::new(header.vni()).map_err(|_| WireError::VniZero {
        layer: Layer::Geneve,
    })?;
    Ok(Received { vni, ovn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Egress, PortKey};

    /// Logical input port 3, flood group 0x8000, VNI 5.
    const GOLDEN: [u8; 16] = [
        0x02, 0x40, 0x65, 0x58, 0x00, 0x00, 0x05, 0x00, //
        0x01, 0x02, 0x80, 0x01, 0x00, 0x03, 0x80, 0x00,
    ];

    fn receive(bytes: &[u8]) -> Result<Received, WireError> {
        super::receive(bytes, ReservedBits::Ignore).map(|(received, _)| received)
    }

    fn ovn() -> OvnOption {
        OvnOption {
            ingress: PortKey::new(3).ok(),
            egress: Egress::from(0x8000),
        }
    }

    #[test]
    fn golden_bytes() {
        let option = ovn().to_bytes();
        let header = Header::ethernet(Vni::new(5).unwrap(), Options::new(&option).unwrap());
        assert_eq!(header.to_bytes(), GOLDEN);
        let view = View::new_checked(&GOLDEN).unwrap();
        assert_eq!(Header::parse(&view), Ok(header));
        assert!(view.critical() && !view.control() && !view.has_reserved_bits());
        assert_eq!(
            view.receive(ReservedBits::Refuse),
            Ok(Received {
                vni: Vni::new(5).unwrap(),
                ovn: Some(ovn())
            })
        );
    }

    #[test]
    fn base_header_rules() {
        let with = |at: usize, value: u8| {
            let mut bytes = GOLDEN;
            bytes[at] = value;
            receive(&bytes).err()
        };
        assert_eq!(with(0, 0x42), Some(WireError::GeneveVersion(1)));
        assert_eq!(with(0, 0xc2), Some(WireError::GeneveVersion(3)));
        assert_eq!(with(1, 0xc0), Some(WireError::GeneveControl));
        assert_eq!(with(2, 0x08), Some(WireError::GeneveProtocol(0x0858)));
        assert_eq!(
            with(6, 0),
            Some(WireError::VniZero {
                layer: Layer::Geneve
            })
        );
        assert_eq!(
            with(0, 3),
            Some(WireError::Truncated {
                layer: Layer::Geneve,
                needed: 20,
                have: 16
            })
        );
        assert_eq!(
            with(0, 1),
            Some(WireError::GeneveOptions { option: 8, left: 4 })
        );
    }

    #[test]
    fn option_rules() {
        let with = |at: usize, value: u8| {
            let mut bytes = GOLDEN;
            bytes[at] = value;
            receive(&bytes)
        };
        // Another class, still critical; then not critical, so ignored.
        assert_eq!(
            with(9, 0x03).err(),
            Some(WireError::GeneveCritical {
                class: 0x0103,
                kind: 0x80
            })
        );
        assert_eq!(with(10, 0x01).unwrap().ovn, None);
        assert_eq!(
            with(11, 2).err(),
            Some(WireError::GeneveOptions {
                option: 12,
                left: 8
            })
        );
        // Length 0: the data becomes an option of its own, but the known option is too short.
        assert_eq!(
            with(11, 0).err(),
            Some(WireError::GeneveOptionLength {
                class: 0x0102,
                kind: 0x80,
                length: 0
            })
        );
        assert_eq!(with(13, 0).unwrap().ovn.unwrap().ingress, None);
        // The reserved top bit of the input port is ignored.
        assert_eq!(with(12, 0x80).unwrap().ovn, Some(ovn()));
    }

    #[test]
    fn known_option_of_another_length() {
        for words in [0u8, 2, 31] {
            let mut bytes = vec![1 + words, 0x40, 0x65, 0x58, 0, 0, 5, 0];
            bytes.extend([0x01, 0x02, 0x80, words]);
            bytes.resize(12 + usize::from(words) * 4, 0);
            assert_eq!(
                receive(&bytes),
                Err(WireError::GeneveOptionLength {
                    class: 0x0102,
                    kind: 0x80,
                    length: usize::from(words) * 4
                })
            );
        }
    }

    #[test]
    fn critical_option_without_the_c_bit() {
        let mut bytes = GOLDEN;
        bytes[1] = 0;
        assert_eq!(receive(&bytes).unwrap().ovn, Some(ovn()));
        bytes[9] = 0x29;
        assert_eq!(
            receive(&bytes),
            Err(WireError::GeneveCritical {
                class: 0x0129,
                kind: 0x80
            })
        );
    }

    #[test]
    fn reserved_bits_are_ignored_unless_strict() {
        for (at, bit) in [(1, 0x01), (1, 0x20), (7, 0x01), (7, 0x80)] {
            let mut bytes = GOLDEN;
            bytes[at] |= bit;
            let view = View::new_checked(&bytes).unwrap();
            assert!(view.receive(ReservedBits::Ignore).is_ok());
            assert_eq!(
                view.receive(ReservedBits::Refuse),
                Err(WireError::ReservedBits {
                    layer: Layer::Geneve
                })
            );
        }
    }

    #[test]
    fn of_several_faults_the_first_counts() {
        // Critical and unknown, then an option that runs past the end; VNI 0, reserved bits.
        let mut bytes = [
            2, 0x41, 0x65, 0x58, 0, 0, 0, 1, 0x01, 0x29, 0x80, 0, 0xff, 0, 1, 9,
        ];
        let strict = |bytes: &[u8]| super::receive(bytes, ReservedBits::Refuse).err();
        assert_eq!(
            strict(&bytes),
            Some(WireError::ReservedBits {
                layer: Layer::Geneve
            })
        );
        (bytes[1], bytes[7]) = (0x40, 0);
        let critical = WireError::GeneveCritical {
            class: 0x0129,
            kind: 0x80,
        };
        assert_eq!(strict(&bytes), Some(critical));
        bytes[10] = 0;
        assert_eq!(
            strict(&bytes),
            Some(WireError::GeneveOptions {
                option: 40,
                left: 4
            })
        );
        bytes[15] = 0;
        assert_eq!(
            strict(&bytes),
            Some(WireError::VniZero {
                layer: Layer::Geneve
            })
        );
        bytes[2] = 0;
        assert_eq!(strict(&bytes), Some(WireError::GeneveProtocol(0x0058)));
        bytes[1] = 0xc0;
        assert_eq!(strict(&bytes), Some(WireError::GeneveControl));
        bytes[0] = 0x42;
        assert_eq!(strict(&bytes), Some(WireError::GeneveVersion(1)));
    }

    #[test]
    fn longest_header() {
        let mut options = Vec::new();
        for _ in 0..63 {
            options.extend([0xff, 0x00, 0x01, 0x00]);
        }
        let header = Header::ethernet(Vni::new(1).unwrap(), Options::new(&options).unwrap());
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), 260);
        assert_eq!(
            View::new_checked(&bytes).unwrap().options().iter().count(),
            63
        );
        options.extend([0xff, 0x00, 0x01, 0x00]);
        assert_eq!(
            Options::new(&options),
            Err(WireError::OptionsLength {
                layer: Layer::Geneve,
                found: 256
            })
        );
    }
}
