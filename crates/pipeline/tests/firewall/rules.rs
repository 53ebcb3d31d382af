//! The rules: which one matches, what it does, where it counts.

use overlane_model::Direction::{FromPort, ToPort as To};
use overlane_model::{Action, PortFirewall, Service, Verdict::*};
use overlane_pipeline::{By, Entry, Outcome, Packet, Zone};

use crate::wall::*;

fn counted(outcome: &Outcome) -> Vec<(&str, u64)> {
    let rules = outcome.counters.rules.iter();
    rules
        .map(|(name, counter)| (name.as_str(), counter.packets))
        .collect()
}

#[test]
fn the_first_that_matches_decides() {
    let rules = vec![
        of(rule("office", To, Action::Allow), &["198.18.100.0/30"]),
        with(
            rule("web", To, Action::Allow),
            &[ports(6, 80, 80), ports(17, 100, 200)],
        ),
        rule("rest", To, Action::Drop),
        rule("never", To, Action::Allow),
    ];
    let mut wall = Wall::new(OPEN, rules);
    let mut from = |source: &str, protocol, payload: &[u8]| {
        let frame = eth(A2, A1, 0x0800, &ip4(source, LOCAL, protocol, payload));
        let outcome = wall.run(Peer, frame);
        let rules = counted(&outcome);
        let [(name, 1)] = rules[..] else {
            panic!("{rules:?}")
        };
        assert_eq!(outcome.verdict == FirewallDrop, name == "rest");
        name.to_owned()
    };
    assert_eq!(from("198.18.100.2", 99, &[]), "office");
    assert_eq!(from("198.18.100.9", 99, &[]), "rest");
    assert_eq!(from("198.18.100.9", 17, &udp(9, 100, &[])), "web");
    assert_eq!(from("198.18.100.9", 17, &udp(9, 200, &[])), "web");
    assert_eq!(from("198.18.100.9", 17, &udp(100, 99, &[])), "rest");
    assert_eq!(from("198.18.100.9", 17, &udp(100, 201, &[])), "rest");
    assert_eq!(from("198.18.100.9", 6, &tcp(5, 80, 1, SYN, &[])), "web");
    assert_eq!(from("198.18.100.9", 132, &udp(9, 100, &[])), "rest");
}

#[test]
fn a_rule_is_of_its_port_and_direction() {
    let mut other = rule("other", To, Action::Drop);
    other.ports[0].1 = overlane_wire::PortKey::new(2).unwrap();
    let rules = vec![other, rule("out", FromPort, Action::Drop)];
    let mut wall = Wall::new(OPEN, rules);
    assert_eq!(wall.udp(Peer, 1, 2), ToPort);
    // Of the connection that the peer began; another is stopped.
    assert_eq!(wall.udp(Local, 1, 2), ToPort);
    assert_eq!(wall.udp(Local, 1, 3), FirewallDrop);
}

#[test]
fn what_is_answered_is_no_longer_asked() {
    let rules = vec![with(
        rule("dns", FromPort, Action::Allow),
        &[ports(17, 53, 53)],
    )];
    let firewall = PortFirewall {
        drop_from_port: true,
        ..OUTBOUND
    };
    let mut wall = Wall::new(firewall, rules);
    assert_eq!(wall.udp(Local, 5, 54), FirewallDrop);
    assert_eq!(wall.udp(Peer, 5, 53), FirewallDrop);
    assert_eq!(wall.udp(Local, 5, 53), ToPort);
    let answer = wall.run(Peer, ip_frame(Peer, 17, 0, &udp(53, 5, b"data")));
    assert_eq!(
        (answer.verdict, counted(&answer)),
        (ToPort, vec![("dns", 1)])
    );
    let steps = answer.steps.iter();
    let decided = steps.filter(|step| step.by == Some(By::Rule("dns".parse().unwrap())));
    assert_eq!(decided.count(), 1, "{:?}", answer.steps);
    assert_eq!(answer.counters.to_port.len(), 1);
    wall.wait(301);
    assert_eq!(wall.udp(Peer, 5, 53), FirewallDrop);
}

#[test]
fn without_state_each_packet_is_asked() {
    let rules = vec![rule("out", FromPort, Action::AllowStateless)];
    let mut wall = Wall::new(OUTBOUND, rules);
    assert_eq!(wall.udp(Local, 5, 53), ToPort);
    assert_eq!(wall.udp(Peer, 5, 53), FirewallDrop);
    assert_eq!(wall.tcp(Local, segment(RST, 1, 1)), ToPort);
    assert_eq!(wall.tcp(Local, segment(0, 1, 1)), ConnectionInvalid);
    assert_eq!(wall.connections(), 0);
}

#[test]
fn a_dropped_packet_counts_nowhere_else() {
    let mut wall = Wall::new(OPEN, vec![rule("out", FromPort, Action::Drop)]);
    let outcome = wall.run(Local, ip_frame(Local, 99, 0, &[]));
    assert_eq!(
        (outcome.verdict, counted(&outcome)),
        (FirewallDrop, vec![("out", 1)])
    );
    assert_eq!(outcome.counters.port_dropped.len(), 1);
    assert!(outcome.outputs.is_empty() && outcome.counters.to_port.is_empty());
    let mut wall = Wall::new(OPEN, vec![rule("in", To, Action::Drop)]);
    let outcome = wall.run(Peer, ip_frame(Peer, 99, 0, &[]));
    assert_eq!(
        (outcome.verdict, counted(&outcome)),
        (FirewallDrop, vec![("in", 1)])
    );
    assert!(outcome.outputs.is_empty() && outcome.counters.to_port.is_empty());
    // The rule let it pass, and still it could not begin a connection.
    let mut wall = Wall::new(OPEN, vec![logged(rule("in", To, Action::Allow))]);
    let outcome = wall.run(Peer, segment(RST, 1, 1).bytes(Peer));
    assert_eq!(
        (outcome.verdict, counted(&outcome)),
        (ConnectionInvalid, vec![("in", 1)])
    );
    assert_eq!(outcome.log[0].reason, Some(ConnectionInvalid));
}

#[test]
fn a_rejected_packet_is_answered() {
    let mut wall = Wall::new(OPEN, vec![logged(rule("in", To, Action::Reject))]);
    let outcome = wall.run(Peer, segment(SYN, 1, 0).bytes(Peer));
    assert_eq!(
        (outcome.verdict, ports_of(&outcome)),
        (FirewallReject, vec!["a2"])
    );
    let reset = &sent(&outcome).bytes;
    assert_eq!((reset[23], reset[47]), (6, RST | ACK));
    let outcome = wall.run(Peer, ip_frame(Peer, 17, 0, &udp(1, 2, &[])));
    let error = &sent(&outcome).bytes;
    assert_eq!((error[23], error[34], error[35]), (1, 3, 13));
    assert_eq!(outcome.log[0].reason, Some(FirewallReject));
    // A first fragment of TCP has no connection to reset.
    let outcome = wall.run(Peer, ip_frame(Peer, 6, 0x2000, &tcp(80, 1000, 1, SYN, &[])));
    let error = &sent(&outcome).bytes;
    assert_eq!((error[23], error[34], error[35]), (1, 3, 13));
    let later = wall.run(Peer, ip_frame(Peer, 6, 0x2001, &[0; 40]));
    assert!(later.verdict == FirewallReject && later.outputs.is_empty());
    // From the port its own device gets the answer.
    let mut wall = Wall::new(OPEN, vec![rule("out", FromPort, Action::Reject)]);
    let outcome = wall.run(Local, ip_frame(Local, 17, 0, &udp(1, 2, &[])));
    assert_eq!(
        (outcome.verdict, ports_of(&outcome)),
        (FirewallReject, vec!["a1"])
    );
}

#[test]
fn a_log_tells_what_happened() {
    let rules = vec![
        logged(with(
            rule("dns", FromPort, Action::Allow),
            &[ports(17, 53, 53)],
        )),
        logged(rule("in", To, Action::Drop)),
        rule("quiet", FromPort, Action::Drop),
    ];
    let mut wall = Wall::new(OPEN, rules);
    let outcome = wall.run(Local, ip_frame(Local, 17, 0, &udp(5, 53, b"data")));
    let [record] = &outcome.log[..] else {
        panic!("{:?}", outcome.log)
    };
    assert_eq!((record.rule.as_str(), record.direction), ("dns", FromPort));
    assert_eq!((record.reason, record.len, record.time_ns), (None, 46, 1));
    assert_eq!(record.packet, wall.connection().0);
    assert!(matches!(record.packet.zone, Zone::Port(_, key) if key.get() == 1));
    // Its packets are the connection's, not decided by the rule itself.
    assert!(
        wall.run(Local, ip_frame(Local, 17, 0, &udp(5, 53, b"data")))
            .log
            .is_empty()
    );
    let outcome = wall.run(Peer, ip_frame(Peer, 1, 0, &[3, 1, 0, 0, 0, 0, 0, 0]));
    let record = &outcome.log[0];
    assert_eq!(record.reason, Some(FirewallDrop));
    assert_eq!((record.packet.local_port, record.packet.peer_port), (0, 3));
    assert_eq!(record.packet.local.to_string(), LOCAL);
    assert!(
        wall.run(Local, ip_frame(Local, 17, 0, &udp(5, 54, &[])))
            .log
            .is_empty()
    );
}

#[test]
fn ports_that_both_are_0_are_none() {
    let rules = vec![
        with(rule("all", FromPort, Action::Drop), &[ports(17, 0, 65535)]),
        with(
            rule("udp", FromPort, Action::Allow),
            &[Service::Protocol(17)],
        ),
    ];
    let mut wall = Wall::new(OUTBOUND, rules);
    assert_eq!(wall.udp(Local, 5, 53), FirewallDrop);
    assert_eq!(wall.udp(Local, 0, 0), ToPort);
}

#[test]
fn what_is_not_ip() {
    let frame = |kind: u16| eth(A1, A2, kind, &[0; 46]);
    let mut wall = Wall::new(OPEN, vec![]);
    assert_eq!(wall.run(Local, frame(0x88b5)).verdict, ToPort);
    let walled = PortFirewall {
        drop_non_ip: true,
        ..OPEN
    };
    let mut wall = Wall::new(walled, vec![rule("out", FromPort, Action::Allow)]);
    let outcome = wall.run(Local, frame(0x88b5));
    assert_eq!((outcome.verdict, counted(&outcome)), (FirewallDrop, vec![]));
    let back = eth(A2, A1, 0x88b5, &[0; 46]);
    assert_eq!(wall.run(Peer, back.clone()).verdict, FirewallDrop);
    wall.let_pass(&[0x88b5, 46]);
    assert_eq!(wall.run(Local, frame(0x88b5)).verdict, ToPort);
    assert_eq!(wall.run(Peer, back).verdict, ToPort);
    assert_eq!(wall.run(Local, frame(0x88b6)).verdict, FirewallDrop);
    // A length is no type.
    assert_eq!(wall.run(Local, frame(46)).verdict, FirewallDrop);
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 2];
    arp.extend(mac(A1).bytes());
    arp.extend([198, 18, 100, 1, 0, 0, 0, 0, 0, 0, 198, 18, 100, 2]);
    assert_eq!(wall.run(Local, eth(A1, A2, 0x0806, &arp)).verdict, ToPort);
}

#[test]
fn groups_have_no_connection() {
    let rules = vec![
        rule("in", To, Action::Reject),
        rule("out", FromPort, Action::Allow),
    ];
    let mut wall = Wall::new(OPEN, rules);
    let mut frame = ip_frame(Local, 17, 0, &udp(68, 67, &[]));
    frame[..6].fill(0xff);
    let outcome = wall.run(Local, frame.clone());
    assert_eq!(
        (outcome.verdict, counted(&outcome)),
        (Flood, vec![("out", 1)])
    );
    assert_eq!(wall.connections(), 0);
    // Even a broken TCP packet is judged by rules only.
    let mut broken = segment(0, 1, 1).bytes(Local);
    broken[..6].fill(0xff);
    assert_eq!(wall.run(Local, broken).verdict, Flood);
    // The copy for a1 is stopped in silence; the others, and the verdict, are as ever.
    let mut frame = ip_frame(Peer, 17, 0, &udp(5, 6, &[]));
    frame[..6].fill(0xff);
    let outcome = wall.run(Peer, frame);
    assert_eq!(
        (outcome.verdict, counted(&outcome)),
        (Flood, vec![("in", 1)])
    );
    assert_eq!(ports_of(&outcome), ["tu"]);
    assert_eq!(outcome.counters.to_port.len(), 1);
    assert_eq!(remotes_of(&outcome).len(), 2);
}

#[test]
fn segments_of_a_super_packet_are_not_judged_again() {
    let mut wall = Wall::new(OPEN, vec![rule("out", FromPort, Action::Drop)]);
    let packet = Packet::new(ip_frame(Local, 17, 0, &udp(1, 2, &[])));
    let entry = Entry::Segmenter("v1".parse().unwrap());
    assert_eq!(wall.run_at(&entry, &packet).verdict, ToPort);
    // To a port they are.
    let mut wall = Wall::new(OPEN, vec![rule("in", To, Action::Drop)]);
    let packet = Packet::new(ip_frame(Peer, 17, 0, &udp(1, 2, &[])));
    let entry = Entry::Segmenter("v2".parse().unwrap());
    assert_eq!(wall.run_at(&entry, &packet).verdict, FirewallDrop);
}

#[test]
fn what_is_not_ip_passes() {
    let all = vec![
        rule("in", To, Action::Drop),
        rule("out", FromPort, Action::Drop),
    ];
    let mut wall = Wall::new(OPEN, all);
    assert_eq!(
        wall.run(Local, eth(A1, A2, 0x88b5, &[0; 50])).verdict,
        ToPort
    );
    assert_eq!(
        wall.run(Peer, eth(A2, A1, 0x88b5, &[0; 50])).verdict,
        ToPort
    );
}

#[test]
fn from_the_underlay_too() {
    let mut wall = Wall::new(OUTBOUND, vec![]);
    let inner = |from: End| match from {
        Local => eth(
            A1,
            B1,
            0x0800,
            &ip4(LOCAL, "198.18.100.3", 17, &udp(5, 53, &[])),
        ),
        Peer => eth(
            B1,
            A1,
            0x0800,
            &ip4("198.18.100.3", LOCAL, 17, &udp(53, 5, &[])),
        ),
    };
    let tunnelled = Packet::new(from_h2(&inner(Peer)));
    let outcome = wall.run_at(&Entry::Underlay, &tunnelled);
    assert_eq!(outcome.verdict, FirewallDrop);
    assert_eq!(outcome.counters.remote_dropped.len(), 1);
    assert_eq!(wall.run(Local, inner(Local)).verdict, Encap);
    assert_eq!(wall.run_at(&Entry::Underlay, &tunnelled).verdict, ToPort);
}
