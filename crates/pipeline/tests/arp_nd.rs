//! Stage arp_nd: what is answered, with which bytes, and what goes on.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use overlane_model::Verdict::{self, *};
use overlane_pipeline::Packet;
use overlane_wire::checksum::Sum;

fn request(operation: u8, target: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    packet.extend(mac(A1).bytes());
    packet.extend([198, 18, 100, 1, 0, 0, 0, 0, 0, 0]);
    packet.extend(target);
    packet
}

fn solicitation(source: &str, target: &str, options: &[u8]) -> Vec<u8> {
    let target: std::net::Ipv6Addr = target.parse().unwrap();
    let mut message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), options].concat();
    let to = solicited_node(target);
    let sum = Sum::new().pseudo_header(
        source.parse().unwrap(),
        to.parse().unwrap(),
        58,
        message.len(),
    );
    let sum = sum.bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let group = [0x33, 0x33, 0xff, 0, 0, 3]
        .map(|byte| format!("{byte:02x}"))
        .join(":");
    eth(A1, &group, 0x86dd, &ip6(source, &to, 58, &message))
}

fn verdict(bytes: Vec<u8>) -> Verdict {
    Net::new().verdict("v1", bytes)
}

#[test]
fn an_arp_request_is_answered_in_place() {
    let mut frame = eth(A1, BROADCAST, 0x0806, &request(1, [198, 18, 100, 3]));
    frame.extend([0xaa; 18]); // padding stays
    let outcome = Net::new().from("v1", frame);
    assert_eq!((outcome.verdict, ports_of(&outcome)), (Answer, vec!["a1"]));
    let mut reply = vec![0, 1, 8, 0, 6, 4, 0, 2];
    reply.extend(mac(B1).bytes());
    reply.extend([198, 18, 100, 3]);
    reply.extend(mac(A1).bytes());
    reply.extend([198, 18, 100, 1]);
    reply.extend([0xaa; 18]);
    assert_eq!(sent(&outcome).bytes, eth(B1, A1, 0x0806, &reply));
    let step = outcome.steps.last().unwrap();
    assert_eq!(
        (step.stage, step.found.contains("port b1")),
        ("arp_nd", true)
    );
}

#[test]
fn arp_that_goes_on() {
    let arp =
        |destination, operation, target| eth(A1, destination, 0x0806, &request(operation, target));
    assert_eq!(verdict(arp(B1, 1, [198, 18, 100, 3])), Encap); // a unicast probe
    assert_eq!(verdict(arp(BROADCAST, 2, [198, 18, 100, 3])), Flood);
    assert_eq!(verdict(arp(BROADCAST, 1, [198, 18, 100, 9])), Flood); // nobody's
    assert_eq!(verdict(arp(BROADCAST, 1, [198, 18, 100, 1])), Flood); // its own
    assert_eq!(verdict(arp(BROADCAST, 1, [198, 18, 102, 3])), Flood); // another switch's
}

#[test]
fn a_solicitation_is_answered() {
    let frame = solicitation(
        "2001:2::1",
        "2001:2::3",
        &[&[1, 1][..], mac(A1).bytes()].concat(),
    );
    let outcome = Net::new().from("v1", frame);
    assert_eq!(outcome.verdict, Answer);
    let bytes = &sent(&outcome).bytes;
    assert_eq!(bytes.len(), 86);
    let advertisement = &bytes[54..];
    assert_eq!(bytes[..14], *eth(B1, A1, 0x86dd, &[]));
    assert_eq!(
        bytes[14..54],
        ip6("2001:2::3", "2001:2::1", 58, &[0; 32])[..40]
    );
    assert_eq!(advertisement[..2], [136, 0]);
    assert_eq!(advertisement[4..8], [0x60, 0, 0, 0]);
    assert_eq!(advertisement[24..], [&[2, 1][..], mac(B1).bytes()].concat());
    let [from, to] = ["2001:2::3", "2001:2::1"].map(|text| text.parse().unwrap());
    assert!(
        Sum::new()
            .pseudo_header(from, to, 58, 32)
            .bytes(advertisement)
            .verifies()
    );
}

#[test]
fn detection_of_duplicates_is_answered_to_all() {
    let outcome = Net::new().from("v1", solicitation("::", "2001:2::3", &[]));
    assert_eq!(outcome.verdict, Answer);
    let bytes = &sent(&outcome).bytes;
    assert_eq!(bytes[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(
        bytes[38..54],
        "ff02::1".parse::<std::net::Ipv6Addr>().unwrap().octets()
    );
    assert_eq!(bytes[58], 0x20);
    let [from, to] = ["2001:2::3", "ff02::1"].map(|text| text.parse().unwrap());
    assert!(
        Sum::new()
            .pseudo_header(from, to, 58, 32)
            .bytes(&bytes[54..])
            .verifies()
    );
}

#[test]
fn solicitations_that_go_on() {
    let changed = |at: usize, to: u8| {
        let mut frame = solicitation("2001:2::1", "2001:2::3", &[]);
        frame[at] = to;
        verdict(frame)
    };
    assert_eq!(changed(0, 0x33), Answer);
    assert_eq!(changed(21, 254), Flood); // hop limit
    assert_eq!(changed(55, 1), Flood); // code
    assert_eq!(changed(54, 128), Flood); // another message
    assert_eq!(verdict(solicitation("2001:2::1", "ff02::3", &[])), Flood);
    assert_eq!(verdict(solicitation("2001:2::1", "2001:2::9", &[])), Flood);
    assert_eq!(verdict(solicitation("::", "2001:2::1", &[])), Flood); // its own
    let mut unicast = solicitation("2001:2::1", "2001:2::3", &[]);
    unicast[..6].copy_from_slice(mac(B1).bytes());
    assert_eq!(verdict(unicast), Encap);
}

#[test]
fn an_answer_carries_the_tag_of_the_question() {
    let mut frame = eth(TA, BROADCAST, 0x0806, &request(1, [198, 18, 102, 2]));
    frame[22..28].copy_from_slice(mac(TA).bytes());
    frame[28..32].copy_from_slice(&[198, 18, 102, 1]);
    let packet = Packet {
        tag: Some(tag(10, 3)),
        ..Packet::new(frame)
    };
    let outcome = Net::new().run(&port("v5"), &packet);
    assert_eq!(
        (outcome.verdict, sent(&outcome).tag),
        (Answer, Some(tag(10, 3)))
    );
}
