//! The routers that a host knows: those with an interface on a logical switch of this host, and those
//! for which it acts. `docs/semantics.md`, route and nat, says what the data path does with them.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use overlane_wire::{Mac, PortKey};
use serde::{Deserialize, Serialize};

use crate::keys::Fnv1a;
use crate::names::{DeviceName, Name};
use crate::tables::{SwitchId, Timeouts};

/// The number of a router in the maps of the data path: 1 to 16 777 215, derived from its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct RouterId(u32);

impl RouterId {
    /// The highest: a connection's key has a bit above it.
    pub const MAX: u32 = (1 << 24) - 1;

    /// The number, if it is one.
    pub const fn new(number: u32) -> Option<Self> {
        match number {
            1..=Self::MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for RouterId {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        Self::new(number).ok_or_else(|| format!("{number} is no router number: 1 to {}", Self::MAX))
    }
}

impl From<RouterId> for u32 {
    fn from(id: RouterId) -> Self {
        id.get()
    }
}

impl fmt::Display for RouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A logical router.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RouterTable {
    /// Its name in the fabric.
    pub name: Name,
    /// Its number.
    pub id: RouterId,
    /// Its MAC: on each of its switches, on every host.
    pub mac: Mac,
    /// Its interfaces, by switch.
    pub interfaces: Vec<RouterInterface>,
    /// Its routes, by prefix; each prefix once. Its own addresses and connected networks are among them.
    pub routes: Vec<Route>,
    /// A packet's source must be where the packet came from.
    pub reverse_path: bool,
    /// TCP that it routes is told a segment size that fits.
    pub mss_clamp: bool,
    /// Where it meets the physical network: by a leg, or by VLANs only.
    pub gateway: Option<Gateway>,
}

impl RouterTable {
    /// Whether this host is its acting one.
    pub fn is_gateway_here(&self) -> bool {
        let gateway = self.gateway.as_ref();
        gateway.is_some_and(|gateway| matches!(gateway.place, GatewayPlace::Here { .. }))
    }

    /// Its own address in the longest network of a neighbour on one of its sides, the first in the file. `None`: the
    /// address is in no network there.
    pub fn address_beside(&self, side: Side, neighbour: IpAddr) -> Option<IpAddr> {
        let around = self.addresses_on(side).iter();
        let around = around.filter(|it| it.contains(&neighbour));
        let longest = around.min_by_key(|it| Reverse(it.prefix_len()));
        longest.map(IpNet::addr)
    }

    /// Its own address in one of its networks on a side, the first in the file.
    pub fn address_in(&self, side: Side, network: IpNet) -> Option<IpAddr> {
        let mut addresses = self.addresses_on(side).iter();
        let own = addresses.find(|it| it.trunc() == network);
        own.map(IpNet::addr)
    }

    fn addresses_on(&self, side: Side) -> &[IpNet] {
        let addresses = match side {
            Side::Switch(id) => {
                let interface = self.interfaces.iter().find(|it| it.switch == id);
                interface.map(|interface| &interface.addresses)
            }
            Side::Leg => self.gateway.as_ref().map(|gateway| &gateway.addresses),
        };
        addresses.map_or(&[], Vec::as_slice)
    }

    /// The VTEP of its acting host, when that is another one.
    pub fn acting_elsewhere(&self) -> Option<IpAddr> {
        match self.gateway.as_ref()?.place {
            GatewayPlace::Remote(vtep) => Some(vtep),
            GatewayPlace::Here { .. } => None,
        }
    }

    /// Its gateway's device in the physical network, when that is on this host.
    pub fn leg(&self) -> Option<&DeviceName> {
        match &self.gateway.as_ref()?.place {
            GatewayPlace::Here { leg } => leg.as_ref(),
            GatewayPlace::Remote(_) => None,
        }
    }
}

/// A router's place on a logical switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RouterInterface {
    /// The switch.
    pub switch: SwitchId,
    /// Its number there, as ports have one.
    pub key: PortKey,
    /// Its addresses with their networks, in the order of the file.
    pub addresses: Vec<IpNet>,
    /// The link-local address made from the router's MAC, where it has an IPv6 address.
    pub link_local: Option<Ipv6Addr>,
}

/// Where packets to a network go.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Route {
    /// The network, without host bits.
    pub to: IpNet,
    /// The way.
    pub way: Way,
    /// It lies inside a block of special addresses, and so leads to them.
    pub names_special: bool,
    /// Its line in the fabric file.
    pub line: u32,
}

/// A way out of a router.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The router's own address.
    Own,
    /// The network is there.
    Connected(Side),
    /// By one of these, chosen by the flow's hash; at least one.
    Via(Vec<NextHop>),
}

/// The next router.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NextHop {
    /// Its address.
    pub addr: IpAddr,
    /// Where it is.
    pub side: Side,
}

/// What a router is attached to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// A logical switch.
    Switch(SwitchId),
    /// The physical network behind the gateway's leg.
    Leg,
}

/// A router's gateway. One with an interface on a VLAN has it also where the fabric file names none.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Gateway {
    /// The router's acting host: alone it sends by the leg, and alone onto VLANs.
    pub host: Name,
    /// Seen from this host.
    pub place: GatewayPlace,
    /// The router's addresses on the leg with their networks; empty without a leg.
    pub addresses: Vec<IpNet>,
    /// What is translated, in the order of the file. Empty where the gateway is elsewhere.
    pub nat: Vec<NatRule>,
    /// What no rule translates is dropped.
    pub drop_untranslated: bool,
    /// The most translations at a time.
    pub connections: u32,
    /// How long they live without a packet.
    pub timeouts: Timeouts,
}

impl Gateway {
    /// The most translations at a time, if nothing else is said.
    pub const CONNECTIONS: u32 = 262_144;

    /// A hash over all that decides what is translated, and to what.
    pub fn nat_version(&self) -> u32 {
        let mut hash = Fnv1a::new();
        hash.add(&[u8::from(self.drop_untranslated)]);
        for rule in &self.nat {
            rule.kind.add_to(&mut hash);
        }
        hash.get().max(1)
    }
}

/// Where a gateway is, seen from this host.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayPlace {
    /// On this host.
    Here {
        /// The leg: its device in the physical network.
        leg: Option<DeviceName>,
    },
    /// Behind this VTEP.
    Remote(IpAddr),
}

/// What a gateway translates.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct NatRule {
    /// How.
    pub kind: NatKind,
    /// Its line in the fabric file.
    pub line: u32,
}

/// How a gateway translates.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NatKind {
    /// One address for one, both ways, ports unchanged.
    OneToOne {
        /// In the overlay.
        inside: IpAddr,
        /// In the physical network.
        outside: IpAddr,
    },
    /// What comes to a port outside goes to one inside.
    Forward {
        /// TCP, UDP or SCTP.
        protocol: u8,
        /// In the physical network.
        outside: (IpAddr, u16),
        /// In the overlay.
        inside: (IpAddr, u16),
    },
    /// A network shares an address.
    Source {
        /// In the overlay.
        inside: IpNet,
        /// In the physical network.
        outside: IpAddr,
        /// Outside ports.
        ports: RangeInclusive<u16>,
    },
}

impl NatKind {
    /// Ports of a [`Source`](Self::Source) that names none.
    pub const PORTS: RangeInclusive<u16> = 1024..=65535;

    fn add_to(&self, hash: &mut Fnv1a) {
        match self {
            Self::OneToOne { inside, outside } => {
                hash.add(&[0]);
                hash.address(*inside);
                hash.address(*outside);
            }
            Self::Forward {
                protocol,
                outside,
                inside,
            } => {
                hash.add(&[1, *protocol]);
                for (address, port) in [outside, inside] {
                    hash.address(*address);
                    hash.add(&port.to_be_bytes());
                }
            }
            Self::Source {
                inside,
                outside,
                ports,
            } => {
                hash.add(&[2, inside.prefix_len()]);
                hash.address(inside.addr());
                hash.address(*outside);
                hash.add(&ports.start().to_be_bytes());
                hash.add(&ports.end().to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_has_a_number_of_24_bits() {
        let is_one = |number| RouterId::new(number).is_some();
        assert!(is_one(1) && is_one(0xff_ffff));
        assert!(!is_one(0) && !is_one(0x100_0000));
    }

    #[test]
    fn its_number_is_written_in_decimal() {
        assert_eq!(RouterId::new(4097).unwrap().to_string(), "4097");
    }
}
