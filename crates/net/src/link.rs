//! Links: what the kernel says of a device, and changing it. Creating and deleting is in `create`.

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoGeneve, InfoNetkit, InfoVxlan,
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, NetkitMode, Prop, Stats64,
};
use std::os::fd::{AsFd, AsRawFd};

use crate::error::NetError;
use crate::netlink::Netlink;
use crate::netns::Netns;

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Index, unique in its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Its other names (`ip link property add altname`). Packets and tables of nftables know the first one only.
    pub altnames: Vec<String>,
    /// What somebody wrote there for people (`ip link set alias`).
    pub alias: Option<String>,
    /// MAC address; zero for devices that have none.
    pub mac: [u8; 6],
    /// Largest packet.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Takes packets for any MAC because somebody said so (`IFF_PROMISC`). A capture on the device does the
    /// same and is not seen here.
    pub promiscuous: bool,
    /// Up, and the other end of the cable is up too (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// Kind of virtual device (`veth`, `bridge`, `vxlan`, `tun` …).
    pub kind: Option<String>,
    /// Its packets have no Ethernet header, or one that nobody reads (netkit in L3 mode).
    pub is_layer3: bool,
    /// For a veth or netkit: the index of the other end, in the other end's namespace.
    pub peer_index: Option<u32>,
    /// For a veth or netkit: the other end is in another namespace.
    pub peer_in_other_netns: bool,
    /// The number that this namespace has for that one.
    pub peer_netns: Option<i32>,
    /// Of a VXLAN or Geneve device: its UDP port.
    pub udp_port: Option<u16>,
    /// Of such a device: it sends a UDP checksum over IPv4. None in external mode, where each packet says so.
    pub udp_csum: Option<bool>,
    /// The same: it sends none over IPv6.
    pub udp6_zero_csum: Option<bool>,
    /// Of a VXLAN device that is not external: it learns inner MACs from what arrives.
    pub learning: Option<bool>,
    /// The queueing discipline at its root (`noqueue`, `mq`).
    pub qdisc: String,
    /// Queues that send.
    pub tx_queues: u32,
    /// Queues that receive.
    pub rx_queues: u32,
    /// Of a VLAN device and others that are made on a device of this namespace: that one's index.
    pub lower: Option<u32>,
    /// The bridge or other master it belongs to.
    pub master: Option<u32>,
    /// Largest super-packet the device is given, IPv6 and others.
    pub gso_max_size: u32,
    /// Largest super-packet the device is given, IPv4.
    pub gso_ipv4_max_size: u32,
    /// Most segments of a super-packet the device is given.
    pub gso_max_segs: u32,
    /// Counters.
    pub stats: LinkStats,
}

/// The counters of a device (`rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    missing_docs,
    reason = "the kernel's names, documented in linux/if_link.h"
)]
pub struct LinkStats {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub rx_missed_errors: u64,
    pub rx_nohandler: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

impl Link {
    /// Whether this is a name of it beside its own.
    pub fn has_altname(&self, name: &str) -> bool {
        self.altnames.iter().any(|altname| altname == name)
    }
}

impl Netlink {
    /// The device of this name. Another name of it (`altname`) is refused: the kernel would find it here, and elsewhere not.
    pub fn link(&self, name: &str) -> Result<Link, NetError> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(device_name(name)?));
        let link = self.one_link(message, name)?;
        if link.name != name {
            return Err(NetError::OtherName {
                place: self.place(Some(name)),
                device: link.name,
            });
        }
        Ok(link)
    }

    /// The device of this index.
    pub fn link_by_index(&self, index: u32) -> Result<Link, NetError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.one_link(message, &format!("#{index}"))
    }

    /// The other end of a veth or netkit, wherever it is. None for other devices.
    pub fn peer_of(&self, link: &Link) -> Result<Option<Link>, NetError> {
        let Some(index) = link.peer_index else {
            return Ok(None);
        };
        let mut message = LinkMessage::default();
        message.header.index = index;
        let netns = link.peer_netns.map(LinkAttribute::IfNetnsId);
        message.attributes.extend(netns);
        self.one_link(message, &format!("the peer of {}", link.name))
            .map(Some)
    }

    /// All devices of the namespace, by index.
    pub fn links(&self) -> Result<Vec<Link>, NetError> {
        let message = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let replies = self.call("list the devices", None, message, NLM_F_DUMP)?;
        let mut links: Vec<Link> = replies.into_iter().filter_map(link_of).collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// Brings a device up.
    pub fn set_up(&self, name: &str) -> Result<(), NetError> {
        self.set_flags("bring the device up", name, LinkFlags::Up, LinkFlags::Up)
    }

    /// Takes a device down.
    pub fn set_down(&self, name: &str) -> Result<(), NetError> {
        self.set_flags(
            "take the device down",
            name,
            LinkFlags::empty(),
            LinkFlags::Up,
        )
    }

    /// Whether the device resolves neighbours (ARP and ND) at all.
    pub fn set_arp(&self, name: &str, on: bool) -> Result<(), NetError> {
        let value = if on {
            LinkFlags::empty()
        } else {
            LinkFlags::Noarp
        };
        self.set_flags("switch neighbour resolution", name, value, LinkFlags::Noarp)
    }

    /// Whether the device takes packets for any MAC. Network cards that sort by VLAN then take all of those too.
    pub fn set_promiscuous(&self, name: &str, on: bool) -> Result<(), NetError> {
        let value = if on {
            LinkFlags::Promisc
        } else {
            LinkFlags::empty()
        };
        self.set_flags("switch promiscuous mode", name, value, LinkFlags::Promisc)
    }

    /// Sets the largest packet.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), NetError> {
        self.set(
            format!("set the MTU to {mtu}"),
            name,
            vec![LinkAttribute::Mtu(mtu)],
        )
    }

    /// Sets the MAC address.
    pub fn set_mac(&self, name: &str, mac: [u8; 6]) -> Result<(), NetError> {
        self.set(
            "set the MAC address",
            name,
            vec![LinkAttribute::Address(mac.to_vec())],
        )
    }

    /// Makes a device a port of a bridge.
    pub fn set_master(&self, name: &str, bridge: &str) -> Result<(), NetError> {
        let index = self.link(bridge)?.index;
        let operation = format!("make the device a port of {bridge}");
        self.set(operation, name, vec![LinkAttribute::Controller(index)])
    }

    /// Takes a device out of its bridge.
    pub fn clear_master(&self, name: &str) -> Result<(), NetError> {
        self.set(
            "take the device out of its bridge",
            name,
            vec![LinkAttribute::Controller(0)],
        )
    }

    /// Moves a device into another namespace.
    pub fn set_netns(&self, name: &str, netns: &Netns) -> Result<(), NetError> {
        let operation = format!("move the device to namespace {}", netns.name());
        let fd = netns.as_fd().as_raw_fd();
        self.set(operation, name, vec![LinkAttribute::NetNsFd(fd)])
    }

    /// Moves the device of this index into another namespace, where it gets this index, which no device there may have.
    /// `name` is for errors: the device keeps its own.
    pub fn move_to(
        &self,
        (index, name): (u32, &str),
        netns: &Netns,
        new_index: Option<u32>,
    ) -> Result<(), NetError> {
        let operation = format!("move the device to namespace {}", netns.name());
        let mut message = LinkMessage::default();
        message.header.index = index;
        let fd = netns.as_fd().as_raw_fd();
        message.attributes.push(LinkAttribute::NetNsFd(fd));
        let new_index = new_index.and_then(|index| i32::try_from(index).ok());
        let new_index = new_index.map(LinkAttribute::NewIfIndex);
        message.attributes.extend(new_index);
        let message = RouteNetlinkMessage::SetLink(message);
        self.call(operation, Some(name), message, 0).map(drop)
    }

    /// Gives a device another name. Kernels before 6.2 want it down.
    pub fn rename(&self, name: &str, to: &str) -> Result<(), NetError> {
        let attribute = LinkAttribute::IfName(device_name(to)?);
        self.set(format!("rename the device to {to}"), name, vec![attribute])
    }

    /// Writes something there for people; nothing takes it away.
    pub fn set_alias(&self, name: &str, alias: &str) -> Result<(), NetError> {
        let attribute = LinkAttribute::IfAlias(alias.to_owned());
        self.set("set the alias".to_owned(), name, vec![attribute])
    }

    /// Limits the super-packets a device is given: those above either limit are segmented before it.
    /// The size holds for both address families.
    pub fn set_gso_limits(&self, name: &str, segs: u32, size: u32) -> Result<(), NetError> {
        let attributes = vec![
            LinkAttribute::GsoMaxSegs(segs),
            LinkAttribute::GsoMaxSize(size),
            LinkAttribute::GsoIpv4MaxSize(size),
        ];
        self.set(
            format!("limit GSO to {segs} segments and {size} bytes"),
            name,
            attributes,
        )
    }

    /// The kernel gives the device no IPv6 address of its own, so it stays quiet when it comes up.
    pub fn set_addr_gen_none(&self, name: &str) -> Result<(), NetError> {
        let inet6 = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
        let attributes = vec![LinkAttribute::AfSpecUnspec(vec![inet6])];
        self.set("switch IPv6 address generation off", name, attributes)
    }

    fn one_link(&self, message: LinkMessage, name: &str) -> Result<Link, NetError> {
        let operation = "find the device";
        self.call(
            operation,
            Some(name),
            RouteNetlinkMessage::GetLink(message),
            0,
        )?
        .into_iter()
        .find_map(link_of)
        .ok_or_else(|| NetError::NoAnswer {
            operation: operation.into(),
            place: self.place(Some(name)),
        })
    }

    fn set_flags(
        &self,
        operation: &'static str,
        name: &str,
        value: LinkFlags,
        mask: LinkFlags,
    ) -> Result<(), NetError> {
        let mut message = LinkMessage::default();
        message.header.flags = value;
        message.header.change_mask = mask;
        self.change(operation, name, message)
    }

    fn set(
        &self,
        operation: impl Into<std::borrow::Cow<'static, str>>,
        name: &str,
        attributes: Vec<LinkAttribute>,
    ) -> Result<(), NetError> {
        let mut message = LinkMessage::default();
        message.attributes = attributes;
        self.change(operation, name, message)
    }

    /// By index, because a name in the message would mean "rename to".
    fn change(
        &self,
        operation: impl Into<std::borrow::Cow<'static, str>>,
        name: &str,
        mut message: LinkMessage,
    ) -> Result<(), NetError> {
        message.header.index = self.link(name)?.index;
        self.call(
            operation,
            Some(name),
            RouteNetlinkMessage::SetLink(message),
            0,
        )
        .map(drop)
    }
}

/// A name that fits the kernel's interface; whether such a device exists is the kernel's to say.
pub(crate) fn device_name(name: &str) -> Result<String, NetError> {
    let bad = name.is_empty()
        || name.len() > crate::sys::DEVICE_NAME_MAX
        || name.contains(|c: char| c == '/' || c == '\0' || c.is_whitespace());
    if bad {
        return Err(NetError::BadName {
            name: name.to_owned(),
            what: "the name of a device",
        });
    }
    Ok(name.to_owned())
}

fn link_of(message: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else {
        return None;
    };
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        up: flags.contains(LinkFlags::Up),
        promiscuous: flags.contains(LinkFlags::Promisc),
        carrier: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        is_layer3: !matches!(
            message.header.link_layer_type,
            LinkLayerType::Ether | LinkLayerType::Loopback
        ),
        ..Link::default()
    };
    let mut lower = None;
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::PropList(list) => {
                link.altnames = list.into_iter().filter_map(altname).collect()
            }
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias),
            LinkAttribute::Address(bytes) => {
                link.mac = bytes.as_slice().try_into().unwrap_or_default();
            }
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Link(index) => lower = Some(index),
            LinkAttribute::LinkNetNsId(number) => {
                link.peer_in_other_netns = true;
                link.peer_netns = Some(number);
            }
            LinkAttribute::Controller(index) => link.master = Some(index),
            LinkAttribute::Qdisc(name) => link.qdisc = name,
            LinkAttribute::NumTxQueues(queues) => link.tx_queues = queues,
            LinkAttribute::NumRxQueues(queues) => link.rx_queues = queues,
            LinkAttribute::GsoMaxSize(size) => link.gso_max_size = size,
            LinkAttribute::GsoIpv4MaxSize(size) => link.gso_ipv4_max_size = size,
            LinkAttribute::GsoMaxSegs(segs) => link.gso_max_segs = segs,
            LinkAttribute::Stats64(stats) => link.stats = LinkStats::from(stats),
            LinkAttribute::LinkInfo(infos) => {
                link.kind = infos.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
                infos.iter().for_each(|info| read_tunnel(&mut link, info));
                link.is_layer3 |= infos.iter().any(is_netkit_without_ethernet);
            }
            _ => {}
        }
    }
    // IFLA_LINK of other kinds is the device below, which is no peer.
    if matches!(link.kind.as_deref(), Some("veth" | "netkit")) {
        link.peer_index = lower;
    } else {
        link.lower = lower.filter(|index| !link.peer_in_other_netns && *index != 0);
        link.peer_in_other_netns = false;
        link.peer_netns = None;
    }
    Some(link)
}

fn altname(property: Prop) -> Option<String> {
    match property {
        Prop::AltIfName(name) => Some(name),
        _ => None,
    }
}

/// Such a device says that it is Ethernet, and gives its packets a header without addresses.
fn is_netkit_without_ethernet(info: &LinkInfo) -> bool {
    let l3 = InfoNetkit::Mode(NetkitMode::L3);
    matches!(info, LinkInfo::Data(InfoData::Netkit(infos)) if infos.contains(&l3))
}

/// What a tunnel device says of itself.
fn read_tunnel(link: &mut Link, info: &LinkInfo) {
    match info {
        LinkInfo::Data(InfoData::Vxlan(infos)) => {
            for info in infos {
                match info {
                    InfoVxlan::Port(port) => link.udp_port = Some(*port),
                    InfoVxlan::UDPCsum(on) => link.udp_csum = Some(*on),
                    InfoVxlan::UDPZeroCsumTX(on) => link.udp6_zero_csum = Some(*on),
                    InfoVxlan::Learning(on) => link.learning = Some(*on),
                    _ => {}
                }
            }
            if infos.contains(&InfoVxlan::CollectMetadata(true)) {
                (link.udp_csum, link.udp6_zero_csum, link.learning) = (None, None, None);
            }
        }
        LinkInfo::Data(InfoData::Geneve(infos)) => {
            for info in infos {
                match info {
                    InfoGeneve::Port(port) => link.udp_port = Some(*port),
                    InfoGeneve::UdpCsum(on) => link.udp_csum = Some(*on),
                    InfoGeneve::UdpZeroCsum6Tx(on) => link.udp6_zero_csum = Some(*on),
                    _ => {}
                }
            }
            if infos.contains(&InfoGeneve::CollectMetadata) {
                (link.udp_csum, link.udp6_zero_csum) = (None, None);
            }
        }
        _ => {}
    }
}

impl From<Stats64> for LinkStats {
    fn from(stats: Stats64) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_errors: stats.rx_errors,
            rx_dropped: stats.rx_dropped,
            rx_missed_errors: stats.rx_missed_errors,
            rx_nohandler: stats.rx_nohandler,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_errors: stats.tx_errors,
            tx_dropped: stats.tx_dropped,
        }
    }
}
