//! Stage to_port: hands a frame, plain again, to a port of this host, if the port's firewall lets it pass. The
//! last stage. How the kernel does
//! it (`bpf_redirect_peer` or an ordinary transmit, whole or in segments) is not seen here.

use overlane_model::{Direction, PortTable, Verdict, VlanId};
use overlane_wire::VlanTag;
use overlane_wire::ethernet::Tag;

use crate::answer::Back;
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::Frame;
use crate::{Output, Packet, acl};

const STAGE: &str = "to_port";

pub(crate) fn to_port(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    port: &PortTable,
    back: &Back<'_>,
) -> Stage<Verdict> {
    acl::firewall(cx, Direction::ToPort, port, frame, Some(back))?;
    deliver(cx, frame, port);
    cx.step(STAGE, || {
        let (name, at) = (&port.name, &port.attachment);
        Found::by_port(format!("handed to port {name} ({at})"), name)
    });
    Stage::Continue(Verdict::ToPort)
}

/// One frame for one port, also as the copy of a flooded one. Its firewall was asked.
pub(crate) fn deliver(cx: &mut Context<'_>, frame: &Frame<'_>, port: &PortTable) {
    cx.count_to_port(port);
    cx.send(Output::Port {
        port: port.name.clone(),
        packet: Packet {
            bytes: frame.bytes.to_vec(),
            tag: port.attachment.vlan.map(tag_of).or(frame.tag),
            gso: frame.gso,
        },
    });
}

/// An 802.1Q tag of priority 0.
pub(crate) fn tag_of(vlan: VlanId) -> Tag {
    Tag {
        service: false,
        tag: VlanTag::from_tci(vlan.get()),
    }
}
