//! Leave: carries out what was decided about a frame, and looks nothing up that decides. The one ending of every
//! packet that is not dropped, answers too.

use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::{PortTable, Verdict};
use overlane_wire::ethernet::Tag;

use crate::context::{Context, RemoteCount, Stage};
use crate::destination::{Departure, Destination};
use crate::encap::{self, Ids};
use crate::explain::Found;
use crate::parse::Frame;
use crate::vlan_out::tag_of;
use crate::{Output, flood, leg_out, vlan_out};

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

/// How the kernel does it (`bpf_redirect_peer` or an ordinary transmit, whole or in segments) is not seen here.
fn to_port(cx: &mut Context<'_>, frame: &Frame<'_>, port: &PortTable) -> Stage<Verdict> {
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
    let tag = port.attachment.vlan.map(tag_of).or(frame.tag);
    send_to_port(cx, frame, port, tag);
}

fn send_to_port(cx: &mut Context<'_>, frame: &Frame<'_>, port: &PortTable, tag: Option<Tag>) {
    let (port, packet) = (port.name.clone(), frame.packet(tag));
    cx.send(Output::Port { port, packet });
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
