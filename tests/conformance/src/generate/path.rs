//! What the underlay says of its MTU: errors about tunnel packets that this host may have sent, or could not have sent;
//! and probes of a size.

use overlane_model::DeviceName;
use overlane_pipeline::{Entry, Packet};
use overlane_wire::checksum::{Sum, checksum};
use overlane_wire::ethernet::Tag;
use overlane_wire::{Mac, VlanTag};

use super::{PortSpec, World};
use crate::compose::compose;
use crate::layers::{Eth, Geneve, Icmp, Ip4, Ip6, Layer, Payload, Udp, Vxlan};
use crate::random::Random;
use crate::values::{Hex, MacText};

/// Bytes of an inner frame that an error quotes, mostly.
const QUOTED: [usize; 5] = [0, 0, 8, 60, 500];

/// Of a packet to a remote that was too large; half of them with something wrong.
pub(super) fn error(random: &mut Random, world: &World<'_>) -> (Entry, Packet) {
    let spec = world.spec;
    let wrong = match random.percent(50) {
        true => 100,
        false => random.below(30),
    };
    let is_v6 = spec.is_v6 != (wrong == 0);
    let uplink = spec.underlay_mtu as usize;
    let len = match wrong {
        1 => uplink + 1,
        2 => 100 + random.below(uplink),
        _ => uplink - random.below(3),
    };
    let mtu = match random.below(10) {
        0 => random.of([0, 67, 68, 1279, 1280]),
        1 => len,
        2 => len - 1,
        3 => random.of([576, 650, 1300, 1400]),
        _ => len.saturating_sub(random.below(70)),
    };
    let mut layers = vec![Layer::Eth(Eth {
        src: Some(MacText(Mac::new([2, 0, 0, 0xff, 0, 9]))),
        dst: Some(MacText(Mac::new([2, 0, 0, 0xff, 0, 1]))),
        kind: None,
    })];
    let hop = if random.percent(80) { 200 } else { 1 };
    let to = usize::from(wrong == 3);
    layers.push(ip(random, world, (hop, to), (wrong, 4), None));
    layers.push(message(is_v6, wrong, mtu));
    let receiver = 1 + random.below(spec.hosts);
    let sender = usize::from(wrong == 25);
    layers.push(ip(random, world, (sender, receiver), (wrong, 8), Some(len)));
    let header = if spec.is_v6 { 40 } else { 20 };
    let ports = spec.source_ports.unwrap_or((49_152, 65_535));
    layers.push(Layer::Udp(Udp {
        src: Some(match wrong {
            12 => ports.0.wrapping_sub(1),
            13 => ports.1.wrapping_add(1),
            _ => random.of([ports.0, ports.1]),
        }),
        dst: random.some(if wrong == 14 { 100 } else { 0 }, |_| 53),
        length: Some((len - header + usize::from(wrong == 15)) as u16),
        checksum: Some(0),
    }));
    layers.push(tunnel(random, world, wrong));
    layers.push(Layer::Payload(Payload {
        size: Some(match wrong {
            20 => 1300,
            _ => random.of(QUOTED),
        }),
        ..Payload::default()
    }));
    let mut packet = compose(&layers).unwrap_or_else(|_| Packet::new(vec![0; 60]));
    if random.percent(20) {
        shorten(random, &mut packet.bytes, header);
    }
    (Entry::Underlay, packet)
}

/// From a port of the first host, to one of another, or to everybody: as large as fits somewhere, or nearly.
pub(super) fn large(random: &mut Random, world: &World<'_>) -> Option<(Entry, Packet)> {
    let ports = &world.spec.ports;
    let here: Vec<_> = ports.iter().filter(|port| port.host == 0).collect();
    let from = *random.pick(&here)?;
    let is_elsewhere = |port: &&PortSpec| port.host != 0 && port.switch == from.switch;
    let elsewhere: Vec<_> = ports.iter().filter(is_elsewhere).collect();
    let to = *random.pick(&elsewhere)?;
    let is_v6 = random.percent(40);
    let header = if is_v6 { 40 } else { 20 };
    let size = match random.below(6) {
        0 => 576 + random.below(3) - 1,
        1 => 1280 + random.below(3) - 1,
        2..4 => 1500 - random.below(150),
        _ => world.border(random, 14),
    };
    let mut layers = vec![Layer::Eth(Eth {
        src: Some(MacText(from.mac)),
        dst: Some(MacText(match random.below(10) {
            0 => Mac::BROADCAST,
            1 => Mac::new([6, 0, 0, 0, 0, 99]),
            _ => to.mac,
        })),
        kind: None,
    })];
    layers.push(if is_v6 {
        Layer::Ip6(Ip6 {
            src: Some(from.v6().into()),
            dst: Some(to.v6().into()),
            ..Ip6::default()
        })
    } else {
        Layer::Ip4(Ip4 {
            src: Some(from.v4().into()),
            dst: Some(to.v4().into()),
            ..Ip4::default()
        })
    });
    layers.push(Layer::Udp(Udp {
        src: Some(1000),
        dst: Some(80),
        ..Udp::default()
    }));
    layers.push(Layer::Payload(Payload {
        size: Some(size.saturating_sub(header + 8)),
        ..Payload::default()
    }));
    let mut packet = compose(&layers).unwrap_or_else(|_| Packet::new(vec![0; 60]));
    packet.tag = from.vlan.map(|vlan| Tag {
        service: false,
        tag: VlanTag::from_tci(vlan),
    });
    let device = DeviceName::new(&from.device).ok()?;
    Some((Entry::Port(device), packet))
}

/// From and to hosts by their numbers; what is wrong counts from `first`.
fn ip(
    random: &mut Random,
    world: &World<'_>,
    (from, to): (usize, usize),
    (wrong, first): (usize, usize),
    len: Option<usize>,
) -> Layer {
    let spec = world.spec;
    let is = |number: usize| wrong == first + number;
    let (src, dst) = (spec.vtep(from), spec.vtep(to));
    if spec.is_v6 {
        return Layer::Ip6(Ip6 {
            src: src.parse().ok(),
            dst: dst.parse().ok(),
            payload_len: len.map(|len| (len - 40) as u16),
            version: is(0).then_some(5),
            next: is(1).then_some(6),
            ..Ip6::default()
        });
    }
    Layer::Ip4(Ip4 {
        src: src.parse().ok(),
        dst: dst.parse().ok(),
        df: Some(len.is_some() && !is(0)),
        mf: is(1).then_some(true),
        offset: is(2).then_some(1),
        protocol: is(3).then_some(6),
        total_len: len.map(|len| len as u16),
        options: random.some(if len.is_none() { 10 } else { 0 }, |_| Hex(vec![1; 4])),
        ..Ip4::default()
    })
}

fn message(is_v6: bool, wrong: usize, mtu: usize) -> Layer {
    let icmp = Icmp {
        kind: Some(match (is_v6, wrong) {
            (_, 16) => 1,
            (true, _) => 2,
            (false, _) => 3,
        }),
        code: Some(match (is_v6, wrong) {
            (_, 17) => 1,
            (true, _) => 0,
            (false, _) => 4,
        }),
        rest: Some(mtu as u32),
        checksum: (wrong == 18).then_some(1),
    };
    match is_v6 {
        true => Layer::Icmp6(icmp),
        false => Layer::Icmp4(icmp),
    }
}

fn tunnel(random: &mut Random, world: &World<'_>, wrong: usize) -> Layer {
    let spec = world.spec;
    let vni = match random.below(10) {
        _ if wrong == 21 => 77,
        0 => 0,
        _ => random
            .pick(&spec.switches)
            .map_or(0, |switch| switch.number & 0x00ff_ffff),
    };
    if spec.is_geneve != (wrong == 22) {
        Layer::Geneve(Geneve {
            vni: Some(vni),
            version: (wrong == 23).then_some(1),
            protocol: (wrong == 24).then_some(0x0800),
            ..Geneve::default()
        })
    } else {
        Layer::Vxlan(Vxlan {
            vni: Some(vni),
            flags: (wrong == 23).then_some(0x0c),
            ..Vxlan::default()
        })
    }
}

/// As routers quote that give 8 bytes of what is behind the IP header, or nearly.
fn shorten(random: &mut Random, bytes: &mut Vec<u8>, header: usize) {
    let end = 14 + header + 8 + header + 8 + random.of([0, 0, 0, 1, 7, 8]);
    let is_shorter = bytes.len() > end;
    bytes.truncate(end);
    let len_at = if header == 20 { 16 } else { 18 };
    let len = if header == 20 { end - 14 } else { end - 54 };
    if is_shorter {
        bytes[len_at..len_at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        repair(bytes, header);
    }
}

/// The checksums of the error, over what is left.
fn repair(bytes: &mut [u8], header: usize) {
    let at = 14 + header;
    let (source, destination) = match header {
        20 => {
            bytes[24..26].fill(0);
            let sum = checksum(&bytes[14..34]);
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
            (None, None)
        }
        _ => {
            let address = |at: usize| bytes[at..].first_chunk::<16>().copied();
            (address(22), address(38))
        }
    };
    bytes[at + 2..at + 4].fill(0);
    let sum = match (source, destination) {
        (Some(source), Some(destination)) => {
            Sum::new().pseudo_header(source.into(), destination.into(), 58, bytes.len() - at)
        }
        _ => Sum::new(),
    };
    let sum = sum.bytes(&bytes[at..]).finish();
    bytes[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Behind the magic of a greeting. It shows the cookie, where it is so long.
pub(super) fn size_probe(random: &mut Random, world: &World<'_>, cookie: [u8; 8]) -> Vec<u8> {
    let uplink = world.spec.underlay_mtu as u16;
    let wanted: u16 = random.of([0, 86, 94, 107, 500, uplink - 1, uplink, uplink + 1, 65_535]);
    let mut bytes = vec![random.of([3, 3, 3, 4]), random.number() as u8];
    bytes.extend(wanted.to_be_bytes());
    bytes.extend((random.number() as u32).to_be_bytes());
    let more = random.of([24, 24, 23, 25, 31, 32, 32, 32, 33, 100, 1000]);
    bytes.resize(32, random.of([0, 0xa5]));
    bytes.extend(cookie);
    bytes.resize(8 + more, random.of([0, 0xa5]));
    bytes
}
