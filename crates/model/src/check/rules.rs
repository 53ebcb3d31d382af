//! Rules that can never do what they say, and too many of them.

use std::collections::{BTreeSet, HashMap};

use super::{quoted, references};
use crate::decode::{Draft, PeerDraft, PortDraft, RuleDraft};
use crate::diagnostic::Sink;
use crate::fabric::Security;
use crate::meaning::{Meaning, Meanings};
use crate::render::printable;
use crate::sizes::MAX_RULES;
use crate::tables::Action;

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
        if !port.has_addresses() {
            let message = format!(
                "{} has no addresses to know its packets by",
                quoted("port", &port.name)
            );
            let help = "add `addresses` to the port, or write its network instead";
            sink.error(name.at, message, help);
        }
    }
}

/// A rule that drops by the name of a port does not stop it where it may use addresses that the fabric does not know.
pub(super) fn loose_peers(draft: &Draft<'_>, sink: &mut Sink) {
    let meanings = Meanings::new(draft);
    let loose = loose_ports(draft);
    for rule in &draft.rules {
        let action = rule.action.map(|action| action.value);
        if !matches!(action, Some(Action::Drop | Action::Reject)) {
            continue;
        }
        for peer in rule.peers.iter().flatten() {
            let PeerDraft::Name(name) = peer else {
                continue;
            };
            let Some(meaning) = meanings.ports(name.value) else {
                continue;
            };
            let Some([first, others @ ..]) = loose.get(&meaning).map(Vec::as_slice) else {
                continue;
            };
            let more = match others.len() {
                0 => String::new(),
                1 => ", nor 1 other port".to_owned(),
                more => format!(", nor {more} other ports"),
            };
            let message = format!(
                "{} does not stop {}, which may use addresses that the fabric does not know ({}){more}",
                quoted("rule", &rule.name),
                quoted("port", &first.port.name),
                first.reason
            );
            let help = "let the port use its own addresses only (`security: strict` with `addresses`, no `learning`), \
                        or write a rule that names it under `ports`";
            let said = format!("{} is here", quoted("port", &first.port.name));
            sink.warn(name.at, message, help, Some((first.port.name.at, said)));
        }
    }
}

/// A port that may use addresses that the fabric does not know.
#[derive(Clone, Copy)]
struct Loose<'d> {
    port: &'d PortDraft<'d>,
    reason: &'static str,
}

impl<'d> Loose<'d> {
    fn new(port: &'d PortDraft<'_>) -> Option<Self> {
        let reason = match port.security.map(|security| security.value) {
            Some(Security::Off) => "`security: off`",
            Some(Security::Mac) => "`security: mac`",
            Some(Security::Strict) | None if !port.has_addresses() => "it has no `addresses`",
            Some(Security::Strict) | None => {
                port.learning?;
                "it is a learning port"
            }
        };
        Some(Self { port, reason })
    }
}

/// By what a rule may call them.
fn loose_ports<'d>(draft: &'d Draft<'_>) -> HashMap<Meaning<'d>, Vec<Loose<'d>>> {
    let ports = draft.ports.iter().filter_map(Loose::new);
    let by_name: HashMap<&str, Loose<'d>> = ports
        .clone()
        .map(|loose| (loose.port.name.text, loose))
        .collect();
    let mut sets: HashMap<Meaning<'d>, Vec<Loose<'d>>> = HashMap::new();
    for loose in ports {
        // A port by its own name that has no addresses is an error.
        if loose.port.has_addresses() {
            sets.insert(Meaning::Port(loose.port.name.text), vec![loose]);
        }
        if let Some(switch) = loose.port.switch {
            sets.entry(Meaning::Switch(switch.value))
                .or_default()
                .push(loose);
        }
    }
    for group in &draft.groups {
        let names: BTreeSet<&str> = group.ports.iter().map(|port| port.value).collect();
        let members = names
            .into_iter()
            .filter_map(|name| by_name.get(name).copied());
        sets.insert(Meaning::Group(group.name.text), members.collect());
    }
    sets
}

/// A host's table has room for so many rules that name one of its ports.
fn too_many(draft: &Draft<'_>, sink: &mut Sink) {
    if draft.rules.len() <= MAX_RULES {
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
            if *count > MAX_RULES {
                let most = MAX_RULES;
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
