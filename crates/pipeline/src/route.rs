//! Stage route: a frame to a router's MAC goes to the next hop of its destination. The host where a packet
//! enters does it. After `l2_lookup`, `ids` or `leg_in`; then `l2_lookup` in the switch of the next hop, or
//! `nat` and `leg_out`. A next hop may be a router too: then the next round.

use std::net::IpAddr;
use std::ops::ControlFlow;

use overlane_model::{
    GatewayPlace, NextHop, Route, RouterTable, Side, SwitchId, SwitchTable, Verdict, Way,
};

use crate::answer::{self, Answer, Back};
use crate::context::{Context, Stage};
use crate::encap::Origin;
use crate::explain::Found;
use crate::l2_lookup::{self, Destination, Place};
use crate::leave;
use crate::parse::Frame;

mod gateway;
mod header;
mod own;

pub(super) const STAGE: &str = "route";
/// That one packet passes on one host.
const MAX_ROUTERS: usize = 4;

/// Where a packet comes to a router from.
#[derive(Clone, Copy)]
pub(crate) enum Ingress<'a> {
    /// This switch.
    Switch {
        /// Which.
        switch: &'a SwitchTable,
        /// Of the port it came from, or of the router before; 0: not known.
        key: u16,
        /// A router was before.
        is_routed: bool,
    },
    /// The gateway's leg.
    Leg,
}

impl<'a> Ingress<'a> {
    /// Of a packet that no router has seen on this host.
    pub(crate) fn entered(switch: &'a SwitchTable, key: u16) -> Self {
        Self::Switch {
            switch,
            key,
            is_routed: false,
        }
    }
}

/// One router, with the packet's way to it.
pub(super) struct At<'r, 'a> {
    pub(super) router: &'a RouterTable,
    pub(super) from: Ingress<'a>,
    pub(super) back: Back<'r>,
}

/// A packet on its way to the next router.
struct Onward<'a> {
    router: &'a RouterTable,
    from: Ingress<'a>,
    frame: Frame<'static>,
}

/// Where a router's packet went.
enum Hop<'a> {
    Left(Verdict),
    Onward(Box<Onward<'a>>),
}

pub(crate) fn route<'a>(
    cx: &mut Context<'a>,
    router: &'a RouterTable,
    from: Ingress<'a>,
    frame: &Frame<'_>,
    back: &Back<'_>,
) -> Stage<Verdict> {
    let (mut router, mut from) = (router, from);
    let (mut frame, mut about) = (frame.clone(), back.about.clone());
    for _ in 0..MAX_ROUTERS {
        let back = Back {
            about: &about,
            to: back.to,
        };
        match hop(cx, &At { router, from, back }, &frame)? {
            Hop::Left(verdict) => return Stage::Continue(verdict),
            Hop::Onward(onward) => {
                about = header::with_less_ttl(&about);
                (router, from, frame) = (onward.router, onward.from, onward.frame);
            }
        }
    }
    let back = Back {
        about: &about,
        to: back.to,
    };
    let at = At { router, from, back };
    refuse(cx, &at, Verdict::TtlExceeded, Answer::TTL_EXCEEDED, || {
        format!("more than {MAX_ROUTERS} routers one after another")
    })
}

/// The route with the longest prefix.
pub(crate) fn lookup(router: &RouterTable, destination: IpAddr) -> Option<&Route> {
    let routes = router.routes.iter();
    let matching = routes.filter(|route| route.to.contains(&destination));
    matching.max_by_key(|route| route.to.prefix_len())
}

fn hop<'a>(cx: &mut Context<'a>, at: &At<'_, 'a>, frame: &Frame<'_>) -> Stage<Hop<'a>> {
    let ip = header::routable(cx, at, frame)?;
    let destination = ip.destination;
    if own::is_link_local(at, destination) {
        return own::own(cx, at, frame, &ip);
    }
    let Some(route) = lookup(at.router, destination) else {
        return refuse(cx, at, Verdict::NoRoute, Answer::NO_ROUTE, || {
            format!("no route to {destination}")
        });
    };
    let next = match &route.way {
        Way::Own => return own::own(cx, at, frame, &ip),
        Way::Connected(side) => NextHop {
            addr: destination,
            side: *side,
        },
        Way::Via(hops) => match choose(hops, frame.flow_hash) {
            Some(hop) => hop,
            None => return refuse(cx, at, Verdict::NoRoute, Answer::NO_ROUTE, String::new),
        },
    };
    let place = at.router.gateway.as_ref().map(|gateway| &gateway.place);
    match (next.side, place) {
        (Side::Leg, Some(GatewayPlace::Remote(remote))) => {
            gateway::to_gateway(cx, at, frame, *remote)
        }
        (side, _) => {
            if header::ttl(frame) <= 1 {
                return refuse(
                    cx,
                    at,
                    Verdict::TtlExceeded,
                    Answer::TTL_EXCEEDED,
                    || "its TTL ends here",
                );
            }
            explain(cx, at, route, &next);
            match side {
                Side::Leg => gateway::by_leg(cx, at, frame, next.addr),
                Side::Switch(id) => into_switch(cx, at, frame, next.addr, id),
            }
        }
    }
}

/// Equal-cost routes share flows.
pub(crate) fn choose(hops: &[NextHop], flow_hash: u32) -> Option<NextHop> {
    let number = (u64::from(flow_hash) * hops.len() as u64) >> 32;
    hops.get(number as usize).cloned()
}

/// Its neighbour there gets it from the router.
fn into_switch<'a>(
    cx: &mut Context<'a>,
    at: &At<'_, 'a>,
    frame: &Frame<'_>,
    next_hop: IpAddr,
    id: SwitchId,
) -> Stage<Hop<'a>> {
    let (host, router) = (cx.host, at.router);
    let Some(switch) = host.switch(id) else {
        return cx.end(STAGE, Verdict::UnknownSwitch, || {
            format!("the switch of {next_hop} ({id}) is not on this host")
        });
    };
    let Some(neighbour) = host.neighbour(id, next_hop) else {
        return refuse(cx, at, Verdict::NoNeighbour, Answer::NO_NEIGHBOUR, || {
            format!("no port of switch {} has {next_hop}", switch.name)
        });
    };
    let frame = header::forwarded(frame, router.mac, neighbour.mac);
    let key = interface_key(router, id);
    match l2_lookup::from_router(cx, switch, &frame)? {
        Destination::Router(router) => Stage::Continue(Hop::Onward(Box::new(Onward {
            router,
            from: Ingress::Switch {
                switch,
                key,
                is_routed: true,
            },
            frame,
        }))),
        Destination::Place(place) => {
            let about = header::with_less_ttl(at.back.about);
            let back = Back {
                about: &about,
                to: at.back.to,
            };
            leave(cx, at, Origin { switch: id, key }, &frame, &place, &back)
        }
        // A neighbour's MAC is no group address.
        Destination::Flood => cx.end(
            STAGE,
            Verdict::UnknownUnicast,
            || "a routed packet is not flooded",
        ),
    }
}

/// The way out of a switch; what is too large for it is answered.
fn leave<'a>(
    cx: &mut Context<'a>,
    at: &At<'_, 'a>,
    origin: Origin,
    frame: &Frame<'_>,
    place: &Place<'_>,
    back: &Back<'_>,
) -> Stage<Hop<'a>> {
    let ended = leave::leave(cx, origin, frame, place, back);
    if ended == ControlFlow::Break(Verdict::PktTooBig)
        && let Some(mtu) = leave::mtu(cx, frame, place)
        && let Some(from) = own::source(at)
    {
        answer::send(cx, back, Some(from), Answer::too_big(mtu));
    }
    Stage::Continue(Hop::Left(ended?))
}

/// Key of a router's interface on a switch; 0: it has none.
pub(crate) fn interface_key(router: &RouterTable, switch: SwitchId) -> u16 {
    let mut interfaces = router.interfaces.iter();
    let interface = interfaces.find(|interface| interface.switch == switch);
    interface.map_or(0, |interface| interface.key.get())
}

/// Ends the packet's way; the router tells its sender.
pub(super) fn refuse<T, F: Into<String>>(
    cx: &mut Context<'_>,
    at: &At<'_, '_>,
    verdict: Verdict,
    answer: Answer,
    why: impl FnOnce() -> F,
) -> Stage<T> {
    cx.step(STAGE, || {
        let name = &at.router.name;
        Found::by_router(format!("router {name}: {}", why().into()), name)
    });
    if let Some(from) = own::source(at) {
        answer::send(cx, &at.back, Some(from), answer);
    }
    Stage::Break(verdict)
}

fn explain(cx: &mut Context<'_>, at: &At<'_, '_>, route: &Route, next: &NextHop) {
    cx.step(STAGE, || {
        let (name, NextHop { addr, side }, to) = (&at.router.name, next, route.to);
        let side = match side {
            Side::Leg => "in the physical network".to_owned(),
            Side::Switch(id) => match cx.host.switch(*id) {
                Some(switch) => format!("on switch {}", switch.name),
                None => format!("on {id}"),
            },
        };
        let text = match &route.way {
            Way::Via(_) => format!("router {name}: {to} is behind {addr} {side}"),
            Way::Own | Way::Connected(_) => format!("router {name}: {to} is {side}"),
        };
        Found::by_router(text, name)
    });
}
