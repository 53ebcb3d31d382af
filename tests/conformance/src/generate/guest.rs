//! Frames of guests: by themselves, or inside a tunnel packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use overlane_pipeline::Packet;
use overlane_wire::Mac;

use super::fabric::{PortSpec, floating_mac};
use super::{World, ipv6, stranger, tcp_options};
use crate::compose::compose;
use crate::layers::{Arp, ArpOp, Eth, Icmp, Ip4, Layer, Payload, Raw, Tag, Tcp, Udp};
use crate::random::Random;
use crate::values::{Hex, MacText};

/// Who speaks to whom.
pub(super) struct Talk<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) switch: usize,
    /// The port it comes from, if the fabric knows it.
    pub(super) source: Option<&'a PortSpec>,
    /// The port it is for, if the fabric knows it.
    pub(super) destination: Option<&'a PortSpec>,
    pub(super) source_mac: Mac,
}

/// A frame of a guest of `switch`. Tags of guests stand in the bytes, unless `beside`: then they are where the
/// kernel keeps them.
pub(super) fn frame(
    random: &mut Random,
    world: &World<'_>,
    switch: usize,
    source: Option<&PortSpec>,
    beside: bool,
) -> Packet {
    let members = world.members(switch);
    let others = members
        .iter()
        .filter(|port| source.is_none_or(|source| source.name != port.name));
    let others: Vec<_> = others.copied().collect();
    let destination = random.pick(&others).copied();
    let has_floating = source.is_some_and(|port| !port.allowed.macs.is_empty());
    let source_mac = match (random.below(100), source) {
        _ if random.percent(if has_floating { 40 } else { 4 }) => floating_mac(random, switch),
        (0..82, Some(port)) if port.learning.is_none() => port.mac,
        (0..45, Some(port)) => port.mac,
        (82..84, _) => Mac::ZERO,
        (84..86, _) => Mac::new([3, 0, 0, 0, 0, 1]),
        (86..91, _) => random.pick(&members).map_or(Mac::ZERO, |port| port.mac),
        _ => stranger(random),
    };
    let talk = Talk {
        world,
        switch,
        source,
        destination,
        source_mac,
    };
    let (group, mut layers) = talk.body(random);
    let destination_mac = match random.below(100) {
        _ if random.percent(6) => floating_mac(random, switch),
        0..70 => group
            .or(destination.map(|port| port.mac))
            .unwrap_or(Mac::BROADCAST),
        70..84 => destination.map_or(Mac::BROADCAST, |port| port.mac),
        84..92 => stranger(random),
        92..95 => source_mac,
        95 => Mac::new([0x33, 0x33, 0, 0, 0, 1]),
        96 => Mac::new([1, 0x80, 0xc2, 0, 0, random.below(0x12) as u8]),
        _ => Mac::BROADCAST,
    };
    let mut tags = Vec::new();
    while random.percent(if world.spec.switches[switch].is_transparent {
        35
    } else {
        4
    }) {
        tags.push(Layer::Vlan(Tag {
            id: Some(random.below(4096) as u16),
            pcp: Some(random.below(8) as u8),
            dei: Some(random.percent(20)),
            tpid: random.some(20, |_| 0x88a8),
            kind: None,
        }));
    }
    if beside && let Some(Layer::Vlan(first)) = tags.first().cloned() {
        tags[0] = Layer::Tag(first);
    }
    let mut kind = random.some(1, |random| {
        random.of([0, 46, 0x8100, 0x0800, 0x0806, 0x86dd])
    });
    if matches!(layers.first(), Some(Layer::Payload(_))) && random.percent(70) {
        kind = Some(random.of([0x88cc, 0x88f7, 0x8035, 0x88b5]));
    }
    if matches!(layers.first(), Some(Layer::Raw(_))) {
        let length = Some(random.of([0, 8, 0x05dc, 0x05ff, 0x0600]));
        match tags.last_mut() {
            Some(Layer::Vlan(last)) => last.kind = length,
            _ => kind = length,
        }
    }
    let eth = Layer::Eth(Eth {
        src: Some(MacText(source_mac)),
        dst: Some(MacText(destination_mac)),
        kind,
    });
    let at = usize::from(matches!(tags.first(), Some(Layer::Tag(_))));
    tags.insert(at, eth);
    tags.append(&mut layers);
    compose(&tags).unwrap_or_else(|_| Packet::new(vec![0; 60]))
}

impl Talk<'_> {
    /// What the frame carries, and the group address it goes to by its nature.
    fn body(&self, random: &mut Random) -> (Option<Mac>, Vec<Layer>) {
        match random.below(100) {
            0..27 => self.ipv4(random),
            27..30 => (Some(Mac::new([1, 0, 0x5e, 0, 0, 22])), self.igmp(random)),
            30..45 => (Some(Mac::BROADCAST), vec![self.arp(random)]),
            45..95 => ipv6::packet(random, self),
            95..97 => (None, vec![snap(random)]),
            _ => (None, vec![payload(random, 300)]),
        }
    }

    pub(super) fn source_v4(&self, random: &mut Random) -> Ipv4Addr {
        let own = self.source.map_or([198, 18, 100, 77], PortSpec::v4);
        match random.below(100) {
            _ if random.percent(self.shares()) => self.shared_v4(random),
            0..80 => own.into(),
            80..84 => self
                .destination
                .map_or([198, 18, 100, 77], PortSpec::v4)
                .into(),
            84..90 => [0, 0, 0, 0].into(),
            90..92 => self.vtep_v4(random),
            _ => [198, 18, 100, random.below(9) as u8].into(),
        }
    }

    /// How many of a hundred packets have an address that is nobody's own.
    pub(super) fn shares(&self) -> usize {
        let is_allowed = |port: &PortSpec| !port.allowed.addresses.is_empty();
        if self.source.is_some_and(is_allowed) {
            30
        } else {
            4
        }
    }

    /// One that floats, or one of the same network that nobody has.
    pub(super) fn shared_v4(&self, random: &mut Random) -> Ipv4Addr {
        [198, 18, 100 + self.switch as u8, random.of([200, 200, 150])].into()
    }

    /// The same; or a link-local address that is made from a floating MAC, or from none.
    pub(super) fn shared_v6(&self, random: &mut Random) -> Ipv6Addr {
        let switch = self.switch as u16;
        match random.below(6) {
            0 => link_local(floating_mac(random, self.switch)),
            1 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7),
            2 => Ipv6Addr::new(0x2001, 2, 1, switch, 0, 0, 0, 0x96),
            3 => self.shared_v4(random).to_ipv6_mapped(),
            _ => Ipv6Addr::new(0x2001, 2, 1, switch, 0, 0, 0, 0xc8),
        }
    }

    fn vtep_v4(&self, random: &mut Random) -> Ipv4Addr {
        let hosts = self.world.spec.hosts;
        [198, 18, 0, 1 + random.below(hosts + 1) as u8].into()
    }

    /// Who joins or leaves a group, or nearly so.
    fn igmp(&self, random: &mut Random) -> Vec<Layer> {
        let ip = Ip4 {
            src: Some(if random.percent(70) {
                [0, 0, 0, 0].into()
            } else {
                self.source_v4(random)
            }),
            dst: Some(
                random
                    .of([[224, 0, 0, 22], [239, 1, 2, 3], [198, 18, 100, 9]])
                    .into(),
            ),
            ttl: Some(random.of([1, 1, 1, 2, 64])),
            protocol: Some(2),
            mf: random.some(8, |_| true),
            ..Ip4::default()
        };
        let kind = random.of([0x11, 0x12, 0x16, 0x17, 0x22]);
        let hex = Some(Hex(vec![kind, 0, 0, 0, 239, 1, 2, 3]));
        vec![Layer::Ip4(ip), Layer::Raw(Raw { hex })]
    }

    fn ipv4(&self, random: &mut Random) -> (Option<Mac>, Vec<Layer>) {
        let dhcp = random.percent(18);
        let mut ip = Ip4 {
            src: Some(self.source_v4(random)),
            dst: Some(self.destination.map_or([255; 4], PortSpec::v4).into()),
            ecn: Some(random.below(4) as u8),
            dscp: random.some(40, |random| random.below(64) as u8),
            ttl: Some(random.of([0, 1, 64, 255])),
            id: Some(random.below(3) as u16),
            df: Some(random.percent(50)),
            ..Ip4::default()
        };
        let is_broadcast = dhcp && random.percent(50);
        if is_broadcast {
            ip.dst = Some([255; 4].into());
        }
        if random.percent(4) {
            ip.dst = Some(self.vtep_v4(random));
        }
        if random.percent(8) {
            ip.mf = Some(random.percent(50));
            ip.offset = Some(random.of([0, 1, 5]));
        }
        if random.percent(6) {
            ip.options = Some(Hex(vec![1; 4 * (1 + random.below(10))]));
        }
        match random.below(100) {
            0 => ip.total_len = Some(random.of([0, 19, 20, 21, 65_535])),
            1 => ip.ihl = Some(random.of([0, 4, 6, 15])),
            2 => ip.version = Some(random.of([0, 5, 6])),
            _ => {}
        }
        let transport = match random.below(10) {
            _ if dhcp => Layer::Udp(udp(
                random,
                [(68, 67), (67, 68), (67, 9), (9, 68), (547, 546)],
            )),
            0..4 => Layer::Udp(udp(
                random,
                [(53, 1234), (1234, 53), (4789, 4789), (40_000, 6081)],
            )),
            4..7 => Layer::Tcp(tcp(random)),
            7..9 => Layer::Icmp4(Icmp::default()),
            _ => Layer::Payload(Payload::default()),
        };
        if matches!(transport, Layer::Payload(_)) {
            ip.protocol = Some(random.of([0, 1, 2, 6, 17, 47, 58, 132]));
        }
        let ip_len = 20 + ip.options.as_ref().map_or(0, |options| options.0.len());
        let layers = vec![Layer::Ip4(ip), transport, self.payload(random, ip_len)];
        (is_broadcast.then_some(Mac::BROADCAST), layers)
    }

    /// Short mostly; now and then as long as the underlay takes.
    pub(super) fn payload(&self, random: &mut Random, headers: usize) -> Layer {
        if random.percent(10) {
            let size = self.world.long(random, headers + 14 + 8);
            return Layer::Payload(Payload {
                size: Some(size),
                ..Payload::default()
            });
        }
        payload(random, 60)
    }

    fn arp(&self, random: &mut Random) -> Layer {
        let target = self.destination.map_or([198, 18, 100, 99], PortSpec::v4);
        let mut arp = Arp {
            op: Some(match random.below(10) {
                0..7 => ArpOp::Request,
                7..9 => ArpOp::Reply,
                _ => ArpOp::Number(random.of([0, 3, 8])),
            }),
            sha: random.some(10, |random| MacText(stranger(random))),
            spa: Some(self.source_v4(random)),
            tha: random.some(20, |random| MacText(stranger(random))),
            tpa: Some(if random.percent(85) {
                target.into()
            } else {
                self.source_v4(random)
            }),
            ..Arp::default()
        };
        match random.below(60) {
            0 => arp.htype = Some(6),
            1 => arp.ptype = Some(0x86dd),
            2 => arp.hlen = Some(8),
            3 => arp.plen = Some(16),
            _ => {}
        }
        Layer::Arp(arp)
    }
}

/// Bytes of no meaning, at most `most`.
pub(super) fn payload(random: &mut Random, most: usize) -> Layer {
    Layer::Payload(Payload {
        size: Some(random.below(most + 1)),
        ..Payload::default()
    })
}

/// A SNAP header behind a length, or nearly one.
fn snap(random: &mut Random) -> Layer {
    let mut bytes = vec![0xaa, 0xaa, 3, 0, 0, random.of([0, 0xf8]), 8, 0, 0x45];
    if random.percent(30) {
        bytes[random.below(6)] ^= 1 << random.below(8);
    }
    if random.percent(20) {
        bytes.truncate(4 + random.below(4));
    }
    Layer::Raw(Raw {
        hex: Some(Hex(bytes)),
    })
}

/// A datagram between two ports.
pub(super) fn udp<const N: usize>(random: &mut Random, ports: [(u16, u16); N]) -> Udp {
    let (src, dst) = random.of(ports);
    Udp {
        src: Some(src),
        dst: Some(dst),
        checksum: random.some(10, |_| 0),
        length: random.some(3, |random| random.of([0, 7, 8, 9000])),
    }
}

/// A segment.
pub(super) fn tcp(random: &mut Random) -> Tcp {
    let is_syn = random.percent(30);
    Tcp {
        flags: is_syn.then(|| random.of(["S", "S", "SA", "SEC"]).to_owned()),
        options: random.some(if is_syn { 80 } else { 10 }, tcp_options::of_syn),
        src: Some(random.number() as u16),
        dst: Some(random.of([22, 80, 443])),
        seq: Some(random.number() as u32),
        data_offset: random.some(3, |random| random.below(16) as u8),
        ..Tcp::default()
    }
}

/// The link-local address made from a MAC (RFC 4291 appendix A).
pub(super) fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.get();
    Ipv6Addr::from([
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ])
}
