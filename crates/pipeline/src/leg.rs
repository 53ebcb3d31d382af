//! Stages leg_in and leg_out: a gateway's device in the physical network. leg_in takes what is for the
//! router and leaves the rest to the host, which may have addresses of its own there; then `parse`, `nat`
//! and `route`. leg_out sends what was routed; the kernel's neighbours find the next hop's MAC.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{DeviceName, NatKind, RouterTable, Side, Verdict, Way};
use overlane_wire::ip::protocol;
use overlane_wire::{EtherType, Mac, ethernet, ipv6};

use crate::answer::{self, Back};
use crate::arp_nd::Question;
use crate::bytes::{array, be16, byte};
use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::parse::Frame;
use crate::{Output, Packet, route};

const STAGE: &str = "leg_in";
const IP_AT: usize = ethernet::LEN;

/// What a gateway's device is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) mac: Mac,
    /// Its largest IP packet.
    pub(crate) mtu: u32,
}

impl Default for Leg {
    fn default() -> Self {
        Self {
            mac: Mac::new([0; 6]),
            mtu: 1500,
        }
    }
}

/// A packet for the router.
pub(crate) struct Taken<'a> {
    pub(crate) router: &'a RouterTable,
    leg: Leg,
    /// For one of its addresses there.
    question: Option<Question>,
}

/// What is not for the router stays with the host.
pub(crate) fn leg_in<'a>(cx: &mut Context<'a>, device: &DeviceName) -> Stage<Taken<'a>> {
    let Some((router, leg)) = cx.host.leg(device) else {
        return cx.end(STAGE, Verdict::ToHost, || {
            format!("{device} is no router's leg")
        });
    };
    let bytes = &cx.entered.bytes;
    let mac = array::<6>(bytes, 0).map(Mac::new);
    let (is_ours, is_group) = (mac == Some(leg.mac), mac.is_some_and(Mac::is_group));
    let question = Question::of(bytes).filter(|asked| has_address(router, asked.target()));
    let is_untagged = cx.entered.tag.is_none();
    let is_asked = question.is_some() && (is_ours || is_group);
    if !is_untagged || !(is_asked || is_ours && is_for_router(router, bytes)) {
        return cx.end(STAGE, Verdict::ToHost, || {
            let name = &router.name;
            Found::by_router(format!("nothing for router {name}: left to the host"), name)
        });
    }
    cx.step(STAGE, || {
        let name = &router.name;
        Found::by_router(format!("{device} is the leg of router {name}"), name)
    });
    Stage::Continue(Taken {
        router,
        leg,
        question,
    })
}

/// Answers who asks for the router's MAC, as `arp_nd` does.
pub(crate) fn answer(
    cx: &mut Context<'_>,
    taken: &Taken<'_>,
    frame: &Frame<'_>,
    back: &Back<'_>,
) -> Stage {
    let question = taken.question.as_ref();
    let reply = question.and_then(|asked| asked.reply(frame, taken.leg.mac, true));
    let (Some(reply), Some(asked)) = (reply, question) else {
        return Stage::Continue(());
    };
    answer::give(cx, back, reply);
    cx.end("arp_nd", Verdict::Answer, || {
        let (addr, name, mac) = (asked.target(), &taken.router.name, taken.leg.mac);
        let text = format!("{addr} is router {name}: answered here with {mac}");
        Found::by_router(text, name)
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

/// An IP packet to an address of the router, or to where it has an interface. Neighbour discovery is the
/// host's: its kernel finds the next hops.
fn is_for_router(router: &RouterTable, bytes: &[u8]) -> bool {
    let Some(destination) = destination(bytes) else {
        return false;
    };
    if is_discovery(bytes) {
        return false;
    }
    let reaches = || match &route::lookup(router, destination)?.way {
        Way::Own | Way::Connected(Side::Switch(_)) => Some(()),
        Way::Connected(Side::Leg) => None,
        Way::Via(hops) => match hops.first()?.side {
            Side::Switch(_) => Some(()),
            Side::Leg => None,
        },
    };
    reaches().is_some()
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

/// Whether a frame, or its longest segment, is short enough for the leg.
pub(crate) fn fits(leg: Leg, frame: &Frame<'_>) -> bool {
    frame.segment_len - ethernet::LEN <= leg.mtu as usize
}

/// The frame leaves without Ethernet addresses.
pub(crate) fn leg_out(
    cx: &mut Context<'_>,
    router: &RouterTable,
    device: &DeviceName,
    next_hop: IpAddr,
    frame: &Frame<'_>,
) -> Stage<Verdict> {
    cx.send(Output::Leg {
        device: device.clone(),
        next_hop: Some(next_hop),
        packet: Packet {
            bytes: frame.bytes.to_vec(),
            tag: None,
            gso: frame.gso,
        },
    });
    cx.step("leg_out", || {
        Found::by_router(format!("sent out of {device} to {next_hop}"), &router.name)
    });
    Stage::Continue(Verdict::LegOut)
}
