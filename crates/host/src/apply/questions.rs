//! Questions for the next hops of legs, in the router's name, when `apply` is done: the answers come to the data path,
//! and the first packet out of a leg finds its next hop known. Whatever else is needed there, the data path asks for.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{RouterTable, Side, Tables, Way};
use overlane_net::{Netlink, PacketSocket};
use overlane_wire::ethernet::{self, Tags};
use overlane_wire::nd::{self, Message};
use overlane_wire::nd_option::NdOption;
use overlane_wire::{Emit as _, EtherType, Mac, arp};

use crate::state::answers::nd_frame;

/// At each run, also where nothing has changed: a next hop may have been away, or got another MAC. Best effort: what is
/// not asked now is asked by the first packet.
pub(crate) fn ask(tables: &Tables, netlink: &Netlink) {
    for (router, device) in tables.legs() {
        let link = netlink.link(device.as_str()).ok();
        let Some(link) = link.filter(|link| link.carrier) else {
            continue;
        };
        let Ok(socket) = PacketSocket::open(&link) else {
            continue;
        };
        for next_hop in next_hops(router) {
            let frame = question(router, Mac::new(link.mac), next_hop);
            let _ = frame.map(|frame| socket.send(&frame));
        }
    }
}

/// Of static routes, out of the leg.
fn next_hops(router: &RouterTable) -> BTreeSet<IpAddr> {
    let ways = router.routes.iter().filter_map(|route| match &route.way {
        Way::Via(hops) => Some(hops),
        Way::Own | Way::Connected(_) => None,
    });
    let on_leg = ways.flatten().filter(|hop| hop.side == Side::Leg);
    on_leg.map(|hop| hop.addr).collect()
}

/// As the data path asks (`bpf/leave/ask.h`).
fn question(router: &RouterTable, mac: Mac, next_hop: IpAddr) -> Option<Vec<u8>> {
    let header = ethernet::Header {
        destination: Mac::BROADCAST,
        source: mac,
        tags: Tags::NONE,
        ethertype: EtherType::ARP,
    };
    match (router.address_beside(Side::Leg, next_hop)?, next_hop) {
        (IpAddr::V4(own), IpAddr::V4(target)) => Some(request(&header, own, target)),
        (IpAddr::V6(own), IpAddr::V6(target)) => solicitation(header, own, target),
        _ => None,
    }
}

fn request(header: &ethernet::Header, own: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let packet = arp::Header {
        operation: arp::Operation::Request,
        sender_mac: header.source,
        sender: own,
        target_mac: Mac::ZERO,
        target,
    };
    [header.to_bytes(), packet.to_bytes()].concat()
}

fn solicitation(header: ethernet::Header, own: Ipv6Addr, target: Ipv6Addr) -> Option<Vec<u8>> {
    let group = nd::solicited_node(target);
    let header = ethernet::Header {
        destination: Mac::of_ipv6_group(group),
        ethertype: EtherType::IPV6,
        ..header
    };
    let message = Message::NeighbourSolicitation { target };
    let option = NdOption::SourceLinkLayer(header.source);
    nd_frame(&header, (own, group), message, option)
}

#[cfg(test)]
mod tests {
    use overlane_model::Fabric;

    use super::*;

    const FABRIC: &str = r#"
version: 1
hosts: { edge: { underlay: 198.18.0.1, uplink: u } }
switches: { s: { vni: 1 } }
ports: { p: { switch: s, host: edge, device: d, mac: "02:00:00:00:00:01" } }
routers:
  r:
    interfaces: { s: [198.18.1.254/24] }
    routes:
      - { to: 0.0.0.0/0, via: [198.19.0.1, 198.19.0.3] }
      - { to: 198.18.9.0/24, via: [198.18.1.1, 198.19.0.1] }
      - { to: "::/0", via: "2001:2:0:f::1234:5678" }
    gateway: { host: edge, device: phys0, addresses: [198.19.0.2/24, "2001:2:0:f::2/64"] }
"#;

    #[test]
    fn each_next_hop_of_the_leg_is_asked_once_in_the_routers_name() {
        let fabric = Fabric::parse("f", FABRIC).unwrap();
        let tables = fabric.compile("edge").unwrap();
        let router = &tables.routers[0];
        let hops: Vec<_> = next_hops(router).into_iter().collect();
        let [v6] = ["2001:2:0:f::1234:5678"].map(|it| it.parse::<IpAddr>().unwrap());
        assert_eq!(hops, [[198, 19, 0, 1].into(), [198, 19, 0, 3].into(), v6]);
        let mac = Mac::new([2, 0, 0, 0, 0, 9]);
        let arp = question(router, mac, hops[0]).unwrap();
        assert_eq!(arp.len(), 42);
        assert_eq!(arp[20..32], [0, 1, 2, 0, 0, 0, 0, 9, 198, 19, 0, 2]);
        assert_eq!(arp[38..], [198, 19, 0, 1]);
        let nd = question(router, mac, v6).unwrap();
        assert_eq!(nd.len(), 86);
        assert_eq!(nd[..6], [0x33, 0x33, 0xff, 0x34, 0x56, 0x78]);
        let group: Ipv6Addr = "ff02::1:ff34:5678".parse().unwrap();
        assert_eq!(nd[38..54], group.octets());
        assert_eq!(nd[78..], [1, 1, 2, 0, 0, 0, 0, 9]);
    }
}
