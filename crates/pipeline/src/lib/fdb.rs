//! Where a MAC address of a switch is: by the fabric's FDB, or by what was learned.

use overlane_model::{Name, Place, SwitchId, SwitchTable};
use overlane_wire::Mac;

use crate::lib::context::Context;
use crate::lib::destination::{Destination, Ingress};
use crate::lib::state::{Learned, LearnedPlace};

/// Where an address is.
pub(crate) struct Location<'a> {
    pub(crate) destination: Destination<'a>,
    /// Of the port or router that has it; 0: not known.
    pub(crate) key: u16,
    /// The fabric's port, or the router; `None`: learned.
    pub(crate) port: Option<&'a Name>,
}

/// Where an answer or a question goes: on a VLAN the physical network may know who is not found.
pub(crate) fn receiver<'a>(
    cx: &Context<'a>,
    switch: &'a SwitchTable,
    mac: Mac,
) -> Option<Destination<'a>> {
    let found = find(cx, switch, mac).map(|found| found.destination);
    match (found, switch.id) {
        (None, SwitchId::Vlan(vlan)) => Some(Destination::Vlan(vlan)),
        (found, _) => found,
    }
}

/// The fabric's FDB first, then what was learned and still holds.
pub(crate) fn find<'a>(
    cx: &Context<'a>,
    switch: &'a SwitchTable,
    mac: Mac,
) -> Option<Location<'a>> {
    let host = cx.host;
    let behind_uplink = || match switch.id {
        SwitchId::Vlan(vlan) => Some(Destination::Vlan(vlan)),
        SwitchId::Vni(_) => None,
    };
    if let Some(entry) = host.fdb_entry(switch.id, mac) {
        let key = entry.key.get();
        let destination = match &entry.place {
            Place::Local(at) => Destination::Port(host.port_at(at)?),
            Place::Remote(remote) => Destination::elsewhere(switch.id, *remote, key),
            Place::Vlan => behind_uplink()?,
            Place::Router(router) => Destination::Router(Ingress {
                router: host.router(*router)?,
                switch: Some(switch),
            }),
        };
        let port = Some(&entry.port);
        return Some(Location {
            destination,
            key,
            port,
        });
    }
    let learned = learned(cx, switch, mac)?;
    let destination = match &learned.place {
        LearnedPlace::Port(at) => Destination::Port(host.port_at(at)?),
        LearnedPlace::Remote(remote) => Destination::elsewhere(switch.id, *remote, learned.key),
        LearnedPlace::Vlan => behind_uplink()?,
    };
    Some(Location {
        destination,
        key: learned.key,
        port: None,
    })
}

/// Where a learned address is, while that is still true.
pub(crate) fn learned<'s>(
    cx: &'s Context<'_>,
    switch: &SwitchTable,
    mac: Mac,
) -> Option<&'s Learned> {
    switch.learn_age_s?;
    let learned = cx.state.learned.get(&(switch.id, mac))?;
    let holds = !learned.is_old(cx.now_ns)
        && match &learned.place {
            LearnedPlace::Port(at) => cx.host.port_at(at).is_some_and(|port| {
                let is_learned_there = match cx.host.floating_mac(switch.id, mac) {
                    Some(_) => port.allowed_macs.contains(&mac),
                    None => port.learning.is_some(),
                };
                port.switch == switch.id && port.key.get() == learned.key && is_learned_there
            }),
            LearnedPlace::Remote(remote) => cx.host.remote(*remote).is_some(),
            LearnedPlace::Vlan => true,
        };
    holds.then_some(learned)
}
