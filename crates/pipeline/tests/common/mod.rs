//! A fabric of three hosts, and packets for it.

#![allow(dead_code)] // each test uses its part
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use overlane_model::{Fabric, Hook, Tables, Verdict};
use overlane_pipeline::{Entry, Gso, GsoKind, Host, Outcome, Output, Packet, State};
use overlane_wire::checksum::{Sum, checksum};
use overlane_wire::ethernet::Tag;
use overlane_wire::{Mac, VlanTag};

/// `{tunnel}` and `{b1}` stand for what a test adds.
const FABRIC: &str = "
version: 1
tunnel: { TUNNEL }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
  h3: { underlay: 198.18.0.3, uplink: eth1 }
switches:
  blue: { vni: 5001 }
  green: { vni: 5002, unknown_unicast: flood, vlan: transparent }
  base: { uplink_vlan: 100 }
ports:
  a1: { switch: blue, host: h1, device: v1, mac: '02:00:00:00:00:11', key: 1, addresses: [198.18.100.1, '2001:2::1'], A1 }
  a2: { switch: blue, host: h1, device: v2, mac: '02:00:00:00:00:12', key: 2, addresses: [198.18.100.2, '2001:2::2'] }
  b1: { switch: blue, host: h2, device: v1, mac: '02:00:00:00:00:21', key: 3, addresses: [198.18.100.3, '2001:2::3'] }
  c1: { switch: blue, host: h3, device: v1, mac: '02:00:00:00:00:31', key: 4, addresses: [198.18.100.4] }
  ga: { switch: green, host: h1, device: v3, mac: '02:00:00:00:01:11', key: 1, GA }
  gd: { switch: green, host: h1, device: v4, mac: '02:00:00:00:01:12', key: 2, security: off }
  gb: { switch: green, host: h2, device: v3, mac: '02:00:00:00:01:21', key: 3 }
  ta: { switch: base, host: h1, device: v5, vlan: 10, mac: '02:00:00:00:02:11', key: 1, addresses: [198.18.102.1] }
  td: { switch: base, host: h1, device: v6, mac: '02:00:00:00:02:12', key: 2, addresses: [198.18.102.2] }
  tb: { switch: base, host: h2, device: v5, mac: '02:00:00:00:02:21', key: 3, addresses: [198.18.102.3] }
  tu: { switch: blue, host: h1, device: v5, mac: '02:00:00:00:00:13', key: 5, addresses: [198.18.100.5] }
";

pub(crate) const A1: &str = "02:00:00:00:00:11";
pub(crate) const A2: &str = "02:00:00:00:00:12";
pub(crate) const B1: &str = "02:00:00:00:00:21";
pub(crate) const GA: &str = "02:00:00:00:01:11";
pub(crate) const GD: &str = "02:00:00:00:01:12";
pub(crate) const GB: &str = "02:00:00:00:01:21";
pub(crate) const TA: &str = "02:00:00:00:02:11";
pub(crate) const TD: &str = "02:00:00:00:02:12";
pub(crate) const TB: &str = "02:00:00:00:02:21";
pub(crate) const BROADCAST: &str = "ff:ff:ff:ff:ff:ff";
pub(crate) const SECOND: u64 = 1_000_000_000;

/// One host with its state and clock.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) host: Host,
    pub(crate) state: State,
    pub(crate) now_ns: u64,
}

/// What a test changes in the fabric.
#[derive(Default)]
pub(crate) struct With {
    pub(crate) tunnel: &'static str,
    pub(crate) a1: &'static str,
    pub(crate) ga: &'static str,
    pub(crate) six: bool,
    pub(crate) mtu: Option<u32>,
}

impl Net {
    pub(crate) fn new() -> Self {
        Self::with(With::default())
    }

    pub(crate) fn geneve() -> Self {
        Self::with(With {
            tunnel: "encapsulation: geneve",
            ..With::default()
        })
    }

    pub(crate) fn with(with: With) -> Self {
        let host = Host::new(tables("h1", &with), with.mtu.unwrap_or(1500));
        Self {
            host,
            state: State::new(),
            now_ns: 0,
        }
    }

    pub(crate) fn run(&mut self, entry: &Entry, packet: &Packet) -> Outcome {
        let outcome = self.host.run(&mut self.state, self.now_ns, entry, packet);
        check_consistency(&outcome, packet);
        outcome
    }

    pub(crate) fn from(&mut self, device: &str, bytes: Vec<u8>) -> Outcome {
        self.run(&port(device), &Packet::new(bytes))
    }

    pub(crate) fn on_uplink(&mut self, bytes: Vec<u8>) -> Outcome {
        self.run(&Entry::Underlay, &Packet::new(bytes))
    }

    pub(crate) fn verdict(&mut self, device: &str, bytes: Vec<u8>) -> Verdict {
        self.from(device, bytes).verdict
    }
}

pub(crate) fn tables(host: &str, with: &With) -> Tables {
    let mut text = FABRIC.to_owned();
    if with.six {
        for n in 1..=3 {
            text = text.replace(&format!("198.18.0.{n},"), &format!("'2001:2::f{n}',"));
        }
    }
    let six = if with.six {
        ", udp6_zero_checksum: true"
    } else {
        ""
    };
    let tunnel = match with.tunnel {
        "" => "encapsulation: vxlan",
        tunnel => tunnel,
    };
    let text = text.replace("TUNNEL", &format!("{tunnel}{six}"));
    let text = text
        .replace(", A1 }", &format!(", {} }}", with.a1))
        .replace(",  }", " }");
    let ga = match with.ga {
        "" => "security: off",
        ga => ga,
    };
    let text = text.replace(", GA }", &format!(", {ga} }}"));
    let fabric = Fabric::parse("test.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    fabric.compile(host).unwrap()
}

pub(crate) fn port(device: &str) -> Entry {
    Entry::Port(device.parse().unwrap())
}

/// What holds for every packet: one verdict, counted once, and sums that add up.
pub(crate) fn check_consistency(outcome: &Outcome, packet: &Packet) {
    let counters = &outcome.counters;
    let verdicts: Vec<_> = counters.verdicts.iter().collect();
    let [((hook, verdict), counter)] = verdicts[..] else {
        panic!("not one verdict: {verdicts:?}");
    };
    assert_eq!((*hook, *verdict), (outcome.hook, outcome.verdict));
    // Less where padding behind a tunnel packet is cut off.
    assert!(counter.packets == 1 && counter.segments >= 1);
    assert!(counter.bytes <= packet.bytes.len() as u64);
    if outcome.hook != Hook::FromUnderlay {
        assert_eq!(counter.bytes, packet.bytes.len() as u64);
    }
    let dropped = outcome.verdict.is_drop();
    assert!(dropped || counters.port_dropped.is_empty());
    assert!(counters.from_port.len() <= 1 && counters.port_dropped.len() <= 1);
    assert!(counters.port_untold.len() <= counters.port_dropped.len());
    assert!(counters.from_remote.len() + counters.remote_dropped.len() <= 1);
    for counter in counters.from_port.values().chain(counters.to_port.values()) {
        assert_eq!(counter.packets, 1);
    }
    let (mut ports, mut remotes, mut others) = (0, 0, 0);
    for output in &outcome.outputs {
        match output {
            Output::Port { .. } => ports += 1,
            Output::Underlay {
                remote: Some(_), ..
            } => remotes += 1,
            Output::Underlay { remote: None, .. }
            | Output::Segmenter { .. }
            | Output::Leg { .. }
            | Output::Host { .. } => {
                others += 1;
            }
        }
    }
    let sent = match outcome.verdict {
        Verdict::ToHost | Verdict::Segment | Verdict::VlanOut => (0, 0, 1),
        Verdict::ToPort | Verdict::Answer => (1, 0, 0),
        Verdict::Encap => (0, 1, 0),
        Verdict::Flood => (ports, remotes, others.min(1)),
        _ => (ports, 0, 0),
    };
    assert_eq!((ports, remotes, others), sent, "{:?}", outcome.verdict);
    // An answer counts at no port.
    let mut steps = outcome.steps.iter();
    let is_told = steps.any(|step| step.found.contains(" is told by "));
    let answers = usize::from(is_told || outcome.verdict == Verdict::Answer);
    assert_eq!(counters.to_port.len() + answers, ports);
    assert_eq!(counters.to_remote.len(), remotes);
}

pub(crate) fn ports_of(outcome: &Outcome) -> Vec<&str> {
    let outputs = outcome.outputs.iter();
    outputs
        .filter_map(|output| match output {
            Output::Port { port, .. } => Some(port.as_str()),
            _ => None,
        })
        .collect()
}

pub(crate) fn remotes_of(outcome: &Outcome) -> Vec<String> {
    let outputs = outcome.outputs.iter();
    outputs
        .filter_map(|output| match output {
            Output::Underlay { remote, .. } => {
                Some(remote.map_or("vlan".to_owned(), |r| r.to_string()))
            }
            _ => None,
        })
        .collect()
}

/// The only packet that left.
pub(crate) fn sent(outcome: &Outcome) -> &Packet {
    let [output] = &outcome.outputs[..] else {
        panic!("not one output: {outcome:?}");
    };
    match output {
        Output::Port { packet, .. }
        | Output::Underlay { packet, .. }
        | Output::Segmenter { packet }
        | Output::Leg { packet, .. }
        | Output::Host { packet } => packet,
    }
}

pub(crate) fn mac(text: &str) -> Mac {
    text.parse().unwrap()
}

pub(crate) fn tag(vid: u16, pcp: u8) -> Tag {
    Tag {
        service: false,
        tag: VlanTag::new(vid, pcp, false).unwrap(),
    }
}

pub(crate) fn tcp_gso(size: u16, segments: u32) -> Option<Gso> {
    Some(Gso {
        kind: GsoKind::Tcp,
        size,
        segments,
    })
}

pub(crate) fn eth(source: &str, destination: &str, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = [*mac(destination).bytes(), *mac(source).bytes()].concat();
    out.extend(ethertype.to_be_bytes());
    out.extend(payload);
    out
}

/// An IPv4 packet whose second byte is `tos`; `fragment`: flags and offset.
pub(crate) fn ip4_with(
    source: &str,
    destination: &str,
    protocol: u8,
    tos: u8,
    fragment: u16,
    payload: &[u8],
) -> Vec<u8> {
    let [source, destination] = [source, destination].map(|text| text.parse::<Ipv4Addr>().unwrap());
    let mut out = vec![0x45, tos];
    out.extend((20 + payload.len() as u16).to_be_bytes());
    out.extend([0x12, 0x34]);
    out.extend(fragment.to_be_bytes());
    out.extend([64, protocol, 0, 0]);
    out.extend(source.octets());
    out.extend(destination.octets());
    let sum = checksum(&out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(payload);
    out
}

pub(crate) fn ip4(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip4_with(source, destination, protocol, 0, 0, payload)
}

/// `next` and what follows, extension headers among it.
pub(crate) fn ip6(source: &str, destination: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = [source, destination].map(|text| text.parse::<Ipv6Addr>().unwrap());
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([next, 255]);
    out.extend(source.octets());
    out.extend(destination.octets());
    out.extend(payload);
    out
}

/// The group of everybody whose address may be this one.
pub(crate) fn solicited_node(addr: Ipv6Addr) -> String {
    let [.., a, b, c] = addr.octets();
    format!("ff02::1:ff{a:02x}:{b:02x}{c:02x}")
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

pub(crate) fn tcp(
    source: u16,
    destination: u16,
    sequence: u32,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    out.extend(sequence.to_be_bytes());
    out.extend([0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend(payload);
    out
}

/// The transport checksum of a whole frame's packet is right.
pub(crate) fn transport_is_right(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    message: &[u8],
) -> bool {
    let sum = Sum::new().pseudo_header(source, destination, protocol, message.len());
    sum.bytes(message).verifies()
}

/// UDP over IPv4 from a1 to `destination`, of `payload` bytes of data.
pub(crate) fn to(destination: &str, payload: usize) -> Vec<u8> {
    let udp = udp(1000, 2000, &vec![7; payload]);
    eth(
        A1,
        destination,
        0x0800,
        &ip4("198.18.100.1", "198.18.100.3", 17, &udp),
    )
}

/// A tunnel packet over IPv4 whose outer traffic class is `tos`.
pub(crate) fn outer4(source: &str, tos: u8, port: u16, tunnel: &[u8], inner: &[u8]) -> Vec<u8> {
    let udp = udp(50_000, port, &[tunnel, inner].concat());
    let ip = ip4_with(source, "198.18.0.1", 17, tos, 0x4000, &udp);
    eth("02:00:00:00:ff:02", "02:00:00:00:ff:01", 0x0800, &ip)
}

pub(crate) fn vxlan(vni: u32) -> Vec<u8> {
    let [_, a, b, c] = vni.to_be_bytes();
    vec![8, 0, 0, 0, a, b, c, 0]
}

pub(crate) fn geneve(vni: u32, options: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = vni.to_be_bytes();
    let mut out = vec![(options.len() / 4) as u8, 0x40, 0x65, 0x58, a, b, c, 0];
    out.extend(options);
    out
}

pub(crate) fn ovn(source: u16, destination: u16) -> Vec<u8> {
    let mut out = vec![1, 2, 0x80, 1];
    out.extend(source.to_be_bytes());
    out.extend(destination.to_be_bytes());
    out
}

/// A VXLAN packet from h2 in switch blue.
pub(crate) fn from_h2(inner: &[u8]) -> Vec<u8> {
    outer4("198.18.0.2", 0, 4789, &vxlan(5001), inner)
}

/// From `source`, who has `sender`, to `destination`, who has `target`.
fn arp(operation: u8, [source, sender, destination, target]: [&str; 4]) -> Vec<u8> {
    let addr = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    packet.extend(mac(source).bytes());
    packet.extend(addr(sender));
    packet.extend([0; 6]);
    packet.extend(addr(target));
    eth(source, destination, 0x0806, &packet)
}

pub(crate) fn arp_request(source: &str, sender: &str, destination: &str, target: &str) -> Vec<u8> {
    arp(1, [source, sender, destination, target])
}

pub(crate) fn arp_reply(source: &str, sender: &str, destination: &str, target: &str) -> Vec<u8> {
    arp(2, [source, sender, destination, target])
}

/// Solicited, and with the override flag.
pub(crate) fn advertisement(source: &str, addr: &str, destination: &str, to: &str) -> Vec<u8> {
    let target = addr.parse::<Ipv6Addr>().unwrap();
    let mut message = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &target.octets()].concat();
    message.extend([2, 1]);
    message.extend(mac(source).bytes());
    let sum = Sum::new().pseudo_header(target.into(), to.parse().unwrap(), 58, message.len());
    let sum = sum.bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    eth(source, destination, 0x86dd, &ip6(addr, to, 58, &message))
}
