//! IPv6 packets of guests: neighbour discovery, DHCPv6, chains of extension headers.

use std::net::Ipv6Addr;

use overlane_wire::Mac;

use super::fabric::PortSpec;
use super::guest::{Talk, link_local, tcp, udp};
use super::stranger;
use crate::layers::{Ext6, Ext6Kind, Icmp, Ip6, Layer, Na, Ns, Ra, Redirect, Rs};
use crate::random::Random;
use crate::values::{Hex, MacText};

/// The layers from IPv6 on, and the group address the frame goes to by its nature.
pub(super) fn packet(random: &mut Random, talk: &Talk<'_>) -> (Option<Mac>, Vec<Layer>) {
    if random.percent(5) {
        return listener(random, talk);
    }
    let nd = random.percent(50);
    let source = source(random, talk, nd);
    let destination = talk.destination.map_or([0xff; 16], PortSpec::v6);
    let [.., a, b, c, d] = destination;
    let group = random.percent(60);
    let mut ip = Ip6 {
        src: Some(source),
        dst: Some(destination.into()),
        ecn: Some(random.below(4) as u8),
        dscp: random.some(40, |random| random.below(64) as u8),
        flow_label: random.some(30, |random| random.number() as u32),
        hop_limit: random.some(8, |random| random.of([0, 1, 254, 255])),
        ..Ip6::default()
    };
    match random.below(100) {
        0 => ip.payload_len = Some(random.of([0, 1, 7, 8, 24, 65_535])),
        1 => ip.version = Some(random.of([0, 4, 7])),
        2 => ip.next = Some(random.of([0, 17, 43, 44, 51, 58, 59, 60])),
        _ => {}
    }
    let mut layers = vec![Layer::Ip6(ip)];
    let chain = if random.percent(30) {
        1 + random.below(8)
    } else {
        0
    };
    for _ in 0..chain {
        layers.push(extension(random));
    }
    layers.push(if nd {
        message(random, talk)
    } else {
        upper(random)
    });
    layers.push(talk.payload(random, 40 + chain * 8));
    if nd && random.percent(85) {
        layers.pop(); // what follows the options of a message is an option
    }
    if let Some(target) = solicited(&layers).filter(|_| group)
        && let Some(Layer::Ip6(ip)) = layers.first_mut()
    {
        let [.., b, c, d] = target.octets();
        let low = [0x0001, 0xff00 | u16::from(b), u16::from_be_bytes([c, d])];
        ip.dst = Some(Ipv6Addr::new(0xff02, 0, 0, 0, 0, low[0], low[1], low[2]));
        return (Some(Mac::new([0x33, 0x33, 0xff, b, c, d])), layers);
    }
    let multicast = Mac::new([0x33, 0x33, a, b, c, d]);
    ((nd && group).then_some(multicast), layers)
}

/// What a neighbour solicitation asks for.
fn solicited(layers: &[Layer]) -> Option<Ipv6Addr> {
    let mut targets = layers.iter().filter_map(|layer| match layer {
        Layer::Ns(ns) => ns.target,
        _ => None,
    });
    targets.next()
}

/// A multicast listener, or nearly one.
fn listener(random: &mut Random, talk: &Talk<'_>) -> (Option<Mac>, Vec<Layer>) {
    let ip = Ip6 {
        src: Some(match random.below(10) {
            0..5 => link_local(talk.source_mac),
            5..8 => Ipv6Addr::UNSPECIFIED,
            _ => talk.source.map_or([0x20; 16], PortSpec::v6).into(),
        }),
        dst: Some(if random.percent(90) {
            Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16)
        } else {
            talk.destination.map_or([0xff; 16], PortSpec::v6).into()
        }),
        hop_limit: Some(random.of([1, 1, 1, 1, 2, 255])),
        ..Ip6::default()
    };
    let alert = random.of([
        [5, 2, 0, 0, 1, 0],
        [5, 2, 0, 0, 1, 0],
        [1, 0, 5, 2, 0, 0],
        [0, 0, 5, 2, 0, 0],
        [5, 2, 0, 1, 1, 0],
        [1, 4, 0, 0, 0, 0],
    ]);
    let options = Layer::Ext6(Ext6 {
        kind: Some(random.of([Ext6Kind::Hop, Ext6Kind::Hop, Ext6Kind::Hop, Ext6Kind::Dest])),
        data: Some(Hex(alert.to_vec())),
        ..Ext6::default()
    });
    let message = Layer::Icmp6(Icmp {
        kind: Some(random.of([130, 131, 132, 143, 143, 128])),
        ..Icmp::default()
    });
    let mut layers = vec![Layer::Ip6(ip), message];
    if random.percent(90) {
        layers.insert(1, options);
    }
    (Some(Mac::new([0x33, 0x33, 0, 0, 0, 0x16])), layers)
}

fn source(random: &mut Random, talk: &Talk<'_>, nd: bool) -> Ipv6Addr {
    let own = talk.source.map_or([0x20; 16], PortSpec::v6);
    match random.below(100) {
        _ if random.percent(talk.shares()) => talk.shared_v6(random),
        0..62 => own.into(),
        62..80 => link_local(talk.source_mac),
        80..90 if nd => Ipv6Addr::UNSPECIFIED,
        80..84 => Ipv6Addr::UNSPECIFIED,
        84..90 => talk
            .source
            .map_or(Ipv6Addr::LOCALHOST, |port| link_local(port.mac)),
        _ => talk
            .destination
            .map_or(Ipv6Addr::LOCALHOST, |port| port.v6().into()),
    }
}

fn extension(random: &mut Random) -> Layer {
    let kind = random.of([
        Ext6Kind::Hop,
        Ext6Kind::Dest,
        Ext6Kind::Dest,
        Ext6Kind::Routing,
        Ext6Kind::Fragment,
    ]);
    let is_fragment = kind == Ext6Kind::Fragment;
    Layer::Ext6(Ext6 {
        kind: Some(kind),
        next: random.some(2, |random| random.of([0, 17, 44, 58, 59, 60])),
        len: random.some(3, |random| random.of([0, 1, 2, 255])),
        // Of a routing header this is the number of segments left, too.
        data: (!is_fragment).then(|| Hex(vec![random.of([0, 0, 0, 1]); 6 + 8 * random.below(3)])),
        offset: is_fragment.then(|| random.of([0, 0, 0, 1, 185])),
        more: is_fragment.then(|| random.percent(50)),
        id: is_fragment.then_some(7),
    })
}

fn upper(random: &mut Random) -> Layer {
    match random.below(10) {
        0..3 => Layer::Udp(udp(
            random,
            [(546, 547), (547, 546), (547, 9), (9, 546), (67, 68)],
        )),
        3..5 => Layer::Udp(udp(random, [(1000, 2000), (4789, 4789)])),
        5..7 => Layer::Tcp(tcp(random)),
        _ => Layer::Icmp6(Icmp {
            kind: Some(random.of([1, 2, 128, 129, 130, 132, 133, 134, 135, 136, 137, 138, 143])),
            code: random.some(10, |random| random.below(3) as u8),
            ..Icmp::default()
        }),
    }
}

/// The source's MAC as a rule.
fn link_layer(random: &mut Random, talk: &Talk<'_>) -> Option<MacText> {
    match random.below(100) {
        0..78 => Some(MacText(talk.source_mac)),
        78..88 => Some(MacText(stranger(random))),
        _ => None,
    }
}

/// Further options, some of them wrong.
fn options(random: &mut Random, talk: &Talk<'_>) -> Option<Hex> {
    random.some(25, |random| {
        let mut bytes = Vec::new();
        for _ in 0..random.of([1, 1, 2, 15, 16, 17]) {
            let kind = random.of([1, 2, 3, 5, 14, 24]);
            let units = random.of([1, 1, 1, 1, 1, 1, 2, 4]);
            let mut option = vec![kind, units];
            option.extend(
                if random.percent(80) {
                    talk.source_mac
                } else {
                    stranger(random)
                }
                .get(),
            );
            option.resize(usize::from(units) * 8, 0);
            if random.percent(4) {
                option[1] = random.of([0, 3, 255]);
            }
            bytes.extend(option);
        }
        if random.percent(8) {
            bytes.truncate(bytes.len() - random.below(8));
        }
        Hex(bytes)
    })
}

fn target(random: &mut Random, talk: &Talk<'_>, mine: usize) -> Option<Ipv6Addr> {
    let own = talk.source.map_or([1; 16], PortSpec::v6);
    let other = talk.destination.map_or([0xff; 16], PortSpec::v6);
    Some(match random.below(100) {
        _ if random.percent(talk.shares()) => talk.shared_v6(random),
        share if share < mine => own.into(),
        share if share < mine + 10 => link_local(talk.source_mac),
        97..100 => Ipv6Addr::from([0xff; 16]),
        _ => other.into(),
    })
}

fn message(random: &mut Random, talk: &Talk<'_>) -> Layer {
    let (mac, options) = (link_layer(random, talk), options(random, talk));
    let code = random.some(4, |_| 1);
    let reserved = random.some(10, |random| random.number() as u32 & 0x1fff_ffff);
    match random.below(100) {
        0..50 => Layer::Ns(Ns {
            target: target(random, talk, 15),
            slla: mac,
            options,
            reserved,
            code,
            ..Ns::default()
        }),
        50..75 => Layer::Na(Na {
            target: target(random, talk, 60),
            tlla: mac,
            flags: Some(random.of(["", "S", "SO", "RSO"]).to_owned()),
            options,
            reserved,
            code,
            ..Na::default()
        }),
        75..83 => Layer::Rs(Rs {
            slla: mac,
            options,
            reserved,
            code,
            ..Rs::default()
        }),
        83..93 => Layer::Ra(Ra {
            slla: mac,
            options,
            code,
            ..Ra::default()
        }),
        _ => Layer::Redirect(Redirect {
            target: target(random, talk, 30),
            destination: target(random, talk, 30),
            tlla: mac,
            options,
            reserved,
            code,
            ..Redirect::default()
        }),
    }
}
