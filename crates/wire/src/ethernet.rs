//! Ethernet II with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad). The first header of a frame,
//! outer and inner.
//!
//! ```text
//! +-----------------------------------------------+
//! |             destination (6 bytes)             |
//! +-----------------------------------------------+
//! |               source (6 bytes)                |
//! +-------------------------------+---------------+
//! |  0x8100 or 0x88a8 (2 bytes)   |  TCI          |   0, 1 or 2 tags: PCP(3) DEI(1) VID(12)
//! +-------------------------------+---------------+
//! |  type (2 bytes)               |  payload ...
//! +-------------------------------+
//! ```

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::layout;
use crate::{Emit, EtherType, Mac, VlanTag};

/// Length of the header without tags.
pub const LEN: usize = 14;
/// Length of one VLAN tag.
pub const TAG_LEN: usize = 4;
/// The outermost tag stands behind both addresses.
const TAG_AT: usize = 12;
/// Tags that are understood; one more is left in the payload.
pub const MAX_TAGS: usize = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    destination: [u8; 6],
    source: [u8; 6],
    ethertype: U16,
}

/// What stands after a tag's protocol identifier: the tag, and the type of what follows.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TagLayout {
    tci: U16,
    ethertype: U16,
}

/// One tag with the protocol identifier it was announced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// 802.1ad service tag (0x88a8) instead of an 802.1Q tag (0x8100).
    pub service: bool,
    /// Tag control information.
    pub tag: VlanTag,
}

impl Tag {
    /// From the type that announces it and the 16 bits behind that; none behind a type that announces no tag.
    pub const fn of(ethertype: EtherType, tci: u16) -> Option<Self> {
        if !ethertype.is_vlan() {
            return None;
        }
        Some(Self {
            service: ethertype.get() == EtherType::SERVICE_VLAN.get(),
            tag: VlanTag::from_tci(tci),
        })
    }

    /// Names no VLAN, and says a priority only: such a frame counts as one without a tag (IEEE 802.1Q 6.9.1).
    pub const fn is_priority(self) -> bool {
        self.tag.vid() == 0
    }

    /// The type that announces it.
    pub const fn ethertype(self) -> EtherType {
        if self.service {
            EtherType::SERVICE_VLAN
        } else {
            EtherType::VLAN
        }
    }

    /// The frame with this as its outermost tag; none where it ends before the place of one.
    pub fn insert(self, frame: &[u8]) -> Option<Vec<u8>> {
        let (addresses, rest) = frame.split_at_checked(TAG_AT)?;
        let (ethertype, tci) = (self.ethertype().get(), self.tag.tci());
        Some(
            [
                addresses,
                &ethertype.to_be_bytes(),
                &tci.to_be_bytes(),
                rest,
            ]
            .concat(),
        )
    }

    /// Takes the outermost tag out of a frame; none where it has none, or ends in it.
    pub fn take(frame: &mut Vec<u8>) -> Option<Self> {
        let at = TAG_AT..TAG_AT + TAG_LEN;
        let &[high, low, tci_high, tci_low] = frame.get(at.clone())?.first_chunk()?;
        let ethertype = EtherType(u16::from_be_bytes([high, low]));
        let tag = Self::of(ethertype, u16::from_be_bytes([tci_high, tci_low]))?;
        frame.drain(at);
        Some(tag)
    }
}

/// 0 to 2 tags, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tags {
    tags: [Tag; MAX_TAGS],
    count: usize,
}

impl Tags {
    /// No tag.
    pub const NONE: Self = Self {
        tags: [Tag {
            service: false,
            tag: VlanTag::from_tci(0),
        }; MAX_TAGS],
        count: 0,
    };

    /// Checks that there are at most two.
    pub fn new(tags: &[Tag]) -> Result<Self, WireError> {
        let mut out = Self::NONE;
        out.tags
            .get_mut(..tags.len())
            .ok_or(WireError::VlanTags(tags.len()))?
            .copy_from_slice(tags);
        out.count = tags.len();
        Ok(out)
    }

    /// The tags, outermost first.
    pub fn as_slice(&self) -> &[Tag] {
        &self.tags[..self.count]
    }

    fn push(&mut self, tag: Tag) {
        self.tags[self.count] = tag;
        self.count += 1;
    }
}

/// A checked Ethernet header: addresses, tags and type are there.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: &'a Layout,
    tags: Tags,
    ethertype: EtherType,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks that the header and each tag it announces are whole.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, mut payload) = layout::split::<Layout>(Layer::Ethernet, bytes)?;
        let mut ethertype = EtherType(header.ethertype.get());
        let mut tags = Tags::NONE;
        while ethertype.is_vlan() && tags.count < MAX_TAGS {
            let (tag, rest) = TagLayout::ref_from_prefix(payload).map_err(|_| {
                let needed = LEN + (tags.count + 1) * TAG_LEN;
                WireError::Truncated {
                    layer: Layer::Ethernet,
                    needed,
                    have: bytes.len(),
                }
            })?;
            tags.push(Tag {
                service: ethertype == EtherType::SERVICE_VLAN,
                tag: VlanTag::from_tci(tag.tci.get()),
            });
            ethertype = EtherType(tag.ethertype.get());
            payload = rest;
        }
        Ok(Self {
            header,
            tags,
            ethertype,
            payload,
        })
    }

    /// Receiver.
    pub fn destination(&self) -> Mac {
        Mac::new(self.header.destination)
    }

    /// Sender.
    pub fn source(&self) -> Mac {
        Mac::new(self.header.source)
    }

    /// VLAN tags, outermost first.
    pub fn tags(&self) -> Tags {
        self.tags
    }

    /// Type (or 802.3 length) after the tags.
    pub fn ethertype(&self) -> EtherType {
        self.ethertype
    }

    /// Length of the header with its tags.
    pub fn header_len(&self) -> usize {
        LEN + self.tags.count * TAG_LEN
    }

    /// What follows, padding included.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The values a sender chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Receiver.
    pub destination: Mac,
    /// Sender.
    pub source: Mac,
    /// VLAN tags.
    pub tags: Tags,
    /// Type of the payload. With fewer than two tags a VLAN type here starts one more tag.
    pub ethertype: EtherType,
}

impl Header {
    /// Takes the values over.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            destination: view.destination(),
            source: view.source(),
            tags: view.tags(),
            ethertype: view.ethertype(),
        }
    }
}

impl Emit for Header {
    fn emit_len(&self) -> usize {
        LEN + self.tags.count * TAG_LEN
    }

    fn fill(&self, out: &mut [u8]) {
        let tags = self.tags.as_slice();
        // Each type field announces what comes next: a tag, and after the last one the payload.
        let mut next = tags
            .iter()
            .map(|tag| tag.ethertype())
            .chain([self.ethertype]);
        let mut ethertype = || U16::new(next.next().unwrap_or(self.ethertype).get());
        let header = Layout {
            destination: self.destination.get(),
            source: self.source.get(),
            ethertype: ethertype(),
        };
        let (fixed, rest) = out.split_at_mut(LEN);
        fixed.copy_from_slice(header.as_bytes());
        for (tag, out) in tags.iter().zip(rest.chunks_exact_mut(TAG_LEN)) {
            let layout = TagLayout {
                tci: U16::new(tag.tag.tci()),
                ethertype: ethertype(),
            };
            out.copy_from_slice(layout.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QINQ: [u8; 22] = [
        0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, // addresses
        0x88, 0xa8, 0x00, 0x64, // service tag, VID 100
        0x81, 0x00, 0xb0, 0xc8, // PCP 5, DEI, VID 200
        0x08, 0x00,
    ];

    #[test]
    fn golden_bytes() {
        let view = View::new_checked(&QINQ).unwrap();
        assert_eq!(view.destination().to_string(), "02:00:00:00:00:02");
        assert_eq!(view.source().to_string(), "02:00:00:00:00:01");
        assert_eq!(view.ethertype(), EtherType::IPV4);
        assert_eq!(view.header_len(), 22);
        let tags = view.tags();
        let [outer, inner] = tags.as_slice() else {
            panic!("two tags")
        };
        assert!(outer.service && outer.tag.vid() == 100);
        assert_eq!(
            (inner.tag.vid(), inner.tag.pcp(), inner.tag.dei()),
            (200, 5, true)
        );
        assert_eq!(Header::parse(&view).to_bytes(), QINQ);
    }

    #[test]
    fn a_tag_must_be_whole() {
        for (have, needed) in [(13, 14), (14, 18), (17, 18), (18, 22), (21, 22)] {
            assert_eq!(
                View::new_checked(&QINQ[..have]).err(),
                Some(WireError::Truncated {
                    layer: Layer::Ethernet,
                    needed,
                    have
                })
            );
        }
    }

    #[test]
    fn a_third_tag_stays_in_the_payload() {
        let mut bytes = QINQ.to_vec();
        bytes[20] = 0x81;
        bytes.extend([0, 1, 8, 0]);
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.ethertype(), EtherType::VLAN);
        assert_eq!(view.payload(), [0, 1, 8, 0]);
        let tag = Tag::of(EtherType::VLAN, 1).unwrap();
        assert_eq!(Tags::new(&[tag; 3]), Err(WireError::VlanTags(3)));
    }

    #[test]
    fn a_type_announces_a_tag_or_none() {
        for (ethertype, service) in [(0x8100, Some(false)), (0x88a8, Some(true)), (0x9100, None)] {
            let tag = Tag::of(EtherType(ethertype), 0xb0c8);
            assert_eq!(tag.map(|tag| tag.service), service, "{ethertype:#x}");
            if let Some(tag) = tag {
                assert_eq!(tag.ethertype().get(), ethertype);
                assert_eq!(tag.tag.tci(), 0xb0c8);
            }
        }
    }

    #[test]
    fn tags_are_taken_from_the_outside_and_put_back() {
        let mut frame = QINQ.to_vec();
        let outer = Tag::take(&mut frame).unwrap();
        assert_eq!(frame, [&QINQ[..12], &QINQ[16..]].concat());
        let inner = Tag::take(&mut frame).unwrap();
        assert_eq!(frame, [&QINQ[..12], &QINQ[20..]].concat());
        assert_eq!(Tag::take(&mut frame), None);
        assert_eq!((outer.tag.vid(), inner.tag.vid()), (100, 200));
        let frame = inner.insert(&frame).and_then(|frame| outer.insert(&frame));
        assert_eq!(frame.as_deref(), Some(&QINQ[..]));
    }

    #[test]
    fn what_is_no_frame_keeps_its_bytes() {
        let tag = Tag::of(EtherType::VLAN, 1).unwrap();
        assert_eq!(tag.insert(&QINQ[..11]), None);
        assert_eq!(tag.insert(&QINQ[..12]).map(|frame| frame.len()), Some(16));
        for len in [0, 11, 15] {
            let mut frame = QINQ[..len].to_vec();
            assert_eq!(Tag::take(&mut frame), None);
            assert_eq!(frame, QINQ[..len]);
        }
        let mut frame = QINQ[..16].to_vec();
        assert_eq!(Tag::take(&mut frame).map(|tag| tag.tag.vid()), Some(100));
        assert_eq!(frame, QINQ[..12]);
    }
}
