//! What a guest may send from no address, before it has one.

use overlane_model::Verdict::*;

use super::*;

/// The whole Ethernet frame of a question whether an address is free.
fn probe(operation: u8, target: [u8; 4]) -> Vec<u8> {
    let mut packet = arp(A1, [0; 4]);
    packet[7] = operation;
    packet[24..].copy_from_slice(&target);
    eth(A1, B1, 0x0806, &packet)
}

/// Duplicate address detection.
fn detect(target: &str, options: &[u8]) -> Vec<u8> {
    let group = solicited_node(target.parse().unwrap());
    let message = nd(135, 24, target, options);
    eth(A1, B1, V6, &ip6("::", &group, ICMPV6, &message))
}

#[test]
fn a_probe_is_a_request_about_an_address_that_somebody_has() {
    for (operation, target, strict, mac) in [
        (1, 1, Encap, Encap),
        (1, 3, Encap, Encap),
        (1, 99, SpoofedArp, Encap),
        (2, 1, SpoofedArp, SpoofedArp),
        (3, 3, SpoofedArp, SpoofedArp),
    ] {
        let frame = probe(operation, [198, 18, 100, target]);
        assert_eq!(verdict(frame.clone()), strict, "{operation} {target}");
        assert_eq!(with_a1("security: mac", frame.clone()), mac);
        assert_eq!(with_a1("security: off", frame), Encap);
    }
}

#[test]
fn reports_of_igmp_come_from_nobody_too() {
    let report = |kind: u8, fragment, to: &str| {
        let ip = ip4_with("0.0.0.0", to, 2, 0, fragment, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        let mut frame = eth(A1, "01:00:5e:00:00:16", V4, &ip);
        frame[22] = 1;
        frame
    };
    for kind in [0x12, 0x16, 0x17, 0x22] {
        assert_eq!(verdict(report(kind, 0, "224.0.0.22")), Flood, "{kind}");
    }
    assert_eq!(verdict(report(0x11, 0, "224.0.0.22")), SpoofedIp);
    assert_eq!(verdict(report(0x22, 0x2000, "224.0.0.22")), SpoofedIp);
    assert_eq!(verdict(report(0x22, 0, "198.18.100.3")), SpoofedIp);
    for (at, to) in [(22, 2), (23, 3), (0, 0)] {
        let other = changed(report(0x22, 0, "224.0.0.22"), at, to);
        assert_eq!(verdict(other), SpoofedIp, "byte {at}");
    }
    let mut cut = report(0x22, 0, "224.0.0.22");
    cut.truncate(34);
    cut[17] = 20;
    assert_eq!(verdict(cut), SpoofedIp);
}

#[test]
fn what_an_ipv6_host_sends_before_it_has_an_address() {
    assert_eq!(verdict(detect("2001:2::1", &[])), Encap);
    assert_eq!(verdict(detect("2001:2::1", &option(9, A2))), Encap);
    // The option says a MAC, and nobody there could have one.
    let with_mac = |first: &[u8]| detect("2001:2::1", &[first, &option(1, A1)].concat());
    assert_eq!(verdict(with_mac(&[])), SpoofedNd);
    assert_eq!(verdict(with_mac(&option(9, A2))), SpoofedNd);
    let ask = v6(
        "2001:2::1",
        ICMPV6,
        &nd(135, 24, "2001:2::3", &option(1, A1)),
    );
    assert_eq!(verdict(ask), Encap);
    for (at, to) in [(21, 254), (53, 2), (54, 128)] {
        let other = changed(detect("2001:2::1", &[]), at, to);
        assert_eq!(verdict(other), SpoofedIp, "byte {at}");
    }
    let message = [
        &[ICMPV6, 0, 0, 0, 0, 0, 0, 1][..],
        &nd(135, 24, "2001:2::1", &[]),
    ]
    .concat();
    let atomic = ip6("::", "ff02::1:ff00:1", FRAGMENT, &message);
    assert_eq!(verdict(eth(A1, B1, V6, &atomic)), SpoofedIp);
    // A multicast listener report has a router alert before it (RFC 3810 section 5).
    let report = |kind: u8, options: [u8; 6]| {
        let header = [&[ICMPV6, 0][..], &options].concat();
        let payload = [&header[..], &[kind, 0, 0, 0], &[0; 24]].concat();
        let ip = ip6("::", "ff02::16", 0, &payload);
        changed(eth(A1, "33:33:00:00:00:16", V6, &ip), 21, 1)
    };
    for options in [[5, 2, 0, 0, 1, 0], [1, 0, 5, 2, 0, 0], [0, 0, 5, 2, 0, 0]] {
        for kind in [131, 132, 143] {
            assert_eq!(verdict(report(kind, options)), Flood, "{kind} {options:?}");
        }
        assert_eq!(verdict(report(130, options)), SpoofedIp);
    }
    for options in [[5, 2, 0, 1, 1, 0], [1, 1, 5, 2, 0, 0], [1, 4, 0, 0, 0, 0]] {
        assert_eq!(verdict(report(143, options)), SpoofedIp, "{options:?}");
    }
    let right = report(143, [5, 2, 0, 0, 1, 0]);
    for (at, to) in [(0, 0x32), (21, 2), (38, 0xfe), (55, 1)] {
        assert_eq!(
            verdict(changed(right.clone(), at, to)),
            SpoofedIp,
            "byte {at}"
        );
    }
}

#[test]
fn duplicate_address_detection_is_about_addresses_that_somebody_has() {
    let ask = |source, target| v6(source, ICMPV6, &nd(135, 24, target, &[]));
    for (target, strict) in [
        ("2001:2::1", Encap),
        (LINK_LOCAL, Encap),
        ("2001:2::2", Encap), // another port's, which arp_nd defends against multicast questions
        ("2001:2::99", SpoofedNd),
        ("fe80::1", SpoofedNd),
    ] {
        assert_eq!(verdict(detect(target, &[])), strict, "{target}");
        assert_eq!(with_a1("security: mac", ask("::", target)), Encap);
        // Only where it comes from nobody: others ask for any address.
        assert_eq!(verdict(ask("2001:2::1", target)), Encap);
        assert_eq!(verdict(ask(LINK_LOCAL, target)), Encap);
    }
    // The fixed part comes first.
    let cut = v6("2001:2::1", ICMPV6, &nd(135, 23, "2001:2::2", &[]));
    let outcome = Net::new().from("v1", cut);
    assert_eq!(outcome.verdict, SpoofedNd);
    assert!(
        outcome
            .steps
            .last()
            .unwrap()
            .found
            .contains("length or options")
    );
}
