//! What routing reads and writes of a packet's headers.

use overlane_model::Verdict;
use overlane_wire::{Mac, ethernet};

use crate::lib::bytes::byte;
use crate::lib::context::{Context, Stage};
use crate::lib::destination::Ingress;
use crate::lib::explain::Found;
use crate::lib::frame::{Frame, lessen_ttl, readdress};
use crate::lib::ip::Ip;
use crate::lib::next_hop::{is_refused, longest, why_refused};

const STAGE: &str = "route";
const IP_AT: usize = ethernet::LEN;

/// What a router may forward or answer at all.
pub(super) fn routable(cx: &mut Context<'_>, at: Ingress<'_>, frame: &Frame<'_>) -> Stage<Ip> {
    let name = &at.router.name;
    let Some(ip) = frame.ip else {
        return cx.end(STAGE, Verdict::NotRoutable, || {
            Found::by_router(format!("router {name} forwards only IP"), name)
        });
    };
    let destination = ip.destination;
    let route = longest(at.router, destination);
    if is_refused(destination, route) && !at.has_link_local(destination) {
        return cx.end(STAGE, Verdict::NotRoutable, || {
            let why = why_refused(destination, route);
            let text = format!("router {name}: nothing to {destination} is forwarded: {why}");
            Found::by_router(text, name)
        });
    }
    let is_plain = byte(&frame.bytes, IP_AT) == Some(0x45);
    if is_plain && !frame.ip_checksum_is_right() {
        return cx.end(STAGE, Verdict::InnerIpHeader, || {
            let text = format!("router {name}: the checksum of the IPv4 header is wrong");
            Found::by_router(text, name)
        });
    }
    Stage::Continue(ip)
}

/// As the next hop gets it.
pub(super) fn forward(frame: &mut Frame<'_>, source: Mac, destination: Mac) {
    lessen_ttl(frame);
    readdress(frame, source, destination);
}
