//! Where a frame goes: what the stages decide, and `leave` carries out.

use std::borrow::Cow;
use std::net::IpAddr;

use overlane_model::{
    DeviceName, PortTable, Route, RouterTable, Side, SwitchId, SwitchTable, VlanId, Way,
};
use overlane_wire::Vni;

use crate::lib::frame::Frame;
use crate::lib::next_hop::{interface_on, longest};

/// A frame that is about to leave, and where it goes.
pub(crate) struct Departure<'f, 'a> {
    /// Borrowed while nothing of it is written anew.
    pub(crate) frame: Cow<'f, Frame<'a>>,
    /// Key of the port, or of the last router's interface, that it comes from; 0: not known.
    pub(crate) source_key: u16,
    pub(crate) destination: Destination<'a>,
}

/// Where a frame goes.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// To this port of this host.
    Port(&'a PortTable),
    /// In a tunnel to another host.
    Remote {
        vni: Vni,
        /// VTEP.
        remote: IpAddr,
        /// Of the logical port; 0: not known.
        key: u16,
        /// For a router there, which does not send UDP super-packets on.
        cuts_udp: bool,
    },
    /// Plain, by the uplink, with this tag.
    Vlan(VlanId),
    /// By a gateway's leg, into the physical network.
    Leg {
        router: &'a RouterTable,
        device: &'a DeviceName,
        /// `None`: an answer, or a question.
        next_hop: Option<IpAddr>,
    },
    /// To every port of the switch; not from the underlay, also to every remote that has some.
    Flood(&'a SwitchTable),
    /// An answer to a router, to every other host that may route into the switch.
    Hosts(&'a SwitchTable),
    /// `route` decides on.
    Router(Ingress<'a>),
    /// Back to the port that it came by, with the tag of what it answers.
    Sender(&'a PortTable),
}

/// A router, and where a packet comes to it.
#[derive(Clone, Copy)]
pub(crate) struct Ingress<'a> {
    pub(crate) router: &'a RouterTable,
    /// `None`: by the gateway's leg.
    pub(crate) switch: Option<&'a SwitchTable>,
}

impl<'f, 'a> Departure<'f, 'a> {
    pub(crate) fn new(frame: &'f Frame<'a>, source_key: u16, destination: Destination<'a>) -> Self {
        Self {
            frame: Cow::Borrowed(frame),
            source_key,
            destination,
        }
    }
}

impl Destination<'_> {
    /// No UDP super-packet goes there whole.
    pub(crate) fn cutting_udp(mut self) -> Self {
        if let Self::Remote { cuts_udp, .. } = &mut self {
            *cuts_udp = true;
        }
        self
    }

    /// To another host, in this switch.
    pub(crate) fn elsewhere(switch: SwitchId, remote: IpAddr, key: u16) -> Self {
        match switch {
            SwitchId::Vlan(vlan) => Self::Vlan(vlan),
            SwitchId::Vni(vni) => Self::Remote {
                vni,
                remote,
                key,
                cuts_udp: false,
            },
        }
    }
}

impl Ingress<'_> {
    /// The router's own link-local address on the interface that the packet came in by.
    pub(crate) fn has_link_local(&self, addr: IpAddr) -> bool {
        let interface = self
            .switch
            .and_then(|switch| interface_on(self.router, switch.id));
        interface.is_some_and(|interface| interface.link_local.map(IpAddr::V6) == Some(addr))
    }

    /// The router's errors for a sender come from its address in the sender's network on that interface, else from its
    /// first one of the family there.
    pub(crate) fn address_for(&self, sender: IpAddr) -> Option<IpAddr> {
        let side = self.switch.map_or(Side::Leg, |it| Side::Switch(it.id));
        let is_there = |route: &&Route| route.way == Way::Connected(side);
        match longest(self.router, sender).filter(is_there) {
            Some(_) => self.router.address_beside(side, sender),
            None => self.address(sender.is_ipv4()),
        }
    }

    /// Its first address of a family on that interface.
    pub(crate) fn address(&self, is_v4: bool) -> Option<IpAddr> {
        let addresses = match self.switch {
            None => &self.router.gateway.as_ref()?.addresses,
            Some(switch) => &interface_on(self.router, switch.id)?.addresses,
        };
        let mut addresses = addresses.iter().map(|network| network.addr());
        addresses.find(|addr| addr.is_ipv4() == is_v4)
    }
}
