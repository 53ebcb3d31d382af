//! Stage port_security, rule by rule: what passes and what does not.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod nobody;

use common::*;
use overlane_model::Verdict::{self, *};

const V4: u16 = 0x0800;
const V6: u16 = 0x86dd;
const FOREIGN: &str = "02:00:00:00:00:99";
const LINK_LOCAL: &str = "fe80::ff:fe00:11";
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

fn verdict(bytes: Vec<u8>) -> Verdict {
    Net::new().verdict("v1", bytes)
}

fn with_a1(a1: &'static str, bytes: Vec<u8>) -> Verdict {
    let net = With {
        a1,
        ..With::default()
    };
    Net::with(net).verdict("v1", bytes)
}

fn v4(source: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    eth(A1, B1, V4, &ip4(source, "198.18.100.3", protocol, payload))
}

fn v6(source: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    eth(A1, B1, V6, &ip6(source, "2001:2::3", next, payload))
}

fn arp(sender_mac: &str, sender: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 2];
    packet.extend(mac(sender_mac).bytes());
    packet.extend(sender);
    packet.extend(mac(B1).bytes());
    packet.extend([198, 18, 100, 3]);
    packet
}

/// ICMPv6 of a type, its fixed part of `len` bytes filled with the target.
fn nd(kind: u8, len: usize, target: &str, options: &[u8]) -> Vec<u8> {
    let target = target.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut message = [&[kind, 0, 0, 0, 0, 0, 0, 0], &target[..], &[0; 16]].concat();
    message.truncate(len);
    message.extend(options);
    message
}

fn option(kind: u8, of: &str) -> Vec<u8> {
    [&[kind, 1][..], mac(of).bytes()].concat()
}

fn changed(mut frame: Vec<u8>, at: usize, to: u8) -> Vec<u8> {
    frame[at] = to;
    frame
}

#[test]
fn a_foreign_mac_is_refused_unless_security_is_off() {
    let frame = eth(FOREIGN, B1, 0x1234, &[0; 50]);
    assert_eq!(verdict(frame.clone()), SpoofedMac);
    assert_eq!(with_a1("security: mac", frame.clone()), SpoofedMac);
    assert_eq!(with_a1("security: off", frame), Encap);
    let outcome = Net::new().from("v1", eth(FOREIGN, B1, 0x1234, &[0; 50]));
    let step = outcome.steps.last().unwrap();
    assert_eq!(step.stage, "port_security");
    assert!(
        step.found.contains(FOREIGN) && step.found.contains("port a1"),
        "{}",
        step.found
    );
    assert_eq!(outcome.counters.port_dropped.len(), 1);
}

#[test]
fn arp_speaks_for_the_port_only() {
    let frame = |packet: &[u8]| eth(A1, B1, 0x0806, packet);
    let own = arp(A1, [198, 18, 100, 1]);
    assert_eq!(verdict(frame(&own)), Encap);
    assert_eq!(verdict(frame(&arp(FOREIGN, [198, 18, 100, 1]))), SpoofedArp);
    assert_eq!(verdict(frame(&arp(A1, [198, 18, 100, 2]))), SpoofedArp);
    // Another port's is never its own; nobody's is, where addresses are not checked.
    for (sender, strict, mac) in [(2, SpoofedArp, SpoofedArp), (99, SpoofedArp, Encap)] {
        let packet = frame(&arp(A1, [198, 18, 100, sender]));
        assert_eq!(verdict(packet.clone()), strict);
        assert_eq!(with_a1("security: mac", packet.clone()), mac);
        assert_eq!(with_a1("security: off", packet), Encap);
    }
    assert_eq!(
        with_a1("security: mac", frame(&arp(FOREIGN, [198, 18, 100, 1]))),
        SpoofedArp
    );
    assert_eq!(verdict(frame(&own[..27])), SpoofedArp);
    for (at, other) in [(1, 6), (2, 9), (4, 8), (5, 16)] {
        let mut odd = own.clone();
        odd[at] = other;
        assert_eq!(verdict(frame(&odd)), SpoofedArp, "byte {at}");
    }
}

#[test]
fn the_underlay_is_nobody_s_here() {
    let to = |destination: &str| {
        let ip = ip4("198.18.100.1", destination, UDP, &udp(67, 2, &[]));
        eth(A1, B1, V4, &ip)
    };
    let check = |frame: Vec<u8>, strict, mac| {
        assert_eq!(verdict(frame.clone()), strict);
        assert_eq!(with_a1("security: mac", frame.clone()), mac);
        assert_eq!(with_a1("security: off", frame), Encap);
    };
    // Of this host and of another, before the rule on DHCP.
    for vtep in ["198.18.0.1", "198.18.0.3"] {
        check(to(vtep), VtepAddress, VtepAddress);
        check(v4(vtep, UDP, &udp(1, 2, &[])), SpoofedIp, VtepAddress);
    }
    check(to("198.18.0.4"), DhcpServer, DhcpServer);
    let mapped = "::ffff:198.18.0.2";
    check(v6(mapped, UDP, &udp(1, 2, &[])), SpoofedIp, VtepAddress);
    let arp = |mac| eth(A1, B1, 0x0806, &arp(mac, [198, 18, 0, 2]));
    check(arp(A1), VtepAddress, VtepAddress);
    check(arp(FOREIGN), SpoofedArp, SpoofedArp);
    let about = |kind| v6("2001:2::1", ICMPV6, &nd(kind, 24, mapped, &[]));
    check(about(136), VtepAddress, VtepAddress);
    check(about(135), Encap, Encap);
}

#[test]
fn a_refusal_names_the_owner_of_an_address() {
    let found = |a1, sender| {
        let net = With {
            a1,
            ..With::default()
        };
        let packet = eth(A1, B1, 0x0806, &arp(A1, [198, 18, 100, sender]));
        let outcome = Net::with(net).from("v1", packet);
        outcome.steps.last().unwrap().found.clone()
    };
    assert_eq!(
        found("security: mac", 2),
        "ARP speaks for 198.18.100.2, an address of port a2, refused at port a1"
    );
    assert_eq!(
        found("security: strict", 99),
        "ARP speaks for 198.18.100.99, which is no address of port a1"
    );
}

#[test]
fn arp_and_ip_do_not_hide_behind_a_length() {
    let frame = |kind, payload: &[u8]| eth(A1, B1, kind, payload);
    for last in [0, 0xf8] {
        let snap = [0xaa, 0xaa, 3, 0, 0, last, 8, 6];
        for kind in [0, 8, 0x05ff] {
            assert_eq!(verdict(frame(kind, &snap)), HiddenHeader);
        }
        assert_eq!(verdict(frame(6, &snap[..6])), HiddenHeader);
        assert_eq!(verdict(frame(6, &snap[..5])), Encap); // not there
        assert_eq!(verdict(frame(0x0600, &snap)), Encap); // a type
        assert_eq!(with_a1("security: mac", frame(8, &snap)), HiddenHeader);
        assert_eq!(with_a1("security: off", frame(8, &snap)), Encap);
        assert_eq!(verdict(eth(FOREIGN, B1, 8, &snap)), SpoofedMac);
        for at in 0..6 {
            let mut other = snap;
            other[at] ^= 1;
            assert_eq!(verdict(frame(8, &other)), Encap, "byte {at}");
        }
    }
    let cisco = [0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0];
    assert_eq!(verdict(frame(8, &cisco)), Encap);
}

#[test]
fn ipv4_sources() {
    assert_eq!(verdict(v4("198.18.100.1", UDP, &udp(1, 2, &[]))), Encap);
    assert_eq!(verdict(v4("198.18.100.2", UDP, &udp(1, 2, &[]))), SpoofedIp);
    assert_eq!(
        with_a1("security: mac", v4("198.18.100.2", UDP, &udp(1, 2, &[]))),
        Encap
    );
    let discover = |fragment, destination| {
        let ip = ip4_with("0.0.0.0", destination, UDP, 0, fragment, &udp(68, 67, &[]));
        eth(A1, BROADCAST, V4, &ip)
    };
    assert_eq!(verdict(discover(0, "255.255.255.255")), Flood);
    assert_eq!(verdict(discover(0x4000, "255.255.255.255")), Flood);
    assert_eq!(verdict(discover(0x2000, "255.255.255.255")), SpoofedIp);
    assert_eq!(verdict(discover(0, "198.18.100.255")), SpoofedIp);
    let to_one = changed(discover(0, "255.255.255.255"), 5, 0xfe);
    assert_eq!(verdict(to_one), SpoofedIp);
    assert_eq!(verdict(v4("0.0.0.0", UDP, &udp(68, 67, &[]))), SpoofedIp);
    // Before the rule on DHCP.
    assert_eq!(verdict(v4("0.0.0.0", UDP, &udp(68, 68, &[]))), SpoofedIp);
    assert_eq!(verdict(v4("0.0.0.0", UDP, &udp(69, 67, &[]))), SpoofedIp);
    assert_eq!(verdict(v4("0.0.0.0", 6, &udp(68, 67, &[]))), SpoofedIp);
    assert_eq!(verdict(v4("0.0.0.0", UDP, &[0, 68, 0])), SpoofedIp);
}

#[test]
fn ipv6_sources() {
    assert_eq!(verdict(v6("2001:2::1", UDP, &udp(1, 2, &[]))), Encap);
    assert_eq!(verdict(v6(LINK_LOCAL, UDP, &udp(1, 2, &[]))), Encap);
    assert_eq!(verdict(v6("fe80::1", UDP, &udp(1, 2, &[]))), SpoofedIp);
    assert_eq!(
        verdict(v6("fe80::1:0:ff:fe00:11", UDP, &udp(1, 2, &[]))),
        SpoofedIp
    );
    assert_eq!(verdict(v6("2001:2::2", UDP, &udp(1, 2, &[]))), SpoofedIp);
    assert_eq!(verdict(v6("::", UDP, &udp(546, 547, &[]))), SpoofedIp);
}

#[test]
fn dhcp_servers_need_permission() {
    // From a server's port, or to a client's, whatever the other port is.
    let four = |from, to| v4("198.18.100.1", UDP, &udp(from, to, &[]));
    let six = |from, to| v6("2001:2::1", UDP, &udp(from, to, &[]));
    for frame in [four(67, 68), four(67, 9), four(9, 68), four(68, 68)]
        .into_iter()
        .chain([six(547, 546), six(547, 9), six(9, 546), six(546, 546)])
    {
        assert_eq!(verdict(frame.clone()), DhcpServer);
        assert_eq!(with_a1("security: mac", frame.clone()), DhcpServer);
        assert_eq!(with_a1("allow: [dhcp_server]", frame.clone()), Encap);
        assert_eq!(with_a1("security: off", frame), Encap);
    }
    // The families' ports are not each other's; a header that is not there is not checked.
    assert_eq!(verdict(v4("198.18.100.1", UDP, &udp(547, 1, &[]))), Encap);
    assert_eq!(verdict(v6("2001:2::1", UDP, &udp(67, 1, &[]))), Encap);
    assert_eq!(verdict(v4("198.18.100.1", UDP, &udp(1, 546, &[]))), Encap);
    assert_eq!(verdict(v6("2001:2::1", UDP, &udp(1, 68, &[]))), Encap);
    // What clients send.
    assert_eq!(verdict(v4("198.18.100.1", UDP, &udp(68, 67, &[]))), Encap);
    assert_eq!(verdict(v6(LINK_LOCAL, UDP, &udp(546, 547, &[]))), Encap);
    assert_eq!(verdict(v4("198.18.100.1", UDP, &[0, 67, 0])), Encap);
    assert_eq!(verdict(v4("198.18.100.1", 6, &udp(67, 68, &[]))), Encap);
}

#[test]
fn dhcp_servers_are_seen_in_first_fragments_only() {
    let server = udp(67, 68, &[0; 16]);
    let packet = |fragment| ip4_with("198.18.100.1", "198.18.100.3", UDP, 0, fragment, &server);
    assert_eq!(verdict(eth(A1, B1, V4, &packet(0x2000))), DhcpServer);
    assert_eq!(verdict(eth(A1, B1, V4, &packet(0x2001))), Encap);
    let to_client = udp(9, 68, &[0; 16]);
    let packet = ip4_with("198.18.100.1", "198.18.100.3", UDP, 0, 0x2000, &to_client);
    assert_eq!(verdict(eth(A1, B1, V4, &packet)), DhcpServer);
    for (from, to, first) in [
        (547, 546, DhcpServer),
        (547, 9, DhcpServer),
        (9, 546, DhcpServer),
        (546, 547, Encap),
        (67, 68, Encap),
    ] {
        let six = |offset: u8| {
            let header = [UDP, 0, 0, offset, 0, 0, 0, 1];
            [&header[..], &udp(from, to, &[0; 16])].concat()
        };
        assert_eq!(verdict(v6("2001:2::1", FRAGMENT, &six(1))), first);
        assert_eq!(verdict(v6("2001:2::1", FRAGMENT, &six(8))), Encap);
        let allowed = with_a1("allow: [dhcp_server]", v6("2001:2::1", FRAGMENT, &six(1)));
        assert_eq!(allowed, Encap);
    }
    // Behind more extension headers too.
    let deep = [
        &[60, 0, 0, 1, 0, 0, 0, 1][..],
        &[UDP, 0, 1, 4, 0, 0, 0, 0],
        &udp(547, 9, &[]),
    ];
    assert_eq!(
        verdict(v6("2001:2::1", FRAGMENT, &deep.concat())),
        DhcpServer
    );
    // Ports that are not there hide.
    let cut = [UDP, 0, 0, 1, 0, 0, 0, 1, 2, 0x23, 2];
    assert_eq!(verdict(v6("2001:2::1", FRAGMENT, &cut)), HiddenHeader);
}

#[test]
fn icmpv6_that_cannot_be_seen() {
    let hidden = |next, payload: &[u8]| verdict(v6("2001:2::1", next, payload));
    let fragment = |next, offset, kind| [next, 0, 0, offset, 0, 0, 0, 1, kind, 0, 0, 0, 0, 0, 0, 0];
    for kind in 133..=137 {
        // With more fragments to come, and without (RFC 6980).
        assert_eq!(hidden(FRAGMENT, &fragment(ICMPV6, 1, kind)), HiddenHeader);
        assert_eq!(hidden(FRAGMENT, &fragment(ICMPV6, 0, kind)), HiddenHeader);
        assert_eq!(hidden(FRAGMENT, &fragment(ICMPV6, 8, kind)), Encap);
    }
    assert_eq!(hidden(FRAGMENT, &fragment(ICMPV6, 1, 128)), Encap);
    assert_eq!(hidden(FRAGMENT, &fragment(UDP, 1, 135)), Encap);
    let without_type = [ICMPV6, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(hidden(FRAGMENT, &without_type), HiddenHeader);
    let atomic = [ICMPV6, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(hidden(FRAGMENT, &atomic), Encap);
    // One extension header of 8 bytes more, and then a protocol that nobody looks at.
    for next in [0, 43, 60] {
        assert_eq!(hidden(FRAGMENT, &fragment(next, 1, 47)), Encap);
        assert_eq!(hidden(FRAGMENT, &fragment(next, 1, 6)), HiddenHeader);
        assert_eq!(hidden(FRAGMENT, &fragment(next, 1, ICMPV6)), HiddenHeader);
        assert_eq!(hidden(FRAGMENT, &fragment(next, 8, 0)), Encap);
    }
    for (offset, expected) in [(0, Encap), (1, HiddenHeader), (8, Encap)] {
        let again = fragment(FRAGMENT, offset, 6);
        assert_eq!(hidden(FRAGMENT, &again), expected, "{offset}");
    }
    assert_eq!(
        with_a1(
            "security: off",
            v6("2001:2::1", FRAGMENT, &fragment(ICMPV6, 1, 135))
        ),
        Encap
    );
}

#[test]
fn chains_of_extension_headers() {
    let chain = |headers: usize, last: u8| {
        let mut payload = Vec::new();
        for left in (0..headers).rev() {
            let next = if left == 0 { last } else { DESTINATION };
            payload.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
        payload.extend([128, 0, 0, 0, 0, 0, 0, 0]);
        v6("2001:2::1", DESTINATION, &payload)
    };
    assert_eq!(verdict(chain(6, ICMPV6)), Encap);
    assert_eq!(verdict(chain(7, ICMPV6)), HiddenHeader);
    assert_eq!(verdict(chain(6, 43)), HiddenHeader);
    // The chain ends in the frame: in the header's first bytes, and before it is over.
    assert_eq!(
        verdict(v6("2001:2::1", DESTINATION, &[ICMPV6])),
        HiddenHeader
    );
    assert_eq!(
        verdict(v6("2001:2::1", DESTINATION, &[ICMPV6, 1, 0, 0, 0, 0, 0, 0])),
        HiddenHeader
    );
    // It is over, and the message is not there.
    assert_eq!(
        verdict(v6("2001:2::1", DESTINATION, &[ICMPV6, 0, 1, 4, 0, 0, 0, 0])),
        Encap
    );
}

#[test]
fn routers_need_permission() {
    let advertisement = v6(LINK_LOCAL, ICMPV6, &nd(134, 16, "::", &[]));
    let redirect = v6(LINK_LOCAL, ICMPV6, &nd(137, 40, "::", &[]));
    let allow = "allow: [router_advertisement]";
    for frame in [advertisement, redirect] {
        assert_eq!(verdict(frame.clone()), RouterAdvertisement);
        assert_eq!(with_a1(allow, frame.clone()), Encap);
        assert_eq!(with_a1("security: off", frame), Encap);
    }
    let behind_options = [&[ICMPV6, 0, 1, 4, 0, 0, 0, 0][..], &nd(134, 16, "::", &[])].concat();
    assert_eq!(
        verdict(v6(LINK_LOCAL, DESTINATION, &behind_options)),
        RouterAdvertisement
    );
    // Even so its option is checked.
    let spoofed = nd(134, 16, "::", &option(1, FOREIGN));
    assert_eq!(with_a1(allow, v6(LINK_LOCAL, ICMPV6, &spoofed)), SpoofedNd);
}

#[test]
fn nd_messages_are_whole() {
    for (kind, len) in [(133, 8), (134, 16), (135, 24), (136, 24), (137, 40)] {
        let allow = "allow: [router_advertisement]";
        // Routers speak from their link-local address.
        let from = if matches!(kind, 134 | 137) {
            LINK_LOCAL
        } else {
            "2001:2::1"
        };
        let whole = |options: &[u8]| {
            with_a1(
                allow,
                v6(from, ICMPV6, &nd(kind, len, "2001:2::1", options)),
            )
        };
        assert_eq!(whole(&[]), Encap, "{kind}");
        let cut = nd(kind, len - 1, "2001:2::1", &[]);
        assert_eq!(with_a1(allow, v6(from, ICMPV6, &cut)), SpoofedNd, "{kind}");
        assert_eq!(whole(&[9, 1, 0, 0, 0, 0, 0, 0]), Encap);
        assert_eq!(whole(&[9, 0, 0, 0, 0, 0, 0, 0]), SpoofedNd);
        assert_eq!(whole(&[9, 2, 0, 0, 0, 0, 0, 0]), SpoofedNd);
        assert_eq!(whole(&[9]), SpoofedNd);
        assert_eq!(whole(&[9, 1, 0, 0, 0, 0, 0, 0].repeat(16)), Encap);
        assert_eq!(whole(&[9, 1, 0, 0, 0, 0, 0, 0].repeat(17)), SpoofedNd);
    }
    // Padding behind the packet is no part of it; a length that says less is what counts.
    let mut padded = v6("2001:2::1", ICMPV6, &nd(133, 8, "::", &[]));
    padded.extend([0; 3]);
    assert_eq!(verdict(padded.clone()), Encap);
    padded[18..20].copy_from_slice(&[0, 7]);
    assert_eq!(verdict(padded), SpoofedNd);
}

#[test]
fn nd_speaks_for_the_port_only() {
    let send = |kind, target, options: &[u8]| {
        verdict(v6("2001:2::1", ICMPV6, &nd(kind, 24, target, options)))
    };
    assert_eq!(send(135, "2001:2::3", &option(1, A1)), Encap);
    assert_eq!(send(135, "2001:2::3", &option(1, FOREIGN)), SpoofedNd);
    assert_eq!(send(135, "2001:2::3", &option(2, FOREIGN)), Encap); // means nothing there
    assert_eq!(send(136, "2001:2::1", &option(2, A1)), Encap);
    assert_eq!(send(136, LINK_LOCAL, &option(2, A1)), Encap);
    assert_eq!(send(136, "2001:2::1", &option(2, FOREIGN)), SpoofedNd);
    assert_eq!(send(136, "2001:2::2", &option(2, A1)), SpoofedNd);
    assert_eq!(send(136, "fe80::1", &option(2, A1)), SpoofedNd);
    let second = [option(14, FOREIGN), option(2, FOREIGN)].concat();
    assert_eq!(send(136, "2001:2::1", &second), SpoofedNd);
}

#[test]
fn an_advertisement_is_never_about_anothers_address() {
    let about = |target| v6("2001:2::1", ICMPV6, &nd(136, 24, target, &option(2, A1)));
    for (target, mac) in [
        ("2001:2::2", SpoofedNd), // port a2's
        ("2001:2::99", Encap),    // nobody's
        ("::ffff:198.18.100.2", Encap),
        ("2001:2::1", Encap),
        (LINK_LOCAL, Encap),
    ] {
        assert_eq!(with_a1("security: mac", about(target)), mac, "{target}");
        assert_eq!(with_a1("security: off", about(target)), Encap, "{target}");
    }
    // The target comes before the options.
    let broken = v6("2001:2::1", ICMPV6, &nd(136, 24, "2001:2::2", &[9, 0]));
    let outcome = Net::new().from("v1", broken);
    let found = &outcome.steps.last().unwrap().found;
    assert_eq!(outcome.verdict, SpoofedNd);
    assert_eq!(
        found,
        "a neighbour advertisement is about 2001:2::2, an address of port a2, refused at port a1"
    );
}

#[test]
fn a_port_without_addresses_may_use_any() {
    let with = With {
        ga: "security: strict",
        ..With::default()
    };
    let mut net = Net::with(with);
    let udp = udp(1, 2, &[]);
    let frame = eth(GA, GD, V4, &ip4("192.0.2.1", "192.0.2.2", UDP, &udp));
    assert_eq!(net.verdict("v3", frame), ToPort);
    let foreign = eth(GD, GA, V4, &ip4("192.0.2.1", "192.0.2.2", UDP, &udp));
    assert_eq!(net.verdict("v3", foreign), SpoofedMac);
}
