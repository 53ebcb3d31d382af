//! Whatever the bytes, rules and time: no panic, the same with and without an explanation, and connections
//! that are whole.

use overlane_model::{Action, Direction, PortFirewall, RuleTable, Service};
use overlane_pipeline::{Entry, Packet};
use proptest::prelude::*;

use crate::wall::*;

fn seeds() -> Vec<Vec<u8>> {
    let question = udp(5, 53, b"question");
    let sent = ip_frame(Local, 17, 0, &question);
    let about = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &sent[14..42]].concat();
    let sent6 = ip6_frame(Local, 17, &question);
    let about6 = [&[1, 3, 0, 0, 0, 0, 0, 0][..], &sent6[14..62]].concat();
    let mut group = sent.clone();
    group[..6].fill(0xff);
    vec![
        segment(SYN, 99, 0).scale(7).bytes(Local),
        segment(SYN | ACK, 499, 100).bytes(Peer),
        segment(ACK, 100, 500).len(30).bytes(Local),
        segment(FIN | ACK, 500, 130).bytes(Peer),
        ip_frame(Peer, 17, 0, &udp(53, 5, b"answer")),
        ip_frame(Local, 1, 0, &[8, 0, 0, 0, 0, 7, 0, 1]),
        ip_frame(Peer, 1, 0, &[0, 0, 0, 0, 0, 7, 0, 1]),
        ip_frame(Peer, 1, 0, &about),
        ip6_frame(Peer, 58, &about6),
        ip6_frame(
            Local,
            44,
            &[&[17, 0, 0, 1, 0, 0, 0, 1][..], &question].concat(),
        ),
        ip_frame(Local, 6, 0x2000, &[1; 24]),
        group,
        sent,
        sent6,
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..4);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let seed = prop::sample::select(seeds());
    (seed, changes, cut).prop_map(|(mut bytes, changes, cut)| {
        for (at, to) in changes {
            // Addresses stay, so that most get through.
            let at = 12 + at.index(bytes.len() - 12);
            bytes[at] = to;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    })
}

fn some_rule() -> impl Strategy<Value = RuleTable> {
    let direction = prop::sample::select(Direction::ALL.to_vec());
    let action = prop::sample::select(Action::ALL.to_vec());
    let service = prop_oneof![
        any::<u8>().prop_map(Service::Protocol),
        Just(ports(17, 0, 100)),
        Just(ports(6, 80, 2000)),
        Just(Service::Icmp {
            protocol: 1,
            kind: 8,
            code: None
        }),
    ];
    let services = prop::option::of(prop::collection::vec(service, 1..3));
    (direction, action, services, any::<bool>()).prop_map(|(direction, action, services, log)| {
        RuleTable {
            services,
            log,
            ..rule("any", direction, action)
        }
    })
}

fn firewall() -> impl Strategy<Value = PortFirewall> {
    any::<[bool; 4]>().prop_map(|[from, to, full, non_ip]| PortFirewall {
        drop_from_port: from,
        drop_to_port: to,
        allow_when_full: full,
        drop_non_ip: non_ip,
        ..OPEN
    })
}

/// Who sends, what, how long after the one before, and whether the rules change before it.
fn event() -> impl Strategy<Value = (bool, Vec<u8>, u64, bool)> {
    let pause = prop_oneof![0..SECOND, 0..200 * SECOND];
    (any::<bool>(), bytes(), pause, prop::bool::weighted(0.1))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(
        firewall in firewall(),
        sets in prop::collection::vec(prop::collection::vec(some_rule(), 0..4), 2),
        events in prop::collection::vec(event(), 1..20),
        places in 0..4_u32,
    ) {
        let mut wall = Wall::new(firewall, sets[0].clone());
        wall.set_places(1 << places);
        for (n, (local, bytes, pause, change)) in events.into_iter().enumerate() {
            wall.now_ns += pause;
            if change {
                wall.set(sets[n % 2].clone());
            }
            let entry = Entry::Port(if local { "v1" } else { "v2" }.parse().unwrap());
            let packet = Packet::new(bytes);
            let before = wall.state.clone();
            let decided = wall.decide_at(&entry, &packet);
            let after = std::mem::replace(&mut wall.state, before);
            let mut explained = wall.run_at(&entry, &packet);
            explained.steps.clear();
            prop_assert_eq!(&decided, &explained);
            prop_assert_eq!(&wall.state, &after);
            let connections = wall.state.connections();
            prop_assert!(connections.len() <= 1 << places);
            let mut taken: Vec<_> = connections.values().map(|one| one.place).collect();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), connections.len());
        }
    }
}
