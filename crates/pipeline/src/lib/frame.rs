//! An Ethernet frame as the stages see it, and what routers write in it.

use std::borrow::Cow;
use std::net::IpAddr;

use overlane_model::VlanId;
use overlane_wire::checksum::update;
use overlane_wire::ethernet::Tag;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Mac, VlanTag, ethernet, ipv4, ipv6};

use crate::lib::bytes::{array, be16, byte, put, put16};
use crate::lib::ip::Ip;
use crate::lib::packet::{Gso, Packet};

const IP_AT: usize = ethernet::LEN;

/// A frame as the later stages see it.
#[derive(Clone)]
pub(crate) struct Frame<'a> {
    /// From the Ethernet header on, without a tag.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// A guest's, which goes with the frame in a transparent switch.
    pub(crate) tag: Option<Tag>,
    /// PCP and DEI of the tag that was taken off, in their bits of a TCI.
    pub(crate) priority: u16,
    pub(crate) gso: Option<Gso>,
    pub(crate) destination: Mac,
    pub(crate) source: Mac,
    pub(crate) ethertype: EtherType,
    pub(crate) ip: Option<Ip>,
    /// Of its longest segment.
    pub(crate) segment_len: usize,
    pub(crate) flow_hash: u32,
}

impl<'a> Frame<'a> {
    /// What its Ethernet header says, if that is whole.
    pub(crate) fn new(bytes: Cow<'a, [u8]>, tag: Option<Tag>, gso: Option<Gso>) -> Option<Self> {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = array(&bytes, 0)?;
        Some(Self {
            tag,
            priority: 0,
            gso: gso.filter(|gso| gso.size > 0),
            destination: Mac::new([d0, d1, d2, d3, d4, d5]),
            source: Mac::new([s0, s1, s2, s3, s4, s5]),
            ethertype: EtherType(u16::from_be_bytes([t0, t1])),
            ip: None,
            segment_len: bytes.len(),
            flow_hash: 0,
            bytes,
        })
    }

    /// As it leaves, with this tag beside the bytes.
    pub(crate) fn packet(&self, tag: Option<Tag>) -> Packet {
        Packet {
            bytes: self.bytes.to_vec(),
            tag,
            gso: self.gso,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// An 802.1Q tag for it, with its priority.
    pub(crate) fn tag_of(&self, vlan: VlanId) -> Tag {
        let priority = self.tag.map_or(self.priority, priority_of);
        Tag {
            service: false,
            tag: VlanTag::from_tci(vlan.get() | priority),
        }
    }

    /// It is of a VLAN of the guests, in a transparent switch: not of the network that the fabric describes.
    pub(crate) fn has_vlan(&self) -> bool {
        self.tag.is_some_and(|tag| !tag.is_priority())
    }

    /// Bytes that its tag takes inside a tunnel.
    pub(crate) fn tag_len(&self) -> usize {
        self.tag.map_or(0, |_| ethernet::TAG_LEN)
    }

    /// What follows the IP header, of a packet that has one; IPv6 fragments are a protocol of their own.
    pub(crate) fn protocol(&self) -> Option<u8> {
        self.ip.map(|ip| ip.flow_protocol())
    }

    /// Several UDP datagrams of one sender (`UDP_SEGMENT`).
    pub(crate) fn is_udp_super_packet(&self) -> bool {
        self.gso.is_some() && self.protocol() == Some(protocol::UDP)
    }

    /// UDP right behind an IP header without options, no fragment: as whole super-packets travel.
    pub(crate) fn is_plain_udp(&self) -> bool {
        let Some(ip) = self.ip else { return false };
        let header_len = match ip.source {
            IpAddr::V4(_) => ipv4::LEN,
            IpAddr::V6(_) => ipv6::LEN,
        };
        let is_whole = ip.protocol == protocol::UDP && !ip.is_fragment();
        is_whole && ip.l4_at == ethernet::LEN + header_len
    }

    /// Not IPv4, or the checksum of its header is right.
    pub(crate) fn ip_checksum_is_right(&self) -> bool {
        let packet = self.bytes.get(ethernet::LEN..).unwrap_or_default();
        ipv4::View::front(packet).map_or(true, |ip| ip.checksum_is_right())
    }

    /// What stands behind the IP packet is padding; a super-packet has its headers.
    pub(crate) fn has_ports_inside(&self, ip: &Ip) -> bool {
        self.gso.is_some() || ip.l4_at + 4 <= ip.end
    }

    /// Payload of a segment; 0: no super-packet.
    pub(crate) fn gso_size(&self) -> usize {
        self.gso.map_or(0, |gso| gso.size.into())
    }
}

/// PCP and DEI, in their bits of a TCI.
pub(crate) fn priority_of(tag: Tag) -> u16 {
    tag.tag.tci() & 0xf000
}

/// TTL or hop limit.
pub(crate) fn ttl(frame: &Frame<'_>) -> u8 {
    let at = match frame.ip {
        Some(ip) if ip.source.is_ipv4() => IP_AT + 8,
        _ => IP_AT + 7,
    };
    byte(&frame.bytes, at).unwrap_or(0)
}

/// Into another network: a guest's tag stays on this side.
pub(crate) fn readdress(frame: &mut Frame<'_>, source: Mac, destination: Mac) {
    let bytes = frame.bytes.to_mut();
    put(bytes, 0, destination.bytes());
    put(bytes, 6, source.bytes());
    (frame.source, frame.destination) = (source, destination);
    (frame.tag, frame.priority) = (None, 0);
}

/// One hop further.
pub(crate) fn lessen_ttl(frame: &mut Frame<'_>) {
    let less = ttl(frame).wrapping_sub(1);
    let bytes = frame.bytes.to_mut();
    match frame.ip.map(|ip| ip.source) {
        Some(IpAddr::V4(_)) => {
            let (at, checksum_at) = (IP_AT + 8, IP_AT + 10);
            if let (Some(old), Some(sum)) = (be16(bytes, at), be16(bytes, checksum_at)) {
                let new = old.wrapping_sub(0x0100);
                put16(bytes, at, new);
                put16(bytes, checksum_at, update(sum, old, new));
            }
        }
        Some(IpAddr::V6(_)) => put(bytes, IP_AT + 7, &[less]),
        None => {}
    }
}
