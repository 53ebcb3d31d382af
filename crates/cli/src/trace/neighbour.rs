//! Who answers a router that asks for an address which no port declares (NEIGH-11), as far as the fabric file says it.
//! Used by [`walk`](super::walk), which goes on as if the answer had come.

use std::net::IpAddr;

use overlane_model::{Fabric, Name, Port, Security, SwitchId};
use overlane_pipeline::{NeighbourId, RouterSide, Step};
use overlane_wire::Mac;

/// How many ports a sentence names.
const MOST_NAMED: usize = 3;

/// An answer to a router that a trace takes for granted.
pub(crate) struct Assumed {
    /// What the router did first.
    pub(crate) question: Option<Step>,
    /// Who answers,
    pub(crate) addr: IpAddr,
    /// with which MAC.
    pub(crate) mac: Mac,
    /// Whose MAC it is; `None`: of somebody in the physical network, and made up.
    pub(crate) port: Option<Name>,
}

/// Who answers.
#[derive(Clone, Copy)]
pub(crate) enum Answerer<'f> {
    Port(&'f Port),
    /// Somebody in the physical network, with a MAC that nobody declares.
    Outside(Mac),
}

impl<'f> Answerer<'f> {
    /// The error is what is not known, and what helps.
    pub(crate) fn of(fabric: &'f Fabric, (side, addr): NeighbourId) -> Result<Self, String> {
        let outside = || Self::Outside(made_up(fabric, addr));
        let RouterSide::Switch(id) = side else {
            return Ok(outside());
        };
        let mut switches = fabric.switches().values();
        let Some(switch) = switches.find(|switch| switch.id == id) else {
            return Err(format!("who has {addr}: its switch is not in the file."));
        };
        match (allowed(fabric, &switch.name, addr), id) {
            (Some(port), _) => Ok(Self::Port(port)),
            (None, SwitchId::Vlan(_)) => Ok(outside()),
            (None, SwitchId::Vni(_)) => Err(not_known(fabric, &switch.name, addr)),
        }
    }

    pub(crate) fn mac(self) -> Mac {
        match self {
            Self::Port(port) => port.mac,
            Self::Outside(mac) => mac,
        }
    }

    pub(crate) fn port(self) -> Option<&'f Port> {
        match self {
            Self::Port(port) => Some(port),
            Self::Outside(_) => None,
        }
    }
}

/// Locally administered, with the end of the address in it, and nobody's by the file.
pub(super) fn made_up(fabric: &Fabric, addr: IpAddr) -> Mac {
    let octets = match addr {
        IpAddr::V4(addr) => addr.to_bits(),
        IpAddr::V6(addr) => addr.to_bits() as u32,
    };
    let mac = |offset| {
        let [a, b, c, d] = octets.wrapping_add(offset).to_be_bytes();
        Mac::new([0x02, 0xff, a, b, c, d])
    };
    let is_declared = |mac: &Mac| {
        let mut ports = fabric.ports().values();
        let mut routers = fabric.routers().values();
        ports.any(|port| port.mac == *mac || port.allowed_macs.contains(mac))
            || routers.any(|router| router.mac == *mac)
    };
    let mut free = (0..u32::MAX).map(mac).filter(|mac| !is_declared(mac));
    free.next().unwrap_or(mac(0))
}

fn ports<'f>(fabric: &'f Fabric, switch: &Name) -> impl Iterator<Item = &'f Port> {
    let ports = fabric.ports().values();
    ports.filter(move |port| port.switch == *switch)
}

/// The first port of the file that may have the address beside its own ones. A floating address is of those alone that
/// list it.
pub(super) fn allowed<'f>(fabric: &'f Fabric, switch: &Name, addr: IpAddr) -> Option<&'f Port> {
    let first = |is_single: bool| {
        let has_address = |port: &&Port| {
            let mut networks = port.allowed_addresses.iter();
            networks.any(|network| {
                let is_network = network.prefix_len() < network.max_prefix_len();
                network.contains(&addr) && !(is_single && is_network)
            })
        };
        let ports = ports(fabric, switch).filter(has_address);
        ports.min_by_key(|port| port.line)
    };
    first(true).or_else(|| first(false))
}

fn not_known(fabric: &Fabric, switch: &Name, addr: IpAddr) -> String {
    may_have(fabric, switch, addr).unwrap_or_else(|| {
        format!(
            "who has {addr}: no port of switch {switch} may use it. Add it to `addresses` or `allowed_addresses` of its \
             port."
        )
    })
}

/// Ports that may have an address which none of them lists, and what helps; `None`: there are none.
pub(super) fn may_have(fabric: &Fabric, switch: &Name, addr: IpAddr) -> Option<String> {
    let free = ports(fabric, switch).filter(|port| may_have_any(port));
    let free: Vec<&str> = free.map(|port| port.name.as_str()).collect();
    let named = free.iter().take(MOST_NAMED).copied();
    let named = named.collect::<Vec<_>>().join(", ");
    let names = match free.len() {
        0 => return None,
        1 => format!("port {named}"),
        number if number <= MOST_NAMED => format!("ports {named}"),
        number => format!("ports {named} and {} more", number - MOST_NAMED),
    };
    Some(format!(
        "who has {addr}: {names} of switch {switch} may use any address. To follow the packet, add the address to \
         `allowed_addresses` of the port that has it, in a copy of the file."
    ))
}

/// Nobody compares its addresses with the file's.
fn may_have_any(port: &Port) -> bool {
    let has_addresses = !port.addresses.is_empty() || !port.allowed_addresses.is_empty();
    port.security != Security::Strict || !has_addresses
}
