//! The firewall of a port: stage conntrack, and stage acl for packets without a connection. From the port after `arp_nd`;
//! to it before the frame is handed over, for each copy of a flooded frame too.

use overlane_model::{Direction, Hook, Place, PortTable};

use crate::lib::context::{Context, Stage};
use crate::lib::fragments::{First, Memory};
use crate::lib::frame::Frame;
use crate::lib::ip::{Fragment, Ip};
use crate::lib::key::Zone;
use crate::lib::l4::L4;
use crate::lib::tracking::Followed;
use crate::lib::upkeep::is_upkeep;
use crate::stage::{acl, conntrack};

/// Ends with a drop, or lets the packet pass.
pub(crate) fn firewall(
    cx: &mut Context<'_>,
    direction: Direction,
    port: &PortTable,
    frame: &Frame<'_>,
) -> Stage {
    // What comes back from the segmenter was looked at before it went there.
    let was_judged = cx.hook == Hook::FromSegmenter && direction == Direction::FromPort;
    let (Some(firewall), false) = (port.firewall, was_judged) else {
        return Stage::Continue(());
    };
    let Some(ip) = frame.ip else {
        return acl::non_ip(cx, port, firewall, frame);
    };
    if stays_on_link(cx, port, frame) && is_upkeep(frame, &ip) {
        return Stage::Continue(());
    }
    let packet = conntrack::read(cx, direction, (port, firewall), frame, &ip)?;
    match conntrack::conntrack(cx, &packet)? {
        Followed::Passes { .. } => {}
        Followed::Asks => acl::acl(cx, &packet, true)?,
        Followed::Nothing { may_be_adopted } => acl::acl(cx, &packet, may_be_adopted)?,
    }
    if let Some(first) = ip.first_seen() {
        remember(cx, packet.zone, frame, &ip, &first, &packet.l4);
    }
    Stage::Continue(())
}

/// No router has forwarded it here, and none is going to.
fn stays_on_link(cx: &Context<'_>, port: &PortTable, frame: &Frame<'_>) -> bool {
    let entry = cx.host.fdb_entry(port.switch, frame.destination);
    let is_routers = entry.is_some_and(|entry| matches!(entry.place, Place::Router(_)));
    cx.routed == 0 && !is_routers
}

/// A first fragment that has passed.
fn remember(
    cx: &mut Context<'_>,
    zone: Zone,
    frame: &Frame<'_>,
    ip: &Ip,
    first: &Fragment,
    l4: &L4,
) {
    let now_ns = cx.now_ns;
    let remembered = First::new(frame, ip, first, l4, now_ns);
    let memory = Memory::of_port(zone);
    (cx.state.fragments).remember(memory, first, remembered, now_ns);
}
