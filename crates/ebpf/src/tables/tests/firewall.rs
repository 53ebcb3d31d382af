//! Rules as map entries, and how they change while packets use them.

use overlane_model::{
    Action, Asks, Direction, FirewallTable, Name, PortFirewall, RuleTable, Service, SwitchId,
};
use overlane_wire::{PortKey, Vni};

use super::*;
use crate::abi::firewall as fw;

fn rule(name: &str, action: Action, peers: &str) -> RuleTable {
    let blue = SwitchId::Vni(Vni::new(5001).unwrap());
    RuleTable {
        name: Name::new(name).unwrap(),
        line: 1,
        priority: 1000,
        direction: Direction::ToPort,
        ports: vec![(blue, PortKey::new(7).unwrap())],
        peers: Some(vec![peers.parse().unwrap()]),
        services: Some(vec![Service::Ports {
            protocol: 6,
            first: 80,
            last: 81,
        }]),
        action,
        log: true,
    }
}

pub(super) fn firewall() -> FirewallTable {
    FirewallTable {
        rules: vec![
            rule("first", Action::Reject, "198.18.0.0/16"),
            rule("second", Action::Allow, "2001:2::/64"),
        ],
        version: 77,
    }
}

fn with_firewall(firewall: FirewallTable) -> Tables {
    let mut tables = tables();
    tables.firewall = firewall;
    let web1 = tables.ports.iter_mut().find(|port| port.key.get() == 7);
    web1.unwrap().firewall = Some(PortFirewall {
        drop_from_port: false,
        drop_to_port: true,
        allow_when_full: true,
        drop_non_ip: true,
        asks_from_port: Asks::default(),
        asks_to_port: Asks {
            protocol: true,
            ports: true,
        },
    });
    tables
}

fn web1(contents: &Contents) -> abi::Port {
    value(contents, Table::Ports, &port_id(3, 0))
}

fn generations(contents: &Contents, table: Table) -> Vec<u8> {
    let keys = contents[&table].keys();
    keys.filter_map(|key| rules::key_generation(key)).collect()
}

#[test]
fn rules_become_numbers() {
    let contents = encode(&with_firewall(firewall()), &devices()).unwrap();
    let port = web1(&contents);
    let asked = abi::PORT_ASKS_PROTOCOL_TO | abi::PORT_ASKS_PORTS_TO;
    let policies = abi::PORT_DROP_TO | abi::PORT_ALLOW_WHEN_FULL | abi::PORT_DROP_NON_IP;
    let expected = abi::PORT_FIREWALL | policies | asked;
    let others = 0b11_1111 | abi::PORT_TAKES_NO_MARK;
    assert_eq!(port.flags & !others, expected);
    assert_eq!(port.rules_from, 0);
    let set: fw::RuleSet = value(&contents, Table::RuleSets, &port.rules_to);
    assert_eq!((set.summary[0], set.words[0]), (1, 0b11));
    let peer = fw::RulePeerKey {
        prefixlen: 32 + 96 + 16,
        generation: 0,
        family: 4,
        pad: 0,
        addr: IpAddr::from([198, 18, 0, 0]).into(),
    };
    let number: u32 = value(&contents, Table::RulePeers, &peer);
    let set: fw::RuleSet = value(&contents, Table::RuleSets, &number);
    assert_eq!(set.words[0], 0b01);
    let service = fw::RuleServiceKey {
        prefixlen: 16 + 15,
        generation: 0,
        protocol: 6,
        port: [0, 80],
    };
    let number: u32 = value(&contents, Table::RuleServices, &service);
    // The same rules as those of the port: the same set.
    assert_eq!(number, port.rules_to);
    let rule: fw::Rule = value(&contents, Table::Rules, &0u32);
    assert_eq!((rule.action, rule.flags), (fw::RULE_REJECT, fw::RULE_LOG));
    let settings: abi::Settings = value(&contents, Table::Settings, &0u32);
    assert_eq!(settings.rules_version, 77);
}

#[test]
fn a_set_says_which_of_its_words_have_rules() {
    let mut words = vec![0; 130];
    (words[0], words[65], words[129]) = (1, 1 << 63, 5);
    let set = rules::set_entry(&words);
    assert_eq!(set.summary, [1, 1 << 1, 1 << 1]);
    assert_eq!(
        [set.words[0], set.words[65], set.words[129]],
        [1, 1 << 63, 5]
    );
    assert!(set.words[130..].iter().all(|word| *word == 0));
}

#[test]
fn ports_without_firewall_have_no_flag_of_it() {
    let contents = encode(&tables(), &devices()).unwrap();
    assert_eq!(web1(&contents).flags & abi::PORT_FIREWALL, 0);
    assert!(contents[&Table::RuleSets].is_empty());
}

#[test]
fn the_same_rules_again_are_the_same_entries() {
    let before = encode(&with_firewall(firewall()), &devices()).unwrap();
    let again = encode_beside(&with_firewall(firewall()), &devices(), &before).unwrap();
    assert_eq!(again, before);
}

#[test]
fn other_rules_are_written_beside_those_in_use() {
    let first = encode(&with_firewall(firewall()), &devices()).unwrap();
    let mut changed = firewall();
    changed
        .rules
        .insert(0, rule("new", Action::Drop, "198.18.9.0/24"));
    let changed = with_firewall(changed);
    let second = encode_beside(&changed, &devices(), &first).unwrap();
    // No key of peers and services is in both, and no set changes.
    for table in [Table::RulePeers, Table::RuleServices] {
        assert!(generations(&first, table).iter().all(|&odd| odd == 0));
        assert!(generations(&second, table).iter().all(|&odd| odd == 1));
        assert!(!second[&table].is_empty());
    }
    for (number, set) in &second[&Table::RuleSets] {
        let old = first[&Table::RuleSets].get(number);
        assert!(old.is_none_or(|old| old == set));
    }
    assert_ne!(web1(&second).flags & abi::PORT_RULES_ODD, 0);
    let number = rule_number(1, 0);
    assert_eq!(number as usize, fw::MAX_RULES);
    let rule: fw::Rule = value(&second, Table::Rules, &number);
    assert_eq!(rule.action, fw::RULE_DROP);
    // And back, over what the second left behind.
    let mut both = second.clone();
    for (table, entries) in first.clone() {
        for (key, value) in entries {
            both.entry(table).or_default().entry(key).or_insert(value);
        }
    }
    let third = encode_beside(&with_firewall(firewall()), &devices(), &both).unwrap();
    assert_eq!(web1(&third).flags & abi::PORT_RULES_ODD, 0);
    let kept = encode_beside(&changed, &devices(), &both).unwrap();
    assert_eq!(kept, second);
}

#[test]
fn another_port_of_a_rule_leaves_peers_and_services_alone() {
    let first = encode(&with_firewall(firewall()), &devices()).unwrap();
    let mut changed = firewall();
    changed.rules[1].ports.clear();
    let second = encode_beside(&with_firewall(changed), &devices(), &first).unwrap();
    assert_eq!(web1(&second).flags & abi::PORT_RULES_ODD, 0);
    assert_eq!(second[&Table::RulePeers], first[&Table::RulePeers]);
    assert_ne!(web1(&second).rules_to, web1(&first).rules_to);
}
