//! Random fabrics, and random packets that mean something in them: most would pass, the others are off by
//! little. For the test that compares executors.

mod conversation;
mod fabric;
mod firewall;
mod guest;
mod ipv6;
mod path;
mod routing;
mod super_packet;
mod switch;
mod tcp_options;
mod underlay;

pub use fabric::{FabricSpec, PortSpec};
pub use firewall::RuleSpec;
pub use routing::{GatewaySpec, RouterSpec};
pub use switch::SwitchSpec;

use std::collections::BTreeSet;

use overlane_model::{DeviceName, GatewayPlace, Tables};
use overlane_pipeline::{Entry, Packet};
use overlane_wire::ethernet::Tag as BesideTag;
use overlane_wire::{Mac, VlanTag};

use conversation::Conversations;

use crate::random::Random;
use crate::reference;

/// A packet that enters a host.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When.
    pub now_ns: u64,
    /// Where.
    pub entry: Entry,
    /// What.
    pub packet: Packet,
    /// The rules have [turned](FabricSpec::turned) before it.
    pub turned: bool,
    /// Devices that are gone by then.
    pub gone: BTreeSet<DeviceName>,
}

/// Where packets are made for.
#[derive(Debug)]
pub struct World<'a> {
    /// The fabric.
    pub spec: &'a FabricSpec,
    /// Of its first host.
    pub tables: &'a Tables,
}

/// MAC addresses that no fabric has; few, so that they are learned, move and come again.
fn stranger(random: &mut Random) -> Mac {
    Mac::new([0x06, 0, 0, 0, 0, random.below(6) as u8])
}

/// Packets that follow each other.
pub fn sequence(random: &mut Random, world: &World<'_>, length: usize) -> Vec<Arrival> {
    let mut now_ns = 0;
    let mut arrivals: Vec<Arrival> = Vec::new();
    let host = reference::host(world.tables, world.spec.machine());
    let mut conversations = Conversations::new(world, host);
    let talkative = if world.is_simple() { 15 } else { 70 };
    let turn = random.some(50, |random| random.below(length));
    // Those that came several times: what was decided about them may be kept.
    let mut warm: Vec<Arrival> = Vec::new();
    let lost = random.some(10, |random| (random.below(length), lose(random, world)));
    // What follows at once.
    let mut next = match random.percent(talkative) {
        true => conversations.next_hops_answer(random),
        false => Vec::new(),
    };
    while arrivals.len() < length {
        let index = arrivals.len();
        if next.is_empty() {
            now_ns += pause(random);
        }
        if random.percent(if world.is_simple() { 0 } else { 1 }) {
            next = conversations.scan(random);
        }
        if next.is_empty() && random.percent(if world.is_simple() { 0 } else { 2 }) {
            next = conversations.go_out_together(random);
        }
        let talks = !next.is_empty() || random.percent(talkative);
        let (entry, mut packet) = match random.below(100) {
            _ if random.percent(3) => {
                next.extend((0..4).filter_map(|_| path::large(random, world)));
                path::error(random, world)
            }
            _ if talks => next.pop().unwrap_or_else(|| conversations.next(random)),
            0..50 => from_port(random, world),
            50..54 => from_segmenter(random, world),
            54..60 => underlay::plain(random, world),
            _ => underlay::tunnelled(random, world),
        };
        if !talks || random.percent(12) {
            mutate(random, &mut packet);
        }
        super_packet::now_and_then(random, world, &mut packet);
        let arrival = Arrival {
            now_ns,
            entry,
            packet,
            turned: turn.is_some_and(|turn| index >= turn),
            gone: (lost.as_ref().filter(|(at, _)| index >= *at))
                .map_or_else(BTreeSet::new, |(_, devices)| devices.clone()),
        };
        let again = random.percent(8).then(|| random.pick(&warm)).flatten();
        let arrival = match again {
            Some(again) => Arrival {
                entry: again.entry.clone(),
                packet: again.packet.clone(),
                ..arrival
            },
            None => arrival,
        };
        // The second is kept, the third is decided by what was kept.
        let times = if random.percent(12) { 3 } else { 1 };
        if times > 1 {
            warm.push(arrival.clone());
        }
        for _ in 0..times {
            conversations.carry(&arrival);
            arrivals.push(arrival.clone());
        }
    }
    arrivals
}

/// One or two devices, of ports and legs, or the uplink.
fn lose(random: &mut Random, world: &World<'_>) -> BTreeSet<DeviceName> {
    let tables = world.tables;
    let gateways = tables
        .routers
        .iter()
        .filter_map(|router| router.gateway.as_ref());
    let legs = gateways.filter_map(|gateway| match &gateway.place {
        GatewayPlace::Here { leg } => leg.as_ref(),
        GatewayPlace::Remote(_) => None,
    });
    let ports = tables.ports.iter().map(|port| &port.attachment.device);
    let all: Vec<_> = ports.chain(legs).chain([&tables.uplink]).collect();
    let picked = (0..=random.below(2)).filter_map(|_| random.pick(&all));
    picked.map(|device| (*device).clone()).collect()
}

/// Ages are whole seconds: the borders are what matters.
fn pause(random: &mut Random) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    match random.below(24) {
        0 => SECOND,
        1 => SECOND - 1,
        2 => SECOND + 1,
        3 => 2 * SECOND,
        4 => 2 * SECOND + 1,
        5 | 6 => random.below(4_000_000_000) as u64,
        7 => 300 * SECOND + random.below(3) as u64 - 1,
        8 => {
            let seconds = random.of([10, 10, 30, 30, 60, 120, 240, 300, 600, 600, 432_000]);
            seconds * SECOND + random.below(3) as u64 - 1
        }
        9 => SECOND / 10 + random.below(3) as u64 - 1,
        10..14 => 0,
        _ => random.below(50_000_000) as u64,
    }
}

fn from_port(random: &mut Random, world: &World<'_>) -> (Entry, Packet) {
    let ports: Vec<_> = world
        .spec
        .ports
        .iter()
        .filter(|port| port.host == 0)
        .collect();
    let Some(port) = random.pick(&ports).copied() else {
        return underlay::tunnelled(random, world);
    };
    let mut packet = guest::frame(random, world, port.switch, Some(port), true);
    tag(random, port, &mut packet);
    let device = if random.percent(99) {
        port.device.as_str()
    } else {
        "nobody"
    };
    match DeviceName::new(device) {
        Ok(device) => (Entry::Port(device), packet),
        Err(_) => (Entry::Underlay, packet),
    }
}

fn from_segmenter(random: &mut Random, world: &World<'_>) -> (Entry, Packet) {
    match from_port(random, world) {
        (Entry::Port(device), packet) => (Entry::Segmenter(device), packet),
        other => other,
    }
}

/// The port's own tag mostly; sometimes another, or none.
fn tag(random: &mut Random, port: &PortSpec, packet: &mut Packet) {
    let own = port.vlan.unwrap_or(0);
    let strange = random.percent(if port.vlan.is_some() { 8 } else { 10 });
    if port.vlan.is_none() && !strange {
        return;
    }
    let id = if strange {
        random.of([0, 10, 20, 30, 4095])
    } else {
        own
    };
    if strange && random.percent(30) {
        return;
    }
    packet.tag = Some(BesideTag {
        service: strange && random.percent(30),
        tag: VlanTag::from_tci(id | (random.below(16) as u16) << 12),
    });
}

/// Damage, now and then: a bit, a byte, the end.
fn mutate(random: &mut Random, packet: &mut Packet) {
    let bytes = &mut packet.bytes;
    if random.percent(10) && !bytes.is_empty() {
        let reach = bytes.len().min(if random.percent(70) { 64 } else { 160 });
        for _ in 0..=random.below(2) {
            let at = random.below(reach);
            if random.percent(60) {
                bytes[at] ^= 1 << random.below(8);
            } else {
                let any = random.number() as u8;
                bytes[at] = random.of([0, 1, 0x7f, 0x80, 0xff, any]);
            }
        }
    }
    if random.percent(6) {
        let keep = bytes.len() - random.below(bytes.len().min(90) + 1);
        bytes.truncate(keep);
    }
    if random.percent(5) {
        let fill = if random.percent(70) { 0 } else { 0xa5 };
        let more = random.below(50);
        bytes.resize(bytes.len() + more, fill);
    }
}

impl World<'_> {
    /// Nothing in it routes or has a firewall.
    fn is_simple(&self) -> bool {
        let drops = |it: &SwitchSpec| it.drops != (false, false) || it.non_ip.is_some();
        self.spec.routers.is_empty()
            && self.spec.rules.is_empty()
            && !self.spec.switches.iter().any(drops)
    }

    /// The ports of a switch.
    fn members(&self, switch: usize) -> Vec<&PortSpec> {
        let ports = self.spec.ports.iter();
        ports.filter(|port| port.switch == switch).collect()
    }

    /// Payload bytes behind `headers` for a long frame: one as long as the underlay takes, or much longer.
    fn long(&self, random: &mut Random, headers: usize) -> usize {
        let size = self.border(random, headers);
        if random.percent(40) { 3 * size } else { size }.min(3000)
    }

    /// Payload bytes behind `headers` that make a frame as long as the underlay takes, or nearly.
    fn border(&self, random: &mut Random, headers: usize) -> usize {
        let outer = if self.spec.is_v6 { 40 } else { 20 };
        let with_option = self.spec.is_geneve && random.percent(70);
        let tunnel = if with_option { 16 } else { 8 };
        let room = self.spec.underlay_mtu as usize;
        let most = if random.percent(80) {
            room.saturating_sub(outer + 8 + tunnel)
        } else {
            room + 14
        };
        (most + random.below(5)).saturating_sub(headers + 2)
    }
}
