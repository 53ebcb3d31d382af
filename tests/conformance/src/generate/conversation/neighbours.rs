//! Stations that the fabric does not declare, and what they and others say of who has an address: answers to what
//! routers ask, and messages that nobody asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::Place as At;
use overlane_pipeline::{Entry, Packet};
use overlane_wire::Mac;

use super::super::stranger;
use super::{Conversations, OUTSIDER, Place, leg_mac, open};
use crate::layers::{Arp, ArpOp, Ip6, Layer, Na, Ns, Udp};
use crate::random::Random;
use crate::values::{Hex, MacText};

/// A router asked somebody there.
#[derive(Clone, Debug)]
pub(super) struct Question {
    place: Place,
    asker: Mac,
    own: IpAddr,
    target: IpAddr,
}

/// Who says what to whom.
struct Message {
    place: Place,
    source: Mac,
    to: Mac,
    /// Whose MAC is said.
    addr: IpAddr,
    /// The target of ARP, and whom neighbour discovery is for.
    about: IpAddr,
    is_answer: bool,
}

impl Question {
    /// What a frame asks in a router's name.
    pub(super) fn read(place: Place, frame: &[u8]) -> Option<Self> {
        let asker = Mac::new(frame.get(6..12)?.first_chunk().copied()?);
        let v4 = |at| {
            let bytes: Option<[u8; 4]> = frame.get(at..)?.first_chunk().copied();
            bytes.map(|bytes| IpAddr::V4(bytes.into()))
        };
        let v6 = |at| {
            let bytes: Option<[u8; 16]> = frame.get(at..)?.first_chunk().copied();
            bytes.map(|bytes| IpAddr::V6(bytes.into()))
        };
        let (own, target) = match (frame.get(12..14)?, frame.get(20..22)?) {
            ([8, 6], [0, 1]) => (v4(28)?, v4(38)?),
            ([0x86, 0xdd], _) if frame.get(54) == Some(&135) => (v6(22)?, v6(62)?),
            _ => return None,
        };
        Some(Self {
            place,
            asker,
            own,
            target,
        })
    }
}

impl Conversations<'_> {
    /// As if routers had asked for their next hops by the legs already.
    pub(super) fn questions_by_legs(&self) -> Vec<Question> {
        let mut questions = Vec::new();
        for leg in self.legs() {
            let Some(router) = self.world.spec.routers.get(leg) else {
                continue;
            };
            for (last, is_v6) in [(8, false), (9, false), (77, false), (8, true), (9, true)] {
                questions.push(Question {
                    place: Place::Leg(leg),
                    asker: leg_mac(),
                    own: router.leg_address(2, is_v6),
                    target: router.leg_address(last, is_v6),
                });
            }
        }
        questions
    }

    /// Whether it asks in a router's name.
    pub(super) fn is_of_router(&self, question: &Question) -> bool {
        let routers = &self.world.spec.routers;
        question.asker == leg_mac() || routers.iter().any(|it| it.mac() == question.asker)
    }

    /// Somebody whom a router asked answers, or another.
    pub(super) fn answer(
        &self,
        random: &mut Random,
        questions: &[Question],
    ) -> Option<(Entry, Packet)> {
        let question = match questions.last() {
            Some(last) if random.percent(40) => last,
            _ => random.pick(questions)?,
        };
        let Question {
            place,
            asker,
            own,
            target,
        } = question.clone();
        let message = Message {
            place,
            source: self.station(random, place),
            to: asker,
            addr: target,
            about: own,
            is_answer: true,
        };
        Some(self.say(random, message))
    }

    /// What lets the gateways of this host send to their next hops.
    pub(in super::super) fn next_hops_answer(&self, random: &mut Random) -> Vec<(Entry, Packet)> {
        let questions = self.by_legs.iter();
        let answers = questions.map(|question| self.answer(random, std::slice::from_ref(question)));
        answers.flatten().collect()
    }

    /// One after another, somebody sends to addresses of a network that nobody has.
    pub(in super::super) fn scan(&self, random: &mut Random) -> Vec<(Entry, Packet)> {
        let is_v6 = random.percent(40);
        let network = self.undeclared(random, is_v6);
        let (Some(place), Some(network)) = (self.place(random), network) else {
            return Vec::new();
        };
        let (mac, switch, source) = self.speaker(random, place, is_v6);
        let to_mac = switch.map_or_else(|| Some(leg_mac()), |it| self.router_mac(random, it));
        let targets = (0..13).map(|last| match network {
            IpAddr::V4(addr) => {
                let [a, b, c, _] = addr.octets();
                IpAddr::from([a, b, c, 120 + last])
            }
            IpAddr::V6(addr) => IpAddr::V6((u128::from(addr) & !0xff | u128::from(last)).into()),
        });
        let mut packets = Vec::new();
        for target in targets {
            let udp = Layer::Udp(Udp::default());
            let body = vec![open::ip(random, source, target), udp];
            let to_mac = to_mac.unwrap_or(Mac::BROADCAST);
            packets.push(self.enter(random, place, mac, to_mac, body));
        }
        packets
    }

    /// What nobody asked for.
    pub(super) fn volunteer(&self, random: &mut Random) -> Option<(Entry, Packet)> {
        let place = self.place(random)?;
        let is_v6 = random.percent(45);
        let (mac, switch, own) = self.speaker(random, place, is_v6);
        let router = random.pick(&self.world.spec.routers)?;
        let routers = match (place, switch) {
            (Place::Leg(leg), _) => {
                let router = self.world.spec.routers.get(leg)?;
                router.leg_address(random.of([2, 2, 2, 3, 10]), is_v6)
            }
            (_, switch) => router.address(switch?, is_v6),
        };
        let addr = match random.below(10) {
            0 => own,
            1 => routers,
            2 => self.somebody(random, is_v6),
            _ => self.nobodys(random, place, switch, is_v6)?,
        };
        let about = match random.below(10) {
            0..7 => routers,
            7 => addr,
            _ => self.somebody(random, is_v6),
        };
        let to = match (place, random.below(10)) {
            (Place::Leg(_), 0..6) => leg_mac(),
            (_, 0..6) => router.mac(),
            (_, 6) => mac,
            _ => Mac::BROADCAST,
        };
        let message = Message {
            place,
            source: if random.percent(60) {
                mac
            } else {
                self.station(random, place)
            },
            to,
            addr,
            about,
            is_answer: random.percent(60),
        };
        Some(self.say(random, message))
    }

    /// An address that nobody has in a network of a router.
    pub(super) fn undeclared(&self, random: &mut Random, is_v6: bool) -> Option<IpAddr> {
        let router = random.pick(&self.world.spec.routers)?;
        let switch = random.pick(&router.interfaces)?.0;
        Some(on_switch(random, switch, is_v6))
    }

    fn nobodys(
        &self,
        random: &mut Random,
        place: Place,
        switch: Option<usize>,
        is_v6: bool,
    ) -> Option<IpAddr> {
        match place {
            Place::Leg(leg) => {
                let router = self.world.spec.routers.get(leg)?;
                Some(router.leg_address(random.of([8, 9, 77]), is_v6))
            }
            _ => Some(on_switch(random, switch?, is_v6)),
        }
    }

    /// The port's own MAC, or that of a station behind it.
    fn station(&self, random: &mut Random, place: Place) -> Mac {
        let own = match place {
            Place::Port(index) => self.world.spec.ports.get(index).map(|port| port.mac),
            Place::Remote { switch, host } => {
                let members = self.world.members(switch).into_iter();
                let there: Vec<_> = members.filter(|port| port.host == host).collect();
                random.pick(&there).map(|port| port.mac)
            }
            Place::Leg(_) => Some(random.of([OUTSIDER, OUTSIDER, Mac::new([2, 0, 0, 0xee, 0, 8])])),
        };
        match own {
            Some(mac) if random.percent(65) => mac,
            _ => stranger(random),
        }
    }

    fn say(&self, random: &mut Random, message: Message) -> (Entry, Packet) {
        let Message {
            place,
            source,
            mut to,
            addr,
            about,
            is_answer,
        } = message;
        let said = random.some(12, |random| MacText(self.other_mac(random)));
        let body = match (addr, about) {
            (IpAddr::V4(spa), IpAddr::V4(tpa)) => {
                let op = if is_answer {
                    ArpOp::Reply
                } else {
                    ArpOp::Request
                };
                vec![Layer::Arp(Arp {
                    op: Some(op),
                    sha: said,
                    spa: Some(spa),
                    tha: random.some(50, |_| MacText(to)),
                    tpa: Some(tpa),
                    ..Arp::default()
                })]
            }
            (IpAddr::V6(addr), IpAddr::V6(about)) => {
                if to == Mac::BROADCAST {
                    to = Mac::new([0x33, 0x33, 0, 0, 0, 1]);
                }
                nd(random, source, said, addr, about, is_answer)
            }
            _ => Vec::new(),
        };
        self.enter(random, place, source, to, body)
    }

    /// Somebody else's: a port's, a router's, nobody's.
    fn other_mac(&self, random: &mut Random) -> Mac {
        let entry = random.pick(&self.world.tables.fdb);
        match (random.below(8), entry) {
            (0, _) => Mac::ZERO,
            (1, _) => Mac::new([3, 0, 0, 0, 0, 1]),
            (2..6, Some(entry)) => match entry.place {
                At::Router(_) if random.percent(50) => leg_mac(),
                _ => entry.mac,
            },
            _ => stranger(random),
        }
    }
}

fn nd(
    random: &mut Random,
    source: Mac,
    said: Option<MacText>,
    addr: Ipv6Addr,
    about: Ipv6Addr,
    is_answer: bool,
) -> Vec<Layer> {
    let mac = random.some(85, |_| said.unwrap_or(MacText(source)));
    let code = random.some(3, |_| 1);
    let checksum = random.some(3, |random| random.number() as u16);
    let (mac, options) = match random.below(10) {
        0 => (None, Some(Hex(odd_options(random, mac, is_answer)))),
        _ => (mac, None),
    };
    let mut ip = Ip6 {
        src: Some(addr),
        dst: Some(about),
        hop_limit: random.some(4, |random| random.of([254, 64])),
        ..Ip6::default()
    };
    if is_answer && random.percent(20) {
        ip.src = "fe80::77".parse().ok();
    }
    let message = match is_answer {
        true => Layer::Na(Na {
            target: Some(addr),
            tlla: mac,
            flags: Some(random.of(["SO", "SO", "S", "O", "RSO", ""]).to_owned()),
            options,
            code,
            checksum,
            ..Na::default()
        }),
        false => Layer::Ns(Ns {
            target: Some(about),
            slla: mac,
            options,
            code,
            checksum,
            ..Ns::default()
        }),
    };
    vec![Layer::Ip6(ip), message]
}

/// Options that hide the MAC behind others, or that no receiver may believe (RFC 4861 4.6, 7.1).
fn odd_options(random: &mut Random, mac: Option<MacText>, is_answer: bool) -> Vec<u8> {
    let kind = if is_answer { 2 } else { 1 };
    let mac = mac.map(|mac| [&[kind, 1], &mac.0.get()[..]].concat());
    let mut options = Vec::new();
    for _ in 0..random.of([0, 1, 1, 2, 5]) {
        let units = random.of([1, 1, 2, 0, 32]);
        let mut other = vec![0; 8 * usize::from(units.clamp(1, 2))];
        (other[0], other[1]) = (random.of([14, 14, 1, 2, 253]), units);
        options.extend(other);
    }
    options.extend(mac.into_iter().flatten());
    if random.percent(15) {
        options.truncate(random.below(options.len() + 1));
    }
    options
}

fn on_switch(random: &mut Random, switch: usize, is_v6: bool) -> IpAddr {
    let last = random.of([40, 40, 41, 99]);
    match is_v6 {
        true => Ipv6Addr::new(0x2001, 2, 1, switch as u16, 0, 0, 0, last).into(),
        false => Ipv4Addr::from([198, 18, 100 + switch as u8, last as u8]).into(),
    }
}
