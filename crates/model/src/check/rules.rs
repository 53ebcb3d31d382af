//! Rules that can never do what they say, and too many of them.

use std::collections::HashMap;

use super::{quoted, references};
use crate::decode::{Draft, PeerDraft, PortDraft, RuleDraft};
use crate::diagnostic::Sink;
use crate::meaning::{Meaning, Meanings};
use crate::render::printable;
use crate::tables::FirewallTable;

pub(super) fn rules(draft: &Draft<'_>, sink: &mut Sink) {
    references::clashes(draft, sink);
    silent_peers(draft, sink);
    too_many(draft, sink);
}

/// A port without addresses as a peer: the rule would look as if it knew its packets.
fn silent_peers(draft: &Draft<'_>, sink: &mut Sink) {
    let ports = draft.ports.iter().map(|port| (port.name.text, port));
    let ports: HashMap<&str, &PortDraft<'_>> = ports.collect();
    let peers = draft.rules.iter().filter_map(|rule| rule.peers.as_ref());
    for peer in peers.flatten() {
        let PeerDraft::Name(name) = peer else {
            continue;
        };
        let Some(port) = ports.get(name.value) else {
            continue;
        };
        if port.addresses.is_empty() {
            let message = format!(
                "{} has no addresses to know its packets by",
                quoted("port", &port.name)
            );
            let help = "add `addresses` to the port, or write its network instead";
            sink.error(name.at, message, help);
        }
    }
}

/// A host's table has room for so many rules that name one of its ports.
fn too_many(draft: &Draft<'_>, sink: &mut Sink) {
    if draft.rules.len() <= FirewallTable::MAX_RULES {
        return;
    }
    let hosts = Hosts::new(draft);
    let meanings = Meanings::new(draft);
    // Of each host: how many rules, and the last that was counted.
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for (number, rule) in draft.rules.iter().enumerate() {
        for &host in rule_hosts(rule, &meanings, &hosts) {
            let (count, last) = counts.entry(host).or_insert((0, usize::MAX));
            if *last == number {
                continue;
            }
            *last = number;
            *count += 1;
            if *count > FirewallTable::MAX_RULES {
                let most = FirewallTable::MAX_RULES;
                let message = format!(
                    "more than {most} rules name ports of host `{}`",
                    printable(host)
                );
                let help = "join rules: one may have many ports, peers and services";
                sink.error(rule.name.at, message, help);
                // One host is enough, and counting on would cost more than the file is long.
                return;
            }
        }
    }
}

/// The hosts of a rule's ports; one of them perhaps more than once.
fn rule_hosts<'a>(
    rule: &'a RuleDraft<'_>,
    meanings: &'a Meanings<'_>,
    hosts: &'a Hosts<'_>,
) -> impl Iterator<Item = &'a &'a str> {
    let sets = rule
        .ports
        .iter()
        .filter_map(|name| hosts.0.get(&meanings.ports(name.value)?));
    sets.flatten()
}

/// The hosts of the ports that a rule may name together.
struct Hosts<'d>(HashMap<Meaning<'d>, Vec<&'d str>>);

impl<'d> Hosts<'d> {
    fn new(draft: &'d Draft<'_>) -> Self {
        let mut sets: HashMap<Meaning<'d>, Vec<&'d str>> = HashMap::new();
        let mut of_port: HashMap<&str, &'d str> = HashMap::new();
        for port in &draft.ports {
            let (Some(host), Some(switch)) = (port.host, port.switch) else {
                continue;
            };
            of_port.insert(port.name.text, host.value);
            sets.insert(Meaning::Port(port.name.text), vec![host.value]);
            sets.entry(Meaning::Switch(switch.value))
                .or_default()
                .push(host.value);
        }
        for group in &draft.groups {
            let ports = group.ports.iter();
            let hosts = ports.filter_map(|port| of_port.get(port.value).copied());
            sets.insert(Meaning::Group(group.name.text), hosts.collect());
        }
        for hosts in sets.values_mut() {
            hosts.sort_unstable();
            hosts.dedup();
        }
        Self(sets)
    }
}
