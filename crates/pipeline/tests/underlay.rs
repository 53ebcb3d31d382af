//! Stages of a tunnel packet, each with the nearest packet that passes: vtep_check, tunnel, parse, ecn, ids,
//! decap. Counters: a drop in vtep_check is no remote's.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use overlane_model::Verdict::{self, *};
use overlane_pipeline::Output;

/// To a1 from b1.
fn inner() -> Vec<u8> {
    let udp = udp(1000, 2000, &[7; 30]);
    eth(
        B1,
        A1,
        0x0800,
        &ip4("198.18.100.3", "198.18.100.1", 17, &udp),
    )
}

fn verdict(bytes: Vec<u8>) -> Verdict {
    Net::new().on_uplink(bytes).verdict
}

fn changed(at: usize, to: &[u8]) -> Vec<u8> {
    let mut bytes = from_h2(&inner());
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

/// The same, and the IPv4 checksum right again.
fn changed_ip(at: usize, to: &[u8]) -> Vec<u8> {
    let mut bytes = changed(at, to);
    bytes[24..26].fill(0);
    let sum = overlane_wire::checksum::checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn a_tunnel_packet_reaches_its_port() {
    let mut net = Net::new();
    let packet = from_h2(&inner());
    let outcome = net.on_uplink(packet.clone());
    assert_eq!(outcome.verdict, ToPort);
    assert_eq!(ports_of(&outcome), ["a1"]);
    assert_eq!(sent(&outcome).bytes, inner());
    let from: Vec<_> = outcome.counters.from_remote.values().collect();
    assert_eq!((from[0].packets, from[0].bytes), (1, inner().len() as u64));
    let stages: Vec<_> = outcome.steps.iter().map(|step| step.stage).collect();
    assert_eq!(
        stages,
        [
            "vtep_check",
            "tunnel",
            "parse",
            "l2_lookup",
            "decap",
            "to_port"
        ]
    );
}

#[test]
fn what_is_not_ours_stays_with_the_host() {
    let mut net = Net::new();
    let others = [
        changed(12, &[0x08, 0x06]),
        changed_ip(14, &[0x65]),
        changed_ip(14, &[0x44]),
        changed_ip(20, &[0x40, 1]),
        changed_ip(23, &[6]),
        changed_ip(30, &[198, 18, 0, 9]),
        changed(36, &[0, 53]),
        from_h2(&inner())[..41].to_vec(),
        from_h2(&inner())[..33].to_vec(),
        Vec::new(),
    ];
    for (i, packet) in others.into_iter().enumerate() {
        let outcome = net.on_uplink(packet.clone());
        assert_eq!(outcome.verdict, ToHost, "{i}");
        assert_eq!(sent(&outcome).bytes, packet);
        assert!(matches!(outcome.outputs[0], Output::Host { .. }));
    }
}

#[test]
fn outer_headers_that_are_wrong() {
    assert_eq!(verdict(changed_ip(20, &[0x20, 0])), OuterFragment);
    assert_eq!(verdict(changed(24, &[0, 0])), OuterIpCsum);
    let len = from_h2(&inner()).len() - 34;
    for wrong in [7, len - 1, len + 1] {
        assert_eq!(
            verdict(changed(38, &(wrong as u16).to_be_bytes())),
            OuterLength
        );
    }
    let long = Net::new().on_uplink(changed(38, &(len as u16 + 1).to_be_bytes()));
    assert_eq!(
        long.steps.last().unwrap().found,
        format!("UDP says {} bytes, IP {len}, and {len} are there", len + 1)
    );
    assert_eq!(verdict(changed_ip(16, &[0, 19])), OuterLength);
    assert_eq!(
        verdict(changed_ip(16, &(len as u16 + 21).to_be_bytes())),
        OuterLength
    );
    let mut cut = from_h2(&inner());
    cut.pop();
    assert_eq!(verdict(cut), OuterLength);
    assert_eq!(
        verdict(outer4("198.18.0.9", 0, 4789, &vxlan(5001), &inner())),
        UnknownVtep
    );
    // In this order, and none of them counts at a remote.
    let outcome = Net::new().on_uplink(changed(20, &[0x20, 0]));
    assert_eq!(outcome.verdict, OuterFragment);
    assert!(outcome.counters.remote_dropped.is_empty());
}

#[test]
fn padding_behind_the_packet_is_cut_off() {
    let mut net = Net::new();
    let mut padded = from_h2(&inner());
    padded.extend([0xaa; 20]);
    let outcome = net.on_uplink(padded);
    assert_eq!(sent(&outcome).bytes, inner());
    let counted = outcome.counters.verdicts.values().next().unwrap().bytes;
    assert_eq!(counted, from_h2(&inner()).len() as u64);
}

#[test]
fn ipv4_options_and_udp_checksums_are_accepted() {
    let udp = udp(50_000, 4789, &[vxlan(5001), inner()].concat());
    let mut ip = ip4(
        "198.18.0.2",
        "198.18.0.1",
        17,
        &[&[1, 1, 1, 1][..], &udp].concat(),
    );
    ip[0] = 0x46; // its checksum is wrong now, and not looked at
    ip[26 + 4] = 0xbe; // nor is UDP's
    assert_eq!(verdict(eth(B1, A1, 0x0800, &ip)), ToPort);
}

#[test]
fn ipv6_outer_headers() {
    let with = || With {
        six: true,
        ..With::default()
    };
    let packet = udp(50_000, 4789, &[vxlan(5001), inner()].concat());
    let outer = |next, payload: &[u8]| {
        eth(
            B1,
            A1,
            0x86dd,
            &ip6("2001:2::f2", "2001:2::f1", next, payload),
        )
    };
    let verdict = |bytes| Net::with(with()).on_uplink(bytes).verdict;
    let fragment = |next, offset| [&[next, 0, 0, offset, 0, 0, 0, 1][..], &packet].concat();
    assert_eq!(verdict(outer(17, &packet)), ToPort);
    assert_eq!(verdict(outer(44, &fragment(17, 1))), OuterFragment);
    assert_eq!(verdict(outer(44, &fragment(17, 9))), ToHost);
    assert_eq!(verdict(outer(44, &fragment(6, 1))), ToHost);
    assert_eq!(
        verdict(outer(
            0,
            &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &packet].concat()
        )),
        ToHost
    );
    let mut long = outer(17, &packet);
    long[19] += 1;
    assert_eq!(verdict(long), OuterLength);
    let unknown = eth(
        B1,
        A1,
        0x86dd,
        &ip6("2001:2::f9", "2001:2::f1", 17, &packet),
    );
    assert_eq!(verdict(unknown), UnknownVtep);
}

#[test]
fn vxlan_headers() {
    let send = |tunnel: &[u8]| outer4("198.18.0.2", 0, 4789, tunnel, &inner());
    assert_eq!(
        verdict(outer4("198.18.0.2", 0, 4789, &vxlan(5001)[..7], &[])),
        TunnelHeader
    );
    let mut flags = vxlan(5001);
    flags[0] = 0xf7;
    assert_eq!(verdict(send(&flags)), VxlanFlags);
    assert_eq!(verdict(send(&vxlan(0))), VniZero);
    assert_eq!(verdict(send(&vxlan(5009))), UnknownVni);
    let strict = || With {
        tunnel: "encapsulation: vxlan, strict: true",
        ..With::default()
    };
    assert_eq!(
        Net::with(strict()).on_uplink(send(&vxlan(5001))).verdict,
        ToPort
    );
    for at in [0, 1, 2, 3, 7] {
        let mut reserved = vxlan(5001);
        reserved[at] |= 0x40;
        assert_eq!(verdict(send(&reserved)), ToPort, "{at}");
        assert_eq!(
            Net::with(strict()).on_uplink(send(&reserved)).verdict,
            ReservedBits
        );
    }
    let outcome = Net::new().on_uplink(send(&vxlan(0)));
    assert_eq!(outcome.counters.remote_dropped.len(), 1);
}

#[test]
fn geneve_headers() {
    let send = |tunnel: &[u8]| {
        let packet = outer4("198.18.0.2", 0, 6081, tunnel, &inner());
        Net::geneve().on_uplink(packet).verdict
    };
    let header = |at: usize, value: u8| {
        let mut header = geneve(5001, &[]);
        header[at] = value;
        send(&header)
    };
    let cut = outer4("198.18.0.2", 0, 6081, &geneve(5001, &[])[..7], &[]);
    assert_eq!(Net::geneve().on_uplink(cut).verdict, TunnelHeader);
    let options = outer4(
        "198.18.0.2",
        0,
        6081,
        &[2, 0, 0x65, 0x58, 0, 0x13, 0x89, 0, 1, 2, 3],
        &[],
    );
    assert_eq!(Net::geneve().on_uplink(options).verdict, TunnelHeader);
    assert_eq!(send(&geneve(5001, &[])), ToPort);
    assert_eq!(header(0, 0x40), GeneveVersion);
    assert_eq!(header(1, 0xc0), GeneveControl);
    assert_eq!(header(2, 0x08), GeneveProtocol);
    assert_eq!(header(1, 0x3f), ToPort);
    assert_eq!(header(7, 1), ToPort);
    assert_eq!(send(&geneve(5001, &[0, 1, 2, 1])), GeneveOptions);
    assert_eq!(send(&geneve(5001, &[0, 1, 0x82, 0])), GeneveCritical);
    assert_eq!(send(&geneve(5001, &[0, 1, 0x02, 0])), ToPort);
    assert_eq!(send(&geneve(5001, &[1, 2, 0x80, 0])), GeneveOptionLength);
    assert_eq!(
        send(&geneve(5001, &[&[0, 1, 0x02, 0][..], &ovn(3, 1)].concat())),
        ToPort
    );
    assert_eq!(send(&geneve(0, &ovn(3, 1))), VniZero);
}

#[test]
fn the_option_names_the_destination() {
    let send = |destination, frame: &[u8]| {
        let packet = outer4(
            "198.18.0.2",
            0,
            6081,
            &geneve(5001, &ovn(3, destination)),
            frame,
        );
        Net::geneve().on_uplink(packet)
    };
    // Whatever the frame says itself.
    assert_eq!(ports_of(&send(2, &inner())), ["a2"]);
    // Keys are numbers, those beyond the ports' are marks.
    for (key, shown) in [(2, "to 2"), (0x7fff, "to 32767"), (0x8000, "to 0x8000")] {
        let steps = send(key, &inner()).steps;
        let step = steps.iter().find(|step| step.stage == "tunnel").unwrap();
        let sentence = format!("VNI 5001 is switch blue, from port key 3 {shown}");
        assert_eq!(step.found, sentence);
    }
    assert_eq!(send(9, &inner()).verdict, UnknownPortKey);
    assert_eq!(send(3, &inner()).verdict, UnknownPortKey); // a port of h2
    let broadcast = eth(B1, BROADCAST, 0x1234, &[0; 50]);
    for key in [0, 0x8000, 0xffff] {
        assert_eq!(ports_of(&send(key, &inner())), ["a1"]);
        assert_eq!(ports_of(&send(key, &broadcast)), ["a1", "a2", "tu"]);
    }
    assert_eq!(ports_of(&send(1, &broadcast)), ["a1"]);
}

#[test]
fn nothing_goes_back_to_the_underlay() {
    let to_c1 = eth(B1, "02:00:00:00:00:31", 0x1234, &[0; 50]);
    assert_eq!(verdict(from_h2(&to_c1)), UnknownUnicast);
    // Not even in a switch that floods what nobody has: somebody has it.
    let green = |destination| {
        let frame = eth("02:00:00:00:01:99", destination, 0x1234, &[0; 50]);
        Net::new().on_uplink(outer4("198.18.0.2", 0, 4789, &vxlan(5002), &frame))
    };
    assert_eq!(green(GB).verdict, UnknownUnicast);
    let unknown = green("02:00:00:00:01:98");
    assert_eq!(
        (unknown.verdict, ports_of(&unknown)),
        (Flood, vec!["ga", "gd"])
    );
}

#[test]
fn inner_frames() {
    assert_eq!(verdict(from_h2(&inner()[..13])), InnerTooSmall);
    assert_eq!(verdict(from_h2(&inner()[..33])), InnerIpHeader);
    let tagged = eth(B1, A1, 0x8100, &[0, 5, 8, 0]);
    assert_eq!(verdict(from_h2(&tagged)), VlanTag);
    assert_eq!(
        verdict(from_h2(&eth("01:00:00:00:00:01", A1, 0x1234, &[]))),
        SourceMac
    );
    assert_eq!(
        verdict(from_h2(&eth("00:00:00:00:00:00", A1, 0x1234, &[]))),
        SourceMac
    );
    for last in [0, 0x0f] {
        let group = format!("01:80:c2:00:00:{last:02x}");
        assert_eq!(
            verdict(from_h2(&eth(B1, &group, 0x1234, &[]))),
            ReservedGroup
        );
    }
    let next = eth(B1, "01:80:c2:00:00:10", 0x1234, &[]);
    assert_eq!(verdict(from_h2(&next)), Flood);
    let short = eth(B1, A1, 0x1234, &[1, 2, 3]);
    let outcome = Net::new().on_uplink(from_h2(&short));
    assert_eq!(sent(&outcome).bytes, [short.clone(), vec![0; 17]].concat());
    // Counted as it came.
    assert_eq!(outcome.counters.to_port.values().next().unwrap().bytes, 17);
}

#[test]
fn tags_of_a_transparent_switch() {
    let send =
        |frame: &[u8]| Net::new().on_uplink(outer4("198.18.0.2", 0, 4789, &vxlan(5002), frame));
    let payload = ip4("198.18.1.1", "198.18.1.2", 17, &udp(1, 2, &[0; 30]));
    let tagged = |tpid| eth(GB, GA, tpid, &[&[0xa0, 7, 8, 0][..], &payload].concat());
    for (tpid, service) in [(0x8100, false), (0x88a8, true)] {
        let outcome = send(&tagged(tpid));
        let packet = sent(&outcome);
        assert_eq!(packet.bytes, eth(GB, GA, 0x0800, &payload));
        let mut expected = tag(7, 5);
        expected.service = service;
        assert_eq!(packet.tag, Some(expected));
        assert_eq!(
            outcome.counters.to_port.values().next().unwrap().bytes,
            14 + payload.len() as u64
        );
    }
    assert_eq!(
        send(&eth(GB, GA, 0x8100, &[0, 7, 8])).verdict,
        InnerTooSmall
    );
    assert_eq!(
        send(&eth(GB, GA, 0x8100, &[0, 7, 0x81, 0, 0, 8])).verdict,
        VlanTag
    );
    let wrong_ip = eth(GB, GA, 0x8100, &[0, 7, 8, 0, 0x45]);
    assert_eq!(send(&wrong_ip).verdict, InnerIpHeader);
}

#[test]
fn congestion_marks_reach_the_inner_header() {
    let run = |outer: u8, frame: Vec<u8>| {
        let packet = outer4("198.18.0.2", outer, 4789, &vxlan(5001), &frame);
        Net::new().on_uplink(packet)
    };
    let four = |tos| {
        eth(
            B1,
            A1,
            0x0800,
            &ip4_with("198.18.100.3", "198.18.100.1", 17, tos, 0, &udp(1, 2, &[])),
        )
    };
    // DSCP 46 stays, whatever the outer one is; the checksum is right.
    assert_eq!(sent(&run(0xff, four(0xba))).bytes, four(0xbb));
    assert_eq!(sent(&run(0x01, four(0x02))).bytes, four(0x01));
    assert_eq!(sent(&run(0x02, four(0x01))).bytes, four(0x01));
    assert_eq!(run(0x03, four(0xb8)).verdict, EcnCe);
    let six = |class: u8| {
        let mut frame = eth(
            B1,
            A1,
            0x86dd,
            &ip6("2001:2::3", "2001:2::1", 17, &udp(1, 2, &[])),
        );
        frame[14] = 0x60 | class >> 4;
        frame[15] = class << 4 | 0x0a;
        frame
    };
    assert_eq!(sent(&run(0x03, six(0xba))).bytes, six(0xbb));
    assert_eq!(run(0x03, six(0xb8)).verdict, EcnCe);
    // What is not IP has no such field.
    let arp = eth(B1, A1, 0x0806, &[0; 46]);
    assert_eq!(sent(&run(0x03, arp.clone())).bytes, arp);
    // In a tagged frame likewise.
    let tagged = |tos| {
        let mut frame = four(tos);
        frame.splice(12..12, [0x81, 0, 0, 7]);
        outer4("198.18.0.2", 3, 4789, &vxlan(5002), &frame)
    };
    assert_eq!(Net::new().on_uplink(tagged(0)).verdict, EcnCe);
    let outcome = Net::new().on_uplink(tagged(2));
    assert_eq!(outcome.verdict, Flood);
    assert!(matches!(&outcome.outputs[0], Output::Port { packet, .. } if packet.bytes == four(3)));
}
