//! Packets to a router itself, and where its answers come from.

use std::net::IpAddr;

use overlane_model::Verdict;
use overlane_wire::ip::protocol;

use super::{At, Hop, Ingress, STAGE};
use crate::answer::{self, Answer};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::{Frame, Ip};

/// Echo requests are answered; nothing else is offered here.
pub(super) fn own<'a>(
    cx: &mut Context<'a>,
    at: &At<'_, 'a>,
    frame: &Frame<'_>,
    ip: &Ip,
) -> Stage<Hop<'a>> {
    let (name, addr) = (&at.router.name, ip.destination);
    if answer::echo(cx, &at.back).is_some() {
        return cx.end(STAGE, Verdict::Answer, || {
            Found::by_router(format!("{addr} is router {name}: echo answered"), name)
        });
    }
    cx.step(STAGE, || {
        let text = format!("{addr} is router {name} itself, which answers only echo requests");
        Found::by_router(text, name)
    });
    match ip.protocol {
        protocol::TCP => answer::send(cx, &at.back, None, Answer::Reset),
        protocol::UDP if !answer::is_fragment(frame, ip) => {
            if let Some(from) = source(at) {
                answer::send(cx, &at.back, Some(from), Answer::PORT_UNREACHABLE);
            }
        }
        _ => {}
    }
    Stage::Break(Verdict::RouterAddress)
}

/// The router's own link-local address on the interface that the packet came in by.
pub(super) fn is_link_local(at: &At<'_, '_>, addr: IpAddr) -> bool {
    let Ingress::Switch { switch, .. } = at.from else {
        return false;
    };
    let mut interfaces = at.router.interfaces.iter();
    let interface = interfaces.find(|interface| interface.switch == switch.id);
    interface.is_some_and(|interface| interface.link_local.map(IpAddr::V6) == Some(addr))
}

/// The first address of the packet's family on the interface that it came in by: answers come from it.
pub(super) fn source(at: &At<'_, '_>) -> Option<IpAddr> {
    let addresses = match at.from {
        Ingress::Leg => &at.router.gateway.as_ref()?.addresses,
        Ingress::Switch { switch, .. } => {
            let mut interfaces = at.router.interfaces.iter();
            &interfaces
                .find(|interface| interface.switch == switch.id)?
                .addresses
        }
    };
    let is_v4 = at.back.about.ip?.source.is_ipv4();
    let mut addresses = addresses.iter().map(|network| network.addr());
    addresses.find(|addr| addr.is_ipv4() == is_v4)
}
