//! Who a packet is from and for: what the user gave, names of ports replaced by what is meant of them, and what
//! follows from the fabric. Used by [`build`](super::build).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{Name, Port, Router};
use overlane_wire::Mac;

use super::build::Build;
use super::error::{PacketError, did_you_mean};
use super::expression::Of;
use super::fields::Takes;
use super::transport;
use super::unreachable::answerer;

/// A station in the physical network: locally administered, in nobody's way.
const OUTSIDE: Mac = Mac::new([0x02, 0, 0, 0xff, 0xff, 0xfe]);

/// Who sends the packet.
#[derive(Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// A logical port.
    Port(&'a Port),
    /// Somebody in the physical network, to the leg of this router: it has the router's MAC, as the file does not
    /// say the device's.
    Outside(&'a Router),
}

impl<'a> Sender<'a> {
    fn mac(self) -> Mac {
        match self {
            Self::Port(port) => port.mac,
            Self::Outside(_) => OUTSIDE,
        }
    }

    pub(super) fn addresses(self) -> &'a [IpAddr] {
        match self {
            Self::Port(port) => &port.addresses,
            Self::Outside(_) => &[],
        }
    }

    fn switch(self) -> Option<&'a Name> {
        match self {
            Self::Port(port) => Some(&port.switch),
            Self::Outside(_) => None,
        }
    }

    /// Why it has no address of a family.
    pub(super) fn no_address(self, family: &str) -> String {
        match self {
            Self::Port(port) => format!("port {} has no {family} address in the fabric", port.name),
            Self::Outside(_) => "the fabric does not know who sends from outside".to_owned(),
        }
    }
}

impl<'a> Build<'a> {
    pub(super) fn source_mac(&self) -> Result<Mac, PacketError> {
        Ok(self.given_mac("eth.src")?.unwrap_or(self.sender.mac()))
    }

    /// The port's first IPv6 address, or its link-local one.
    pub(super) fn own_ip6(&self) -> Ipv6Addr {
        first_ip6(self.sender.addresses()).unwrap_or(self.sender.mac().link_local())
    }

    /// Link-local to link-local, else the port's first address.
    pub(super) fn source_ip6(&self, destination: Ipv6Addr) -> Result<Ipv6Addr, PacketError> {
        if let Some(address) = self.given_ip6("ip6.src")? {
            return Ok(address);
        }
        let link_local = self.source_mac()?.link_local();
        if destination.is_unicast_link_local() {
            return Ok(link_local);
        }
        match (first_ip6(self.sender.addresses()), self.sender) {
            (Some(address), _) => Ok(address),
            (None, Sender::Port(_)) => Ok(link_local),
            (None, Sender::Outside(_)) => Err(PacketError::Missing {
                field: "ip6.src",
                why: self.sender.no_address("IPv6"),
                help: "add ip6.src".to_owned(),
            }),
        }
    }

    /// Where a packet for this address goes on Ethernet.
    pub(super) fn mac_of(&self, address: IpAddr) -> Result<Mac, PacketError> {
        if let Some(mac) = transport::group_mac(address) {
            return Ok(mac);
        }
        let port = match self.sender {
            Sender::Port(port) => port,
            Sender::Outside(router) => return Ok(router.mac),
        };
        let owns = |port: &&Port| {
            port.addresses.contains(&address) || IpAddr::V6(port.mac.link_local()) == address
        };
        let owner = self.neighbours().find(owns).map(|port| port.mac);
        owner
            .or_else(|| self.router_for(address))
            .map_or_else(|| answerer(self.fabric, port, address), Ok)
            .map_err(|unreachable| PacketError::Unreachable(Box::new(unreachable)))
    }

    /// The MAC of a router of the switch: the one whose address it is; else, for an address that is not
    /// on the switch itself, the first that has an address of its family there.
    fn router_for(&self, address: IpAddr) -> Option<Mac> {
        let routers = || {
            let routers = self.fabric.routers().values();
            routers.filter_map(|router| {
                let mut interfaces = router.interfaces.iter();
                let here =
                    interfaces.find(|interface| Some(&interface.switch) == self.sender.switch())?;
                Some((router, &here.addresses))
            })
        };
        let own = routers().find(|(router, networks)| {
            let mut networks = networks.iter();
            IpAddr::V6(router.link_local()) == address
                || networks.any(|network| network.addr() == address)
        });
        let is_on_the_switch = routers().any(|(_, networks)| {
            let mut networks = networks.iter();
            networks.any(|network| network.contains(&address))
        });
        let way_out = routers()
            .filter(|_| !is_on_the_switch)
            .find(|(_, networks)| {
                let mut networks = networks.iter();
                networks.any(|network| network.addr().is_ipv4() == address.is_ipv4())
            });
        own.or(way_out).map(|(router, _)| router.mac)
    }

    /// The ports of the same switch, this one included.
    fn neighbours(&self) -> impl Iterator<Item = &'a Port> {
        let switch = self.sender.switch();
        let ports = self.fabric.ports().values();
        ports.filter(move |port| Some(&port.switch) == switch)
    }

    pub(super) fn owner_of_mac(&self, mac: Mac) -> Option<&'a Port> {
        self.neighbours().find(|port| port.mac == mac)
    }

    pub(super) fn given_mac(&self, field: &'static str) -> Result<Option<Mac>, PacketError> {
        self.given(field, self.wish.station(field), Takes::Station, |port| {
            Some(port.mac)
        })
    }

    pub(super) fn given_ip4(&self, field: &'static str) -> Result<Option<Ipv4Addr>, PacketError> {
        self.given(field, self.wish.ip4(field), Takes::Ip4, |port| {
            first_ip4(&port.addresses)
        })
    }

    pub(super) fn given_ip6(&self, field: &'static str) -> Result<Option<Ipv6Addr>, PacketError> {
        self.given(field, self.wish.ip6(field), Takes::Ip6, |port| {
            first_ip6(&port.addresses)
        })
    }

    /// What the user gave, the name of a port replaced by what is meant of it.
    fn given<T: Copy>(
        &self,
        field: &'static str,
        value: Option<&Of<T>>,
        takes: Takes,
        of_port: impl Fn(&Port) -> Option<T>,
    ) -> Result<Option<T>, PacketError> {
        let name = match value {
            None => return Ok(None),
            Some(Of::Given(value)) => return Ok(Some(*value)),
            Some(Of::Port(name)) => name,
        };
        let ports = self.fabric.ports();
        let found = ports.get(name);
        if let Some(value) = found.and_then(of_port) {
            return Ok(Some(value));
        }
        let help = match found {
            Some(_) => Some(format!("port {name} has no such address in the fabric")),
            None => did_you_mean(name.as_str(), ports.keys().map(Name::as_str)),
        };
        Err(PacketError::Value {
            field,
            value: name.to_string(),
            allowed: takes.describe(),
            help,
        })
    }
}

pub(super) fn first_ip4(addresses: &[IpAddr]) -> Option<Ipv4Addr> {
    addresses.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

pub(super) fn first_ip6(addresses: &[IpAddr]) -> Option<Ipv6Addr> {
    addresses.iter().find_map(|address| match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(*address),
    })
}
