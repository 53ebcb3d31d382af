//! The classifier against a linear search through the rules.

use std::net::{IpAddr, Ipv6Addr};

use overlane_wire::Vni;
use proptest::prelude::*;

use super::*;
use crate::names::Name;
use crate::sizes;
use crate::tables::Action;

fn switch() -> SwitchId {
    SwitchId::Vni(Vni::new(5001).unwrap())
}

fn key(number: u16) -> PortKey {
    PortKey::new(number).unwrap()
}

fn rule(ports: &[u16], peers: Option<&[&str]>, services: Option<Vec<Service>>) -> RuleTable {
    RuleTable {
        name: Name::new("r").unwrap(),
        line: 1,
        priority: 1000,
        direction: Direction::ToPort,
        ports: ports
            .iter()
            .map(|&number| (switch(), key(number)))
            .collect(),
        peers: peers.map(|peers| peers.iter().map(|peer| peer.parse().unwrap()).collect()),
        services,
        action: Action::Allow,
        log: false,
    }
}

fn classifier(rules: Vec<RuleTable>) -> Classifier {
    Classifier::new(&FirewallTable { rules, version: 0 }).unwrap()
}

/// What a packet asks with.
#[derive(Debug, Clone, Copy)]
struct Packet {
    port: u16,
    direction: Direction,
    peer: IpAddr,
    protocol: u8,
    /// Destination port, or type and code; none: it has none.
    service: Option<u16>,
}

impl Classifier {
    /// As the programs look: three entries by their longest prefix, then the first common bit.
    fn find(&self, packet: &Packet) -> Option<usize> {
        let asked = peer_prefix(packet.peer.into());
        let addr = |prefix: &PeerPrefix| prefix.addr;
        let peers = self.peers.iter().filter(|(prefix, _)| {
            prefix.family == asked.family
                && contains((addr(prefix), prefix.bits), (addr(&asked), asked.bits))
        });
        let peer = peers.max_by_key(|(prefix, _)| prefix.bits);
        let services = self
            .services
            .iter()
            .filter_map(|&(prefix, set)| match prefix {
                ServicePrefix::Any => Some((0, set)),
                ServicePrefix::Protocol(protocol) => {
                    (protocol == packet.protocol).then_some((8, set))
                }
                ServicePrefix::Ports {
                    protocol,
                    port,
                    bits,
                } => {
                    let same = (port ^ packet.service?).leading_zeros() >= bits;
                    (protocol == packet.protocol && same).then_some((8 + bits, set))
                }
            });
        let service = services.max_by_key(|(bits, _)| *bits);
        let sets = [
            self.port(switch(), key(packet.port), packet.direction),
            peer?.1,
            service?.1,
        ];
        let [a, b, c] = sets.map(|set| &self.sets[set]);
        let words = a.iter().zip(b).zip(c).map(|((a, b), c)| a & b & c);
        let mut common = words.enumerate().filter(|(_, word)| *word != 0);
        common
            .next()
            .map(|(index, word)| index * BITS + word.trailing_zeros() as usize)
    }
}

fn linear(rules: &[RuleTable], packet: &Packet) -> Option<usize> {
    rules.iter().position(|rule| {
        let port = rule.ports.contains(&(switch(), key(packet.port)));
        let peer = rule.peers.as_ref();
        let service = rule.services.as_ref();
        port && rule.direction == packet.direction
            && peer.is_none_or(|peers| peers.iter().any(|network| network.contains(&packet.peer)))
            && service.is_none_or(|services| {
                services.iter().any(|service| {
                    let (protocol, range) = service.range();
                    protocol == packet.protocol
                        && range.is_none_or(|range| {
                            packet.service.is_some_and(|port| range.contains(&port))
                        })
                })
            })
    })
}

fn to_port(peer: &str, protocol: u8, service: Option<u16>) -> Packet {
    Packet {
        port: 7,
        direction: Direction::ToPort,
        peer: peer.parse().unwrap(),
        protocol,
        service,
    }
}

fn tcp(first: u16, last: u16) -> Service {
    Service::Ports {
        protocol: 6,
        first,
        last,
    }
}

#[test]
fn without_rules_there_is_nothing() {
    let empty = classifier(Vec::new());
    assert_eq!(empty.sets.len(), 1);
    assert!(empty.ports.is_empty() && empty.peers.is_empty() && empty.services.is_empty());
    assert_eq!(empty.find(&to_port("198.18.0.1", 6, Some(80))), None);
}

#[test]
fn the_first_rule_of_several_decides() {
    let rules = classifier(vec![
        rule(&[7], Some(&["198.18.0.0/16"]), Some(vec![tcp(80, 80)])),
        rule(&[7], Some(&["198.18.1.0/24"]), None),
        rule(&[7, 8], None, Some(vec![tcp(1, 1023)])),
    ]);
    let find = |peer, protocol, service| rules.find(&to_port(peer, protocol, service));
    assert_eq!(find("198.18.1.1", 6, Some(80)), Some(0));
    assert_eq!(find("198.18.1.1", 6, Some(81)), Some(1));
    assert_eq!(find("198.18.2.1", 6, Some(81)), Some(2));
    assert_eq!(find("2001:2::1", 6, Some(81)), Some(2));
    assert_eq!(find("198.18.2.1", 17, Some(81)), None);
    let from = Packet {
        direction: Direction::FromPort,
        ..to_port("198.18.1.1", 6, Some(80))
    };
    assert_eq!(rules.find(&from), None);
}

#[test]
fn what_has_no_port_matches_no_rule_with_ports() {
    let all = classifier(vec![rule(&[7], None, Some(vec![tcp(0, 65535)]))]);
    assert_eq!(all.find(&to_port("198.18.0.1", 6, Some(0))), Some(0));
    assert_eq!(all.find(&to_port("198.18.0.1", 6, Some(65535))), Some(0));
    assert_eq!(all.find(&to_port("198.18.0.1", 6, None)), None);
    let protocol = classifier(vec![rule(&[7], None, Some(vec![Service::Protocol(6)]))]);
    assert_eq!(protocol.find(&to_port("198.18.0.1", 6, None)), Some(0));
    assert_eq!(protocol.find(&to_port("198.18.0.1", 6, Some(9))), Some(0));
}

#[test]
fn ranges_become_as_few_prefixes_as_can_be() {
    assert_eq!(port_prefixes(&(80..=80)), [(80, 16)]);
    assert_eq!(port_prefixes(&(8000..=8007)), [(8000, 13)]);
    assert_eq!(port_prefixes(&(0..=65535)), [(0, 1), (32768, 1)]);
    assert_eq!(port_prefixes(&(65535..=65535)), [(65535, 16)]);
    assert_eq!(
        port_prefixes(&(1..=6)),
        [(1, 16), (2, 15), (4, 15), (6, 16)]
    );
}

#[test]
fn families_are_kept_apart() {
    let rules = classifier(vec![
        rule(&[7], Some(&["0.0.0.0/0"]), None),
        rule(&[7], Some(&["::/0"]), None),
    ]);
    assert_eq!(rules.find(&to_port("198.18.0.1", 6, Some(1))), Some(0));
    assert_eq!(rules.find(&to_port("2001:2::1", 6, Some(1))), Some(1));
}

#[test]
fn equal_sets_are_one_and_entries_that_say_nothing_new_are_left_out() {
    let rules = classifier(vec![
        rule(&[7, 8], Some(&["198.18.0.0/16", "198.18.1.0/24"]), None),
        rule(&[8], Some(&["198.18.2.0/24"]), None),
    ]);
    // Peers of the first, and of both; ports 7 (as the first of these) and 8 (as the second); all services.
    assert_eq!(rules.sets.len(), 3);
    assert_eq!(rules.peers.len(), 2);
    assert_eq!(
        rules.port(switch(), key(7), Direction::ToPort),
        rules.peers[0].1
    );
}

#[test]
fn too_much_is_an_error_that_says_what() {
    let many = vec![rule(&[7], None, None); sizes::MAX_RULES + 1];
    let refused = Classifier::new(&FirewallTable {
        rules: many,
        version: 0,
    });
    let error = refused.unwrap_err();
    assert_eq!(
        error.to_string(),
        "table rules needs 10241 entries and holds 10240"
    );
    assert!(error.size.help().contains("fewer rules"));
    let base = u128::from("2001:2::".parse::<Ipv6Addr>().unwrap());
    let networks = (0..=sizes::MAX_RULE_PREFIXES as u128)
        .map(|number| IpNet::from(IpAddr::V6(Ipv6Addr::from(base + number))));
    let rules = vec![RuleTable {
        peers: Some(networks.collect()),
        ..rule(&[7], None, None)
    }];
    let error = Classifier::new(&FirewallTable { rules, version: 0 }).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("table rule_peers needs 262145")
    );
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    // Few different ones, so that networks contain each other.
    prop_oneof![
        (0u8..4, 0u8..4).prop_map(|(a, b)| IpAddr::from([198, 18, a * 64, b * 64])),
        (0u16..4, 0u16..4).prop_map(|(a, b)| IpAddr::from([0x2001, 2, a << 14, 0, 0, 0, 0, b])),
    ]
}

fn networks() -> impl Strategy<Value = IpNet> {
    (addresses(), 0u8..=8).prop_map(|(addr, shorter)| {
        let most = if addr.is_ipv4() { 32 } else { 128 };
        IpNet::new(addr, most - shorter * 4).unwrap().trunc()
    })
}

fn some_services() -> impl Strategy<Value = Service> {
    let protocol = prop_oneof![Just(6u8), Just(17)];
    prop_oneof![
        prop_oneof![Just(1u8), Just(6), Just(47)].prop_map(Service::Protocol),
        (protocol, 0u16..40, 0u16..40).prop_map(|(protocol, a, b)| Service::Ports {
            protocol,
            first: a.min(b),
            last: a.max(b),
        }),
        Just(tcp(0, 65535)),
        (0u8..4, proptest::option::of(0u8..3)).prop_map(|(kind, code)| Service::Icmp {
            protocol: 1,
            kind,
            code,
        }),
    ]
}

fn rules() -> impl Strategy<Value = Vec<RuleTable>> {
    let one = (
        proptest::collection::vec(1u16..4, 1..3),
        any::<bool>(),
        proptest::option::of(proptest::collection::vec(networks(), 1..4)),
        proptest::option::of(proptest::collection::vec(some_services(), 1..4)),
    );
    let one = one.prop_map(|(ports, is_to_port, peers, services)| RuleTable {
        direction: if is_to_port {
            Direction::ToPort
        } else {
            Direction::FromPort
        },
        peers,
        services,
        ..rule(&ports, None, None)
    });
    // More than one word of a set.
    proptest::collection::vec(one, 0..150)
}

fn packets() -> impl Strategy<Value = Packet> {
    (
        1u16..4,
        any::<bool>(),
        addresses(),
        prop_oneof![Just(1u8), Just(6), Just(17), Just(47)],
        proptest::option::of(prop_oneof![0u16..45, 0u16..1024, Just(65535)]),
    )
        .prop_map(|(port, is_to_port, peer, protocol, service)| Packet {
            port,
            direction: if is_to_port {
                Direction::ToPort
            } else {
                Direction::FromPort
            },
            peer,
            protocol,
            service,
        })
}

proptest! {
    #[test]
    fn it_finds_what_a_linear_search_finds(
        rules in rules(),
        packets in proptest::collection::vec(packets(), 60),
    ) {
        let classifier = classifier(rules.clone());
        for packet in &packets {
            prop_assert_eq!(classifier.find(packet), linear(&rules, packet), "{:?}", packet);
        }
    }

    #[test]
    fn prefixes_of_a_range_are_the_range(a in any::<u16>(), b in any::<u16>()) {
        let range = a.min(b)..=a.max(b);
        let mut covered = 0u32;
        for (port, bits) in port_prefixes(&range) {
            let size = 1u32 << (16 - bits);
            prop_assert_eq!(u32::from(port), u32::from(*range.start()) + covered);
            prop_assert!(u32::from(port).is_multiple_of(size) && bits >= 1);
            covered += size;
        }
        prop_assert_eq!(covered, u32::from(*range.end()) - u32::from(*range.start()) + 1);
    }
}
