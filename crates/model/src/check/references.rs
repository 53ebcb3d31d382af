//! Names that must be declared elsewhere in the file. A name whose declaration has mistakes still counts as
//! known.

use std::collections::HashSet;

use super::quoted;
use crate::decode::{Draft, PeerDraft};
use crate::diagnostic::Sink;
use crate::meaning::Meanings;
use crate::render::{listed, printable};
use crate::scalar::Spanned;

/// The names of one kind.
struct Known<'d> {
    kind: &'static str,
    plural: &'static str,
    names: Vec<&'d str>,
    set: HashSet<&'d str>,
}

impl<'d> Known<'d> {
    fn new(kind: &'static str, plural: &'static str, names: impl Iterator<Item = &'d str>) -> Self {
        let names: Vec<&str> = names.collect();
        let set = names.iter().copied().collect();
        Self {
            kind,
            plural,
            names,
            set,
        }
    }

    /// Reports a name that is none of these.
    fn look_up(&self, wanted: Option<Spanned<&str>>, sink: &mut Sink) {
        let Some(wanted) = wanted.filter(|wanted| !self.set.contains(wanted.value)) else {
            return;
        };
        let (kind, plural) = (self.kind, self.plural);
        let names = || self.names.iter().copied();
        let message = format!("there is no {kind} `{}`", printable(wanted.value));
        let help = sink.suggest(wanted.value, names(), || {
            Some(if self.names.is_empty() {
                format!("declare it under `{plural}`")
            } else {
                format!("the {plural} are: {}", printable(&listed(names())))
            })
        });
        sink.report(wanted.at, message, help);
    }
}

pub(super) fn references(draft: &Draft<'_>, sink: &mut Sink) {
    let hosts = draft.hosts.iter().map(|host| host.name.text);
    let hosts = Known::new("host", "hosts", hosts);
    let switches = draft.switches.iter().map(|switch| switch.name.text);
    let switches = Known::new("switch", "switches", switches);
    let ports = draft.ports.iter().map(|port| port.name.text);
    let ports = Known::new("port", "ports", ports);
    for port in &draft.ports {
        switches.look_up(port.switch, sink);
        hosts.look_up(port.host, sink);
    }
    for group in &draft.groups {
        for &port in &group.ports {
            ports.look_up(Some(port), sink);
        }
    }
    for router in &draft.routers {
        for interface in &router.interfaces {
            let switch = &interface.switch;
            // A text that is no name has been reported.
            let switch = switch
                .name
                .is_some()
                .then(|| Spanned::new(switch.text, switch.at));
            switches.look_up(switch, sink);
        }
        let gateway = router.gateway.as_ref();
        hosts.look_up(gateway.and_then(|gateway| gateway.host), sink);
    }
    in_rules(draft, sink);
}

fn in_rules(draft: &Draft<'_>, sink: &mut Sink) {
    let meanings = Meanings::new(draft);
    for rule in &draft.rules {
        for &name in &rule.ports {
            port_set(name, &meanings, false, sink);
        }
        for peer in rule.peers.iter().flatten() {
            if let PeerDraft::Name(name) = *peer {
                port_set(name, &meanings, true, sink);
            }
        }
    }
}

/// A name of ports, and among peers of a network.
fn port_set(name: Spanned<&str>, meanings: &Meanings<'_>, peer: bool, sink: &mut Sink) {
    let shown = printable(name.value);
    let is_network = meanings.networks.contains(name.value);
    if meanings.ports.contains(name.value) && meanings.switches.contains(name.value) {
        let message = format!("`{shown}` is a port and a switch");
        let help = "rename one of the two, or name the port by a group";
        sink.error(name.at, message, help);
        return;
    }
    if meanings.ports(name.value).is_some() || (peer && is_network) {
        return;
    }
    if is_network {
        let message = format!("`{shown}` is a network, not a port, group or switch");
        sink.error(name.at, message, "networks belong in `peers`");
        return;
    }
    let kinds = if peer {
        "network, group, port or switch"
    } else {
        "port, group or switch"
    };
    let message = format!("there is no {kinds} `{shown}`");
    let sets = [&meanings.groups, &meanings.ports, &meanings.switches];
    let networks = peer.then_some(&meanings.networks);
    let known = sets.into_iter().chain(networks).flatten().copied();
    let help = sink.suggest(name.value, known, || {
        Some(if peer {
            "write the name of one that the file declares, a network like 198.18.9.0/24, or an address".into()
        } else {
            "write the name of one that the file declares".into()
        })
    });
    sink.report(name.at, message, help);
}

/// Rules name groups, networks, ports and switches alike: a name must not mean two of them. (Ports and
/// switches may share names, which only matters where a rule uses such a name.)
pub(super) fn clashes(draft: &Draft<'_>, sink: &mut Sink) {
    let mut all: Vec<(&crate::record::NameDraft<'_>, &str, bool)> = Vec::new();
    all.extend(
        draft
            .switches
            .iter()
            .map(|one| (&one.name, "switch", false)),
    );
    all.extend(draft.ports.iter().map(|one| (&one.name, "port", false)));
    all.extend(draft.groups.iter().map(|one| (&one.name, "group", true)));
    all.extend(
        draft
            .networks
            .iter()
            .map(|one| (&one.name, "network", true)),
    );
    let mut seen = std::collections::HashMap::new();
    for (name, kind, exclusive) in all {
        let (first, first_kind) = *seen.entry(name.text).or_insert((name, kind));
        if !exclusive || std::ptr::eq(first, name) {
            continue;
        }
        let shown = printable(name.text);
        let message =
            format!("`{shown}` is a {first_kind} and a {kind}, and rules could mean both");
        let said = [
            format!("{} is here", quoted(first_kind, first)),
            format!("{} is here", quoted(kind, name)),
        ];
        let places = [(first.at, said[0].as_str()), (name.at, said[1].as_str())];
        sink.disagreement(places, message, "give one of the two another name");
    }
}
