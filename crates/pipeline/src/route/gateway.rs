//! The ways to the physical network: to the gateway's host, and there out of the leg.

use std::net::IpAddr;

use overlane_model::{SwitchId, Verdict};
use overlane_wire::{Mac, ethernet};

use super::{At, Hop, Ingress, STAGE, header, interface_key, leave, refuse};
use crate::answer::{Answer, BackTo};
use crate::context::{Context, Stage};
use crate::encap::Origin;
use crate::explain::Found;
use crate::l2_lookup::Place;
use crate::parse::Frame;
use crate::{leg, nat};

/// Only the gateway host has the leg. It gets the frame as it came here.
pub(super) fn to_gateway<'a>(
    cx: &mut Context<'a>,
    at: &At<'_, 'a>,
    frame: &Frame<'_>,
    remote: IpAddr,
) -> Stage<Hop<'a>> {
    let name = &at.router.name;
    let (switch, key, is_routed) = match at.from {
        Ingress::Switch {
            switch,
            key,
            is_routed,
        } => (switch, key, is_routed),
        Ingress::Leg => {
            return cx.end(
                STAGE,
                Verdict::NotConfigured,
                || "a leg without its gateway",
            );
        }
    };
    if !is_routed && matches!(at.back.to, BackTo::Underlay(_)) {
        return cx.end(STAGE, Verdict::UnknownUnicast, || {
            let text = "the gateway is elsewhere, and what came from the underlay never goes back";
            Found::by_router(text.to_owned(), name)
        });
    }
    cx.step(STAGE, || {
        let text = format!("router {name} leaves this network at its gateway ({remote})");
        Found::by_router(text, name)
    });
    let place = match switch.id {
        SwitchId::Vlan(vlan) => Place::Uplink(vlan),
        SwitchId::Vni(_) => Place::Remote {
            remote,
            key: interface_key(at.router, switch.id),
        },
    };
    let origin = Origin {
        switch: switch.id,
        key,
    };
    leave(cx, at, origin, frame, &place, &at.back)
}

/// Into the physical network.
pub(super) fn by_leg<'a>(
    cx: &mut Context<'a>,
    at: &At<'_, 'a>,
    frame: &Frame<'_>,
    next_hop: IpAddr,
) -> Stage<Hop<'a>> {
    let Some(device) = at.router.leg() else {
        return refuse(
            cx,
            at,
            Verdict::NoRoute,
            Answer::NO_ROUTE,
            || "its gateway has no leg",
        );
    };
    let leg = cx
        .host
        .leg(device)
        .map_or_else(Default::default, |(_, leg)| leg);
    if !leg::fits(leg, frame) {
        let (len, mtu) = (frame.segment_len - ethernet::LEN, leg.mtu);
        let answer = Answer::too_big(mtu as usize);
        return refuse(cx, at, Verdict::PktTooBig, answer, || {
            format!("{len} bytes do not fit the MTU of {device}, {mtu}")
        });
    }
    let none = Mac::new([0; 6]);
    let frame = nat::out(cx, at.router, frame)?;
    let frame = header::forwarded(&frame, none, none);
    let verdict = leg::leg_out(cx, at.router, device, next_hop, &frame)?;
    Stage::Continue(Hop::Left(verdict))
}
