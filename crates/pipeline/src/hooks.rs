//! The way of a packet through the stages, hook by hook: the one place that knows their order
//! (`docs/semantics.md`, the first table).

use std::ops::ControlFlow;

use overlane_model::{DeviceName, Direction, Hook, SwitchTable, Verdict};
use overlane_wire::ethernet::Tag;

use crate::answer::{Back, BackTo};
use crate::context::{Context, RemoteCount, Stage};
use crate::encap::Origin;
use crate::l2_lookup::Destination;
use crate::parse::Frame;
use crate::port::Source;
use crate::route::Ingress;
use crate::state::LearnedPlace;
use crate::{
    Entry, Output, acl, arp_nd, decap, ecn, flood, ids, l2_lookup, learn, leave, leg, nat, parse,
    port, port_security, route, tunnel, vlan, vtep_check,
};

/// Where a packet that enters there is seen.
pub(crate) fn of(entry: &Entry) -> Hook {
    match entry {
        Entry::Port(_) => Hook::FromPort,
        Entry::Segmenter(_) => Hook::FromSegmenter,
        Entry::Underlay => Hook::FromUnderlay,
        Entry::Leg(_) => Hook::FromLeg,
    }
}

/// All stages of a packet, to its verdict.
pub(crate) fn run(cx: &mut Context<'_>, entry: &Entry) -> Verdict {
    match entry {
        Entry::Port(device) | Entry::Segmenter(device) => from_port(cx, device),
        Entry::Underlay => or_host(cx, from_underlay),
        Entry::Leg(device) => or_host(cx, |cx| from_leg(cx, device)),
    }
}

/// What is none of ours goes to the host's stack as it came.
fn or_host<'a>(
    cx: &mut Context<'a>,
    stages: impl FnOnce(&mut Context<'a>) -> Stage<Verdict>,
) -> Verdict {
    let verdict = ended(stages(cx));
    if verdict == Verdict::ToHost {
        let packet = cx.entered.clone();
        cx.send(Output::Host { packet });
    }
    verdict
}

/// Hooks `from_port` and `from_segmenter`.
fn from_port(cx: &mut Context<'_>, device: &DeviceName) -> Verdict {
    let source = match port::port(cx, device) {
        ControlFlow::Continue(source) => source,
        ControlFlow::Break(verdict) => return verdict,
    };
    let parsed = parse::parse(cx, Some(source.switch), &cx.entered.bytes, source.guest_tag);
    // The segments of a super-packet were counted with it.
    if cx.hook == Hook::FromPort {
        cx.count_from_port(source.port);
    }
    let verdict = match parsed {
        ControlFlow::Continue(frame) => ended(from_port_parsed(cx, &source, &frame)),
        ControlFlow::Break(verdict) => verdict,
    };
    if verdict.is_drop() {
        cx.count_port_dropped(source.port);
    }
    verdict
}

fn from_port_parsed<'a>(
    cx: &mut Context<'a>,
    source: &Source<'a>,
    frame: &Frame<'a>,
) -> Stage<Verdict> {
    let back = Back {
        about: frame,
        to: BackTo::Port(source),
    };
    port_security::port_security(cx, source, frame)?;
    learn::from_port(cx, source, frame)?;
    arp_nd::from_port(cx, source, frame, &back)?;
    acl::firewall(cx, Direction::FromPort, source.port, frame, Some(&back))?;
    let origin = Origin::from(source);
    match l2_lookup::from_port(cx, source, frame)? {
        Destination::Flood => flood::from_port(cx, source, frame),
        Destination::Place(place) => leave::leave(cx, origin, frame, &place, &back),
        Destination::Router(router) => {
            let from = Ingress::entered(source.switch, origin.key);
            route::route(cx, router, from, frame, &back)
        }
    }
}

/// Hook `from_underlay`.
fn from_underlay(cx: &mut Context<'_>) -> Stage<Verdict> {
    match cx.entered.tag {
        Some(tag) => from_vlan(cx, tag),
        None => from_tunnel(cx),
    }
}

fn from_vlan(cx: &mut Context<'_>, tag: Tag) -> Stage<Verdict> {
    let switch = vlan::vlan_in(cx, tag)?;
    let frame = parse::parse(cx, Some(switch), &cx.entered.bytes, None)?;
    learn::from_underlay(cx, switch, &frame, LearnedPlace::Vlan, 0);
    let back = Back {
        about: &frame,
        to: BackTo::Underlay(switch),
    };
    arp_nd::from_underlay(cx, switch, &frame, &back)?;
    let destination = l2_lookup::from_underlay(cx, switch, &frame)?;
    into_switch(cx, switch, 0, &frame, destination)
}

fn from_tunnel(cx: &mut Context<'_>) -> Stage<Verdict> {
    let outer = vtep_check::vtep_check(cx)?;
    let verdict = ended(behind_outer(cx, &outer));
    if matches!(verdict, Verdict::ToHost | Verdict::Greeting) {
        return Stage::Continue(verdict);
    }
    let which = match verdict.is_drop() {
        true => RemoteCount::Dropped,
        false => RemoteCount::From,
    };
    cx.count_remote(which, outer.remote.addr);
    Stage::Continue(verdict)
}

fn behind_outer<'a>(cx: &mut Context<'a>, outer: &vtep_check::Outer<'a>) -> Stage<Verdict> {
    let tunnel = tunnel::tunnel(cx, outer)?;
    cx.weight.offset = tunnel.inner_at;
    let inner = cx.entered.bytes.get(tunnel.inner_at..outer.end);
    let (switch, source_key) = (tunnel.switch, tunnel.source_key);
    let mut frame = parse::parse(cx, Some(switch), inner.unwrap_or_default(), None)?;
    ecn::ecn(cx, outer.ecn, &mut frame)?;
    let remote = LearnedPlace::Remote(outer.remote.addr);
    learn::from_underlay(cx, switch, &frame, remote, source_key);
    let back = Back {
        about: &frame,
        to: BackTo::Underlay(switch),
    };
    arp_nd::from_underlay(cx, switch, &frame, &back)?;
    let destination = ids::ids(cx, &tunnel, &frame)?;
    // A short frame is padded only for those that it goes to as it is.
    if !matches!(destination, Destination::Router(_)) {
        decap::decap(cx, &mut frame);
    }
    into_switch(cx, switch, source_key, &frame, destination)
}

/// A frame from the underlay, in its switch.
fn into_switch<'a>(
    cx: &mut Context<'a>,
    switch: &'a SwitchTable,
    source_key: u16,
    frame: &Frame<'_>,
    destination: Destination<'a>,
) -> Stage<Verdict> {
    let back = Back {
        about: frame,
        to: BackTo::Underlay(switch),
    };
    let origin = Origin {
        switch: switch.id,
        key: source_key,
    };
    match destination {
        Destination::Flood => flood::from_underlay(cx, switch, frame),
        Destination::Place(place) => leave::leave(cx, origin, frame, &place, &back),
        Destination::Router(router) => {
            let from = Ingress::entered(switch, source_key);
            route::route(cx, router, from, frame, &back)
        }
    }
}

/// Hook `from_leg`.
fn from_leg(cx: &mut Context<'_>, device: &DeviceName) -> Stage<Verdict> {
    let taken = leg::leg_in(cx, device)?;
    let frame = parse::parse(cx, None, &cx.entered.bytes, None)?;
    let back = Back {
        about: &frame,
        to: BackTo::Leg(device),
    };
    leg::answer(cx, &taken, &frame, &back)?;
    let inside = nat::from_leg(cx, taken.router, &frame)?;
    route::route(cx, taken.router, Ingress::Leg, &inside, &back)
}

/// A way that ended, wherever it did.
fn ended(stage: Stage<Verdict>) -> Verdict {
    match stage {
        ControlFlow::Continue(verdict) | ControlFlow::Break(verdict) => verdict,
    }
}
