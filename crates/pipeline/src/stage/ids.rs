//! Stage ids: the logical destination of a frame in a tunnel, where OVN's option names it. Without one (VXLAN, a peer
//! that does not know it, the key of a group) `l2_lookup` goes by the MAC. After `learn`; then `decap`.

use overlane_model::Verdict;

use crate::lib::context::{Context, Stage};
use crate::lib::destination::Destination;
use crate::lib::explain::Found;
use crate::lib::fdb::{self, Location};
use crate::lib::frame::Frame;
use crate::lib::outer::{GROUP_KEY, Tunnel};

const STAGE: &str = "ids";

pub(crate) fn ids<'a>(
    cx: &mut Context<'a>,
    tunnel: &Tunnel<'a>,
    frame: &Frame<'_>,
) -> Stage<Option<Destination<'a>>> {
    if frame.is_udp_super_packet() {
        check_whole_udp(cx, frame)?;
    }
    let (switch, key) = (tunnel.switch, tunnel.dest_key);
    let destination = match key {
        0 => return Stage::Continue(None),
        GROUP_KEY.. => {
            cx.step(STAGE, || "the Geneve option names a group: the MAC decides");
            return Stage::Continue(None);
        }
        _ => match cx.host.port_of_key(switch.id, key) {
            Some(port) => {
                cx.step(STAGE, || {
                    let name = &port.name;
                    let text = format!("the Geneve option says: key {key}, port {name}");
                    Found::by_port(text, name)
                });
                Destination::Port(port)
            }
            None => to_router(cx, tunnel, frame)?,
        },
    };
    Stage::Continue(Some(destination))
}

/// With the tunnel's mark the kernel would segment it wrongly, and no flooded copy loses it.
fn check_whole_udp(cx: &mut Context<'_>, frame: &Frame<'_>) -> Stage {
    let what = match (frame.is_plain_udp(), frame.ip_checksum_is_right()) {
        (false, _) => " with options does not come out of a tunnel whole",
        (_, false) => " whose IPv4 checksum is wrong does not come out of a tunnel whole",
        _ if !cx.host.takes_whole_udp() => " does not come out of a tunnel whole on this host",
        _ => return Stage::Continue(()),
    };
    refuse_whole_udp(cx, what)
}

/// Of where such a frame goes, by its key or by its MAC.
pub(crate) fn check_copies(
    cx: &mut Context<'_>,
    frame: &Frame<'_>,
    destination: Destination<'_>,
) -> Stage {
    match destination {
        Destination::Flood(_) if frame.is_udp_super_packet() => {
            refuse_whole_udp(cx, " comes out of a tunnel whole for one receiver only")
        }
        _ => Stage::Continue(()),
    }
}

fn refuse_whole_udp(cx: &mut Context<'_>, what: &str) -> Stage {
    cx.end(STAGE, Verdict::GsoUnsupported, || {
        format!("a UDP super-packet{what}")
    })
}

/// A router's interface has a key as ports have, and its MAC is on every host.
fn to_router<'a>(
    cx: &mut Context<'a>,
    tunnel: &Tunnel<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let (switch, asked) = (tunnel.switch, tunnel.dest_key);
    if let Some(Location {
        destination: to @ Destination::Router(ingress),
        key,
        ..
    }) = fdb::find(cx, switch, frame.destination)
        && key == asked
    {
        cx.step(STAGE, || {
            let name = &ingress.router.name;
            let text = format!("the Geneve option says: key {key}, router {name}");
            Found::by_router(text, name)
        });
        return Stage::Continue(to);
    }
    cx.end(STAGE, Verdict::UnknownPortKey, || {
        let (name, host) = (&switch.name, &cx.host.tables().host);
        let text =
            format!("the Geneve option names key {asked}, no port of switch {name} on {host}");
        Found::by_switch(text, name)
    })
}
