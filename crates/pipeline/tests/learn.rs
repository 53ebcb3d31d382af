//! Stage learn: limit, age, moves and sweeps of learning ports, and addresses behind remotes.

// Helpers of tests, which clippy does not take for tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use overlane_model::Verdict::{self, *};
use overlane_pipeline::{Host, LearnedPlace};

fn learning(a1: &'static str) -> Net {
    Net::with(With {
        a1,
        ..With::default()
    })
}

/// The MAC of guest `n` behind a learning port.
fn guest(n: u8) -> String {
    format!("02:00:00:00:77:{n:02x}")
}

fn speak(net: &mut Net, device: &str, source: &str, destination: &str) -> Verdict {
    net.verdict(device, eth(source, destination, 0x1234, &[0; 50]))
}

fn macs(net: &Net) -> Vec<u32> {
    net.state
        .learning()
        .values()
        .map(|port| port.macs)
        .collect()
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
    let mut tables = tables("h1", &With::default());
    for port in &mut tables.ports {
        port.learning = Some(overlane_model::Learning {
            limit: 1,
            age_s: 10,
        });
    }
    for switch in &mut tables.switches {
        switch.learn_age_s = Some(10);
    }
    let mut net = Net::new();
    net.host = Host::new(tables, 1500);
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
    assert_eq!(macs(&net), [1, 0]);
    assert_eq!(speak(&mut net, "v1", A1, &guest(1)), Encap);
    assert_eq!(speak(&mut net, "v2", &guest(1), B1), Encap);
    assert_eq!(macs(&net), [1, 1]);
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
fn a_full_table_learns_nothing_new() {
    let mut net = learning("learning: { limit: 65536, age: 10 }");
    let address = |n: u32| {
        let [_, a, b, c] = n.to_be_bytes();
        format!("06:00:00:{a:02x}:{b:02x}:{c:02x}")
    };
    let entry = overlane_pipeline::Entry::Underlay;
    let frame = eth(&address(0), A1, 0x1234, &[]);
    let mut packet = overlane_pipeline::Packet::new(from_h2(&frame));
    for n in 0..65_536_u32 {
        packet.bytes[58..62].copy_from_slice(&n.to_be_bytes());
        net.host.decide(&mut net.state, 0, &entry, &packet);
    }
    assert_eq!(net.state.learned().len(), 65_536);
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), MacLimit);
    assert_eq!(
        net.on_uplink(from_h2(&eth(&guest(2), A1, 0x1234, &[])))
            .verdict,
        ToPort
    );
    assert_eq!(net.state.learned().len(), 65_536);
    // What is there may move, and old entries make room.
    assert_eq!(speak(&mut net, "v1", &address(7), B1), Encap);
    net.now_ns = 11 * SECOND;
    assert_eq!(speak(&mut net, "v1", &guest(1), B1), Encap);
    assert!(net.state.learned().len() <= 2);
}
