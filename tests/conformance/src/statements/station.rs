//! A machine: what it says, and what it answers when it is asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{Name, Port};
use overlane_pipeline::Packet;
use overlane_wire::Mac;

use super::document::Service;
use crate::compose::compose;
use crate::dissect::dissect;
use crate::layers::{Arp, ArpOp, Eth, Icmp, Ip4, Ip6, Layer, Na, Ns, Tag, Tcp, Udp};
use crate::values::MacText;

/// Of whoever asks for something.
const CLIENT_PORT: u16 = 40_000;
const ECHO_REQUEST: [u8; 2] = [8, 128];

/// A machine with addresses.
#[derive(Clone, Debug)]
pub(super) struct Station {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) mac: Mac,
    pub(super) addresses: Vec<IpAddr>,
    /// Its way out; without it the router of its switch or leg.
    pub(super) gateway: Option<IpAddr>,
}

/// Where a machine is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// At this port.
    Port(Name),
    /// In the physical network, on this VLAN of the uplinks.
    Vlan(u16),
    /// In the physical network behind the leg of this router.
    Leg(Name),
    /// Behind stations that route.
    RoutedBy(Vec<usize>),
}

/// What somebody got to hear.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Who has this address? The one who asks, and its MAC.
    Question(IpAddr, IpAddr, Mac),
    /// That address has this MAC.
    Has(IpAddr, Mac),
    /// What somebody sent for an answer.
    Request(Request),
    /// The answer to such a one.
    Answer(Request),
    /// That a packet of this address was refused.
    Refusal(IpAddr),
    /// Anything else.
    Other,
}

/// A request: who sends what to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) service: Service,
    /// Of the sender.
    pub(super) port: u16,
}

impl Station {
    /// The machine that a port is for.
    pub(super) fn guest(port: &Port) -> Self {
        Self {
            name: port.name.to_string(),
            place: Place::Port(port.name.clone()),
            mac: port.mac,
            addresses: port.addresses.clone(),
            gateway: None,
        }
    }

    /// Whether its card takes a frame.
    pub(super) fn takes(&self, packet: &Packet) -> bool {
        let to = packet.bytes.first_chunk().copied().map(Mac::new);
        to.is_some_and(|to| to == self.mac || to.is_group())
    }

    /// Whether an address is in its network, as far as it says itself: /24 and /64.
    pub(super) fn is_near(&self, address: IpAddr) -> bool {
        let mut own = self.addresses.iter();
        own.any(|own| match (own, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => own.octets()[..3] == address.octets()[..3],
            (IpAddr::V6(own), IpAddr::V6(address)) => own.octets()[..8] == address.octets()[..8],
            _ => false,
        })
    }

    /// Who has this address?
    pub(super) fn question(&self, asking: IpAddr, target: IpAddr, tag: Option<u16>) -> Packet {
        match (asking, target) {
            (IpAddr::V4(asking), IpAddr::V4(target)) => {
                let arp = Arp {
                    spa: Some(asking),
                    tpa: Some(target),
                    ..Arp::default()
                };
                self.frame(Mac::BROADCAST, tag, vec![Layer::Arp(arp)])
            }
            (IpAddr::V6(asking), IpAddr::V6(target)) => {
                let [.., a, b, c] = target.octets();
                let group = Ipv6Addr::new(
                    0xff02,
                    0,
                    0,
                    0,
                    0,
                    1,
                    0xff00 | u16::from(a),
                    u16::from_be_bytes([b, c]),
                );
                let ns = Ns {
                    target: Some(target),
                    slla: Some(MacText(self.mac)),
                    ..Ns::default()
                };
                let mac = Mac::new([0x33, 0x33, 0xff, a, b, c]);
                self.frame(
                    mac,
                    tag,
                    vec![ip(asking.into(), group.into()), Layer::Ns(ns)],
                )
            }
            _ => self.frame(Mac::BROADCAST, tag, Vec::new()),
        }
    }

    /// It has this address, it tells who asked.
    pub(super) fn has(&self, target: IpAddr, asking: IpAddr, mac: Mac, tag: Option<u16>) -> Packet {
        let layers = match (target, asking) {
            (IpAddr::V4(target), IpAddr::V4(asking)) => vec![Layer::Arp(Arp {
                op: Some(ArpOp::Reply),
                spa: Some(target),
                tha: Some(MacText(mac)),
                tpa: Some(asking),
                ..Arp::default()
            })],
            (IpAddr::V6(target), _) => {
                let na = Na {
                    target: Some(target),
                    tlla: Some(MacText(self.mac)),
                    flags: Some("SO".to_owned()),
                    ..Na::default()
                };
                vec![ip(target.into(), asking), Layer::Na(na)]
            }
            _ => Vec::new(),
        };
        self.frame(mac, tag, layers)
    }

    pub(super) fn request(&self, request: Request, mac: Mac, tag: Option<u16>) -> Packet {
        self.frame(mac, tag, transport(request, false))
    }

    pub(super) fn answer(&self, request: Request, mac: Mac, tag: Option<u16>) -> Packet {
        self.frame(mac, tag, transport(request, true))
    }

    fn frame(&self, to: Mac, tag: Option<u16>, layers: Vec<Layer>) -> Packet {
        let beside = tag.map(|id| {
            Layer::Tag(Tag {
                id: Some(id),
                ..Tag::default()
            })
        });
        let eth = Layer::Eth(Eth {
            src: Some(MacText(self.mac)),
            dst: Some(MacText(to)),
            kind: None,
        });
        let all: Vec<Layer> = beside.into_iter().chain([eth]).chain(layers).collect();
        compose(&all).unwrap_or_else(|_| Packet::new(Vec::new()))
    }
}

impl Request {
    /// What a station sends first.
    pub(super) fn new(source: IpAddr, destination: IpAddr, service: Service) -> Self {
        Self {
            source,
            destination,
            service,
            port: CLIENT_PORT,
        }
    }
}

fn ip(source: IpAddr, destination: IpAddr) -> Layer {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Layer::Ip4(Ip4 {
            src: Some(source),
            dst: Some(destination),
            ..Ip4::default()
        }),
        (source, destination) => Layer::Ip6(Ip6 {
            src: Some(v6(source)),
            dst: Some(v6(destination)),
            ..Ip6::default()
        }),
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The layers of a request, or of its answer.
fn transport(request: Request, back: bool) -> Vec<Layer> {
    let Request {
        source,
        destination,
        service,
        port,
    } = request;
    let (from, to) = match back {
        false => (source, destination),
        true => (destination, source),
    };
    let ports = |served: u16| match back {
        false => (Some(port), Some(served)),
        true => (Some(served), Some(port)),
    };
    let layer = match service {
        Service::Tcp(served) => {
            let (src, dst) = ports(served);
            Layer::Tcp(Tcp {
                src,
                dst,
                flags: Some(if back { "SA" } else { "S" }.to_owned()),
                seq: Some(1000),
                ack: back.then_some(1001),
                ..Tcp::default()
            })
        }
        Service::Udp(served) => {
            let (src, dst) = ports(served);
            Layer::Udp(Udp {
                src,
                dst,
                ..Udp::default()
            })
        }
        Service::Ping => {
            let kind = match (from.is_ipv4(), back) {
                (true, false) => 8,
                (true, true) => 0,
                (false, false) => 128,
                (false, true) => 129,
            };
            let icmp = Icmp {
                kind: Some(kind),
                rest: Some(u32::from(port) << 16),
                ..Icmp::default()
            };
            match from {
                IpAddr::V4(_) => Layer::Icmp4(icmp),
                IpAddr::V6(_) => Layer::Icmp6(icmp),
            }
        }
    };
    vec![ip(from, to), layer]
}

/// What a frame says.
pub(super) fn heard(packet: &Packet) -> Heard {
    let untagged = Packet::new(packet.bytes.clone());
    let layers = dissect(&untagged);
    let source_mac = match layers.first() {
        Some(Layer::Eth(eth)) => eth.src.unwrap_or_default().0,
        _ => return Heard::Other,
    };
    match &layers[1..] {
        [Layer::Arp(arp), ..] => {
            let unspecified = Ipv4Addr::UNSPECIFIED;
            let sender: IpAddr = arp.spa.unwrap_or(unspecified).into();
            let mac = arp.sha.map_or(source_mac, |mac| mac.0);
            match arp.op {
                None | Some(ArpOp::Request) => {
                    Heard::Question(arp.tpa.unwrap_or(unspecified).into(), sender, mac)
                }
                Some(ArpOp::Reply) => Heard::Has(sender, mac),
                Some(ArpOp::Number(_)) => Heard::Other,
            }
        }
        [Layer::Ip6(ip), Layer::Ns(ns), ..] => match (ns.target, ip.src) {
            (Some(target), Some(source)) => {
                let mac = ns.slla.map_or(source_mac, |mac| mac.0);
                Heard::Question(target.into(), source.into(), mac)
            }
            _ => Heard::Other,
        },
        [Layer::Ip6(_), Layer::Na(na), ..] => match na.target {
            Some(target) => Heard::Has(target.into(), na.tlla.map_or(source_mac, |mac| mac.0)),
            None => Heard::Other,
        },
        [Layer::Ip4(ip), transport, ..] => match (ip.src, ip.dst) {
            (Some(source), Some(destination)) => {
                conversation(source.into(), destination.into(), transport)
            }
            _ => Heard::Other,
        },
        [Layer::Ip6(ip), transport, ..] => match (ip.src, ip.dst) {
            (Some(source), Some(destination)) => {
                conversation(source.into(), destination.into(), transport)
            }
            _ => Heard::Other,
        },
        _ => Heard::Other,
    }
}

fn conversation(source: IpAddr, destination: IpAddr, transport: &Layer) -> Heard {
    let forth = |service, port| Request {
        source,
        destination,
        service,
        port,
    };
    let back = |service, port| Request {
        source: destination,
        destination: source,
        service,
        port,
    };
    match transport {
        Layer::Tcp(tcp) => {
            let (src, dst) = (tcp.src.unwrap_or(0), tcp.dst.unwrap_or(0));
            match tcp.flags.as_deref() {
                Some("S") => Heard::Request(forth(Service::Tcp(dst), src)),
                Some(flags) if flags.contains('R') => Heard::Refusal(destination),
                Some(flags) if flags.contains('S') => Heard::Answer(back(Service::Tcp(src), dst)),
                _ => Heard::Other,
            }
        }
        Layer::Udp(udp) => {
            let (src, dst) = (udp.src.unwrap_or(0), udp.dst.unwrap_or(0));
            // Who serves has a lower port than who asks, through every translation.
            match src > dst {
                true => Heard::Request(forth(Service::Udp(dst), src)),
                false => Heard::Answer(back(Service::Udp(src), dst)),
            }
        }
        Layer::Icmp4(icmp) | Layer::Icmp6(icmp) => {
            let is_v4 = matches!(transport, Layer::Icmp4(_));
            let kind = icmp.kind.unwrap_or(ECHO_REQUEST[usize::from(!is_v4)]);
            let port = (icmp.rest.unwrap_or(0) >> 16) as u16;
            match (is_v4, kind) {
                (true, 8) | (false, 128) => Heard::Request(forth(Service::Ping, port)),
                (true, 0) | (false, 129) => Heard::Answer(back(Service::Ping, port)),
                (true, 3 | 11 | 12) | (false, 1..=4) => Heard::Refusal(destination),
                _ => Heard::Other,
            }
        }
        _ => Heard::Other,
    }
}
