//! Who may send through a router: nobody speaks to or as a VTEP, from an address that no router forwards, or from
//! where the way back does not lead (RFC 3704 section 2.2). Nobody is told: the source is not to be trusted.

use std::net::IpAddr;

use overlane_model::{Route, Side, Verdict, Way};

use super::STAGE;
use crate::context::{Context, Stage};
use crate::destination::Ingress;
use crate::explain::Found;
use crate::next_hop::{is_refused, longest};
use crate::parse::Ip;

pub(super) fn check(cx: &mut Context<'_>, at: Ingress<'_>, ip: &Ip) -> Stage {
    let (router, source) = (at.router, ip.source);
    if let Some(vtep) = cx.host.vtep_among(&[source, ip.destination]) {
        let why = || format!("{vtep} is the address of a VTEP");
        return refuse(cx, at, Verdict::VtepAddress, why);
    }
    let route = longest(router, source);
    if is_refused(source, route) {
        if is_link_local(source) && is_own(at, ip.destination) {
            return Stage::Continue(());
        }
        let why = || format!("nothing from {source} is forwarded");
        return refuse(cx, at, Verdict::NotRoutable, why);
    }
    let side = at.switch.map_or(Side::Leg, |it| Side::Switch(it.id));
    if let Some(Way::Own) = route.map(|route| &route.way) {
        let why = || format!("the source {source} is the router's own address");
        return refuse(cx, at, Verdict::ReversePath, why);
    }
    if router.reverse_path && !leads_to(route, side) {
        let why = || format!("the way back to {source} does not lead where the packet came from");
        return refuse(cx, at, Verdict::ReversePath, why);
    }
    Stage::Continue(())
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
