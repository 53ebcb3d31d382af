//! Stage l2_lookup: which port or remote has the destination address, by the fabric's FDB or by what was
//! learned. From a port after `arp_nd`, from the underlay after `ids` or `parse`. Then `to_port`, `encap`,
//! `vlan_out`, `route` or `flood`.

use std::net::IpAddr;

use overlane_model::{
    Name, Place as FdbPlace, PortTable, RouterTable, SwitchId, SwitchTable, Verdict, VlanId,
};
use overlane_wire::Mac;

use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::learn;
use crate::parse::Frame;
use crate::port::Source;
use crate::state::LearnedPlace;

const STAGE: &str = "l2_lookup";

/// Where a frame goes.
pub(crate) enum Destination<'a> {
    /// To every port of the switch; from the underlay, to those of this host.
    Flood,
    /// To one place.
    Place(Place<'a>),
    /// To this router.
    Router(&'a RouterTable),
}

/// Where a frame for one receiver leaves.
pub(crate) enum Place<'a> {
    /// To a port of this host.
    Port(&'a PortTable),
    /// In a tunnel.
    Remote {
        /// VTEP.
        remote: IpAddr,
        /// Of the logical port; 0: not known.
        key: u16,
    },
    /// Plain, with this tag on the uplink.
    Uplink(VlanId),
}

/// Where an address is.
pub(crate) enum Location<'a> {
    /// At a port of this host.
    Here(&'a PortTable),
    /// On another host.
    Remote {
        /// VTEP.
        remote: IpAddr,
        /// Of the logical port; 0: not known.
        key: u16,
    },
    /// Behind the uplink.
    Vlan,
    /// On every host.
    Router(&'a RouterTable),
}

/// How that is known.
struct Known<'a> {
    at: Location<'a>,
    /// The fabric's port, or the router; `None`: learned.
    port: Option<&'a Name>,
}

pub(crate) fn from_port<'a>(
    cx: &mut Context<'a>,
    source: &Source<'a>,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let (switch, mac) = (source.switch, frame.destination);
    if mac.is_group() {
        cx.step(STAGE, || {
            format!("{mac} is a group address: everybody gets it")
        });
        return Stage::Continue(Destination::Flood);
    }
    let Some(known) = find(cx, switch, mac) else {
        return unknown(cx, switch, mac);
    };
    if matches!(known.at, Location::Here(port) if port.attachment == source.port.attachment) {
        return cx.end(STAGE, Verdict::Hairpin, || {
            let name = &source.port.name;
            Found::by_port(
                format!("{mac} is at port {name}, where the frame came from"),
                name,
            )
        });
    }
    towards(cx, switch, mac, known)
}

/// Where a routed frame goes: it may come back to the port that it came from, and is never flooded.
pub(crate) fn from_router<'a>(
    cx: &mut Context<'a>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let mac = frame.destination;
    match (find(cx, switch, mac), switch.id) {
        (Some(known), _) => towards(cx, switch, mac, known),
        (None, SwitchId::Vni(_)) => cx.end(STAGE, Verdict::UnknownUnicast, || {
            let name = &switch.name;
            Found::by_switch(format!("no port of switch {name} has {mac}"), name)
        }),
        (None, SwitchId::Vlan(vlan)) => Stage::Continue(behind_vlan(cx, switch, mac, vlan)),
    }
}

/// The way to a known address.
fn towards<'a>(
    cx: &mut Context<'a>,
    switch: &SwitchTable,
    mac: Mac,
    known: Known<'a>,
) -> Stage<Destination<'a>> {
    cx.step(STAGE, || explain(cx.host, mac, &known));
    Stage::Continue(Destination::Place(match (known.at, switch.id) {
        (Location::Router(router), _) => return Stage::Continue(Destination::Router(router)),
        (Location::Here(port), _) => Place::Port(port),
        (_, SwitchId::Vlan(vlan)) => Place::Uplink(vlan),
        (Location::Remote { remote, key }, SwitchId::Vni(_)) => Place::Remote { remote, key },
        // A place of switches on a VLAN only.
        (Location::Vlan, SwitchId::Vni(_)) => return unknown(cx, switch, mac),
    }))
}

/// Where an address is, if somebody has it.
pub(crate) fn locate<'a>(cx: &Context<'a>, switch: &SwitchTable, mac: Mac) -> Option<Location<'a>> {
    find(cx, switch, mac).map(|known| known.at)
}

/// The key of the port or router that has an address; 0: nobody knows it.
pub(crate) fn key_of(cx: &Context<'_>, switch: &SwitchTable, mac: Mac) -> u16 {
    if let Some(entry) = cx.host.fdb_entry(switch.id, mac) {
        return entry.key.get();
    }
    learn::find(cx, switch, mac).map_or(0, |learned| learned.key)
}

/// A frame from the underlay never goes back to it, unless it is routed.
pub(crate) fn from_underlay<'a>(
    cx: &mut Context<'a>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Stage<Destination<'a>> {
    let mac = frame.destination;
    if mac.is_group() {
        cx.step(STAGE, || {
            format!("{mac} is a group address: every port here gets it")
        });
        return Stage::Continue(Destination::Flood);
    }
    let known = find(cx, switch, mac);
    match known {
        Some(known) => match known.at {
            Location::Here(port) => {
                cx.step(STAGE, || explain(cx.host, mac, &known));
                Stage::Continue(Destination::Place(Place::Port(port)))
            }
            Location::Router(router) => {
                cx.step(STAGE, || explain(cx.host, mac, &known));
                Stage::Continue(Destination::Router(router))
            }
            _ => cx.end(STAGE, Verdict::UnknownUnicast, || {
                let found = explain(cx.host, mac, &known);
                found.and(", and what came from the underlay never goes back to it")
            }),
        },
        None if switch.flood_unknown => {
            cx.step(STAGE, || flooded(switch, mac));
            Stage::Continue(Destination::Flood)
        }
        None => cx.end(STAGE, Verdict::UnknownUnicast, || nobody(switch, mac)),
    }
}

/// Nobody has the address.
fn unknown<'a>(cx: &mut Context<'a>, switch: &SwitchTable, mac: Mac) -> Stage<Destination<'a>> {
    if switch.flood_unknown {
        cx.step(STAGE, || flooded(switch, mac));
        return Stage::Continue(Destination::Flood);
    }
    match switch.id {
        SwitchId::Vni(_) => cx.end(STAGE, Verdict::UnknownUnicast, || nobody(switch, mac)),
        SwitchId::Vlan(vlan) => Stage::Continue(behind_vlan(cx, switch, mac, vlan)),
    }
}

fn behind_vlan<'a>(
    cx: &mut Context<'a>,
    switch: &SwitchTable,
    mac: Mac,
    vlan: VlanId,
) -> Destination<'a> {
    cx.step(STAGE, || {
        let text = format!("no port has {mac}: the network behind VLAN {vlan} may know it");
        Found::by_switch(text, &switch.name)
    });
    Destination::Place(Place::Uplink(vlan))
}

/// The fabric's FDB first, then what was learned and still holds.
fn find<'a>(cx: &Context<'a>, switch: &SwitchTable, mac: Mac) -> Option<Known<'a>> {
    let host = cx.host;
    if let Some(entry) = host.fdb_entry(switch.id, mac) {
        let key = entry.key.get();
        let at = match &entry.place {
            FdbPlace::Local(at) => Location::Here(host.port_at(at)?),
            FdbPlace::Remote(remote) => Location::Remote {
                remote: *remote,
                key,
            },
            FdbPlace::Vlan => Location::Vlan,
            FdbPlace::Router(router) => Location::Router(host.router(*router)?),
        };
        let port = Some(&entry.port);
        return Some(Known { at, port });
    }
    let learned = learn::find(cx, switch, mac)?;
    let at = match &learned.place {
        LearnedPlace::Port(at) => Location::Here(host.port_at(at)?),
        LearnedPlace::Remote(remote) => Location::Remote {
            remote: *remote,
            key: learned.key,
        },
        LearnedPlace::Vlan => Location::Vlan,
    };
    Some(Known { at, port: None })
}

fn explain(host: &crate::Host, mac: Mac, known: &Known<'_>) -> Found {
    let name_of = |remote| host.remote(remote).map(|remote| &remote.name);
    if let Location::Router(router) = known.at {
        let name = &router.name;
        return Found::by_router(format!("{mac} is router {name}"), name);
    }
    let place = match known.at {
        Location::Here(port) => format!("on this host ({})", port.attachment),
        Location::Remote { remote, .. } => match name_of(remote) {
            Some(name) => format!("on host {name} ({remote})"),
            None => format!("behind {remote}"),
        },
        Location::Vlan | Location::Router(_) => "on another host, behind the uplink".to_owned(),
    };
    match (known.port, &known.at) {
        (Some(port), _) => Found::by_port(format!("{mac} is at port {port} {place}"), port),
        (None, Location::Here(port)) => {
            let name = &port.name;
            Found::by_port(format!("{mac} was learned at port {name} {place}"), name)
        }
        (None, Location::Remote { remote, .. }) => {
            let text = format!("{mac} was learned {place}");
            match name_of(*remote) {
                Some(name) => Found::by_host(text, name),
                None => text.into(),
            }
        }
        (None, Location::Vlan | Location::Router(_)) => format!("{mac} was learned {place}").into(),
    }
}

fn flooded(switch: &SwitchTable, mac: Mac) -> Found {
    let name = &switch.name;
    let text = format!("no port has {mac}, and switch {name} floods what is unknown");
    Found::by_switch(text, name)
}

fn nobody(switch: &SwitchTable, mac: Mac) -> Found {
    let name = &switch.name;
    let text = format!("no port of switch {name} has {mac}, and it does not flood what is unknown");
    Found::by_switch(text, name)
}
