//! Connections that come from another host, on both executors: which are taken, which stay, where they are, and when
//! there is no place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use overlane_conformance::case::{Machine, Moved};
use overlane_conformance::test_runner::{TestRunner, obstacle};
use overlane_conformance::{reference, say};
use overlane_ebpf::connections::Taken as KernelTaken;
use overlane_model::{Fabric, MovedConnection, MovedMarks, MovedState, Tables};
use overlane_pipeline::{Entry, Packet, State, Taken};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1000 * SECOND;

const FABRIC: &str = r#"
version: 1
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1, connections: 4 } }
switches: { blue: { vni: 5001, firewall: { to_port: drop } } }
ports:
  vm: { switch: blue, host: h1, device: vm, mac: "02:00:00:00:00:02", addresses: [198.18.100.2], key: 2 }
  peer: { switch: blue, host: h1, device: peer, mac: "02:00:00:00:00:03", addresses: [198.18.100.3], key: 3 }
rules: { in: { ports: [peer], direction: to_port, action: allow_stateless } }
"#;

/// A UDP connection of port `vm`, from a local port on.
fn connection(local_port: u16, state: MovedState, idle_s: u64) -> MovedConnection {
    MovedConnection {
        protocol: 17,
        local: IpAddr::from([198, 18, 100, 2]),
        peer: IpAddr::from([198, 18, 100, 3]),
        marks: MovedMarks::Ports(local_port, 53),
        begun_by_peer: false,
        adopted: false,
        answered: state != MovedState::Opening,
        state,
        age_ms: (idle_s + 7) * 1000,
        idle_ms: idle_s * 1000,
        tcp: None,
    }
}

/// Both executors with few places, or the reference alone.
struct Both {
    tables: Tables,
    state: State,
    kernel: Option<TestRunner>,
}

impl Both {
    fn new() -> Self {
        let fabric = Fabric::parse("moved", FABRIC).unwrap_or_else(|errors| panic!("{errors}"));
        let tables = fabric.compile("h1").unwrap();
        let kernel = match obstacle() {
            Some(obstacle) => {
                say(&format!("SKIPPED moved on the eBPF programs: {obstacle}"));
                None
            }
            None => {
                let mut kernel = TestRunner::load().unwrap();
                kernel.set_host(&tables, Machine::default()).unwrap();
                Some(kernel)
            }
        };
        Self {
            tables,
            state: State::new(),
            kernel,
        }
    }

    fn take(&mut self, connection: &MovedConnection, now_ns: u64) -> Taken {
        let port = (self.tables.ports.iter()).find(|port| port.name.as_str() == "vm");
        let port = port.unwrap();
        let taken = self.state.take_over(&self.tables, port, connection, now_ns);
        let port = (port.switch, port.key);
        if let Some(kernel) = &self.kernel {
            let moved = Moved {
                port,
                connections: vec![connection.clone()],
            };
            let theirs = match kernel.take(&moved, now_ns).unwrap()[..] {
                [KernelTaken::Kept] => Taken::Kept,
                [KernelTaken::There] => Taken::There,
                [KernelTaken::Full] => Taken::Full,
                ref other => panic!("{other:?}"),
            };
            assert_eq!(taken, theirs, "reference and eBPF");
        }
        taken
    }

    /// `vm` sends a datagram from a port.
    fn send(&mut self, local_port: u16, now_ns: u64) {
        let frame = datagram(local_port);
        let entry = Entry::Port("vm".parse().unwrap());
        let packet = Packet::new(frame);
        let host = reference::host(&self.tables, Machine::default());
        host.run(&mut self.state, now_ns, &entry, &packet);
        if let Some(kernel) = &mut self.kernel {
            kernel.run(now_ns, &entry, &packet).unwrap();
        }
    }

    /// {local port: (place, begun, seen, version)}, the same on both.
    fn known(&self) -> BTreeMap<u16, (u32, u64, u64, u32)> {
        let ours = self.state.connections().iter();
        let ours: BTreeMap<_, _> = ours
            .map(|(key, it)| {
                (
                    key.local_port,
                    (it.place, it.begun_ns, it.seen_ns, it.version),
                )
            })
            .collect();
        if let Some(kernel) = &self.kernel {
            let theirs = kernel.connections().unwrap();
            let theirs: BTreeMap<_, _> = theirs
                .iter()
                .map(|entry| {
                    let it = entry.value;
                    (
                        u16::from_be(entry.key.local_port),
                        (it.place, it.begun, it.seen, it.version),
                    )
                })
                .collect();
            assert_eq!(ours, theirs, "reference and eBPF");
        }
        ours
    }
}

/// From `vm` to port 53 of `peer`.
fn datagram(local_port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([
        0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0xe6, 0xa2, 198, 18, 100, 2, 198, 18, 100, 3,
    ]);
    frame.extend(local_port.to_be_bytes());
    frame.extend([0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

#[test]
fn each_has_a_place_of_its_own_and_the_age_that_it_had() {
    let mut both = Both::new();
    both.send(1, NOW);
    assert_eq!(
        both.take(&connection(2, MovedState::Established, 60), NOW),
        Taken::Kept
    );
    both.send(3, NOW);
    let known = both.known();
    let (_, begun, seen, version) = known[&2];
    assert_eq!(
        (begun, seen, version),
        (NOW - 67 * SECOND, NOW - 60 * SECOND, 0)
    );
    let places: BTreeSet<_> = known.values().map(|it| it.0).collect();
    assert_eq!(places.len(), 3);
    assert!(known[&1].3 != 0 && known[&1].3 == known[&3].3);
}

#[test]
fn what_the_host_has_itself_stays_and_twice_is_once() {
    let mut both = Both::new();
    both.send(1, NOW);
    let before = both.known();
    let same = connection(1, MovedState::Established, 0);
    assert_eq!(both.take(&same, NOW), Taken::There);
    assert_eq!(both.known(), before);
    let other = connection(2, MovedState::Established, 0);
    assert_eq!(both.take(&other, NOW), Taken::Kept);
    let before = both.known();
    assert_eq!(both.take(&other, NOW + SECOND), Taken::There);
    assert_eq!(both.known(), before);
    // The host's own is over after 120 s: then it is no reason any more.
    assert_eq!(both.take(&same, NOW + 121 * SECOND), Taken::Kept);
    assert_eq!(both.known()[&1].3, 0);
}

#[test]
fn an_established_connection_keeps_its_place_whoever_comes() {
    let mut both = Both::new();
    for port in 1..=3 {
        both.send(port, NOW);
    }
    // What nobody answered makes way, the oldest first; the ones that came are established, and stay where they are.
    for port in 10..=13 {
        assert_eq!(
            both.take(&connection(port, MovedState::Established, 0), NOW),
            Taken::Kept
        );
    }
    let known = both.known();
    assert_eq!(known.keys().copied().collect::<Vec<_>>(), [10, 11, 12, 13]);
    assert_eq!(
        both.take(&connection(14, MovedState::Established, 0), NOW),
        Taken::Full
    );
    assert_eq!(both.known(), known);
    let later = NOW + 31 * SECOND;
    // And those that begin here find no more place than those that came.
    both.send(4, later);
    assert_eq!(both.known(), known);
}
