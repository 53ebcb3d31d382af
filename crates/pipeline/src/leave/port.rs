//! Leave to a port of this host.

use overlane_model::{PortTable, Verdict};
use overlane_wire::ethernet::{self, Tag};

use crate::leave::vlan_out::is_measurable;
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::outcome::Output;

/// Longer than the port's device takes, if that can be said: nobody here knows the segments of super-packets other than
/// TCP and UDP.
pub(crate) fn is_too_long(cx: &Context<'_>, frame: &Frame<'_>) -> bool {
    is_measurable(frame) && frame.segment_len - ethernet::LEN > cx.host.port_mtu() as usize
}

/// Whether the port's device takes a frame of this length. Its firewall was asked.
pub(crate) fn check_len(cx: &mut Context<'_>, frame: &Frame<'_>, port: &PortTable) -> Stage {
    if !is_too_long(cx, frame) {
        return Stage::Continue(());
    }
    let (len, mtu) = (frame.segment_len - ethernet::LEN, cx.host.port_mtu());
    cx.tell_too_big(mtu as usize);
    cx.end("to_port", Verdict::PktTooBig, || {
        let (name, device) = (&port.name, &port.attachment.device);
        let text = format!("{len} bytes do not fit the MTU of {mtu} of {device}, port {name}");
        Found::by_port(text, name)
    })
}

/// How the kernel does it (`bpf_redirect_peer` or an ordinary transmit, whole or in segments) is not seen here.
pub(crate) fn to_port(cx: &mut Context<'_>, frame: &Frame<'_>, port: &PortTable) -> Stage<Verdict> {
    cx.check_device("to_port", &port.attachment.device)?;
    deliver(cx, frame, port);
    cx.step("to_port", || {
        let (name, at) = (&port.name, &port.attachment);
        Found::by_port(format!("handed to port {name} ({at})"), name)
    });
    Stage::Continue(Verdict::ToPort)
}

/// One frame for one port, also as the copy of a flooded one. Its firewall was asked.
pub(crate) fn deliver(cx: &mut Context<'_>, frame: &Frame<'_>, port: &PortTable) {
    cx.count_to_port(port);
    let tag = port.attachment.vlan.map(|vlan| frame.tag_of(vlan));
    let tag = tag.or(frame.tag);
    send_to_port(cx, frame, port, tag);
}

pub(crate) fn send_to_port(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    port: &PortTable,
    tag: Option<Tag>,
) {
    let (port, packet) = (port.name.clone(), frame.packet(tag));
    cx.send(Output::Port { port, packet });
}
