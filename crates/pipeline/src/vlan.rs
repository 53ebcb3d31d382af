//! Stages vlan_out and vlan_in: frames of a switch that is bound to a VLAN cross the uplink plain, with its
//! tag. vlan_out comes after `l2_lookup`; vlan_in is the first stage of a tagged frame on the uplink, then
//! `parse` and `l2_lookup`.

use overlane_model::{SwitchId, SwitchTable, Verdict, VlanId};
use overlane_wire::ethernet::{self, Tag};
use overlane_wire::ip::protocol;

use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::Frame;
use crate::to_port::tag_of;
use crate::{Output, Packet, encap};

/// Of other super-packets (SCTP, a guest's own tunnel) nobody here knows the segments' length.
pub(crate) fn is_measurable(frame: &Frame<'_>) -> bool {
    frame.gso.is_none() || matches!(frame.protocol(), Some(protocol::TCP | protocol::UDP))
}

pub(crate) fn vlan_out(cx: &mut Context<'_>, frame: &Frame<'_>, vlan: VlanId) -> Stage<Verdict> {
    if frame.is_udp_super_packet() && cx.weight.offset > 0 {
        return encap::segment(
            cx,
            || "a UDP super-packet out of a tunnel does not go to a VLAN whole",
        );
    }
    if !is_measurable(frame) {
        return encap::segment(
            cx,
            || "a super-packet that is neither TCP nor UDP is segmented first",
        );
    }
    send(cx, "vlan_out", frame, vlan)?;
    cx.step("vlan_out", || {
        let host = cx.host.tables();
        format!("sent out of {} with VLAN tag {vlan}", host.uplink)
    });
    Stage::Continue(Verdict::VlanOut)
}

/// One frame out of the uplink, also as the copy of a flooded one.
pub(crate) fn send(
    cx: &mut Context<'_>,
    stage: &'static str,
    frame: &Frame<'_>,
    vlan: VlanId,
) -> Stage {
    if !fits(cx, frame) {
        return cx.end(stage, Verdict::PktTooBig, || {
            let (len, mtu) = (frame.segment_len - ethernet::LEN, cx.host.underlay_mtu());
            format!("{len} bytes do not fit the uplink's MTU of {mtu}")
        });
    }
    output(cx, frame, vlan);
    Stage::Continue(())
}

/// An answer, which nobody hears of if it does not fit.
pub(crate) fn send_if_it_fits(cx: &mut Context<'_>, frame: &Frame<'_>, vlan: VlanId) -> Option<()> {
    fits(cx, frame).then(|| output(cx, frame, vlan))
}

fn fits(cx: &Context<'_>, frame: &Frame<'_>) -> bool {
    frame.segment_len - ethernet::LEN <= cx.host.underlay_mtu() as usize
}

fn output(cx: &mut Context<'_>, frame: &Frame<'_>, vlan: VlanId) {
    cx.send(Output::Underlay {
        remote: None,
        packet: Packet {
            bytes: frame.bytes.to_vec(),
            tag: Some(tag_of(vlan)),
            gso: frame.gso,
        },
    });
}

/// The switch that a tagged frame enters; any other stays with the host.
pub(crate) fn vlan_in<'a>(cx: &mut Context<'a>, tag: Tag) -> Stage<&'a SwitchTable> {
    let vlan = VlanId::new(tag.tag.vid().into()).ok();
    let switch = vlan
        .filter(|_| !tag.service)
        .and_then(|vlan| cx.host.switch(SwitchId::Vlan(vlan)));
    let Some(switch) = switch else {
        return cx.end("vlan_in", Verdict::ToHost, || {
            format!("no switch of this host is bound to VLAN {}", tag.tag.vid())
        });
    };
    cx.step("vlan_in", || {
        let (name, vlan) = (&switch.name, tag.tag.vid());
        Found::by_switch(format!("VLAN {vlan} is switch {name}"), name)
    });
    Stage::Continue(switch)
}
