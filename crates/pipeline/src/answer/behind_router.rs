//! An answer to somebody behind a router, which sent the packet here: it goes the router's way back, as
//! `route` would send it.

use overlane_model::{Gateway, GatewayPlace, NextHop, RouterTable, Side, SwitchTable, Way};

use crate::bytes::put;
use crate::context::Context;
use crate::l2_lookup::{self, Location};
use crate::parse::Frame;
use crate::route;

/// Where it leaves this host.
pub(super) struct WayBack<'a, 'f> {
    pub(super) switch: &'a SwitchTable,
    /// Of who sends it.
    pub(super) key: u16,
    pub(super) frame: Frame<'f>,
    pub(super) at: Option<Location<'a>>,
}

/// By the router's leg only over the gateway's host; never by a second router.
pub(super) fn way<'a, 'f>(
    cx: &Context<'a>,
    switch: &SwitchTable,
    router: &RouterTable,
    frame: Frame<'f>,
) -> Option<WayBack<'a, 'f>> {
    let host = cx.host;
    let destination = frame.ip?.destination;
    let next = match &route::lookup(router, destination)?.way {
        Way::Own => return None,
        Way::Connected(side) => NextHop {
            addr: destination,
            side: *side,
        },
        Way::Via(hops) => route::choose(hops, frame.flow_hash)?,
    };
    match next.side {
        Side::Leg => {
            let Some(Gateway {
                place: GatewayPlace::Remote(remote),
                ..
            }) = router.gateway
            else {
                return None;
            };
            let switch = host.switch(switch.id)?;
            Some(WayBack {
                switch,
                key: l2_lookup::key_of(cx, switch, frame.source),
                frame,
                at: Some(Location::Remote {
                    remote,
                    key: route::interface_key(router, switch.id),
                }),
            })
        }
        Side::Switch(id) => {
            let neighbour = host.neighbour(id, next.addr)?;
            let mut frame = frame;
            let bytes = frame.bytes.to_mut();
            put(bytes, 0, neighbour.mac.bytes());
            put(bytes, 6, router.mac.bytes());
            (frame.source, frame.destination) = (router.mac, neighbour.mac);
            frame.tag = None;
            let switch = host.switch(id)?;
            Some(WayBack {
                switch,
                key: route::interface_key(router, id),
                at: Some(l2_lookup::locate(cx, switch, frame.destination)?),
                frame,
            })
        }
    }
}
