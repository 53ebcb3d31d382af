//! The first packet of a conversation: from anybody to anybody, few addresses and ports, so that conversations
//! meet.

use std::net::{IpAddr, Ipv4Addr};

use overlane_pipeline::{Entry, Packet};
use overlane_wire::Mac;
use overlane_wire::checksum::Sum;
use overlane_wire::ip::protocol;

use super::super::tcp_options;
use super::heard::Heard;
use super::{Conversations, OUTSIDER, Place, leg_mac};
use crate::layers::{Arp, Ext6, Ext6Kind, Icmp, Ip4, Ip6, Layer, Ns, Payload, Raw, Tcp, Udp};
use crate::random::Random;
use crate::values::{Hex, MacText};

const SCTP: u8 = 132;
const GRE: u8 = 47;
/// UDP-Lite, DCCP, PIM and OSPF, AH, VRRP and the Host Identity Protocol: some with checksums over addresses.
const COVERING: [u8; 7] = [136, 33, 103, 89, 51, 112, 139];

impl Conversations<'_> {
    /// Somebody speaks first.
    pub(super) fn open(&self, random: &mut Random) -> (Entry, Packet) {
        let is_v6 = random.percent(35);
        let Some(place) = self.place(random) else {
            return super::super::from_port(random, self.world);
        };
        let (mac, switch, source) = self.speaker(random, place, is_v6);
        if random.percent(10) {
            return self.ask(random, place, mac, switch, source);
        }
        let to = if random.percent(4) {
            group(is_v6)
        } else {
            self.somebody(random, is_v6)
        };
        let to_mac = switch
            .and_then(|switch| self.first_hop(random, switch, to))
            .unwrap_or_else(leg_mac);
        let mut body = vec![ip(random, source, to)];
        transport(random, &mut body, is_v6);
        let size = if random.percent(9) {
            self.world.long(random, 60)
        } else {
            random.below(20)
        };
        if !matches!(body.last(), Some(Layer::Raw(_))) {
            body.push(Layer::Payload(Payload {
                size: Some(size),
                ..Payload::default()
            }));
        }
        if random.percent(12) {
            fragment(random, &mut body);
        }
        self.enter(random, place, mac, to_mac, body)
    }

    /// Somebody else sends what just left by a leg: two of them want the same outside port.
    pub(super) fn imitate(&self, random: &mut Random) -> Option<(Entry, Packet)> {
        let left = |heard: &&Heard| matches!(heard.place, Place::Leg(_));
        let heard = self.heard.iter().rev().find(left)?;
        let mut places = (0..4).filter_map(|_| self.place(random));
        let place = places.find(|place| !matches!(place, Place::Leg(_)))?;
        let (mac, switch, source) = self.speaker(random, place, heard.destination.is_ipv6());
        let to_mac = self.first_hop(random, switch?, heard.destination)?;
        let body = said_of(random, heard, source, heard.destination);
        Some(self.enter(random, place, mac, to_mac, body))
    }

    /// Several stations behind a gateway send from the same port to the same address outside: some rules have one outside
    /// port for all of them.
    pub(in super::super) fn go_out_together(&self, random: &mut Random) -> Vec<(Entry, Packet)> {
        let is_v6 = random.percent(35);
        let legs = self.legs();
        let Some(router) = random.pick(&legs).map(|&leg| &self.world.spec.routers[leg]) else {
            return Vec::new();
        };
        let to = far(random, is_v6);
        let said = match random.percent(60) {
            true => Layer::Tcp(Tcp {
                src: Some(1000),
                dst: Some(80),
                flags: Some("S".to_owned()),
                ..Tcp::default()
            }),
            false => Layer::Udp(Udp {
                src: Some(1000),
                dst: Some(80),
                ..Udp::default()
            }),
        };
        let ports = self.world.spec.ports.iter().enumerate();
        let behind = ports.filter(|(_, port)| router.has(port.switch, is_v6));
        let packets = behind.take(6).map(|(index, port)| {
            let place = match port.host {
                0 => Place::Port(index),
                host => Place::Remote {
                    switch: port.switch,
                    host,
                },
            };
            let body = vec![ip(random, port.ip(is_v6), to), said.clone()];
            self.enter(random, place, port.mac, router.mac(), body)
        });
        packets.collect()
    }

    /// Somebody outside sends what just came in to its station's other address: both ways want the same end inside.
    pub(super) fn come_another_way(&self, random: &mut Random) -> Option<(Entry, Packet)> {
        let came_in =
            |heard: &&Heard| !matches!(heard.place, Place::Leg(_)) && is_far(heard.source);
        let heard = self.heard.iter().rev().find(came_in)?;
        let legs = self.legs();
        let leg = *random.pick(&legs)?;
        let router = self.world.spec.routers.get(leg)?;
        let outside = router.leg_address(random.of([2, 2, 3, 10, 11]), heard.destination.is_ipv6());
        let to = random.of([heard.destination, outside]);
        let body = said_of(random, heard, heard.source, to);
        Some(self.enter(random, Place::Leg(leg), OUTSIDER, leg_mac(), body))
    }

    /// Routers with a leg at this host.
    pub(super) fn legs(&self) -> Vec<usize> {
        let routers = &self.world.spec.routers;
        let is_here = |router: &usize| {
            let gateway = routers[*router].gateway.as_ref();
            gateway.is_some_and(|gateway| gateway.has_leg && gateway.host == 0)
        };
        (0..routers.len()).filter(is_here).collect()
    }

    pub(super) fn place(&self, random: &mut Random) -> Option<Place> {
        let spec = self.world.spec;
        let ports: Vec<_> = (0..spec.ports.len())
            .filter(|&port| spec.ports[port].host == 0)
            .collect();
        let legs = self.legs();
        let elsewhere: Vec<_> = spec.ports.iter().filter(|port| port.host != 0).collect();
        match random.below(100) {
            0..25 if !legs.is_empty() => random.pick(&legs).copied().map(Place::Leg),
            25..45 if !elsewhere.is_empty() => random.pick(&elsewhere).map(|port| Place::Remote {
                switch: port.switch,
                host: port.host,
            }),
            _ => random.pick(&ports).copied().map(Place::Port),
        }
    }

    /// MAC, switch and address.
    pub(super) fn speaker(
        &self,
        random: &mut Random,
        place: Place,
        is_v6: bool,
    ) -> (Mac, Option<usize>, IpAddr) {
        let port = match place {
            Place::Port(index) => self.world.spec.ports.get(index),
            Place::Remote { switch, host } => {
                let members = self.world.members(switch).into_iter();
                let there: Vec<_> = members.filter(|port| port.host == host).collect();
                random.pick(&there).copied()
            }
            Place::Leg(_) => None,
        };
        let Some(port) = port else {
            return (OUTSIDER, None, far(random, is_v6));
        };
        let source = match is_v6 {
            _ if random.percent(6) => self.somebody(random, is_v6),
            _ if random.percent(2) => strange(random, is_v6),
            _ => port.ip(is_v6),
        };
        (port.mac, Some(port.switch), source)
    }

    /// Anybody's address.
    pub(super) fn somebody(&self, random: &mut Random, is_v6: bool) -> IpAddr {
        let spec = self.world.spec;
        let router = random.pick(&spec.routers);
        let port = random.pick(&spec.ports);
        if random.percent(10)
            && let Some(addr) = self.undeclared(random, is_v6)
        {
            return addr;
        }
        match (random.below(100), router, port) {
            (0..50, _, Some(port)) => port.ip(is_v6),
            (50..54, Some(router), _) => {
                let switch = random.pick(&router.interfaces);
                router.address(switch.map_or(0, |interface| interface.0), is_v6)
            }
            (54..63, Some(router), _) => {
                router.leg_address(random.of([2, 2, 3, 8, 9, 10, 11, 12, 77]), is_v6)
            }
            (63..68, _, _) => strange(random, is_v6),
            (68..70, _, _) => self.vtep(random, is_v6),
            _ => far(random, is_v6),
        }
    }

    /// A VTEP's address, where the underlay is of this family.
    fn vtep(&self, random: &mut Random, is_v6: bool) -> IpAddr {
        let spec = self.world.spec;
        let addr = spec.vtep(random.below(spec.hosts + 1)).parse();
        let addr = addr.ok().filter(|addr: &IpAddr| addr.is_ipv6() == is_v6);
        addr.unwrap_or_else(|| strange(random, is_v6))
    }

    /// The neighbour, or a router.
    fn first_hop(&self, random: &mut Random, switch: usize, to: IpAddr) -> Option<Mac> {
        let members = self.world.members(switch);
        let neighbour = members.iter().find(|port| port.ip(to.is_ipv6()) == to);
        if let Some(port) = neighbour.filter(|_| random.percent(90)) {
            return Some(port.mac);
        }
        if to.is_multicast() && random.percent(60) {
            return Some(Mac::new([1, 0, 0x5e, 0, 0, 5]));
        }
        let router = self.router_mac(random, switch);
        router.or_else(|| random.pick(&members).map(|port| port.mac))
    }

    /// For a router's MAC.
    fn ask(
        &self,
        random: &mut Random,
        place: Place,
        mac: Mac,
        switch: Option<usize>,
        source: IpAddr,
    ) -> (Entry, Packet) {
        let router = random.pick(&self.world.spec.routers);
        let target = match (router, switch) {
            (Some(router), Some(switch)) if random.percent(80) => {
                router.address(switch, source.is_ipv6())
            }
            (Some(router), None) if random.percent(80) => {
                router.leg_address(random.of([2, 3, 10, 11]), source.is_ipv6())
            }
            _ => self.somebody(random, source.is_ipv6()),
        };
        let router_mac =
            switch.map_or_else(|| Some(leg_mac()), |switch| self.router_mac(random, switch));
        let unicast = router_mac.filter(|_| random.percent(25));
        match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                let body = vec![Layer::Arp(Arp {
                    spa: Some(source),
                    tpa: Some(target),
                    ..Arp::default()
                })];
                self.enter(random, place, mac, unicast.unwrap_or(Mac::BROADCAST), body)
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                let [.., a, b, c] = target.octets();
                let body = vec![
                    Layer::Ip6(Ip6 {
                        src: Some(source),
                        dst: Some(target),
                        ..Ip6::default()
                    }),
                    Layer::Ns(Ns {
                        target: Some(target),
                        slla: Some(MacText(mac)),
                        ..Ns::default()
                    }),
                ];
                let group = Mac::new([0x33, 0x33, 0xff, a, b, c]);
                self.enter(random, place, mac, unicast.unwrap_or(group), body)
            }
            _ => self.enter(random, place, mac, Mac::BROADCAST, Vec::new()),
        }
    }
}

/// Somebody outside.
fn far(random: &mut Random, is_v6: bool) -> IpAddr {
    let last = random.of([5, 5, 5, 6, 200]);
    if is_v6 {
        let half = random.of([0, 0, 0x8000]);
        std::net::Ipv6Addr::new(0x2001, 2, 9, 0, half, 0, 0, last).into()
    } else {
        Ipv4Addr::from([198, 19, random.of([128, 128, 129]), last as u8]).into()
    }
}

fn is_far(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => matches!(addr.octets(), [198, 19, 128 | 129, _]),
        IpAddr::V6(addr) => addr.segments()[..3] == [0x2001, 2, 9],
    }
}

/// What was heard, between other ends.
fn said_of(random: &mut Random, heard: &Heard, from: IpAddr, to: IpAddr) -> Vec<Layer> {
    let mut body = vec![ip(random, from, to)];
    set_protocol(&mut body, heard.protocol);
    let mut bytes = heard.payload().to_vec();
    let at = match (heard.protocol, from.is_ipv6()) {
        (protocol::TCP, _) => Some(16),
        (protocol::UDP, _) => Some(6),
        (protocol::ICMPV6, true) => Some(2),
        _ => None,
    };
    if let Some(at) = at
        && let Some(sum) = bytes.get_mut(at..at + 2)
        && sum != [0, 0]
    {
        sum.fill(0);
        let sum = Sum::new().pseudo_header(from, to, heard.protocol, bytes.len());
        let sum = (!sum.bytes(&bytes).fold()).to_be_bytes();
        bytes[at..at + 2].copy_from_slice(&sum);
    }
    body.push(Layer::Raw(Raw {
        hex: Some(Hex(bytes)),
    }));
    body
}

/// Nobody's, or no unicast address.
fn strange(random: &mut Random, is_v6: bool) -> IpAddr {
    let text = if is_v6 {
        random.of([
            "::",
            "::1",
            "ff02::1",
            "fe80::1",
            "fe80::ff:fe00:1",
            "::ffff:198.18.100.1",
            "2001:2:1::77",
            "2001:db8::1",
            "2001:db8:1::1",
            "2001:2::9",
            "2001:3::9",
            "2001:1::4",
            "3fff::1",
            "::198.18.100.1",
        ])
    } else {
        random.of([
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "198.18.100.77",
            "198.18.100.255",
            "198.18.100.0",
            "198.19.0.255",
            "169.254.169.254",
            "169.254.0.9",
            "192.0.0.9",
            "192.0.0.8",
            "192.0.2.1",
            "0.1.2.3",
        ])
    };
    text.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn group(is_v6: bool) -> IpAddr {
    let text = if is_v6 { "ff02::5" } else { "224.0.0.5" };
    text.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// An IP header; the source's family counts.
pub(super) fn ip(random: &mut Random, from: IpAddr, to: IpAddr) -> Layer {
    let ttl = if random.percent(90) {
        64
    } else {
        random.of([255, 3, 2, 1, 0])
    };
    let (ecn, dscp) = (
        Some(random.below(4) as u8),
        random.some(20, |random| random.below(64) as u8),
    );
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Layer::Ip4(Ip4 {
            src: Some(from),
            dst: Some(to),
            ttl: Some(ttl),
            ecn,
            dscp,
            id: Some(random.below(3) as u16),
            df: Some(random.percent(60)),
            options: random.some(4, |random| Hex(vec![1; 4 * (1 + random.below(10))])),
            checksum: random.some(2, |random| random.number() as u16),
            ..Ip4::default()
        }),
        (IpAddr::V6(from), IpAddr::V6(to)) => Layer::Ip6(Ip6 {
            src: Some(from),
            dst: Some(to),
            hop_limit: Some(ttl),
            ecn,
            dscp,
            ..Ip6::default()
        }),
        _ => Layer::Ip4(Ip4::default()),
    }
}

/// What follows the IP header, where no layer says it.
pub(super) fn set_protocol(body: &mut [Layer], protocol: u8) {
    match body.first_mut() {
        Some(Layer::Ip4(ip)) => ip.protocol = Some(protocol),
        Some(Layer::Ip6(ip)) => ip.next = Some(protocol),
        _ => {}
    }
}

/// Mostly openings of TCP, UDP and ICMP.
fn transport(random: &mut Random, body: &mut Vec<Layer>, is_v6: bool) {
    let source = random.of([1000, 1000, 1000, 1001, 2000, 5000]);
    let port = random.of([53, 80, 80, 80, 80, 2000, 8053, 8080, 10_000]);
    match random.below(100) {
        0..42 => body.push(Layer::Tcp(Tcp {
            src: Some(source),
            dst: Some(port),
            flags: Some(
                random
                    .of([
                        "S", "S", "S", "S", "S", "S", "A", "PA", "R", "SA", "SF", "", "FA",
                    ])
                    .to_owned(),
            ),
            seq: Some(random.of([0, 100, 0xffff_fffe])),
            ack: random.some(20, |_| 7),
            window: random.some(40, |random| random.of([0, 1, 1000])),
            options: random.some(50, tcp_options::of_syn),
            data_offset: random.some(2, |random| random.below(16) as u8),
            ..Tcp::default()
        })),
        42..72 => body.push(Layer::Udp(Udp {
            src: Some(source),
            dst: Some(if random.percent(3) { 0 } else { port }),
            checksum: random.some(4, |_| 0),
            length: random.some(1, |random| random.of([0, 7, 9000])),
        })),
        72..92 => {
            let icmp = Icmp {
                kind: Some(if is_v6 {
                    random.of([128, 128, 128, 129, 138, 143])
                } else {
                    random.of([8, 8, 8, 8, 0, 13, 14, 17])
                }),
                code: random.some(5, |_| 1),
                rest: Some(random.of([0x0007_0001, 0x0007_0002, 0x0008_0001])),
                ..Icmp::default()
            };
            // The other family's now and then.
            let other = random.percent(2);
            body.push(if is_v6 != other {
                Layer::Icmp6(icmp)
            } else {
                Layer::Icmp4(icmp)
            });
        }
        92..94 => {
            set_protocol(body, random.of(COVERING));
            let bytes = (0..random.of([4, 8, 14, 24])).map(|_| random.number() as u8);
            let hex = Some(Hex(bytes.collect()));
            body.push(Layer::Raw(Raw { hex }));
        }
        94..97 => {
            set_protocol(body, SCTP);
            let ports = [source.to_be_bytes(), port.to_be_bytes()].concat();
            let hex = Some(Hex([ports, vec![0; 8]].concat()));
            body.push(Layer::Raw(Raw { hex }));
        }
        _ => set_protocol(body, GRE),
    }
}

/// Makes it a fragment; the first one has the transport header, a later one bytes like it.
pub(super) fn fragment(random: &mut Random, body: &mut Vec<Layer>) {
    let (offset, more) = random.of([(0, true), (0, true), (2, true), (2, false)]);
    if let Some(Layer::Tcp(tcp)) = body.get_mut(1)
        && random.percent(15)
    {
        tcp.data_offset = Some(15); // more than there is
    }
    match body.first_mut() {
        Some(Layer::Ip4(ip)) => {
            ip.offset = Some(offset);
            ip.mf = Some(more);
        }
        Some(Layer::Ip6(ip)) => {
            let next = ip.next.take();
            body.insert(
                1,
                Layer::Ext6(Ext6 {
                    kind: Some(Ext6Kind::Fragment),
                    next,
                    offset: Some(offset),
                    more: Some(more),
                    id: Some(7),
                    ..Ext6::default()
                }),
            );
        }
        _ => {}
    }
}
