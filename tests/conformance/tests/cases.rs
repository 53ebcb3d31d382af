//! Every golden case on every executor: on the reference executor all of them; on the eBPF programs in a
//! test run those that the kernel can run on no device.
//!
//! `OVERLANE_CASE=part-of-a-name` runs some of them. `OVERLANE_WRITE=captures` writes the packets of each into cargo's
//! target folder: `target/cases/STAGE/NAME.pcap`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use overlane_conformance::case::{Case, wanted};
use overlane_conformance::compare::{self, failure};
use overlane_conformance::pcap::pcap;
use overlane_conformance::reference;
use overlane_conformance::test_runner::{TestRunner, can_run, obstacle};
use overlane_conformance::wire_runner::cannot_run;
use overlane_conformance::{Written, say};

fn cases() -> Vec<Case> {
    let cases = wanted().unwrap_or_else(|error| panic!("{error}"));
    assert!(!cases.is_empty(), "no case");
    cases
}

/// So many failures are shown.
const MANY: usize = 20;

/// A case with more rules than anybody writes down: 64 words of 64 bits have one summary, and these go beyond.
fn many_rules() -> Case {
    const RULES: usize = 64 * 64 + 130;
    let mut text = r#"title: each of very many rules decides
rules: [ACL-1]
fabric:
  version: 1
  hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
  switches: { blue: { vni: 5001 } }
  ports:
    a1: { switch: blue, host: h1, device: a1, mac: "02:00:00:00:00:01", addresses: [198.18.100.1] }
    a2: { switch: blue, host: h1, device: a2, mac: "02:00:00:00:00:02", addresses: [198.18.100.2] }
  rules:
"#
    .to_owned();
    for number in 1..=RULES {
        writeln!(text, "    r{number}: {{ ports: [a2], direction: to_port, action: drop, services: [udp/{number}] }}").unwrap();
    }
    text += "packets:\n";
    for number in [1, 64, 65, 4096, 4097, 4160, 4161, RULES] {
        write!(
            text,
            r#"  - from: port a1
    packet:
      - eth: {{ src: "02:00:00:00:00:01", dst: "02:00:00:00:00:02" }}
      - ip4: {{ src: 198.18.100.1, dst: 198.18.100.2 }}
      - udp: {{ src: 1000, dst: {number} }}
    verdict: firewall_drop
    counters: {{ rule r{number}: {{ packets: 1 }} }}
"#
        )
        .unwrap();
    }
    Case::parse(Path::new("acl/many-rules.yaml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

/// A case with more stations behind a remote than are learned from the underlay (LEARN-11).
fn many_stations() -> Case {
    const LEARNED: u16 = 4096;
    let mut text =
        r#"title: 4 096 addresses of a switch are learned from the underlay, and not one more
rules: [LEARN-11]
fabric:
  version: 1
  tunnel: { encapsulation: vxlan }
  hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 }, h2: { underlay: 198.18.0.2, uplink: eth1 } }
  switches: { blue: { vni: 5001 } }
  ports:
    a1: { switch: blue, host: h1, device: a1, mac: "02:00:00:00:00:01", learning: true }
    b1: { switch: blue, host: h2, device: b1, mac: "02:00:00:00:00:11" }
packets:
"#
        .to_owned();
    let station = |number: u16| format!("02:00:00:01:{:02x}:{:02x}", number >> 8, number & 0xff);
    // They say something to somebody whom nobody knows: they are learned all the same.
    for number in 0..=LEARNED {
        write!(
            text,
            r#"  - from: underlay
    packet:
      - eth: {{}}
      - ip4: {{ src: 198.18.0.2, dst: 198.18.0.1 }}
      - udp: {{ src: 50000 }}
      - vxlan: {{ vni: 5001 }}
      - eth: {{ src: "{}", dst: "02:00:00:00:00:77", type: 0x88b5 }}
    verdict: unknown_unicast
"#,
            station(number)
        )
        .unwrap();
    }
    for (number, verdict) in [(LEARNED - 1, "encap"), (LEARNED, "unknown_unicast")] {
        let layers = format!(
            r#"- eth: {{ src: "02:00:00:00:00:01", dst: "{}", type: 0x88b5 }}"#,
            station(number)
        );
        writeln!(
            text,
            "  - from: port a1\n    packet:\n      {layers}\n    verdict: {verdict}"
        )
        .unwrap();
        if verdict == "encap" {
            write!(
                text,
                r#"    out:
      - to: underlay h2
        packet:
          - eth: {{}}
          - ip4: {{ src: 198.18.0.1, dst: 198.18.0.2, df: true }}
          - udp: {{ src: 49407 }}
          - vxlan: {{ vni: 5001 }}
          {layers}
"#
            )
            .unwrap();
        }
    }
    Case::parse(Path::new("learn/many-stations.yaml"), &text)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A case with more neighbours at a port than are found there, and a minute later one more (NEIGH-7).
fn many_neighbours() -> Case {
    const FOUND: u16 = 1024;
    const MOVES: u16 = 2000;
    let mut text = r#"title: 1 024 neighbours that speak first are found at a port, who is asked for besides, and who is not confirmed for a minute makes room
rules: [NEIGH-7, NEIGH-17]
fabric:
  version: 1
  tunnel: { encapsulation: vxlan }
  hosts: { h1: { underlay: 198.18.0.1, uplink: eth1 } }
  switches: { blue: { vni: 5001 } }
  ports:
    a1: { switch: blue, host: h1, device: a1, mac: "02:00:00:00:00:01" }
    a2: { switch: blue, host: h1, device: a2, mac: "02:00:00:00:00:02" }
  routers:
    r1: { mac: "02:00:00:00:00:fe", interfaces: { blue: [198.19.0.1/16] } }
packets:
"#
    .to_owned();
    const ASKED: &str = r#"  - at: 10
    from: port a2
    packet:
      - eth: { src: "02:00:00:00:00:02", dst: "02:00:00:00:00:fe" }
      - ip4: { src: 198.19.0.2, dst: 198.19.20.1 }
      - udp: {}
    verdict: resolving
    out:
      - to: port a1
        packet: &asked
          - eth: { src: "02:00:00:00:00:fe", dst: "ff:ff:ff:ff:ff:ff" }
          - arp: { spa: 198.19.0.1, tpa: 198.19.20.1 }
      - to: port a2
        packet: *asked
  - at: 10
    from: port a1
    packet:
      - eth: { src: "02:00:00:00:00:01", dst: "02:00:00:00:00:fe" }
      - arp: { op: reply, spa: 198.19.20.1, tpa: 198.19.0.1 }
    verdict: to_router
"#;
    let say = |text: &mut String, at: f64, port: u8, op: &str, number: u16, verdict: &str| {
        write!(
            text,
            r#"  - at: {at}
    from: port a{port}
    packet:
      - eth: {{ src: "02:00:00:00:00:0{port}", dst: "02:00:00:00:00:fe" }}
      - arp: {{ op: {op}, spa: 198.19.{}.{}, tpa: 198.19.0.1 }}
    verdict: {verdict}
"#,
            1 + (number >> 8),
            number & 0xff
        )
        .unwrap();
        if verdict == "answer" {
            write!(
                text,
                r#"    out:
      - to: port a{port}
        packet:
          - eth: {{ src: "02:00:00:00:00:fe", dst: "02:00:00:00:00:0{port}" }}
          - arp: {{ op: reply, spa: 198.19.0.1, tha: "02:00:00:00:00:0{port}", tpa: 198.19.{}.{} }}
"#,
                1 + (number >> 8),
                number & 0xff
            )
            .unwrap();
        }
    };
    say(&mut text, 10.0, 2, "reply", MOVES, "to_router");
    for number in 0..FOUND {
        say(&mut text, 10.0, 1, "reply", number, "to_router");
    }
    say(&mut text, 10.0, 1, "reply", FOUND, "neighbour_limit");
    text.push_str(ASKED);
    say(&mut text, 10.0, 1, "request", FOUND, "answer");
    say(&mut text, 10.0, 1, "reply", FOUND - 1, "to_router");
    // Who is heard at another port counts there.
    say(&mut text, 10.0, 2, "reply", 0, "to_router");
    say(&mut text, 10.0, 1, "reply", FOUND, "to_router");
    say(&mut text, 70.0, 1, "reply", FOUND + 1, "neighbour_limit");
    // It is forgotten among the others that make room for it, and noted anew.
    say(&mut text, 71.0, 1, "reply", MOVES, "to_router");
    say(&mut text, 71.0, 1, "reply", FOUND + 1, "to_router");
    text.push_str(
        r#"  - at: 71
    from: port a2
    packet:
      - eth: { src: "02:00:00:00:00:02", dst: "02:00:00:00:00:fe" }
      - ip4: { src: 198.19.0.2, dst: 198.19.8.208 }
      - udp: {}
    verdict: to_port
    out:
      - to: port a1
        packet:
          - eth: { src: "02:00:00:00:00:fe", dst: "02:00:00:00:00:01" }
          - ip4: { src: 198.19.0.2, dst: 198.19.8.208, ttl: 63 }
          - udp: {}
"#,
    );
    Case::parse(Path::new("neighbour/many-neighbours.yaml"), &text)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Cases that are too long to be written down.
fn made() -> [Case; 3] {
    [many_rules(), many_stations(), many_neighbours()]
}

fn report(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} failures\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[test]
fn every_case_on_the_reference_executor() {
    let mut failures = Vec::new();
    for case in cases().into_iter().chain(made()) {
        for (index, outcome) in reference::run(&case).iter().enumerate() {
            let found = compare::with_case(&case.steps[index], outcome);
            if !found.is_empty() {
                failures.push(failure(&case, index, &found, outcome));
            }
        }
    }
    report(&failures);
}

#[test]
fn every_case_on_the_ebpf_programs() {
    let cases = cases();
    if let Some(obstacle) = obstacle() {
        say(&format!(
            "SKIPPED every_case_on_the_ebpf_programs: {obstacle}"
        ));
        return;
    }
    let mut runner = TestRunner::load().unwrap_or_else(|error| panic!("{error}: {error:#?}"));
    let mut failures = Vec::new();
    let mut ran = 0;
    let made = made();
    for case in cases.iter().chain(&made) {
        // What is learned goes from packet to packet: all of them, or none.
        if !case.steps.iter().all(|step| can_run(&step.packet)) {
            continue;
        }
        if failures.len() >= MANY {
            break;
        }
        ran += usize::from(!made.iter().any(|made| made.name == case.name));
        let outcomes = reference::run(case);
        let differences = runner.differences(case, &outcomes).unwrap();
        for (index, found) in differences.iter().enumerate() {
            if !found.is_empty() {
                failures.push(failure(case, index, found, &outcomes[index]));
            }
        }
    }
    report(&failures);
    let all = cases.len();
    let on_wire = cases.iter().filter(|case| cannot_run(case).is_none());
    say(&format!(
        "{all} cases: reference {all}, test-run {ran}, wire {} (tests/wire.rs)",
        on_wire.count()
    ));
}

/// Writes nothing unless it is asked to. `src/pcap.rs` shows that what is written can be read.
#[test]
fn captures_are_written_for_those_who_ask() {
    if Written::asked().unwrap_or_else(|error| panic!("{error}")) != Some(Written::Captures) {
        return;
    }
    // Cargo says where its target folder is by the folder for files of tests in it.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("cases");
    let cases = cases();
    if std::env::var("OVERLANE_CASE")
        .unwrap_or_default()
        .is_empty()
        && folder.exists()
    {
        // None of a case that is gone stays.
        fs::remove_dir_all(&folder).unwrap();
    }
    for case in &cases {
        let file = folder.join(format!("{}.pcap", case.name));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, pcap(case)).unwrap();
    }
    say(&format!("{} captures in {}", cases.len(), folder.display()));
}
