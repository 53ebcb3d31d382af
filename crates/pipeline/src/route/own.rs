//! Packets to a router itself, and its addresses where a packet comes to it.

use std::net::IpAddr;

use overlane_model::Verdict;
use overlane_wire::ip::protocol;

use super::STAGE;
use crate::context::{Context, Stage};
use crate::destination::Ingress;
use crate::explain::Found;
use crate::next_hop::interface_on;
use crate::parse::{Frame, Ip};
use crate::reply::{self, Answer};

/// Echo requests are answered; nothing else is offered here.
pub(super) fn own(cx: &mut Context<'_>, at: Ingress<'_>, frame: &Frame<'_>, ip: &Ip) -> Stage {
    let (name, addr) = (&at.router.name, ip.destination);
    if reply::is_echo_request(frame, ip) {
        cx.answer = Some(Answer::Echo);
        return cx.end(STAGE, Verdict::Answer, || {
            Found::by_router(format!("{addr} is router {name}: echo answered"), name)
        });
    }
    cx.answer = match ip.protocol {
        protocol::TCP => Some(Answer::Reset),
        protocol::UDP if reply::is_whole(frame, ip, protocol::UDP, 0) => {
            Some(Answer::PORT_UNREACHABLE)
        }
        _ => None,
    };
    cx.end(STAGE, Verdict::RouterAddress, || {
        let text = format!("{addr} is router {name} itself, which answers only echo requests");
        Found::by_router(text, name)
    })
}

impl Ingress<'_> {
    /// The router's own link-local address on the interface that the packet came in by.
    pub(super) fn has_link_local(&self, addr: IpAddr) -> bool {
        let interface = self
            .switch
            .and_then(|switch| interface_on(self.router, switch.id));
        interface.is_some_and(|interface| interface.link_local.map(IpAddr::V6) == Some(addr))
    }

    /// The first address of the packet's family on that interface: the router's errors come from it.
    pub(crate) fn address(&self, is_v4: bool) -> Option<IpAddr> {
        let addresses = match self.switch {
            None => &self.router.gateway.as_ref()?.addresses,
            Some(switch) => &interface_on(self.router, switch.id)?.addresses,
        };
        let mut addresses = addresses.iter().map(|network| network.addr());
        addresses.find(|addr| addr.is_ipv4() == is_v4)
    }
}
