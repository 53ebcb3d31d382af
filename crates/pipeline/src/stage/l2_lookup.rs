//! Stage l2_lookup: which port, remote or router has the destination address, by the fabric's FDB or by what was
//! learned. A frame from the underlay never goes back to it, unless it is routed; a routed one is never flooded.

use overlane_model::{SwitchId, SwitchTable, Verdict};
use overlane_wire::Mac;

use crate::lib::context::{Context, Stage};
use crate::lib::destination::{Destination, Ingress};
use crate::lib::explain::Found;
use crate::lib::fdb::{Location, find};
use crate::lib::host::Host;

const STAGE: &str = "l2_lookup";

pub(crate) fn l2_lookup<'a>(
    cx: &mut Context<'a>,
    switch: &'a SwitchTable,
    mac: Mac,
) -> Stage<Destination<'a>> {
    let is_routed = cx.routed > 0;
    if mac.is_group() && !is_routed {
        let is_from_underlay = cx.is_from_underlay();
        cx.step(STAGE, || match is_from_underlay {
            true => format!("{mac} is a group address: every port here gets it"),
            false => format!("{mac} is a group address: everybody gets it"),
        });
        return Stage::Continue(Destination::Flood(switch));
    }
    let Some(known) = find(cx, switch, mac) else {
        return unknown(cx, switch, mac);
    };
    let source = cx.source_port().filter(|_| !is_routed);
    match (known.destination, source) {
        (Destination::Port(port), Some(source)) if port.attachment == source.attachment => {
            return cx.end(STAGE, Verdict::Hairpin, || {
                let name = &source.name;
                let text = format!("{mac} is at port {name}, where the frame came from");
                Found::by_port(text, name)
            });
        }
        (Destination::Remote { .. } | Destination::Vlan(_), _) if cx.is_from_underlay() => {
            return cx.end(STAGE, Verdict::UnknownUnicast, || {
                let found = explain(cx.host, mac, &known);
                found.and(", and what came from the underlay never goes back to it")
            });
        }
        _ => {}
    }
    cx.step(STAGE, || explain(cx.host, mac, &known));
    Stage::Continue(known.destination)
}

/// Nobody has the address.
fn unknown<'a>(cx: &mut Context<'a>, switch: &'a SwitchTable, mac: Mac) -> Stage<Destination<'a>> {
    let (name, is_routed) = (&switch.name, cx.routed > 0);
    let destination = match switch.id {
        _ if switch.flood_unknown && !is_routed => Destination::Flood(switch),
        SwitchId::Vlan(vlan) if !cx.is_from_underlay() => Destination::Vlan(vlan),
        _ => {
            return cx.end(STAGE, Verdict::UnknownUnicast, || {
                let more = match is_routed {
                    true => "",
                    false => ", and it does not flood what is unknown",
                };
                Found::by_switch(format!("no port of switch {name} has {mac}{more}"), name)
            });
        }
    };
    cx.step(STAGE, || {
        let who = match destination {
            Destination::Vlan(vlan) => format!(": the network behind VLAN {vlan} may know it"),
            _ => format!(", and switch {name} floods what is unknown"),
        };
        Found::by_switch(format!("no port has {mac}{who}"), name)
    });
    Stage::Continue(destination)
}

fn explain(host: &Host, mac: Mac, known: &Location<'_>) -> Found {
    let mut behind = None;
    let place = match known.destination {
        Destination::Router(Ingress { router, .. }) => {
            let name = &router.name;
            return Found::by_router(format!("{mac} is router {name}"), name);
        }
        Destination::Port(port) => format!("on this host ({})", port.attachment),
        Destination::Remote { remote, .. } => {
            behind = host.remote(remote).map(|remote| &remote.name);
            match behind {
                Some(name) => format!("on host {name} ({remote})"),
                None => format!("behind {remote}"),
            }
        }
        _ => "on another host, behind the uplink".to_owned(),
    };
    match (known.port, known.destination, behind) {
        (Some(port), ..) => Found::by_port(format!("{mac} is at port {port} {place}"), port),
        (None, Destination::Port(port), _) => {
            let name = &port.name;
            Found::by_port(format!("{mac} was learned at port {name} {place}"), name)
        }
        (None, _, Some(name)) => Found::by_host(format!("{mac} was learned {place}"), name),
        (None, ..) => format!("{mac} was learned {place}").into(),
    }
}
