//! Whatever the bytes, tables, time and place: no panic, exactly one verdict, sums that add up. Random
//! bytes hardly pass the first stage, so most packets are right ones with a few bytes changed, cut or
//! doubled.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::LazyLock;

use common::*;
use overlane_model::Tables;
use overlane_pipeline::{Entry, Gso, GsoKind, Host, Packet, State};
use overlane_wire::VlanTag;
use overlane_wire::ethernet::Tag;
use proptest::prelude::*;

/// Packets that reach every stage.
fn seeds() -> Vec<Vec<u8>> {
    let udp4 = to(B1, 30);
    let nd = [
        &[135, 0, 0, 0, 0, 0, 0, 0][..],
        &[0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3],
        &[1, 1, 2, 0, 0, 0, 0, 0x11],
    ]
    .concat();
    let solicitation = eth(
        A1,
        "33:33:ff:00:00:03",
        0x86dd,
        &ip6("2001:2::1", "ff02::1:ff00:3", 58, &nd),
    );
    let chain = [
        &[
            60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 58, 0, 0, 1, 0, 0, 0, 1,
        ][..],
        &nd,
    ]
    .concat();
    let extensions = eth(A1, B1, 0x86dd, &ip6("2001:2::1", "2001:2::3", 0, &chain));
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0x11, 198, 18, 100, 1];
    arp.extend([0, 0, 0, 0, 0, 0, 198, 18, 100, 3]);
    let arp = eth(A1, BROADCAST, 0x0806, &arp);
    let tcp = tcp(1, 2, 3, 0x18, &[5; 500]);
    let tcp = eth(
        A1,
        A2,
        0x0800,
        &ip4("198.18.100.1", "198.18.100.2", 6, &tcp),
    );
    let green = eth(
        GA,
        GB,
        0x8100,
        &[&[0x20, 5, 8, 0][..], &udp4[14..]].concat(),
    );
    let options = [&[0, 1, 2, 1, 9, 9, 9, 9][..], &ovn(3, 1)].concat();
    let inner = eth(
        B1,
        A1,
        0x0800,
        &ip4("198.18.100.3", "198.18.100.1", 17, &udp(1, 2, &[0; 9])),
    );
    let six = udp(5, 4789, &[vxlan(5001), inner.clone()].concat());
    vec![
        from_h2(&inner),
        from_h2(&extensions),
        outer4("198.18.0.2", 3, 4789, &vxlan(5002), &green),
        outer4("198.18.0.2", 1, 6081, &geneve(5001, &options), &inner),
        outer4("198.18.0.2", 0, 6081, &geneve(5001, &ovn(3, 0x8000)), &arp),
        eth(B1, A1, 0x86dd, &ip6("2001:2::f2", "2001:2::f1", 17, &six)),
        udp4,
        solicitation,
        extensions,
        arp,
        tcp,
        green,
        eth(TA, TB, 0x1234, &[0; 50]),
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let seed = prop::sample::select(seeds());
    let mutated = (
        seed,
        prop::collection::vec(change, 0..6),
        any::<prop::sample::Index>(),
        0..4_u8,
    );
    let mutated = mutated.prop_map(|(mut bytes, changes, cut, kind)| {
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        let cut = cut.index(bytes.len());
        match kind {
            0 => bytes.truncate(cut),
            1 => bytes.extend_from_within(cut..),
            _ => {}
        }
        bytes
    });
    prop_oneof![
        8 => mutated,
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn tag() -> impl Strategy<Value = Option<Tag>> {
    let tci = prop_oneof![Just(10), Just(100), Just(0), any::<u16>()];
    let some = (any::<bool>(), tci).prop_map(|(service, tci)| Tag {
        service,
        tag: VlanTag::from_tci(tci),
    });
    prop::option::weighted(0.3, some)
}

fn gso() -> impl Strategy<Value = Option<Gso>> {
    let kind = prop::sample::select(vec![GsoKind::Tcp, GsoKind::Udp, GsoKind::Sctp]);
    let size = prop_oneof![0_u16..300, any::<u16>()];
    let some = (kind, size, 0..100_u32).prop_map(|(kind, size, segments)| Gso {
        kind,
        size,
        segments,
    });
    prop::option::weighted(0.2, some)
}

fn packet() -> impl Strategy<Value = Packet> {
    (bytes(), tag(), gso()).prop_map(|(bytes, tag, gso)| Packet { bytes, tag, gso })
}

fn entry() -> impl Strategy<Value = Entry> {
    let device = prop::sample::select(vec!["v1", "v2", "v3", "v5", "v6", "v9"]);
    let device = device.prop_map(|name| name.parse().unwrap());
    prop_oneof![
        2 => Just(Entry::Underlay),
        2 => device.clone().prop_map(Entry::Port),
        1 => device.prop_map(Entry::Segmenter),
    ]
}

/// Of both encapsulations over both families.
static TABLES: LazyLock<Vec<Tables>> = LazyLock::new(|| {
    let all = [(false, false), (false, true), (true, false), (true, true)];
    let with = all.map(|(geneve, six)| With {
        tunnel: match geneve {
            true => "encapsulation: geneve, dscp: copy",
            false => "encapsulation: vxlan, strict: true",
        },
        a1: "learning: { limit: 2, age: 1 }",
        ga: "learning: { limit: 1, age: 2 }, security: mac",
        six,
        mtu: None,
    });
    with.iter().map(|with| tables("h1", with)).collect()
});

fn net() -> impl Strategy<Value = Net> {
    let mtu = prop_oneof![Just(0), Just(1500), any::<u32>()];
    let tables = (0..TABLES.len()).prop_map(|i| TABLES[i].clone());
    (tables, mtu).prop_map(|(tables, mtu)| Net {
        host: Host::new(tables, mtu),
        state: State::new(),
        now_ns: 0,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn one_verdict_and_no_panic(
        mut net in net(),
        packets in prop::collection::vec((entry(), packet(), any::<u64>()), 1..8),
    ) {
        for (entry, packet, now_ns) in packets {
            net.now_ns = now_ns;
            let mut state = net.state.clone();
            let mut explained = net.run(&entry, &packet);
            let decided = net.host.decide(&mut state, now_ns, &entry, &packet);
            prop_assert!(!explained.steps.is_empty());
            explained.steps.clear();
            prop_assert_eq!(decided, explained);
            prop_assert_eq!(&state, &net.state);
            let counted: u32 = state.counts().values().sum();
            prop_assert_eq!(counted as usize, state.learned().len());
        }
    }

    #[test]
    fn segments_carry_the_payload(packet in packet(), vxlan in any::<bool>()) {
        let tunnel = if vxlan { overlane_model::Encapsulation::Vxlan } else { overlane_model::Encapsulation::Geneve };
        for segments in [packet.segments(), packet.segments_in(tunnel)] {
            prop_assert!(!segments.is_empty());
            let total: usize = segments.iter().map(|segment| segment.bytes.len()).sum();
            // Less only by a jumbo option.
            prop_assert!(total + 8 >= packet.bytes.len());
        }
    }
}
