//! From switch to switch, through the underlay, to the gateway's host and out of its leg.

use overlane_model::Verdict;
use overlane_pipeline::{Entry, Gso, Output, Packet};

use crate::net::*;

#[test]
fn between_switches_of_a_host() {
    let packet = to("198.18.2.1", UDP, &udp(1, 2, b"hello"));
    let outcome = host("h1").from("v1", packet.clone());
    assert_eq!(outcome.verdict, Verdict::ToPort);
    assert_eq!(ports_of(&outcome), ["b1"]);
    assert_eq!(sent(&outcome).bytes, between(with_ttl(packet, 63), R1, B1));
}

/// The source key is that of the router's interface behind the router, and a super-packet stays one.
#[test]
fn to_another_host_and_in_there() {
    let gso = Gso {
        size: 500,
        segments: 2,
        ..tcp_gso(500, 2).unwrap()
    };
    let bytes = to("198.18.2.2", TCP, &tcp(1, 2, 0, 0x10, &[7; 1000]));
    let packet = Packet {
        gso: Some(gso),
        ..Packet::new(bytes.clone())
    };
    let mut h1 = host("h1");
    let key = interface_key(&h1.host, "r1", 2);
    let outcome = h1.run(&port("v1"), &packet);
    assert_eq!(outcome.verdict, Verdict::Encap);
    let left = sent(&outcome);
    assert_eq!(left.gso, packet.gso);
    assert_eq!(left.bytes[46..49], [0, 0, 2]);
    let keys = [key.to_be_bytes(), 2_u16.to_be_bytes()].concat();
    assert_eq!(left.bytes[54..58], keys);
    assert_eq!(left.bytes[58..], between(with_ttl(bytes, 63), R1, B2));
    let received = host("h2").run(&Entry::Underlay, left);
    assert_eq!(
        (received.verdict, ports_of(&received)),
        (Verdict::ToPort, vec!["b2"])
    );
}

/// Each host routes; only what leaves by the leg goes to the gateway first.
#[test]
fn the_gateway_is_on_another_host() {
    let packet = to("198.19.7.7", UDP, &udp(1, 2, b"x"));
    let mut h1 = host("h1");
    let key = interface_key(&h1.host, "r1", 1);
    let outcome = h1.from("v1", packet.clone());
    assert_eq!(outcome.verdict, Verdict::Encap);
    assert_eq!(remotes_of(&outcome), ["198.18.0.3"]);
    let left = sent(&outcome);
    assert_eq!(left.bytes[54..58], [[0, 1], key.to_be_bytes()].concat());
    assert_eq!(left.bytes[58..], packet);
    // Who is no gateway does not send it on.
    let astray = Packet::new(for_host(left.bytes.clone(), 2));
    let astray = host("h2").run(&Entry::Underlay, &astray);
    assert_eq!(
        (astray.verdict, astray.outputs.len()),
        (Verdict::UnknownUnicast, 0)
    );
    // The gateway does, by the leg.
    let mut h3 = host("h3");
    let answer = arp_reply(OUTSIDE, "198.19.0.9", LEG, "198.19.0.2");
    assert_eq!(h3.on_leg(answer).verdict, Verdict::ToRouter);
    let outcome = h3.run(&Entry::Underlay, left);
    assert_eq!(outcome.verdict, Verdict::LegOut);
    let [
        Output::Leg {
            device,
            next_hop,
            packet: sent,
        },
    ] = &outcome.outputs[..]
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(device.as_str(), "phys0");
    assert_eq!(*next_hop, Some("198.19.0.9".parse().unwrap()));
    assert_eq!(sent.bytes, between(with_ttl(packet, 63), LEG, OUTSIDE));
}

#[test]
fn a_next_router_has_its_own_routes() {
    // b1 sends to r2, which knows 198.18.1.0/24 behind r1.
    let packet = eth(
        B1,
        R2,
        0x0800,
        &ip4("198.18.2.1", "198.18.1.1", UDP, &udp(1, 2, b"")),
    );
    let outcome = host("h1").from("v2", packet.clone());
    assert_eq!(ports_of(&outcome), ["a1"]);
    assert_eq!(sent(&outcome).bytes, between(with_ttl(packet, 62), R1, A1));
}

#[test]
fn equal_routes_share_the_flows() {
    let mut h1 = host("h1");
    let mut verdicts = (1..100).map(|n| {
        h1.from("v1", to("198.18.8.8", UDP, &udp(n, 2, b"")))
            .verdict
    });
    assert!(verdicts.any(|verdict| verdict == Verdict::ToPort));
    assert!(verdicts.any(|verdict| verdict == Verdict::Encap));
}

#[test]
fn a_vlan_is_a_switch_as_others_at_the_acting_host() {
    let acting = FABRIC.replace("gateway: { host: h3,", "gateway: { host: h1,");
    let outcome = host_of("h1", &acting).from("v1", to("198.18.3.2", UDP, &udp(1, 2, b"")));
    assert_eq!(outcome.verdict, Verdict::VlanOut);
    assert_eq!(sent(&outcome).tag, Some(tag(100, 0)));
    let elsewhere = host("h1").from("v1", to("198.18.3.2", UDP, &udp(1, 2, b"")));
    assert_eq!(elsewhere.verdict, Verdict::Encap);
    let large = eth(
        A1,
        R1,
        0x0800,
        &ip4("198.18.1.1", "198.18.3.2", UDP, &[7; 1481]),
    );
    let outcome = host_of("h1", &acting).from("v1", large);
    assert_eq!(sent(&outcome).bytes[34..42], {
        let answer = sent(&outcome).bytes[36..38].to_vec();
        [vec![3, 4], answer, vec![0, 0, 5, 0xdc]].concat()
    });
}
