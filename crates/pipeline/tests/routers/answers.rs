//! What routers tell the senders of packets that go no further, and whom they tell nothing.

use std::net::IpAddr;

use overlane_model::Verdict;
use overlane_pipeline::{Entry, Packet};
use overlane_wire::checksum::checksum;

use crate::net::*;

/// Quotes are of the packet before the router changed it, but what was routed already has a TTL less.
#[test]
fn icmp_errors() {
    let udp = udp(1, 2, &[7; 900]);
    let to = |destination: &str| to(destination, UDP, &udp);
    let mut h1 = host("h1");
    let nobody = to("198.18.2.77");
    let expected = error(3, 1, 0, &nobody[14..]);
    check_error(&h1.from("v1", nobody), Verdict::NoNeighbour, expected);
    let late = with_ttl(to("198.18.2.1"), 1);
    let expected = error(11, 0, 0, &late[14..]);
    check_error(&h1.from("v1", late), Verdict::TtlExceeded, expected);
    let own = to("198.18.2.254");
    let expected = error_from("198.18.2.254", 3, 3, 0, &own[14..]);
    check_error(&h1.from("v1", own), Verdict::RouterAddress, expected);
    let large = eth(
        A1,
        R1,
        0x0800,
        &ip4("198.18.1.1", "198.18.2.2", UDP, &[7; 1423]),
    );
    let expected = error(3, 4, 1442, &with_ttl(large.clone(), 63)[14..]);
    check_error(&h1.from("v1", large), Verdict::PktTooBig, expected);
    // To the gateway host it goes as it came.
    let large = eth(
        A1,
        R1,
        0x0800,
        &ip4("198.18.1.1", "198.19.0.3", UDP, &[7; 1423]),
    );
    let expected = error(3, 4, 1442, &large[14..]);
    check_error(&h1.from("v1", large), Verdict::PktTooBig, expected);
    let mut wrong = to("198.18.2.1");
    wrong[24] ^= 1;
    assert_eq!(h1.from("v1", wrong).verdict, Verdict::InnerIpHeader);
}

#[test]
fn nobody_is_told_about() {
    let mut h1 = host("h1");
    let mut silent = |bytes: Vec<u8>, verdict| {
        let outcome = h1.from("v1", with_ttl(bytes, 1));
        assert_eq!((outcome.verdict, outcome.outputs.len()), (verdict, 0));
    };
    let exceeded = Verdict::TtlExceeded;
    for kind in [3, 4, 5, 11, 12] {
        silent(
            to("198.18.2.1", ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]),
            exceeded,
        );
    }
    silent(to("198.18.2.1", ICMP, &[]), exceeded);
    silent(to("198.18.2.1", TCP, &tcp(1, 2, 0, 0x04, b"")), exceeded);
    let later = ip4_with("198.18.1.1", "198.18.2.1", UDP, 0, 1, &[7; 30]);
    silent(eth(A1, R1, 0x0800, &later), exceeded);
    for group in [
        "224.0.0.1",
        "255.255.255.255",
        "127.0.0.1",
        "0.0.0.0",
        "240.0.0.1",
    ] {
        silent(to(group, UDP, &udp(1, 2, b"")), Verdict::NotRoutable);
    }
    silent(eth(A1, R1, 0x88b5, &[0; 46]), Verdict::NotRoutable);
    // A first fragment is somebody's packet.
    let first = ip4_with("198.18.1.1", "198.18.2.1", UDP, 0, 0x2000, &[7; 32]);
    let outcome = h1.from("v1", with_ttl(eth(A1, R1, 0x0800, &first), 1));
    assert_eq!(outcome.outputs.len(), 1);
}

#[test]
fn a_hundred_answers_in_a_tenth_of_a_second() {
    let mut h1 = host("h1");
    let mut answers = |now_ns, packets: usize| {
        h1.now_ns = now_ns;
        let late = with_ttl(to("198.18.2.1", UDP, &udp(1, 2, b"")), 1);
        let outputs = (0..packets).map(|_| h1.from("v1", late.clone()).outputs.len());
        outputs.sum::<usize>()
    };
    assert_eq!(answers(0, 60), 60);
    assert_eq!(answers(99_999_999, 60), 40);
    assert_eq!(answers(100_000_000, 101), 100);
}

#[test]
fn a_router_answers_echo_and_resets_tcp() {
    let mut h1 = host("h1");
    let ping = |kind: u8| {
        let mut message = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1, 9, 9];
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        message
    };
    let outcome = h1.from("v1", to("198.18.2.254", ICMP, &ping(8)));
    assert_eq!(outcome.verdict, Verdict::Answer);
    let reply = ip4("198.18.2.254", "198.18.1.1", ICMP, &ping(0));
    assert_eq!(sent(&outcome).bytes, eth(R1, A1, 0x0800, &reply));

    let reset = |sequence, acknowledged, flags, data: &[u8]| {
        let mut request = tcp(1, 2, sequence, flags, data);
        request[8..12].copy_from_slice(&u32::to_be_bytes(acknowledged));
        let outcome = host("h1").from("v1", to("198.18.1.254", TCP, &request));
        assert_eq!(outcome.verdict, Verdict::RouterAddress);
        sent(&outcome).bytes[14..].to_vec()
    };
    // SYN and data, at the end of the sequence space.
    let answer = reset(0xffff_ffff, 0, 0x02, b"abc");
    assert_eq!(answer[20..24], [0, 2, 0, 1]);
    assert_eq!(answer[24..36], [0, 0, 0, 0, 0, 0, 0, 3, 0x50, 0x14, 0, 0]);
    let answer = reset(5, 77, 0x10, b"abc");
    assert_eq!(answer[24..36], [0, 0, 0, 77, 0, 0, 0, 0, 0x50, 0x04, 0, 0]);
    let [router, guest]: [IpAddr; 2] = ["198.18.1.254", "198.18.1.1"].map(|a| a.parse().unwrap());
    assert!(transport_is_right(router, guest, TCP, &answer[20..]));
}

/// An answer to a packet from the underlay takes the way back, in its switch.
#[test]
fn an_answer_through_the_underlay() {
    let late = with_ttl(to("198.18.2.1", UDP, &udp(1, 2, b"")), 1);
    let mut h3 = host("h3");
    let key = interface_key(&h3.host, "r1", 1);
    let tunnel = [geneve(1, &ovn(1, key)), late.clone()].concat();
    let packet = outer4("198.18.0.1", 0, 6081, &tunnel, &[]);
    let outcome = h3.run(&Entry::Underlay, &Packet::new(for_host(packet, 3)));
    assert_eq!(
        outcome.verdict,
        Verdict::TtlExceeded,
        "{:#?}",
        outcome.steps
    );
    assert_eq!(remotes_of(&outcome), ["198.18.0.1"]);
    let left = sent(&outcome);
    assert_eq!(left.bytes[54..58], [key.to_be_bytes(), [0, 1]].concat());
    assert_eq!(left.bytes[58..], error(11, 0, 0, &late[14..]));
    assert!(outcome.counters.to_remote.is_empty());
    let received = host("h1").run(&Entry::Underlay, left);
    assert_eq!(
        (received.verdict, ports_of(&received)),
        (Verdict::ToPort, vec!["a1"])
    );
}

/// r1 and r2 point at each other: the packet passes four routers.
#[test]
fn routers_in_a_circle() {
    let packet = to("198.18.9.1", UDP, &udp(1, 2, b""));
    // The way back does not go by r2.
    let stopped = host("h1").from("v1", packet.clone());
    assert_eq!(stopped.verdict, Verdict::ReversePath);
    let fabric = FABRIC.replace("    interfaces:", "    reverse_path: off\n    interfaces:");
    let outcome = host_of("h1", &fabric).from("v1", packet.clone());
    assert_eq!(outcome.verdict, Verdict::TtlExceeded);
    assert_eq!(sent(&outcome).bytes[42..], with_ttl(packet, 60)[14..]);
    let routed = outcome.steps.iter().filter(|step| step.stage == "route");
    assert_eq!(routed.count(), 5);
}
