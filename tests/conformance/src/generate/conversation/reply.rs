//! What somebody who got a packet sends back: the next packet of the conversation, or an ICMP error.

use std::net::IpAddr;

use overlane_pipeline::{Entry, Packet};
use overlane_wire::ip::protocol;

use super::super::tcp_options;
use super::heard::Heard;
use super::{Conversations, OUTSIDER, Place, leg_mac, open};
use crate::layers::{Icmp, Layer, Payload, Raw, Tcp, Udp};
use crate::random::Random;
use crate::values::Hex;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Conversations<'_> {
    /// The next packet, the other way.
    pub(super) fn reply(&self, random: &mut Random, heard: &Heard) -> (Entry, Packet) {
        let (from, to) = (heard.destination, heard.source);
        let mut body = vec![open::ip(random, from, to)];
        let more = match heard.protocol {
            protocol::TCP => tcp(random, heard),
            protocol::UDP => {
                let (theirs, ours) = heard.ports();
                let udp = Udp {
                    src: Some(ours),
                    dst: Some(theirs),
                    checksum: random.some(4, |_| 0),
                    ..Udp::default()
                };
                vec![Layer::Udp(udp), text(random)]
            }
            protocol::ICMP | protocol::ICMPV6 => icmp(random, heard),
            other => {
                open::set_protocol(&mut body, other);
                let bytes = heard.payload().to_vec();
                let hex = Some(Hex(swapped(bytes)));
                vec![Layer::Raw(Raw { hex })]
            }
        };
        body.extend(more);
        if random.percent(10) {
            open::fragment(random, &mut body);
        }
        self.send_back(random, heard, body)
    }

    /// An ICMP error about it, from who got it or somebody on the way.
    pub(super) fn complain(&self, random: &mut Random, heard: &Heard) -> (Entry, Packet) {
        let from = if random.percent(70) {
            heard.destination
        } else {
            self.somebody(random, heard.destination.is_ipv6())
        };
        let to = if random.percent(92) {
            heard.source
        } else {
            self.somebody(random, heard.source.is_ipv6())
        };
        let is_v6 = heard.destination.is_ipv6();
        let mut quote = heard.ip_packet.clone();
        let header = match is_v6 {
            true if random.percent(30) => 40 + extend(random, &mut quote),
            true => 40,
            false => heard.payload_at,
        };
        quote.truncate(match random.below(10) {
            0 => header + random.of([0, 7, 8]),
            1 => 548,
            _ => header + 8 + random.below(40),
        });
        if random.percent(8) && !quote.is_empty() {
            let at = random.below(quote.len());
            quote[at] ^= 1 << random.below(8);
        }
        let icmp = Icmp {
            kind: Some(match is_v6 {
                true => random.of([1, 1, 2, 3, 4, 5]),
                false => random.of([3, 3, 3, 11, 11, 12, 4, 5]),
            }),
            code: Some(random.of([0, 1, 3, 4])),
            rest: random.some(30, |_| 1400),
            ..Icmp::default()
        };
        let icmp = if is_v6 {
            Layer::Icmp6(icmp)
        } else {
            Layer::Icmp4(icmp)
        };
        let hex = Some(Hex(quote));
        let body = vec![open::ip(random, from, to), icmp, Layer::Raw(Raw { hex })];
        self.send_back(random, heard, body)
    }

    /// To where it came from, by the way it came, or past the router that was on it.
    fn send_back(&self, random: &mut Random, heard: &Heard, body: Vec<Layer>) -> (Entry, Packet) {
        let (source, to) = match heard.place {
            Place::Leg(_) => (OUTSIDER, leg_mac()),
            _ => (heard.mac, heard.source_mac),
        };
        let mut place = heard.place;
        let (mut source, mut to) = (source, to);
        // Another host that routes sends it in the switch of who it is for.
        let mut ports = self.world.spec.ports.iter();
        if let Place::Remote { host, switch } = heard.place
            && random.percent(50)
            && let Some(port) = ports.find(|port| owns(port, heard.source))
            && port.switch != switch
        {
            place = Place::Remote {
                host,
                switch: port.switch,
            };
            source = self.router_mac(random, port.switch).unwrap_or(source);
            to = port.mac;
        }
        if source.is_group() {
            source = self.mac_of(place).unwrap_or(OUTSIDER);
        }
        self.enter(random, place, source, to, body)
    }

    fn mac_of(&self, place: Place) -> Option<overlane_wire::Mac> {
        match place {
            Place::Port(index) => self.world.spec.ports.get(index).map(|port| port.mac),
            Place::Remote { switch, host } => {
                let mut members = self.world.members(switch).into_iter();
                members.find(|port| port.host == host).map(|port| port.mac)
            }
            Place::Leg(_) => Some(OUTSIDER),
        }
    }
}

fn owns(port: &super::PortSpec, addr: IpAddr) -> bool {
    port.ip(addr.is_ipv6()) == addr
}

/// Extension headers right behind a quoted IPv6 header, as the routers on the way would quote them; so many bytes.
fn extend(random: &mut Random, quote: &mut Vec<u8>) -> usize {
    const NEXT_HEADER: usize = 6;
    const LEN: usize = 40;
    let before = quote.len();
    for _ in 0..random.of([1, 1, 1, 2, 2, 3, 6, 7]) {
        let Some(&next) = quote.get(NEXT_HEADER).filter(|_| quote.len() >= LEN) else {
            break;
        };
        let kind = random.of([
            protocol::HOP_BY_HOP,
            protocol::ROUTING,
            protocol::DESTINATION_OPTIONS,
            protocol::FRAGMENT,
        ]);
        let mut header = vec![next, 0, 0, 0, 0, 0, 0, 7];
        if kind == protocol::FRAGMENT {
            header[3] = random.of([0, 0, 0, 1, 16, 17]);
        } else if random.percent(20) {
            header[1] = 1;
            header.extend([0; 8]);
        }
        quote.splice(LEN..LEN, header);
        quote[NEXT_HEADER] = kind;
    }
    quote.len() - before
}

/// Ports change places, whatever stands there.
fn swapped(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(ports) = bytes.first_chunk_mut::<4>() {
        ports.rotate_left(2);
    }
    bytes
}

fn text(random: &mut Random) -> Layer {
    Layer::Payload(Payload {
        size: Some(random.below(30)),
        ..Payload::default()
    })
}

/// Mostly what the other end would send next; with numbers that fit, or hardly fit.
fn tcp(random: &mut Random, heard: &Heard) -> Vec<Layer> {
    let (theirs, ours) = heard.ports();
    let flags = heard.payload().get(13).copied().unwrap_or(0);
    let header = usize::from(heard.payload().get(12).copied().unwrap_or(0x50) >> 4) * 4;
    let len = heard.payload().len().saturating_sub(header) as u32;
    let counted = len + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let next = if flags & SYN != 0 && flags & ACK == 0 {
        random.of(["SA", "SA", "SA", "SA", "SA", "S", "RA", "R", "A"])
    } else if flags & RST != 0 {
        random.of(["S", "A", "R"])
    } else if flags & FIN != 0 {
        random.of(["A", "PA", "FA", "FA", "FA", "FA", "S", "RA"])
    } else {
        random.of([
            "A", "A", "A", "PA", "PA", "PA", "FA", "FA", "FA", "FA", "RA", "R", "S", "SA",
        ])
    };
    let mut seq = if flags & ACK != 0 {
        heard.long(8)
    } else {
        random.of([1, 5000, 0xffff_fff0])
    };
    let mut ack = heard.long(4).wrapping_add(counted);
    const NEARLY: [u32; 10] = [
        1,
        u32::MAX,
        1000,
        65_535,
        65_536,
        0u32.wrapping_sub(65_536),
        0u32.wrapping_sub(66_000),
        0u32.wrapping_sub(66_001),
        1 << 30,
        1 << 31,
    ];
    if random.percent(15) {
        seq = seq.wrapping_add(random.of(NEARLY));
    }
    if random.percent(12) {
        ack = ack.wrapping_add(random.of(NEARLY));
    }
    let tcp = Tcp {
        src: Some(ours),
        dst: Some(theirs),
        flags: Some(next.to_owned()),
        seq: Some(seq),
        ack: next.contains('A').then_some(ack),
        window: Some(random.of([0, 1, 1000, 65_535, 65_535])),
        options: next.contains('S').then(|| tcp_options::of_syn(random)),
        ..Tcp::default()
    };
    let mut layers = vec![Layer::Tcp(tcp)];
    if next.contains('P') || random.percent(8) {
        layers.push(text(random));
    }
    layers
}

/// The reply of a request, or the request again.
fn icmp(random: &mut Random, heard: &Heard) -> Vec<Layer> {
    let kind = heard.payload().first().copied().unwrap_or(0);
    let other = match kind {
        8 => 0,
        0 => 8,
        13 => 14,
        14 => 13,
        128 => 129,
        129 => 128,
        other => other,
    };
    let icmp = Icmp {
        kind: Some(if random.percent(92) { other } else { kind }),
        rest: Some(heard.long(4)),
        ..Icmp::default()
    };
    let layer = if heard.destination.is_ipv6() {
        Layer::Icmp6(icmp)
    } else {
        Layer::Icmp4(icmp)
    };
    vec![layer, text(random)]
}
