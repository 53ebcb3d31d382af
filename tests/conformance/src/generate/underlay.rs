//! What arrives on the uplink: tunnel packets, tagged frames, and others.

use std::net::IpAddr;

use overlane_model::{RouterTable, cookie};
use overlane_pipeline::{Entry, Packet};
use overlane_wire::ethernet::Tag as BesideTag;
use overlane_wire::{Mac, VlanTag};

use super::{World, guest, path};
use crate::compose::compose;
use crate::differential::SECRET;
use crate::layers::{
    Eth, Ext6, Ext6Kind, Geneve, GeneveOption, Ip4, Ip6, Layer, Ovn, Raw, Udp, Vxlan,
};
use crate::random::Random;
use crate::values::{Hex, MacText};

/// A frame without a tunnel: tagged, mostly with the VLAN of a switch.
pub(super) fn plain(random: &mut Random, world: &World<'_>) -> (Entry, Packet) {
    let vlans: Vec<usize> = (0..world.spec.switches.len())
        .filter(|&index| world.spec.switches[index].is_vlan)
        .collect();
    let switch = random.pick(&vlans).copied().unwrap_or(0);
    let source = world
        .members(switch)
        .into_iter()
        .find(|port| port.host != 0);
    let mut packet = guest::frame(random, world, switch, source, false);
    speak_as_router(random, world, switch, &mut packet);
    let vlan = world.spec.switches[switch].number as u16;
    if random.percent(92) {
        let vlan = if random.percent(90) {
            vlan
        } else {
            random.of([0, 99, 4095])
        };
        packet.tag = Some(BesideTag {
            service: random.percent(5),
            tag: VlanTag::from_tci(vlan & 0x0fff | (random.below(16) as u16) << 12),
        });
    }
    (Entry::Underlay, packet)
}

/// A tunnel packet.
pub(super) fn tunnelled(random: &mut Random, world: &World<'_>) -> (Entry, Packet) {
    let spec = world.spec;
    let vnis: Vec<usize> = (0..spec.switches.len())
        .filter(|&index| !spec.switches[index].is_vlan)
        .collect();
    let here = |index: &usize| world.members(*index).iter().any(|port| port.host == 0);
    let known: Vec<usize> = vnis.iter().copied().filter(here).collect();
    let switches = if random.percent(95) { &known } else { &vnis };
    let switch = random.pick(switches).or(vnis.first()).copied().unwrap_or(0);
    let members = world.members(switch);
    let elsewhere: Vec<_> = members
        .iter()
        .filter(|port| port.host != 0)
        .copied()
        .collect();
    let source = random.pick(&elsewhere).copied();
    let mut inner = guest::frame(random, world, switch, source, false);
    speak_as_router(random, world, switch, &mut inner);
    if random.percent(3) {
        inner.bytes.truncate(random.below(40));
    }
    let owner = source.map_or(1, |port| port.host);
    let sender = random.some(8, |random| random.below(spec.hosts));
    let mut layers = outer(random, world, sender.unwrap_or(owner));
    if random.percent(3) {
        return (Entry::Underlay, greeting(random, world, layers));
    }
    let vni = match random.below(100) {
        0..94 => spec.switches[switch].number & 0x00ff_ffff,
        94..96 => 0,
        _ => random.of([1, 77, 100, 0x00ff_ffff]),
    };
    let is_geneve = if random.percent(99) {
        spec.is_geneve
    } else {
        !spec.is_geneve
    };
    layers.push(if is_geneve {
        let from = source.map_or(0, |port| port.key);
        let here: Vec<_> = members.iter().filter(|port| port.host == 0).collect();
        let to = random.pick(&here).map_or(9, |port| port.key);
        geneve(random, vni, from, to)
    } else {
        vxlan(random, vni)
    });
    layers.push(Layer::Raw(Raw {
        hex: Some(Hex(inner.bytes)),
    }));
    let mut packet = compose(&layers).unwrap_or_else(|_| Packet::new(vec![0; 60]));
    if random.percent(2) {
        packet.tag = Some(BesideTag {
            service: false,
            tag: VlanTag::from_tci(random.of([0, 99, 100])),
        });
    }
    (Entry::Underlay, packet)
}

/// Now and then the source is a router's MAC, mostly of one on the switch.
fn speak_as_router(random: &mut Random, world: &World<'_>, switch: usize, packet: &mut Packet) {
    let id = world.spec.switches[switch].number;
    let routers = &world.tables.routers;
    let is_there = |router: &&RouterTable| {
        let mut interfaces = router.interfaces.iter();
        interfaces.any(|interface| interface.switch.number() == id)
    };
    let there: Vec<_> = routers.iter().filter(is_there).collect();
    let any: Vec<_> = routers.iter().collect();
    if !random.percent(8) {
        return;
    }
    let routers = if random.percent(80) { &there } else { &any };
    if let (Some(router), Some(source)) = (random.pick(routers), packet.bytes.get_mut(6..12)) {
        source.copy_from_slice(router.mac.bytes());
    }
}

/// What a remote shows as a cookie of this host: mostly one that is valid in the first two epochs.
fn cookie(random: &mut Random, remote: Option<IpAddr>) -> [u8; cookie::LEN] {
    let key = cookie::Key {
        secret: SECRET,
        words: [SECRET; 2],
    };
    match (remote, random.below(10)) {
        (Some(remote), 0..7) => cookie::cookie(key, remote, 0),
        (Some(remote), 7) => cookie::cookie(key, remote, 1 << 36),
        (_, 8) => [0xa5; cookie::LEN],
        _ => [0; cookie::LEN],
    }
}

fn source_of(layers: &[Layer]) -> Option<IpAddr> {
    layers.iter().find_map(|layer| match layer {
        Layer::Ip4(ip) => ip.src.map(IpAddr::from),
        Layer::Ip6(ip) => ip.src.map(IpAddr::from),
        _ => None,
    })
}

/// What a remote can take; now and then not quite a greeting.
fn greeting(random: &mut Random, world: &World<'_>, mut layers: Vec<Layer>) -> Packet {
    let remote = source_of(&layers);
    layers.push(if world.spec.is_geneve {
        Layer::Geneve(Geneve::default())
    } else {
        Layer::Vxlan(Vxlan::default())
    });
    let mut bytes = vec![1, 0x80, 0xc2, 0, 0, 0x0f, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    bytes.extend(*b"OVL\x01");
    if random.percent(50) {
        let shown = cookie(random, remote);
        bytes.extend(path::size_probe(random, world, shown));
    } else {
        bytes.extend([
            random.of([1, 1, 2, 2, 5, 0, 255]),
            random.of([3, 3, 1, 0]),
            0,
            0,
        ]);
        if random.percent(90) {
            bytes.extend([cookie(random, remote), cookie(random, remote)].concat());
        }
    }
    if random.percent(15) {
        let at = random.below(bytes.len());
        bytes[at] ^= 1;
    }
    if random.percent(10) {
        bytes.truncate(random.below(bytes.len()));
    }
    layers.push(Layer::Raw(Raw {
        hex: Some(Hex(bytes)),
    }));
    compose(&layers).unwrap_or_else(|_| Packet::new(vec![0; 60]))
}

fn outer(random: &mut Random, world: &World<'_>, host: usize) -> Vec<Layer> {
    let spec = world.spec;
    // The next host but the last is nobody.
    let host = if random.percent(95) {
        host
    } else {
        random.below(spec.hosts + 2)
    };
    let (src, dst) = (
        spec.vtep(host),
        spec.vtep(if random.percent(98) { 0 } else { 1 }),
    );
    let ecn = Some(random.below(4) as u8);
    let dscp = random.some(30, |random| random.below(64) as u8);
    let mut layers = vec![Layer::Eth(Eth {
        src: Some(MacText(Mac::new([2, 0, 0, 0xff, 0, 2]))),
        dst: Some(MacText(Mac::new([2, 0, 0, 0xff, 0, 1]))),
        kind: None,
    })];
    if spec.is_v6 {
        layers.push(Layer::Ip6(Ip6 {
            src: src.parse().ok(),
            dst: dst.parse().ok(),
            ecn,
            dscp,
            payload_len: random.some(1, |random| random.of([0, 8, 60, 9000])),
            version: random.some(1, |_| 5),
            ..Ip6::default()
        }));
        if random.percent(3) {
            layers.push(Layer::Ext6(Ext6 {
                kind: Some(random.of([Ext6Kind::Fragment, Ext6Kind::Fragment, Ext6Kind::Hop])),
                offset: Some(random.of([0, 0, 9])),
                more: Some(random.percent(70)),
                ..Ext6::default()
            }));
        }
    } else {
        layers.push(Layer::Ip4(Ip4 {
            src: src.parse().ok(),
            dst: dst.parse().ok(),
            ecn,
            dscp,
            df: Some(random.percent(80)),
            mf: random.some(2, |_| true),
            offset: random.some(1, |_| 9),
            checksum: random.some(2, |random| random.number() as u16),
            total_len: random.some(1, |random| random.of([0, 19, 28, 60, 9000])),
            options: random.some(3, |_| Hex(vec![1; 4])),
            ..Ip4::default()
        }));
    }
    layers.push(Layer::Udp(Udp {
        src: Some(random.number() as u16),
        dst: random.some(1, |random| random.of([53, 4789, 6081])),
        checksum: random.some(10, |random| random.number() as u16),
        length: random.some(1, |random| random.of([0, 7, 8, 30, 9000])),
    }));
    layers
}

fn vxlan(random: &mut Random, vni: u32) -> Layer {
    Layer::Vxlan(Vxlan {
        vni: Some(vni),
        flags: random.some(6, |random| random.of([0, 0x18, 0x88, 0x0c, 0xf7])),
        reserved: random.some(4, |random| random.number() as u32 & 0x00ff_ffff),
        reserved2: random.some(4, |random| random.number() as u8),
    })
}

fn geneve(random: &mut Random, vni: u32, from: u16, to: u16) -> Layer {
    let mut options = Vec::new();
    if random.percent(88) {
        let from = match random.below(100) {
            0..88 => from,
            88..94 => 0,
            _ => random.number() as u16,
        };
        let to = match random.below(100) {
            0..65 => to,
            65..85 => 0x8000,
            85..92 => 0,
            _ => random.of([0x8001, 0xffff, 1, 7, 0x7fff]),
        };
        options.push(GeneveOption {
            ovn: Some(Ovn {
                from: Some(from),
                to: Some(to),
            }),
            data: random.some(3, |random| Hex(vec![1; random.of([0, 8])])),
            reserved: random.some(3, |random| random.below(8) as u8),
            ..GeneveOption::default()
        });
    }
    while random.percent(15) {
        let at = random.below(options.len() + 1);
        options.insert(
            at,
            GeneveOption {
                class: Some(random.of([0x0102, 0x0103, 0xff01])),
                kind: Some(random.of([0, 0x01, 0x7f, 0x01, 0x80, 0x81])),
                data: Some(Hex(vec![9; 4 * random.below(4)])),
                len: random.some(5, |random| random.below(32) as u8),
                ..GeneveOption::default()
            },
        );
    }
    Layer::Geneve(Geneve {
        vni: Some(vni),
        options: Some(options),
        oam: random.some(2, |_| true),
        critical: random.some(5, |random| random.percent(50)),
        version: random.some(2, |random| 1 + random.below(3) as u8),
        opt_len: random.some(3, |random| random.below(64) as u8),
        protocol: random.some(2, |random| random.of([0x0800, 0x6559, 0])),
        reserved: random.some(4, |random| random.below(64) as u8),
        reserved2: random.some(4, |random| random.number() as u8),
    })
}

/// The outer headers of a packet that another host sent whole.
pub(super) fn clean_outer(random: &mut Random, world: &World<'_>, host: usize) -> Vec<Layer> {
    let spec = world.spec;
    let (src, dst) = (spec.vtep(host), spec.vtep(0));
    let mut layers = vec![Layer::Eth(Eth {
        src: Some(MacText(Mac::new([2, 0, 0, 0xff, 0, 2]))),
        dst: Some(MacText(Mac::new([2, 0, 0, 0xff, 0, 1]))),
        kind: None,
    })];
    let ecn = random.some(20, |random| random.below(4) as u8);
    layers.push(if spec.is_v6 {
        Layer::Ip6(Ip6 {
            src: src.parse().ok(),
            dst: dst.parse().ok(),
            ecn,
            ..Ip6::default()
        })
    } else {
        Layer::Ip4(Ip4 {
            src: src.parse().ok(),
            dst: dst.parse().ok(),
            ecn,
            ..Ip4::default()
        })
    });
    layers.push(Layer::Udp(Udp {
        src: Some(random.number() as u16),
        ..Udp::default()
    }));
    layers
}

/// With the keys of the ports, which a peer may not know.
pub(super) fn clean_geneve(random: &mut Random, vni: u32, from: u16, to: u16) -> Layer {
    let (from, to) = if random.percent(80) {
        (from, to)
    } else {
        (0, 0)
    };
    Layer::Geneve(Geneve {
        vni: Some(vni),
        options: Some(vec![GeneveOption {
            ovn: Some(Ovn {
                from: Some(from),
                to: Some(to),
            }),
            ..GeneveOption::default()
        }]),
        ..Geneve::default()
    })
}
