//! Stage learn: limit, age, moves and sweeps of learning ports, and addresses behind remotes.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use overlane_model::Learning;
use overlane_model::Verdict::{self, *};
use overlane_pipeline::{Host, LearnedPlace};

fn learning(a1: &'static str) -> Net {
    Net::with(With {
        a1,
        ..With::default()
    })
}

/// Learning switches, and ports that learn so many addresses or, without a limit, none.
fn with_limits(limit: impl Fn(&str) -> Option<u32>) -> Net {
    let mut tables = tables("h1", &With::default());
    for port in &mut tables.ports {
        let limit = limit(port.name.as_str());
        port.learning = limit.map(|limit| Learning { limit, age_s: 10 });
    }
    for switch in &mut tables.switches {
        switch.learn_age_s = Some(10);
    }
    let mut net = Net::new();
    net.host = Host::new(tables, 1500);
    net
}

/// The MAC of guest `n` behind a learning port.
fn guest(n: u8) -> String {
    format!("02:00:00:00:77:{n:02x}")
}

fn speak(net: &mut Net, device: &str, source: &str, destination: &str) -> Verdict {
    net.verdict(device, eth(source, destination, 0x1234, &[0; 50]))
}

fn macs(net: &Net) -> Vec<u32> {
    net.state.counts().values().copied().collect()
}

#[test]
fn a_learned_address_is_found_and_forgotten() {
    let mut net = learning("learning: { limit: 2, age: 10 }");
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), UnknownUnicast);
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), ToPort);
    assert_eq!(speak(&mut net, "v1", A1, &guest(1)), Hairpin);
    // It counts while it is not older than its age.
    net.now_ns = 10 * SECOND;
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), ToPort);
    net.now_ns += 1;
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), UnknownUnicast);
    // Seen again before it was swept: known again.
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), ToPort);
    assert_eq!(macs(&net), [1]);
}

#[test]
fn the_time_is_written_once_a_second() {
    let mut net = learning("learning: { limit: 2, age: 10 }");
    let seen = |net: &Net| net.state.learned().values().next().unwrap().seen_ns;
    net.now_ns = 5;
    speak(&mut net, "v1", &guest(1), B1);
    net.now_ns = SECOND + 4;
    speak(&mut net, "v1", &guest(1), B1);
    assert_eq!(seen(&net), 5);
    net.now_ns = SECOND + 5;
    speak(&mut net, "v1", &guest(1), B1);
    assert_eq!(seen(&net), SECOND + 5);
}

#[test]
fn the_limit_holds_until_old_addresses_are_forgotten() {
    let mut net = learning("learning: { limit: 2, age: 10 }");
    assert_eq!(speak(&mut net, "v1", A1, B1), Encap); // the port's own does not count
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    net.now_ns = 5 * SECOND;
    assert_eq!(speak(&mut net, "v1", &guest(2), B1), Encap);
    assert_eq!(speak(&mut net, "v1", &guest(3), B1), MacLimit);
    assert_eq!(speak(&mut net, "v1", &guest(2), B1), Encap);
    assert_eq!(macs(&net), [2]);
    // guest 1 is old now, but the last search was less than a second ago.
    net.now_ns = 10 * SECOND;
    assert_eq!(speak(&mut net, "v1", &guest(3), B1), MacLimit);
    net.now_ns = 10 * SECOND + 1;
    assert_eq!(speak(&mut net, "v1", &guest(3), B1), MacLimit);
    net.now_ns = 11 * SECOND;
    assert_eq!(speak(&mut net, "v1", &guest(3), B1), Encap);
    assert_eq!(macs(&net), [2]);
    let known: Vec<_> = net
        .state
        .learned()
        .keys()
        .map(|(_, mac)| mac.get()[5])
        .collect();
    assert_eq!(known, [2, 3]);
}

#[test]
fn no_port_takes_an_address_of_the_fabric() {
    let mut net = learning("learning: true");
    assert_eq!(speak(&mut net, "v1", A2, B1), SpoofedMac);
    assert_eq!(speak(&mut net, "v1", B1, A2), SpoofedMac);
    assert!(net.state.learned().is_empty());
    let mut net = learning("learning: true, security: off");
    assert_eq!(speak(&mut net, "v1", A2, B1), Encap);
    assert!(net.state.learned().is_empty());
}

#[test]
fn an_address_that_moves_counts_where_it_is() {
    let mut net = with_limits(|_| Some(1));
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    assert_eq!(macs(&net), [1]);
    assert_eq!(speak(&mut net, "v2", &guest(1), B1), Encap);
    assert_eq!(macs(&net), [0, 1]);
    assert_eq!(speak(&mut net, "v1", A1, &guest(1)), ToPort);
    // Where the limit is reached it does not move.
    assert_eq!(speak(&mut net, "v1", &guest(2), B1), Encap);
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), MacLimit);
    // To a remote, and back.
    let frame = eth(&guest(1), A1, 0x1234, &[0; 50]);
    assert_eq!(net.on_uplink(from_h2(&frame)).verdict, ToPort);
    assert_eq!(macs(&net), [1, 1, 0]); // the first: from the underlay
    assert_eq!(speak(&mut net, "v1", A1, &guest(1)), Encap);
    assert_eq!(speak(&mut net, "v2", &guest(1), B1), Encap);
    assert_eq!(macs(&net), [0, 1, 1]);
}

#[test]
fn addresses_behind_remotes() {
    let mut net = learning("learning: { age: 20 }");
    let frame = eth(&guest(1), A1, 0x1234, &[0; 50]);
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), UnknownUnicast);
    assert_eq!(net.on_uplink(from_h2(&frame)).verdict, ToPort);
    let outcome = net.from("v2", eth(A2, &guest(1), 0x1234, &[0; 50]));
    assert_eq!(
        (outcome.verdict, remotes_of(&outcome)),
        (Encap, vec!["198.18.0.2".to_owned()])
    );
    let entry = net.state.learned().values().next().unwrap();
    assert_eq!((entry.key, entry.age_s), (0, 20));
    // Not the fabric's own, and nothing on a switch without a learning port.
    let known = eth(B1, A1, 0x1234, &[0; 50]);
    assert_eq!(net.on_uplink(from_h2(&known)).verdict, ToPort);
    assert_eq!(net.state.learned().len(), 1);
    let mut plain = Net::new();
    plain.on_uplink(from_h2(&frame));
    assert!(plain.state.learned().is_empty());
    // What is dropped before is not learned; what is dropped behind it is.
    let unknown = eth(&guest(2), "02:00:00:00:00:98", 0x1234, &[0; 50]);
    assert_eq!(net.on_uplink(from_h2(&unknown)).verdict, UnknownUnicast);
    assert_eq!(net.state.learned().len(), 2);
    let group = eth("03:00:00:00:00:01", A1, 0x1234, &[0; 50]);
    assert_eq!(net.on_uplink(from_h2(&group)).verdict, SourceMac);
    assert_eq!(net.state.learned().len(), 2);
}

#[test]
fn the_geneve_option_says_which_port_it_was() {
    let mut net = Net::with(With {
        tunnel: "encapsulation: geneve",
        a1: "learning: true",
        ..With::default()
    });
    let frame = eth(&guest(1), A1, 0x1234, &[0; 50]);
    let tunnel = geneve(5001, &ovn(0x8003, 1));
    let outcome = net.on_uplink(outer4("198.18.0.2", 0, 6081, &tunnel, &frame));
    assert_eq!(outcome.verdict, ToPort);
    let outcome = net.from("v2", eth(A2, &guest(1), 0x1234, &[0; 50]));
    assert_eq!(outcome.verdict, Encap);
    // Source key 2 and destination key 3: 15 bits of what the option said.
    assert_eq!(sent(&outcome).bytes[54..58], [0, 2, 0, 3]);
}

#[test]
fn what_was_learned_holds_while_the_tables_say_so() {
    let mut net = learning("learning: true");
    speak(&mut net, "v1", &guest(1), B1);
    net.on_uplink(from_h2(&eth(&guest(2), A1, 0x1234, &[0; 50])));
    assert_eq!(net.state.learned().len(), 2);
    let without = |change: fn(&mut overlane_model::Tables)| {
        let mut tables = net.host.tables().clone();
        change(&mut tables);
        Host::new(tables, 1500)
    };
    let not_learning = without(|tables| {
        for port in &mut tables.ports {
            port.learning = None;
        }
    });
    let no_remote = without(|tables| tables.remotes.retain(|remote| remote.name.as_str() != "h2"));
    let with = |host, n| {
        let mut net = Net {
            host,
            state: net.state.clone(),
            now_ns: 0,
        };
        speak(&mut net, "v2", A2, &guest(n))
    };
    assert_eq!(with(not_learning.clone(), 1), UnknownUnicast);
    assert_eq!(with(not_learning, 2), Encap);
    assert_eq!(with(no_remote.clone(), 1), ToPort);
    assert_eq!(with(no_remote, 2), UnknownUnicast);
    let place = &net.state.learned().values().next().unwrap().place;
    assert!(matches!(place, LearnedPlace::Port(at) if at.device.as_str() == "v1"));
}

#[test]
fn a_sweep_is_the_whole_hosts() {
    let mut net = with_limits(|_| Some(1));
    for (device, n) in [("v1", 1), ("v2", 2)] {
        assert_eq!(speak(&mut net, device, &guest(n), B1), Encap);
    }
    assert_eq!(
        net.verdict("v3", eth(&guest(3), GB, 0x1234, &[0; 50])),
        Encap
    );
    // Nothing is old, and nobody looks again for a second, whoever it was that looked.
    net.now_ns = 9 * SECOND + 2;
    assert_eq!(speak(&mut net, "v1", &guest(4), B1), MacLimit);
    net.now_ns = 10 * SECOND + 1;
    assert_eq!(speak(&mut net, "v2", &guest(5), B1), MacLimit); // they are old
    net.now_ns = 10 * SECOND + 2;
    assert_eq!(speak(&mut net, "v2", &guest(5), B1), Encap);
    assert_eq!(net.state.learned().len(), 1); // and for all of them
    net.now_ns = 21 * SECOND;
    assert_eq!(speak(&mut net, "v1", &guest(6), B1), Encap); // has room: no sweep
    assert_eq!(net.state.learned().len(), 2);
    assert_eq!(speak(&mut net, "v2", &guest(7), B1), Encap); // has none
    assert_eq!(net.state.learned().len(), 2);
    assert_eq!(macs(&net), [1, 1, 0]);
}

/// Learns `count` addresses from host h2, each of which differs from the others in `start` and its number.
fn learn_from_h2(net: &mut Net, start: u8, count: u32) {
    let frame = eth("06:00:00:00:00:00", A1, 0x1234, &[]);
    let mut packet = overlane_pipeline::Packet::new(from_h2(&frame));
    for n in 0..count {
        packet.bytes[57] = start;
        packet.bytes[58..62].copy_from_slice(&n.to_be_bytes());
        let entry = overlane_pipeline::Entry::Underlay;
        let outcome = net.host.decide(&mut net.state, net.now_ns, &entry, &packet);
        assert_eq!(outcome.verdict, ToPort);
    }
}

#[test]
fn so_many_are_learned_from_the_underlay() {
    let mut net = learning("learning: { limit: 8, age: 10 }");
    let from_2 = |net: &mut Net, source: &str| {
        let frame = eth(source, A1, 0x1234, &[]);
        net.on_uplink(from_h2(&frame)).verdict
    };
    learn_from_h2(&mut net, 0, 4095);
    assert_eq!(macs(&net), [4095]);
    assert_eq!(from_2(&mut net, &guest(1)), ToPort);
    assert_eq!(macs(&net), [4096]);
    // One more is delivered and not learned; who is known stays so, and a port has a limit of its own.
    assert_eq!(from_2(&mut net, &guest(2)), ToPort);
    assert_eq!(macs(&net), [4096]);
    assert_eq!(speak(&mut net, "v2", A2, &guest(1)), Encap);
    assert_eq!(speak(&mut net, "v2", A2, &guest(2)), UnknownUnicast);
    assert_eq!(speak(&mut net, "v1", &guest(3), B1), Encap);
    assert_eq!(macs(&net), [4096, 1]);
    // Seen elsewhere, it would have to be learned anew: from a port's place and from another remote's.
    assert_eq!(from_2(&mut net, &guest(3)), ToPort);
    assert_eq!(macs(&net), [4096, 1]);
    let elsewhere = eth(&guest(1), A1, 0x1234, &[]);
    let tunnel = vxlan(5001);
    let outcome = net.on_uplink(outer4("198.18.0.3", 0, 4789, &tunnel, &elsewhere));
    assert_eq!(outcome.verdict, ToPort);
    let outcome = net.from("v2", eth(A2, &guest(1), 0x1234, &[0; 50]));
    assert_eq!(remotes_of(&outcome), ["198.18.0.2"]);
    // One that moves to a port makes room.
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    assert_eq!(macs(&net), [4095, 2]);
    assert_eq!(from_2(&mut net, &guest(2)), ToPort);
    assert_eq!(macs(&net), [4096, 2]);
    // And so does age.
    net.now_ns = 11 * SECOND;
    assert_eq!(from_2(&mut net, &guest(4)), ToPort);
    assert_eq!(macs(&net), [1, 0]);
}

#[test]
fn the_limit_of_the_underlay_is_of_the_switch() {
    let mut net = Net::with(With {
        a1: "learning: true",
        ga: "learning: true",
        ..With::default()
    });
    learn_from_h2(&mut net, 0, 4096);
    learn_from_h2(&mut net, 1, 1);
    assert_eq!(macs(&net), [4096]);
    let frame = eth(&guest(1), GA, 0x1234, &[]);
    let outcome = net.on_uplink(outer4("198.18.0.2", 0, 4789, &vxlan(5002), &frame));
    assert_eq!(outcome.verdict, ToPort);
    assert_eq!(macs(&net), [4096, 1]);
}

#[test]
fn a_full_table_learns_nothing_new() {
    let full = overlane_pipeline::State::MAX_LEARNED;
    let mut net = with_limits(|port| match port {
        "a1" => Some(300_000),
        "a2" => Some(1),
        _ => None,
    });
    let address = |n: usize| {
        let [_, a, b, c] = (n as u32).to_be_bytes();
        format!("06:00:00:{a:02x}:{b:02x}:{c:02x}")
    };
    let mut packet = overlane_pipeline::Packet::new(eth(&address(0), B1, 0x1234, &[]));
    for n in 0..full as u32 {
        packet.bytes[8..12].copy_from_slice(&n.to_be_bytes());
        net.host.decide(&mut net.state, 0, &port("v1"), &packet);
    }
    assert_eq!(net.state.learned().len(), full);
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), MacLimit);
    assert_eq!(speak(&mut net, "v2", &guest(1), B1), MacLimit);
    let frame = eth(&guest(2), A1, 0x1234, &[]);
    assert_eq!(net.on_uplink(from_h2(&frame)).verdict, ToPort);
    assert_eq!(net.state.learned().len(), full);
    assert_eq!(macs(&net), [full as u32]);
    // What is there may move, and old entries make room.
    assert_eq!(speak(&mut net, "v2", &address(7), B1), Encap);
    assert_eq!(macs(&net), [full as u32 - 1, 1]);
    let frame = eth(&address(8), A1, 0x1234, &[]);
    assert_eq!(net.on_uplink(from_h2(&frame)).verdict, ToPort);
    assert_eq!(macs(&net), [1, full as u32 - 2, 1]);
    net.now_ns = 11 * SECOND;
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    assert_eq!(net.state.learned().len(), 1);
}
