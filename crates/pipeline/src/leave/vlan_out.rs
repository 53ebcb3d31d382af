//! Leave by a VLAN: the frame of a switch that is bound to one crosses the uplink plain, with its tag.

use overlane_model::{Verdict, VlanId};
use overlane_wire::ethernet;
use overlane_wire::ip::protocol;

use crate::leave::segmenter::segment;
use crate::lib::context::{Context, Stage};
use crate::lib::frame::Frame;
use crate::lib::outcome::Output;

const STAGE: &str = "vlan_out";

/// Of other super-packets (SCTP, a guest's own tunnel) nobody here knows the segments' length.
pub(crate) fn is_measurable(frame: &Frame<'_>) -> bool {
    frame.gso.is_none() || matches!(frame.protocol(), Some(protocol::TCP | protocol::UDP))
}

pub(crate) fn vlan_out(cx: &mut Context<'_>, frame: &Frame<'_>, vlan: VlanId) -> Stage<Verdict> {
    if frame.is_udp_super_packet() && cx.weight.offset > 0 {
        let why = "a UDP super-packet out of a tunnel does not go to a VLAN whole";
        return segment(cx, || why);
    }
    if !is_measurable(frame) {
        let why = "a super-packet that is neither TCP nor UDP is segmented first";
        return segment(cx, || why);
    }
    send(cx, STAGE, frame, vlan)?;
    cx.step(STAGE, || {
        let uplink = &cx.host.tables().uplink;
        format!("sent out of {uplink} with VLAN tag {vlan}")
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
    let (len, mtu) = (frame.segment_len - ethernet::LEN, cx.host.underlay_mtu());
    if len > mtu as usize {
        cx.tell_too_big(mtu as usize);
        return cx.end(stage, Verdict::PktTooBig, || {
            format!("{len} bytes do not fit the uplink's MTU of {mtu}")
        });
    }
    cx.check_device(stage, &cx.host.tables().uplink)?;
    cx.send(Output::Underlay {
        remote: None,
        packet: frame.packet(Some(frame.tag_of(vlan))),
    });
    Stage::Continue(())
}
