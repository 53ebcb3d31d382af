//! A logical router of the [`Fabric`](crate::Fabric).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use overlane_wire::{Mac, PortKey};

use crate::fabric::Policy;
use crate::keys::Fnv1a;
use crate::names::{DeviceName, Name};
use crate::tables::{NatKind, NatRule, RouterId, SwitchId, Timeouts};

/// A logical router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Router {
    /// Its name.
    pub name: Name,
    /// Its number: derived from its name.
    pub id: RouterId,
    /// Its MAC on each of its switches: declared, or derived from its first interface.
    pub mac: Mac,
    /// Its interfaces, by switch; at least one.
    pub interfaces: Vec<Interface>,
    /// Its static routes, by network, each network once.
    pub routes: Vec<StaticRoute>,
    /// Whether a packet's source must be where the packet came from.
    pub reverse_path: ReversePath,
    /// Whether TCP that it routes is told a segment size that fits.
    pub mss_clamp: bool,
    /// Where it meets the physical network.
    pub gateway: Option<GatewayHost>,
    /// Where the file declares it.
    pub line: u32,
}

impl Router {
    /// Its address on each link where it has an IPv6 address: made from its MAC (RFC 4291 appendix A).
    pub fn link_local(&self) -> Ipv6Addr {
        self.mac.link_local()
    }

    /// Where it meets the physical network: its gateway's host and device there.
    pub fn leg(&self) -> Option<(&Name, &DeviceName)> {
        let gateway = self.gateway.as_ref()?;
        Some((&gateway.host, gateway.device.as_ref()?))
    }
}

/// The MAC of a router that declares none, by the switch with the lowest number that it is on, VNIs before VLANs, and its
/// first address there. Its name may change.
pub(crate) fn derived_mac(switch: SwitchId, address: IpAddr) -> Mac {
    let mut hash = Fnv1a::new();
    let (kind, number) = match switch {
        SwitchId::Vni(vni) => (0, vni.get()),
        SwitchId::Vlan(vlan) => (1, vlan.get().into()),
    };
    hash.add(&[kind]);
    hash.add(&number.to_be_bytes());
    hash.address(address);
    let [a, b, c, d] = hash.get().to_be_bytes();
    Mac::new([0x0e, 0x6f, a, b, c, d])
}

/// What a router asks of a packet's source (RFC 3704).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReversePath {
    /// The route to it leads out where the packet came in.
    #[default]
    Strict,
    /// Nothing but that it is not the router's own.
    Off,
}

impl ReversePath {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Strict, Self::Off];
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Strict => "strict",
            Self::Off => "off",
        })
    }
}

/// A router's place on a logical switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The switch.
    pub switch: Name,
    /// Its number there: derived from the names of router and switch.
    pub key: PortKey,
    /// Its addresses with their networks, in the order of the file; at least one.
    pub addresses: Vec<IpNet>,
    /// Where the file declares it.
    pub line: u32,
}

/// A route that the fabric declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticRoute {
    /// The network, without host bits.
    pub to: IpNet,
    /// The next routers, in order, each once; at least one.
    pub via: Vec<IpAddr>,
    /// Where the file declares it.
    pub line: u32,
}

/// Where a router meets the physical network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayHost {
    /// The host.
    pub host: Name,
    /// The leg: its device in the physical network. `None`: it only stands for the router before those who
    /// do not route themselves.
    pub device: Option<DeviceName>,
    /// The router's addresses on the leg with their networks, in the order of the file. None without a leg.
    pub addresses: Vec<IpNet>,
    /// What is translated, in the order of the file.
    pub nat: Vec<NatRule>,
    /// What becomes of packets that no rule translates.
    pub untranslated: Policy,
    /// The most translations at a time, if it is said.
    pub connections: Option<u32>,
    /// How long they live without a packet.
    pub timeouts: Timeouts,
    /// Where the file declares it.
    pub line: u32,
}

impl NatKind {
    /// What is translated; of a forwarded port its address.
    pub fn inside(&self) -> IpNet {
        match *self {
            Self::OneToOne { inside, .. } => inside.into(),
            Self::Forward {
                inside: (inside, _),
                ..
            } => inside.into(),
            Self::Source { inside, .. } => inside,
        }
    }

    /// The address in the physical network.
    pub fn outside(&self) -> IpAddr {
        match *self {
            Self::OneToOne { outside, .. } | Self::Source { outside, .. } => outside,
            Self::Forward {
                outside: (outside, _),
                ..
            } => outside,
        }
    }
}
