//! The cells: one way of a packet each, with the tables it needs.

use std::collections::BTreeMap;
use std::time::Instant;

use overlane_ebpf::Program;
use overlane_ebpf::measure::{Bench, IFINDEX, Variant};
use overlane_ebpf::tables::{Devices, LegDevice, PortDevice, encode};
use overlane_model::{Fabric, Tables};
use overlane_net::netns;
use overlane_pipeline::{Entry, Host, Packet, State};
use overlane_wire::Mac;

use crate::fabrics::{self, Axis, Underlay};
use crate::logical;

const UPLINK: u32 = 1_000_000;
const MTU: u32 = 9000;
const LEG: LegDevice = LegDevice {
    ifindex: UPLINK + 2,
    mac: Mac::new([2, 0, 0, 0xff, 0, 2]),
    mtu: MTU,
    takes_no_mark: false,
};
/// In the physical network.
const OUTSIDE_MAC: Mac = Mac::new([2, 0, 0, 0xff, 0, 3]);
const PAYLOAD: usize = 64;

/// One way of a packet.
pub(crate) struct Cell {
    pub(crate) name: String,
    program: Program,
    bytes: Vec<u8>,
    /// Every packet is of another flow: how many there were.
    pub(crate) flows: Option<std::cell::Cell<u32>>,
}

impl Cell {
    pub(crate) fn new(name: &str, program: Program, bytes: Vec<u8>) -> Self {
        Self {
            name: name.into(),
            program,
            bytes,
            flows: None,
        }
    }

    /// The next packet.
    fn packet(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(flows) = &self.flows {
            let flow = flows.replace(flows.get().wrapping_add(1)).to_be_bytes();
            // Low bytes of the destination address, and the source port.
            bytes[14 + 18] = flow[0];
            bytes[14 + 19] = flow[1];
            bytes[34..36].copy_from_slice(&flow[2..]);
            checksum_header(&mut bytes);
        }
        bytes
    }
}

/// Tables, and who runs packets on them.
pub(crate) struct Loaded {
    pub(crate) name: String,
    executor: Executor,
    pub(crate) cells: Vec<Cell>,
}

enum Executor {
    Ebpf(Bench),
    /// Nothing is measured.
    Nobody,
    Reference(Box<Host>),
}

impl Loaded {
    /// The kernel's programs, where it is they that run here.
    pub(crate) fn bench(&self) -> Option<&Bench> {
        match &self.executor {
            Executor::Ebpf(bench) => Some(bench),
            Executor::Reference(_) | Executor::Nobody => None,
        }
    }

    /// Nanoseconds of one packet: the median of some runs.
    pub(crate) fn run(&self, cell: &Cell, runs: usize) -> f64 {
        match &self.executor {
            Executor::Ebpf(bench) => {
                let mut times: Vec<u32> = (0..runs)
                    .map(|_| {
                        bench
                            .run_ns(cell.program, &cell.packet())
                            .expect("a test run")
                    })
                    .collect();
                times.sort_unstable();
                f64::from(times[times.len() / 2])
            }
            Executor::Reference(host) => reference_ns(host, cell, runs),
            Executor::Nobody => 0.0,
        }
    }
}

fn reference_ns(host: &Host, cell: &Cell, runs: usize) -> f64 {
    let packet = Packet::new(cell.bytes.clone());
    let entry = match cell.program {
        Program::FromUnderlay => Entry::Underlay,
        _ => Entry::Port("d1".parse().expect("a device")),
    };
    let mut state = State::default();
    let start = Instant::now();
    for _ in 0..runs {
        std::hint::black_box(host.decide(&mut state, 0, &entry, &packet));
    }
    start.elapsed().as_nanos() as f64 / runs as f64
}

pub(crate) const VXLAN4: Underlay = Underlay {
    encapsulation: "vxlan",
    v6: false,
};
const KINDS: [(&str, Underlay); 4] = [
    ("vxlan over IPv4", VXLAN4),
    (
        "geneve over IPv4",
        Underlay {
            encapsulation: "geneve",
            v6: false,
        },
    ),
    (
        "vxlan over IPv6",
        Underlay {
            encapsulation: "vxlan",
            v6: true,
        },
    ),
    (
        "geneve over IPv6",
        Underlay {
            encapsulation: "geneve",
            v6: true,
        },
    ),
];
const PLAIN: &str = "vni: 5001";

/// `cargo bench` says so. For `cargo test`, every cell is made, and must be what its name says.
pub(crate) fn measures() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Everything that is measured.
pub(crate) fn load_all() -> Vec<Loaded> {
    let mut sets = Vec::new();
    for (name, underlay) in KINDS {
        sets.push(ebpf(
            name,
            &fabrics::text(&underlay, PLAIN, "", None),
            tunnel_cells,
        ));
    }
    let text = fabrics::text(&VXLAN4, PLAIN, "", None);
    sets.push(ebpf("one switch", &text, other_cells));
    let off = fabrics::text(&VXLAN4, PLAIN, ", security: off", None);
    sets.push(ebpf("security off", &off, |_| {
        vec![from_port("encap", 1, 3)]
    }));
    let vlan = fabrics::text(&VXLAN4, "uplink_vlan: 100", "", None);
    sets.push(ebpf("on a VLAN", &vlan, |_| {
        vec![from_port("vlan_out", 1, 3)]
    }));
    sets.extend(capture_sets(&text));
    let blind = Variant {
        sees_kernel: false,
        ..Variant::default()
    };
    sets.push(loaded("kernel without types", blind, &text, tunnel_cells));
    sets.extend(logical::load_all());
    for (axis, what) in Axis::ALL {
        for count in [1, 100, 10_000] {
            let text = fabrics::text(&VXLAN4, PLAIN, "", Some((axis, count)));
            sets.push(ebpf(&format!("{count} {what}"), &text, tunnel_cells));
        }
    }
    let tables = tables(&text);
    let cells = tunnel_cells(&tables);
    let host = Box::new(Host::new(tables, MTU));
    sets.push(Loaded {
        name: "reference executor".into(),
        executor: Executor::Reference(host),
        cells,
    });
    sets
}

/// What capturing costs: while the question is not even asked, while nobody looks, and while somebody does.
fn capture_sets(text: &str) -> Vec<Loaded> {
    let make = |name: &str, can_capture, on| {
        let variant = Variant {
            can_capture,
            ..Variant::default()
        };
        let set = loaded(name, variant, text, |_| vec![from_port("encap", 1, 3)]);
        if let Some(bench) = set.bench() {
            bench.capture(on).expect("the map can be written");
        }
        set
    };
    vec![
        make("capture compiled out", false, false),
        make("capture off", true, false),
        make("capture on", true, true),
    ]
}

fn tables(text: &str) -> Tables {
    let fabric = Fabric::parse("bench", text).unwrap_or_else(|error| panic!("{error}"));
    fabric.compile("h1").expect("h1 is declared")
}

pub(crate) fn ebpf(name: &str, text: &str, cells: impl Fn(&Tables) -> Vec<Cell>) -> Loaded {
    loaded(name, Variant::default(), text, cells)
}

fn loaded(
    name: &str,
    variant: Variant,
    text: &str,
    cells: impl Fn(&Tables) -> Vec<Cell>,
) -> Loaded {
    let tables = tables(text);
    let cells = cells(&tables);
    check(&tables, &cells);
    let executor = match measures() {
        true => Executor::Ebpf(filled(variant, &tables)),
        false => Executor::Nobody,
    };
    Loaded {
        name: name.to_owned(),
        executor,
        cells,
    }
}

/// The programs with these tables. What is behind a leg has answered.
fn filled(variant: Variant, tables: &Tables) -> Bench {
    let bench = Bench::load(variant).expect("the programs load");
    let contents = encode(tables, &devices(tables)).expect("the tables fit");
    bench.fill(&contents).expect("the maps take them");
    for router in tables
        .routers
        .iter()
        .filter(|router| router.leg().is_some())
    {
        let found = bench.found_behind_leg(router.id, logical::OUTSIDE.into(), OUTSIDE_MAC);
        found.expect("the map takes it");
    }
    bench
}

/// A cell measures what its name says: the reference executor drops its packet only where it should.
fn check(tables: &Tables, cells: &[Cell]) {
    let leg = "leg0".parse().expect("a device");
    let host = Host::new(tables.clone(), MTU).with_leg(&leg, LEG.mac, LEG.mtu);
    let mut state = State::default();
    host.run(
        &mut state,
        0,
        &Entry::Leg(leg),
        &Packet::new(outside_answers()),
    );
    for cell in cells {
        let entry = match cell.program {
            Program::FromUnderlay => Entry::Underlay,
            Program::FromPort => Entry::Port("d1".parse().expect("a device")),
            _ => continue,
        };
        let packet = Packet::new(cell.packet());
        let verdict = host.decide(&mut state.clone(), 0, &entry, &packet).verdict;
        assert_eq!(
            verdict.is_drop(),
            cell.name.starts_with("drop"),
            "{}: {verdict}",
            cell.name
        );
    }
}

/// The port under test is where test runs happen; all others are nowhere.
fn devices(tables: &Tables) -> Devices {
    let mut ports = BTreeMap::new();
    for (number, port) in tables.ports.iter().enumerate() {
        let device = &port.attachment.device;
        let ifindex = if device.as_str() == "d1" {
            IFINDEX
        } else {
            UPLINK + 10 + number as u32
        };
        ports.insert(
            device.clone(),
            PortDevice {
                ifindex,
                peer: true,
                takes_no_mark: false,
                mtu: MTU,
            },
        );
    }
    Devices {
        ports,
        uplink_ifindex: UPLINK,
        underlay_mtu: MTU,
        // Of the namespace in which the programs run.
        netns_cookie: netns::current_cookie().expect("a namespace"),
        segmenter_ifindex: IFINDEX,
        segmenter_out_ifindex: UPLINK + 3,
        unmarker_ifindex: UPLINK + 4,
        coalescer_ifindex: 0,
        port_shared: false,
        secret: 0x5ec2_e7ed,
        cookie_key: [0x5ec2_e7ed; 2],
        legs: BTreeMap::from([("leg0".parse().expect("a device"), LEG)]),
    }
}

fn tunnel_cells(tables: &Tables) -> Vec<Cell> {
    let out = encapsulated(tables);
    vec![
        from_port("encap", 1, 3),
        Cell::new("decap", Program::FromUnderlay, out),
    ]
}

fn other_cells(_: &Tables) -> Vec<Cell> {
    let mut spoofed = from_port("drop (spoofed_ip)", 1, 3);
    spoofed.bytes[14 + 15] ^= 0x80;
    let mut unknown = from_port("drop (unknown_unicast)", 1, 3);
    unknown.bytes[5] = 0xee;
    let mut ours_not = frame(1, 3);
    ours_not[14 + 9] = 6;
    vec![
        Cell::new("floor", Program::FromGroDevice, frame(1, 3)),
        from_port("to_port", 1, 2),
        spoofed,
        unknown,
        Cell::new("answer (ARP)", Program::FromPort, arp_request()),
        Cell::new("to_host", Program::FromUnderlay, ours_not),
    ]
}

fn from_port(name: &str, from: usize, to: usize) -> Cell {
    Cell::new(name, Program::FromPort, frame(from, to))
}

/// A UDP packet of the port under test, to any MAC and address.
pub(crate) fn frame_to(mac: &str, address: [u8; 4]) -> Vec<u8> {
    let mut bytes = frame(1, 3);
    bytes[..6].copy_from_slice(&octets(mac));
    bytes[14 + 16..14 + 20].copy_from_slice(&address);
    checksum_header(&mut bytes);
    bytes
}

/// Of the IPv4 header, which routers look at.
fn checksum_header(bytes: &mut [u8]) {
    bytes[24..26].fill(0);
    let sum = overlane_wire::checksum::checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A UDP packet between two stations.
fn frame(from: usize, to: usize) -> Vec<u8> {
    let mut bytes = [station(to), station(from)].concat();
    bytes.extend([0x08, 0x00, 0x45, 0]);
    let total = 20 + 8 + PAYLOAD as u16;
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend(ip(from));
    bytes.extend(ip(to));
    checksum_header(&mut bytes);
    bytes.extend([0x9c, 0x40, 0x13, 0x89]);
    bytes.extend((8 + PAYLOAD as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend([7; PAYLOAD]);
    bytes
}

fn arp_request() -> Vec<u8> {
    let mut bytes = [vec![0xff; 6], station(1)].concat();
    bytes.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.extend(station(1));
    bytes.extend(ip(1));
    bytes.extend([0; 6]);
    bytes.extend(ip(3));
    bytes
}

/// The machine in the physical network tells the gateway its MAC.
fn outside_answers() -> Vec<u8> {
    let mut bytes = [*LEG.mac.bytes(), *OUTSIDE_MAC.bytes()].concat();
    bytes.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
    bytes.extend(OUTSIDE_MAC.bytes());
    bytes.extend(logical::OUTSIDE);
    bytes.extend(LEG.mac.bytes());
    bytes.extend(logical::LEG);
    bytes
}

fn station(number: usize) -> Vec<u8> {
    octets(&fabrics::mac(number))
}

fn octets(mac: &str) -> Vec<u8> {
    mac.split(':')
        .map(|octet| u8::from_str_radix(octet, 16).expect("an octet"))
        .collect()
}

fn ip(number: usize) -> [u8; 4] {
    let address: std::net::Ipv4Addr = fabrics::address(number).parse().expect("an address");
    address.octets()
}

/// What the other host sends to `p0`, as the reference executor says: the fabric from its side.
fn encapsulated(tables: &Tables) -> Vec<u8> {
    let mut state = State::default();
    let entry = Entry::Port("d1".parse().expect("a device"));
    let there = Host::new(tables.clone(), MTU);
    let outcome = there.decide(&mut state, 0, &entry, &Packet::new(frame(1, 3)));
    let Some(overlane_pipeline::Output::Underlay { packet, .. }) = outcome.outputs.first() else {
        panic!("not encapsulated: {}", outcome.verdict);
    };
    turned(&packet.bytes, tables)
}

/// The same packet on its way back: outer addresses, and the Geneve option's two keys, change places, and
/// the frame inside is that of the other station.
fn turned(bytes: &[u8], tables: &Tables) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let inner = bytes.len() - frame(3, 1).len();
    let (at, len) = if tables.vtep.is_ipv4() {
        (26, 4)
    } else {
        (22, 16)
    };
    let (source, destination) = bytes[at..at + 2 * len].split_at_mut(len);
    source.swap_with_slice(destination);
    if tables.tunnel.encapsulation == overlane_model::Encapsulation::Geneve {
        let (source, destination) = bytes[inner - 4..inner].split_at_mut(2);
        source.swap_with_slice(destination);
    }
    bytes.truncate(inner);
    bytes.extend(frame(3, 1));
    bytes
}
