//! A gateway that translates, and packets with right checksums for it.

use std::net::IpAddr;

use overlane_model::{Fabric, Verdict};
use overlane_pipeline::{Entry, Host, Outcome, Output, Packet, State};
use overlane_wire::checksum::{Sum, checksum};

pub(crate) use crate::common::*;

/// The gateway's host has the guests itself: each test is one hook's work.
pub(crate) const FABRIC: &str = "
version: 1
tunnel: { encapsulation: vxlan }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
switches:
  a: { vni: 1 }
ports:
  a1: { switch: a, host: h1, device: v1, mac: '02:00:00:00:00:11', key: 1, addresses: [198.18.1.1, '2001:2:0:1::1'] }
  a2: { switch: a, host: h1, device: v2, mac: '02:00:00:00:00:12', key: 2, addresses: [198.18.1.2] }
  a3: { switch: a, host: h2, device: v1, mac: '02:00:00:00:00:13', key: 3, addresses: [198.18.1.3] }
routers:
  r1:
    mac: '02:00:00:00:00:fe'
    interfaces:
      a: [198.18.1.254/24, '2001:2:0:1::fe/64']
    routes:
      - { to: 0.0.0.0/0, via: 198.19.0.9 }
      - { to: '::/0', via: '2001:2:0:9::9' }
    gateway:
      host: h1
      device: phys0
      addresses: [198.19.0.2/24, '2001:2:0:9::2/64']
      nat:
        - { forward: '198.18.1.2:80', protocol: tcp, outside: '198.19.0.2:8080' }
        - { one_to_one: '2001:2:0:1::1', outside: '2001:2:0:9::10' }
        - { one_to_one: 198.18.1.3, outside: 198.19.0.10 }
        - { source: 198.18.1.0/24, outside: 198.19.0.2, ports: 5000-5001 }
";

pub(crate) const R1: &str = "02:00:00:00:00:fe";
pub(crate) const A1: &str = "02:00:00:00:00:11";
pub(crate) const A2: &str = "02:00:00:00:00:12";
pub(crate) const A3: &str = "02:00:00:00:00:13";
pub(crate) const LEG: &str = "02:00:00:00:ff:aa";
pub(crate) const OUTSIDE: &str = "02:00:00:00:ff:bb";
pub(crate) const PEER: &str = "198.19.7.7";
pub(crate) const NAT: &str = "198.19.0.2";
pub(crate) const SIX_INSIDE: &str = "2001:2:0:1::1";
pub(crate) const SIX_OUTSIDE: &str = "2001:2:0:9::10";
pub(crate) const SIX_PEER: &str = "2001:2:0:7::7";
pub(crate) const ICMP: u8 = 1;
pub(crate) const GRE: u8 = 47;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP6: u8 = 58;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const SYN_ACK: u8 = 0x12;
pub(crate) const ACK: u8 = 0x10;

/// The gateway's host, with its state and clock.
pub(crate) struct Gateway {
    pub(crate) host: Host,
    pub(crate) state: State,
    pub(crate) now_ns: u64,
}

impl Gateway {
    pub(crate) fn new() -> Self {
        Self::of(FABRIC)
    }

    /// With another fabric.
    pub(crate) fn of(fabric: &str) -> Self {
        let fabric = Fabric::parse("test.yaml", fabric).unwrap_or_else(|errors| panic!("{errors}"));
        let host = Host::new(fabric.compile("h1").unwrap(), 1500);
        let mut gateway = Self {
            host: host.with_leg(&"phys0".parse().unwrap(), mac(LEG), 1500),
            state: State::new(),
            now_ns: 0,
        };
        gateway.next_hops_answer();
        gateway
    }

    /// So the gateway knows their MACs.
    pub(crate) fn next_hops_answer(&mut self) {
        let leg = Entry::Leg("phys0".parse().unwrap());
        let arp = arp_reply(OUTSIDE, "198.19.0.9", LEG, NAT);
        let nd = advertisement(OUTSIDE, "2001:2:0:9::9", LEG, "2001:2:0:9::2");
        for answer in [arp, nd] {
            assert_eq!(self.run(&leg, answer).verdict, Verdict::ToRouter);
        }
    }

    pub(crate) fn run(&mut self, entry: &Entry, bytes: Vec<u8>) -> Outcome {
        let packet = Packet::new(bytes);
        self.host.run(&mut self.state, self.now_ns, entry, &packet)
    }

    /// What leaves by the leg, from its IP header on.
    pub(crate) fn out(&mut self, ip: Vec<u8>) -> Result<Vec<u8>, Verdict> {
        let (device, source) = match ip[15] {
            2 => ("v2", A2),
            _ => ("v1", A1),
        };
        let ethertype = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        self.next_hops_answer();
        let outcome = self.run(&port(device), eth(source, R1, ethertype, &ip));
        match &outcome.outputs[..] {
            [Output::Leg { packet, .. }] if outcome.verdict == Verdict::LegOut => {
                Ok(checked(&packet.bytes))
            }
            _ => Err(outcome.verdict),
        }
    }

    /// What a guest gets, from its IP header on.
    pub(crate) fn back(&mut self, ip: &[u8]) -> Result<Vec<u8>, Verdict> {
        let outcome = self.on_leg(ip);
        match &outcome.outputs[..] {
            [Output::Port { packet, .. }] if outcome.verdict == Verdict::ToPort => {
                Ok(checked(&packet.bytes))
            }
            _ => Err(outcome.verdict),
        }
    }

    pub(crate) fn on_leg(&mut self, ip: &[u8]) -> Outcome {
        let ethertype = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        let leg = Entry::Leg("phys0".parse().unwrap());
        self.run(&leg, eth(OUTSIDE, LEG, ethertype, ip))
    }
}

pub(crate) fn addresses(ip: &[u8]) -> (IpAddr, IpAddr) {
    match ip[0] >> 4 {
        4 => {
            let addr = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap());
            (addr(12), addr(16))
        }
        _ => {
            let addr = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap());
            (addr(8), addr(24))
        }
    }
}

/// The IP packet of a frame, whose checksums must all be right; and of what it quotes.
pub(crate) fn checked(frame: &[u8]) -> Vec<u8> {
    check(&frame[14..]);
    frame[14..].to_vec()
}

pub(crate) fn check(ip: &[u8]) {
    let is_v4 = ip[0] >> 4 == 4;
    let (protocol, message) = if is_v4 {
        (ip[9], &ip[20..])
    } else {
        (ip[6], &ip[40..])
    };
    if is_v4 {
        assert_eq!(checksum(&ip[..20]), 0, "IPv4 header");
    }
    let (source, destination) = addresses(ip);
    let is_fragment = is_v4 && (ip[6] & 0x3f, ip[7]) != (0, 0);
    let is_whole = !is_v4 || usize::from(u16::from_be_bytes([ip[2], ip[3]])) == ip.len();
    if is_fragment || !is_whole {
        return;
    }
    match protocol {
        ICMP => assert_eq!(checksum(message), 0, "ICMP"),
        GRE => {}
        _ => assert!(
            transport_is_right(source, destination, protocol, message),
            "{protocol}"
        ),
    }
    if (protocol == ICMP && message[0] == 3) || (protocol == ICMP6 && message[0] == 1) {
        check(&message[8..]);
    }
}

/// An IP packet with a right transport checksum.
pub(crate) fn ip(source: &str, destination: &str, protocol: u8, mut message: Vec<u8>) -> Vec<u8> {
    let [from, to] = [source, destination].map(|addr| addr.parse::<IpAddr>().unwrap());
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    };
    message[at..at + 2].fill(0);
    let sum = match protocol {
        ICMP => Sum::new(),
        _ => Sum::new().pseudo_header(from, to, protocol, message.len()),
    };
    let sum = sum.bytes(&message).finish();
    message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    match from {
        IpAddr::V4(_) => ip4(source, destination, protocol, &message),
        IpAddr::V6(_) => ip6(source, destination, protocol, &message),
    }
}

pub(crate) fn segment(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    tcp(source, destination, 100, flags, b"")
}

pub(crate) fn acknowledging(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut segment = tcp(source, destination, 900, flags, b"");
    segment[8..12].copy_from_slice(&101_u32.to_be_bytes());
    segment
}

pub(crate) fn ports(ip: &[u8]) -> (u16, u16) {
    let at = if ip[0] >> 4 == 4 { 20 } else { 40 };
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    (word(at), word(at + 2))
}

pub(crate) fn without_ttl(mut ip: Vec<u8>) -> Vec<u8> {
    match ip[0] >> 4 {
        4 => ip[8..12].fill(0),
        _ => ip[7] = 0,
    }
    ip
}

pub(crate) fn same(found: Result<Vec<u8>, Verdict>, expected: Vec<u8>) {
    assert_eq!(without_ttl(found.unwrap()), without_ttl(expected));
}

/// An ICMP error about `quoted`.
pub(crate) fn error(source: &str, destination: &str, quoted: &[u8]) -> Vec<u8> {
    let (protocol, kind) = match quoted[0] >> 4 {
        4 => (ICMP, 3),
        _ => (ICMP6, 1),
    };
    let message = [&[kind, 1, 0, 0, 0, 0, 0, 0], quoted].concat();
    ip(source, destination, protocol, message)
}
