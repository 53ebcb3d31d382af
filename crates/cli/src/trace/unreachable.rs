//! No way leads to an address: a guest that asks for it gets no answer, so its packet never leaves. A result, as a
//! drop is one. Used by [`stations`](super::stations), where the packet's destination MAC is looked for.

use std::net::IpAddr;

use overlane_model::{Fabric, Name, Port};
use overlane_wire::Mac;
use serde_json::{Value, json};

use super::neighbour;
use crate::places::Places;

/// The name of the result, where others have a verdict's.
pub(super) const UNREACHABLE: &str = "unreachable";

/// An address to which nothing leads from a port.
#[derive(Debug)]
pub(crate) struct Unreachable {
    pub(crate) why: String,
    /// Who may have the address all the same, and what helps.
    not_known: Option<String>,
    /// The switch of the port that sends.
    switch: Name,
    host: Name,
}

/// Who answers a guest that asks for an address which neither a port nor a router of its switch has.
pub(super) fn answerer(fabric: &Fabric, from: &Port, address: IpAddr) -> Result<Mac, Unreachable> {
    if let Some(port) = neighbour::allowed(fabric, &from.switch, address) {
        return Ok(port.mac);
    }
    let switch = &from.switch;
    let elsewhere = owner(fabric, address);
    let vlan = fabric.switches().get(switch).and_then(|it| it.id.vlan());
    let (why, not_known) = match (elsewhere, vlan) {
        (None, Some(_)) => return Ok(neighbour::made_up(fabric, address)),
        (Some(owner), vlan) => (
            format!("{owner} has {address}, and no router of switch {switch} leads there"),
            vlan.map(|vlan| {
                format!(
                    "whether VLAN {vlan} leads to {address} outside the fabric. To follow the packet, add `eth.dst`."
                )
            }),
        ),
        (None, None) => (
            format!("no port of switch {switch} has {address}, and no router there leads to it"),
            None,
        ),
    };
    Err(Unreachable {
        why,
        not_known: not_known.or_else(|| neighbour::may_have(fabric, switch, address)),
        switch: switch.clone(),
        host: from.host.clone(),
    })
}

/// Who has an address on another switch, or on a leg.
fn owner(fabric: &Fabric, address: IpAddr) -> Option<String> {
    let mut ports = fabric.ports().values();
    if let Some(port) = ports.find(|port| port.addresses.contains(&address)) {
        return Some(format!("port {} of switch {}", port.name, port.switch));
    }
    let mut routers = fabric.routers().values();
    let router = routers.find(|router| {
        let switches = router.interfaces.iter().flat_map(|it| &it.addresses);
        let leg = router.gateway.iter().flat_map(|it| &it.addresses);
        switches.chain(leg).any(|own| own.addr() == address)
    });
    router.map(|router| format!("router {}", router.name))
}

impl Unreachable {
    /// For people, without the packet's first line.
    pub(super) fn not_known(&self) -> Option<String> {
        let not_known = self.not_known.as_ref();
        not_known.map(|text| format!("\nnot known: {text}"))
    }

    /// The last line.
    pub(super) fn verdict(&self, places: &Places<'_>) -> String {
        let line = places.fabric.switches().get(&self.switch);
        let line = line.map_or_else(String::new, |it| format!(" ({})", places.line(it.line)));
        format!("{UNREACHABLE}: {}{line}", self.why)
    }

    /// As an entry of `--json`: there is no packet, and no hook saw one.
    pub(super) fn json(&self, places: &Places<'_>) -> Value {
        let by = overlane_pipeline::By::Switch(self.switch.clone());
        json!({
            "number": 1, "at_ns": 0, "cut": false, "packet": null, "hop": null,
            "result": {
                "verdict": UNREACHABLE, "drop": false, "host": self.host.to_string(), "hook": null, "stage": null,
                "found": self.why, "not_known": self.not_known, "by": places.thing(&by), "receivers": [], "ends": []
            }
        })
    }
}
