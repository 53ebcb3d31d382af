//! Stages l2_lookup, encap and to_port of frames from a port: bytes of the outer header, sizes, super-packets.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use overlane_model::Verdict::*;
use overlane_pipeline::{Entry, Gso, GsoKind, Output, Packet};
use overlane_wire::checksum::Sum;

/// UDP over IPv4 from a1, so that the frame has `len` bytes.
fn frame(destination: &str, len: usize) -> Vec<u8> {
    to(destination, len - 42)
}

/// TCP from a1 to b1 with `payload` bytes.
fn super_packet(payload: usize, gso: Option<Gso>) -> Packet {
    let tcp = tcp(1000, 80, 1, 0x18, &vec![7; payload]);
    Packet {
        bytes: eth(
            A1,
            B1,
            0x0800,
            &ip4("198.18.100.1", "198.18.100.3", 6, &tcp),
        ),
        tag: None,
        gso,
    }
}

#[test]
fn vxlan_over_ipv4_byte_by_byte() {
    let inner = frame(B1, 60);
    let outcome = Net::new().from("v1", inner.clone());
    assert_eq!(outcome.verdict, Encap);
    assert_eq!(remotes_of(&outcome), ["198.18.0.2"]);
    let bytes = &sent(&outcome).bytes;
    assert_eq!(bytes[..14], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(bytes[14..24], [0x45, 0, 0, 96, 0, 0, 0x40, 0, 64, 17]);
    assert!(Sum::new().bytes(&bytes[14..34]).verifies());
    assert_eq!(bytes[26..34], [198, 18, 0, 1, 198, 18, 0, 2]);
    let source_port = u16::from_be_bytes([bytes[34], bytes[35]]);
    assert!((49_152..).contains(&source_port));
    assert_eq!(bytes[36..42], [0x12, 0xb5, 0, 76, 0, 0]);
    assert_eq!(bytes[42..50], [8, 0, 0, 0, 0, 0x13, 0x89, 0]);
    assert_eq!(bytes[50..], inner);
    let to: Vec<_> = outcome.counters.to_remote.values().collect();
    assert_eq!((to[0].packets, to[0].segments, to[0].bytes), (1, 1, 60));
    assert_eq!(outcome.counters.from_port.len(), 1);
}

#[test]
fn geneve_over_ipv6_byte_by_byte() {
    let mut net = Net::with(With {
        tunnel: "encapsulation: geneve, dscp: 46",
        six: true,
        ..With::default()
    });
    let mut inner = frame(B1, 60);
    inner[15] = 0x29; // CS1 and ECT(1)
    let outcome = net.from("v1", inner.clone());
    let bytes = &sent(&outcome).bytes;
    assert_eq!(bytes[12..22], [0x86, 0xdd, 0x6b, 0x90, 0, 0, 0, 84, 17, 64]);
    assert_eq!(bytes[56..62], [0x17, 0xc1, 0, 84, 0, 0]);
    assert_eq!(
        bytes[62..78],
        [
            2, 0x40, 0x65, 0x58, 0, 0x13, 0x89, 0, 1, 2, 0x80, 1, 0, 1, 0, 3
        ]
    );
    assert_eq!(bytes[78..], inner);
}

#[test]
fn outer_dscp_and_ecn() {
    let outer = |tunnel: &'static str, tos: u8| {
        let mut net = Net::with(With {
            tunnel,
            ..With::default()
        });
        let ip = ip4_with("198.18.100.1", "198.18.100.3", 17, tos, 0, &udp(1, 2, &[]));
        let outcome = net.from("v1", eth(A1, B1, 0x0800, &ip));
        let bytes = sent(&outcome).bytes.clone();
        assert!(Sum::new().bytes(&bytes[14..34]).verifies());
        bytes[15]
    };
    let (default, fixed, copy) = (
        "encapsulation: vxlan",
        "encapsulation: vxlan, dscp: 10",
        "encapsulation: vxlan, dscp: copy",
    );
    for ecn in 0..4 {
        assert_eq!(outer(default, 0xb8 | ecn), ecn);
        assert_eq!(outer(fixed, 0xb8 | ecn), 0x28 | ecn);
        assert_eq!(outer(copy, 0xb8 | ecn), 0xb8 | ecn);
    }
    let arp = eth(A1, B1, 0x1234, &[0xff; 50]);
    let mut net = Net::with(With {
        tunnel: copy,
        ..With::default()
    });
    assert_eq!(sent(&net.from("v1", arp)).bytes[15], 0);
}

#[test]
fn flows_keep_their_source_port() {
    let mut net = Net::new();
    let mut port_of = |ip: &[u8]| {
        let outcome = net.from("v1", eth(A1, B1, 0x0800, ip));
        [sent(&outcome).bytes[34], sent(&outcome).bytes[35]]
    };
    let packet = |ports: (u16, u16), fragment, payload: &[u8]| {
        let udp = udp(ports.0, ports.1, payload);
        ip4_with("198.18.100.1", "198.18.100.3", 17, 0, fragment, &udp)
    };
    let one = port_of(&packet((1, 2), 0, &[]));
    assert_eq!(port_of(&packet((1, 2), 0, &[9; 99])), one);
    assert_ne!(port_of(&packet((2, 1), 0, &[])), one);
    // Fragments of one datagram go together: none has ports.
    let first = port_of(&packet((1, 2), 0x2000, &[]));
    assert_eq!(port_of(&packet((7, 7), 0x0001, &[])), first);
    assert_ne!(first, one);
}

#[test]
fn the_underlay_mtu_to_the_byte() {
    for (tunnel, six, largest) in [
        ("encapsulation: vxlan", false, 1464),
        ("encapsulation: geneve", false, 1456),
        ("encapsulation: vxlan", true, 1444),
        ("encapsulation: geneve", true, 1436),
    ] {
        let mut net = Net::with(With {
            tunnel,
            six,
            ..With::default()
        });
        assert_eq!(
            net.verdict("v1", frame(B1, largest)),
            Encap,
            "{tunnel} {six}"
        );
        let outcome = net.from("v1", frame(B1, largest + 1));
        assert_eq!(outcome.verdict, PktTooBig);
        assert_eq!(outcome.counters.remote_dropped.len(), 1);
        let room = format!("{} is the largest MTU", largest - 14);
        let [.., encap, answer] = &outcome.steps[..] else {
            panic!("no answer");
        };
        assert!(encap.found.contains(&room), "{}", encap.found);
        assert_eq!(
            answer.found,
            "198.18.100.1 is told by 198.18.100.3: ICMP 3/4"
        );
        // Ports of this host have no such limit.
        assert_eq!(net.verdict("v1", frame(A2, largest + 1)), ToPort);
    }
}

#[test]
fn a_tag_of_a_transparent_switch_travels_inside() {
    let run = |len: usize| {
        let packet = Packet {
            tag: Some(tag(7, 5)),
            ..Packet::new(eth(GA, GB, 0x1234, &vec![1; len - 14]))
        };
        Net::new().run(&port("v3"), &packet)
    };
    let outcome = run(60);
    let packet = sent(&outcome);
    assert_eq!((packet.tag, packet.bytes.len()), (None, 114));
    assert_eq!(packet.bytes[16..18], [0, 100]);
    assert_eq!(packet.bytes[62..68], [0x81, 0, 0xa0, 7, 0x12, 0x34]);
    assert_eq!(
        outcome.counters.from_port.values().next().unwrap().bytes,
        60
    );
    // It takes its room.
    assert_eq!(run(1460).verdict, Encap);
    assert_eq!(run(1461).verdict, PktTooBig);
    // A local port gets it beside the bytes; a switch that carries none refuses it.
    let mut net = Net::new();
    let mut to_gd = Packet::new(eth(GA, GD, 0x1234, &[0; 50]));
    to_gd.tag = Some(tag(7, 5));
    assert_eq!(sent(&net.run(&port("v3"), &to_gd)), &to_gd);
    let mut refused = Packet::new(frame(B1, 60));
    refused.tag = Some(tag(7, 0));
    assert_eq!(net.run(&port("v1"), &refused).verdict, VlanTag);
    let mut second = to_gd.clone();
    second.bytes[12..14].copy_from_slice(&[0x88, 0xa8]);
    assert_eq!(net.run(&port("v3"), &second).verdict, VlanTag);
}

#[test]
fn lookups() {
    let mut net = Net::new();
    let outcome = net.from("v1", frame(A2, 60));
    assert_eq!((outcome.verdict, ports_of(&outcome)), (ToPort, vec!["a2"]));
    assert_eq!(sent(&outcome), &Packet::new(frame(A2, 60)));
    assert_eq!(net.verdict("v1", frame(A1, 60)), Hairpin);
    assert_eq!(
        net.verdict("v1", frame("02:00:00:00:00:99", 60)),
        UnknownUnicast
    );
    assert_eq!(net.verdict("v1", frame(GB, 60)), UnknownUnicast); // of another switch
    assert_eq!(net.verdict("v9", frame(B1, 60)), NoPort);
    assert_eq!(
        net.verdict("v1", frame(B1, 60)[..13].to_vec()),
        InnerTooSmall
    );
    let outcome = net.from("v1", frame(B1, 60));
    let found = &outcome.steps[outcome.steps.len() - 2].found;
    assert_eq!(
        found,
        "02:00:00:00:00:21 is at port b1 on host h2 (198.18.0.2)"
    );
    // Without an explanation the rest is the same.
    let mut decided = net
        .host
        .decide(&mut net.state, 0, &port("v1"), &Packet::new(frame(B1, 60)));
    assert!(decided.steps.is_empty());
    decided.steps.clone_from(&outcome.steps);
    assert_eq!(decided, outcome);
}

#[test]
fn what_is_for_the_next_bridge_goes_no_further() {
    let broken_ip = |source: &str, destination: &str| eth(source, destination, 0x0800, &[0; 50]);
    for last in 0..=0x0f_u8 {
        let group = format!("01:80:c2:00:00:{last:02x}");
        let mut net = Net::new();
        // Behind the check of the source, before those of the packet and of the port.
        assert_eq!(net.verdict("v1", broken_ip(A1, &group)), ReservedGroup);
        assert_eq!(net.verdict("v1", broken_ip(A2, &group)), ReservedGroup);
        assert_eq!(net.verdict("v1", broken_ip(&group, &group)), SourceMac);
        let outcome = net.from("v1", eth(A1, &group, 0x88cc, &[0; 50]));
        assert_eq!(outcome.verdict, ReservedGroup);
        assert_eq!(outcome.counters.from_port.len(), 1);
        assert_eq!(outcome.counters.port_dropped.len(), 1);
        let returned = Entry::Segmenter("v1".parse().unwrap());
        let packet = Packet::new(eth(A1, &group, 0x88cc, &[0; 50]));
        assert_eq!(net.run(&returned, &packet).verdict, ReservedGroup);
    }
    for group in [
        "01:80:c2:00:00:10",
        "01:80:c2:00:01:00",
        "01:80:c3:00:00:00",
    ] {
        let frame = eth(A1, group, 0x1234, &[0; 50]);
        assert_eq!(Net::new().verdict("v1", frame), Flood, "{group}");
    }
}

#[test]
fn broken_ip_headers_of_a_guest() {
    let mut net = Net::new();
    let mut with = |at: usize, to: &[u8]| {
        let mut bytes = frame(B1, 60);
        bytes[at..at + to.len()].copy_from_slice(to);
        net.verdict("v1", bytes)
    };
    assert_eq!(with(14, &[0x44]), InnerIpHeader);
    assert_eq!(with(14, &[0x65]), InnerIpHeader);
    assert_eq!(with(16, &[0, 19]), InnerIpHeader);
    assert_eq!(with(16, &[0, 47]), InnerIpHeader);
    assert_eq!(with(16, &[0, 46]), Encap);
    assert_eq!(with(16, &[0, 0]), InnerIpHeader); // BIG TCP is a super-packet
    let six = |payload_len: u8| {
        let mut bytes = eth(A1, B1, 0x86dd, &ip6("2001:2::1", "2001:2::3", 17, &[0; 10]));
        bytes[19] = payload_len;
        Net::new().verdict("v1", bytes)
    };
    assert_eq!([six(10), six(11), six(0)], [Encap, InnerIpHeader, Encap]);
}

#[test]
fn super_packets_travel_whole_where_they_can() {
    let mut net = Net::new();
    let packet = super_packet(14_000, tcp_gso(1400, 10));
    let outcome = net.run(&port("v1"), &packet);
    assert_eq!(outcome.verdict, Encap);
    assert_eq!(sent(&outcome).gso, packet.gso);
    let counter = outcome.counters.to_remote.values().next().unwrap();
    assert_eq!(
        (counter.packets, counter.segments, counter.bytes),
        (1, 10, 14_054)
    );
    // The longest segment is what the MTU is for: 1464 - 54 bytes of headers.
    assert_eq!(
        net.run(&port("v1"), &super_packet(14_000, tcp_gso(1410, 10)))
            .verdict,
        Encap
    );
    assert_eq!(
        net.run(&port("v1"), &super_packet(14_000, tcp_gso(1411, 10)))
            .verdict,
        PktTooBig
    );
    // Segments are counted by what they are, whatever was said.
    let outcome = net.run(&port("v1"), &super_packet(14_001, tcp_gso(1400, 77)));
    assert_eq!(
        outcome.counters.verdicts.values().next().unwrap().segments,
        11
    );
    // 65 535 is the last outer length.
    let whole = |payload| super_packet(payload, tcp_gso(1400, 47));
    assert_eq!(
        net.run(&port("v1"), &whole(65_535 - 36 - 54)).verdict,
        Encap
    );
    let outcome = net.run(&port("v1"), &whole(65_535 - 36 - 54 + 1));
    assert_eq!(outcome.verdict, Segment);
    assert!(matches!(outcome.outputs[0], Output::Segmenter { .. }));
    assert!(outcome.counters.to_remote.is_empty());
}

#[test]
fn super_packets_that_do_not() {
    let with = |kind, protocol: u8, entry: &Entry| {
        let gso = Some(Gso {
            kind,
            size: 100,
            segments: 5,
        });
        let ip = ip4("198.18.100.1", "198.18.100.3", protocol, &[0x50; 520]);
        let packet = Packet {
            gso,
            ..Packet::new(eth(A1, B1, 0x0800, &ip))
        };
        Net::new().run(entry, &packet)
    };
    let segmenter = Entry::Segmenter("v1".parse().unwrap());
    assert_eq!(with(GsoKind::Udp, 17, &port("v1")).verdict, Segment);
    assert_eq!(with(GsoKind::Udp, 17, &segmenter).verdict, GsoUnsupported);
    assert_eq!(
        with(GsoKind::Sctp, 132, &port("v1")).verdict,
        GsoUnsupported
    );
    let tunnelled = with(GsoKind::Tcp, 47, &port("v1"));
    assert_eq!(tunnelled.verdict, Segment);
    assert_eq!(sent(&tunnelled).gso.unwrap().size, 100);
    // Only the first hook counts what comes from a port.
    let outcome = Net::new().run(&segmenter, &Packet::new(frame(B1, 60)));
    assert_eq!(outcome.verdict, Encap);
    assert!(outcome.counters.from_port.is_empty() && !outcome.counters.to_remote.is_empty());
}

#[test]
fn big_tcp_of_both_families() {
    let mut four = super_packet(70_000, tcp_gso(1400, 50));
    four.bytes[16..18].fill(0);
    let outcome = Net::new().run(&port("v1"), &four);
    assert_eq!(outcome.verdict, Segment);
    assert_eq!(
        outcome.counters.verdicts.values().next().unwrap().segments,
        50
    );
    let jumbo = |len, size| {
        let tcp = tcp(1, 2, 3, 0x10, &vec![7; len]);
        let mut payload = vec![6, 0, 0xc2, 4];
        payload.extend((tcp.len() as u32 + 8).to_be_bytes());
        payload.extend(tcp);
        let mut ip = ip6("2001:2::1", "2001:2::3", 0, &payload);
        ip[4..6].fill(0);
        let packet = Packet {
            gso: tcp_gso(size, 50),
            ..Packet::new(eth(A1, B1, 0x86dd, &ip))
        };
        Net::new().run(&port("v1"), &packet).verdict
    };
    // Segments are without the jumbo option: 14 + 40 + 20 + 1390 = 1464. They keep it of an IP packet of
    // 65 536 bytes: 40 + 8 + 20 + 65 468.
    assert_eq!(
        [jumbo(70_000, 1390), jumbo(70_000, 1391)],
        [Segment, PktTooBig]
    );
    assert_eq!(
        [jumbo(65_469, 1390), jumbo(65_469, 1391)],
        [Segment, PktTooBig]
    );
    assert_eq!(
        [jumbo(65_468, 1382), jumbo(65_468, 1383)],
        [Segment, PktTooBig]
    );
}

#[test]
fn coalesced_tunnel_packets_are_refused() {
    let inner = |extra: usize| {
        let tcp = tcp(1, 2, 3, 0x10, &[7; 280]);
        let mut bytes = eth(
            B1,
            A1,
            0x0800,
            &ip4("198.18.100.3", "198.18.100.1", 6, &tcp),
        );
        bytes.extend(vec![0; extra]);
        Packet {
            gso: tcp_gso(140, 2),
            ..Packet::new(from_h2(&bytes))
        }
    };
    let mut net = Net::new();
    let outcome = net.run(&Entry::Underlay, &inner(0));
    assert_eq!(
        (outcome.verdict, sent(&outcome).gso),
        (ToPort, tcp_gso(140, 2))
    );
    assert_eq!(net.run(&Entry::Underlay, &inner(1)).verdict, GsoUnsupported);
    let udp = eth(
        B1,
        A1,
        0x0800,
        &ip4("198.18.100.3", "198.18.100.1", 17, &udp(1, 2, &[7; 280])),
    );
    let packet = Packet {
        gso: tcp_gso(140, 2),
        ..Packet::new(from_h2(&udp))
    };
    // Whole UDP is taken where somebody takes the tunnel's mark off it.
    assert_eq!(net.run(&Entry::Underlay, &packet).verdict, ToPort);
    net.host = net.host.with_whole_udp(false);
    assert_eq!(net.run(&Entry::Underlay, &packet).verdict, GsoUnsupported);
}
