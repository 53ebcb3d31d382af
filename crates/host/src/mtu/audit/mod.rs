//! What is set wrongly, in each of the places where MTUs must agree. Pure: the same fabric and the same facts have the
//! same findings. `tests/mtu_mistakes.json` has a mistake for each of them.

mod guests;
mod places;
mod underlay;

use std::collections::BTreeMap;
use std::fmt;

use overlane_model::mtu::{self, Direction, SwitchRoom};
use overlane_model::{Fabric, Name};
use serde::{Deserialize, Serialize};

use super::facts::HostFacts;

/// Something that is set wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// How bad it is.
    pub severity: Severity,
    /// On which host of the fabric; none: on several.
    pub host: Option<String>,
    /// The thing: a device, a port, a switch, a router, a way.
    pub what: String,
    /// What is wrong with it.
    pub says: String,
    /// What to do.
    pub remedy: String,
}

/// The places where MTUs must agree, from the wire to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Switches, routers and cables between tunnel end points.
    PhysicalSwitches,
    /// The tunnel end point: the uplink, what lies below it, its routes.
    Vtep,
    /// The logical switch: ports' devices, and devices that `apply` made.
    VirtualSwitch,
    /// Logical routers and their legs.
    Routers,
    /// Guests.
    Guests,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Packets are lost, or will be.
    Wrong,
    /// All packets arrive, but there are more of them than need be.
    Wasteful,
}

impl Place {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::PhysicalSwitches => "physical switches",
            Self::Vtep => "VTEP",
            Self::VirtualSwitch => "virtual switch",
            Self::Routers => "routers",
            Self::Guests => "guests",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wrong => "wrong",
            Self::Wasteful => "wasteful",
        })
    }
}

/// Judges the facts of some hosts of a fabric. `underlay`: what the physical network carries, if somebody knows.
pub fn audit(fabric: &Fabric, facts: &[HostFacts], underlay: Option<u32>) -> Vec<Finding> {
    let view = View::new(fabric, facts, underlay);
    let mut findings = Vec::new();
    underlay::uplinks(&view, &mut findings);
    underlay::paths(&view, &mut findings);
    underlay::too_small(&view, &mut findings);
    places::helpers(&view, &mut findings);
    places::port_devices(&view, &mut findings);
    places::legs(&view, &mut findings);
    guests::guests(&view, &mut findings);
    findings.sort_by_key(|finding| (finding.severity, finding.place));
    findings
}

/// The fabric, what is known of its hosts, and what follows from both.
struct View<'a> {
    fabric: &'a Fabric,
    hosts: BTreeMap<&'a str, &'a HostFacts>,
    underlay: Option<u32>,
    directions: Vec<Direction>,
    rooms: Vec<SwitchRoom>,
}

impl<'a> View<'a> {
    fn new(fabric: &'a Fabric, facts: &'a [HostFacts], underlay: Option<u32>) -> Self {
        let known = facts.iter().map(|host| (host.host.as_str(), host));
        let mut view = Self {
            fabric,
            hosts: known.collect(),
            underlay,
            directions: mtu::directions(fabric),
            rooms: Vec::new(),
        };
        // A host of which nothing is known does not make a path smaller.
        let uplink = |host: &Name| view.uplink(host.as_str()).unwrap_or(u32::MAX);
        view.rooms = mtu::switch_rooms(fabric, &uplink);
        view
    }

    /// The largest packet that a host sends into the underlay; none: nothing is known of it.
    fn uplink(&self, host: &str) -> Option<u32> {
        let uplink = self.hosts.get(host).and_then(|host| host.uplink.as_ref());
        let mtu = uplink.map(|uplink| uplink.mtu.min(mtu::IP_MOST));
        let at_apply = uplink.and_then(|uplink| uplink.mtu_at_apply);
        [mtu, at_apply, self.underlay].into_iter().flatten().min()
    }

    /// The largest packet of a switch's guests; none: it stays on one host, or nothing is known of its hosts.
    fn room(&self, switch: &str) -> Option<(&SwitchRoom, u32)> {
        let mut rooms = self.rooms.iter();
        let room = rooms.find(|room| room.switch.as_str() == switch)?;
        let fits = room.guest_mtu.filter(|mtu| *mtu <= mtu::IP_MOST)?;
        Some((room, fits))
    }

    /// Whether two hosts speak to each other in tunnels.
    fn are_joined(&self, from: &str, to: &str) -> bool {
        let mut directions = self.directions.iter();
        directions.any(|it| it.from.as_str() == from && it.to.as_str() == to)
    }

    /// Whether guests of a switch have IPv6 addresses of their own.
    fn has_ipv6(&self, switch: &str) -> bool {
        let ports = self.fabric.ports().values();
        let mut addresses = ports
            .filter(|port| port.switch.as_str() == switch)
            .flat_map(|port| &port.addresses);
        let routers = self.fabric.routers().values();
        let mut networks = routers
            .flat_map(|router| &router.interfaces)
            .filter(|interface| interface.switch.as_str() == switch)
            .flat_map(|interface| &interface.addresses);
        addresses.any(|address| mtu::is_routed_ipv6(*address))
            || networks.any(|network| mtu::is_routed_ipv6(network.addr()))
    }
}

impl HostFacts {
    /// How to give a device an MTU, from this host's shell.
    fn set_mtu(&self, device: &str, mtu: u32) -> String {
        let host = &self.host;
        match &self.netns {
            Some(netns) => format!("on {host}: ip -n {netns} link set {device} mtu {mtu}"),
            None => format!("on {host}: ip link set {device} mtu {mtu}"),
        }
    }
}

/// `web1, web2 and 5 more`
fn listed<T: fmt::Display>(names: &[T]) -> String {
    const NAMED: usize = 3;
    let named = names.iter().take(NAMED).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
