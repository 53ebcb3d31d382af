//! Where an answer goes: back to the device that the packet came by, from the underlay into the switch, as if the
//! packet's destination had sent it.

use overlane_model::{RouterTable, Side, SwitchTable};

use crate::lib::context::{Context, Sender};
use crate::lib::destination::Destination;
use crate::lib::frame::{self, Frame};
use crate::lib::{fdb, found, next_hop};

/// With the key of who sends it; 0: not known.
type ReplyDestination<'a> = (u16, Destination<'a>);

/// `None`: nobody knows its receiver.
pub(crate) fn of_reply<'a>(
    cx: &Context<'a>,
    frame: &mut Frame<'_>,
) -> Option<ReplyDestination<'a>> {
    let destination = match cx.sender? {
        Sender::Underlay(switch) => return into_switch(cx, switch, frame),
        Sender::Port(port) => Destination::Sender(port),
        Sender::Leg(router) => Destination::Leg {
            router,
            device: router.leg()?,
            next_hop: None,
        },
    };
    Some((0, destination))
}

fn into_switch<'a>(
    cx: &Context<'a>,
    switch: &'a SwitchTable,
    frame: &mut Frame<'_>,
) -> Option<ReplyDestination<'a>> {
    let sender = fdb::find(cx, switch, frame.source);
    let sender_key = sender.map_or(0, |found| found.key);
    match fdb::receiver(cx, switch, frame.destination)? {
        Destination::Router(ingress) => {
            behind_router(cx, switch, ingress.router, frame, sender_key)
        }
        destination => Some((sender_key, destination)),
    }
}

/// Its receiver is behind a router, which sent the packet here: the answer goes its way back, as `route` would send
/// it, to the router's acting host where only that one sends there, or has to ask; never by a second router.
fn behind_router<'a>(
    cx: &Context<'a>,
    switch: &SwitchTable,
    router: &RouterTable,
    frame: &mut Frame<'_>,
    sender_key: u16,
) -> Option<ReplyDestination<'a>> {
    let (_, next) = next_hop::find(router, frame.ip?.destination, frame.flow_hash)?;
    let next = next?;
    let to_acting_host = |remote| {
        let key = next_hop::interface_key(router, switch.id);
        Some((sender_key, Destination::elsewhere(switch.id, remote, key)))
    };
    if let Some(remote) = next_hop::acting_host(cx.host, router, &next) {
        return to_acting_host(remote);
    }
    let Side::Switch(id) = next.side else {
        return None;
    };
    let there = cx.host.switch(id)?;
    let Some(mac) = found::known_mac(cx, id, next.addr) else {
        let acting = router.acting_elsewhere().filter(|_| there.asks)?;
        return to_acting_host(acting);
    };
    frame::readdress(frame, router.mac, mac);
    match fdb::receiver(cx, there, mac)? {
        Destination::Router(_) => None,
        there => Some((next_hop::interface_key(router, id), there)),
    }
}
