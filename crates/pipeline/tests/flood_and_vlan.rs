//! Stages flood, vlan_out and vlan_in, and the ports of a trunk.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use overlane_model::Verdict::*;
use overlane_pipeline::{Entry, Output, Packet};

fn tagged(tag_of: Option<(u16, u8)>, bytes: Vec<u8>) -> Packet {
    Packet {
        tag: tag_of.map(|(vid, pcp)| tag(vid, pcp)),
        ..Packet::new(bytes)
    }
}

fn broadcast(source: &str, len: usize) -> Vec<u8> {
    eth(source, BROADCAST, 0x1234, &vec![0; len - 14])
}

#[test]
fn a_copy_for_everybody_but_the_source() {
    let outcome = Net::geneve().from("v1", broadcast(A1, 60));
    assert_eq!(outcome.verdict, Flood);
    assert_eq!(ports_of(&outcome), ["a2", "tu"]);
    assert_eq!(remotes_of(&outcome), ["198.18.0.2", "198.18.0.3"]);
    assert_eq!(outcome.counters.to_remote.len(), 2);
    for output in &outcome.outputs {
        match output {
            Output::Port { packet, .. } => assert_eq!(packet, &Packet::new(broadcast(A1, 60))),
            Output::Underlay { packet, .. } => {
                assert_eq!(packet.bytes[54..58], [0, 1, 0x80, 0]);
                assert_eq!(packet.bytes[58..], broadcast(A1, 60));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_too_large_still_reaches_local_ports() {
    let mut net = Net::new();
    assert_eq!(net.verdict("v1", broadcast(A1, 1464)), Flood);
    let outcome = net.from("v1", broadcast(A1, 1465));
    assert_eq!(outcome.verdict, PktTooBig);
    assert_eq!(ports_of(&outcome), ["a2", "tu"]);
    assert_eq!(outcome.counters.to_port.len(), 2);
    assert!(outcome.counters.remote_dropped.is_empty());
    assert_eq!(outcome.counters.port_dropped.len(), 1);
}

#[test]
fn unknown_unicast_floods_where_the_switch_says_so() {
    let unknown = "02:00:00:00:00:98";
    let outcome = Net::new().from("v3", eth(GA, unknown, 0x1234, &[0; 50]));
    assert_eq!(outcome.verdict, Flood);
    assert_eq!(ports_of(&outcome), ["gd"]);
    assert_eq!(remotes_of(&outcome), ["198.18.0.2"]);
}

#[test]
fn a_guests_tag_goes_with_every_copy() {
    let packet = tagged(Some((9, 3)), broadcast(GA, 60));
    let outcome = Net::new().run(&port("v3"), &packet);
    let [
        Output::Port { packet: local, .. },
        Output::Underlay { packet: far, .. },
    ] = &outcome.outputs[..]
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(local, &packet);
    assert_eq!(
        (far.tag, &far.bytes[62..68]),
        (None, &[0x81, 0, 0x60, 9, 0x12, 0x34][..])
    );
    // 1500 - 36 of the outer header - 4 of the tag.
    let sized = |len| {
        Net::new()
            .run(&port("v3"), &tagged(Some((9, 3)), broadcast(GA, len)))
            .verdict
    };
    assert_eq!([sized(1460), sized(1461)], [Flood, PktTooBig]);
}

#[test]
fn a_flooded_super_packet_is_segmented_first() {
    let mut packet = Packet::new(broadcast(A1, 400));
    packet.gso = tcp_gso(100, 4);
    let outcome = Net::new().run(&port("v1"), &packet);
    assert_eq!((outcome.verdict, sent(&outcome)), (Segment, &packet));
}

#[test]
fn an_unknown_remote_in_the_flood_list() {
    let mut net = Net::new();
    let mut tables = net.host.tables().clone();
    tables.remotes.remove(0);
    net.host = overlane_pipeline::Host::new(tables, 1500);
    let packet = Packet::new(broadcast(A1, 60));
    let outcome = net.host.run(&mut net.state, 0, &port("v1"), &packet);
    assert_eq!(
        (outcome.verdict, remotes_of(&outcome)),
        (UnknownRemote, vec!["198.18.0.3".to_owned()])
    );
    assert_eq!(net.verdict("v1", to(B1, 10)), UnknownRemote);
}

#[test]
fn the_tag_names_the_port_of_a_trunk() {
    let mut net = Net::new();
    let from_ta = eth(TA, TD, 0x1234, &[0; 50]);
    // Its priority is taken off with it.
    let outcome = net.run(&port("v5"), &tagged(Some((10, 6)), from_ta.clone()));
    assert_eq!((outcome.verdict, ports_of(&outcome)), (ToPort, vec!["td"]));
    assert_eq!(sent(&outcome), &Packet::new(from_ta.clone()));
    assert_eq!(
        outcome.counters.from_port.keys().next().unwrap().as_str(),
        "ta"
    );
    // Untagged it is another port, in another switch.
    let untagged = net.run(&port("v5"), &Packet::new(from_ta.clone()));
    assert_eq!(untagged.verdict, SpoofedMac);
    assert_eq!(
        untagged.counters.from_port.keys().next().unwrap().as_str(),
        "tu"
    );
    // No other tag is a trunk port's: it falls to the untagged port, which carries none.
    assert_eq!(
        net.run(&port("v5"), &tagged(Some((11, 0)), from_ta.clone()))
            .verdict,
        VlanTag
    );
    // A priority tag is none.
    assert_eq!(
        net.run(&port("v5"), &tagged(Some((0, 3)), from_ta.clone()))
            .verdict,
        SpoofedMac
    );
    let mut service = tagged(Some((10, 0)), from_ta.clone());
    service.tag.as_mut().unwrap().service = true;
    assert_eq!(net.run(&port("v5"), &service).verdict, VlanTag);
    let mut double = tagged(Some((10, 0)), from_ta);
    double.bytes[12..14].copy_from_slice(&[0x81, 0]);
    assert_eq!(net.run(&port("v5"), &double).verdict, VlanTag);
}

#[test]
fn a_trunk_port_gets_its_tag() {
    let mut net = Net::new();
    let frame = eth(TD, TA, 0x1234, &[0; 50]);
    let outcome = net.from("v6", frame.clone());
    assert_eq!(sent(&outcome), &tagged(Some((10, 0)), frame));
    let flooded = net.from("v6", broadcast(TD, 60));
    let [
        Output::Port { packet, .. },
        Output::Underlay {
            remote: None,
            packet: out,
        },
    ] = &flooded.outputs[..]
    else {
        panic!("{flooded:?}");
    };
    assert_eq!(packet.tag, Some(tag(10, 0)));
    assert_eq!(out, &tagged(Some((100, 0)), broadcast(TD, 60)));
}

#[test]
fn a_trunk_with_nothing_but_tags() {
    let mut net = Net::new();
    let mut tables = net.host.tables().clone();
    tables.ports.retain(|port| port.name.as_str() != "tu");
    net.host = overlane_pipeline::Host::new(tables, 1500);
    let frame = eth(TA, TD, 0x1234, &[0; 50]);
    let outcome = net.run(&port("v5"), &Packet::new(frame.clone()));
    assert_eq!(outcome.verdict, NoPort);
    assert!(outcome.counters.from_port.is_empty() && outcome.counters.port_dropped.is_empty());
    assert_eq!(
        net.run(&port("v5"), &tagged(Some((11, 0)), frame)).verdict,
        NoPort
    );
}

#[test]
fn frames_of_a_vlan_leave_plain() {
    let mut net = Net::new();
    let known = eth(TD, TB, 0x1234, &[0; 50]);
    let outcome = net.from("v6", known.clone());
    assert_eq!(outcome.verdict, VlanOut);
    assert_eq!(sent(&outcome), &tagged(Some((100, 0)), known));
    assert!(outcome.counters.to_remote.is_empty());
    // Nobody of the fabric has it: the physical network may.
    let unknown = eth(TD, "02:00:00:00:02:99", 0x1234, &[0; 50]);
    assert_eq!(net.verdict("v6", unknown), VlanOut);
    // The uplink's MTU, without an outer header.
    let sized = |len: usize| Net::new().verdict("v6", eth(TD, TB, 0x1234, &vec![0; len - 14]));
    assert_eq!([sized(1514), sized(1515)], [VlanOut, PktTooBig]);
    let flooded = |len| Net::new().from("v6", broadcast(TD, len));
    assert_eq!(flooded(1514).verdict, Flood);
    let large = flooded(1515);
    assert_eq!((large.verdict, ports_of(&large)), (PktTooBig, vec!["ta"]));
}

#[test]
fn super_packets_on_a_vlan_stay_whole() {
    let tcp = tcp(1, 2, 3, 0x10, &vec![7; 64_000]);
    let bytes = eth(
        TD,
        TB,
        0x0800,
        &ip4("198.18.102.2", "198.18.102.3", 6, &tcp),
    );
    let run = |size| {
        let packet = Packet {
            gso: tcp_gso(size, 44),
            ..Packet::new(bytes.clone())
        };
        Net::new().run(&port("v6"), &packet)
    };
    let outcome = run(1460);
    assert_eq!(
        (outcome.verdict, sent(&outcome).gso),
        (VlanOut, tcp_gso(1460, 44))
    );
    assert_eq!(run(1461).verdict, PktTooBig);
}

#[test]
fn other_super_packets_on_a_vlan_are_segmented_first() {
    const SCTP: u8 = 132;
    let run = |entry: &Entry, destination, protocol| {
        let inner = ip4("198.18.102.2", "198.18.102.3", protocol, &[7; 4000]);
        let packet = Packet {
            gso: tcp_gso(1400, 3),
            ..Packet::new(eth(TD, destination, 0x0800, &inner))
        };
        let outcome = Net::new().run(entry, &packet);
        (outcome, packet)
    };
    let segmenter = Entry::Segmenter("v6".parse().unwrap());
    for protocol in [SCTP, 47] {
        for destination in [TB, "02:00:00:00:02:99", BROADCAST] {
            let (outcome, packet) = run(&port("v6"), destination, protocol);
            assert_eq!((outcome.verdict, outcome.outputs.len()), (Segment, 1));
            assert_eq!(sent(&outcome), &packet);
            let (outcome, _) = run(&segmenter, destination, protocol);
            assert_eq!(
                (outcome.verdict, outcome.outputs.len()),
                (GsoUnsupported, 0)
            );
        }
        // Here it stays whole.
        assert_eq!(run(&port("v6"), TA, protocol).0.verdict, ToPort);
    }
    // A frame that is not IP has no protocol at all.
    let packet = Packet {
        gso: tcp_gso(100, 4),
        ..Packet::new(broadcast(TD, 400))
    };
    assert_eq!(Net::new().run(&port("v6"), &packet).verdict, Segment);
}

#[test]
fn explanations_count_in_words() {
    let last = |device, bytes| Net::new().from(device, bytes).steps.pop().unwrap().found;
    assert_eq!(
        last("v3", broadcast(GA, 60)),
        "copied to 1 other port of switch green here and to 1 other host"
    );
    assert_eq!(
        last("v1", broadcast(A1, 60)),
        "copied to 2 other ports of switch blue here and to 2 other hosts"
    );
    assert_eq!(
        last("v6", broadcast(TD, 60)),
        "copied to 1 other port of switch base here and to the uplink"
    );
    let from_there = tagged(Some((100, 0)), broadcast(TB, 60));
    let outcome = Net::new().run(&Entry::Underlay, &from_there);
    assert_eq!(
        outcome.steps.last().unwrap().found,
        "copied to 2 other ports of switch base here and to nobody else"
    );
}

#[test]
fn tagged_frames_on_the_uplink() {
    let mut net = Net::new();
    let mut run = |tag_of, bytes: Vec<u8>| net.run(&Entry::Underlay, &tagged(tag_of, bytes));
    let to_td = eth(TB, TD, 0x1234, &[0; 50]);
    let outcome = run(Some((100, 6)), to_td.clone());
    assert_eq!(outcome.verdict, ToPort);
    assert_eq!(sent(&outcome), &Packet::new(to_td.clone()));
    assert!(outcome.counters.from_remote.is_empty());
    let to_ta = run(Some((100, 0)), eth(TB, TA, 0x1234, &[0; 50]));
    assert_eq!(sent(&to_ta).tag, Some(tag(10, 0)));
    let flooded = run(Some((100, 0)), broadcast(TB, 60));
    assert_eq!(
        (flooded.verdict, ports_of(&flooded)),
        (Flood, vec!["ta", "td"])
    );
    // Never back to the uplink.
    assert_eq!(
        run(
            Some((100, 0)),
            eth("02:00:00:00:02:98", TB, 0x1234, &[0; 50])
        )
        .verdict,
        UnknownUnicast
    );
    let unknown = eth(TB, "02:00:00:00:02:99", 0x1234, &[0; 50]);
    assert_eq!(run(Some((100, 0)), unknown).verdict, UnknownUnicast);
    // For a bridge, not for us.
    let pause = eth(TB, "01:80:c2:00:00:01", 0x8808, &[0; 46]);
    assert_eq!(run(Some((100, 0)), pause.clone()).verdict, ReservedGroup);
    assert_eq!(run(None, pause).verdict, ToHost);
    // Not ours: another VLAN, a priority tag, a service tag.
    assert_eq!(run(Some((101, 0)), to_td.clone()).verdict, ToHost);
    assert_eq!(run(Some((0, 0)), to_td.clone()).verdict, ToHost);
    let mut service = tagged(Some((100, 0)), to_td.clone());
    service.tag.as_mut().unwrap().service = true;
    let outcome = Net::new().run(&Entry::Underlay, &service);
    assert_eq!((outcome.verdict, sent(&outcome)), (ToHost, &service));
    // A tunnel packet with a tag is none; a second tag is refused.
    assert_eq!(run(Some((7, 0)), from_h2(&to_td)).verdict, ToHost);
    let second = eth(TB, TD, 0x8100, &[0, 1, 8, 0]);
    assert_eq!(run(Some((100, 0)), second).verdict, VlanTag);
}
