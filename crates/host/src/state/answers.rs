//! What this host answers for in the physical network, with which MAC, and the frames that say so: ARP announcements
//! (RFC 5227 section 2.3) and unsolicited neighbour advertisements (RFC 4861 section 7.2.6). Who hears one replaces
//! what it knew of the address, and each switch on the way learns where the MAC is now.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{RouterTable, Tables, VlanId};
use overlane_net::Link;
use overlane_wire::ethernet::{self, Tag, Tags};
use overlane_wire::ipv6_extension::Extensions;
use overlane_wire::nd::{self, Message};
use overlane_wire::nd_option::{NdOption, Options};
use overlane_wire::{Ecn, Emit as _, EtherType, Mac, VlanTag, arp, ipv6};
use serde::{Deserialize, Serialize};

/// RFC 903.
const RARP: u16 = 0x8035;
const REVERSE_REQUEST: u16 = 3;
const ICMPV6: u8 = 58;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = Mac::new([0x33, 0x33, 0, 0, 0, 1]);

/// An address that is answered for here, and how its frames leave.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// A leg, or the uplink.
    pub(crate) device: String,
    /// The VLAN on the uplink of the switch that it is in.
    pub(crate) vlan: Option<u16>,
    /// None: a guest of which the fabric knows no address. Only its MAC is announced.
    pub(crate) address: Option<IpAddr>,
    pub(crate) mac: String,
    pub(crate) is_router: bool,
    /// The guest's device. While that has no carrier, there is no guest.
    pub(crate) port: Option<String>,
    /// The stations of this switch are told, and not the physical network: those behind a port's device,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) switch: Option<String>,
    /// or those of this peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<IpAddr>,
}

impl Answer {
    /// What has to be up.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &str> {
        [Some(&self.device), self.port.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// The frame that says so. None of a MAC that makes no sense.
    pub(crate) fn frame(&self) -> Option<Vec<u8>> {
        let mac = self.mac.parse().ok()?;
        let vlan = self.vlan.map(|vlan| VlanTag::new(vlan, 0, false));
        let tag = vlan
            .transpose()
            .ok()?
            .map(|tag| Tag::of(EtherType::VLAN, tag.tci()));
        let tags = tag.flatten().map(|tag| Tags::new(&[tag]));
        let header = ethernet::Header {
            destination: Mac::BROADCAST,
            source: mac,
            tags: tags.transpose().ok()?.unwrap_or(Tags::NONE),
            ethertype: EtherType::ARP,
        };
        Some(match self.address {
            Some(IpAddr::V4(address)) => arp_announcement(header, address),
            Some(IpAddr::V6(address)) => advertisement(header, address, self.is_router)?,
            None => reverse_request(header),
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => fmt::Display::fmt(&address, f),
            None => f.write_str(&self.mac),
        }
    }
}

/// A request for an address by who has it.
fn arp_announcement(header: ethernet::Header, address: Ipv4Addr) -> Vec<u8> {
    let packet = arp::Header {
        operation: arp::Operation::Request,
        sender_mac: header.source,
        sender: address,
        target_mac: Mac::ZERO,
        target: address,
    };
    [header.to_bytes(), packet.to_bytes()].concat()
}

fn advertisement(header: ethernet::Header, address: Ipv6Addr, is_router: bool) -> Option<Vec<u8>> {
    let header = ethernet::Header {
        destination: ALL_NODES_MAC,
        ethertype: EtherType::IPV6,
        ..header
    };
    let message = Message::NeighbourAdvertisement {
        router: is_router,
        solicited: false,
        replace: true,
        target: address,
    };
    let option = NdOption::TargetLinkLayer(header.source);
    nd_frame(&header, (address, ALL_NODES), message, option)
}

/// A message of neighbour discovery with one option.
pub(crate) fn nd_frame(
    header: &ethernet::Header,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    message: Message,
    option: NdOption,
) -> Option<Vec<u8>> {
    let option = option.to_bytes();
    let message = nd::Header {
        message,
        checksum: 0,
        options: Options::new(&option).ok()?,
    };
    let message = message.with_checksum(source, destination).to_bytes();
    let ip = ipv6::Header {
        dscp: 0,
        ecn: Ecn::NotEct,
        flow_label: 0,
        payload_len: u16::try_from(message.len()).ok()?,
        hop_limit: 255,
        source,
        destination,
        extensions: Extensions::none(ICMPV6),
    };
    Some([header.to_bytes(), ip.to_bytes(), message].concat())
}

/// What QEMU sends of a machine that has migrated: it says where a MAC is, and nothing else.
fn reverse_request(header: ethernet::Header) -> Vec<u8> {
    let header = ethernet::Header {
        ethertype: EtherType(RARP),
        ..header
    };
    let packet = arp::Header {
        operation: arp::Operation::Other(REVERSE_REQUEST),
        sender_mac: header.source,
        sender: Ipv4Addr::UNSPECIFIED,
        target_mac: header.source,
        target: Ipv4Addr::UNSPECIFIED,
    };
    [header.to_bytes(), packet.to_bytes()].concat()
}

/// All that this host answers for, by the devices that are there.
pub(crate) fn answers(tables: &Tables, links: &[Link]) -> BTreeSet<Answer> {
    let mut answers = BTreeSet::new();
    for (router, device) in tables.legs() {
        let link = links.iter().find(|link| link.name == device.as_str());
        answers.extend(link.into_iter().flat_map(|link| on_leg(router, link)));
    }
    let routers = tables.routers.iter();
    let here = routers.filter(|router| router.is_gateway_here());
    answers.extend(here.flat_map(|router| on_vlans(tables, router)));
    answers.extend(of_ports(tables, links));
    answers
}

/// The router's addresses on the leg, and those that it translates to.
pub(crate) fn leg_addresses(router: &RouterTable) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::new();
    if let Some(gateway) = &router.gateway {
        addresses.extend(gateway.addresses.iter().map(|address| address.addr()));
        addresses.extend(gateway.nat.iter().map(|rule| rule.kind.outside()));
    }
    addresses
}

fn on_leg(router: &RouterTable, link: &Link) -> impl Iterator<Item = Answer> {
    let (device, mac) = (link.name.clone(), Mac::new(link.mac).to_string());
    leg_addresses(router)
        .into_iter()
        .map(move |address| Answer {
            device: device.clone(),
            vlan: None,
            address: Some(address),
            mac: mac.clone(),
            is_router: true,
            port: None,
            switch: None,
            remote: None,
        })
}

/// A router's acting host answers on VLANs for its interfaces (ARP-9 of docs/semantics.md).
fn on_vlans(tables: &Tables, router: &RouterTable) -> Vec<Answer> {
    let mut answers = Vec::new();
    for interface in &router.interfaces {
        let Some(vlan) = interface.switch.vlan() else {
            continue;
        };
        let own = interface.addresses.iter().map(|address| address.addr());
        let addresses = own.chain(interface.link_local.map(IpAddr::V6));
        answers.extend(addresses.map(|address| Answer {
            device: tables.uplink.to_string(),
            vlan: Some(vlan.get()),
            address: Some(address),
            mac: router.mac.to_string(),
            is_router: true,
            port: None,
            switch: None,
            remote: None,
        }));
    }
    answers
}

/// Guests of this host on VLANs: the physical network has learned where they are.
fn of_ports(tables: &Tables, links: &[Link]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let on_vlan = tables.ports.iter();
    let on_vlan = on_vlan.filter_map(|port| Some((port, port.switch.vlan().map(VlanId::get)?)));
    for (port, vlan) in on_vlan {
        let device = port.attachment.device.as_str();
        if !links.iter().any(|link| link.name == device) {
            continue;
        }
        let answer = |address, is_router| Answer {
            device: tables.uplink.to_string(),
            vlan: Some(vlan),
            address,
            mac: port.mac.to_string(),
            is_router,
            port: Some(device.to_owned()),
            switch: None,
            remote: None,
        };
        let own = tables.neighbours.iter();
        let mut own = own
            .filter(|own| (own.switch, own.key) == (port.switch, port.key) && own.router.is_none())
            .map(|own| answer(Some(own.addr), own.is_router))
            .peekable();
        if own.peek().is_none() {
            answers.push(answer(None, false));
        }
        answers.extend(own);
    }
    answers
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    const FABRIC: &str = "version: 1
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  office: { uplink_vlan: 100 }
  blue: { vni: 5001 }
ports:
  pc: { switch: office, host: h1, device: pc, mac: '02:00:00:00:00:01', addresses: [198.18.1.1, '2001:2:0:1::1'] }
  box: { switch: office, host: h1, device: box, mac: '02:00:00:00:00:02' }
  far: { switch: office, host: h2, device: far, mac: '02:00:00:00:00:03', addresses: [198.18.1.3] }
  gone: { switch: office, host: h1, device: gone, mac: '02:00:00:00:00:04', addresses: [198.18.1.4] }
  web: { switch: blue, host: h1, device: web, mac: '02:00:00:00:00:05', addresses: [198.18.2.1] }
routers:
  core:
    mac: '02:00:00:00:00:fe'
    interfaces: { office: [198.18.1.254/24, '2001:2:0:1::fe/64'], blue: [198.18.2.254/24] }
    gateway:
      host: h1
      device: phys0
      addresses: [198.19.0.2/24]
      nat: [{ source: 198.18.2.0/24, outside: 198.19.0.2 }, { one_to_one: 198.18.2.1, outside: 198.19.0.9 }]
";

    fn found(host: &str, devices: &[&str]) -> Vec<String> {
        let tables = Fabric::parse("f", FABRIC).unwrap().compile(host).unwrap();
        let links: Vec<_> = devices.iter().map(|name| link(name)).collect();
        let answers = answers(&tables, &links).into_iter();
        let words = |it: Answer| {
            let vlan = it.vlan.map_or(String::new(), |vlan| format!(" {vlan}"));
            let router = if it.is_router { " router" } else { "" };
            format!("{}{vlan} {it} {}{router}", it.device, it.mac)
        };
        answers.map(words).collect()
    }

    fn link(name: &str) -> Link {
        Link {
            name: name.to_owned(),
            mac: [2, 0, 0, 0, 9, 9],
            ..Link::default()
        }
    }

    #[test]
    fn a_host_answers_for_its_leg_its_guests_on_vlans_and_there_for_the_router() {
        let all = found("h1", &["eth1", "pc", "box", "web", "phys0"]);
        let on_vlan = [
            "eth1 100 02:00:00:00:00:02 02:00:00:00:00:02",
            "eth1 100 198.18.1.1 02:00:00:00:00:01",
            "eth1 100 198.18.1.254 02:00:00:00:00:fe router",
            "eth1 100 2001:2:0:1::1 02:00:00:00:00:01",
            "eth1 100 2001:2:0:1::fe 02:00:00:00:00:fe router",
            "eth1 100 fe80::ff:fe00:fe 02:00:00:00:00:fe router",
        ];
        let on_leg = [
            "phys0 198.19.0.2 02:00:00:00:09:09 router",
            "phys0 198.19.0.9 02:00:00:00:09:09 router",
        ];
        assert_eq!(all, [&on_vlan[..], &on_leg].concat());
        assert_eq!(found("h1", &["eth1", "pc", "box", "web"]), on_vlan);
        // Nothing of the router elsewhere, nor of what the device is missing for.
        let elsewhere = found("h2", &["eth1", "far"]);
        assert_eq!(elsewhere, ["eth1 100 198.18.1.3 02:00:00:00:00:03"]);
        assert!(found("h2", &["eth1"]).is_empty());
    }

    #[test]
    fn golden_frames() {
        let answer = |address: Option<&str>, vlan| Answer {
            device: String::new(),
            vlan,
            address: address.map(|address| address.parse().unwrap()),
            mac: "02:00:00:00:00:01".into(),
            is_router: true,
            port: None,
            switch: None,
            remote: None,
        };
        let (mac, all) = ([2, 0, 0, 0, 0, 1], [0xff; 6]);
        let arp = answer(Some("198.18.1.1"), None).frame().unwrap();
        let address = [198, 18, 1, 1];
        let about = |operation| [8, 6, 0, 1, 8, 0, 6, 4, 0, operation];
        let expected = [&all[..], &mac, &about(1), &mac, &address, &[0; 6], &address];
        assert_eq!(arp, expected.concat());
        let mut tagged = all.to_vec();
        tagged.extend(mac);
        tagged.extend([0x81, 0, 0, 100, 0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
        tagged.extend([&mac[..], &[0; 4], &mac, &[0; 4]].concat());
        assert_eq!(answer(None, Some(100)).frame().unwrap(), tagged);

        let advertisement = answer(Some("2001:2::1"), None).frame().unwrap();
        let source = "2001:2::1".parse::<Ipv6Addr>().unwrap();
        let begin = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        assert_eq!(advertisement[..14], begin);
        assert_eq!(advertisement[14..22], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        let view = nd::View::new_checked(&advertisement[54..]).unwrap();
        assert!(view.checksum_is_right(source, ALL_NODES));
        let said = Message::NeighbourAdvertisement {
            router: true,
            solicited: false,
            replace: true,
            target: source,
        };
        assert_eq!(view.message(), said);
        let option = NdOption::TargetLinkLayer(Mac::new(mac));
        assert_eq!(view.options().iter().collect::<Vec<_>>(), [option]);
    }
}
