//! Stage route: a packet to a router's MAC goes to the next hop of its destination, on the host where it enters. After
//! `l2_lookup`, `ids` or `leg_in`; then `l2_lookup` in the switch of the next hop, or `nat`. A next hop may be a router
//! too: then once more.

mod header;
mod own;
mod source;

use std::net::IpAddr;

use overlane_model::{NextHop, Route, RouterTable, Side, SwitchId, SwitchTable, Verdict, Way};
use overlane_wire::{Mac, ethernet};

use crate::lib::context::{Context, Stage};
use crate::lib::destination::{Departure, Destination, Ingress};
use crate::lib::explain::Found;
use crate::lib::frame::Frame;
use crate::lib::next_hop::{self, interface_key, place};
use crate::lib::tell::Answer;
use crate::lib::{found, frame};

const STAGE: &str = "route";
/// That one packet passes on one host.
const MAX_ROUTERS: usize = 4;

/// A switch, and the MAC that has it there.
type Neighbour<'a> = (&'a SwitchTable, Mac);

/// One router. What it sends into a switch has to be looked up there.
pub(crate) fn route<'a>(
    cx: &mut Context<'a>,
    departure: &mut Departure<'_, 'a>,
    at: Ingress<'a>,
) -> Stage<Option<Neighbour<'a>>> {
    let router = at.router;
    cx.router = Some(at);
    cx.clamps_mss |= router.mss_clamp;
    if cx.routed == MAX_ROUTERS {
        let why = || format!("more than {MAX_ROUTERS} routers one after another");
        return refuse(cx, router, Verdict::TtlExceeded, Answer::TTL_EXCEEDED, why);
    }
    check_place(cx, at)?;
    check_vlan(cx, router, &departure.frame)?;
    let ip = header::routable(cx, at, &departure.frame)?;
    source::check(cx, at, &ip)?;
    if at.has_link_local(ip.destination) {
        return own::own(cx, at, &departure.frame, &ip);
    }
    let found = next_hop::find(router, ip.destination, departure.frame.flow_hash);
    let Some((route, next)) = found else {
        let why = || format!("no route to {}", ip.destination);
        return refuse(cx, router, Verdict::NoRoute, Answer::NO_ROUTE, why);
    };
    let Some(next) = next else {
        return own::own(cx, at, &departure.frame, &ip);
    };
    if let Some(remote) = next_hop::acting_host(cx.host, router, &next) {
        return to_acting_host(cx, departure, at, &next, remote, "sends");
    }
    if frame::ttl(&departure.frame) <= 1 {
        let why = || "its TTL ends here";
        return refuse(cx, router, Verdict::TtlExceeded, Answer::TTL_EXCEEDED, why);
    }
    explain(cx, router, route, &next);
    match next.side {
        Side::Leg => into_leg(cx, departure, router, next.addr),
        Side::Switch(id) => into_switch(cx, departure, at, next.addr, id),
    }
}

/// The router's addresses are those of the network without a tag.
fn check_vlan(cx: &mut Context<'_>, router: &RouterTable, frame: &Frame<'_>) -> Stage {
    if !frame.has_vlan() {
        return Stage::Continue(());
    }
    cx.end(STAGE, Verdict::VlanTag, || {
        let name = &router.name;
        let text = format!("router {name}: routes no frames with a guest's VLAN tag");
        Found::by_router(text, name)
    })
}

/// What comes from a VLAN the physical switch may have flooded: then the acting host has it too.
fn check_place(cx: &mut Context<'_>, at: Ingress<'_>) -> Stage {
    let switch = at.switch.map(|switch| switch.id);
    match (at.router.acting_elsewhere(), switch) {
        (Some(remote), Some(SwitchId::Vlan(_))) if cx.is_from_underlay() => {
            cx.end(STAGE, Verdict::UnknownUnicast, || {
                let name = &at.router.name;
                let text = format!(
                    "only the acting host of router {name} ({remote}) routes what comes from a VLAN"
                );
                Found::by_router(text, name)
            })
        }
        _ => Stage::Continue(()),
    }
}

/// Only the acting host sends to the next hop, or asks for it. It gets the frame as it came here. `does`: what only
/// that host does.
fn to_acting_host<'a>(
    cx: &mut Context<'a>,
    departure: &mut Departure<'_, 'a>,
    at: Ingress<'a>,
    next: &NextHop,
    remote: IpAddr,
    does: &str,
) -> Stage<Option<Neighbour<'a>>> {
    let (router, name) = (at.router, &at.router.name);
    let Some(switch) = at.switch else {
        let why = || "a leg without its gateway";
        return cx.end(STAGE, Verdict::NotConfigured, why);
    };
    if cx.is_from_underlay() {
        return cx.end(STAGE, Verdict::UnknownUnicast, || {
            let text =
                "its acting host is elsewhere, and what came from the underlay never goes back";
            Found::by_router(text.to_owned(), name)
        });
    }
    cx.step(STAGE, || {
        let to = place(cx.host, next.side);
        let text = format!(
            "router {name}: {} is {to}, where its acting host ({remote}) {does}",
            next.addr
        );
        Found::by_router(text, name)
    });
    let key = interface_key(router, switch.id);
    let destination = Destination::elsewhere(switch.id, remote, key);
    departure.destination = match next.side {
        Side::Leg => destination,
        Side::Switch(_) => destination.cutting_udp(),
    };
    Stage::Continue(None)
}

/// Into the physical network.
fn into_leg<'a>(
    cx: &mut Context<'a>,
    departure: &mut Departure<'_, 'a>,
    router: &'a RouterTable,
    next_hop: IpAddr,
) -> Stage<Option<Neighbour<'a>>> {
    let Some(device) = router.leg() else {
        let why = || "its gateway has no leg";
        return refuse(cx, router, Verdict::NoRoute, Answer::NO_ROUTE, why);
    };
    let leg = cx.host.leg(device).map(|(_, leg)| leg).unwrap_or_default();
    let (len, mtu) = (
        departure.frame.segment_len - ethernet::LEN,
        leg.mtu as usize,
    );
    if len > mtu {
        let why = || format!("{len} bytes do not fit the MTU of {device}, {mtu}");
        return refuse(cx, router, Verdict::PktTooBig, Answer::too_big(mtu), why);
    }
    let is_super_packet = departure.frame.gso.is_some();
    let Some(mac) = found::find(cx, router, Side::Leg, next_hop, is_super_packet) else {
        return found::ask(cx, router, Side::Leg, next_hop);
    };
    header::forward(departure.frame.to_mut(), leg.mac, mac);
    cx.routed += 1;
    departure.destination = Destination::Leg {
        router,
        device,
        next_hop: Some(next_hop),
    };
    Stage::Continue(None)
}

/// Its neighbour there gets it from the router.
fn into_switch<'a>(
    cx: &mut Context<'a>,
    departure: &mut Departure<'_, 'a>,
    at: Ingress<'a>,
    next_hop: IpAddr,
    id: SwitchId,
) -> Stage<Option<Neighbour<'a>>> {
    let (host, router) = (cx.host, at.router);
    let Some(switch) = host.switch(id) else {
        return cx.end(STAGE, Verdict::UnknownSwitch, || {
            format!("the switch of {next_hop} ({id}) is not on this host")
        });
    };
    let declared = host.neighbour(id, next_hop).map(|neighbour| neighbour.mac);
    if declared.is_none() && !switch.asks {
        let why = || format!("no port of switch {} has {next_hop}", switch.name);
        return refuse(cx, router, Verdict::NoNeighbour, Answer::NO_NEIGHBOUR, why);
    }
    let (side, is_super_packet) = (Side::Switch(id), departure.frame.gso.is_some());
    let found = || found::find(cx, router, side, next_hop, is_super_packet);
    let Some(mac) = declared.or_else(found) else {
        let next = NextHop {
            addr: next_hop,
            side,
        };
        return match router.acting_elsewhere() {
            Some(remote) => to_acting_host(cx, departure, at, &next, remote, "asks"),
            None => found::ask(cx, router, side, next_hop),
        };
    };
    header::forward(departure.frame.to_mut(), router.mac, mac);
    cx.routed += 1;
    departure.source_key = interface_key(router, id);
    cx.clamps_mss |= switch.mss_clamp;
    Stage::Continue(Some((switch, mac)))
}

/// Ends the packet's way; the router tells its sender.
fn refuse<T, F: Into<String>>(
    cx: &mut Context<'_>,
    router: &RouterTable,
    verdict: Verdict,
    answer: Answer,
    why: impl FnOnce() -> F,
) -> Stage<T> {
    cx.answer = Some(answer);
    cx.end(STAGE, verdict, || {
        let name = &router.name;
        Found::by_router(format!("router {name}: {}", why().into()), name)
    })
}

fn explain(cx: &mut Context<'_>, router: &RouterTable, route: &Route, next: &NextHop) {
    cx.step(STAGE, || {
        let (name, NextHop { addr, side }, to) = (&router.name, next, route.to);
        let side = place(cx.host, *side);
        let text = match &route.way {
            Way::Via(_) => format!("router {name}: {to} is behind {addr} {side}"),
            Way::Own | Way::Connected(_) => format!("router {name}: {to} is {side}"),
        };
        Found::by_router(text, name)
    });
}
