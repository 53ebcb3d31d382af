//! The shape of what the fabric file says of the firewall: groups, networks, rules, and the default policies
//! of a switch.

use ipnet::IpNet;

use crate::decode::names_of;
use crate::diagnostic::Sink;
use crate::fabric::{NonIp, Policy, SwitchFirewall};
use crate::networks::{filled, is_numeric, list, network, service};
use crate::record::{Key, NameDraft, optional, record, required};
use crate::render::printable;
use crate::scalar::{Spanned, boolean, choice, integer, text};
use crate::tables::{Action, Direction, Service};
use crate::values::ether_type;
use crate::yaml::{Node, Value};

#[derive(Debug)]
pub(crate) struct GroupDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) ports: Vec<Spanned<&'n str>>,
}

#[derive(Debug)]
pub(crate) struct NetworkDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) networks: Vec<Spanned<IpNet>>,
}

#[derive(Debug)]
pub(crate) struct RuleDraft<'n> {
    pub(crate) name: NameDraft<'n>,
    pub(crate) ports: Vec<Spanned<&'n str>>,
    pub(crate) direction: Option<Spanned<Direction>>,
    pub(crate) action: Option<Spanned<Action>>,
    pub(crate) priority: Option<u16>,
    pub(crate) peers: Option<Vec<PeerDraft<'n>>>,
    pub(crate) services: Option<Vec<Service>>,
    pub(crate) log: bool,
}

/// One entry of `peers`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PeerDraft<'n> {
    Addresses(IpNet),
    Name(Spanned<&'n str>),
}

pub(super) const RULE: [Key; 7] = [
    required("ports", "ports: [web1]"),
    required("direction", "direction: to_port"),
    required("action", "action: allow"),
    optional("priority"),
    optional("peers"),
    optional("services"),
    optional("log"),
];
pub(super) const FIREWALL: [Key; 4] = [
    optional("from_port"),
    optional("to_port"),
    optional("when_full"),
    optional("non_ip"),
];

pub(super) fn group<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> GroupDraft<'n> {
    let what = format!("group `{}`", printable(name.text));
    let help = "write the names of ports in brackets: [web1, web2]";
    let ports = list(node, &what, help, sink);
    GroupDraft {
        name,
        ports: names_of(ports, "a port", sink),
    }
}

pub(super) fn networks<'n>(
    name: NameDraft<'n>,
    node: &'n Node,
    sink: &mut Sink,
) -> NetworkDraft<'n> {
    let what = format!("network `{}`", printable(name.text));
    let help = "write networks and addresses in brackets: [198.18.50.0/24, \"2001:2:0:50::/64\"]";
    let nodes = list(node, &what, help, sink).iter();
    NetworkDraft {
        name,
        networks: nodes
            .filter_map(|node| network(node, "a network", sink))
            .collect(),
    }
}

pub(super) fn rule<'n>(name: NameDraft<'n>, node: &'n Node, sink: &mut Sink) -> RuleDraft<'n> {
    let what = format!("rule `{}`", printable(name.text));
    let [ports, direction, action, priority, peers, services, log] =
        record(node, name.at, &what, &RULE, sink);
    RuleDraft {
        name,
        ports: ports.map_or_else(Vec::new, |node| {
            let help = "write the names of ports, groups or switches in brackets: [web1, db]";
            let nodes = filled(node, "`ports`", help, sink);
            names_of(nodes, "a port, group or switch", sink)
        }),
        direction: direction.and_then(|node| choice(node, "`direction`", &Direction::ALL, sink)),
        action: action.and_then(|node| choice(node, "`action`", &Action::ALL, sink)),
        priority: priority.and_then(|node| {
            let priority = integer(node, "`priority`", 0..=u32::from(u16::MAX), sink)?;
            u16::try_from(priority.value).ok()
        }),
        peers: peers.map(|node| peer_list(node, sink)),
        services: services.map(|node| service_list(node, sink)),
        log: log
            .and_then(|node| boolean(node, "`log`", sink))
            .is_some_and(|log| log.value),
    }
}

fn peer_list<'n>(node: &'n Node, sink: &mut Sink) -> Vec<PeerDraft<'n>> {
    let help = "write networks, addresses and names in brackets: [198.18.9.0/24, office, db]; \
                leave `peers` out for any";
    let nodes = filled(node, "`peers`", help, sink).iter();
    nodes
        .filter_map(|node| match &node.value {
            Value::Plain(text) | Value::Quoted(text) if is_numeric(text) => {
                let found = network(node, "a peer", sink)?;
                Some(PeerDraft::Addresses(found.value))
            }
            _ => {
                let help =
                    "write a network, an address, or the name of a network, group, port or switch";
                text(node, "a peer", help, sink).map(PeerDraft::Name)
            }
        })
        .collect()
}

fn service_list(node: &Node, sink: &mut Sink) -> Vec<Service> {
    let help = "write them in brackets: [tcp/80, udp]; leave `services` out for any";
    let nodes = filled(node, "`services`", help, sink).iter();
    nodes
        .filter_map(|node| Some(service(node, sink)?.value))
        .collect()
}

/// The default policies of a switch. A mistake in one has been reported and leaves the default.
pub(super) fn switch(node: &Node, switch: &str, sink: &mut Sink) -> SwitchFirewall {
    let what = format!("`firewall` of {switch}");
    let [from_port, to_port, when_full, non_ip_node] =
        record(node, node.at, &what, &FIREWALL, sink);
    let mut policy = |node: Option<&Node>, what, default| {
        let found = node.and_then(|node| choice(node, what, &Policy::ALL, sink));
        found.map_or(default, |found| found.value)
    };
    let default = SwitchFirewall::default();
    let from_port = policy(from_port, "`from_port`", default.from_port);
    let to_port = policy(to_port, "`to_port`", default.to_port);
    let when_full = policy(when_full, "`when_full`", default.when_full);
    let non_ip = non_ip_node.and_then(|node| non_ip(node, sink));
    SwitchFirewall {
        from_port,
        to_port,
        when_full,
        non_ip: non_ip.unwrap_or(match [from_port, to_port].contains(&Policy::Drop) {
            true => NonIp::Drop(Vec::new()),
            false => NonIp::Allow,
        }),
    }
}

/// `allow`, `drop`, or the EtherTypes that pass.
fn non_ip(node: &Node, sink: &mut Sink) -> Option<NonIp> {
    let nodes = match &node.value {
        Value::List(nodes) => nodes,
        Value::Plain(word) | Value::Quoted(word) if word == "allow" => return Some(NonIp::Allow),
        Value::Plain(word) | Value::Quoted(word) if word == "drop" => {
            return Some(NonIp::Drop(Vec::new()));
        }
        _ => {
            let message = "`non_ip` must be `allow`, `drop` or a list of EtherTypes".into();
            let help = "write `allow`, `drop`, or the EtherTypes that pass in brackets: [0x88cc]";
            sink.error(node.at, message, help);
            return None;
        }
    };
    let types: Vec<Option<u16>> = nodes.iter().map(|node| ether_type(node, sink)).collect();
    let mut types = types.into_iter().collect::<Option<Vec<_>>>()?;
    types.sort_unstable();
    let mut pairs = types.iter().zip(types.iter().skip(1));
    if let Some((twice, _)) = pairs.find(|(one, next)| one == next) {
        let message = format!("{twice:#06x} appears twice in `non_ip`");
        sink.error(node.at, message, "remove one of the two");
        return None;
    }
    if types.len() > NonIp::MOST {
        let message = format!("`non_ip` has {} EtherTypes", types.len());
        let help = format!("at most {} can pass; write `allow` for all", NonIp::MOST);
        sink.error(node.at, message, &help);
        return None;
    }
    Some(NonIp::Drop(types))
}
