//! Software segmentation against what the kernel puts on a wire (net/ipv4/tcp_offload.c, udp_offload.c).

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::net::IpAddr;

use common::*;
use overlane_model::{Encapsulation, Verdict};
use overlane_pipeline::{Entry, Gso, GsoKind, Host, Packet, State};
use overlane_wire::checksum::Sum;

const SIZE: usize = 1000;

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

fn tcp_packet(len: usize, flags: u8) -> Packet {
    let tcp = tcp(1000, 80, 0xffff_ff00, flags, &payload(len));
    Packet {
        tag: Some(tag(7, 1)),
        gso: tcp_gso(SIZE as u16, 3),
        ..Packet::new(eth(
            A1,
            B1,
            0x0800,
            &ip4("198.18.100.1", "198.18.100.3", 6, &tcp),
        ))
    }
}

/// IPv4 at `at`: length, identification, checksum.
fn check_ipv4(bytes: &[u8], at: usize, identification: u16) {
    let field = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    assert_eq!(usize::from(field(at + 2)), bytes.len() - at);
    assert_eq!(field(at + 4), identification);
    assert!(Sum::new().bytes(&bytes[at..at + 20]).verifies());
}

fn check_transport(bytes: &[u8], at: usize, addresses: [&str; 2], protocol: u8) {
    let [source, destination]: [IpAddr; 2] = addresses.map(|text| text.parse().unwrap());
    assert!(transport_is_right(
        source,
        destination,
        protocol,
        &bytes[at..]
    ));
}

#[test]
fn tcp_over_ipv4() {
    // CWR, ACK, PSH, FIN
    let segments = tcp_packet(2500, 0x99).segments();
    assert_eq!(segments.len(), 3);
    let mut joined: Vec<u8> = Vec::new();
    for (n, segment) in segments.iter().enumerate() {
        assert_eq!((segment.tag, segment.gso), (Some(tag(7, 1)), None));
        let bytes = &segment.bytes;
        assert_eq!(bytes[..14], tcp_packet(0, 0).bytes[..14]);
        check_ipv4(bytes, 14, 0x1234 + n as u16);
        check_transport(bytes, 34, ["198.18.100.1", "198.18.100.3"], 6);
        let sequence = 0xffff_ff00_u32.wrapping_add(n as u32 * 1000);
        assert_eq!(bytes[38..42], sequence.to_be_bytes());
        joined.extend(&bytes[54..]);
    }
    assert_eq!(
        segments.iter().map(|s| s.bytes[47]).collect::<Vec<_>>(),
        [0x90, 0x10, 0x19]
    );
    assert_eq!(joined, payload(2500));
}

#[test]
fn each_segment_keeps_the_options_of_ipv4() {
    const OPTIONS: [u8; 8] = [1; 8];
    let mut packet = tcp_packet(2500, 0x10);
    packet.bytes[14] = 0x47;
    packet.bytes.splice(34..34, OPTIONS);
    let segments = packet.segments();
    let lengths: Vec<_> = segments.iter().map(|s| s.bytes.len() - 62).collect();
    assert_eq!(lengths, [1000, 1000, 500]);
    for Packet { bytes, .. } in &segments {
        assert_eq!(bytes[34..42], OPTIONS);
        assert!(Sum::new().bytes(&bytes[14..42]).verifies());
        check_transport(bytes, 42, ["198.18.100.1", "198.18.100.3"], 6);
    }
}

#[test]
fn a_last_segment_of_full_size_and_a_single_one() {
    let lengths = |len| {
        let segments = tcp_packet(len, 0x19).segments();
        segments
            .iter()
            .map(|s| s.bytes.len() - 54)
            .collect::<Vec<_>>()
    };
    assert_eq!(lengths(2000), [1000, 1000]);
    assert_eq!(lengths(2001), [1000, 1000, 1]);
    assert_eq!(lengths(1000), [1000]);
    assert_eq!(tcp_packet(999, 0x99).segments()[0].bytes[47], 0x99);
}

#[test]
fn udp_over_ipv6() {
    let udp = udp(1000, 2000, &payload(2500));
    let packet = Packet {
        gso: Some(Gso {
            kind: GsoKind::Udp,
            size: 1000,
            segments: 3,
        }),
        ..Packet::new(eth(
            A1,
            B1,
            0x86dd,
            &ip6("2001:2::1", "2001:2::3", 17, &udp),
        ))
    };
    let segments = packet.segments();
    let lengths: Vec<_> = segments
        .iter()
        .map(|s| [s.bytes[18], s.bytes[19], s.bytes[58], s.bytes[59]])
        .collect();
    let [full, rest] = [1008_u16, 508]
        .map(u16::to_be_bytes)
        .map(|[a, b]| [a, b, a, b]);
    assert_eq!(lengths, [full, full, rest]);
    for segment in &segments {
        check_transport(&segment.bytes, 54, ["2001:2::1", "2001:2::3"], 17);
    }
}

#[test]
fn under_a_tunnel_header_of_each_kind() {
    for (tunnel, encapsulation, header) in [
        ("encapsulation: vxlan", Encapsulation::Vxlan, 36),
        ("encapsulation: geneve", Encapsulation::Geneve, 44),
    ] {
        let mut net = Net::with(With {
            tunnel,
            ..With::default()
        });
        let far = tables(
            "h2",
            &With {
                tunnel,
                ..With::default()
            },
        );
        let far = Host::new(far, 1500);
        let packet = Packet {
            tag: None,
            ..tcp_packet(2500, 0x18)
        };
        let outcome = net.run(&port("v1"), &packet);
        let whole = sent(&outcome);
        let segments = whole.segments_in(encapsulation);
        assert_eq!(segments.len(), 3);
        for ((n, segment), plain) in segments.iter().enumerate().zip(packet.segments()) {
            let bytes = &segment.bytes;
            check_ipv4(bytes, 14, n as u16);
            assert_eq!(bytes[38..40], (bytes.len() as u16 - 34).to_be_bytes());
            assert_eq!(bytes[40..14 + header], whole.bytes[40..14 + header]);
            assert_eq!(bytes[14 + header..], plain.bytes);
            let received = far.run(&mut State::new(), 0, &Entry::Underlay, segment);
            assert_eq!(received.verdict, Verdict::ToPort);
            assert_eq!(sent(&received).bytes, plain.bytes);
        }
    }
}

#[test]
fn with_a_tag_inside_and_over_ipv6_outside() {
    let mut net = Net::with(With {
        six: true,
        ..With::default()
    });
    let tcp = tcp(1, 2, 0, 0x10, &payload(1500));
    let packet = Packet {
        tag: Some(tag(7, 1)),
        gso: tcp_gso(1000, 2),
        ..Packet::new(eth(GA, GB, 0x86dd, &ip6("2001:2::1", "2001:2::2", 6, &tcp)))
    };
    let outcome = net.run(&port("v3"), &packet);
    let segments = sent(&outcome).segments_in(Encapsulation::Vxlan);
    let lengths: Vec<_> = segments.iter().map(|s| s.bytes.len()).collect();
    let headers = 14 + 40 + 8 + 8 + 18 + 40 + 20;
    assert_eq!(lengths, [headers + 1000, headers + 500]);
    for segment in &segments {
        let len = segment.bytes.len();
        assert_eq!(segment.bytes[18..20], (len as u16 - 54).to_be_bytes());
        assert_eq!(segment.bytes[58..60], (len as u16 - 54).to_be_bytes());
        assert_eq!(segment.bytes[92..94], (len as u16 - 128).to_be_bytes());
        check_transport(&segment.bytes, 128, ["2001:2::1", "2001:2::2"], 6);
    }
}

#[test]
fn big_tcp_loses_its_jumbo_option() {
    let segments = |len: usize, jumbo: bool| {
        let tcp = tcp(1, 2, 0, 0x10, &payload(len));
        let mut option = vec![6, 0, 0xc2, 4];
        option.extend((tcp.len() as u32 + 8).to_be_bytes());
        let mut ip = match jumbo {
            true => ip6("2001:2::1", "2001:2::2", 0, &[option, tcp].concat()),
            false => ip6("2001:2::1", "2001:2::2", 6, &tcp),
        };
        ip[4..6].fill(0);
        let packet = Packet {
            gso: tcp_gso(40_000, 2),
            ..Packet::new(eth(A1, B1, 0x86dd, &ip))
        };
        packet.segments()
    };
    let len = |segments: &[Packet]| {
        segments
            .iter()
            .map(|segment| segment.bytes.len())
            .collect::<Vec<_>>()
    };
    // An IP packet of 65 537 bytes, and one of 65 536.
    assert_eq!(segments(65_469, true), segments(65_469, false));
    assert_eq!(len(&segments(65_468, true)), [40_082, 25_550]);
    // 65 537 bytes, and no option, as newer kernels write it.
    assert_eq!(len(&segments(65_477, false)), [40_074, 25_551]);
}

#[test]
fn what_is_not_cut_stays_as_it_is() {
    let plain = Packet {
        gso: None,
        ..tcp_packet(2500, 0)
    };
    assert_eq!(plain.segments(), vec![plain.clone()]);
    let sctp = Packet {
        gso: Some(Gso {
            kind: GsoKind::Sctp,
            size: 100,
            segments: 2,
        }),
        ..Packet::new(eth(
            A1,
            B1,
            0x0800,
            &ip4("198.18.100.1", "198.18.100.3", 132, &[0; 300]),
        ))
    };
    assert_eq!(sctp.segments(), vec![sctp.clone()]);
    let mut cut = tcp_packet(0, 0);
    cut.bytes.truncate(40);
    assert_eq!(cut.segments(), vec![cut.clone()]);
}
