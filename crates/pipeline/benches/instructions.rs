//! The reference executor in instructions per packet: counted by Valgrind, so the same on a busy machine.
//! `make bench`; the figures are comparable between two commits on one machine.

#![allow(
    missing_docs,
    unused_qualifications,
    clippy::unwrap_used,
    clippy::panic
)]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use overlane_model::Fabric;
use overlane_pipeline::{Entry, Host, Outcome, Packet, State};

const FABRIC: &str = r#"
version: 1
tunnel: { encapsulation: vxlan }
hosts:
  h1: { underlay: 198.18.0.1, uplink: up0 }
  h2: { underlay: 198.18.0.2, uplink: up0 }
switches:
  blue: { vni: 5001 }
ports:
  a1: { switch: blue, host: h1, device: d1, mac: "02:00:00:00:00:01", addresses: [198.19.0.1] }
  a2: { switch: blue, host: h1, device: d2, mac: "02:00:00:00:00:02", addresses: [198.19.0.2] }
  b1: { switch: blue, host: h2, device: d1, mac: "02:00:00:00:00:03", addresses: [198.19.0.3] }
"#;

type Given = (Host, Entry, Packet);

/// A UDP packet from a1 to the station with this number, and the host it enters.
fn setup(to: u8) -> Given {
    let fabric = Fabric::parse("bench", FABRIC).unwrap();
    let host = Host::new(fabric.compile("h1").unwrap(), 1500);
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 1, 8, 0];
    bytes.extend([
        0x45, 0, 0, 92, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 19, 0, 1, 198, 19, 0, to,
    ]);
    bytes.extend([0x9c, 0x40, 0x13, 0x89, 0, 72, 0, 0]);
    bytes.extend([7; 64]);
    (host, Entry::Port("d1".parse().unwrap()), Packet::new(bytes))
}

/// The same packet of the other host, in its tunnel.
fn tunnelled(_: ()) -> Given {
    let fabric = Fabric::parse("bench", FABRIC).unwrap();
    let there = Host::new(fabric.compile("h2").unwrap(), 1500);
    let (here, _, mut packet) = setup(1);
    packet.bytes[11] = 3;
    packet.bytes[29] = 3;
    let entry = Entry::Port("d1".parse().unwrap());
    let outcome = there.decide(&mut State::default(), 0, &entry, &packet);
    match outcome.outputs.into_iter().next() {
        Some(overlane_pipeline::Output::Underlay { packet, .. }) => (here, Entry::Underlay, packet),
        other => panic!("not encapsulated: {other:?}"),
    }
}

#[library_benchmark]
#[bench::encap(setup(3))]
#[bench::to_port(setup(2))]
#[bench::unknown(setup(9))]
#[bench::decap(tunnelled(()))]
fn decide(given: Given) -> (Outcome, Given) {
    let (host, entry, packet) = &given;
    let outcome = host.decide(&mut State::default(), 0, entry, black_box(packet));
    (outcome, given) // taking the tables apart is not counted
}

#[library_benchmark]
#[bench::encap(setup(3))]
fn explain(given: Given) -> (Outcome, Given) {
    let (host, entry, packet) = &given;
    let outcome = host.run(&mut State::default(), 0, entry, black_box(packet));
    (outcome, given)
}

library_benchmark_group!(name = executor, benchmarks = [decide, explain]);
main!(library_benchmark_groups = executor);
