//! Leave: carries out what was decided about a frame, and looks nothing up that decides. The one ending of every
//! packet that is not dropped, answers too.

use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::Verdict;

use crate::leave::encap::{self, Ids};
use crate::leave::port::{send_to_port, to_port};
use crate::leave::{flood, leg_out, vlan_out};
use crate::lib::context::{Context, RemoteCount, Stage};
use crate::lib::destination::{Departure, Destination};
use crate::lib::frame::Frame;

/// Ends with the verdict of the way that the frame takes.
pub(crate) fn leave(cx: &mut Context<'_>, departure: &Departure<'_, '_>) -> Stage<Verdict> {
    let (frame, source) = (&*departure.frame, departure.source_key);
    match departure.destination {
        Destination::Port(port) => to_port(cx, frame, port),
        Destination::Remote {
            vni,
            remote,
            key: dest,
            cuts_udp,
        } => to_remote(cx, frame, remote, Ids { vni, source, dest }, cuts_udp),
        Destination::Vlan(vlan) => vlan_out::vlan_out(cx, frame, vlan),
        Destination::Leg {
            router,
            device,
            next_hop,
        } => leg_out::leg_out(cx, frame, router, device, next_hop),
        Destination::Flood(switch) => flood::flood(cx, frame, switch, source),
        Destination::Hosts(switch) => flood::to_hosts(cx, frame, switch, source),
        Destination::Sender(port) => {
            cx.check_device("reply", &port.attachment.device)?;
            send_to_port(cx, frame, port, cx.entered.tag);
            Stage::Continue(Verdict::Answer)
        }
        // Nobody has asked route.
        Destination::Router(_) => Stage::Break(Verdict::NotConfigured),
    }
}

/// The remote counts what it gets and what it does not.
fn to_remote(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    remote: IpAddr,
    ids: Ids,
    cuts_udp: bool,
) -> Stage<Verdict> {
    let ended = encap::encap(cx, frame, remote, ids, cuts_udp);
    let (ControlFlow::Continue(verdict) | ControlFlow::Break(verdict)) = ended;
    match verdict {
        Verdict::Segment => {}
        verdict if verdict.is_drop() => cx.count_remote(RemoteCount::Dropped, remote),
        _ => cx.count_remote(RemoteCount::To, remote),
    }
    ended
}
