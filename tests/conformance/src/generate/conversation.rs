//! Packets that belong together: somebody opens a conversation, and who heard it answers, goes on, breaks off or
//! complains. The reference executor carries them in the meantime, so that what is heard is what left it: routed,
//! translated, encapsulated, answered.

mod fragments;
mod heard;
mod neighbours;
mod open;
mod reply;

use overlane_model::{DeviceName, Name};
use overlane_pipeline::{Entry, Host, Outcome, Output, Packet, State};
use overlane_wire::ethernet::Tag as BesideTag;
use overlane_wire::{Mac, VlanTag};

use super::fabric::PortSpec;
use super::{Arrival, World, tag, underlay};
use crate::case::LegDevice;
use crate::compose::compose;
use crate::differential::new_state;
use crate::layers::{Eth, Layer, Raw, Vxlan};
use crate::random::Random;
use crate::values::{Hex, MacText};
use heard::Heard;
use neighbours::Question;

/// So many packets are remembered, to be answered.
const MEMORY: usize = 12;

/// Somebody in the physical network.
const OUTSIDER: Mac = Mac::new([2, 0, 0, 0xee, 0, 9]);

/// All who talk, and what carries it.
pub(super) struct Conversations<'a> {
    world: &'a World<'a>,
    host: Host,
    state: State,
    heard: Vec<Heard>,
    said: Vec<Arrival>,
    /// What routers asked.
    questions: Vec<Question>,
    /// As if they had asked for their next hops by the legs.
    by_legs: Vec<Question>,
}

/// Where somebody is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// At a port of this host, by its place in the fabric.
    Port(usize),
    /// In a switch, behind another host.
    Remote {
        /// By its place in the fabric.
        switch: usize,
        /// See `switch`.
        host: usize,
    },
    /// In the physical network behind a router's leg.
    Leg(usize),
}

impl<'a> Conversations<'a> {
    pub(super) fn new(world: &'a World<'a>, host: Host) -> Self {
        let mut conversations = Self {
            world,
            host,
            state: new_state(),
            heard: Vec::new(),
            said: Vec::new(),
            questions: Vec::new(),
            by_legs: Vec::new(),
        };
        conversations.by_legs = conversations.questions_by_legs();
        conversations
    }

    /// The next packet of one of them, or of a new one.
    pub(super) fn next(&self, random: &mut Random) -> (Entry, Packet) {
        let message = match random.below(100) {
            0..10 => self.answer(random, &self.questions),
            10..14 => self.answer(random, &self.by_legs),
            14..18 => self.volunteer(random),
            _ => None,
        };
        if let Some(message) = message {
            return message;
        }
        let heard = match self.heard.last() {
            Some(last) if random.percent(60) => Some(last),
            _ => random.pick(&self.heard),
        };
        let arrival = random.pick(&self.said);
        match (random.below(100), heard, arrival) {
            (0..56, Some(heard), _) => self.reply(random, heard),
            (56..67, Some(heard), _) => self.complain(random, heard),
            (67..73, _, Some(arrival)) => again(random, arrival),
            (73..80, _, Some(_)) => self.go_on(random).unwrap_or_else(|| self.open(random)),
            (80..86, ..) => self.imitate(random).unwrap_or_else(|| self.open(random)),
            (86..90, ..) => {
                let comes = self.come_another_way(random);
                comes.unwrap_or_else(|| self.open(random))
            }
            _ => self.open(random),
        }
    }

    /// Carries a packet, so that somebody hears it.
    pub(super) fn carry(&mut self, arrival: &Arrival) {
        let Arrival {
            now_ns,
            entry,
            packet,
            ..
        } = arrival;
        let outcome = self.host.decide(&mut self.state, *now_ns, entry, packet);
        self.listen(&outcome);
        remember(&mut self.said, arrival.clone());
    }

    fn listen(&mut self, outcome: &Outcome) {
        // Who answers a flooded frame is told apart by the one who hears it; one is enough.
        for output in outcome.outputs.iter().take(2).chain(outcome.probe.first()) {
            let Some((place, frame)) = self.hears(output) else {
                continue;
            };
            let question = Question::read(place, frame);
            if let Some(question) = question.filter(|it| self.is_of_router(it)) {
                remember(&mut self.questions, question);
            } else if let Some(heard) = Heard::read(place, frame) {
                remember(&mut self.heard, heard);
            }
        }
    }

    /// Who gets a packet, and the frame.
    fn hears<'p>(&self, output: &'p Output) -> Option<(Place, &'p [u8])> {
        match output {
            Output::Port { port, packet } => self
                .port(port)
                .map(|port| (Place::Port(port), &packet.bytes[..])),
            Output::Underlay {
                remote: Some(_),
                packet,
            } => self.in_tunnel(&packet.bytes),
            Output::Underlay {
                remote: None,
                packet,
            } => self.on_vlan(packet),
            Output::Leg { device, packet, .. } => self
                .leg(device)
                .map(|router| (Place::Leg(router), &packet.bytes[..])),
            Output::Host { .. } | Output::Segmenter { .. } => None,
        }
    }

    fn port(&self, name: &Name) -> Option<usize> {
        let number: usize = name.as_str().strip_prefix('p')?.parse().ok()?;
        let mut ports = self.world.spec.ports.iter();
        ports.position(|port| port.name == number)
    }

    fn leg(&self, device: &DeviceName) -> Option<usize> {
        let mut routers = self.world.spec.routers.iter();
        routers.position(|router| router.leg() == device.as_str())
    }

    fn in_tunnel<'p>(&self, bytes: &'p [u8]) -> Option<(Place, &'p [u8])> {
        let spec = self.world.spec;
        let udp_at = 14 + if spec.is_v6 { 40 } else { 20 };
        let vni_at = udp_at + 8 + 4;
        let vni = bytes.get(vni_at..vni_at + 3)?;
        let vni = vni.iter().fold(0, |vni, byte| vni << 8 | u32::from(*byte));
        let mut switches = spec.switches.iter();
        let switch =
            switches.position(|switch| !switch.is_vlan && switch.number & 0xff_ffff == vni)?;
        let inner = bytes.get(self.inner_at(bytes)?..)?;
        Some((self.elsewhere(switch, inner), inner))
    }

    /// Where the frame begins in a tunnel packet of ours.
    fn inner_at(&self, bytes: &[u8]) -> Option<usize> {
        let spec = self.world.spec;
        let tunnel_at = 14 + if spec.is_v6 { 40 } else { 20 } + 8;
        let first = bytes.get(tunnel_at)?;
        let options = if spec.is_geneve {
            usize::from(first & 0x3f) * 4
        } else {
            0
        };
        Some(tunnel_at + 8 + options)
    }

    fn on_vlan<'p>(&self, packet: &'p Packet) -> Option<(Place, &'p [u8])> {
        let vid = u32::from(packet.tag?.tag.vid());
        let mut switches = self.world.spec.switches.iter();
        let switch = switches.position(|switch| switch.is_vlan && switch.number == vid)?;
        Some((self.elsewhere(switch, &packet.bytes), &packet.bytes))
    }

    /// Behind the host of the port that a frame is for.
    fn elsewhere(&self, switch: usize, frame: &[u8]) -> Place {
        let mac = frame.first_chunk::<6>().map(|mac| Mac::new(*mac));
        let mut members = self.world.members(switch).into_iter();
        let host = members
            .find(|port| Some(port.mac) == mac)
            .map_or(1, |port| port.host);
        Place::Remote { switch, host }
    }

    /// A frame, entering where somebody is.
    fn enter(
        &self,
        random: &mut Random,
        place: Place,
        source: Mac,
        to: Mac,
        body: Vec<Layer>,
    ) -> (Entry, Packet) {
        let mut layers = vec![Layer::Eth(Eth {
            src: Some(MacText(source)),
            dst: Some(MacText(to)),
            kind: None,
        })];
        layers.extend(body);
        let mut packet = compose(&layers).unwrap_or_else(|_| Packet::new(vec![0; 60]));
        match place {
            Place::Port(index) => {
                let Some(port) = self.world.spec.ports.get(index) else {
                    return (Entry::Underlay, packet);
                };
                if random.percent(85) {
                    own_tag(port, &mut packet);
                } else {
                    tag(random, port, &mut packet);
                }
                prioritise(random, &mut packet);
                (device_entry(&port.device), packet)
            }
            Place::Leg(router) => {
                let router = self.world.spec.routers.get(router);
                let leg = router.map_or_else(String::new, super::RouterSpec::leg);
                if random.percent(1) {
                    packet.tag = Some(untrusted_tag(random));
                }
                prioritise(random, &mut packet);
                (
                    DeviceName::new(&leg).map_or(Entry::Underlay, Entry::Leg),
                    packet,
                )
            }
            Place::Remote { switch, host } => self.by_the_uplink(random, switch, host, packet),
        }
    }

    fn by_the_uplink(
        &self,
        random: &mut Random,
        switch: usize,
        host: usize,
        mut packet: Packet,
    ) -> (Entry, Packet) {
        let spec = self.world.spec;
        let number = spec
            .switches
            .get(switch)
            .map_or(1, |switch| switch.number & 0xff_ffff);
        if spec.switches.get(switch).is_some_and(|it| it.is_vlan) {
            packet.tag = Some(BesideTag {
                service: false,
                tag: VlanTag::from_tci(number as u16),
            });
            prioritise(random, &mut packet);
            return (Entry::Underlay, packet);
        }
        if random.percent(2) && packet.bytes.len() >= 14 {
            let tci: u16 = random.of([0, 5 << 13, 5 << 13 | 5, 5]);
            let tag = [[0x81, 0], tci.to_be_bytes()].concat();
            packet.bytes.splice(12..12, tag);
        }
        let mut layers = underlay::clean_outer(random, self.world, host);
        layers.push(if spec.is_geneve {
            let key = |mac: Option<&[u8]>| {
                let mut entries = self.world.tables.fdb.iter();
                entries
                    .find(|it| it.switch.number() == number && mac == Some(&it.mac.get()[..]))
                    .map_or(0, |it| it.key.get())
            };
            let (to, from) = (packet.bytes.get(..6), packet.bytes.get(6..12));
            underlay::clean_geneve(random, number, key(from), key(to))
        } else {
            Layer::Vxlan(Vxlan {
                vni: Some(number),
                ..Vxlan::default()
            })
        });
        layers.push(Layer::Raw(Raw {
            hex: Some(Hex(packet.bytes)),
        }));
        let packet = compose(&layers).unwrap_or_else(|_| Packet::new(vec![0; 60]));
        (Entry::Underlay, packet)
    }

    /// The MAC of a router with an interface on the switch; of another one now and then.
    fn router_mac(&self, random: &mut Random, switch: usize) -> Option<Mac> {
        let routers = &self.world.spec.routers;
        let here: Vec<_> = routers
            .iter()
            .filter(|router| router.interfaces.iter().any(|&(on, ..)| on == switch))
            .collect();
        if random.percent(97) {
            random.pick(&here).map(|router| router.mac())
        } else {
            random.pick(routers).map(super::RouterSpec::mac)
        }
    }
}

/// The MAC of every leg's device.
fn leg_mac() -> Mac {
    LegDevice::default().mac
}

fn device_entry(device: &str) -> Entry {
    DeviceName::new(device).map_or(Entry::Underlay, Entry::Port)
}

fn own_tag(port: &PortSpec, packet: &mut Packet) {
    packet.tag = port.vlan.map(|vlan| BesideTag {
        service: false,
        tag: VlanTag::from_tci(vlan),
    });
}

/// Now and then a priority: in the tag that is there, or in one of no VLAN (IEEE 802.1Q 6.9.1).
fn prioritise(random: &mut Random, packet: &mut Packet) {
    if random.percent(4) {
        let before = packet.tag.map_or(0, |it| it.tag.tci());
        packet.tag = Some(BesideTag {
            service: packet.tag.is_some_and(|it| it.service),
            tag: VlanTag::from_tci(before | random.of([1, 5, 7]) << 13),
        });
    }
}

fn untrusted_tag(random: &mut Random) -> BesideTag {
    BesideTag {
        service: random.percent(20),
        tag: VlanTag::from_tci(random.of([0, 5, 100])),
    }
}

/// The same packet, from the same place.
fn again(random: &mut Random, arrival: &Arrival) -> (Entry, Packet) {
    let mut packet = arrival.packet.clone();
    if random.percent(15) {
        super::mutate(random, &mut packet);
    }
    (arrival.entry.clone(), packet)
}

fn remember<T>(memory: &mut Vec<T>, what: T) {
    if memory.len() == MEMORY {
        memory.remove(0);
    }
    memory.push(what);
}
