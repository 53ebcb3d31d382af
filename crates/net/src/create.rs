//! Creating and deleting virtual devices: veth pairs, bridges, VLAN and tunnel devices. TAP devices are in
//! `tap`.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoGeneve, InfoKind, InfoVeth, InfoVlan, InfoVxlan, LinkAttribute,
    LinkInfo, LinkMessage,
};
use nix::errno::Errno;

use crate::error::NetError;
use crate::link::device_name;
use crate::netlink::Netlink;
use crate::netns::Netns;

/// Nobody else's device has this name.
const PROBE: &str = "ovl-probe";

/// A VXLAN device of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vxlan {
    /// Network identifier; none in external mode.
    pub vni: Option<u32>,
    /// External mode: the tunnel's ends come with each packet, from a program or a route.
    pub external: bool,
    /// The header has a group policy, which becomes the mark of what is received.
    pub group_policy: bool,
    /// Own outer address.
    pub local: Option<IpAddr>,
    /// The other end, or the group for broadcast.
    pub remote: Option<IpAddr>,
    /// UDP port.
    pub port: u16,
    /// Learn inner MACs from what arrives.
    pub learning: bool,
    /// Send a UDP checksum over IPv4. The kernel sends one unless it is told not to.
    pub udp_csum: bool,
    /// Send and accept a zero UDP checksum over IPv6 (RFC 6936).
    pub udp6_zero_csum: bool,
    /// Index of the device to send through.
    pub device: Option<u32>,
}

/// A Geneve device of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geneve {
    /// Network identifier and the other end; none for external mode, where these come with each packet.
    pub to: Option<(u32, IpAddr)>,
    /// UDP port.
    pub port: u16,
    /// Send a UDP checksum over IPv4.
    pub udp_csum: bool,
    /// Send and accept a zero UDP checksum over IPv6 (RFC 6936).
    pub udp6_zero_csum: bool,
}

/// The kernel counts such times in hundredths of a second (`USER_HZ`).
const USER_HZ: u32 = 100;

impl Netlink {
    /// Creates a veth pair: `a` here, `b` here or in `b_netns`.
    pub fn add_veth(&self, a: &str, b: &str, b_netns: Option<&Netns>) -> Result<(), NetError> {
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(device_name(b)?));
        if let Some(netns) = b_netns {
            peer.attributes
                .push(LinkAttribute::NetNsFd(netns.as_fd().as_raw_fd()));
        }
        let data = InfoData::Veth(InfoVeth::Peer(peer));
        self.add(
            format!("create the veth pair {a} and {b}"),
            a,
            InfoKind::Veth,
            Some(data),
        )
    }

    /// Creates a veth pair here; `a` gets this index, which no device may have.
    pub fn add_veth_with_index(&self, a: &str, b: &str, index: u32) -> Result<(), NetError> {
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(device_name(b)?));
        let mut message = new_link(
            a,
            InfoKind::Veth,
            Some(InfoData::Veth(InfoVeth::Peer(peer))),
        )?;
        message.header.index = index;
        self.create(format!("create the veth pair {a} and {b}"), a, message)
    }

    /// Creates a veth pair whose ends have so many queues in each direction: `a` here, `b` in `b_netns`.
    pub fn add_veth_with_queues(
        &self,
        a: &str,
        b: &str,
        b_netns: &Netns,
        queues: u32,
    ) -> Result<(), NetError> {
        let queues = [
            LinkAttribute::NumTxQueues(queues),
            LinkAttribute::NumRxQueues(queues),
        ];
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(device_name(b)?));
        peer.attributes
            .push(LinkAttribute::NetNsFd(b_netns.as_fd().as_raw_fd()));
        peer.attributes.extend(queues.clone());
        let data = InfoData::Veth(InfoVeth::Peer(peer));
        let operation = format!("create the veth pair {a} and {b}");
        self.add_with(operation, a, InfoKind::Veth, Some(data), queues.to_vec())
    }

    /// Creates a bridge.
    pub fn add_bridge(&self, name: &str) -> Result<(), NetError> {
        self.add(
            String::from("create the bridge"),
            name,
            InfoKind::Bridge,
            None,
        )
    }

    /// How long a bridge remembers a station that is silent.
    pub fn set_bridge_ageing(&self, name: &str, seconds: u32) -> Result<(), NetError> {
        let ageing = InfoBridge::AgeingTime(seconds.saturating_mul(USER_HZ));
        let infos = vec![
            LinkInfo::Kind(InfoKind::Bridge),
            LinkInfo::Data(InfoData::Bridge(vec![ageing])),
        ];
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        message.attributes = vec![LinkAttribute::LinkInfo(infos)];
        // What belongs to a kind of device is changed by a NEW request for a device that exists.
        let message = RouteNetlinkMessage::NewLink(message);
        self.call(
            format!("set the ageing time to {seconds} s"),
            Some(name),
            message,
            0,
        )
        .map(drop)
    }

    /// Creates a device for one 802.1Q VLAN of another device.
    pub fn add_vlan(&self, name: &str, lower: &str, vlan: u16) -> Result<(), NetError> {
        let lower_index = self.link(lower)?.index;
        let data = InfoData::Vlan(vec![InfoVlan::Id(vlan)]);
        let operation = format!("create the device of VLAN {vlan} on {lower}");
        let below = vec![LinkAttribute::Link(lower_index)];
        self.add_with(operation, name, InfoKind::Vlan, Some(data), below)
    }

    /// Creates a Geneve device.
    pub fn add_geneve(&self, name: &str, geneve: &Geneve) -> Result<(), NetError> {
        let mut attributes = vec![
            InfoGeneve::Port(geneve.port),
            InfoGeneve::UdpCsum(geneve.udp_csum),
            InfoGeneve::UdpZeroCsum6Tx(geneve.udp6_zero_csum),
            InfoGeneve::UdpZeroCsum6Rx(geneve.udp6_zero_csum),
        ];
        match geneve.to {
            None => attributes.push(InfoGeneve::CollectMetadata),
            Some((vni, remote)) => attributes.extend([
                InfoGeneve::Id(vni),
                match remote {
                    IpAddr::V4(address) => InfoGeneve::Remote(address),
                    IpAddr::V6(address) => InfoGeneve::Remote6(address),
                },
            ]),
        }
        let data = InfoData::Geneve(attributes);
        let operation = format!("create the Geneve device on port {}", geneve.port);
        self.add(operation, name, InfoKind::Geneve, Some(data))
    }

    /// Creates a VXLAN device.
    pub fn add_vxlan(&self, name: &str, vxlan: &Vxlan) -> Result<(), NetError> {
        let data = InfoData::Vxlan(vxlan_attributes(vxlan));
        let operation = format!("create the VXLAN device on port {}", vxlan.port);
        self.add(operation, name, InfoKind::Vxlan, Some(data))
    }

    /// Whether the kernel has devices of a kind that cannot be created without parameters (`vxlan`, `geneve`).
    pub fn has_kind(&self, kind: &str) -> Result<bool, NetError> {
        let operation = format!("ask for {kind} devices");
        // It has no parameters, so a kernel that knows the kind says that they are missing.
        match self.add(operation, PROBE, InfoKind::from(kind), None) {
            Err(error) if error.is_unsupported() => Ok(false),
            Err(error) if error.errno() == Some(Errno::EINVAL as i32) => Ok(true),
            Err(error) => Err(error),
            Ok(()) => self.delete(PROBE).map(|()| true),
        }
    }

    /// Deletes a device; of a veth pair, both ends.
    pub fn delete(&self, name: &str) -> Result<(), NetError> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(device_name(name)?));
        self.call(
            "delete the device",
            Some(name),
            RouteNetlinkMessage::DelLink(message),
            0,
        )
        .map(drop)
    }

    fn add(
        &self,
        operation: String,
        name: &str,
        kind: InfoKind,
        data: Option<InfoData>,
    ) -> Result<(), NetError> {
        self.add_with(operation, name, kind, data, Vec::new())
    }

    fn add_with(
        &self,
        operation: String,
        name: &str,
        kind: InfoKind,
        data: Option<InfoData>,
        others: Vec<LinkAttribute>,
    ) -> Result<(), NetError> {
        let mut message = new_link(name, kind, data)?;
        message.attributes.extend(others);
        self.create(operation, name, message)
    }

    fn create(&self, operation: String, name: &str, message: LinkMessage) -> Result<(), NetError> {
        let message = RouteNetlinkMessage::NewLink(message);
        self.call(operation, Some(name), message, NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
    }
}

fn new_link(name: &str, kind: InfoKind, data: Option<InfoData>) -> Result<LinkMessage, NetError> {
    let mut infos = vec![LinkInfo::Kind(kind)];
    infos.extend(data.map(LinkInfo::Data));
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(device_name(name)?),
        LinkAttribute::LinkInfo(infos),
    ];
    Ok(message)
}

fn vxlan_attributes(vxlan: &Vxlan) -> Vec<InfoVxlan> {
    let mut attributes = vec![
        InfoVxlan::Port(vxlan.port),
        InfoVxlan::Learning(vxlan.learning),
        InfoVxlan::UDPCsum(vxlan.udp_csum),
        InfoVxlan::UDPZeroCsumTX(vxlan.udp6_zero_csum),
        InfoVxlan::UDPZeroCsumRX(vxlan.udp6_zero_csum),
    ];
    if vxlan.external {
        attributes.push(InfoVxlan::CollectMetadata(true));
    }
    if vxlan.group_policy {
        attributes.push(InfoVxlan::Gbp);
    }
    attributes.extend(vxlan.vni.map(InfoVxlan::Id));
    attributes.extend(vxlan.device.map(InfoVxlan::Link));
    attributes.extend(vxlan.local.map(|address| match address {
        IpAddr::V4(address) => InfoVxlan::Local(address),
        IpAddr::V6(address) => InfoVxlan::Local6(address),
    }));
    attributes.extend(vxlan.remote.map(|address| match address {
        IpAddr::V4(address) => InfoVxlan::Group(address),
        IpAddr::V6(address) => InfoVxlan::Group6(address),
    }));
    attributes
}
