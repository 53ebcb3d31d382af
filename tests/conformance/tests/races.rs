//! Connections whose packets come on two CPUs at the same moment. Translations that begin then, or are forgotten: no two
//! live ones have one outside end, and each is found from outside. What both ends said: the newest stays.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use overlane_conformance::case::Machine;
use overlane_conformance::say;
use overlane_conformance::test_runner::{TestRunner, obstacle};
use overlane_ebpf::EbpfError;
use overlane_ebpf::abi::firewall::ConnectionKey;
use overlane_ebpf::connections::ConnectionEntry;
use overlane_model::Fabric;
use overlane_pipeline::{Counters, Entry};
use overlane_wire::checksum::{Sum, checksum};

const SECOND: u64 = 1_000_000_000;
/// Of one CPU, in one race.
const FLOWS: u32 = 100_000;
/// So that nearly all ports are taken: each has 64 512.
const PEERS: u32 = 4;

const FABRIC: &str = r#"
version: 1
tunnel: { encapsulation: vxlan }
hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
switches: { blue: { vni: 5001 } }
ports: { vm: { switch: blue, host: h1, device: vm, mac: "02:00:00:00:00:02", addresses: [198.18.100.9], key: 2, security: "off" } }
routers:
  r1:
    mac: "02:00:00:00:00:fe"
    interfaces: { blue: [198.18.100.254/24] }
    routes: [{ to: 198.19.1.0/24, via: 198.19.0.9 }]
    gateway:
      host: h1
      device: phys0
      addresses: [198.19.0.2/24]
      connections: 1048576
      nat:
        - { source: 198.18.100.0/24, outside: 198.19.0.2 }
        - { forward: "198.18.100.9:5060", protocol: udp, outside: "198.19.0.3:5060" }
        - { forward: "198.18.100.9:5060", protocol: udp, outside: "198.19.0.4:5060" }
"#;

/// The last byte of the router's MAC,
const ROUTER: u8 = 0xfe;
/// and of that of its leg's device.
const LEG: u8 = 0xfd;

/// An IPv4 packet in its frame.
fn packet(to: u8, source: [u8; 4], destination: [u8; 4], protocol: u8, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 2, 8, 0];
    let [high, low] = (20 + message.len() as u16).to_be_bytes();
    frame.extend([0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend([source, destination].concat());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(message);
    frame
}

/// A datagram without a checksum.
fn datagram(to: u8, source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Vec<u8> {
    let ports = [source.1.to_be_bytes(), destination.1.to_be_bytes()];
    let message = [&ports.concat()[..], &[0, 8, 0, 0]].concat();
    packet(to, source.0, destination.0, 17, &message)
}

/// One packet of each of so many flows of a guest, from the same ports to the same peers whoever it is.
fn packets(guest: u8, flows: u32) -> Vec<Vec<u8>> {
    let packets = (0..flows).map(|flow| {
        let (port, peer) = ((1024 + flow / PEERS) as u16, (1 + flow % PEERS) as u8);
        datagram(
            ROUTER,
            ([198, 18, 100, guest], port),
            ([198, 19, 1, peer], 53),
        )
    });
    packets.collect()
}

/// One packet of each of so many clients' ports to two outside ends of one inside end.
fn two_ways(ports: u16) -> Vec<Vec<u8>> {
    let packets = (0..ports).flat_map(|port| {
        [3, 4].map(|way| {
            datagram(
                LEG,
                ([198, 19, 1, 1], 1024 + port),
                ([198, 19, 0, way], 5060),
            )
        })
    });
    packets.collect()
}

/// What lives, by its outside end; nothing else is left.
fn outside_ends(kernel: &TestRunner, now_ns: u64) -> BTreeSet<ConnectionKey> {
    let translations = kernel.translations().unwrap();
    let mut ends = BTreeSet::new();
    for entry @ ConnectionEntry { key, value } in kernel.connections().unwrap() {
        if key.router().is_none() || entry.is_expired(now_ns) {
            continue;
        }
        let outside = ConnectionKey {
            local: value.outside,
            local_port: value.outside_port,
            peer_port: value.peer_outside_port(),
            ..key
        };
        assert_eq!(translations.get(&outside), Some(&key), "found from outside");
        assert!(ends.insert(outside), "two have {outside:?}");
    }
    ends
}

fn dropped(counters: &Counters) -> u64 {
    let drops = counters.verdicts.iter();
    let drops = drops.filter(|((_, verdict), _)| verdict.is_drop());
    drops.map(|(_, it)| it.packets).sum()
}

/// Each race has all CPUs.
static RACE: Mutex<()> = Mutex::new(());

/// What the next hop of the leg asks for, so that the gateway knows it: who has 198.19.0.2?
fn question_of_the_next_hop() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, 9, 198, 19, 0, 9]);
    frame.extend([0, 0, 0, 0, 0, 0, 198, 19, 0, 2]);
    frame
}

/// A gateway that knows nothing yet but its next hop. `None`: it cannot be here.
fn gateway(load: fn() -> Result<TestRunner, EbpfError>) -> Option<TestRunner> {
    if let Some(obstacle) = obstacle() {
        say(&format!("SKIPPED races on the eBPF programs: {obstacle}"));
        return None;
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        say("SKIPPED races on the eBPF programs: they need two CPUs");
        return None;
    }
    let fabric = Fabric::parse("races", FABRIC).unwrap_or_else(|errors| panic!("{errors}"));
    let mut kernel = load().unwrap();
    let tables = fabric.compile("h1").unwrap();
    kernel.set_host(&tables, Machine::default()).unwrap();
    let leg = Entry::Leg("phys0".parse().unwrap());
    let lists = [vec![question_of_the_next_hop()]];
    kernel.race(SECOND, &leg, &lists, &nothing).unwrap();
    Some(kernel)
}

/// Each list of packets on a CPU of its own.
fn race(
    kernel: &TestRunner,
    now_ns: u64,
    lists: &[Vec<Vec<u8>>],
    meanwhile: impl Fn(&TestRunner) -> Result<(), EbpfError>,
) {
    let vm = Entry::Port("vm".parse().unwrap());
    (kernel.race(now_ns, &vm, lists, &meanwhile)).unwrap();
}

/// Nothing else happens.
fn nothing(_: &TestRunner) -> Result<(), EbpfError> {
    std::thread::sleep(std::time::Duration::from_millis(10));
    Ok(())
}

#[test]
fn no_two_translations_have_one_outside_end() {
    let _alone = RACE.lock();
    let Some(mut kernel) = gateway(TestRunner::with_all_room) else {
        return;
    };
    let all = |guest| packets(guest, FLOWS);
    // The same guest on both: one translation each, and nothing else is left. Who is second at a port looks for another
    // one, and one in some thousands finds its share of eight groups taken: a flow may find none on both CPUs.
    race(&kernel, SECOND, &[1, 1].map(all), nothing);
    let begun = outside_ends(&kernel, SECOND).len();
    let counters = kernel.counted().unwrap();
    let (lost, told) = (FLOWS as usize - begun, dropped(&counters) as usize);
    let verdicts = &counters.verdicts;
    assert!(lost * 1000 <= FLOWS as usize, "{lost} lost: {verdicts:?}");
    assert!(2 * lost <= told, "{lost} lost, {told} told: {verdicts:?}");
    assert_eq!(kernel.translations().unwrap().len(), begun);
    // Two guests; what the former ones left has expired and is taken over.
    for (round, guests) in [(1, [1, 2]), (2, [3, 4])] {
        let now_ns = round * 10_000 * SECOND;
        kernel.counted().unwrap();
        race(&kernel, now_ns, &guests.map(all), nothing);
        let counters = kernel.counted().unwrap();
        let begun = outside_ends(&kernel, now_ns).len() as u64;
        let refused = 2 * u64::from(FLOWS) - begun;
        // Of 258 048 ends 200 000 are taken.
        assert!(refused * 1000 <= u64::from(FLOWS), "{refused} refused");
        assert_eq!(dropped(&counters), refused, "{:?}", counters.verdicts);
    }
}

/// Two packets of one client to one outside end come on two CPUs, and so do two to the other end: whoever is second
/// joins the first one's connection, and hardly any is dropped.
#[test]
fn what_comes_from_outside_on_two_cpus_is_one_connection() {
    const PORTS: u16 = 20_000;
    let _alone = RACE.lock();
    let Some(mut kernel) = gateway(TestRunner::with_all_room) else {
        return;
    };
    let leg = Entry::Leg("phys0".parse().unwrap());
    kernel.counted().unwrap();
    let lists = [two_ways(PORTS), two_ways(PORTS)];
    (kernel.race(SECOND, &leg, &lists, &nothing)).unwrap();
    assert_eq!(outside_ends(&kernel, SECOND).len(), 2 * usize::from(PORTS));
    assert_eq!(kernel.translations().unwrap().len(), 2 * usize::from(PORTS));
    let counters = kernel.counted().unwrap();
    // Where the one CPU stands still, the other one does not wait for it.
    let most = u64::from(PORTS) / 10;
    assert!(dropped(&counters) < most, "{:?}", counters.verdicts);
}

/// `overlane connections forget` while guests send: it takes no outside end from a translation that lives, and leaves
/// nothing behind.
#[test]
fn what_is_forgotten_meanwhile_leaves_no_end_to_two() {
    const ROUNDS: u64 = 20;
    let _alone = RACE.lock();
    let Some(kernel) = gateway(TestRunner::load) else {
        return;
    };
    let forgotten = AtomicUsize::new(0);
    for round in 1..=ROUNDS {
        let guests = if round % 2 == 0 { [1, 1] } else { [1, 2] };
        let lists = guests.map(|guest| [packets(guest, 1500), packets(guest, 1500)].concat());
        // What the round before left has expired: it begins again while it is forgotten.
        let now_ns = round * 10_000 * SECOND;
        race(&kernel, now_ns, &lists, |kernel| {
            let number = kernel.forget_translations()?;
            forgotten.fetch_add(number, Ordering::Relaxed);
            Ok(())
        });
        outside_ends(&kernel, now_ns);
    }
    assert!(
        forgotten.into_inner() as u64 > 100 * ROUNDS,
        "hardly a race"
    );
    kernel.forget_translations().unwrap();
    assert_eq!(kernel.connections().unwrap(), []);
    assert_eq!(kernel.translations().unwrap(), BTreeMap::new());
}

/// Whoever claimed an entry finds it there when he releases it: else two connections could have its outside end.
#[test]
fn what_a_packet_is_at_work_with_is_left_to_it() {
    const FLOWS: usize = 100;
    let _alone = RACE.lock();
    let Some(kernel) = gateway(TestRunner::load) else {
        return;
    };
    race(&kernel, SECOND, &[packets(1, FLOWS as u32)], nothing);
    kernel.claim_translations().unwrap();
    assert_eq!(kernel.forget_translations().unwrap(), FLOWS);
    assert_eq!(kernel.connections().unwrap(), []);
    assert_eq!(kernel.translations().unwrap().len(), FLOWS);
    kernel.claim_translations().unwrap();
    // Nobody is at work with them any more, and their connections are gone.
    assert_eq!(kernel.forget_translations().unwrap(), 0);
    assert_eq!(kernel.translations().unwrap(), BTreeMap::new());
}

/// TCP between the guest and a peer outside; `port` is the guest's, and its outside one.
fn segment(from_guest: bool, port: u16, flags: u8, seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    let (guest, outside, peer) = ([198, 18, 100, 9], [198, 19, 0, 2], [198, 19, 1, 1]);
    let (to, source, destination, ports) = if from_guest {
        (ROUTER, guest, peer, [port, 80])
    } else {
        (LEG, peer, outside, [80, port])
    };
    let mut message = ports.map(u16::to_be_bytes).concat();
    message.extend([seq, ack].map(u32::to_be_bytes).concat());
    message.extend([0x50, flags]);
    message.extend(WINDOW.to_be_bytes());
    message.resize(20 + payload, 0);
    let sum = Sum::new().pseudo_header(source.into(), destination.into(), 6, message.len());
    let sum = sum.bytes(&message).finish();
    message[16..18].copy_from_slice(&sum.to_be_bytes());
    packet(to, source, destination, 6, &message)
}

const WINDOW: u16 = 60_000;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// One CPU has the newest segment of each connection among old ones, the other one what was sent and acknowledged before
/// it, byte after byte. A connection that forgot the newest would refuse what the peer acknowledges.
#[test]
fn the_newest_that_an_end_said_stays() {
    const CONNECTIONS: u16 = 4000;
    const BYTES: u32 = 100;
    let _alone = RACE.lock();
    let Some(kernel) = gateway(TestRunner::with_all_room) else {
        return;
    };
    let ports = || 1024..1024 + CONNECTIONS;
    let of_each = |from_guest: bool, flags, seq, ack, payload| {
        let segments = ports().map(|port| segment(from_guest, port, flags, seq, ack, payload));
        vec![segments.collect::<Vec<_>>()]
    };
    let leg = Entry::Leg("phys0".parse().unwrap());
    let vm = Entry::Port("vm".parse().unwrap());
    for (entry, list) in [
        (&vm, of_each(true, SYN, 999, 0, 0)),
        (&leg, of_each(false, SYN | ACK, 4999, 1000, 0)),
        (&vm, of_each(true, ACK, 1000, 5000, 0)),
        (&leg, of_each(false, ACK, 5000, 1000, 1000)),
    ] {
        kernel.race(SECOND, entry, &list, &nothing).unwrap();
    }
    let newest = |port| segment(true, port, ACK, 1000, 5000 + 2 * BYTES, 2 * BYTES as usize);
    let old = |port| segment(true, port, ACK, 1000, 5000, 0);
    let growing = |port, by| segment(true, port, ACK, 1000 + by, 5000 + by, 1);
    let of_newest = |port, at| match at == BYTES / 2 {
        true => newest(port),
        false => old(port),
    };
    let first = ports().flat_map(|port| (0..BYTES).map(move |at| of_newest(port, at)));
    let second = ports().flat_map(|port| (0..BYTES).map(move |by| growing(port, by)));
    let lists = [first.collect(), second.collect()];
    race(&kernel, SECOND, &lists, nothing);
    let mut forgot = 0;
    let connections = kernel.connections().unwrap();
    assert_eq!(connections.len(), usize::from(CONNECTIONS));
    for entry in connections {
        let (guest, peer) = (entry.value.local, entry.value.peer);
        let newest = (
            1000 + 2 * BYTES,
            5000 + 2 * BYTES,
            5000 + 2 * BYTES + u32::from(WINDOW),
        );
        forgot += usize::from((guest.end, peer.acked, peer.max_end) != newest);
    }
    assert_eq!(forgot, 0, "of {CONNECTIONS} connections");
}
