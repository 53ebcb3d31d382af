//! Stage leg_in: takes what is for the router on a gateway's device in the physical network, and leaves the rest to
//! the host, which may have addresses of its own there. Then `parse`, `nat` and `route`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{DeviceName, NatKind, RouterTable, Side, Verdict, Way};
use overlane_wire::ethernet::Tag;
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Mac, ethernet, ipv6};

use crate::lib::bytes::{array, be16, byte};
use crate::lib::context::{Context, Stage};
use crate::lib::explain::Found;
use crate::lib::neighbour::{Message, Question};
use crate::lib::next_hop::longest;
use crate::lib::source::Taken;

const STAGE: &str = "leg_in";
const IP_AT: usize = ethernet::LEN;

/// The router, and what it takes. `None`: the packet is not for it.
pub(crate) fn leg_in<'a>(
    cx: &mut Context<'a>,
    device: &DeviceName,
) -> Stage<(&'a RouterTable, Option<Taken<'a>>)> {
    let Some((router, leg)) = cx.host.leg(device) else {
        return cx.end(STAGE, Verdict::ToHost, || {
            format!("{device} is no router's leg")
        });
    };
    let bytes = &cx.entered.bytes;
    let mac = array::<6>(bytes, 0).map(Mac::new);
    let (is_ours, is_group) = (mac == Some(leg.mac), mac.is_some_and(Mac::is_group));
    let question = Question::of(bytes).filter(|asked| has_address(router, asked.target()));
    let is_untagged = cx.entered.tag.is_none_or(Tag::is_priority);
    let question = question.filter(|_| is_ours || is_group);
    let is_single = cx.entered.gso.is_none_or(|gso| gso.size == 0);
    let message = || Message::of(bytes).filter(|_| is_single);
    let answered = || message().and_then(|message| message.answers());
    let is_answer = || answered().is_some_and(|addr| has_address(router, addr));
    let is_taken = is_ours && (is_answer() || is_for_router(router, bytes));
    if !is_untagged || !(question.is_some() || is_taken) {
        return Stage::Continue((router, None));
    }
    cx.step(STAGE, || {
        let name = &router.name;
        Found::by_router(format!("{device} is the leg of router {name}"), name)
    });
    let taken = Taken {
        router,
        leg,
        question,
    };
    Stage::Continue((router, Some(taken)))
}

/// What is not for the router stays with the host.
pub(crate) fn left_to_host<T>(cx: &mut Context<'_>, router: &RouterTable) -> Stage<T> {
    cx.end(STAGE, Verdict::ToHost, || {
        let name = &router.name;
        Found::by_router(format!("nothing for router {name}: left to the host"), name)
    })
}

/// An address that the router answers for on its leg: one of its own there, or an outside one of its nat.
fn has_address(router: &RouterTable, addr: IpAddr) -> bool {
    let Some(gateway) = &router.gateway else {
        return false;
    };
    let is_outside = |kind: &NatKind| match kind {
        NatKind::OneToOne { outside, .. } | NatKind::Source { outside, .. } => *outside == addr,
        NatKind::Forward { outside, .. } => outside.0 == addr,
    };
    let is_own = gateway.addresses.iter().any(|own| own.addr() == addr);
    is_own || gateway.nat.iter().any(|rule| is_outside(&rule.kind))
}

/// An IP packet to an address of the router, or to where it has an interface. Other neighbour discovery is the
/// host's: its kernel has neighbours of its own there.
fn is_for_router(router: &RouterTable, bytes: &[u8]) -> bool {
    let Some(destination) = destination(bytes) else {
        return false;
    };
    if is_discovery(bytes) {
        return false;
    }
    let side = match longest(router, destination).map(|route| &route.way) {
        Some(Way::Own) => return true,
        Some(Way::Connected(side)) => Some(*side),
        Some(Way::Via(hops)) => hops.first().map(|hop| hop.side),
        None => None,
    };
    matches!(side, Some(Side::Switch(_)))
}

fn destination(bytes: &[u8]) -> Option<IpAddr> {
    match EtherType(be16(bytes, IP_AT - 2)?) {
        EtherType::IPV4 => Some(Ipv4Addr::from(array::<4>(bytes, IP_AT + 16)?).into()),
        EtherType::IPV6 => Some(Ipv6Addr::from(array::<16>(bytes, IP_AT + 24)?).into()),
        _ => None,
    }
}

fn is_discovery(bytes: &[u8]) -> bool {
    be16(bytes, IP_AT - 2) == Some(EtherType::IPV6.get())
        && byte(bytes, IP_AT + 6) == Some(protocol::ICMPV6)
        && byte(bytes, IP_AT + ipv6::LEN).is_some_and(|kind| matches!(kind, 133..=137))
}
