//! Groups, networks and rules of a draft in which nothing is missing.

use crate::decode::{Draft, GroupDraft, NetworkDraft, PeerDraft, RuleDraft};
use crate::fabric::{Group, Network, Peer, PortSet, Rule};
use crate::meaning::Meanings;
use crate::names::Name;

/// In order, each once.
fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list.dedup();
    list
}

pub(super) fn group(draft: &GroupDraft<'_>) -> Option<Group> {
    let ports = draft.ports.iter().map(|port| Name::new(port.value).ok());
    Some(Group {
        name: draft.name.name.clone()?,
        ports: sorted(ports.collect::<Option<_>>()?),
        line: draft.name.at.line,
    })
}

pub(super) fn network(draft: &NetworkDraft<'_>) -> Option<Network> {
    Some(Network {
        name: draft.name.name.clone()?,
        networks: sorted(draft.networks.iter().map(|at| at.value).collect()),
        line: draft.name.at.line,
    })
}

/// In the order in which they are tried.
pub(super) fn rules(draft: &Draft<'_>) -> Option<Vec<Rule>> {
    let meanings = Meanings::new(draft);
    let rules = draft.rules.iter().map(|draft| rule(draft, &meanings));
    let mut rules = rules.collect::<Option<Vec<_>>>()?;
    // Stable: of equals the one that comes first in the file, even where all of it is one line.
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    Some(rules)
}

fn rule(draft: &RuleDraft<'_>, meanings: &Meanings<'_>) -> Option<Rule> {
    let ports = draft.ports.iter().map(|name| ports(name.value, meanings));
    let peers = draft.peers.as_ref().map(|list| {
        let peers = list.iter().map(|&draft| peer(draft, meanings));
        peers.collect::<Option<Vec<_>>>()
    });
    let peers = match peers {
        None => None,
        Some(list) => Some(sorted(list?)),
    };
    Some(Rule {
        name: draft.name.name.clone()?,
        ports: sorted(ports.collect::<Option<_>>()?),
        direction: draft.direction?.value,
        action: draft.action?.value,
        priority: draft.priority.unwrap_or(Rule::PRIORITY),
        peers,
        services: draft.services.clone().map(sorted),
        log: draft.log,
        line: draft.name.at.line,
    })
}

fn ports(name: &str, meanings: &Meanings<'_>) -> Option<PortSet> {
    meanings.ports(name)?.port_set()
}

fn peer(draft: PeerDraft<'_>, meanings: &Meanings<'_>) -> Option<Peer> {
    Some(match draft {
        PeerDraft::Addresses(network) => Peer::Addresses(network),
        PeerDraft::Name(name) if meanings.networks.contains(name.value) => {
            Peer::Network(Name::new(name.value).ok()?)
        }
        PeerDraft::Name(name) => Peer::Ports(ports(name.value, meanings)?),
    })
}
