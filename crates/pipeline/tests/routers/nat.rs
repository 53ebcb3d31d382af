//! Translation at a gateway: both ways, by each kind of rule, of ICMP errors too, with every checksum right.

use overlane_model::Verdict;
use overlane_pipeline::Entry;
use overlane_wire::checksum::checksum;

use crate::gateway::*;

#[test]
fn a_network_shares_an_address() {
    let mut gateway = Gateway::new();
    let request = |inside: &str| ip(inside, PEER, UDP, udp(4000, 53, b"query"));
    // The port stays where nobody else has it with this peer.
    let left = gateway.out(request("198.18.1.1"));
    same(left, ip(NAT, PEER, UDP, udp(4000, 53, b"query")));
    // Others get one of the range, until none is left.
    let left = gateway.out(request("198.18.1.2")).unwrap();
    let (port, _) = ports(&left);
    assert!((5000..=5001).contains(&port));
    let other = ip("198.18.1.1", PEER, UDP, udp(port, 53, b"x"));
    assert_eq!(ports(&gateway.out(other).unwrap()).0, 10_001 - port);
    let last = ip("198.18.1.2", PEER, UDP, udp(port, 53, b"x"));
    assert_eq!(gateway.out(last.clone()), Err(Verdict::NatExhausted));
    // What nobody has answered gives way, but not before it was silent for a while.
    gateway.now_ns += 2 * SECOND;
    assert_eq!(gateway.out(last.clone()), Err(Verdict::NatExhausted));
    // Towards another peer they are free.
    assert!(
        gateway
            .out(ip("198.18.1.2", "198.19.7.8", UDP, udp(port, 53, b"x")))
            .is_ok()
    );
    // Answers find their way.
    let answer = gateway.back(&ip(PEER, NAT, UDP, udp(53, port, b"answer")));
    same(
        answer,
        ip(PEER, "198.18.1.2", UDP, udp(53, 4000, b"answer")),
    );
    // What was answered lasts longer than what was not.
    gateway.now_ns = 121 * SECOND;
    assert_eq!(ports(&gateway.out(last).unwrap()).0, 10_001 - port);
    // Nobody asked for this one.
    let stray = ip(PEER, NAT, UDP, udp(53, 9, b"answer"));
    assert_eq!(gateway.back(&stray), Err(Verdict::RouterAddress));
}

#[test]
fn udp_without_a_checksum_keeps_none() {
    let mut packet = ip("198.18.1.1", PEER, UDP, udp(4000, 53, b"query"));
    packet[26..28].fill(0);
    let bytes = eth(A1, R1, 0x0800, &packet);
    let outcome = Gateway::new().run(&port("v1"), bytes);
    assert_eq!(sent(&outcome).bytes[40..42], [0, 0]);
}

#[test]
fn echo_is_told_apart_by_its_identifier() {
    let mut gateway = Gateway::new();
    let echo = |kind: u8, id: u16| {
        let mut message = vec![kind, 0, 0, 0];
        message.extend(id.to_be_bytes());
        message.extend([0, 1, 7, 7]);
        message
    };
    assert!(
        gateway
            .out(ip("198.18.1.1", PEER, ICMP, echo(8, 7)))
            .is_ok()
    );
    let left = gateway
        .out(ip("198.18.1.2", PEER, ICMP, echo(8, 7)))
        .unwrap();
    let id = u16::from_be_bytes([left[24], left[25]]);
    assert!((5000..=5001).contains(&id));
    let reply = gateway.back(&ip(PEER, NAT, ICMP, echo(0, id)));
    same(reply, ip(PEER, "198.18.1.2", ICMP, echo(0, 7)));
    // A reply that nobody asked for cannot begin one.
    let reply = gateway.out(ip("198.18.1.1", PEER, ICMP, echo(0, 99)));
    assert_eq!(reply, Err(Verdict::ConnectionInvalid));
}

#[test]
fn a_port_is_forwarded() {
    let mut gateway = Gateway::new();
    let syn = gateway.back(&ip(PEER, NAT, TCP, segment(6000, 8080, SYN)));
    same(syn, ip(PEER, "198.18.1.2", TCP, segment(6000, 80, SYN)));
    let answer = gateway.out(ip(
        "198.18.1.2",
        PEER,
        TCP,
        acknowledging(80, 6000, SYN_ACK),
    ));
    same(
        answer,
        ip(NAT, PEER, TCP, acknowledging(8080, 6000, SYN_ACK)),
    );
    // The connection has windows as any.
    let mut forged = segment(6000, 8080, ACK);
    forged[4..8].copy_from_slice(&0x4000_0000_u32.to_be_bytes());
    let forged = gateway.back(&ip(PEER, NAT, TCP, forged));
    assert_eq!(forged, Err(Verdict::OutOfWindow));
    // UDP is not forwarded: it is for the router itself.
    let outcome = gateway.on_leg(&ip(PEER, NAT, UDP, udp(6000, 8080, b"x")));
    assert_eq!(outcome.verdict, Verdict::RouterAddress);
    assert_eq!(sent(&outcome).bytes[34..36], [3, 3]);
    // What the server begins has its outside port too.
    let left = gateway
        .out(ip("198.18.1.2", PEER, TCP, segment(80, 6001, SYN)))
        .unwrap();
    assert_eq!(ports(&left), (8080, 6001));
}

#[test]
fn one_address_stands_for_another() {
    let mut gateway = Gateway::new();
    let left = gateway.out(ip(SIX_INSIDE, SIX_PEER, TCP, segment(1, 2, SYN)));
    same(left, ip(SIX_OUTSIDE, SIX_PEER, TCP, segment(1, 2, SYN)));
    let back = gateway.back(&ip(SIX_PEER, SIX_OUTSIDE, UDP, udp(3, 4, b"in")));
    same(back, ip(SIX_PEER, SIX_INSIDE, UDP, udp(3, 4, b"in")));
    // A protocol without ports, and fragments: the first has the checksum.
    let left = gateway.out(ip6(SIX_INSIDE, SIX_PEER, GRE, b"gre"));
    same(left, ip6(SIX_OUTSIDE, SIX_PEER, GRE, b"gre"));
    let datagram = ip("198.18.1.3", PEER, UDP, udp(1, 2, &[7; 64]))[20..].to_vec();
    let outside = ip("198.19.0.10", PEER, UDP, udp(1, 2, &[7; 64]))[20..].to_vec();
    for (flags, from, until) in [(0x2000, 0, 48), (6, 48, 72)] {
        let inside = ip4_with("198.18.1.3", PEER, UDP, 0, flags, &datagram[from..until]);
        let tunnel = [vxlan(1), eth(A3, R1, 0x0800, &inside)].concat();
        let outcome = gateway.run(
            &Entry::Underlay,
            outer4("198.18.0.2", 0, 4789, &tunnel, &[]),
        );
        assert_eq!(outcome.verdict, Verdict::LegOut, "{:#?}", outcome.steps);
        let expected = ip4_with("198.19.0.10", PEER, UDP, 0, flags, &outside[from..until]);
        same(Ok(checked(&sent(&outcome).bytes)), expected);
    }
}

/// The first one says the ports, and has the checksum of the whole datagram.
#[test]
fn a_datagram_in_fragments_is_one() {
    let mut gateway = Gateway::new();
    let whole = |source: &str, destination: &str, ports: (u16, u16)| {
        ip(source, destination, UDP, udp(ports.0, ports.1, &[7; 64]))
    };
    let parts = |source: &str, destination: &str, ports: (u16, u16)| {
        let datagram = whole(source, destination, ports)[20..].to_vec();
        [(0x2000, 0, 48), (6, 48, 72)].map(|(flags, from, until)| {
            ip4_with(source, destination, UDP, 0, flags, &datagram[from..until])
        })
    };
    // Somebody has the port already.
    gateway.out(whole("198.18.1.1", PEER, (4000, 53))).unwrap();
    let [first, later] = parts("198.18.1.2", PEER, (4000, 53));
    // Alone it says nothing.
    assert_eq!(gateway.out(later.clone()), Err(Verdict::FragmentUnknown));
    let left = gateway.out(first).unwrap();
    let (port, _) = ports(&left);
    let [outside, outside_later] = parts(NAT, PEER, (port, 53));
    same(Ok(left), outside);
    same(gateway.out(later), outside_later);
    // The answer, which may have the same identification.
    let [first, later] = parts(PEER, NAT, (53, port));
    let [inside, inside_later] = parts(PEER, "198.18.1.2", (53, 4000));
    assert_eq!(gateway.back(&later), Err(Verdict::FragmentUnknown));
    same(gateway.back(&first), inside);
    same(gateway.back(&later), inside_later);
}

/// RFC 5508: the quote too, whole or cut behind its first eight bytes.
#[test]
fn icmp_errors_go_by_what_they_quote() {
    let mut gateway = Gateway::new();
    let query = |source: &str| ip(source, PEER, UDP, udp(4000, 53, b"query?"));
    gateway.out(query("198.18.1.1")).unwrap();
    let port = ports(&gateway.out(query("198.18.1.2")).unwrap()).0;
    let outside = ip(NAT, PEER, UDP, udp(port, 53, b"query?"));
    for len in [outside.len(), 28] {
        let found = gateway.back(&error("198.19.3.3", NAT, &outside[..len]));
        let expected = error("198.19.3.3", "198.18.1.2", &query("198.18.1.2")[..len]);
        same(found, expected);
    }
    // About nobody's packet, or not to who is said to have sent it.
    let nobody = ip(NAT, PEER, UDP, udp(9, 53, b""));
    for stray in [
        error(PEER, NAT, &nobody),
        error(PEER, NAT, &ip("198.19.0.10", PEER, UDP, udp(port, 53, b""))),
    ] {
        assert_eq!(gateway.back(&stray), Err(Verdict::RouterAddress));
    }
    // A guest's own error about what came in.
    let answer = |to: &str, port| ip(PEER, to, UDP, udp(53, port, b"answer"));
    let found = gateway.out(error("198.18.1.2", PEER, &answer("198.18.1.2", 4000)));
    same(found, error(NAT, PEER, &answer(NAT, port)));
    let unknown = error("198.18.1.2", PEER, &answer("198.18.1.2", 4001));
    assert_eq!(gateway.out(unknown), Err(Verdict::NatUnsupported));
    // IPv6, of TCP with its whole header.
    let segment = |from: &str| ip(from, SIX_PEER, TCP, segment(1, 2, SYN));
    gateway.out(segment(SIX_INSIDE)).unwrap();
    let found = gateway.back(&error(SIX_PEER, SIX_OUTSIDE, &segment(SIX_OUTSIDE)));
    same(found, error(SIX_PEER, SIX_INSIDE, &segment(SIX_INSIDE)));
}

#[test]
fn what_no_rule_translates_may_be_dropped() {
    let open = FABRIC.replace("key: 1, ", "key: 1, security: off, ");
    let drop = open.replace("      nat:", "      untranslated: drop\n      nat:");
    let six = "2001:2:0:1::2";
    for (fabric, passes) in [(&open, true), (&drop, false)] {
        let mut gateway = Gateway::of(fabric);
        // A translation, and an error about it.
        let query = ip("198.18.1.1", PEER, UDP, udp(5000, 53, b"query?"));
        gateway.out(query.clone()).unwrap();
        let outside = ip(NAT, PEER, UDP, udp(5000, 53, b"query?"));
        let back = gateway.back(&error("198.19.3.3", NAT, &outside));
        same(back, error("198.19.3.3", "198.18.1.1", &query));
        // Out: what no rule is for, an ICMP message too.
        let verdict = |found: Result<Vec<u8>, Verdict>| found.err();
        let refused = (!passes).then_some(Verdict::NatNoRule);
        let packet = ip(six, SIX_PEER, UDP, udp(1, 2, b""));
        assert_eq!(verdict(gateway.out(packet)), refused);
        let stray = error(six, SIX_PEER, &ip(SIX_PEER, six, UDP, udp(1, 2, b"")));
        assert_eq!(verdict(gateway.out(stray)), refused);
        // In: to a guest, but not to the router itself.
        let packet = ip(PEER, "198.18.1.1", UDP, udp(1, 2, b""));
        assert_eq!(verdict(gateway.back(&packet)), refused);
        let stray = error(PEER, "198.18.1.1", &query);
        assert_eq!(verdict(gateway.back(&stray)), refused);
        let own = gateway.on_leg(&ip(PEER, NAT, UDP, udp(9, 9, b"")));
        assert_eq!(own.verdict, Verdict::RouterAddress);
    }
    // Where there is no rule at all, too.
    let all = drop.split("      nat:").next().unwrap();
    let mut gateway = Gateway::of(all);
    let packet = ip("198.18.1.1", PEER, UDP, udp(1, 2, b""));
    assert_eq!(gateway.out(packet), Err(Verdict::NatNoRule));
}

/// The sender outside is told about its packet as it sent it.
#[test]
fn an_answer_quotes_what_came() {
    let mut gateway = Gateway::new();
    let message = udp(1, 2, &[7; 1450]);
    let large = ip(PEER, "198.19.0.10", UDP, message);
    let outcome = gateway.on_leg(&large);
    assert_eq!(outcome.verdict, Verdict::PktTooBig);
    let answer = &sent(&outcome).bytes;
    assert_eq!(answer[26..34], [198, 19, 0, 2, 198, 19, 7, 7]);
    assert_eq!(
        (answer[34], answer[35], &answer[38..42]),
        (3, 4, &[0, 0, 0x05, 0xaa][..])
    );
    let quoted = answer[42..].to_vec();
    assert_eq!(quoted[8], large[8] - 1);
    assert_eq!(without_ttl(quoted), without_ttl(large[..548].to_vec()));
    assert_eq!(checksum(&answer[42..62]), 0);
}

#[test]
fn a_translation_is_forgotten_as_a_whole() {
    let mut gateway = Gateway::new();
    let syn = ip("198.18.1.1", PEER, TCP, segment(4000, 80, SYN));
    gateway.out(syn.clone()).unwrap();
    assert_eq!(
        (
            gateway.state.connections().len(),
            gateway.state.translations().len()
        ),
        (1, 1)
    );
    gateway.now_ns = 241 * SECOND;
    let late = gateway.back(&ip(PEER, NAT, TCP, acknowledging(80, 4000, SYN_ACK)));
    assert_eq!(late, Err(Verdict::RouterAddress));
    assert!(gateway.state.connections().is_empty() && gateway.state.translations().is_empty());
    let reset = ip("198.18.1.1", PEER, TCP, segment(4000, 80, 0x04));
    assert_eq!(gateway.out(reset), Err(Verdict::ConnectionInvalid));
}

/// Where nine of ten ports are taken towards a peer, nearly everybody still gets one.
#[test]
fn a_range_that_is_nine_tenths_full_takes_nearly_all_that_come() {
    let fabric = FABRIC.replace(", ports: 5000-5001", "");
    let fabric = fabric.replace(
        "addresses: [198.18.1.2]",
        "addresses: [198.18.1.2, 198.18.1.4]",
    );
    let mut gateway = Gateway::of(&fabric);
    let (all, first) = (65_536 - 1024, 1024_u16);
    let mut refused = 0;
    let peers = ["198.19.7.1", "198.19.7.2"];
    let more = all / 100;
    for peer in peers {
        let mut send = |device, mac, guest, at| {
            let packet = ip4(guest, peer, UDP, &udp(at, 53, b""));
            gateway
                .run(&port(device), eth(mac, R1, 0x0800, &packet))
                .verdict
        };
        // Two guests have nearly half of the ports each.
        for at in (first..).take(all * 9 / 10) {
            let (device, mac, guest) = match usize::from(at - first) < all * 45 / 100 {
                true => ("v1", A1, "198.18.1.1"),
                false => ("v2", A2, "198.18.1.2"),
            };
            assert_eq!(send(device, mac, guest, at), Verdict::LegOut);
        }
        // Their own ports are taken, by others.
        let others = (first..)
            .take(more)
            .map(|at| send("v2", A2, "198.18.1.4", at));
        refused += others
            .filter(|verdict| *verdict == Verdict::NatExhausted)
            .count();
    }
    let tried = more * peers.len();
    assert!(refused * 1000 <= tried, "{refused} of {tried}");
}
