//! A fabric with routers on three hosts, and packets for it.

use overlane_model::{Fabric, Verdict};
use overlane_pipeline::{Entry, Host, Outcome, Packet, State};
use overlane_wire::checksum::checksum;

pub(crate) use crate::common::*;

pub(crate) const FABRIC: &str = "
version: 1
tunnel: { encapsulation: geneve }
hosts:
  h1: { underlay: 198.18.0.1, uplink: eth1 }
  h2: { underlay: 198.18.0.2, uplink: eth1 }
  h3: { underlay: 198.18.0.3, uplink: eth1 }
switches:
  a: { vni: 1 }
  b: { vni: 2, neighbours: declared }
  c: { uplink_vlan: 100 }
ports:
  a1: { switch: a, host: h1, device: v1, mac: '02:00:00:00:00:11', key: 1, addresses: [198.18.1.1, '2001:2:0:1::1'] }
  a2: { switch: a, host: h2, device: v1, mac: '02:00:00:00:00:12', key: 2, addresses: [198.18.1.2] }
  b1: { switch: b, host: h1, device: v2, mac: '02:00:00:00:00:21', key: 1, addresses: [198.18.2.1, '2001:2:0:2::1'] }
  b2: { switch: b, host: h2, device: v2, mac: '02:00:00:00:00:22', key: 2, addresses: [198.18.2.2] }
  c1: { switch: c, host: h1, device: v3, mac: '02:00:00:00:00:31', key: 1, addresses: [198.18.3.1] }
  c2: { switch: c, host: h2, device: v3, mac: '02:00:00:00:00:32', key: 2, addresses: [198.18.3.2] }
routers:
  r1:
    mac: '02:00:00:00:00:fe'
    interfaces:
      a: [198.18.1.254/24, '2001:2:0:1::fe/64']
      b: [198.18.2.254/24, '2001:2:0:2::fe/64']
      c: [198.18.3.254/24]
    routes:
      - { to: 0.0.0.0/0, via: 198.19.0.9 }
      - { to: 198.18.8.0/24, via: [198.18.2.1, 198.18.2.2] }
      - { to: 198.18.9.0/24, via: 198.18.2.253 }
    gateway: { host: h3, device: phys0, addresses: [198.19.0.2/24] }
  r2:
    mac: '02:00:00:00:00:fd'
    interfaces:
      b: [198.18.2.253/24]
    routes:
      - { to: 198.18.9.0/24, via: 198.18.2.254 }
      - { to: 198.18.1.0/24, via: 198.18.2.254 }
";

pub(crate) const R1: &str = "02:00:00:00:00:fe";
pub(crate) const R2: &str = "02:00:00:00:00:fd";
pub(crate) const A1: &str = "02:00:00:00:00:11";
pub(crate) const B1: &str = "02:00:00:00:00:21";
pub(crate) const B2: &str = "02:00:00:00:00:22";
pub(crate) const LEG: &str = "02:00:00:00:ff:aa";
pub(crate) const OUTSIDE: &str = "02:00:00:00:ff:bb";
pub(crate) const ICMP: u8 = 1;
pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;

/// One of its hosts, with its state and clock.
pub(crate) struct One {
    pub(crate) host: Host,
    pub(crate) state: State,
    pub(crate) now_ns: u64,
}

pub(crate) fn host(name: &str) -> One {
    host_of(name, FABRIC)
}

/// Of another fabric.
pub(crate) fn host_of(name: &str, fabric: &str) -> One {
    let fabric = Fabric::parse("test.yaml", fabric).unwrap_or_else(|errors| panic!("{errors}"));
    let host = Host::new(fabric.compile(name).unwrap(), 1500);
    One {
        host: host.with_leg(&"phys0".parse().unwrap(), mac(LEG), 1400),
        state: State::new(),
        now_ns: 0,
    }
}

impl One {
    pub(crate) fn run(&mut self, entry: &Entry, packet: &Packet) -> Outcome {
        self.host.run(&mut self.state, self.now_ns, entry, packet)
    }

    pub(crate) fn from(&mut self, device: &str, bytes: Vec<u8>) -> Outcome {
        self.run(&port(device), &Packet::new(bytes))
    }

    pub(crate) fn on_leg(&mut self, bytes: Vec<u8>) -> Outcome {
        self.run(&Entry::Leg("phys0".parse().unwrap()), &Packet::new(bytes))
    }
}

/// From a1 to the router.
pub(crate) fn to(destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    eth(
        A1,
        R1,
        0x0800,
        &ip4("198.18.1.1", destination, protocol, payload),
    )
}

pub(crate) fn with_ttl(mut bytes: Vec<u8>, ttl: u8) -> Vec<u8> {
    bytes[22] = ttl;
    bytes[24..26].fill(0);
    let sum = checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// A tunnel packet for the VTEP of another host.
pub(crate) fn for_host(mut packet: Vec<u8>, number: u8) -> Vec<u8> {
    packet[33] = number;
    with_ttl(packet, 64)
}

pub(crate) fn between(mut bytes: Vec<u8>, source: &str, destination: &str) -> Vec<u8> {
    bytes[..6].copy_from_slice(mac(destination).bytes());
    bytes[6..12].copy_from_slice(mac(source).bytes());
    bytes
}

/// An ICMP error about `quoted`, an IP packet, that a1 gets from the router.
pub(crate) fn error(kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
    error_from("198.18.1.254", kind, code, rest, quoted)
}

/// The same from one of its addresses.
pub(crate) fn error_from(from: &str, kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest.to_be_bytes());
    message.extend(&quoted[..quoted.len().min(548)]);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = ip4(from, "198.18.1.1", ICMP, &message);
    ip[4..6].fill(0); // identification
    with_ttl(eth(R1, A1, 0x0800, &ip), 64)
}

pub(crate) fn check_error(outcome: &Outcome, verdict: Verdict, expected: Vec<u8>) {
    assert_eq!(outcome.verdict, verdict, "{:#?}", outcome.steps);
    assert_eq!(ports_of(outcome), ["a1"]);
    assert_eq!(sent(outcome).bytes, expected);
    assert!(outcome.counters.to_port.is_empty());
}

pub(crate) fn interface_key(host: &Host, router: &str, vni: u32) -> u16 {
    let routers = &host.tables().routers;
    let router = routers
        .iter()
        .find(|known| known.name.as_str() == router)
        .unwrap();
    let mut interfaces = router.interfaces.iter();
    interfaces
        .find(|i| i.switch.number() == vni)
        .unwrap()
        .key
        .get()
}
