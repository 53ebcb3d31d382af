//! Rules on real namespaces: they change while packets flow and none slips through; their counters, connections
//! and log are seen.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{World, assert_same, can_run, changes, inner, snapshot};
use overlane_host::observe::{self, ConnectionState, OtherDevice, PortState, Whose};
use overlane_host::{HostError, UsedAs, rule_log};
use overlane_net::netns::Netns;

/// The two hosts' fabric, with these rules.
fn with_rules(world: &World, rules: &str) -> String {
    format!("{}rules:\n{rules}", world.fabric("geneve", 6081, ""))
}

/// `stop` is what must hold at every moment; the rule behind it would let everything pass.
fn stop_among(others: usize) -> String {
    let mut rules = String::new();
    for n in 0..others {
        rules.push_str(&format!(
            "  other{n}: {{ ports: [web1], direction: to_port, action: allow, priority: {}, \
             peers: [198.19.{n}.0/24], services: [tcp/{}-{}] }}\n",
            2000 + n % 3,
            n + 1,
            n + 50
        ));
    }
    rules
        + "  stop: { ports: [web1], direction: to_port, action: drop, services: [udp/9] }\n\
           \x20 rest: { ports: [web1], direction: to_port, action: allow, priority: 10, log: true }\n"
}

#[test]
fn no_packet_slips_through_while_rules_change() {
    if !can_run("no_packet_slips_through_while_rules_change") {
        return;
    }
    let world = World::new(2);
    let first = with_rules(&world, &stop_among(3));
    for n in 1..=2 {
        world.apply(&first, n).unwrap();
    }
    assert!(world.ping(2, 1, 3));
    let guest = |n| Netns::open(&world.guest(n)).unwrap();
    let receiver = guest(1)
        .run(|| UdpSocket::bind((inner(1), 9)))
        .unwrap()
        .unwrap();
    receiver.set_nonblocking(true).unwrap();
    let sender = guest(2)
        .run(|| UdpSocket::bind((inner(2), 0)))
        .unwrap()
        .unwrap();
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                sent += u64::from(sender.send_to(b"no", (inner(1), 9)).is_ok());
                if sent.is_multiple_of(64) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            sent
        });
        for round in 0..12 {
            let text = with_rules(&world, &stop_among([0, 90, 7, 140][round % 4]));
            world.apply(&text, 1).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        sending.join().unwrap()
    });
    assert!(sent > 1000, "{sent}");
    assert!(world.ping(2, 1, 3));
    let refused = receiver.recv(&mut [0; 16]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    // The counter went with the rule from number to number.
    let rules = observe::rules(&world.host(1)).unwrap().rules;
    let stop = rules.iter().find(|rule| rule.rule == "stop").unwrap();
    assert!(
        stop.hits.packets > sent / 2,
        "{} of {sent}",
        stop.hits.packets
    );
    assert!(stop.hits.packets <= sent);
}

#[test]
fn rules_connections_and_log_are_seen() {
    if !can_run("rules_connections_and_log_are_seen") {
        return;
    }
    let world = World::new(2);
    let rules = "  pings: { ports: [web1], direction: to_port, action: allow, services: [icmp/8], log: true }\n\
                 \x20 others: { ports: [web1], direction: to_port, action: reject, priority: 5 }\n";
    let text = with_rules(&world, rules);
    for n in 1..=2 {
        let report = world.apply(&text, n).unwrap();
        let lines = changes(&report);
        // A host has the rules that name one of its ports.
        assert_eq!(
            lines.contains(&"+ rule pings (to_port, allow)".to_owned()),
            n == 1
        );
    }
    let host = world.host(1);
    let mut session = rule_log::Session::open(&host).unwrap();
    let second = rule_log::Session::open(&host).unwrap_err();
    assert!(matches!(second, HostError::ReadingLog { .. }), "{second}");
    assert!(world.ping(2, 1, 3));

    let rows = observe::rules(&host).unwrap().rules;
    assert_eq!(rows.len(), 2);
    // Echo requests and replies; the first of them by the rule itself.
    assert!(rows[0].hits.packets >= 3, "{rows:?}");
    assert_eq!((rows[0].action.as_str(), rows[0].log), ("allow", true));
    let found = observe::connections(&host, Some("web1"))
        .unwrap()
        .connections;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].whose, Whose::Port("web1".into()));
    assert_eq!((found[0].protocol, found[0].icmp_type), (1, Some(8)));
    assert_eq!(found[0].state, ConnectionState::Established);
    assert_eq!(found[0].rule.as_deref(), Some("pings"));
    assert!(found[0].begun_by_peer && !found[0].expired);
    let unknown = observe::connections(&host, Some("web9")).unwrap_err();
    assert!(unknown.help().unwrap().contains("web1"), "{unknown}");

    let until = Instant::now() + Duration::from_secs(10);
    let record = loop {
        if let Some(record) = session.next() {
            break record;
        }
        assert_eq!(
            session.wait(Some(until), None).unwrap(),
            None,
            "no record came"
        );
    };
    assert_eq!(record.rule.as_deref(), Some("pings"));
    assert_eq!(
        (record.port.as_deref(), record.direction),
        (Some("web1"), "to_port")
    );
    assert!(record.passed && record.verdict.is_none());
    assert_eq!(record.peer.address, inner(2));
    // Only what the rule itself decided: the connection's packets are none of it.
    assert_eq!(session.next(), None);

    // The same again: nothing to do, and the connection stays.
    let before = snapshot(&world, 1);
    assert_eq!(
        changes(&world.apply(&text, 1).unwrap()),
        Vec::<String>::new()
    );
    assert_same(&before, &snapshot(&world, 1), "second apply");
    assert_eq!(
        observe::connections(&host, None).unwrap().connections.len(),
        1
    );
    let reduced = with_rules(
        &world,
        "  pings: { ports: [web1], direction: to_port, action: drop }\n",
    );
    let lines = changes(&world.apply(&reduced, 1).unwrap());
    assert_eq!(
        lines,
        [
            // None of its rules asks for a protocol any more.
            "~ port web1 (device web1, key 7): its entry in the maps",
            "~ rule pings (to_port, drop): action allow → drop, log true → false, services",
            "- rule others (to_port, reject)"
        ]
    );
    assert!(!world.ping(2, 1, 1));
}

/// What all that show a leg say of it.
fn assert_leg(host: &str, state: PortState) {
    let leg = OtherDevice {
        device: "phys0".into(),
        used_as: UsedAs::Leg,
        state,
    };
    assert!(observe::devices(host).unwrap().others.contains(&leg));
    assert!(observe::ports(host).unwrap().others.contains(&leg));
    let routers = observe::routes(host).unwrap().routers;
    assert_eq!(routers[0].leg_state, Some(state));
}

#[test]
fn a_gateways_leg_is_attached_and_follows_its_device() {
    if !can_run("a_gateways_leg") {
        return;
    }
    let world = World::new(1);
    let netlink = world.netlink(1);
    let host = world.host(1);
    let text = format!(
        "{}routers:\n  r1:\n    interfaces: {{ blue: [198.18.100.254/24] }}\n    \
         routes: [{{ to: 0.0.0.0/0, via: 198.19.0.1 }}]\n    \
         gateway: {{ host: {host}, device: phys0, addresses: [198.19.0.2/24], \
         nat: [{{ source: 198.18.100.0/24, outside: 198.19.0.2 }}] }}\n",
        world.fabric("geneve", 6081, "")
    );
    let report = world.apply(&text, 1).unwrap();
    let missing: Vec<_> = report.missing.iter().map(ToString::to_string).collect();
    assert_eq!(missing, ["phys0 (leg of router r1)"]);
    assert_leg(&host, PortState::Missing);
    let line = "+ leg phys0 of router r1: its device is missing".to_owned();
    assert!(changes(&report).contains(&line), "{:?}", changes(&report));
    assert_eq!(changes(&world.apply(&text, 1).unwrap()), [""; 0]);
    world.remove(1);

    netlink.add_veth("phys0", "phys1", None).unwrap();
    let report = world.apply(&text, 1).unwrap();
    let lines = changes(&report);
    let line = "+ leg phys0 of router r1".to_owned();
    assert!(lines.contains(&line), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("+ router r1 (")),
        "{lines:?}"
    );
    let notes: Vec<String> = report.notes.iter().map(ToString::to_string).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("leg phys0: it is down")),
        "{notes:?}"
    );
    assert_leg(&host, PortState::Down);

    let routes = observe::routes(&host).unwrap().routers.remove(0);
    assert_eq!(
        (routes.gateway.as_deref(), routes.leg.as_deref()),
        (Some(host.as_str()), Some("phys0"))
    );
    let default = routes
        .routes
        .iter()
        .find(|route| route.to == "0.0.0.0/0")
        .unwrap();
    assert_eq!(default.way.to_string(), "via 198.19.0.1 (leg)");
    for end in ["phys0", "phys1"] {
        netlink.set_up(end).unwrap();
    }
    assert_eq!(
        changes(&world.apply(&text, 1).unwrap()),
        Vec::<String>::new()
    );
    assert_leg(&host, PortState::Ok);

    // Another device of the same name: its index and its MAC are in the tables.
    netlink.delete("phys0").unwrap();
    netlink.add_veth("phys0", "phys1", None).unwrap();
    for end in ["phys0", "phys1"] {
        netlink.set_up(end).unwrap();
    }
    let lines = changes(&world.apply(&text, 1).unwrap());
    for again in [
        "~ leg phys0 of router r1: attached to its device again",
        "~ router entries in the maps",
    ] {
        assert!(lines.contains(&again.to_owned()), "{lines:?}");
    }

    // It goes, and comes back.
    netlink.delete("phys0").unwrap();
    let report = world.apply(&text, 1).unwrap();
    let gone = "~ leg phys0 of router r1: its device is missing".to_owned();
    assert!(changes(&report).contains(&gone), "{:?}", changes(&report));
    assert_eq!(report.missing.len(), 1);
    netlink.add_veth("phys0", "phys1", None).unwrap();
    let lines = changes(&world.apply(&text, 1).unwrap());
    let came = "~ leg phys0 of router r1: its device is there".to_owned();
    assert!(lines.contains(&came), "{lines:?}");

    // Without the gateway nothing of the leg stays.
    world.apply(&world.fabric("geneve", 6081, ""), 1).unwrap();
    assert!(!snapshot(&world, 1).contains("phys0\","), "links and state");
}
