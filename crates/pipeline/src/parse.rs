//! Stage parse: reads one Ethernet frame, the packet itself from a port or from a VLAN, the inner frame
//! from a tunnel. After it: `port_security` from a port, `ecn` from a tunnel, `l2_lookup` from a VLAN.

mod ip;
mod l4;
mod segment;
mod sound;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use overlane_model::{SwitchTable, Verdict};
use overlane_wire::ethernet::{self, Tag};
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Mac, ipv4, ipv6};

use crate::bytes::{array, be16};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::flow_hash::Flow;
use crate::{Gso, Packet};
pub(crate) use ip::{Chain, Fragment, Ip, is_extension};
pub(crate) use l4::{Ends, L4, Marks, Quoted, has_marks, least_transport_len, transport_len};
pub(crate) use segment::{MAX_SCALE, Segment};

const STAGE: &str = "parse";

/// A frame as the later stages see it.
#[derive(Clone)]
pub(crate) struct Frame<'a> {
    /// From the Ethernet header on, without a tag.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// A guest's, which goes with the frame in a transparent switch.
    pub(crate) tag: Option<Tag>,
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

    /// Payload of a segment; 0: no super-packet.
    pub(crate) fn gso_size(&self) -> usize {
        self.gso.map_or(0, |gso| gso.size.into())
    }
}

/// IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn mapped(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

/// `bytes` is the frame with a tag that stands in it, `beside` the tag that does not; no `switch`: of a
/// gateway's leg, which has seen to it that there is none.
pub(crate) fn parse<'a>(
    cx: &mut Context<'a>,
    switch: Option<&SwitchTable>,
    bytes: &'a [u8],
    beside: Option<Tag>,
) -> Stage<Frame<'a>> {
    cx.weight.len = bytes.len();
    let Some(mut frame) = Frame::new(bytes.into(), beside, cx.entered.gso) else {
        return cx.end(STAGE, Verdict::InnerTooSmall, || {
            format!("{} bytes are no Ethernet header of 14", bytes.len())
        });
    };
    if let Some(switch) = switch {
        tags(cx, switch, &mut frame)?;
    }
    if frame.source.is_group() || frame.source.is_zero() {
        return cx.end(STAGE, Verdict::SourceMac, || {
            format!("the source {} is no address of a station", frame.source)
        });
    }
    if is_reserved_group(frame.destination) {
        return cx.end(STAGE, Verdict::ReservedGroup, || {
            let destination = frame.destination;
            format!("{destination} is for the next bridge only (IEEE 802.1Q table 8-1)")
        });
    }
    read_flow(cx, &mut frame)?;
    count_segments(cx, &frame);
    cx.step(STAGE, || describe(&frame));
    Stage::Continue(frame)
}

/// The IP header, and what makes the frame's flow.
pub(crate) fn read_flow(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage {
    let flow = match frame.ethertype {
        EtherType::IPV4 => ip::ipv4(cx, frame)?,
        EtherType::IPV6 => ip::ipv6(cx, frame)?,
        _ => Flow::of_ethernet(array(&frame.bytes, 0).unwrap_or_default()),
    };
    frame.flow_hash = flow.hash(cx.host.tables().tunnel.hash_seed);
    Stage::Continue(())
}

/// 01:80:c2:00:00:00 to 0f: spanning tree, pause frames, LLDP and the like.
fn is_reserved_group(mac: Mac) -> bool {
    matches!(mac.get(), [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

/// Tags that a guest chose: refused (RFC 7348 section 6.1), or carried by a transparent switch. The kernel
/// keeps the first beside the bytes, so that one in them is the second, but inside a tunnel.
fn tags(cx: &mut Context<'_>, switch: &SwitchTable, frame: &mut Frame<'_>) -> Stage {
    if frame.tag.is_some() && !switch.vlan_transparent {
        return refuse_tag(cx, switch, frame.tag);
    }
    if !frame.ethertype.is_vlan() {
        return Stage::Continue(());
    }
    if !switch.vlan_transparent {
        return refuse_tag(cx, switch, None);
    }
    if cx.weight.offset == 0 {
        return second_tag(cx);
    }
    let Some(ethertype) = be16(&frame.bytes, ethernet::LEN + 2) else {
        return cx.end(
            STAGE,
            Verdict::InnerTooSmall,
            || "the frame ends in its VLAN tag",
        );
    };
    frame.tag = Tag::take(frame.bytes.to_mut());
    frame.ethertype = EtherType(ethertype);
    frame.segment_len = frame.len();
    cx.weight.offset += ethernet::TAG_LEN;
    cx.weight.len = frame.len();
    match frame.ethertype.is_vlan() {
        true => second_tag(cx),
        false => Stage::Continue(()),
    }
}

fn refuse_tag(cx: &mut Context<'_>, switch: &SwitchTable, tag: Option<Tag>) -> Stage {
    cx.end(STAGE, Verdict::VlanTag, || {
        let tag = tag.map_or_else(String::new, |tag| format!(" (VLAN {})", tag.tag.vid()));
        let name = &switch.name;
        let text = format!("the frame has a VLAN tag{tag}, and switch {name} carries none");
        Found::by_switch(text, name)
    })
}

fn second_tag(cx: &mut Context<'_>) -> Stage {
    cx.end(
        STAGE,
        Verdict::VlanTag,
        || "the frame has a second VLAN tag, which no switch carries",
    )
}

/// What a super-packet is worth: the kernel's own number may count with other headers.
fn count_segments(cx: &mut Context<'_>, frame: &Frame<'_>) {
    let (len, size) = (frame.len(), frame.gso_size());
    if size > 0 && len > frame.segment_len && frame.segment_len > size {
        let headers = frame.segment_len - size;
        cx.weight.segments = (len - headers).div_ceil(size) as u64;
    }
}

fn describe(frame: &Frame<'_>) -> String {
    let (source, destination) = (frame.source, frame.destination);
    let what = match frame.ip {
        Some(ip) => ip.describe(&frame.bytes),
        None if frame.ethertype.is_length() => "an 802.3 frame".to_owned(),
        None if frame.ethertype == EtherType::ARP => "ARP".to_owned(),
        None => format!("type {}", frame.ethertype),
    };
    let tag = frame
        .tag
        .map_or_else(String::new, |tag| format!(", VLAN tag {}", tag.tag.vid()));
    let len = match frame.gso_size() {
        0 => format!("{} bytes", frame.len()),
        size => format!("{} bytes in segments of {size}", frame.len()),
    };
    format!("{source} → {destination}{tag}, {what}, {len}")
}
