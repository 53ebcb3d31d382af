//! Stage ids: the logical destination of a frame in a tunnel. OVN's option names it; without one (VXLAN, or
//! a peer that does not know it) `l2_lookup` does. After `learn`; then `decap`, and `to_port`, `route` or `flood`.

use overlane_model::Verdict;

use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::flood::GROUP_KEY;
use crate::l2_lookup::{self, Destination, Location, Place};
use crate::parse::Frame;
use crate::tunnel::Tunnel;

const STAGE: &str = "ids";

pub(crate) fn ids<'a>(
    cx: &mut Context<'a>,
    tunnel: &Tunnel<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    // With the tunnel's mark the kernel would segment it wrongly, and no flooded copy loses it.
    let is_whole_udp = frame.is_udp_super_packet();
    if is_whole_udp && !frame.is_plain_udp() {
        return cx.end(
            STAGE,
            Verdict::GsoUnsupported,
            || "a UDP super-packet with options does not come out of a tunnel whole",
        );
    }
    if is_whole_udp && !frame.ip_checksum_is_right() {
        return cx.end(
            STAGE,
            Verdict::GsoUnsupported,
            || "a UDP super-packet whose IPv4 checksum is wrong does not come out of a tunnel whole",
        );
    }
    if is_whole_udp && !cx.host.takes_whole_udp() {
        return cx.end(
            STAGE,
            Verdict::GsoUnsupported,
            || "a UDP super-packet does not come out of a tunnel whole on this host",
        );
    }
    let destination = destination(cx, tunnel, frame)?;
    if is_whole_udp && matches!(destination, Destination::Flood) {
        return cx.end(
            STAGE,
            Verdict::GsoUnsupported,
            || "a UDP super-packet comes out of a tunnel whole for one receiver only",
        );
    }
    Stage::Continue(destination)
}

fn destination<'a>(
    cx: &mut Context<'a>,
    tunnel: &Tunnel<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let (switch, key) = (tunnel.switch, tunnel.dest_key);
    match key {
        0 => l2_lookup::from_underlay(cx, switch, frame),
        GROUP_KEY.. => {
            cx.step(STAGE, || "the Geneve option says: everybody");
            Stage::Continue(Destination::Flood)
        }
        _ => match cx.host.port_of_key(switch.id, key) {
            Some(port) => {
                cx.step(STAGE, || {
                    let name = &port.name;
                    Found::by_port(
                        format!("the Geneve option says: key {key}, port {name}"),
                        name,
                    )
                });
                Stage::Continue(Destination::Place(Place::Port(port)))
            }
            None => to_router(cx, tunnel, frame),
        },
    }
}

/// A router's interface has a key as ports have, and its MAC is on every host.
fn to_router<'a>(
    cx: &mut Context<'a>,
    tunnel: &Tunnel<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let (switch, key, mac) = (tunnel.switch, tunnel.dest_key, frame.destination);
    let at = l2_lookup::locate(cx, switch, mac);
    if let Some(Location::Router(router)) = at
        && l2_lookup::key_of(cx, switch, mac) == key
    {
        cx.step(STAGE, || {
            let name = &router.name;
            Found::by_router(
                format!("the Geneve option says: key {key}, router {name}"),
                name,
            )
        });
        return Stage::Continue(Destination::Router(router));
    }
    cx.end(STAGE, Verdict::UnknownPortKey, || {
        let (name, host) = (&switch.name, &cx.host.tables().host);
        let text = format!("the Geneve option names key {key}, no port of switch {name} on {host}");
        Found::by_switch(text, name)
    })
}
