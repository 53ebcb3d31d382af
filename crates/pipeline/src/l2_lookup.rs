//! Stage l2_lookup: which port or remote has the destination address, by the fabric's FDB or by what was
//! learned. From a port after `arp_nd`, from the underlay after `ids` or `parse`. Then `to_port`, `encap`,
//! `vlan_out` or `flood`.

use std::net::IpAddr;

use overlane_model::{Name, Place, PortTable, SwitchId, SwitchTable, Verdict, VlanId};
use overlane_wire::Mac;

use crate::context::{Context, Stage};
use crate::explain::Found;
use crate::learn;
use crate::parse::Frame;
use crate::port::Source;
use crate::state::LearnedPlace;

const STAGE: &str = "l2_lookup";

/// Where a frame from a port goes.
pub(crate) enum Destination<'a> {
    /// To every port of the switch.
    Flood,
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
enum Location<'a> {
    Here(&'a PortTable),
    Remote { remote: IpAddr, key: u16 },
    Vlan,
}

/// How that is known.
struct Known<'a> {
    at: Location<'a>,
    /// The fabric's port; `None`: learned.
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
    cx.step(STAGE, || explain(cx.host, mac, &known));
    Stage::Continue(match (known.at, switch.id) {
        (Location::Here(port), _) => Destination::Port(port),
        (_, SwitchId::Vlan(vlan)) => Destination::Uplink(vlan),
        (Location::Remote { remote, key }, SwitchId::Vni(_)) => Destination::Remote { remote, key },
        // A place of switches on a VLAN only.
        (Location::Vlan, SwitchId::Vni(_)) => return unknown(cx, switch, mac),
    })
}

/// A frame from the underlay never goes back to it. `None`: flood it here.
pub(crate) fn from_underlay<'a>(
    cx: &mut Context<'a>,
    switch: &SwitchTable,
    frame: &Frame<'_>,
) -> Stage<Option<&'a PortTable>> {
    let mac = frame.destination;
    if mac.is_group() {
        cx.step(STAGE, || {
            format!("{mac} is a group address: every port here gets it")
        });
        return Stage::Continue(None);
    }
    let known = find(cx, switch, mac);
    match known {
        Some(known) => match known.at {
            Location::Here(port) => {
                cx.step(STAGE, || explain(cx.host, mac, &known));
                Stage::Continue(Some(port))
            }
            _ => cx.end(STAGE, Verdict::UnknownUnicast, || {
                let found = explain(cx.host, mac, &known);
                found.and(", and what came from the underlay never goes back to it")
            }),
        },
        None if switch.flood_unknown => {
            cx.step(STAGE, || flooded(switch, mac));
            Stage::Continue(None)
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
        SwitchId::Vlan(vlan) => {
            cx.step(STAGE, || {
                let text = format!("no port has {mac}: the network behind VLAN {vlan} may know it");
                Found::by_switch(text, &switch.name)
            });
            Stage::Continue(Destination::Uplink(vlan))
        }
    }
}

/// The fabric's FDB first, then what was learned and still holds.
fn find<'a>(cx: &Context<'a>, switch: &SwitchTable, mac: Mac) -> Option<Known<'a>> {
    let host = cx.host;
    if let Some(entry) = host.fdb_entry(switch.id, mac) {
        let key = entry.key.get();
        let at = match &entry.place {
            Place::Local(at) => Location::Here(host.port_at(at)?),
            Place::Remote(remote) => Location::Remote {
                remote: *remote,
                key,
            },
            Place::Vlan => Location::Vlan,
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
    let place = match known.at {
        Location::Here(port) => format!("on this host ({})", port.attachment),
        Location::Remote { remote, .. } => match name_of(remote) {
            Some(name) => format!("on host {name} ({remote})"),
            None => format!("behind {remote}"),
        },
        Location::Vlan => "on another host, behind the uplink".to_owned(),
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
        (None, Location::Vlan) => format!("{mac} was learned {place}").into(),
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
