//! Whatever the bytes, place and time: no panic, exactly one verdict, the same with and without an
//! explanation, and translations that are whole.

use overlane_model::Verdict;
use overlane_pipeline::{Entry, Outcome, Output, Packet, State, Zone};
use proptest::prelude::*;

use crate::gateway::*;

/// Packets that reach every stage: from the guests, from the leg, from another host.
fn seeds() -> Vec<(Entry, Vec<u8>)> {
    let inside = "198.18.1.1";
    let query = |from| ip(from, PEER, UDP, udp(4000, 53, b"query"));
    let echo = |kind| vec![kind, 0, 0, 0, 0, 7, 0, 1, 9, 9];
    let from_guest = [
        query(inside),
        ip(inside, PEER, TCP, segment(4000, 80, SYN)),
        ip(inside, PEER, TCP, segment(4000, 80, ACK)),
        ip(inside, PEER, ICMP, echo(8)),
        ip(inside, "198.18.1.254", ICMP, echo(8)),
        ip(inside, "198.18.1.3", UDP, udp(1, 2, &[7; 30])),
        ip4_with(inside, PEER, UDP, 0, 0x2000, &[7; 32]),
        error(
            inside,
            PEER,
            &ip(PEER, inside, UDP, udp(53, 4000, b"answer")),
        ),
        ip(SIX_INSIDE, SIX_PEER, TCP, segment(1, 2, SYN)),
        ip6(
            SIX_INSIDE,
            SIX_PEER,
            44,
            &[17, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 2, 0, 16, 9, 9],
        ),
        error(
            SIX_INSIDE,
            SIX_PEER,
            &ip(SIX_PEER, SIX_INSIDE, UDP, udp(3, 4, b"in")),
        ),
    ];
    let from_leg = [
        ip(PEER, NAT, UDP, udp(53, 4000, b"answer")),
        ip(PEER, NAT, TCP, acknowledging(80, 4000, SYN_ACK)),
        ip(PEER, NAT, TCP, segment(6000, 8080, SYN)),
        ip(PEER, NAT, ICMP, echo(0)),
        error(PEER, NAT, &query(NAT)),
        error(PEER, NAT, &query(NAT)[..28]),
        ip(PEER, inside, UDP, udp(1, 2, b"routed")),
        ip(PEER, "198.19.0.10", UDP, udp(1, 2, &[7; 30])),
        ip(SIX_PEER, SIX_OUTSIDE, UDP, udp(3, 4, b"in")),
        error(
            SIX_PEER,
            SIX_OUTSIDE,
            &ip(SIX_OUTSIDE, SIX_PEER, TCP, segment(1, 2, SYN)),
        ),
    ];
    let ethertype = |ip: &[u8]| if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    let strangers = [
        ip(inside, "198.18.1.77", UDP, udp(1, 2, b"who")),
        ip(SIX_INSIDE, "2001:2:0:1::77", UDP, udp(1, 2, b"who")),
    ];
    let messages = [
        arp_reply(A1, "198.18.1.77", R1, "198.18.1.254"),
        arp_request(A1, "198.18.1.77", BROADCAST, "198.18.1.254"),
        arp_request(A1, "198.18.1.77", BROADCAST, "198.18.1.78"),
        advertisement(A1, "2001:2:0:1::77", R1, "2001:2:0:1::fe"),
    ];
    let from_guest = from_guest.into_iter().chain(strangers).collect::<Vec<_>>();
    let guest = from_guest
        .iter()
        .map(|ip| (port("v1"), eth(A1, R1, ethertype(ip), ip)));
    let leg = Entry::Leg("phys0".parse().unwrap());
    let leg = from_leg
        .iter()
        .map(|ip| (leg.clone(), eth(OUTSIDE, LEG, ethertype(ip), ip)));
    let far = from_guest.iter().map(|ip| {
        let tunnel = [vxlan(1), eth(A3, R1, ethertype(ip), ip)].concat();
        (Entry::Underlay, outer4("198.18.0.2", 0, 4789, &tunnel, &[]))
    });
    let messages = messages.into_iter().map(|message| (port("v1"), message));
    let on_leg = [
        arp_reply(OUTSIDE, "198.19.0.9", LEG, NAT),
        arp_request(OUTSIDE, "198.19.0.9", BROADCAST, "198.19.0.1"),
        advertisement(OUTSIDE, "2001:2:0:9::9", LEG, "2001:2:0:9::2"),
    ];
    let on_leg = on_leg
        .into_iter()
        .map(|message| (Entry::Leg("phys0".parse().unwrap()), message));
    guest
        .chain(leg)
        .chain(far)
        .chain(messages)
        .chain(on_leg)
        .collect()
}

fn entered() -> impl Strategy<Value = (Entry, Packet)> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..4);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let size = prop::option::weighted(0.1, 1_u16..100);
    let seed = prop::sample::select(seeds());
    (seed, changes, cut, size).prop_map(|((entry, mut bytes), changes, cut, size)| {
        for (at, to) in changes {
            // Ethernet addresses stay, so that most get through.
            let at = 14 + at.index(bytes.len() - 14);
            bytes[at] = to;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let gso = size.and_then(|size| tcp_gso(size, 2));
        (
            entry,
            Packet {
                gso,
                ..Packet::new(bytes)
            },
        )
    })
}

/// What leaves fits the verdict; an answer is one packet, and counts nowhere.
fn check(outcome: &Outcome) {
    let counters = &outcome.counters;
    let verdicts: Vec<_> = counters.verdicts.keys().collect();
    assert_eq!(verdicts, [&(outcome.hook, outcome.verdict)]);
    let left = |wanted: fn(&Output) -> bool| outcome.outputs.iter().filter(|o| wanted(o)).count();
    let counted = (counters.to_port.len(), counters.to_remote.len());
    let expected = match outcome.verdict {
        Verdict::ToPort => (1, 0),
        Verdict::Encap => (0, 1),
        Verdict::Flood => (left(|o| matches!(o, Output::Port { .. })), counted.1),
        _ => (0, 0),
    };
    assert_eq!(counted, expected, "{:?}", outcome.verdict);
    let is_silent = !matches!(
        outcome.verdict,
        Verdict::NoRoute
            | Verdict::NoNeighbour
            | Verdict::TtlExceeded
            | Verdict::RouterAddress
            | Verdict::PktTooBig
            | Verdict::Resolving
    );
    // A question goes to both ports of the switch here, and to its other host.
    let most = match outcome.verdict {
        Verdict::Resolving => 3,
        _ => usize::from(!is_silent),
    };
    if outcome.verdict.is_drop() {
        assert!(outcome.outputs.len() <= most, "{:?}", outcome.verdict);
    }
}

/// Each translation is found from outside, and nothing else is.
fn check_translations(state: &State) {
    let connections = state.connections();
    for (outside, key) in state.translations() {
        let connection = &connections[key];
        assert_eq!(connection.outside, Some(*outside));
    }
    let of_routers = connections
        .keys()
        .filter(|key| matches!(key.zone, Zone::Router(_)));
    assert_eq!(of_routers.count(), state.translations().len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn one_verdict_and_no_panic(packets in prop::collection::vec((entered(), 0..40_u64), 1..12)) {
        let mut gateway = Gateway::new();
        for ((entry, packet), seconds) in packets {
            gateway.now_ns += seconds * SECOND;
            let mut state = gateway.state.clone();
            let decided = gateway.host.decide(&mut state, gateway.now_ns, &entry, &packet);
            let now_ns = gateway.now_ns;
            let mut explained = gateway.host.run(&mut gateway.state, now_ns, &entry, &packet);
            prop_assert!(!explained.steps.is_empty());
            explained.steps.clear();
            prop_assert_eq!(&decided, &explained);
            prop_assert_eq!(&state, &gateway.state);
            check(&decided);
            check_translations(&state);
        }
    }
}
