//! The virtual hosts of one network: what a [`Setting`] says, in namespaces and cables.
//!
//! ```text
//!  guest1          host1                      host2          guest2
//!  eth0 ──── port0   uplink ════════════ uplink   port0 ──── eth0       two hosts
//!  eth0 ──── port0   uplink ═╗        ╔═ uplink   port0 ──── eth0       more: a bridge in the namespace
//!  eth0 ──── port1           ╚underlay╬═ uplink   port0 ──── eth0       `underlay`; further pairs
//!  eth0 ──── port0   host1   port1 ──── eth0                            one host: no underlay
//!  eth0 ──── port0   uplink ═════════════════════════════════ eth0      a bare tester
//!  eth0 ──── port0   uplink ════════════ uplink   leg0  ═════ eth0      a gateway and a physical host
//!  eth0 ═════════════════════════════════════════════════════ eth0      `direct`: a cable a pair
//!                 machine0           machine0   port0 ──── eth0         a machine that moves, and who talks to it
//!                  link0 ════════════ link0                             its memory goes here, and over link1
//! ```
//!
//! Each box is a network namespace, each line a veth pair; ═ is the wire whose offload is an axis. Where the guests are
//! virtual machines, ── is a relay between two TAPs, and so is the cable of `direct`.
//! All senders are on host1. What joins the ports to `uplink` is the backend's business. Numbers and
//! addresses are said by [`layout`], how a namespace is set by [`node`].

mod addresses;
mod build;
mod footing;
pub(crate) mod layout;
mod node;
#[cfg(test)]
mod tests;

pub(crate) use build::AGEING_SECONDS;
pub(crate) use layout::Network;
pub(crate) use node::Node;

use crate::error::LabError;
use crate::relay::{CpuTime, Relay};
use overlane_analysis::record::{BackendName, FarEnd, GuestKind, Hop, Setting};
use overlane_analysis::study::limits::MAX_LINKS;
use overlane_net::netns;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

pub(crate) const UPLINK: &str = "uplink";
/// The device of the second host in the physical network, where that host is a gateway.
pub(crate) const LEG: &str = "leg0";
/// Which host is a gateway.
const GATEWAY: usize = 1;
/// Where the uplink of a single host ends.
const UNPLUGGED: &str = "unplugged";
/// The namespace between more than two hosts, and the bridge in it.
const UNDERLAY: &str = "underlay";
const UNDERLAY_BRIDGE: &str = "br0";

/// One device of a guest, and where its cable ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestPort {
    /// `eth0`.
    pub(crate) device: String,
    /// The tags that its frames have; empty: none.
    pub(crate) vlans: Vec<u16>,
    /// The networks that it is in, one a tag, in their order.
    pub(crate) networks: Range<u32>,
    /// The other end on the guest's host, `port0`; with `direct` and with a tester the peer's.
    pub(crate) host_device: String,
}

/// A guest.
pub(crate) struct Guest {
    pub(crate) node: Node,
    /// Of all its devices.
    pub(crate) mac: [u8; 6],
    /// Of its first device.
    pub(crate) address: IpAddr,
    pub(crate) ports: Vec<GuestPort>,
    /// The host that its cables end at; `None` with `direct`, and for a tester.
    pub(crate) host: Option<usize>,
    /// It is a physical host behind a gateway: its cable is the gateway's leg, and no port.
    pub(crate) is_physical: bool,
    /// It is a machine that moves: its port is a TAP on each host, and `node` the host that it starts on.
    pub(crate) is_machine: bool,
    /// Between its devices and their other ends, where it is a virtual machine. That of a `direct` cable is the
    /// sender's.
    relay: Option<Relay>,
    /// Where its frames for its partner go: the partner's MAC, or its router's.
    pub(crate) next_mac: [u8; 6],
}

/// One network at a guest: a device, and the tag that the network has on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane<'a> {
    pub(crate) device: &'a str,
    pub(crate) vlan: Option<u16>,
    /// Index of the network.
    pub(crate) network: u32,
}

impl Guest {
    /// Its networks, in their order.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane<'_>> {
        self.ports.iter().flat_map(|port| {
            let networks = port.networks.clone().enumerate();
            networks.map(|(number, network)| Lane {
                device: &port.device,
                vlan: port.vlans.get(number).copied(),
                network,
            })
        })
    }
}

/// Two guests that talk to each other.
pub(crate) struct Pair {
    pub(crate) sender: Guest,
    pub(crate) receiver: Guest,
}

impl Pair {
    /// The networks of both, as each of them has it.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (Lane<'_>, Lane<'_>)> {
        self.sender.lanes().zip(self.receiver.lanes())
    }

    /// Frames of one of them have tags, which the sockets of a guest's kernel do not.
    pub(crate) fn is_tagged(&self) -> bool {
        let mut ports = self.sender.ports.iter().chain(&self.receiver.ports);
        ports.any(|port| !port.vlans.is_empty())
    }
}

/// A device on the path between sending and receiving programs.
pub(crate) struct PathDevice<'a> {
    pub(crate) node: &'a Node,
    pub(crate) device: String,
    /// `host1 uplink`.
    pub(crate) name: String,
}

/// How the guests' packets have to look on the underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// There is no underlay: the guests' own cable.
    NoUnderlay,
    /// As the guests sent them.
    Plain,
    /// With an 802.1Q tag of the network's VLAN, in no tunnel.
    Vlan,
    /// VXLAN with the VNI of the network.
    Vxlan,
    /// Geneve with the VNI of the network; with `ovn` OVN's option too.
    Geneve { ovn: bool },
}

/// The namespaces of one network, joined.
pub(crate) struct Topology {
    pub(crate) backend: BackendName,
    /// 1 for the second of a network that is measured against itself.
    pub(crate) copy: u8,
    pub(crate) setting: Setting,
    pub(crate) pairs: Vec<Pair>,
    /// Empty with `direct`.
    pub(crate) hosts: Vec<Node>,
    /// The switch between more than two hosts.
    underlay: Option<Node>,
    /// Those that the backend adds, with their host counted from 0.
    pub(crate) devices: Vec<(usize, String)>,
}

impl Topology {
    /// What tells this topology from the others that are up with it.
    pub(crate) fn label(&self) -> String {
        layout::label(self.backend, self.copy, &self.setting)
    }

    /// MTU of the guests' devices.
    pub(crate) fn guest_mtu(&self) -> u32 {
        self.setting.mtu_class.guest_mtu(self.backend)
    }

    /// The networks, as the backends number them.
    pub(crate) fn networks(&self) -> impl Iterator<Item = Network> + use<'_> {
        (0..self.setting.networks()).map(|index| Network::of(&self.setting, index))
    }

    /// A host's underlay address.
    pub(crate) fn host_address(&self, host: usize) -> IpAddr {
        layout::host_address(self.setting.underlay, host)
    }

    /// The prefix of the hosts' underlay addresses.
    pub(crate) fn underlay_prefix(&self) -> u8 {
        layout::prefix(self.setting.underlay)
    }

    /// The hosts that a host exchanges guests' packets with: senders are on the first, receivers on the
    /// others. A star has no loops, so bridges need no more.
    pub(crate) fn peers(&self, host: usize) -> Vec<usize> {
        match host {
            0 => (1..self.hosts.len()).collect(),
            _ => vec![0],
        }
    }

    /// The other end of the uplinks is a bare tester.
    pub(crate) fn has_tester(&self) -> bool {
        self.setting.far_end == FarEnd::Tester && !self.hosts.is_empty()
    }

    /// Packets leave the first host: there is something to capture.
    pub(crate) fn has_underlay(&self) -> bool {
        self.hosts.len() > 1 || self.has_tester()
    }

    /// Every guest with the number that its address ends in.
    pub(crate) fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.pairs
            .iter()
            .flat_map(|pair| [&pair.sender, &pair.receiver])
    }

    /// A guest's cables are relays between TAPs.
    pub(crate) fn is_relayed(&self, guest: &Guest) -> bool {
        let is_port = !guest.is_physical && (guest.host.is_some() || self.hosts.is_empty());
        self.setting.guests == GuestKind::Tap && is_port
    }

    /// An error when a relay has ended: what was measured meanwhile is no figure.
    pub(crate) fn look_after_relays(&self) -> Result<(), LabError> {
        let mut relays = self.guests().filter_map(|guest| guest.relay.as_ref());
        relays.try_for_each(Relay::look_after)
    }

    /// CPU time of the relays; an error when one has ended.
    pub(crate) fn relay_cpu_time(&self) -> Result<CpuTime, LabError> {
        let sum = |side: fn(&Pair) -> &Guest| {
            let mut relays = self
                .pairs
                .iter()
                .filter_map(|pair| side(pair).relay.as_ref());
            relays.try_fold(None, |sum: Option<Duration>, relay| {
                Ok::<_, LabError>(Some(sum.unwrap_or_default() + relay.cpu_time()?))
            })
        };
        let (mut senders, mut receivers) = (sum(|pair| &pair.sender)?, sum(|pair| &pair.receiver)?);
        if let (Some(all), BackendName::Direct) = (senders, self.backend) {
            // One relay joins both guests of a pair.
            let mut there = Duration::ZERO;
            for Pair { sender, receiver } in &self.pairs {
                if let Some(relay) = &sender.relay {
                    there += relay.cpu_time_on(&receiver.node.cpus)?;
                }
            }
            senders = Some(all.saturating_sub(there));
            receivers = Some(there);
        }
        Ok(CpuTime { senders, receivers })
    }

    /// The guests' ports on a host; a machine that moves has one on each.
    pub(crate) fn ports_on(&self, host: usize) -> impl Iterator<Item = (&Guest, &GuestPort)> {
        let is_here = move |guest: &&Guest| guest.host == Some(host) || guest.is_machine;
        self.guests()
            .filter(move |guest| is_here(guest) && !guest.is_physical)
            .flat_map(|guest| guest.ports.iter().map(move |port| (guest, port)))
    }

    /// The cables that machines move over, by the devices at their ends; none where no machine does.
    pub(crate) fn links(&self) -> impl Iterator<Item = String> + use<> {
        let count = match self.setting.guests {
            GuestKind::Qemu => MAX_LINKS,
            GuestKind::Veth | GuestKind::Tap => 0,
        };
        (0..count).map(link_device)
    }

    /// The gateway, and its device in the physical network.
    pub(crate) fn leg(&self) -> Option<(&Node, &'static str)> {
        let has = self.setting.feature.has_gateway();
        has.then(|| self.hosts.get(GATEWAY))
            .flatten()
            .map(|host| (host, LEG))
    }

    /// The sending ends of all wires, where packets are counted; they add up: the first host's uplink; with `direct`, and with
    /// a single host, the senders' devices. (Not the receivers': a data path may pass by a host's end of
    /// their cables.)
    pub(crate) fn wires(&self) -> Vec<(&Node, &str)> {
        match self.hosts.first() {
            Some(host1) if self.has_underlay() => vec![(host1, UPLINK)],
            _ => each_port(self.pairs.iter().map(|pair| &pair.sender))
                .map(|(guest, port)| (&guest.node, port.device.as_str()))
                .collect(),
        }
    }

    /// The devices of the receiving guests, where packets arrive after all that joins them.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = (&Node, &str)> {
        each_port(self.pairs.iter().map(|pair| &pair.receiver))
            .map(|(guest, port)| (&guest.node, port.device.as_str()))
    }

    /// Every device between the sending and the receiving programs, in order, both ends of each cable, with
    /// those that the backend adds.
    pub(crate) fn path(&self) -> Vec<PathDevice<'_>> {
        let own = |host: usize| {
            self.devices
                .iter()
                .filter(move |(of, _)| *of == host)
                .map(|(_, device)| device.clone())
        };
        let mut path = Vec::new();
        let mut add = |node, device: &str| {
            path.push(PathDevice {
                node,
                device: device.to_owned(),
                name: format!("{} {device}", node.place),
            });
        };
        for (guest, port) in each_port(self.pairs.iter().map(|pair| &pair.sender)) {
            if !guest.is_machine {
                add(&guest.node, &port.device);
            }
            if let Some(host) = guest.host.and_then(|host| self.hosts.get(host)) {
                add(host, &port.host_device);
            }
        }
        for (index, host) in self.hosts.iter().enumerate() {
            if index > 0 {
                add(host, UPLINK);
            }
            own(index).for_each(|device| add(host, &device));
            self.links().for_each(|device| add(host, &device));
            if index == 0 && self.has_underlay() {
                add(host, UPLINK);
                self.underlay_devices()
                    .for_each(|(node, device)| add(node, &device));
            }
        }
        for (guest, port) in each_port(self.pairs.iter().map(|pair| &pair.receiver)) {
            if let Some(host) = guest.host.and_then(|host| self.hosts.get(host)) {
                add(host, &port.host_device);
            }
            add(&guest.node, &port.device);
        }
        path
    }

    /// Every device on the path, as it is now.
    pub(crate) fn hops(&self) -> Result<Vec<Hop>, LabError> {
        let again = if self.copy == 0 { "" } else { " (again)" };
        let topology = format!("{}{again}, {}", self.backend, self.setting);
        let is_added = |hop: &PathDevice<'_>| {
            let host = |(index, device): &(usize, String)| {
                *device == hop.device && self.hosts[*index].place == hop.node.place
            };
            self.devices.iter().any(host)
        };
        self.path()
            .iter()
            .map(|hop| {
                let (own, underlay) = (is_added(hop), self.setting.underlay);
                hop.node.hop(&topology, &hop.device, own, underlay)
            })
            .collect()
    }

    /// Deletes the namespaces and with them the devices, so that the next group begins on an empty
    /// machine. What cannot be deleted is left to the journal.
    pub(crate) fn delete(self) {
        let nodes = self.guests().map(|guest| &guest.node);
        let names: Vec<String> = nodes
            .chain(&self.hosts)
            .chain(&self.underlay)
            .map(|node| node.netns.name().to_owned())
            .collect();
        // The handles first: a namespace lives as long as one is open.
        drop(self);
        for name in names {
            let _ = netns::delete(&name);
        }
    }

    fn underlay_devices(&self) -> impl Iterator<Item = (&Node, String)> {
        let devices = |node| {
            let cables = (1..=self.hosts.len()).map(|number| format!("host{number}"));
            let bridge = std::iter::once(UNDERLAY_BRIDGE.to_owned());
            cables.chain(bridge).map(move |device| (node, device))
        };
        self.underlay.iter().flat_map(devices)
    }
}

fn link_device(number: u32) -> String {
    format!("link{number}")
}

fn each_port<'a>(
    guests: impl Iterator<Item = &'a Guest>,
) -> impl Iterator<Item = (&'a Guest, &'a GuestPort)> {
    guests.flat_map(|guest| guest.ports.iter().map(move |port| (guest, port)))
}
