//! Who may send through a router: nobody speaks to or as a VTEP, from an address that no router forwards, or from
//! where the way back does not lead (RFC 3704 section 2.2). Nobody is told: the source is not to be trusted.

use std::net::IpAddr;

use overlane_model::{Route, Side, Verdict, Way};

use crate::lib::context::{Context, Stage};
use crate::lib::destination::Ingress;
use crate::lib::explain::Found;
use crate::lib::host::Host;
use crate::lib::ip::Ip;
use crate::lib::next_hop::{is_refused, longest, place, why_refused};

const STAGE: &str = "route";

pub(super) fn check(cx: &mut Context<'_>, at: Ingress<'_>, ip: &Ip) -> Stage {
    let (router, source) = (at.router, ip.source);
    if let Some(vtep) = cx.host.vtep_among(&[source, ip.destination]) {
        let why = || format!("{vtep} is the address of a VTEP");
        return refuse(cx, at, Verdict::VtepAddress, why);
    }
    let route = longest(router, source);
    let refused = is_refused(source, route);
    if refused && !(is_link_local(source) && is_own(at, ip.destination)) {
        let why = || {
            let why = why_refused(source, route);
            format!("nothing from {source} is forwarded: {why}")
        };
        return refuse(cx, at, Verdict::NotRoutable, why);
    }
    let side = at.switch.map_or(Side::Leg, |it| Side::Switch(it.id));
    if is_own(at, source) {
        let why = || format!("the source {source} is the router's own address");
        return refuse(cx, at, Verdict::ReversePath, why);
    }
    if router.reverse_path && !refused && !leads_to(route, side) {
        let host = cx.host;
        let why = || {
            let back = way_back(host, route);
            format!("the way back to {source} does not lead where the packet came from, but {back}")
        };
        return refuse(cx, at, Verdict::ReversePath, why);
    }
    Stage::Continue(())
}

/// Where a route leads, in words.
fn way_back(host: &Host, route: Option<&Route>) -> String {
    let Some(route) = route else {
        return "nowhere: no route has it".to_owned();
    };
    let to = route.to;
    match &route.way {
        Way::Own => format!("to the router itself ({to})"),
        Way::Connected(side) => format!("to {to} {}", place(host, *side)),
        Way::Via(hops) => {
            let hops = hops.iter();
            let hops = hops.map(|hop| format!("{} {}", hop.addr, place(host, hop.side)));
            format!("to {} ({to})", hops.collect::<Vec<_>>().join(" or "))
        }
    }
}

/// Of equal ways one is enough.
fn leads_to(route: Option<&Route>, side: Side) -> bool {
    match route.map(|route| &route.way) {
        Some(Way::Connected(there)) => *there == side,
        Some(Way::Via(hops)) => hops.iter().any(|hop| hop.side == side),
        Some(Way::Own) | None => false,
    }
}

fn is_own(at: Ingress<'_>, addr: IpAddr) -> bool {
    let route = longest(at.router, addr);
    at.has_link_local(addr) || route.is_some_and(|route| route.way == Way::Own)
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn refuse(
    cx: &mut Context<'_>,
    at: Ingress<'_>,
    verdict: Verdict,
    why: impl FnOnce() -> String,
) -> Stage {
    cx.end(STAGE, verdict, || {
        let name = &at.router.name;
        Found::by_router(format!("router {name}: {}", why()), name)
    })
}
