//! Who asks for a router's MAC, and what a gateway takes from its leg.

use overlane_model::Verdict;
use overlane_pipeline::{Entry, Packet};

use crate::net::*;

#[test]
fn the_router_has_a_mac_for_everybody() {
    let who_has = |target: [u8; 4], destination: &str| {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend(mac(A1).bytes());
        arp.extend([198, 18, 1, 1, 0, 0, 0, 0, 0, 0]);
        arp.extend(target);
        eth(A1, destination, 0x0806, &arp)
    };
    for destination in [BROADCAST, R1] {
        let outcome = host("h1").from("v1", who_has([198, 18, 1, 254], destination));
        assert_eq!(outcome.verdict, Verdict::Answer);
        assert_eq!(sent(&outcome).bytes[22..28], *mac(R1).bytes());
    }
    // From the underlay only the gateway host answers, and only for the router.
    let from_underlay = |name: &str, target| {
        let tunnel = [geneve(1, &[]), who_has(target, BROADCAST)].concat();
        let packet = outer4("198.18.0.1", 0, 6081, &tunnel, &[]);
        let packet = for_host(packet, name.as_bytes()[1] - b'0');
        host(name)
            .run(&Entry::Underlay, &Packet::new(packet))
            .verdict
    };
    assert_eq!(from_underlay("h3", [198, 18, 1, 254]), Verdict::Answer);
    assert_eq!(from_underlay("h2", [198, 18, 1, 254]), Verdict::Flood);
    assert_eq!(from_underlay("h3", [198, 18, 1, 2]), Verdict::Flood);
}

#[test]
fn a_leg_takes_what_is_the_routers() {
    let mut h3 = host("h3");
    let mut verdict = |bytes: Vec<u8>| h3.on_leg(bytes).verdict;
    let packet = |destination: &str, mac| {
        eth(
            OUTSIDE,
            mac,
            0x0800,
            &ip4("198.19.0.9", destination, UDP, &udp(1, 2, b"")),
        )
    };
    assert_eq!(verdict(packet("198.18.1.1", LEG)), Verdict::Encap);
    assert_eq!(verdict(packet("198.18.8.1", LEG)), Verdict::Encap);
    assert_eq!(verdict(packet("198.19.0.2", LEG)), Verdict::RouterAddress);
    for (destination, mac) in [
        ("198.19.0.7", LEG),
        ("198.19.9.9", LEG),
        ("198.18.1.1", OUTSIDE),
        ("198.18.1.1", BROADCAST),
    ] {
        assert_eq!(
            verdict(packet(destination, mac)),
            Verdict::ToHost,
            "{destination} {mac}"
        );
    }
    let who_has = |target: u8| {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend(mac(OUTSIDE).bytes());
        arp.extend([198, 19, 0, 9, 0, 0, 0, 0, 0, 0, 198, 19, 0, target]);
        eth(OUTSIDE, BROADCAST, 0x0806, &arp)
    };
    assert_eq!(verdict(who_has(3)), Verdict::ToHost);
    let outcome = h3.on_leg(who_has(2));
    assert_eq!(outcome.verdict, Verdict::Answer);
    assert_eq!(
        sent(&outcome).bytes[..12],
        [*mac(OUTSIDE).bytes(), *mac(LEG).bytes()].concat()
    );
}

/// Larger than the leg takes, from inside; larger than the tunnel takes, from the leg.
#[test]
fn path_mtu_at_the_gateway() {
    let large = eth(
        OUTSIDE,
        LEG,
        0x0800,
        &ip4("198.19.0.9", "198.18.1.1", UDP, &[7; 1425]),
    );
    let outcome = host("h3").on_leg(large.clone());
    assert_eq!(outcome.verdict, Verdict::PktTooBig);
    let left = &sent(&outcome).bytes;
    assert_eq!(
        left[..12],
        [*mac(OUTSIDE).bytes(), *mac(LEG).bytes()].concat()
    );
    assert_eq!(left[26..34], [198, 19, 0, 2, 198, 19, 0, 9]);
    assert_eq!(
        (left[34], left[35], &left[38..42]),
        (3, 4, &[0, 0, 0x05, 0xa2][..])
    );
    assert_eq!(left[42..], with_ttl(large, 63)[14..14 + 548]);
}
