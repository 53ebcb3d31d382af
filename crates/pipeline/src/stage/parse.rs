//! Stage parse: reads one Ethernet frame, the packet itself from a port or from a VLAN, the inner frame
//! from a tunnel. After it: `port_security` from a port, `ecn` from a tunnel, `l2_lookup` from a VLAN.

use overlane_model::{SwitchTable, Verdict};
use overlane_wire::ethernet::Tag;
use overlane_wire::{EtherType, Mac, ethernet};

use crate::lib::bytes::be16;
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::{Frame, priority_of};
use crate::lib::headers::read_flow;

const STAGE: &str = "parse";

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
    if cx.weight.offset == 0 {
        frame.priority = cx.entered.tag.map_or(0, priority_of);
    }
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

/// 01:80:c2:00:00:00 to 0f: spanning tree, pause frames, LLDP and the like.
fn is_reserved_group(mac: Mac) -> bool {
    matches!(mac.get(), [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

/// Tags that a guest chose: refused (RFC 7348 section 6.1), or carried by a transparent switch. The kernel
/// keeps the first beside the bytes, so that one in them is the second, but inside a tunnel. A switch that carries no
/// tags takes off one that only says a priority.
fn tags(cx: &mut Context<'_>, switch: &SwitchTable, frame: &mut Frame<'_>) -> Stage {
    if frame.ethertype.is_vlan() {
        match cx.weight.offset {
            0 => return second_tag(cx),
            _ => take_inner_tag(cx, frame)?,
        }
    }
    match frame.tag {
        Some(tag) if !switch.vlan_transparent => {
            if !tag.is_priority() {
                return refuse_tag(cx, switch, tag);
            }
            (frame.tag, frame.priority) = (None, priority_of(tag));
            Stage::Continue(())
        }
        _ => Stage::Continue(()),
    }
}

/// The first tag inside a tunnel.
fn take_inner_tag(cx: &mut Context<'_>, frame: &mut Frame<'_>) -> Stage {
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

fn refuse_tag(cx: &mut Context<'_>, switch: &SwitchTable, tag: Tag) -> Stage {
    cx.end(STAGE, Verdict::VlanTag, || {
        let (vlan, name) = (tag.tag.vid(), &switch.name);
        let text = format!("the frame has a tag of VLAN {vlan}, and switch {name} carries none");
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
